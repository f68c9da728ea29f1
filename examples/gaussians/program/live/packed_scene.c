// SPDX-License-Identifier: MIT
#include "live/packed_scene.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// ---- what there is room for

// A Gaussian and a number to sort it by.
typedef struct ranked {
    double key;
    int64_t index;
} ranked;

static int compare_keys(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

// The opacity times the fourth root of the largest area that a Gaussian shows. Without 30% of their Gaussians fox and
// bonsai have 48 and 34 dB against the whole; by the area itself 33 and 29, by opacity alone 45 and 31.
static double weight_of(const gs_gaussians *g, int64_t i) {
    const float *const s = g->log_scale + 3 * i;
    const double area = exp((double)s[0] + s[1] + s[2] - fmin(fmin(s[0], s[1]), s[2]));
    return sqrt(sqrt(area)) / (1 + exp(-(double)g->opacity_logit[i]));
}

static bool is_kept(const gs_gaussians *scene, int64_t i, const void *kept) {
    (void)scene;
    return ((const bool *)kept)[i];
}

bool scene_keep_heaviest(gs_gaussians *scene, int64_t most, fault *why) {
    const size_t count = (size_t)scene->count;
    if (scene->count <= most) return true;
    ranked *const weights = malloc(count * sizeof *weights);
    bool *const kept = calloc(count, sizeof *kept);
    const bool done = (weights && kept) || fail(why, "no memory for the weights of %zu Gaussians", count);
    for (int64_t i = 0; i < scene->count && done; i++) weights[i] = (ranked){-weight_of(scene, i), i};
    if (done) qsort(weights, count, sizeof *weights, compare_keys);
    for (int64_t i = 0; i < most && done; i++) kept[weights[i].index] = true;
    if (done) gaussians_keep(scene, is_kept, kept);
    free(weights);
    free(kept);
    return done;
}

// ---- the streams

enum { MEANS = 3, FINE = 65535, COARSE = 255, PLANES = 17 }; // values of 16 bits; levels; bytes of a Gaussian

// The finest step holds coefficients up to 2; beyond, the nearest value is taken. Each step is STEP_GROWTH times the one before.
static const double finest_step = 1.0 / 64, step_growth = 1.1;
enum { SH_STEPS = 45 }; // the last step is 1.04
// Scales below this part of the largest of their chunk count as that: they are invisible, and steps are finer.
static const double scale_range = 12; // of logarithms

static bool compress_stream(const uint8_t *bytes, size_t count, int strategy, packed_stream *out,
                            fault *why) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)count};
    bool done = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS, 8, strategy) == Z_OK;
    const uLong most = done ? deflateBound(&stream, count) : 0;
    *out = (packed_stream){.bytes = malloc(most + 1)};
    stream.next_out = out->bytes;
    stream.avail_out = (uInt)most;
    done = done && out->bytes && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    out->count = stream.total_out;
    deflateEnd(&stream);
    return done || fail(why, "no memory for a compressed scene of %zu bytes", count);
}

// ---- the order: along a Morton curve, so that neighbours in space are neighbours in the file

// A place in a cube of 2^17 steps: 51 bits, which a double holds.
static double morton_code(const double part[3]) {
    uint64_t code = 0;
    for (int bit = 0; bit < 17; bit++)
        for (int axis = 0; axis < 3; axis++)
            code |= ((uint64_t)(part[axis] * 0x1ffff) >> bit & 1) << (3 * bit + axis);
    return (double)code;
}

static ranked *places_of(const gs_gaussians *scene, fault *why) {
    ranked *places = malloc((size_t)scene->count * sizeof *places);
    if (!places) {
        fail(why, "no memory for the order of %lld Gaussians", (long long)scene->count);
        return NULL;
    }
    double least[3], most[3];
    for (int axis = 0; axis < 3; axis++) {
        least[axis] = most[axis] = (double)scene->mean[axis];
        for (int64_t i = 0; i < scene->count; i++) {
            least[axis] = fmin(least[axis], (double)scene->mean[3 * i + axis]);
            most[axis] = fmax(most[axis], (double)scene->mean[3 * i + axis]);
        }
    }
    for (int64_t i = 0; i < scene->count; i++) {
        double part[3];
        for (int axis = 0; axis < 3; axis++) {
            const double size = most[axis] - least[axis];
            part[axis] = size > 0 ? ((double)scene->mean[3 * i + axis] - least[axis]) / size : 0;
        }
        places[i] = (ranked){morton_code(part), i};
    }
    qsort(places, (size_t)scene->count, sizeof *places, compare_keys);
    return places;
}

