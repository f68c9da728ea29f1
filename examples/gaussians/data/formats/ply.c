// SPDX-License-Identifier: MIT
// Scenes as PLY files with the property names of the original program: x y z, nx ny nz, f_dc_*, f_rest_* (all of red,
// then green, then blue), opacity (logit), scale_* (logarithm), rot_* (w x y z). Axes as in COLMAP. And points.
//
// Read are files that are binary little-endian or ASCII and have the vertex element first. Properties may have any number
// type and any order; others are skipped. The number of f_rest_* gives the SH degree: 0, 9, 24 or 45 of them. The header
// line "comment SplatRenderMode: mip", as Brush writes it, or "comment splat antialiased" sets antialias; "comment
// dsplat_holdout N", "comment dsplat_background R,G,B" and "comment dsplat_offset X,Y,Z" are scene_notes. Written are
// floats, normals as 0.
#include "formats/formats.h"
#include "reconstruction.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    MAX_PROPERTIES = 1024,
    BLOCK = 1 << 16, // bytes of vertices read at once
    // Slots: the floats of a vertex in the order this file writes them, without the normal; then the colour of a point.
    SLOT_MEAN = 0,
    SLOT_DC = 3,
    SLOT_REST = 6,
    SLOT_OPACITY = 51,
    SLOT_SCALE = 52,
    SLOT_ROTATION = 55,
    SLOTS = 59,
    POINT_SLOTS = 62
};

// fail() with the place in the file before the text
#define REFUSE(why, file, at, format, ...)                                                                   \
    fail(why, "%s: at byte %" PRIu64 ": " format, (file)->path, at, __VA_ARGS__)

static void slot_name(int slot, char name[16]) {
    if (slot < SLOT_DC)
        snprintf(name, 16, "%c", "xyz"[slot]);
    else if (slot < SLOT_REST)
        snprintf(name, 16, "f_dc_%d", slot - SLOT_DC);
    else if (slot < SLOT_OPACITY)
        snprintf(name, 16, "f_rest_%d", slot - SLOT_REST);
    else if (slot < SLOT_SCALE)
        snprintf(name, 16, "opacity");
    else if (slot < SLOT_ROTATION)
        snprintf(name, 16, "scale_%d", slot - SLOT_SCALE);
    else
        snprintf(name, 16, "rot_%d", slot - SLOT_ROTATION);
}

static bool slot_in_use(int slot, int sh_degree) {
    return slot < SLOT_REST || slot >= SLOT_OPACITY ||
           slot - SLOT_REST < GS_CHANNELS * (coefficients(sh_degree) - 1);
}

// The value of a slot in use of Gaussian i.
static float *slot_value(const gs_gaussians *g, int64_t i, int slot) {
    const int count = coefficients(g->sh_degree);
    float *sh = g->sh + i * count * GS_CHANNELS;
    if (slot < SLOT_DC) return g->mean + i * 3 + slot;
    if (slot < SLOT_REST) return sh + (slot - SLOT_DC);
    if (slot < SLOT_OPACITY) { // the file has all of red, then green, then blue; `sh` interleaves them
        const int rest = slot - SLOT_REST, channel = rest / (count - 1), coefficient = 1 + rest % (count - 1);
        return sh + coefficient * GS_CHANNELS + channel;
    }
    if (slot < SLOT_SCALE) return g->opacity_logit + i;
    if (slot < SLOT_ROTATION) return g->log_scale + i * 3 + (slot - SLOT_SCALE);
    return g->quaternion + i * 4 + (slot - SLOT_ROTATION);
}

// A number type of PLY; NULL: no such property.
typedef struct number_type {
    const char *name, *other_name;
    size_t size;
    bool has_sign, is_real;
} number_type;

static const number_type types[] = {
    {"float", "float32", 4, true, true}, {"double", "float64", 8, true, true},
    {"char", "int8", 1, true, false},    {"uchar", "uint8", 1, false, false},
    {"short", "int16", 2, true, false},  {"ushort", "uint16", 2, false, false},
    {"int", "int32", 4, true, false},    {"uint", "uint32", 4, false, false}};

