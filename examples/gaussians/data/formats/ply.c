// SPDX-License-Identifier: MIT
// Scenes as PLY files with the property names of the original program: x y z, nx ny nz, f_dc_*, f_rest_* (all of red,
// then green, then blue), opacity (logit), scale_* (logarithm), rot_* (w x y z). Axes as in COLMAP. And points.
//
// Read are files that are binary little-endian or ASCII and have the vertex element first. Properties may have any
// number type and any order; others are skipped. The number of f_rest_* gives the SH degree: 0, 9, 24 or 45 of them.
// Bytes red, green, blue may stand for f_dc_*. The header line "comment SplatRenderMode: mip", as Brush writes it, or
// "comment splat antialiased" sets antialias; "comment dsplat_holdout N", "comment dsplat_background R,G,B" and
// "comment dsplat_offset X,Y,Z" are scene_notes. Written are floats, normals as 0.
//
// And compressed scenes of PlayCanvas, which are only read: a "chunk" holds the bounds of 256 vertices, which are four words
// each; then, or not, come coefficients of a byte.
#include "arrays.h"
#include "formats/formats.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum { BLOCK = 1 << 16, MOST_COLUMNS = 59, AXES = 3 }; // BLOCK: bytes of vertices read at once

// A property of a scene's vertices, and which float it is of a Gaussian.
typedef struct column {
    char name[16];
    int array, offset; // in gs_arrays; in its row
} column;

// Lists the columns of a scene in the order that they are written in; normals, which are none, follow the first three.
static int list_columns(int sh_degree, column out[MOST_COLUMNS]) {
    const int rest = coefficients(sh_degree) - 1;
    const struct {
        const char *name;
        int array, first, count;
    } kinds[] = {{"x", 0, 0, 1},
                 {"y", 0, 1, 1},
                 {"z", 0, 2, 1},
                 {"f_dc_", 4, 0, GS_CHANNELS},
                 {"f_rest_", 4, GS_CHANNELS, GS_CHANNELS * rest},
                 {"opacity", 3, 0, 1},
                 {"scale_", 1, 0, 3},
                 {"rot_", 2, 0, 4}};
    column *next = out;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int k = 0; k < kinds[i].count; k++, next++) {
            // The file has all of red, then green, then blue; a Gaussian interleaves them.
            const int place = kinds[i].count > 4 ? k % rest * GS_CHANNELS + k / rest : k;
            *next = (column){.array = kinds[i].array, .offset = kinds[i].first + place};
            char number[12] = "";
            if (kinds[i].count > 1) snprintf(number, sizeof number, "%d", k);
            snprintf(next->name, sizeof next->name, "%s%s", kinds[i].name, number);
        }
    return (int)(next - out);
}

// ---- headers

enum { PLY_PROPERTIES = 1024, PLY_ELEMENTS = 16 };

typedef struct ply_type {
    const char *name, *other_name;
    size_t size;
    bool has_sign, is_real;
} ply_type;

static const ply_type types[] = {{"float", "float32", 4, true, true}, {"double", "float64", 8, true, true},
                                 {"char", "int8", 1, true, false},    {"uchar", "uint8", 1, false, false},
                                 {"short", "int16", 2, true, false},  {"ushort", "uint16", 2, false, false},
                                 {"int", "int32", 4, true, false},    {"uint", "uint32", 4, false, false}};

typedef struct ply_property {
    char name[40];
    const ply_type *type;
    size_t offset; // in a row
} ply_property;

typedef struct ply_element {
    char name[40];
    uint64_t count; // rows
    size_t stride;  // bytes of a row; those of ASCII files are doubles
    int first, end; // properties
    bool has_list;  // then its stride is not known
} ply_element;

typedef struct ply_header {
    int elements, properties;
    ply_element element[PLY_ELEMENTS];
    ply_property property[PLY_PROPERTIES];
    bool ascii, antialiased;
    scene_notes notes;
    record_place end; // its last line
} ply_header;

