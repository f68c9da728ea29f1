// SPDX-License-Identifier: MIT
// Scenes as SOG files, version 2 (developer.playcanvas.com, The SOG Format): a ZIP archive of meta.json and lossless
// WebP pictures whose pixels are Gaussians. Written pixels follow a Morton curve, so that neighbours are alike and
// compress well. Axes are those of PLY, as PlayCanvas's own programs write them.
#include "files/json_writer.h"
#include "files/output_file.h"
#include "formats/formats.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/encode.h>

enum { VERSION = 2, AXES = 3, PALETTE_COLUMNS = 64, MOST_PALETTE = 65536 };
enum { CODES = 256, MOST_HARMONICS = GS_CHANNELS * (SCENE_SH_COEFFICIENTS - 1) };
enum { MODES = 252 }; // the alpha of a rotation is this and the index of the component left out: w, x, y, z

// The pictures of a file: meta.NAME.files[index], and the names that are written.
enum { LOW, HIGH, QUATS, SCALES, SH0, PALETTE, LABELS, PICTURES };
static const struct {
    const char *name;
    size_t index;
    const char *file;
} pictures[PICTURES] = {{"means", 0, "means_l.webp"}, {"means", 1, "means_u.webp"},
                        {"quats", 0, "quats.webp"},   {"scales", 0, "scales.webp"},
                        {"sh0", 0, "sh0.webp"},       {"shN", 0, "shN_centroids.webp"},
                        {"shN", 1, "shN_labels.webp"}};

// What meta.json says beside the names of pictures, of what is read and of what is written.
typedef struct sog_codes {
    float least[AXES], most[AXES]; // of the means' logarithms
    float scales[CODES], colors[CODES], harmonics[CODES];
    int64_t entries; // of the palette; 0: there is none
} sog_codes;

// ---- reading

enum { MOST_META = 1 << 20, LOSSLESS = 2 };

typedef struct sog_file {
    const char *path;
    uint64_t size;
    fault *why;
    zip_archive zip;
    json_t *meta;
    sog_codes codes;
    uint8_t *rgba[PICTURES]; // [height][width][4], for WebPFree
    int width, height;       // of the pictures of Gaussians; 0: none was read
} sog_file;

static bool refuse(const sog_file *s, const char *field, const char *must) {
    return fail(s->why, "%s: meta.json: %s must be %s", s->path, field, must);
}

// meta.NAME.FIELD
static const json_t *field_of(const sog_file *s, const char *name, const char *field) {
    return json_object_get(json_object_get(s->meta, name), field);
}

static bool read_numbers(const sog_file *s, const char *name, const char *field, size_t count, float *out) {
    const json_t *const list = field_of(s, name, field);
    size_t read = 0;
    for (; read < count && json_is_number(json_array_get(list, read)); read++)
        out[read] = (float)json_number_value(json_array_get(list, read));
    if (read == count && json_array_size(list) == count) return true;
    return fail(s->why, "%s: meta.json: %s.%s must be %zu numbers", s->path, name, field, count);
}

// Pictures of Gaussians have one size. The palette has rows of PALETTE_COLUMNS entries, a pixel per coefficient.
static bool read_picture(sog_file *s, int p, int64_t gaussians, int rest) {
    const char *const name = pictures[p].name, *const path = s->path;
    const size_t index = pictures[p].index;
    const char *const file = json_string_value(json_array_get(field_of(s, name, "files"), index));
    WebPBitstreamFeatures about;
    uint8_t *bytes;
    size_t count;
    int width = 0, height = 0;
    if (!file) return fail(s->why, "%s: meta.json: %s.files[%zu] must be a name", path, name, index);
    if (!zip_read(&s->zip, file, s->zip.size, &bytes, &count, s->why)) return false;
    if (WebPGetFeatures(bytes, count, &about) != VP8_STATUS_OK || about.format != LOSSLESS)
        fail(s->why, "%s: '%s': not a lossless WebP picture", path, file);
    else if (is_plausible(path, s->size, 4 * (uint64_t)about.width * (uint64_t)about.height, s->why)) {
        s->rgba[p] = WebPDecodeRGBA(bytes, count, &width, &height);
        if (!s->rgba[p])
            fail(s->why, "%s: '%s': truncated or damaged, or no memory for %d x %d pixels", path, file,
                 about.width, about.height);
    }
    free(bytes);
    if (!s->rgba[p]) return false;
    if (p == PALETTE)
        return (width == PALETTE_COLUMNS * rest && (int64_t)height * PALETTE_COLUMNS >= s->codes.entries) ||
               fail(s->why, "%s: shN.files[0]: %d x %d pixels, not %d wide for %d entries", path, width,
                    height, PALETTE_COLUMNS * rest, (int)s->codes.entries);
    if (s->width == 0) s->width = width, s->height = height;
    return (width == s->width && height == s->height && (int64_t)width * height >= gaussians) ||
           fail(s->why, "%s: %s.files[%zu]: %d x %d pixels, the first %d x %d, for %" PRId64 " Gaussians",
                path, name, index, width, height, s->width, s->height, gaussians);
}

