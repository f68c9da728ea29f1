// SPDX-License-Identifier: MIT
// Writes SOG. Pixels follow a Morton curve, so that neighbours are alike and compress well.
#include "formats/sog.h"
#include "formats/clusters.h"
#include "formats/packing.h"
#include "formats/zip.h"
#include "files/json_writer.h"
#include "files/memory_stream.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#ifdef DISTWAR_WEBP
#include <webp/encode.h>

enum { MOST_SIDE = 16383 }; // of a WebP picture

typedef struct sog_plan {
    const gs_gaussians *scene;
    int32_t *order;    // of Gaussians: pixel i is order[i]
    int width, height; // of pictures
    uint8_t *rgba;     // room for one
    float *values;     // room for the values of a codebook
    float least[AXES], most[AXES];
    float scales[CODES], colors[CODES], harmonics[CODES];
    int64_t entries; // of the palette
    int32_t *labels;
    float *palette;
    zip_writer zip;
    fault *why;
    const char *path;
} sog_plan;

static double log_place(double x) {
    return copysign(log1p(fabs(x)), x);
}

typedef struct curve_place {
    uint32_t key; // along a Morton curve
    int32_t index;
} curve_place;

static int compare_places(const void *a, const void *b) {
    const curve_place *const x = a, *const y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool find_order(sog_plan *s) {
    const gs_gaussians *const g = s->scene;
    curve_place *const places = malloc(((size_t)g->count + 1) * sizeof *places);
    if (!places) return false;
    for (int k = 0; k < AXES; k++) {
        s->least[k] = g->count ? INFINITY : 0;
        s->most[k] = g->count ? -INFINITY : 0;
    }
    for (int64_t i = 0; i < AXES * g->count; i++) {
        const float n = (float)log_place(g->mean[i]);
        s->least[i % AXES] = fminf(s->least[i % AXES], n);
        s->most[i % AXES] = fmaxf(s->most[i % AXES], n);
    }
    for (int64_t i = 0; i < g->count; i++) {
        places[i] = (curve_place){0, (int32_t)i};
        for (int k = 0; k < AXES; k++) {
            const double n = log_place(g->mean[AXES * i + k]) - (double)s->least[k];
            const double part = n / fmax((double)s->most[k] - (double)s->least[k], 1e-30);
            const uint32_t cell = (uint32_t)(fmin(fmax(part, 0), 1) * 1023);
            for (int bit = 0; bit < 10; bit++) places[i].key |= (cell >> bit & 1) << (3 * bit + k);
        }
    }
    qsort(places, (size_t)g->count, sizeof *places, compare_places);
    for (int64_t i = 0; i < g->count; i++) s->order[i] = places[i].index;
    free(places);
    return true;
}

static bool put_picture(sog_plan *s, const char *name, int width, int height) {
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter out;
    WebPMemoryWriterInit(&out);
    bool done = WebPConfigPreset(&config, WEBP_PRESET_DEFAULT, 100) && WebPPictureInit(&picture) &&
                WebPConfigLosslessPreset(&config, 6);
    config.exact = 1; // colours where alpha is 0 count
    picture.use_argb = 1;
    picture.width = width;
    picture.height = height;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &out;
    done = done && WebPPictureImportRGBA(&picture, s->rgba, 4 * width) && WebPEncode(&config, &picture);
    WebPPictureFree(&picture);
    if (!done)
        fail(s->why, "%s: not written: no memory for the picture %s of %d x %d pixels", s->path, name, width,
             height);
    else if (!zip_put(&s->zip, name, out.mem, out.size))
        done = fail(s->why, "%s: not written: it would have 4 GiB or more", s->path);
    WebPMemoryWriterClear(&out);
    return done;
}

// Writes a picture whose pixel i is fill()'s four bytes for Gaussian order[i]; the pixels after the last are 0.
static bool put_gaussians(sog_plan *s, const char *name,
                          void (*fill)(const sog_plan *s, int64_t i, uint8_t *rgba)) {
    memset(s->rgba, 0, 4 * (size_t)s->width * (size_t)s->height);
    for (int64_t i = 0; i < s->scene->count; i++) fill(s, s->order[i], s->rgba + 4 * i);
    return put_picture(s, name, s->width, s->height);
}

static int place_code(const sog_plan *s, int64_t i, int k) {
    const double width = (double)s->most[k] - (double)s->least[k];
    const double part =
        (log_place(s->scene->mean[AXES * i + k]) - (double)s->least[k]) / (width > 0 ? width : 1);
    return (int)lrint(fmin(fmax(part, 0), 1) * 65535);
}

static void fill_low(const sog_plan *s, int64_t i, uint8_t *rgba) {
    for (int k = 0; k < AXES; k++) rgba[k] = (uint8_t)(place_code(s, i, k) & 255);
    rgba[3] = 255;
}

static void fill_high(const sog_plan *s, int64_t i, uint8_t *rgba) {
    for (int k = 0; k < AXES; k++) rgba[k] = (uint8_t)(place_code(s, i, k) >> 8);
    rgba[3] = 255;
}

static void fill_rotation(const sog_plan *s, int64_t i, uint8_t *rgba) {
    double unit[4], three[3];
    quaternion_unit(s->scene->quaternion + 4 * i, unit);
    rgba[3] = (uint8_t)(MODES + quaternion_to_three(unit, three));
    for (int k = 0; k < 3; k++) rgba[k] = to_byte(255 * (0.5 + three[k] / sqrt(2)));
}

static void fill_scale(const sog_plan *s, int64_t i, uint8_t *rgba) {
    for (int k = 0; k < AXES; k++) rgba[k] = code_of(s->scales, s->scene->log_scale[AXES * i + k]);
    rgba[3] = 255;
}

static void fill_color(const sog_plan *s, int64_t i, uint8_t *rgba) {
    const int floats = GS_CHANNELS * (rest_of(s->scene->sh_degree) + 1);
    for (int k = 0; k < GS_CHANNELS; k++) rgba[k] = code_of(s->colors, s->scene->sh[i * floats + k]);
    rgba[3] = opacity_byte(s->scene, i);
}

static void fill_label(const sog_plan *s, int64_t i, uint8_t *rgba) {
    rgba[0] = (uint8_t)(s->labels[i] & 255);
    rgba[1] = (uint8_t)(s->labels[i] >> 8);
    rgba[3] = 255;
}

// The palette's size: as many entries as a quarter of the Gaussians, a few of which share each.
static int64_t palette_size(int64_t count) {
    const int64_t size = count < 4 * PALETTE_COLUMNS ? count : count / 4;
    return size < MOST_PALETTE ? size : MOST_PALETTE;
}

static bool put_harmonics(sog_plan *s) {
    const gs_gaussians *const g = s->scene;
    const int rest = rest_of(g->sh_degree), width = GS_CHANNELS * rest;
    const int rows = (int)((s->entries + PALETTE_COLUMNS - 1) / PALETTE_COLUMNS);
    memset(s->rgba, 0, 4 * (size_t)(PALETTE_COLUMNS * rest) * (size_t)rows);
    for (int64_t i = 0; i < s->entries * rest; i++) {
        for (int k = 0; k < GS_CHANNELS; k++)
            s->rgba[4 * i + k] =
                code_of(s->harmonics, s->palette[i / rest * width + i % rest * GS_CHANNELS + k]);
        s->rgba[4 * i + 3] = 255;
    }
    return put_picture(s, "shN_centroids.webp", PALETTE_COLUMNS * rest, rows) &&
           put_gaussians(s, "shN_labels.webp", fill_label);
}

static void put_files(json_writer *json, const char *first, const char *second) {
    json_begin(json, "files", '[');
    json_put_text(json, NULL, first);
    if (second) json_put_text(json, NULL, second);
    json_end(json, ']');
    json_end(json, '}');
}

static void put_coded(json_writer *json, const char *name, const float codebook[CODES], const char *file) {
    json_begin(json, name, '{');
    json_put_floats(json, "codebook", codebook, CODES);
    put_files(json, file, NULL);
}

static void describe(const sog_plan *s, FILE *stream) {
    json_writer json = {.stream = stream, .first = true, .one_line = true};
    const bool antialias = s->scene->antialias != 0;
    json_begin(&json, NULL, '{');
    json_put_integer(&json, "version", VERSION);
    json_put_integer(&json, "count", s->scene->count);
    json_put_boolean(&json, "antialias", antialias);
    if (antialias) json_put_text(&json, "model", "antialiased");
    json_begin(&json, "means", '{');
    json_put_floats(&json, "mins", s->least, AXES);
    json_put_floats(&json, "maxs", s->most, AXES);
    put_files(&json, "means_l.webp", "means_u.webp");
    put_coded(&json, "scales", s->scales, "scales.webp");
    json_begin(&json, "quats", '{');
    put_files(&json, "quats.webp", NULL);
    put_coded(&json, "sh0", s->colors, "sh0.webp");
    if (s->entries > 0) {
        json_begin(&json, "shN", '{');
        json_put_integer(&json, "count", s->entries);
        json_put_integer(&json, "bands", s->scene->sh_degree);
        json_put_floats(&json, "codebook", s->harmonics, CODES);
        put_files(&json, "shN_centroids.webp", "shN_labels.webp");
    }
    json_end(&json, '}');
}

static bool put_meta(sog_plan *s) {
    char *text = NULL;
    size_t size = 0;
    FILE *const stream = memory_stream_open(&text, &size);
    if (!stream) return fail(s->why, "%s: no memory for meta.json", s->path);
    describe(s, stream);
    const bool done = (memory_stream_close(stream) && zip_put(&s->zip, "meta.json", text, size)) ||
                      fail(s->why, "%s: no memory for meta.json", s->path);
    free(text);
    return done;
}

// The codebooks and the palette.
static bool find_codes(sog_plan *s) {
    const gs_gaussians *const g = s->scene;
    const int width = GS_CHANNELS * rest_of(g->sh_degree), floats = width + GS_CHANNELS;
    memcpy(s->values, g->log_scale, (size_t)(AXES * g->count) * sizeof(float));
    if (!codebook_of(s->values, AXES * g->count, s->scales)) return false;
    for (int64_t i = 0; i < GS_CHANNELS * g->count; i++)
        s->values[i] = g->sh[i / GS_CHANNELS * floats + i % GS_CHANNELS];
    if (!codebook_of(s->values, GS_CHANNELS * g->count, s->colors)) return false;
    if (width == 0 || g->count == 0) return true;
    for (int64_t i = 0; i < g->count; i++)
        memcpy(s->values + i * width, g->sh + i * floats + GS_CHANNELS, (size_t)width * sizeof(float));
    s->entries = palette_of(s->values, g->count, width, palette_size(g->count), s->labels, s->palette);
    if (s->entries < 0) return false;
    memcpy(s->values, s->palette, (size_t)(s->entries * width) * sizeof(float));
    return codebook_of(s->values, s->entries * width, s->harmonics);
}

static bool put_all(sog_plan *s) {
    if (!find_order(s) || !find_codes(s)) return fail(s->why, "%s: not written: no memory", s->path);
    if (!put_meta(s) || !put_gaussians(s, "means_l.webp", fill_low) ||
        !put_gaussians(s, "means_u.webp", fill_high) || !put_gaussians(s, "quats.webp", fill_rotation) ||
        !put_gaussians(s, "scales.webp", fill_scale) || !put_gaussians(s, "sh0.webp", fill_color) ||
        (s->entries > 0 && !put_harmonics(s)))
        return false;
    zip_end(&s->zip);
    return true;
}

bool sog_write(const output_file *file, const gs_gaussians *scene, int variant, fault *why) {
    (void)variant;
    const size_t count = (size_t)scene->count, rest = (size_t)rest_of(scene->sh_degree);
    const size_t entries = (size_t)palette_size(scene->count);
    const int width = count ? (int)ceil(sqrt((double)count)) : 1;
    const int height = count ? (int)((count + (size_t)width - 1) / (size_t)width) : 1;
    if (width > MOST_SIDE)
        return fail(why, "%s: not written: %zu Gaussians are too many for SOG", file->path, count);
    const size_t pixels = (size_t)width * (size_t)height;
    const size_t palette = (entries + PALETTE_COLUMNS) * rest; // pixels, the last row full
    sog_plan s = {.scene = scene,
                  .width = width,
                  .height = height,
                  .rgba = malloc(4 * (pixels > palette ? pixels : palette)),
                  .values = malloc((count + 1) * GS_CHANNELS * (rest ? rest : 1) * sizeof *s.values),
                  .order = malloc((count + 1) * sizeof *s.order),
                  .labels = malloc((count + 1) * sizeof *s.labels),
                  .palette = malloc((entries * rest + 1) * GS_CHANNELS * sizeof *s.palette),
                  .zip = {.stream = file->stream},
                  .why = why,
                  .path = file->path};
    const bool room = s.rgba && s.values && s.order && s.labels && s.palette;
    const bool done = room ? put_all(&s) : fail(why, "%s: not written: no memory", file->path);
    free(s.rgba);
    free(s.values);
    free(s.order);
    free(s.labels);
    free(s.palette);
    return done;
}
#endif
