// SPDX-License-Identifier: MIT
// Scenes as compressed PLY files of PlayCanvas: a "chunk" holds the bounds of 256 vertices, which are four words each;
// then, or not, come coefficients of a byte. Axes as in PLY. They are only read.
#include "formats/formats.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Files of 2024 have only OLD_BOUNDS: none of colours.
enum { CHUNK = 256, BOUNDS = 18, OLD_BOUNDS = 12, WORDS = 4, MOST_REST = 45 };

static const char *const word_names[WORDS] = {"packed_position", "packed_rotation", "packed_scale",
                                              "packed_color"};

// Where the rows have what is read.
typedef struct layout {
    ply_header header;
    const ply_element *chunk, *vertex, *sh; // sh: NULL if there is none
    const ply_property *bound[BOUNDS], *word[WORDS], *rest[MOST_REST];
    int rests;
} layout;

static const ply_element *find_element(const ply_header *h, const char *name, int place) {
    return place < h->elements && !h->element[place].has_list && strcmp(h->element[place].name, name) == 0
               ? &h->element[place]
               : NULL;
}

static bool read_layout(input_file *file, layout *l, fault *why) {
    const ply_header *const h = &l->header;
    if (!ply_read_header(file, &l->header, why)) return false;
    l->chunk = find_element(h, "chunk", 0), l->vertex = find_element(h, "vertex", 1);
    l->sh = find_element(h, "sh", 2), l->rests = l->sh ? l->sh->end - l->sh->first : 0;
    bool whole = !h->ascii && l->chunk && l->vertex && h->elements == 2 + (l->sh != NULL) &&
                 l->rests <= MOST_REST && degree_of_rest(l->rests) >= 0;
    for (int k = 0; whole && k < BOUNDS; k++) { // min_x min_y min_z max_x ... min_scale_x ... min_r min_g ...
        char name[24];
        snprintf(name, sizeof name, "%s%s%c", k / 3 % 2 ? "max_" : "min_", k / 6 == 1 ? "scale_" : "",
                 (k < OLD_BOUNDS ? "xyz" : "rgb")[k % 3]);
        l->bound[k] = ply_find(h, l->chunk, name);
        whole = l->bound[k] || (k >= OLD_BOUNDS && !l->bound[OLD_BOUNDS]);
    }
    for (int k = 0; whole && k < WORDS; k++)
        whole = (l->word[k] = ply_find(h, l->vertex, word_names[k])) != NULL;
    for (int k = 0; whole && k < l->rests; k++) {
        char name[24];
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
    double parts[3];
    read_three(word[0], bounds, g->mean + 3 * i);
    read_three(word[2], bounds + 6, g->log_scale + 3 * i);
    for (int k = 0; k < 3; k++) parts[k] = part(word[1], 20 - 10 * k, 10);
    quaternion_from_parts((int)(word[1] >> 30), parts, g->quaternion + 4 * i);
    for (int k = 0; k < 3; k++) {
        const double least = bounds[12 + k],
                     color = least + part(word[3], 24 - 8 * k, 8) * (bounds[15 + k] - least);
        sh[k] = (float)scene_sh_constant(color);
    }
    g->opacity_logit[i] = byte_logit((uint8_t)(word[3] & 255));
}

static bool read_rows(input_file *file, const layout *l, float *chunks, gs_gaussians *out, fault *why) {
    char row[8 * PLY_PROPERTIES];
    const int rest = l->rests / GS_CHANNELS;
    for (uint64_t c = 0; c < l->chunk->count; c++) {
        if (!input_file_read(file, row, l->chunk->stride, "a chunk", why)) return false;
        for (int k = 0; k < BOUNDS; k++)
            chunks[c * BOUNDS + (uint64_t)k] =
                l->bound[k] ? (float)ply_value(&l->header, l->bound[k], row) : (float)(k >= OLD_BOUNDS + 3);
    }
    for (int64_t i = 0; i < out->count; i++) {
        uint32_t words[WORDS];
        if (!input_file_read(file, row, l->vertex->stride, "a vertex", why)) return false;
        for (int k = 0; k < WORDS; k++) words[k] = (uint32_t)(int64_t)ply_value(&l->header, l->word[k], row);
        read_vertex(words, chunks + i / CHUNK * BOUNDS, out, i);
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

static bool compressed_ply_claims(const char *head, size_t bytes) {
    static const char mark[] = "\nelement chunk ";
    for (size_t at = 0; bytes >= 3 && memcmp(head, "ply", 3) == 0 && at + sizeof mark <= bytes; at++)
        if (memcmp(head + at, mark, sizeof mark - 1) == 0) return true;
    return false;
}

static bool compressed_ply_read(input_file *file, gs_gaussians *out, fault *why) {
    layout l = {.rests = 0};
    if (!read_layout(file, &l, why)) return false;
    float *const chunks = malloc(((size_t)l.chunk->count + 1) * BOUNDS * sizeof *chunks);
    if (!chunks) return fail(why, "%s: no memory for %" PRIu64 " chunks", file->path, l.chunk->count);
    const bool done = scene_open(out, (int64_t)l.vertex->count, degree_of_rest(l.rests), why) &&
                      read_rows(file, &l, chunks, out, why);
    out->antialias = done && l.header.antialiased;
    free(chunks);
    return done;
}

const scene_format compressed_ply_format = {
    .suffix = ".compressed.ply", .claims = compressed_ply_claims, .read = compressed_ply_read};