static bool unpack(const sog_file *s, int64_t i, gs_gaussians *g) {
    const sog_codes *const c = &s->codes;
    const int rest = coefficients(g->sh_degree) - 1;
    float *const sh = g->sh + i * GS_CHANNELS * (rest + 1);
    const uint8_t *p[PICTURES];
    double parts[3];
    for (int k = 0; k < PICTURES; k++) p[k] = s->rgba[k] && k != PALETTE ? s->rgba[k] + 4 * i : s->rgba[k];
    if (p[QUATS][3] < MODES)
        return fail(s->why, "%s: quats: the alpha of pixel %" PRId64 " is below %d", s->path, i, MODES);
    for (int k = 0; k < 3; k++) {
        const double part = (p[HIGH][k] * 256 + p[LOW][k]) / 65535.0;
        const double n = (double)c->least[k] + ((double)c->most[k] - (double)c->least[k]) * part;
        g->mean[AXES * i + k] = (float)copysign(expm1(fabs(n)), n);
        g->log_scale[AXES * i + k] = c->scales[p[SCALES][k]];
        sh[k] = c->colors[p[SH0][k]];
        parts[k] = p[QUATS][k] / 255.0;
    }
    quaternion_from_parts(p[QUATS][3] - MODES, parts, g->quaternion + 4 * i);
    g->opacity_logit[i] = byte_logit(p[SH0][3]);
    if (rest == 0) return true;
    const int64_t label = p[LABELS][0] + 256 * p[LABELS][1];
    if (label >= c->entries)
        return fail(s->why, "%s: shN: pixel %" PRId64 " names entry %" PRId64 " of %d", s->path, i, label,
                    (int)c->entries);
    const uint8_t *const row = p[PALETTE] + label * rest * 4; // rows of the picture are whole entries
    for (int k = 0; k < GS_CHANNELS * rest; k++)
        sh[GS_CHANNELS + k] = c->harmonics[row[k / GS_CHANNELS * 4 + k % GS_CHANNELS]];
    return true;
}