// ---- the Gaussians

static void values_of(const gs_gaussians *scene, int64_t i, float values[PACKED_VALUES]) {
    const int coefficients = (scene->sh_degree + 1) * (scene->sh_degree + 1);
    for (int k = 0; k < 3; k++) {
        values[k] = scene->mean[3 * i + k];
        values[3 + k] = scene->log_scale[3 * i + k];
        values[6 + k] = scene->sh[i * coefficients * GS_CHANNELS + k];
    }
    values[9] = (float)(1 / (1 + exp(-(double)scene->opacity_logit[i])));
}

// bits 30..31: the largest of w x y z; then the others, 10 bits each.
static uint32_t pack_rotation(const float quaternion[4]) {
    double q[4], square = 0;
    int largest = 0;
    for (int k = 0; k < 4; k++) {
        q[k] = (double)quaternion[k];
        square += q[k] * q[k];
        if (fabs(q[k]) > fabs(q[largest])) largest = k;
    }
    if (!(square > 0)) return 511u << 20 | 511u << 10 | 511u; // no rotation, as good as any
    const double factor = (q[largest] < 0 ? -1 : 1) / sqrt(square);
    uint32_t bits = (uint32_t)largest;
    for (int k = 0; k < 4; k++) {
        if (k == largest) continue;
        const double level = (q[k] * factor / sqrt(2.0) + 0.5) * 1023;
        bits = bits << 10 | (uint32_t)lrint(fmin(fmax(level, 0), 1023));
    }
    return bits;
}

static uint32_t level_of(float value, float least, float most, int levels) {
    if (!(most > least)) return 0;
    const double part = ((double)value - (double)least) / ((double)most - (double)least);
    return (uint32_t)lrint(fmin(fmax(part, 0), 1) * levels);
}

// Writes the bounds and the planes of the Gaussians at places first .. end - 1.
static void pack_chunk(const gs_gaussians *scene, const ranked *places, int64_t first, int64_t end,
                       float *bounds, uint8_t *planes) {
    const int64_t n = scene->count;
    float values[PACKED_CHUNK][PACKED_VALUES], least[PACKED_VALUES], most[PACKED_VALUES];
    for (int64_t i = first; i < end; i++) values_of(scene, places[i].index, values[i - first]);
    for (int v = 0; v < PACKED_VALUES; v++) {
        least[v] = most[v] = values[0][v];
        for (int64_t i = 1; i < end - first; i++) {
            least[v] = fminf(least[v], values[i][v]);
            most[v] = fmaxf(most[v], values[i][v]);
        }
    }
    const float longest = fmaxf(most[3], fmaxf(most[4], most[5]));
    for (int v = 0; v < PACKED_VALUES; v++) {
        if (v >= 3 && v < 6) {
            least[v] = fmaxf(least[v], longest - (float)scale_range);
            most[v] = fmaxf(most[v], least[v]);
        }
        bounds[2 * v] = least[v];
        bounds[2 * v + 1] = most[v];
        for (int64_t i = first; i < end; i++) {
            const uint32_t level =
                level_of(values[i - first][v], least[v], most[v], v < MEANS ? FINE : COARSE);
            planes[(v + 3) * n + i] = (uint8_t)level;
            if (v < MEANS) planes[v * n + i] = (uint8_t)(level >> 8);
        }
    }
    for (int64_t i = first; i < end; i++) {
        const uint32_t bits = pack_rotation(scene->quaternion + 4 * places[i].index);
        for (int k = 0; k < 4; k++) planes[(13 + k) * n + i] = (uint8_t)(bits >> 8 * k);
    }
}