// Moves to the next line of the header, behind which the file goes on unless it is the last.
static bool next_line(input_file *file, fault *why) {
    char past;
    if (!input_file_next_line(file, why)) return false;
    return (file->line && (file->offset < file->size || strcmp(file->line, "end_header") == 0)) ||
           input_file_read(file, &past, 1, "the PLY header", why); // says that it ends
}

// NULL: the element has no such property.
static const ply_property *ply_find(const ply_header *h, const ply_element *e, const char *name) {
    for (int p = e->first; p < e->end; p++)
        if (strcmp(h->property[p].name, name) == 0) return &h->property[p];
    return NULL;
}

// "element NAME COUNT"
static bool read_element(ply_header *h, char *const word[3], fault *why) {
    char *end;
    if (h->elements == PLY_ELEMENTS) return fail_at(why, &h->end, "more than %d elements", PLY_ELEMENTS);
    ply_element *const e = &h->element[h->elements++];
    *e = (ply_element){.first = h->properties, .end = h->properties};
    snprintf(e->name, sizeof e->name, "%s", word[1]);
    errno = 0;
    e->count = strtoull(word[2], &end, 10);
    return (*end == '\0' && isdigit((unsigned char)word[2][0]) && errno != ERANGE) ||
           fail_at(why, &h->end, "'%.40s' is not a number of rows of the element '%s'", word[2], e->name);
}

// "property TYPE NAME" of the last element. Numbers of ASCII files become doubles.
static bool read_property(ply_header *h, char *const word[3], int words, fault *why) {
    ply_element *const e = &h->element[h->elements - 1];
    if (strcmp(word[1], "list") == 0) return e->has_list = true;
    const ply_type *type = NULL;
    for (const ply_type *t = types; t < types + sizeof types / sizeof *types; t++)
        if (strcmp(t->name, word[1]) == 0 || strcmp(t->other_name, word[1]) == 0) type = t;
    if (words != 3) return fail_at(why, &h->end, "malformed property");
    if (!type) return fail_at(why, &h->end, "a property of type '%.40s': not a PLY number type", word[1]);
    if (h->properties == PLY_PROPERTIES)
        return fail_at(why, &h->end, "more than %d properties", PLY_PROPERTIES);
    if (ply_find(h, e, word[2])) return fail_at(why, &h->end, "property '%.40s' occurs twice", word[2]);
    ply_property *const p = &h->property[h->properties++];
    *p = (ply_property){.type = type, .offset = e->stride};
    snprintf(p->name, sizeof p->name, "%s", word[2]);
    e->end = h->properties;
    e->stride += h->ascii ? sizeof(double) : type->size;
    return true;
}

static void read_comment(ply_header *h, const char *name, const char *value) {
    scene_notes *const notes = &h->notes;
    float *const b = notes->background;
    double *const o = notes->offset;
    int end = 0;
    h->antialiased |= (strcmp(name, "SplatRenderMode:") == 0 && strcmp(value, "mip") == 0) ||
                      (strcmp(name, "splat") == 0 && strcmp(value, "antialiased") == 0);
    if (strcmp(name, "dsplat_holdout") == 0)
        notes->known = sscanf(value, "%" SCNd64 "%n", &notes->holdout, &end) == 1 && value[end] == 0 &&
                       notes->holdout >= 0;
    if (strcmp(name, "dsplat_background") == 0 && sscanf(value, "%f,%f,%f", &b[0], &b[1], &b[2]) != 3)
        notes->known = false;
    if (strcmp(name, "dsplat_offset") == 0 && sscanf(value, "%lf,%lf,%lf", &o[0], &o[1], &o[2]) != 3)
        memset(notes->offset, 0, sizeof notes->offset);
}