static bool read_scene(sog_file *s, gs_gaussians *out) {
    sog_codes *const c = &s->codes;
    uint8_t *text;
    size_t bytes;
    json_error_t error;
    if (!zip_read(&s->zip, "meta.json", MOST_META, &text, &bytes, s->why)) return false;
    s->meta = json_loadb((const char *)text, bytes, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!s->meta) return fail(s->why, "%s: meta.json: at byte %d: %s", s->path, error.position, error.text);
    const json_t *const shn = json_object_get(s->meta, "shN"),
                        *const number = json_object_get(s->meta, "count"),
                        *const model = json_object_get(s->meta, "model");
    const json_int_t bands = shn ? json_integer_value(json_object_get(shn, "bands")) : 0;
    const json_int_t count = json_is_integer(number) ? json_integer_value(number) : -1;
    if (json_number_value(json_object_get(s->meta, "version")) != VERSION)
        return refuse(s, "version", "2, the version that is read");
    if (count < 0 || count > INT32_MAX) return refuse(s, "count", "a number of Gaussians");
    if (shn && (bands < 1 || bands > GS_MAX_SH_DEGREE)) return refuse(s, "shN.bands", "1, 2 or 3");
    c->entries = shn ? json_integer_value(json_object_get(shn, "count")) : 0;
    if (shn && (c->entries < 1 || c->entries > MOST_PALETTE)) return refuse(s, "shN.count", "1 to 65536");
    if (!is_plausible(s->path, s->size, 16 * (uint64_t)count, s->why) ||
        !scene_open(out, count, (int)bands, s->why))
        return false;
    out->antialias = json_is_true(json_object_get(s->meta, "antialias")) ||
                     (json_is_string(model) && strcmp(json_string_value(model), "antialiased") == 0);
    if (!read_numbers(s, "means", "mins", AXES, c->least) ||
        !read_numbers(s, "means", "maxs", AXES, c->most) ||
        !read_numbers(s, "scales", "codebook", CODES, c->scales) ||
        !read_numbers(s, "sh0", "codebook", CODES, c->colors) ||
        (shn && !read_numbers(s, "shN", "codebook", CODES, c->harmonics)))
        return false;
    for (int p = 0; p < (shn ? PICTURES : PALETTE); p++)
        if (!read_picture(s, p, out->count, coefficients((int)bands) - 1)) return false;
    for (int64_t i = 0; i < out->count; i++)
        if (!unpack(s, i, out)) return false;
    return true;
}

static bool sog_read(input_file *file, gs_gaussians *out, fault *why) {
    uint8_t *bytes;
    size_t size;
    sog_file s = {.path = file->path, .size = file->size, .why = why};
    if (!read_rest(file, "the scene", &bytes, &size, why)) return false;
    const bool done = zip_open(&s.zip, file->path, bytes, size, why) && read_scene(&s, out);
    for (int p = 0; p < PICTURES; p++) WebPFree(s.rgba[p]);
    json_decref(s.meta);
    free(bytes);
    return done;
}

// ---- writing

enum { MOST_SIDE = 16383, MOST_BLOCKS = 8 }; // of a WebP picture; of memory

// ---- few vectors that stand for many: a group is divided across its widest direction, again and again

// Vectors of `width` floats, whose first ones are `stride` apart, and the groups that they are divided into.
typedef struct clusters {
    const float *vectors;
    int width;
    int64_t stride, count, groups;
    struct {
        double spread; // sum of squares about the mean
        int64_t begin, end;
    } * group;        // ranges of members; room for as many as are wanted
    float *mean;      // [groups][width]
    int32_t *members; // indices of vectors
    float *along;     // places of members along a direction
} clusters;

static double from_mean(const clusters *c, int64_t i, int64_t at, int k) {
    return (double)c->vectors[c->members[at] * c->stride + k] - (double)c->mean[i * c->width + k];
}

// The distance of a member from the mean of group i along a direction.
static double place_along(const clusters *c, int64_t i, int64_t at, const double *direction) {
    double sum = 0;
    for (int k = 0; k < c->width; k++) sum += from_mean(c, i, at, k) * direction[k];
    return sum;
}

// Makes a range of members group i: finds its mean and its spread.
static void set_group(clusters *c, int64_t i, int64_t begin, int64_t end) {
    double mean[MOST_HARMONICS] = {0}, spread = 0;
    for (int64_t at = begin; at < end; at++)
        for (int k = 0; k < c->width; k++) mean[k] += (double)c->vectors[c->members[at] * c->stride + k];
    for (int k = 0; k < c->width; k++) c->mean[i * c->width + k] = (float)(mean[k] / (double)(end - begin));
    for (int64_t at = begin; at < end; at++)
        for (int k = 0; k < c->width; k++) spread += pow(from_mean(c, i, at, k), 2);
    c->group[i].spread = spread, c->group[i].begin = begin, c->group[i].end = end;
}

