// SPDX-License-Identifier: MIT
// Scenes as SOG files, version 2 (developer.playcanvas.com, The SOG Format): a ZIP archive of meta.json and lossless
// WebP pictures whose pixels are Gaussians. Axes are those of PLY, as PlayCanvas's own programs write them.
#include "formats/sog.h"
#include "formats/clusters.h"
#include "formats/packing.h"
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

const scene_format sog_format = {
    .suffix = ".sog", .claims = sog_claims, .read = sog_read, .write = sog_write};
#else
const scene_format sog_format = {.suffix = ".sog", .claims = sog_claims, .missing = "libwebp"};
#endif