static bool ply_read_header(input_file *file, ply_header *h, fault *why) {
    bool has_format = false;
    *h = (ply_header){.end = {file->path, "line", 1}};
    if (!input_file_next_line(file, why)) return false;
    if (file->line && strcmp(file->line, "ply") != 0)
        return fail(why, "%s: at byte 0: not a PLY file", file->path);
    while (next_line(file, why)) {
        char *word[3] = {""}, *rest;
        int words = 0;
        h->end.number = file->number;
        for (char *w = strtok_r(file->line, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest), words++)
            if (words < 3) word[words] = w;
        if (words == 0 || strcmp(word[0], "comment") == 0 || strcmp(word[0], "obj_info") == 0) {
            if (words == 3 && strcmp(word[0], "comment") == 0) read_comment(h, word[1], word[2]);
        } else if (strcmp(word[0], "end_header") == 0 && words == 1) {
            return has_format || fail_at(why, &h->end, "the header has no 'format' line");
        } else if (strcmp(word[0], "format") == 0 && words == 3) {
            has_format = true;
            h->ascii = strcmp(word[1], "ascii") == 0;
            if ((!h->ascii && strcmp(word[1], "binary_little_endian") != 0) || strcmp(word[2], "1.0") != 0)
                return fail_at(
                    why, &h->end,
                    "format '%.40s %.40s'; only 'binary_little_endian 1.0' and 'ascii 1.0' can be read",
                    word[1], word[2]);
        } else if (strcmp(word[0], "element") == 0 && words == 3) {
            if (!read_element(h, word, why)) return false;
        } else if (strcmp(word[0], "property") == 0 && words >= 3 && h->elements > 0) {
            if (!read_property(h, word, words, why)) return false;
        } else {
            return fail_at(why, &h->end, "unexpected header line '%.40s ...'", word[0]);
        }
    }
    return false;
}

// The vertices as the header describes them.
typedef struct layout {
    ply_header header;
    const ply_element *vertex;
    int sh_degree, columns; // of points: the first three
    column column[MOST_COLUMNS];
    const ply_property *of[MOST_COLUMNS], *color[GS_CHANNELS]; // of a point; NULL: a vertex does not have it
    bool colored;                                              // degree 0 is read of colours 0..255
} layout;

// Checks that no property is missing and finds the SH degree.
static bool read_layout(input_file *file, bool of_points, layout *l, fault *why) {
    static const char *const colors[GS_CHANNELS][3] = {
        {"red", "diffuse_red", "r"}, {"green", "diffuse_green", "g"}, {"blue", "diffuse_blue", "b"}};
    ply_header *const h = &l->header;
    const ply_element *const vertex = l->vertex = h->element;
    int rest = 0;
    if (!ply_read_header(file, h, why)) return false;
    if (h->elements == 0 || strcmp(vertex->name, "vertex") != 0 || vertex->has_list)
        return fail_at(why, &h->end, "the first element must be 'vertex', without lists, not '%s'",
                       vertex->name);
    for (int p = vertex->first; p < vertex->end; p++) rest += strncmp(h->property[p].name, "f_rest_", 7) == 0;
    l->sh_degree = of_points ? 0 : degree_of_rest(rest);
    if (l->sh_degree < 0)
        return fail_at(why, &h->end, "%d properties f_rest_*; there must be 0, 9, 24 or 45", rest);
    for (int c = 0; c < GS_CHANNELS; c++) {
        l->color[c] = NULL;
        for (int k = 0; k < 3 && !l->color[c]; k++) l->color[c] = ply_find(h, vertex, colors[c][k]);
    }
    // As nerfstudio writes them: bytes in place of coefficients.
    l->colored = !ply_find(h, vertex, "f_dc_0") && l->color[0] && !l->color[0]->type->is_real;
    l->columns = list_columns(l->sh_degree, l->column);
    if (of_points) l->columns = AXES;
    for (int c = 0; c < l->columns; c++) {
        const bool of_color = l->colored && c >= AXES && c < AXES + GS_CHANNELS;
        l->of[c] = of_color ? l->color[c - AXES] : ply_find(h, vertex, l->column[c].name);
        if (!l->of[c])
            return fail_at(why, &h->end, "no vertex property '%s'%s", l->column[c].name,
                           c >= AXES && !ply_find(h, vertex, "scale_0") && !ply_find(h, vertex, "rot_0")
                               ? ": these are points, not Gaussians, for `dsplat train` to start from"
                               : "");
    }
    return true;
}