// The eigenvector of the largest eigenvalue of the covariance, by a few multiplications with it.
static void find_direction(const clusters *c, int64_t i, double *direction) {
    enum { ROUNDS = 4, MOST = 4096 }; // of large groups not all members are looked at
    const int64_t begin = c->group[i].begin, end = c->group[i].end, step = (end - begin + MOST - 1) / MOST;
    for (int k = 0; k < c->width; k++) direction[k] = 1 + k % 3 * 0.1;
    for (int round = 0; round < ROUNDS; round++) {
        double square = 0, next[MOST_HARMONICS] = {0};
        for (int64_t at = begin; at < end; at += step) {
            const double along = place_along(c, i, at, direction);
            for (int k = 0; k < c->width; k++) next[k] += along * from_mean(c, i, at, k);
        }
        for (int k = 0; k < c->width; k++) square += next[k] * next[k];
        if (!(square > 0)) return;
        for (int k = 0; k < c->width; k++) direction[k] = next[k] / sqrt(square);
    }
}

// Leaves the first part in group i; the other is a new group.
static void split(clusters *c, int64_t i) {
    enum { ROUNDS = 3 };
    const int64_t begin = c->group[i].begin, end = c->group[i].end;
    double direction[MOST_HARMONICS], limit = 0;
    find_direction(c, i, direction);
    for (int64_t at = begin; at < end; at++) c->along[at] = (float)place_along(c, i, at, direction);
    for (int round = 0; round < ROUNDS; round++) { // half-way between the means of both sides
        double sums[2] = {0, 0}, counts[2] = {0, 0};
        for (int64_t at = begin; at < end; at++) {
            sums[(double)c->along[at] < limit] += (double)c->along[at];
            counts[(double)c->along[at] < limit]++;
        }
        if (counts[0] == 0 || counts[1] == 0) break;
        limit = (sums[0] / counts[0] + sums[1] / counts[1]) / 2;
    }
    int64_t middle = begin;
    for (int64_t at = begin; at < end; at++) {
        const int32_t index = c->members[at];
        if (!((double)c->along[at] < limit)) continue;
        c->members[at] = c->members[middle], c->along[at] = c->along[middle];
        c->members[middle++] = index;
    }
    if (middle == begin || middle == end) middle = (begin + end) / 2; // all but equal
    set_group(c, c->groups++, middle, end);
    set_group(c, i, begin, middle);
}

// Divides `count` vectors. Groups of nearly the largest spread are split until there are `enough`, or all members of each
// are equal.
static void find_clusters(clusters *c, const float *vectors, int width, int64_t stride, int64_t count,
                          int64_t enough) {
    c->vectors = vectors, c->width = width, c->stride = stride, c->count = count, c->groups = count > 0;
    for (int64_t i = 0; i < count; i++) c->members[i] = (int32_t)i;
    if (count > 0) set_group(c, 0, 0, count);
    for (double largest = count > 0 ? c->group->spread : 0; c->groups < enough && largest > 0;) {
        const double limit = 0.9 * largest;
        largest = 0;
        for (int64_t i = 0; i < c->groups; i++) {
            while (c->group[i].spread > limit && c->groups < enough) split(c, i);
            largest = fmax(largest, c->group[i].spread);
        }
    }
}

// ---- a file

typedef struct sog_plan {
    const char *path;
    const gs_gaussians *scene;
    fault *why;
    zip_writer zip;
    int width, height; // of the pictures of Gaussians
    sog_codes codes;
    clusters clusters; // room for those of any kind
    uint64_t *order;   // of pixels: a Gaussian's place along a Morton curve, and its index in the low 32 bits
    uint8_t *rgba;     // room for one picture
    float *palette;    // [entries][harmonics]; before that the colours, [count][3]
    int32_t *labels;   // the entry of each Gaussian
    int harmonics;     // floats of a Gaussian after degree 0
    void *blocks[MOST_BLOCKS];
    int block_count;
} sog_plan;

static double log_place(double x) {
    return copysign(log1p(fabs(x)), x);
}

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Where a mean lies between the bounds, as 0..most.
static double part_of(const sog_plan *s, int64_t i, int k, double most) {
    const double width = (double)s->codes.most[k] - (double)s->codes.least[k];
    const double part =
        (log_place(s->scene->mean[AXES * i + k]) - (double)s->codes.least[k]) / (width > 0 ? width : 1);
    return fmin(fmax(part, 0), 1) * most;
}

