// SPDX-License-Identifier: MIT
// Scenes as compressed PLY files of PlayCanvas: a "chunk" holds the bounds of 256 vertices, which are four words each;
// then, or not, come coefficients of a byte. Properties have the order in which PlayCanvas's programs write them. Axes
// as in PLY. They are only read.
#include "formats/formats.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 512, CHUNK = 256 };
enum { BOUNDS = 18, OLD_BOUNDS = 12 }; // floats of a chunk; files of 2024 have none for colours

static const char *const bound_names[BOUNDS] = {
    "min_x",       "min_y",       "min_z",       "max_x",       "max_y",       "max_z",
    "min_scale_x", "min_scale_y", "min_scale_z", "max_scale_x", "max_scale_y", "max_scale_z",
    "min_r",       "min_g",       "min_b",       "max_r",       "max_g",       "max_b"};
static const char *const word_names[4] = {"packed_position", "packed_rotation", "packed_scale",
                                          "packed_color"};

typedef struct header {
    uint64_t chunks, vertices, harmonics; // rows of the elements; harmonics: 0 if there is no such element
    int bounds, words, coefficients;      // properties
    bool antialiased;
} header;

// "element NAME COUNT" of the next element, the one after `element` (0: none).
static bool read_element(header *h, int *element, const char *name, const char *text) {
    static const char *const names[] = {"chunk", "vertex", "sh"};
    uint64_t *const counts[] = {&h->chunks, &h->vertices, &h->harmonics};
    char *end;
    if (*element == 3 || strcmp(name, names[*element]) != 0 || text[0] < '0' || text[0] > '9') return false;
    *counts[*element] = strtoull(text, &end, 10);
    return *end == '\0' && *counts[(*element)++] <= INT32_MAX;
}

// "property TYPE NAME" of an element, which must be the next in the order.
static bool read_property(header *h, int element, const char *type, const char *name) {
    char harmonic[16];
    snprintf(harmonic, sizeof harmonic, "f_rest_%d", h->coefficients);
    if (element == 1)
        return h->bounds < BOUNDS && !strcmp(type, "float") && !strcmp(name, bound_names[h->bounds++]);
    if (element == 2) return h->words < 4 && !strcmp(type, "uint") && !strcmp(name, word_names[h->words++]);
    return element == 3 && h->coefficients < 45 && !strcmp(type, "uchar") && !strcmp(name, harmonic) &&
           ++h->coefficients;
}

static bool read_header(input_file *file, header *h, fault *why) {
    int element = 0;
    *h = (header){.chunks = 0};
    for (int number = 0; number < MAX_LINES; number++) {
        char line[PLY_MAX_LINE], *rest, *word[4] = {NULL};
        uint64_t at;
        if (!ply_read_line(file, line, &at, why)) return false;
        int words = 0;
        for (char *w = strtok_r(line, " \t", &rest); w && words < 4; w = strtok_r(NULL, " \t", &rest))
            word[words++] = w;
        const char *const first = words ? word[0] : "comment";
        bool known = number == 0 ? !strcmp(first, "ply") && words == 1 : !strcmp(first, "comment");
        if (number > 0 && words == 3) {
            h->antialiased |= known && !strcmp(word[1], "SplatRenderMode:") && !strcmp(word[2], "mip");
            known |= !strcmp(first, "format") && !strcmp(word[1], "binary_little_endian");
            known |= !strcmp(first, "element") && read_element(h, &element, word[1], word[2]);
            known |= !strcmp(first, "property") && read_property(h, element, word[1], word[2]);
        }
        if (number > 0 && words == 1 && !strcmp(first, "end_header")) return true;
        if (!known)
            return fail(why,
                        "%s: at byte %" PRIu64
                        ": unexpected line '%.40s ...' in the header of a compressed PLY file",
                        file->path, at, first);
    }
    return fail(why, "%s: at byte %" PRIu64 ": more than %d lines before end_header", file->path,
                file->offset, MAX_LINES);
}

static bool check_header(const input_file *file, const header *h, fault *why) {
    const uint64_t bytes =
        h->chunks * (uint64_t)h->bounds * 4 + h->vertices * 16 + h->harmonics * (uint64_t)h->coefficients;
    if ((h->bounds != BOUNDS && h->bounds != OLD_BOUNDS) || h->words != 4 ||
        degree_of_rest(h->coefficients) < 0)
        return fail(why, "%s: in the header before byte %" PRIu64 ": properties are missing", file->path,
                    file->offset);
    if (h->chunks != (h->vertices + CHUNK - 1) / CHUNK ||
        (h->coefficients > 0 && h->harmonics != h->vertices))
        return fail(why,
                    "%s: in the header before byte %" PRIu64 ": %" PRIu64 " chunks and %" PRIu64
                    " rows of coefficients for %" PRIu64 " vertices",
                    file->path, file->offset, h->chunks, h->harmonics, h->vertices);
    return bytes == file->size - file->offset ||
           fail(why,
                "%s: truncated or damaged: %" PRIu64 " bytes announced, but %" PRIu64 " follow byte %" PRIu64,
                file->path, bytes, file->size - file->offset, file->offset);
}

