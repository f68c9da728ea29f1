// SPDX-License-Identifier: MIT
// Scenes as SOG files, version 2 (developer.playcanvas.com, The SOG Format): a ZIP archive of meta.json and lossless
// WebP pictures whose pixels are Gaussians. Written pixels follow a Morton curve, so that neighbours are alike and
// compress well. Axes are those of PLY, as PlayCanvas's own programs write them.
#include "files/json_writer.h"
#include "files/output_file.h"
#include "formats/clusters.h"
#include "formats/formats.h"
#include "formats/zip.h"
#include "json_field.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool sog_claims(const char *head, size_t bytes) {
    return bytes >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

#ifdef DISTWAR_WEBP
#include <webp/decode.h>
#include <webp/encode.h>

enum { VERSION = 2, AXES = 3, PALETTE_COLUMNS = 64, MOST_PALETTE = 65536 };
enum { MODES = 252 }; // the alpha of a rotation is this and the index of the component left out: w, x, y, z

static inline int rest_of(int degree) { // coefficients after the first
    return coefficients(degree) - 1;
}

// ---- reading

enum { MOST_META = 1 << 20, LOSSLESS = 2 };

typedef struct sog_file {
    const input_file *file;
    zip_archive zip;
    json_t *meta;
    int width, height; // of the pictures of Gaussians; 0: none was read
} sog_file;

typedef struct pixels {
    uint8_t *rgba; // [height][width][4], for WebPFree
    int width, height;
} pixels;

static bool refuse(const sog_file *s, const char *field, const char *must, fault *why) {
    return fail(why, "%s: meta.json: %s must be %s", s->file->path, field, must);
}

// meta.NAME.FIELD
static const json_t *field_of(const sog_file *s, const char *name, const char *field) {
    return json_object_get(json_object_get(s->meta, name), field);
}

static bool read_numbers(const sog_file *s, const char *name, const char *field, size_t count, float *out,
                         fault *why) {
    const json_t *const list = field_of(s, name, field);
    char place[64], wanted[32];
    snprintf(place, sizeof place, "%s.%s", name, field);
    snprintf(wanted, sizeof wanted, "%zu numbers", count);
    if (json_array_size(list) != count) return refuse(s, place, wanted, why);
    for (size_t i = 0; i < count; i++) {
        if (!json_is_number(json_array_get(list, i))) return refuse(s, place, wanted, why);
        out[i] = (float)json_number_value(json_array_get(list, i));
    }
    return true;
}

static bool decode(const sog_file *s, const char *name, const uint8_t *bytes, size_t count, pixels *out,
                   fault *why) {
    WebPBitstreamFeatures about;
    if (WebPGetFeatures(bytes, count, &about) != VP8_STATUS_OK || about.format != LOSSLESS)
        return fail(why, "%s: '%s': not a lossless WebP picture", s->file->path, name);
    if (!is_plausible(s->file->path, s->file->size, 4 * (uint64_t)about.width * (uint64_t)about.height, why))
        return false;
    out->rgba = WebPDecodeRGBA(bytes, count, &out->width, &out->height);
    return out->rgba || fail(why, "%s: '%s': truncated or damaged, or no memory for %d x %d pixels",
                             s->file->path, name, about.width, about.height);
}

// The picture meta.NAME.files[index].
static bool read_picture(const sog_file *s, const char *name, size_t index, pixels *out, fault *why) {
    const char *const file = json_string_value(json_array_get(field_of(s, name, "files"), index));
    uint8_t *bytes;
    size_t count;
    out->rgba = NULL;
    if (!file) return fail(why, "%s: meta.json: %s.files[%zu] must be a name", s->file->path, name, index);
    if (!zip_read(&s->zip, file, s->zip.size, &bytes, &count, why)) return false;
    const bool done = decode(s, file, bytes, count, out, why);
    free(bytes);
    return done;
}