static void find_order(sog_plan *s) {
    const gs_gaussians *const g = s->scene;
    for (int64_t i = 0; i < AXES * g->count; i++) {
        const float n = (float)log_place(g->mean[i]);
        float *const least = &s->codes.least[i % AXES], *const most = &s->codes.most[i % AXES];
        *least = i < AXES ? n : fminf(*least, n);
        *most = i < AXES ? n : fmaxf(*most, n);
    }
    for (int64_t i = 0; i < g->count; i++) {
        s->order[i] = (uint64_t)i;
        for (int k = 0; k < AXES; k++) {
            const uint64_t cell = (uint64_t)part_of(s, i, k, 1023);
            for (int bit = 0; bit < 10; bit++) s->order[i] |= (cell >> bit & 1) << (32 + 3 * bit + k);
        }
    }
    qsort(s->order, (size_t)g->count, sizeof *s->order, compare_ids); // 62 bits, so none is negative
}

static bool put_picture(sog_plan *s, int p, int width, int height) {
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
        fail(s->why, "%s: not written: no memory for the picture %s of %d x %d pixels", s->path,
             pictures[p].file, width, height);
    else if (!zip_put(&s->zip, pictures[p].file, out.mem, out.size))
        done = fail(s->why, "%s: not written: it would have 4 GiB or more", s->path);
    WebPMemoryWriterClear(&out);
    return done;
}

// The index of the nearest of a codebook, which ascends.
static uint8_t code_of(const float codebook[CODES], float value) {
    int code = 0; // that many middles between neighbours are below the value
    for (int step = CODES / 2; step > 0; step /= 2) {
        const float *const next = codebook + code + step;
        if (2 * (double)value > (double)next[-1] + (double)next[0]) code += step;
    }
    return (uint8_t)code;
}

// Chooses CODES values, ascending, for `count` finite ones, so that the sum of squares of the distances to the nearest is
// small: the means of clusters, then those of the values that are nearest to each (Lloyd 1982).
static void find_codebook(sog_plan *s, const float *values, int64_t count, float codebook[CODES]) {
    enum { ROUNDS = 8 };
    clusters *const c = &s->clusters;
    find_clusters(c, values, 1, 1, count, CODES);
    for (int k = 0; k < CODES; k++) codebook[k] = count == 0 ? 0 : c->mean[k < c->groups ? k : 0];
    qsort(codebook, CODES, sizeof *codebook, compare_floats);
    for (int round = 0; round < ROUNDS; round++) {
        double sums[CODES] = {0}, counts[CODES] = {0};
        for (int64_t i = 0; i < count; i++) {
            const int code = code_of(codebook, values[i]);
            sums[code] += (double)values[i], counts[code]++;
        }
        for (int k = 0; k < CODES; k++)
            if (counts[k] > 0) codebook[k] = (float)(sums[k] / counts[k]);
    }
}

// The pixel of Gaussian i: red, green and blue are its three values of a kind, as codes or, of means, in two bytes of two
// pictures. Alpha has a rotation's index, in sh0 the opacity.
static void fill(const sog_plan *s, int p, int64_t i, uint8_t *rgba) {
    const gs_gaussians *const g = s->scene;
    const float *const sh = g->sh + i * GS_CHANNELS * coefficients(g->sh_degree);
    double unit[4], three[3];
    quaternion_unit(g->quaternion + 4 * i, unit);
    const int largest = quaternion_to_three(unit, three);
    rgba[3] = p == QUATS ? (uint8_t)(MODES + largest) : p == SH0 ? opacity_byte(g, i) : 255;
    for (int k = 0; k < 3 && p < PALETTE; k++) {
        const int code = (int)lrint(part_of(s, i, k, 65535));
        rgba[k] = p == LOW      ? (uint8_t)(code & 255)
                  : p == HIGH   ? (uint8_t)(code >> 8)
                  : p == QUATS  ? to_byte(255 * (0.5 + three[k] / sqrt(2)))
                  : p == SCALES ? code_of(s->codes.scales, g->log_scale[AXES * i + k])
                                : code_of(s->codes.colors, sh[k]);
    }
    if (p == LABELS) rgba[0] = (uint8_t)(s->labels[i] & 255), rgba[1] = (uint8_t)(s->labels[i] >> 8);
}