// Where a vertex has a slot.
typedef struct property {
    const number_type *type; // NULL: it does not
    size_t offset;
} property;

// The vertices as the header describes them. Those of ASCII files become doubles.
typedef struct layout {
    uint64_t count;
    size_t stride; // bytes of a vertex
    int properties;
    int rest_properties; // those named f_rest_*
    int sh_degree;
    property slot[POINT_SLOTS];
    bool of_points, ascii, has_format, antialiased;
    enum { BEFORE, INSIDE, AFTER } place; // of the header's lines: before, inside or after the vertex element
    scene_notes notes;
} layout;

bool ply_read_line(input_file *file, char line[PLY_MAX_LINE], uint64_t *at, fault *why) {
    *at = file->offset;
    for (int length = 0; length < PLY_MAX_LINE; length++) {
        if (!input_file_read(file, &line[length], 1, "the PLY header", why)) return false;
        if (line[length] != '\n') continue;
        if (length > 0 && line[length - 1] == '\r') length--;
        line[length] = '\0';
        return true;
    }
    return fail(why, "%s: at byte %" PRIu64 ": a header line of more than %d bytes", file->path, *at,
                PLY_MAX_LINE - 1);
}

static const number_type *type_of(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0 || strcmp(types[i].other_name, name) == 0) return &types[i];
    return NULL;
}

static bool is_slot(int slot, const char *name) {
    static const char *const colors[3][3] = {
        {"red", "diffuse_red", "r"}, {"green", "diffuse_green", "g"}, {"blue", "diffuse_blue", "b"}};
    char known[16];
    for (int k = 0; k < 3 && slot >= SLOTS; k++)
        if (strcmp(colors[slot - SLOTS][k], name) == 0) return true;
    slot_name(slot, known);
    return slot < SLOTS && strcmp(known, name) == 0;
}

// "property TYPE NAME" of the vertex element.
static bool add_property(layout *vertex, const char *type_name, const char *name, const input_file *file,
                         uint64_t at, fault *why) {
    const number_type *const type = type_of(vertex->ascii ? "double" : type_name);
    if (!type_of(type_name))
        return REFUSE(why, file, at, "vertex property of type '%.40s': not a PLY number type", type_name);
    if (++vertex->properties > MAX_PROPERTIES)
        return REFUSE(why, file, at, "more than %d vertex properties", MAX_PROPERTIES);
    if (strncmp(name, "f_rest_", strlen("f_rest_")) == 0) vertex->rest_properties++;
    for (int slot = 0; slot < POINT_SLOTS; slot++) {
        if (!is_slot(slot, name)) continue;
        if (vertex->slot[slot].type) return REFUSE(why, file, at, "property '%s' occurs twice", name);
        vertex->slot[slot] = (property){type_of(type_name), vertex->stride};
    }
    vertex->stride += type->size;
    return true;
}

// Called after the last property: checks that none is missing and finds the SH degree.
static bool check_properties(layout *vertex, const input_file *file, fault *why) {
    vertex->sh_degree = vertex->of_points ? 0 : degree_of_rest(vertex->rest_properties);
    if (vertex->sh_degree < 0)
        return fail(why,
                    "%s: in the header before byte %" PRIu64
                    ": %d properties f_rest_*; there must be 0, 9, 24 or 45",
                    file->path, file->offset, vertex->rest_properties);
    for (int slot = 0; slot < (vertex->of_points ? SLOT_DC : SLOTS); slot++) {
        char name[16];
        slot_name(slot, name);
        if (slot_in_use(slot, vertex->sh_degree) && !vertex->slot[slot].type)
            return fail(why, "%s: in the header before byte %" PRIu64 ": no vertex property '%s'", file->path,
                        file->offset, name);
    }
    return true;
}

static bool read_format(layout *vertex, char *const word[3], const input_file *file, uint64_t at,
                        fault *why) {
    vertex->has_format = true;
    vertex->ascii = strcmp(word[1], "ascii") == 0;
    return ((vertex->ascii || strcmp(word[1], "binary_little_endian") == 0) && strcmp(word[2], "1.0") == 0) ||
           REFUSE(why, file, at,
                  "format '%.40s %.40s'; only 'binary_little_endian 1.0' and 'ascii 1.0' can be read",
                  word[1], word[2]);
}