static bool ply_notes(const char *path, scene_notes *out, fault *why) {
    input_file file;
    ply_header h;
    fault ignored; // another format may have the suffix
    if (!input_file_open(&file, path, why)) return false;
    if (ply_read_header(&file, &h, &ignored)) *out = h.notes;
    const bool done = input_file_check(&file, "the header", why);
    input_file_close(&file);
    return done;
}

// A number of an ASCII file, which white space or the end of the file ends.
static bool read_number(input_file *file, double *out, fault *why) {
    const record_place place = {file->path, "byte", file->offset};
    char word[64], *end;
    size_t length = 0;
    int c;
    while ((c = getc(file->stream)) != EOF) {
        file->offset++;
        if (!isspace(c) && length + 1 < sizeof word)
            word[length++] = (char)c;
        else if (length > 0)
            break;
    }
    word[length] = '\0';
    *out = strtod(word, &end);
    if (length == 0) return input_file_read(file, word, 1, "vertices", why); // says that it ends
    return *end == '\0' || fail_at(why, &place, "'%s' is not a number of a vertex", word);
}

// Reads rows of vertices.
static bool read_rows(input_file *file, const layout *l, char *rows, int64_t count, fault *why) {
    const size_t bytes = (size_t)count * l->vertex->stride;
    if (!l->header.ascii) return input_file_read(file, rows, bytes, "vertices", why);
    for (size_t at = 0; at < bytes; at += sizeof(double)) {
        double number;
        if (!read_number(file, &number, why)) return false;
        memcpy(rows + at, &number, sizeof number);
    }
    return true;
}

static double ply_value(const ply_header *h, const ply_property *p, const char *row) {
    const ply_type *const type = p->type;
    const char *const at = row + p->offset;
    int64_t whole = 0;
    float real;
    double wide;
    if (h->ascii || type->size == sizeof wide) return memcpy(&wide, at, sizeof wide), wide;
    if (type->is_real) return memcpy(&real, at, sizeof real), (double)real;
    memcpy(&whole, at, type->size);
    if (type->has_sign && (whole >> (8 * type->size - 1) & 1)) whole -= (int64_t)1 << (8 * type->size);
    return (double)whole;
}

static bool check_count(input_file *file, const layout *l, fault *why) {
    const ply_element *const v = l->vertex;
    const size_t least =
        l->header.ascii ? 2 * (size_t)(v->end - v->first) - 1 : v->stride; // digits and spaces
    if (!input_file_expect(file, v->count, least, "vertices", why)) return false;
    return v->count <= INT32_MAX || fail(why, "%s: %" PRIu64 " vertices are too many", file->path, v->count);
}

static bool ply_read(input_file *file, gs_gaussians *out, fault *why) {
    layout all, *const l = &all;
    if (!read_layout(file, false, l, why) || !check_count(file, l, why)) return false;
    const bool ascii = l->header.ascii;
    const size_t stride = l->vertex->stride;
    const uint64_t end = file->offset + l->vertex->count * stride;
    if (!ascii && l->header.elements == 1 && file->size != end)
        return fail(why, "%s: %" PRIu64 " bytes follow the last vertex, at byte %" PRIu64, file->path,
                    file->size - end, end);
    if (!scene_open(out, (int64_t)l->vertex->count, l->sh_degree, why))
        return fail(why, "%s: %s", file->path, why->text);
    out->antialias = l->header.antialiased;
    const gs_arrays arrays = gs_arrays_of(out);
    char block[BLOCK];
    const int64_t at_once = ascii ? 1 : (int64_t)(BLOCK / stride); // so that messages know the byte
    for (int64_t first = 0; first < out->count; first += at_once) {
        const int64_t rows = out->count - first < at_once ? out->count - first : at_once;
        if (!read_rows(file, l, block, rows, why)) return false;
        for (int64_t row = 0; row < rows; row++)
            for (int c = 0; c < l->columns; c++) {
                const char *const at = block + (size_t)row * stride;
                const column *const of = &l->column[c];
                float *const to = arrays.of[of->array] + (first + row) * arrays.width[of->array] + of->offset;
                if (l->of[c]->type == types && !ascii)
                    memcpy(to, at + l->of[c]->offset, sizeof *to); // as it is
                else
                    *to = (float)ply_value(&l->header, l->of[c], at);
                if (l->colored && c >= AXES && c < AXES + GS_CHANNELS)
                    *to = (float)scene_sh_constant((double)*to / 255);
            }
    }
    return true;
}