// Pixels after the last are 0.
static bool put_pictures(sog_plan *s) {
    const int rest = coefficients(s->scene->sh_degree) - 1;
    const int rows = (int)((s->codes.entries + PALETTE_COLUMNS - 1) / PALETTE_COLUMNS);
    for (int p = 0; p < (s->codes.entries > 0 ? PICTURES : PALETTE); p++) {
        const int columns = p == PALETTE ? PALETTE_COLUMNS * rest : s->width;
        const int height = p == PALETTE ? rows : s->height;
        memset(s->rgba, 0, 4 * (size_t)columns * (size_t)height);
        for (int64_t i = 0; p != PALETTE && i < s->scene->count; i++)
            fill(s, p, (int64_t)(uint32_t)s->order[i], s->rgba + 4 * i);
        for (int64_t i = 0; p == PALETTE && i < s->codes.entries * rest; i++)
            for (int k = 0; k < 4; k++)
                s->rgba[4 * i + k] =
                    k == 3 ? 255 : code_of(s->codes.harmonics, s->palette[GS_CHANNELS * i + k]);
        if (!put_picture(s, p, columns, height)) return false;
    }
    return true;
}

static bool put_meta(sog_plan *s) {
    const sog_codes *const c = &s->codes;
    const float *const codebooks[PICTURES] = {
        [SCALES] = c->scales, [SH0] = c->colors, [PALETTE] = c->harmonics};
    const bool antialias = s->scene->antialias != 0;
    char *text = NULL;
    size_t size = 0;
    json_writer json = {.stream = memory_stream_open(&text, &size), .first = true, .one_line = true};
    if (!json.stream) return fail(s->why, "%s: no memory for meta.json", s->path);
    json_begin(&json, NULL, '{');
    json_put_integer(&json, "version", VERSION);
    json_put_integer(&json, "count", s->scene->count);
    json_put_boolean(&json, "antialias", antialias);
    if (antialias) json_put_text(&json, "model", "antialiased");
    for (int p = 0, last; p < (c->entries > 0 ? PICTURES : PALETTE); p = last + 1) {
        last = p == LOW || p == PALETTE ? p + 1 : p; // they have two pictures
        json_begin(&json, pictures[p].name, '{');
        if (p == PALETTE) {
            json_put_integer(&json, "count", c->entries);
            json_put_integer(&json, "bands", s->scene->sh_degree);
        }
        if (p == LOW) {
            json_put_floats(&json, "mins", c->least, AXES);
            json_put_floats(&json, "maxs", c->most, AXES);
        }
        if (codebooks[p]) json_put_floats(&json, "codebook", codebooks[p], CODES);
        json_begin(&json, "files", '[');
        for (int k = p; k <= last; k++) json_put_text(&json, NULL, pictures[k].file);
        json_end(&json, ']');
        json_end(&json, '}');
    }
    json_end(&json, '}');
    const bool done = (memory_stream_close(json.stream) && zip_put(&s->zip, "meta.json", text, size)) ||
                      fail(s->why, "%s: no memory for meta.json", s->path);
    free(text);
    return done;
}

// Notes what lies outside of a codebook, of the values from `begin` to `end` of each Gaussian's `width`.
static void note_outside(const sog_plan *s, clamped *c, int kind, const float codebook[CODES],
                         const float *values, int64_t width, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < s->scene->count; i++)
        for (int64_t k = begin; k < end; k++) {
            const double value = (double)values[i * width + k];
            clamped_note(c, kind, fmax(value - (double)codebook[CODES - 1], (double)codebook[0] - value));
        }
}