// "element NAME COUNT"
static bool read_element(layout *vertex, char *const word[3], const input_file *file, uint64_t at,
                         fault *why) {
    char *end;
    if (vertex->place != BEFORE) {
        vertex->place = AFTER;
        return true;
    }
    if (strcmp(word[1], "vertex") != 0)
        return REFUSE(why, file, at, "the first element is '%.40s'; it must be 'vertex'", word[1]);
    errno = 0;
    vertex->count = strtoull(word[2], &end, 10);
    vertex->place = INSIDE;
    return (*end == '\0' && isdigit((unsigned char)word[2][0]) && errno != ERANGE) ||
           REFUSE(why, file, at, "'%.40s' is not a number of vertices", word[2]);
}

static bool read_property(layout *vertex, char *const word[3], int words, const input_file *file, uint64_t at,
                          fault *why) {
    if (vertex->place == AFTER) return true;
    if (strcmp(word[1], "list") == 0)
        return fail(why, "%s: at byte %" PRIu64 ": a vertex property is a list", file->path, at);
    if (words != 3) return fail(why, "%s: at byte %" PRIu64 ": malformed property", file->path, at);
    return add_property(vertex, word[1], word[2], file, at, why);
}

static void read_comment(layout *vertex, const char *name, const char *value) {
    scene_notes *const notes = &vertex->notes;
    float *const b = notes->background;
    double *const o = notes->offset;
    int end = 0;
    vertex->antialiased |= (strcmp(name, "SplatRenderMode:") == 0 && strcmp(value, "mip") == 0) ||
                           (strcmp(name, "splat") == 0 && strcmp(value, "antialiased") == 0);
    if (strcmp(name, "dsplat_holdout") == 0)
        notes->known = sscanf(value, "%" SCNd64 "%n", &notes->holdout, &end) == 1 && value[end] == 0 &&
                       notes->holdout >= 0;
    if (strcmp(name, "dsplat_background") == 0 && sscanf(value, "%f,%f,%f", &b[0], &b[1], &b[2]) != 3)
        notes->known = false;
    if (strcmp(name, "dsplat_offset") == 0 && sscanf(value, "%lf,%lf,%lf", &o[0], &o[1], &o[2]) != 3)
        memset(notes->offset, 0, sizeof notes->offset);
}

static bool read_header(input_file *file, layout *vertex, fault *why) {
    char line[PLY_MAX_LINE];
    uint64_t at;
    if (!ply_read_line(file, line, &at, why)) return false;
    if (strcmp(line, "ply") != 0) return fail(why, "%s: at byte 0: not a PLY file", file->path);
    for (;;) {
        if (!ply_read_line(file, line, &at, why)) return false;
        char *rest, *word[3] = {0};
        int words = 0;
        for (char *w = strtok_r(line, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest), words++)
            if (words < 3) word[words] = w;
        if (words == 0 || strcmp(word[0], "comment") == 0 || strcmp(word[0], "obj_info") == 0) {
            if (words == 3 && strcmp(word[0], "comment") == 0) read_comment(vertex, word[1], word[2]);
        } else if (strcmp(word[0], "end_header") == 0 && words == 1) {
            break;
        } else if (strcmp(word[0], "format") == 0 && words == 3) {
            if (!read_format(vertex, word, file, at, why)) return false;
        } else if (strcmp(word[0], "element") == 0 && words == 3) {
            if (!read_element(vertex, word, file, at, why)) return false;
        } else if (strcmp(word[0], "property") == 0 && words >= 3 && vertex->place != BEFORE) {
            if (!read_property(vertex, word, words, file, at, why)) return false;
        } else {
            return REFUSE(why, file, at, "unexpected header line '%.40s ...'", word[0]);
        }
    }
    if (!vertex->has_format || vertex->place == BEFORE)
        return fail(why, "%s: in the header before byte %" PRIu64 ": no '%s' line", file->path, file->offset,
                    vertex->has_format ? "element vertex" : "format");
    return check_properties(vertex, file, why);
}