static bool pack_gaussians(const gs_gaussians *scene, const ranked *places, packed_stream *out, fault *why) {
    const int64_t n = scene->count, chunks = (n + PACKED_CHUNK - 1) / PACKED_CHUNK;
    const size_t head = (size_t)chunks * 2 * PACKED_VALUES * sizeof(float), bytes = head + PLANES * (size_t)n;
    uint8_t *planes = malloc(bytes);
    if (!planes) return fail(why, "no memory for a packed scene of %zu bytes", bytes);
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t first = c * PACKED_CHUNK, end = first + PACKED_CHUNK < n ? first + PACKED_CHUNK : n;
        float bounds[2 * PACKED_VALUES];
        pack_chunk(scene, places, first, end, bounds, planes + head);
        memcpy(planes + (size_t)c * sizeof bounds, bounds, sizeof bounds);
    }
    const bool done = compress_stream(planes, bytes, Z_DEFAULT_STRATEGY, out, why);
    free(planes);
    return done;
}

// ---- the harmonics

// largest: the absolute value of a coefficient of degree 1, 2, 3.
static void find_largest(const gs_gaussians *scene, double largest[3]) {
    const int stored = (scene->sh_degree + 1) * (scene->sh_degree + 1);
    for (int64_t i = 0; i < scene->count; i++)
        for (int k = 1; k < stored; k++)
            for (int c = 0; c < GS_CHANNELS; c++) {
                double *const of = &largest[k < 4 ? 0 : k < 9 ? 1 : 2];
                *of = fmax(*of, fabs((double)scene->sh[(i * stored + k) * GS_CHANNELS + c]));
            }
}

// The highest degree with a coefficient that is not 0 with this step.
static int degree_in_use(const double largest[3], double step) {
    for (int degree = 3; degree > 0; degree--)
        if (largest[degree - 1] >= step / 2) return degree;
    return 0;
}

// Packs those up to out->sh_degree with out->step.
static bool pack_harmonics(const gs_gaussians *scene, const ranked *places, packed_scene *out, fault *why) {
    const int stored = (scene->sh_degree + 1) * (scene->sh_degree + 1);
    const int kept = GS_CHANNELS * ((out->sh_degree + 1) * (out->sh_degree + 1) - 1);
    const size_t n = (size_t)scene->count, bytes = (size_t)kept * n;
    uint8_t *planes = malloc(bytes + 1); // + 1, as malloc(0) may return NULL
    if (!planes) return fail(why, "no memory for %zu bytes of harmonics", bytes);
    for (size_t i = 0; i < n; i++) {
        const float *sh = scene->sh + places[i].index * stored * GS_CHANNELS;
        for (int plane = 0; plane < kept; plane++) {
            const double level = (double)sh[GS_CHANNELS + plane] / out->step;
            planes[(size_t)plane * n + i] = (uint8_t)(128 + lrint(fmin(fmax(level, -128), 127)));
        }
    }
    // Coefficients of neighbours agree by chance: a search for matches takes ten times as long and makes the stream 15 to 40%
    // larger. Runs of zeros are worth finding.
    packed_stream *const best = &out->harmonics, other = {0};
    free(best->bytes);
    const bool done = compress_stream(planes, bytes, Z_HUFFMAN_ONLY, best, why) &&
                      compress_stream(planes, bytes, Z_RLE, &other, why);
    const packed_stream first = *best;
    if (done && other.count < first.count) *best = other, other = first;
    free(other.bytes);
    free(planes);
    return done;
}

bool packed_scene_open(packed_scene *out, const gs_gaussians *scene, size_t most, fault *why) {
    *out = (packed_scene){.count = scene->count, .antialias = scene->antialias};
    ranked *places = places_of(scene, why);
    double largest[3] = {0};
    find_largest(scene, largest);
    out->whole_degree = degree_in_use(largest, finest_step);
    bool done = places && pack_gaussians(scene, places, &out->gaussians, why);
    // The finest step that fits is between least and end, or is the last. First the finest: most scenes fit.
    for (int least = 0, end = SH_STEPS, packed = -1; done && (least < end || packed != end);) {
        packed = packed < 0 ? 0 : (least + end) / 2;
        out->step = packed < SH_STEPS ? finest_step * pow(step_growth, packed) : DBL_MAX;
        out->sh_degree = degree_in_use(largest, out->step);
        done = pack_harmonics(scene, places, out, why);
        if (packed < end && out->gaussians.count + out->harmonics.count > most)
            least = packed + 1;
        else
            end = packed;
    }
    free(places);
    if (!done) packed_scene_close(out);
    return done;
}

void packed_scene_close(packed_scene *packed) {
    free(packed->gaussians.bytes);
    free(packed->harmonics.bytes);
    *packed = (packed_scene){0};
}