// The codebooks and the palette.
static void find_codes(sog_plan *s, int64_t most_entries) {
    const gs_gaussians *const g = s->scene;
    sog_codes *const c = &s->codes;
    clusters *const palette = &s->clusters;
    clamped outside[CLAMPED] = {{0}};
    const int64_t floats = s->harmonics + GS_CHANNELS;
    for (int64_t i = 0; i < GS_CHANNELS * g->count; i++)
        s->palette[i] = g->sh[i / GS_CHANNELS * floats + i % GS_CHANNELS];
    find_codebook(s, g->log_scale, AXES * g->count, c->scales);
    find_codebook(s, s->palette, GS_CHANNELS * g->count, c->colors);
    note_outside(s, outside, CLAMPED_SCALES, c->scales, g->log_scale, AXES, 0, AXES);
    note_outside(s, outside, CLAMPED_COLORS, c->colors, g->sh, floats, 0, GS_CHANNELS);
    if (s->harmonics > 0 && g->count > 0) {
        find_clusters(palette, g->sh + GS_CHANNELS, s->harmonics, floats, g->count, most_entries);
        c->entries = palette->groups;
        memcpy(s->palette, palette->mean, (size_t)(c->entries * s->harmonics) * sizeof(float));
        for (int64_t i = 0; i < c->entries; i++)
            for (int64_t at = palette->group[i].begin; at < palette->group[i].end; at++)
                s->labels[palette->members[at]] = (int32_t)i;
        find_codebook(s, s->palette, c->entries * s->harmonics, c->harmonics);
        note_outside(s, outside, CLAMPED_HARMONICS, c->harmonics, g->sh, floats, GS_CHANNELS, floats);
    }
    clamped_say(outside, s->path, ".sog");
}

// Memory until the end of sog_write; of no bytes too.
static void *room(sog_plan *s, size_t count, size_t bytes_each) {
    return s->blocks[s->block_count++] = malloc((count + 1) * bytes_each);
}

static bool sog_write(const output_file *file, const gs_gaussians *scene, int variant, fault *why) {
    (void)variant;
    sog_plan s = {.path = file->path, .scene = scene, .why = why, .zip = {.stream = file->stream}};
    clusters *const c = &s.clusters;
    // The palette's size: as many entries as a quarter of the Gaussians, a few of which share each.
    const size_t count = (size_t)scene->count, rest = (size_t)coefficients(scene->sh_degree) - 1,
                 quarter = count < 4 * PALETTE_COLUMNS ? count : count / 4,
                 entries = quarter < MOST_PALETTE ? quarter : MOST_PALETTE,
                 harmonics = entries * rest * GS_CHANNELS;
    s.harmonics = (int)(GS_CHANNELS * rest);
    s.width = count ? (int)ceil(sqrt((double)count)) : 1;
    s.height = count ? (int)((count + (size_t)s.width - 1) / (size_t)s.width) : 1;
    if (s.width > MOST_SIDE)
        return fail(why, "%s: not written: %zu Gaussians are too many for SOG", file->path, count);
    const size_t pixels = (size_t)s.width * s.height,
                 of_palette = (entries + PALETTE_COLUMNS) * rest, // the last row full
        values = GS_CHANNELS * count > harmonics ? GS_CHANNELS * count : harmonics;
    s.rgba = room(&s, pixels > of_palette ? pixels : of_palette, 4);
    s.order = room(&s, count, sizeof *s.order);
    s.palette = room(&s, values, sizeof *s.palette);
    s.labels = room(&s, count, sizeof *s.labels);
    c->group = room(&s, entries + CODES, sizeof *c->group);
    c->mean = room(&s, harmonics + CODES, sizeof *c->mean);
    c->members = room(&s, values, sizeof *c->members);
    c->along = room(&s, values, sizeof *c->along);
    bool done = true;
    for (int k = 0; k < s.block_count; k++)
        done = done && (s.blocks[k] || fail(why, "%s: not written: no memory", file->path));
    if (done) find_order(&s), find_codes(&s, (int64_t)entries);
    done = done && put_meta(&s) && put_pictures(&s);
    if (done) zip_end(&s.zip);
    for (int k = 0; k < s.block_count; k++) free(s.blocks[k]);
    return done;
}

const scene_format sog_format = {.suffix = ".sog", .marks = {"PK\3\4"}, .read = sog_read, .write = sog_write};