static bool ply_notes(const char *path, scene_notes *out, fault *why) {
    input_file file;
    layout vertex = {0};
    fault ignored; // another format may have the suffix
    if (!input_file_open(&file, path, why)) return false;
    if (read_header(&file, &vertex, &ignored)) *out = vertex.notes;
    const bool done = input_file_check(&file, "the header", why);
    input_file_close(&file);
    return done;
}

// A number of an ASCII file, which white space or the end of the file ends.
static bool read_number(input_file *file, double *out, fault *why) {
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
    return *end == '\0' || REFUSE(why, file, file->offset, "'%s' is not a number of a vertex", word);
}

// Reads rows of vertices.
static bool read_rows(input_file *file, const layout *vertex, char *rows, int64_t count, fault *why) {
    if (!vertex->ascii) return input_file_read(file, rows, (size_t)count * vertex->stride, "vertices", why);
    for (size_t at = 0; at < (size_t)count * vertex->stride; at += sizeof(double)) {
        double number;
        if (!read_number(file, &number, why)) return false;
        memcpy(rows + at, &number, sizeof number);
    }
    return true;
}

// How many vertices are read at once: of ASCII files one, so that messages know its byte.
static int64_t rows_at_once(const layout *vertex) {
    return vertex->ascii ? 1 : (int64_t)(BLOCK / vertex->stride);
}

static double value_of(const layout *vertex, const char *row, int slot) {
    const number_type *const type = vertex->slot[slot].type;
    const char *const at = row + vertex->slot[slot].offset;
    int64_t whole = 0;
    float real;
    double wide;
    if (vertex->ascii || type->size == sizeof wide) return memcpy(&wide, at, sizeof wide), wide;
    if (type->is_real) return memcpy(&real, at, sizeof real), (double)real;
    memcpy(&whole, at, type->size);
    if (type->has_sign && (whole >> (8 * type->size - 1) & 1)) whole -= (int64_t)1 << (8 * type->size);
    return (double)whole;
}

static bool check_count(input_file *file, const layout *vertex, fault *why) {
    const size_t least =
        vertex->ascii ? 2 * (size_t)vertex->properties - 1 : vertex->stride; // digits and spaces
    if (!input_file_expect(file, vertex->count, least, "vertices", why)) return false;
    return vertex->count <= INT32_MAX ||
           fail(why, "%s: %" PRIu64 " vertices are too many", file->path, vertex->count);
}

static bool read_vertices(input_file *file, const layout *vertex, gs_gaussians *out, fault *why) {
    fault reason;
    if (!check_count(file, vertex, why)) return false;
    if (!vertex->ascii && vertex->place != AFTER &&
        file->size - file->offset != vertex->count * vertex->stride)
        return fail(why, "%s: %" PRIu64 " bytes follow the last vertex, at byte %" PRIu64, file->path,
                    file->size - file->offset - vertex->count * vertex->stride,
                    file->offset + vertex->count * vertex->stride);
    if (!scene_open(out, (int64_t)vertex->count, vertex->sh_degree, &reason))
        return fail(why, "%s: %s", file->path, reason.text);
    out->antialias = vertex->antialiased;
    char block[BLOCK];
    const int64_t at_once = rows_at_once(vertex);
    for (int64_t first = 0; first < out->count; first += at_once) {
        const int64_t rows = out->count - first < at_once ? out->count - first : at_once;
        if (!read_rows(file, vertex, block, rows, why)) return false;
        for (int64_t row = 0; row < rows; row++)
            for (int slot = 0; slot < SLOTS; slot++) {
                const property *const from = &vertex->slot[slot];
                const char *const at = block + (size_t)row * vertex->stride;
                if (!slot_in_use(slot, vertex->sh_degree)) continue;
                float *const to = slot_value(out, first + row, slot);
                if (from->type == types && !vertex->ascii)
                    memcpy(to, at + from->offset, sizeof *to); // as it is
                else
                    *to = (float)value_of(vertex, at, slot);
            }
    }
    return true;
}