// One whose pixels are Gaussians, all of one size.
static bool read_gaussians(sog_file *s, const char *name, size_t index, int64_t gaussians, pixels *out,
                           fault *why) {
    if (!read_picture(s, name, index, out, why)) return false;
    if (s->width == 0) {
        s->width = out->width;
        s->height = out->height;
    }
    if (out->width == s->width && out->height == s->height && (int64_t)out->width * out->height >= gaussians)
        return true;
    WebPFree(out->rgba);
    return fail(why, "%s: %s.files[%zu]: %d x %d pixels, the first %d x %d, for %" PRId64 " Gaussians",
                s->file->path, name, index, out->width, out->height, s->width, s->height, gaussians);
}

static bool read_means(sog_file *s, gs_gaussians *g, fault *why) {
    float least[AXES], most[AXES];
    pixels low, high;
    if (!read_numbers(s, "means", "mins", AXES, least, why) ||
        !read_numbers(s, "means", "maxs", AXES, most, why) ||
        !read_gaussians(s, "means", 0, g->count, &low, why))
        return false;
    const bool done = read_gaussians(s, "means", 1, g->count, &high, why);
    for (int64_t i = 0; done && i < AXES * g->count; i++) {
        const int64_t at = i / AXES * 4 + i % AXES, axis = i % AXES;
        const double part = (high.rgba[at] * 256 + low.rgba[at]) / 65535.0;
        const double n = (double)least[axis] + ((double)most[axis] - (double)least[axis]) * part;
        g->mean[i] = (float)copysign(expm1(fabs(n)), n);
    }
    if (done) WebPFree(high.rgba);
    WebPFree(low.rgba);
    return done;
}

static bool read_scales(sog_file *s, gs_gaussians *g, fault *why) {
    float codebook[CODES];
    pixels p;
    if (!read_numbers(s, "scales", "codebook", CODES, codebook, why) ||
        !read_gaussians(s, "scales", 0, g->count, &p, why))
        return false;
    for (int64_t i = 0; i < AXES * g->count; i++) g->log_scale[i] = codebook[p.rgba[i / AXES * 4 + i % AXES]];
    WebPFree(p.rgba);
    return true;
}

static bool read_rotations(sog_file *s, gs_gaussians *g, fault *why) {
    pixels p;
    if (!read_gaussians(s, "quats", 0, g->count, &p, why)) return false;
    int64_t i = 0;
    for (; i < g->count && p.rgba[4 * i + 3] >= MODES; i++) {
        double three[3], q[4];
        for (int k = 0; k < 3; k++) three[k] = (p.rgba[4 * i + k] / 255.0 - 0.5) * sqrt(2);
        quaternion_from_three(p.rgba[4 * i + 3] - MODES, three, q);
        for (int k = 0; k < 4; k++) g->quaternion[4 * i + k] = (float)q[k];
    }
    WebPFree(p.rgba);
    return i == g->count ||
           fail(why, "%s: quats: the alpha of pixel %" PRId64 " is below %d", s->file->path, i, MODES);
}

static bool read_colors(sog_file *s, gs_gaussians *g, fault *why) {
    const int floats = GS_CHANNELS * (rest_of(g->sh_degree) + 1);
    float codebook[CODES];
    pixels p;
    if (!read_numbers(s, "sh0", "codebook", CODES, codebook, why) ||
        !read_gaussians(s, "sh0", 0, g->count, &p, why))
        return false;
    for (int64_t i = 0; i < g->count; i++) {
        for (int k = 0; k < GS_CHANNELS; k++) g->sh[i * floats + k] = codebook[p.rgba[4 * i + k]];
        g->opacity_logit[i] = byte_logit(p.rgba[4 * i + 3]);
    }
    WebPFree(p.rgba);
    return true;
}

