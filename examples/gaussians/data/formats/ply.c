// SPDX-License-Identifier: MIT
// Scenes as PLY files with the property names of the original program: x y z, nx ny nz, f_dc_*, f_rest_* (all of red,
// then green, then blue), opacity (logit), scale_* (logarithm), rot_* (w x y z). Axes as in COLMAP.
//
// Read are files that are binary little-endian and have the vertex element first. The properties above must be float,
// in any order; others are skipped. The number of f_rest_* gives the SH degree: 0, 9, 24 or 45 of them. The header line
// "comment SplatRenderMode: mip", as Brush writes it, or "comment splat antialiased" sets antialias; "comment
// dsplat_holdout N" and "comment dsplat_background R,G,B" are scene_notes. Normals are written as 0.
#include "formats/formats.h"
#include "formats/ply.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    MAX_PROPERTIES = 1024,
    BLOCK = 1 << 16, // bytes of vertices read at once
    // Slots: the floats of a vertex in the order this file writes them, without the normal.
    SLOT_MEAN = 0,
    SLOT_DC = 3,
    SLOT_REST = 6,
    SLOT_OPACITY = 51,
    SLOT_SCALE = 52,
    SLOT_ROTATION = 55,
    SLOTS = 59
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

enum { POINT_VALUES = 6 }; // x y z red green blue
static const char *const point_names[POINT_VALUES] = {"x", "y", "z", "red", "green", "blue"};

// Where a vertex has a value of a point: in binary files and in ASCII.
typedef struct point_value {
    char type[8]; // of PLY; "": the vertex has none
    size_t offset;
    int column;
} point_value;