static bool ply_claims(const char *head, size_t bytes) {
    return bytes >= 3 && memcmp(head, "ply", 3) == 0;
}

static bool ply_read(input_file *file, gs_gaussians *out, fault *why) {
    layout vertex = {0};
    return read_header(file, &vertex, why) && read_vertices(file, &vertex, out, why);
}

// ---- points

// Colours times `scale` are 0..255. *too_large: one is not, of a scale that is a guess.
static bool read_points(input_file *file, const layout *vertex, double scale, bool *too_large,
                        reconstruction *out, fault *why) {
    char row[8 * MAX_PROPERTIES];
    for (uint64_t i = 0; i < vertex->count && !*too_large; i++) {
        const record_place place = {file->path, "byte", file->offset};
        double at[3];
        uint8_t color[3] = {128, 128, 128};
        if (!read_rows(file, vertex, row, 1, why)) return false;
        for (int k = 0; k < 3; k++) {
            at[k] = value_of(vertex, row, SLOT_MEAN + k);
            if (!vertex->slot[SLOTS + k].type) continue;
            const double value = scale * value_of(vertex, row, SLOTS + k);
            *too_large |= scale > 1 && value > 255;
            if (!(value >= 0 && value <= 255) && !*too_large)
                return fail_at(why, &place, "vertex %" PRIu64 " has %s = %g; it must be 0..255", i,
                               k == 0   ? "red"
                               : k == 1 ? "green"
                                        : "blue",
                               value);
            color[k] = *too_large ? 0 : (uint8_t)(scale > 1 ? value + 0.5 : value);
        }
        if (!reconstruction_add_point(out, &place, at, color, why)) return false;
    }
    return true;
}

bool ply_read_points(const char *path, reconstruction *out, fault *why) {
    input_file file;
    layout vertex = {.of_points = true};
    bool again = false, guess = true;
    if (!input_file_open(&file, path, why)) return false;
    bool done = read_header(&file, &vertex, why) && check_count(&file, &vertex, why);
    const uint64_t begin = file.offset;
    const size_t before = out->point_count;
    for (int k = 0; k < 3; k++) guess &= vertex.slot[SLOTS + k].type && vertex.slot[SLOTS + k].type->is_real;
    done = done && read_points(&file, &vertex, guess ? 255 : 1, &again, out, why);
    if (done && again) { // floats of 0..255
        out->point_count = before;
        file.offset = begin;
        again = false;
        done = fseeko(file.stream, (off_t)begin, SEEK_SET) == 0 || fail(why, "%s: cannot seek", path);
        done = done && read_points(&file, &vertex, 1, &again, out, why);
    }
    input_file_close(&file);
    return done;
}

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
    for (int slot = 0; slot < SLOTS; slot++) {
        char name[16];
        slot_name(slot, name);
        if (slot == SLOT_DC) fputs("property float nx\nproperty float ny\nproperty float nz\n", stream);
        if (slot_in_use(slot, gaussians->sh_degree)) fprintf(stream, "property float %s\n", name);
    }
    fputs("end_header\n", stream);
}

static void ply_put(FILE *stream, const gs_gaussians *gaussians) {
    for (int64_t i = 0; i < gaussians->count; i++) {
        float row[SLOTS + 3];
        size_t length = 0;
        for (int slot = 0; slot < SLOTS; slot++) {
            if (slot == SLOT_DC)
                for (int axis = 0; axis < 3; axis++) row[length++] = 0.0f; // the normal
            if (slot_in_use(slot, gaussians->sh_degree)) row[length++] = *slot_value(gaussians, i, slot);
        }
        if (fwrite(row, sizeof *row, length, stream) != length) return; // the stream remembers
    }
}

const scene_format ply_format = {.suffix = ".ply",
                                 .claims = ply_claims,
                                 .read = ply_read,
                                 .begin = ply_begin,
                                 .put = ply_put,
                                 .notes = ply_notes};