// By rows of PALETTE_COLUMNS entries, a pixel per coefficient.
static bool read_harmonics(sog_file *s, gs_gaussians *g, fault *why) {
    const int rest = rest_of(g->sh_degree);
    const json_int_t entries = json_integer_value(field_of(s, "shN", "count"));
    float codebook[CODES];
    pixels palette, labels;
    if (entries < 1 || entries > MOST_PALETTE) return refuse(s, "shN.count", "1 to 65536", why);
    if (!read_numbers(s, "shN", "codebook", CODES, codebook, why) ||
        !read_picture(s, "shN", 0, &palette, why))
        return false;
    bool done =
        palette.width == PALETTE_COLUMNS * rest && (int64_t)palette.height * PALETTE_COLUMNS >= entries;
    if (!done)
        fail(why, "%s: shN.files[0]: %d x %d pixels, not %d wide for %d entries", s->file->path,
             palette.width, palette.height, PALETTE_COLUMNS * rest, (int)entries);
    done = done && read_gaussians(s, "shN", 1, g->count, &labels, why);
    for (int64_t i = 0; done && i < g->count; i++) {
        const int64_t label = labels.rgba[4 * i] + 256 * labels.rgba[4 * i + 1];
        if (label >= entries) {
            WebPFree(labels.rgba);
            done = fail(why, "%s: shN: pixel %" PRId64 " names entry %" PRId64 " of %d", s->file->path, i,
                        label, (int)entries);
            break;
        }
        const uint8_t *const row = palette.rgba + label * rest * 4; // rows of the picture are whole entries
        float *const sh = g->sh + i * GS_CHANNELS * (rest + 1) + GS_CHANNELS;
        for (int k = 0; k < GS_CHANNELS * rest; k++)
            sh[k] = codebook[row[k / GS_CHANNELS * 4 + k % GS_CHANNELS]];
    }
    if (done) WebPFree(labels.rgba);
    WebPFree(palette.rgba);
    return done;
}

static bool read_meta(sog_file *s, fault *why) {
    uint8_t *text;
    size_t bytes;
    json_error_t error;
    if (!zip_read(&s->zip, "meta.json", MOST_META, &text, &bytes, why)) return false;
    s->meta = json_loadb((const char *)text, bytes, JSON_REJECT_DUPLICATES, &error);
    free(text);
    return s->meta || fail(why, "%s: meta.json: at byte %d: %s", s->file->path, error.position, error.text);
}

static bool read_scene(sog_file *s, gs_gaussians *out, fault *why) {
    const json_t *const count = json_object_get(s->meta, "count"), *const rest =
                                                                       json_object_get(s->meta, "shN");
    const json_t *const model = json_object_get(s->meta, "model");
    if (json_number_value(json_object_get(s->meta, "version")) != VERSION)
        return refuse(s, "version", "2, the version that is read", why);
    if (!json_is_integer(count) || json_integer_value(count) < 0 || json_integer_value(count) > INT32_MAX)
        return refuse(s, "count", "a number of Gaussians", why);
    const json_int_t bands = rest ? json_integer_value(json_object_get(rest, "bands")) : 0;
    if (rest && (bands < 1 || bands > GS_MAX_SH_DEGREE)) return refuse(s, "shN.bands", "1, 2 or 3", why);
    if (!is_plausible(s->file->path, s->file->size, 16 * (uint64_t)json_integer_value(count), why) ||
        !scene_open(out, json_integer_value(count), (int)bands, why))
        return false;
    out->antialias = json_is_true(json_object_get(s->meta, "antialias")) ||
                     (json_is_string(model) && strcmp(json_string_value(model), "antialiased") == 0);
    return read_means(s, out, why) && read_scales(s, out, why) && read_rotations(s, out, why) &&
           read_colors(s, out, why) && (!rest || read_harmonics(s, out, why));
}

static bool sog_read(input_file *file, gs_gaussians *out, fault *why) {
    uint8_t *bytes;
    size_t size;
    sog_file s = {.file = file};
    if (!read_rest(file, &bytes, &size, why)) return false;
    const bool done =
        zip_open(&s.zip, file->path, bytes, size, why) && read_meta(&s, why) && read_scene(&s, out, why);
    json_decref(s.meta);
    free(bytes);
    return done;
}

// ---- writing

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

static bool sog_write(const output_file *file, const gs_gaussians *scene, int variant, fault *why) {
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

const scene_format sog_format = {
    .suffix = ".sog", .claims = sog_claims, .read = sog_read, .write = sog_write};
#else
const scene_format sog_format = {.suffix = ".sog", .claims = sog_claims, .missing = "libwebp"};
#endif