static double part(uint32_t word, int shift, int bits) {
    const uint32_t most = (1u << bits) - 1;
    return (double)(word >> shift & most) / most;
}

// Three values of 11, 10 and 11 bits between bounds: three minima, three maxima.
static void read_three(uint32_t word, const float *bounds, float out[3]) {
    const double parts[3] = {part(word, 21, 11), part(word, 11, 10), part(word, 0, 11)};
    for (int k = 0; k < 3; k++)
        out[k] = (float)((double)bounds[k] + parts[k] * ((double)bounds[3 + k] - (double)bounds[k]));
}

static void read_vertex(const uint32_t word[4], const float bounds[BOUNDS], gs_gaussians *g, int64_t i) {
    float *const sh = g->sh + i * GS_CHANNELS * coefficients(g->sh_degree);
    double three[3], q[4];
    read_three(word[0], bounds, g->mean + 3 * i);
    read_three(word[2], bounds + 6, g->log_scale + 3 * i);
    for (int k = 0; k < 3; k++) three[k] = (part(word[1], 20 - 10 * k, 10) - 0.5) * sqrt(2);
    quaternion_from_three((int)(word[1] >> 30), three, q);
    for (int k = 0; k < 4; k++) g->quaternion[4 * i + k] = (float)q[k];
    for (int k = 0; k < 3; k++) {
        const double least = bounds[12 + k],
                     color = least + part(word[3], 24 - 8 * k, 8) * (bounds[15 + k] - least);
        sh[k] = (float)scene_sh_constant(color);
    }
    g->opacity_logit[i] = byte_logit((uint8_t)(word[3] & 255));
}

static bool read_rows(input_file *file, const header *h, float *chunks, gs_gaussians *out, fault *why) {
    for (uint64_t c = 0; c < h->chunks; c++) {
        float *const bounds = chunks + c * BOUNDS;
        for (int k = 0; k < 6; k++) bounds[OLD_BOUNDS + k] = k < 3 ? 0 : 1;
        if (!input_file_read(file, bounds, (size_t)h->bounds * sizeof *bounds, "a chunk", why)) return false;
    }
    for (int64_t i = 0; i < out->count; i++) {
        uint32_t words[4];
        if (!input_file_read(file, words, sizeof words, "a vertex", why)) return false;
        read_vertex(words, chunks + i / CHUNK * BOUNDS, out, i);
    }
    const int rest = h->coefficients / GS_CHANNELS;
    for (int64_t i = 0; i < out->count && rest > 0; i++) {
        uint8_t row[45]; // all of red, then green, then blue, in 256ths of -4..4
        if (!input_file_read(file, row, (size_t)h->coefficients, "coefficients", why)) return false;
        float *const sh = out->sh + i * GS_CHANNELS * (rest + 1) + GS_CHANNELS;
        for (int k = 0; k < h->coefficients; k++)
            sh[k % rest * GS_CHANNELS + k / rest] = (float)((row[k] == 0     ? 0
                                                             : row[k] == 255 ? 1
                                                                             : (row[k] + 0.5) / 256) *
                                                                8 -
                                                            4);
    }
    return true;
}

static bool compressed_ply_claims(const char *head, size_t bytes) {
    static const char mark[] = "\nelement chunk ";
    for (size_t at = 0; bytes >= 3 && memcmp(head, "ply", 3) == 0 && at + sizeof mark <= bytes; at++)
        if (memcmp(head + at, mark, sizeof mark - 1) == 0) return true;
    return false;
}

static bool compressed_ply_read(input_file *file, gs_gaussians *out, fault *why) {
    header h;
    if (!read_header(file, &h, why) || !check_header(file, &h, why)) return false;
    float *const chunks = malloc(((size_t)h.chunks + 1) * BOUNDS * sizeof *chunks);
    if (!chunks) return fail(why, "%s: no memory for %" PRIu64 " chunks", file->path, h.chunks);
    const bool done = scene_open(out, (int64_t)h.vertices, degree_of_rest(h.coefficients), why) &&
                      read_rows(file, &h, chunks, out, why);
    out->antialias = done && h.antialiased;
    free(chunks);
    return done;
}

const scene_format compressed_ply_format = {
    .suffix = ".compressed.ply", .claims = compressed_ply_claims, .read = compressed_ply_read};