// ---- points

// Colours times `scale` are 0..255. A `scale` above 1 is a guess; *too_large: a colour refutes it.
static bool read_points(input_file *file, const layout *l, double scale, bool *too_large, reconstruction *out,
                        fault *why) {
    char row[8 * PLY_PROPERTIES];
    for (uint64_t i = 0; i < l->vertex->count && !*too_large; i++) {
        const record_place place = {file->path, "byte", file->offset};
        double at[3];
        uint8_t color[3] = {128, 128, 128};
        if (!read_rows(file, l, row, 1, why)) return false;
        for (int k = 0; k < 3; k++) {
            const ply_property *const channel = l->color[k];
            at[k] = ply_value(&l->header, l->of[k], row);
            if (!channel) continue;
            const double value = scale * ply_value(&l->header, channel, row);
            *too_large |= scale > 1 && value > 255;
            if (!(value >= 0 && value <= 255) && !*too_large)
                return fail_at(why, &place, "vertex %" PRIu64 " has %s = %g; it must be 0..255", i,
                               channel->name, value);
            color[k] = *too_large ? 0 : (uint8_t)(scale > 1 ? value + 0.5 : value);
        }
        if (!reconstruction_add_point(out, &place, at, color, why)) return false;
    }
    return true;
}

bool ply_read_points(const char *path, reconstruction *out, fault *why) {
    input_file file;
    layout l;
    if (!input_file_open(&file, path, why)) return false;
    bool done = read_layout(&file, true, &l, why) && check_count(&file, &l, why), again = true, parts = true;
    const uint64_t begin = file.offset;
    const size_t before = out->point_count;
    for (int c = 0; done && c < GS_CHANNELS; c++) parts &= l.color[c] && l.color[c]->type->is_real;
    for (double scale = parts ? 255 : 1; done && again; scale = 1) { // again: these floats are 0..255
        out->point_count = before;
        file.offset = begin;
        again = false;
        done = (fseeko(file.stream, (off_t)begin, SEEK_SET) == 0 || fail(why, "%s: cannot seek", path)) &&
               read_points(&file, &l, scale, &again, out, why);
    }
    input_file_close(&file);
    return done;
}

// ---- compressed scenes

// Files of 2024 have only OLD_BOUNDS: none of colours.
enum { CHUNK = 256, BOUNDS = 18, OLD_BOUNDS = 12, WORDS = 4, MOST_REST = 45 };

// Where the rows have what is read.
typedef struct packed {
    ply_header header;
    const ply_element *chunk, *vertex, *sh; // sh: NULL if there is none
    const ply_property *bound[BOUNDS], *word[WORDS], *rest[MOST_REST];
    int rests;
} packed;