// The vertices as the header describes them.
typedef struct layout {
    uint64_t count;
    size_t stride; // bytes of a vertex
    int properties;
    int rest_properties; // those named f_rest_*
    int sh_degree;
    int offset[SLOTS]; // of the slot in a vertex; -1: absent
    bool last;         // no element follows
    bool antialiased;
    scene_notes notes;
    // Used by ply_read_points alone:
    bool of_points, ascii;
    point_value values[POINT_VALUES];
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

static size_t size_of_type(const char *type) {
    static const struct {
        const char *name;
        size_t size;
    } types[] = {{"char", 1},   {"int8", 1},    {"uchar", 1},  {"uint8", 1},  {"short", 2}, {"int16", 2},
                 {"ushort", 2}, {"uint16", 2},  {"int", 4},    {"int32", 4},  {"uint", 4},  {"uint32", 4},
                 {"float", 4},  {"float32", 4}, {"double", 8}, {"float64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0) return types[i].size;
    return 0;
}

// "property TYPE NAME" of the vertex element.
static bool add_property(layout *vertex, const char *type, const char *name, const input_file *file,
                         uint64_t at, fault *why) {
    const size_t size = size_of_type(type);
    if (!size) return REFUSE(why, file, at, "vertex property of type '%.40s': not a PLY number type", type);
    if (++vertex->properties > MAX_PROPERTIES)
        return REFUSE(why, file, at, "more than %d vertex properties", MAX_PROPERTIES);
    for (int k = 0; k < POINT_VALUES; k++) {
        point_value *const value = &vertex->values[k];
        if (!vertex->of_points || strcmp(point_names[k], name) != 0) continue;
        if (value->type[0]) return REFUSE(why, file, at, "property '%s' occurs twice", name);
        *value = (point_value){.offset = vertex->stride, .column = vertex->properties - 1};
        snprintf(value->type, sizeof value->type, "%s", type);
    }
    if (strncmp(name, "f_rest_", strlen("f_rest_")) == 0) vertex->rest_properties++;
    for (int slot = 0; slot < SLOTS && !vertex->of_points; slot++) {
        char known[16];
        slot_name(slot, known);
        if (strcmp(known, name) != 0) continue;
        if (vertex->offset[slot] >= 0) return REFUSE(why, file, at, "property '%s' occurs twice", name);
        if (strcmp(type, "float") != 0 && strcmp(type, "float32") != 0)
            return REFUSE(why, file, at, "property '%s' is of type '%s'; it must be float", name, type);
        vertex->offset[slot] = (int)vertex->stride;
    }
    vertex->stride += size;
    return true;
}

// Called after the last property: checks that none is missing and finds the SH degree.
static bool check_properties(layout *vertex, const input_file *file, fault *why) {
    for (int k = 0; k < 3 && vertex->of_points; k++)
        if (!vertex->values[k].type[0])
            return fail(why, "%s: in the header before byte %" PRIu64 ": no vertex property '%s'", file->path,
                        file->offset, point_names[k]);
    if (vertex->of_points) return true;
    vertex->sh_degree = degree_of_rest(vertex->rest_properties);
    if (vertex->sh_degree < 0)
        return fail(why,
                    "%s: in the header before byte %" PRIu64
                    ": %d properties f_rest_*; there must be 0, 9, 24 or 45",
                    file->path, file->offset, vertex->rest_properties);
    for (int slot = 0; slot < SLOTS; slot++) {
        char name[16];
        slot_name(slot, name);
        if (slot_in_use(slot, vertex->sh_degree) && vertex->offset[slot] < 0)
            return fail(why, "%s: in the header before byte %" PRIu64 ": no vertex property '%s'", file->path,
                        file->offset, name);
    }
    return true;
}

// Where the header is: before, inside or after the vertex element.
typedef struct header_state {
    enum { BEFORE, INSIDE, AFTER } place;
    bool has_format;
} header_state;

static bool read_format(layout *vertex, char *const word[3], const input_file *file, uint64_t at,
                        fault *why) {
    vertex->ascii = vertex->of_points && strcmp(word[1], "ascii") == 0;
    return (vertex->ascii && strcmp(word[2], "1.0") == 0) ||
           (strcmp(word[1], "binary_little_endian") == 0 && strcmp(word[2], "1.0") == 0) ||
           REFUSE(why, file, at, "format '%.40s %.40s'; only 'binary_little_endian 1.0'%s can be read",
                  word[1], word[2], vertex->of_points ? " and 'ascii 1.0'" : "");
}

// "element NAME COUNT"
static bool read_element(layout *vertex, header_state *state, char *const word[3], const input_file *file,
                         uint64_t at, fault *why) {
    if (state->place != BEFORE) {
        state->place = AFTER;
        vertex->last = false;
        return true;
    }
    if (strcmp(word[1], "vertex") != 0)
        return REFUSE(why, file, at, "the first element is '%.40s'; it must be 'vertex'", word[1]);
    char *end;
    errno = 0;
    vertex->count = strtoull(word[2], &end, 10);
    if (*end != '\0' || word[2][0] < '0' || word[2][0] > '9' || errno == ERANGE)
        return REFUSE(why, file, at, "'%.40s' is not a number of vertices", word[2]);
    state->place = INSIDE;
    return true;
}

static bool read_property(layout *vertex, const header_state *state, char *const word[3], int words,
                          const input_file *file, uint64_t at, fault *why) {
    if (state->place == AFTER) return true;
    if (strcmp(word[1], "list") == 0)
        return fail(why, "%s: at byte %" PRIu64 ": a vertex property is a list", file->path, at);
    if (words != 3) return fail(why, "%s: at byte %" PRIu64 ": malformed property", file->path, at);
    return add_property(vertex, word[1], word[2], file, at, why);
}

static void read_comment(layout *vertex, const char *name, const char *value) {
    scene_notes *const notes = &vertex->notes;
    float *const b = notes->background;
    int end = 0;
    vertex->antialiased |= (strcmp(name, "SplatRenderMode:") == 0 && strcmp(value, "mip") == 0) ||
                           (strcmp(name, "splat") == 0 && strcmp(value, "antialiased") == 0);
    if (strcmp(name, "dsplat_holdout") == 0)
        notes->known = sscanf(value, "%" SCNd64 "%n", &notes->holdout, &end) == 1 && value[end] == 0 &&
                       notes->holdout >= 0;
    if (strcmp(name, "dsplat_background") == 0 && sscanf(value, "%f,%f,%f", &b[0], &b[1], &b[2]) != 3)
        notes->known = false;
}

static bool read_header(input_file *file, layout *vertex, fault *why) {
    vertex->last = true;
    for (int slot = 0; slot < SLOTS; slot++) vertex->offset[slot] = -1;
    header_state state = {.place = BEFORE};
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
            state.has_format = true;
        } else if (strcmp(word[0], "element") == 0 && words == 3) {
            if (!read_element(vertex, &state, word, file, at, why)) return false;
        } else if (strcmp(word[0], "property") == 0 && words >= 3 && state.place != BEFORE) {
            if (!read_property(vertex, &state, word, words, file, at, why)) return false;
        } else {
            return REFUSE(why, file, at, "unexpected header line '%.40s ...'", word[0]);
        }
    }
    if (!state.has_format || state.place == BEFORE)
        return fail(why, "%s: in the header before byte %" PRIu64 ": no '%s' line", file->path, file->offset,
                    state.has_format ? "element vertex" : "format");
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

static bool read_vertices(input_file *file, const layout *vertex, gs_gaussians *out, fault *why) {
    if (!input_file_expect(file, vertex->count, vertex->stride, "vertices", why)) return false;
    if (vertex->last && file->size - file->offset != vertex->count * vertex->stride)
        return fail(why, "%s: %" PRIu64 " bytes follow the last vertex, at byte %" PRIu64, file->path,
                    file->size - file->offset - vertex->count * vertex->stride,
                    file->offset + vertex->count * vertex->stride);
    if (vertex->count > INT32_MAX)
        return fail(why, "%s: %" PRIu64 " vertices are too many", file->path, vertex->count);
    if (!scene_open(out, (int64_t)vertex->count, vertex->sh_degree, why))
        return fail(why, "%s: %s", file->path, why->text);
    out->antialias = vertex->antialiased;
    char block[BLOCK];
    const int64_t at_once = (int64_t)(sizeof block / vertex->stride);
    for (int64_t first = 0; first < out->count; first += at_once) {
        const int64_t rows = out->count - first < at_once ? out->count - first : at_once;
        if (!input_file_read(file, block, (size_t)rows * vertex->stride, "vertices", why)) return false;
        for (int64_t row = 0; row < rows; row++) {
            for (int slot = 0; slot < SLOTS; slot++) {
                if (vertex->offset[slot] < 0) continue;
                const size_t from = (size_t)row * vertex->stride + (size_t)vertex->offset[slot];
                memcpy(slot_value(out, first + row, slot), block + from, sizeof(float));
            }
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

static double binary_value(const char *at, const char *type) {
    const bool is_signed = type[0] != 'u';
    int64_t integer = 0;
    float real;
    double wide;
    if (strcmp(type, "double") == 0 || strcmp(type, "float64") == 0)
        return memcpy(&wide, at, sizeof wide), wide;
    if (strncmp(type, "float", 5) == 0) return memcpy(&real, at, sizeof real), (double)real;
    const size_t size = size_of_type(type);
    memcpy(&integer, at, size);
    if (is_signed && (integer >> (8 * size - 1) & 1)) integer -= (int64_t)1 << (8 * size);
    return (double)integer;
}

static bool read_binary_point(input_file *file, const layout *vertex, double values[POINT_VALUES],
                              fault *why) {
    char row[8 * MAX_PROPERTIES];
    if (!input_file_read(file, row, vertex->stride, "vertices", why)) return false;
    for (int k = 0; k < POINT_VALUES; k++)
        if (vertex->values[k].type[0])
            values[k] = binary_value(row + vertex->values[k].offset, vertex->values[k].type);
    return true;
}

static bool read_ascii_point(input_file *file, const layout *vertex, double values[POINT_VALUES],
                             fault *why) {
    char line[PLY_MAX_LINE], *at = line, *end;
    uint64_t begins;
    if (!ply_read_line(file, line, &begins, why)) return false;
    for (int column = 0; column < vertex->properties; column++, at = end) {
        const double value = strtod(at, &end);
        if (end == at)
            return REFUSE(why, file, begins, "a vertex of fewer than %d numbers", vertex->properties);
        for (int k = 0; k < POINT_VALUES; k++)
            if (vertex->values[k].type[0] && vertex->values[k].column == column) values[k] = value;
    }
    return true;
}

static bool read_points(input_file *file, const layout *vertex, reconstruction *out, fault *why) {
    if (!input_file_expect(file, vertex->count, vertex->ascii ? 6 : vertex->stride, "vertices", why))
        return false;
    for (uint64_t i = 0; i < vertex->count; i++) {
        const uint64_t at = file->offset;
        double values[POINT_VALUES] = {0, 0, 0, 128, 128, 128};
        float point[3];
        uint8_t color[3];
        if (!(vertex->ascii ? read_ascii_point : read_binary_point)(file, vertex, values, why)) return false;
        if (!reconstruction_place(values, point))
            return REFUSE(why, file, at, "vertex %" PRIu64 " is at %g, %g, %g", i, values[0], values[1],
                          values[2]);
        for (int c = 0; c < 3; c++) {
            if (!(values[3 + c] >= 0 && values[3 + c] <= 255))
                return REFUSE(why, file, at, "vertex %" PRIu64 " has %s = %g; it must be 0..255", i,
                              point_names[3 + c], values[3 + c]);
            color[c] = (uint8_t)values[3 + c];
        }
        if (!reconstruction_add_point(out, point, color, why))
            return fail(why, "%s: %s", file->path, why->text);
    }
    return true;
}

bool ply_read_points(const char *path, reconstruction *out, fault *why) {
    input_file file;
    layout vertex = {.of_points = true};
    if (!input_file_open(&file, path, why)) return false;
    const bool done = read_header(&file, &vertex, why) && read_points(&file, &vertex, out, why);
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