static bool read_packed(input_file *file, packed *l, fault *why) {
    static const char *const elements[] = {"chunk", "vertex", "sh"}, *const words[WORDS] = {"position",
                                                                                            "rotation",
                                                                                            "scale", "color"};
    const ply_header *const h = &l->header;
    char name[24];
    if (!ply_read_header(file, &l->header, why)) return false;
    l->chunk = h->element, l->vertex = h->element + 1, l->sh = h->elements > 2 ? h->element + 2 : NULL;
    l->rests = l->sh ? l->sh->end - l->sh->first : 0;
    bool whole = !h->ascii && (h->elements == 2 || h->elements == 3) && l->rests <= MOST_REST &&
                 degree_of_rest(l->rests) >= 0;
    for (int k = 0; whole && k < h->elements; k++)
        whole = !h->element[k].has_list && strcmp(h->element[k].name, elements[k]) == 0;
    for (int k = 0; whole && k < BOUNDS; k++) { // min_x min_y min_z max_x ... min_scale_x ... min_r min_g ...
        snprintf(name, sizeof name, "%s%s%c", k / 3 % 2 ? "max_" : "min_", k / 6 == 1 ? "scale_" : "",
                 (k < OLD_BOUNDS ? "xyz" : "rgb")[k % 3]);
        l->bound[k] = ply_find(h, l->chunk, name);
        whole = l->bound[k] || (k >= OLD_BOUNDS && !l->bound[OLD_BOUNDS]);
    }
    for (int k = 0; whole && k < WORDS; k++) {
        snprintf(name, sizeof name, "packed_%s", words[k]);
        whole = (l->word[k] = ply_find(h, l->vertex, name)) != NULL;
    }
    for (int k = 0; whole && k < l->rests; k++) {
        snprintf(name, sizeof name, "f_rest_%d", k);
        whole = (l->rest[k] = ply_find(h, l->sh, name)) != NULL;
    }
    if (!whole) return fail_at(why, &h->end, "elements or properties of a compressed PLY file are missing");
    const uint64_t chunks = l->chunk->count, vertices = l->vertex->count,
                   rows = l->sh ? l->sh->count : vertices;
    if (vertices > INT32_MAX || chunks != (vertices + CHUNK - 1) / CHUNK || rows != vertices)
        return fail_at(why, &h->end,
                       "%" PRIu64 " chunks and %" PRIu64 " rows of coefficients for %" PRIu64 " vertices",
                       chunks, rows, vertices);
    const uint64_t bytes =
        chunks * l->chunk->stride + vertices * (l->vertex->stride + (l->sh ? l->sh->stride : 0));
    return bytes == file->size - file->offset ||
           fail(why,
                "%s: truncated or damaged: %" PRIu64 " bytes announced, but %" PRIu64 " follow byte %" PRIu64,
                file->path, bytes, file->size - file->offset, file->offset);
}

// Of all bits of a word those from `shift` on, as 0..1.
static double part(uint32_t word, int shift, int bits) {
    const uint32_t most = (1u << bits) - 1;
    return (double)(word >> shift & most) / most;
}

// Between a bound and the one behind the two other axes.
static double between(double part, const float *bound) {
    return (double)bound[0] + part * ((double)bound[3] - (double)bound[0]);
}

static void read_packed_vertex(const uint32_t word[WORDS], const float bounds[BOUNDS], gs_gaussians *g,
                               int64_t i) {
    static const int shift[3] = {21, 11, 0}, bits[3] = {11, 10, 11};
    float *const sh = g->sh + i * GS_CHANNELS * coefficients(g->sh_degree);
    double turn[3];
    for (int k = 0; k < 3; k++) {
        g->mean[3 * i + k] = (float)between(part(word[0], shift[k], bits[k]), bounds + k);
        g->log_scale[3 * i + k] = (float)between(part(word[2], shift[k], bits[k]), bounds + 6 + k);
        sh[k] = (float)scene_sh_constant(between(part(word[3], 24 - 8 * k, 8), bounds + 12 + k));
        turn[k] = part(word[1], 20 - 10 * k, 10);
    }
    quaternion_from_parts((int)(word[1] >> 30), turn, g->quaternion + 4 * i);
    g->opacity_logit[i] = byte_logit((uint8_t)(word[3] & 255));
}

static bool read_packed_rows(input_file *file, const packed *l, float *chunks, gs_gaussians *out,
                             fault *why) {
    char row[8 * PLY_PROPERTIES];
    const int rest = l->rests / GS_CHANNELS;
    for (uint64_t c = 0; c < l->chunk->count; c++) {
        if (!input_file_read(file, row, l->chunk->stride, "a chunk", why)) return false;
        for (uint64_t k = 0; k < BOUNDS; k++) // without bounds of colours: 0..1
            chunks[c * BOUNDS + k] =
                l->bound[k] ? (float)ply_value(&l->header, l->bound[k], row) : (float)(k >= OLD_BOUNDS + 3);
    }
    for (int64_t i = 0; i < out->count; i++) {
        uint32_t words[WORDS];
        if (!input_file_read(file, row, l->vertex->stride, "a vertex", why)) return false;
        for (int k = 0; k < WORDS; k++) words[k] = (uint32_t)(int64_t)ply_value(&l->header, l->word[k], row);
        read_packed_vertex(words, chunks + i / CHUNK * BOUNDS, out, i);
    }
    for (int64_t i = 0; i < out->count && rest > 0; i++) {
        if (!input_file_read(file, row, l->sh->stride, "coefficients", why)) return false;
        float *const sh = out->sh + i * GS_CHANNELS * (rest + 1) + GS_CHANNELS;
        for (int k = 0; k < l->rests; k++) { // all of red, then green, then blue, in 256ths of -4..4
            const double value = ply_value(&l->header, l->rest[k], row);
            const double part = value <= 0 ? 0 : value >= 255 ? 1 : (value + 0.5) / 256;
            sh[k % rest * GS_CHANNELS + k / rest] = (float)(part * 8 - 4);
        }
    }
    return true;
}

static bool compressed_ply_read(input_file *file, gs_gaussians *out, fault *why) {
    packed l;
    if (!read_packed(file, &l, why)) return false;
    float *const chunks = malloc(((size_t)l.chunk->count + 1) * BOUNDS * sizeof *chunks);
    if (!chunks) return fail(why, "%s: no memory for %" PRIu64 " chunks", file->path, l.chunk->count);
    const bool done = scene_open(out, (int64_t)l.vertex->count, degree_of_rest(l.rests), why) &&
                      read_packed_rows(file, &l, chunks, out, why);
    out->antialias = done && l.header.antialiased;
    free(chunks);
    return done;
}

const scene_format compressed_ply_format = {
    .suffix = ".compressed.ply", .marks = {"ply"}, .line = "\nelement chunk ", .read = compressed_ply_read};

// ---- writing

static void ply_begin(FILE *stream, const gs_gaussians *gaussians, const scene_notes *notes) {
    fprintf(stream, "ply\nformat binary_little_endian 1.0\n%s",
            gaussians->antialias ? "comment SplatRenderMode: mip\n" : "");
    if (notes && notes->known)
        fprintf(stream, "comment dsplat_holdout %" PRId64 "\ncomment dsplat_background %.9g,%.9g,%.9g\n",
                notes->holdout, (double)notes->background[0], (double)notes->background[1],
                (double)notes->background[2]);
    if (scene_notes_move(notes))
        fprintf(stream, "comment dsplat_offset %.17g,%.17g,%.17g\n", notes->offset[0], notes->offset[1],
                notes->offset[2]);
    fprintf(stream, "element vertex %" PRId64 "\n", gaussians->count);
    column list[MOST_COLUMNS];
    const int columns = list_columns(gaussians->sh_degree, list);
    for (int c = 0; c < columns; c++) {
        if (c == AXES) fputs("property float nx\nproperty float ny\nproperty float nz\n", stream);
        fprintf(stream, "property float %s\n", list[c].name);
    }
    fputs("end_header\n", stream);
}

static void ply_put(FILE *stream, const gs_gaussians *gaussians) {
    const gs_arrays arrays = gs_arrays_of(gaussians);
    column list[MOST_COLUMNS];
    const int columns = list_columns(gaussians->sh_degree, list);
    for (int64_t i = 0; i < gaussians->count; i++) {
        float row[MOST_COLUMNS + AXES] = {0}; // normals are 0
        for (int c = 0; c < columns; c++)
            row[c + (c < AXES ? 0 : AXES)] =
                arrays.of[list[c].array][i * arrays.width[list[c].array] + list[c].offset];
        const size_t length = (size_t)(columns + AXES);
        if (fwrite(row, sizeof *row, length, stream) != length) return; // the stream remembers
    }
}

const scene_format ply_format = {.suffix = ".ply",
                                 .marks = {"ply"},
                                 .read = ply_read,
                                 .begin = ply_begin,
                                 .put = ply_put,
                                 .notes = ply_notes};
