// SPDX-License-Identifier: MIT
// Scenes as glTF 2.0 with KHR_gaussian_splatting (Khronos, ratified 2026), in one file (.glb). All primitives with the
// extension become one scene, moved as their nodes say. Axes: x left, y up, z forward; ours have x and y reversed. The
// format does not say whether a scene is antialiased. Files are only read. Refused are buffers in other files or in the
// JSON, sparse accessors and extensions that compress.
#include "formats/formats.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define EXTENSION "KHR_gaussian_splatting"
enum { MAGIC = 0x46546c67, JSON_CHUNK = 0x4e4f534a, BINARY_CHUNK = 0x004e4942 };
enum { MOST_DEPTH = 64 };

typedef struct gltf {
    const char *path;
    json_t *root;
    const uint8_t *buffer; // the file's last chunk
    json_int_t room;       // bytes of it
    uint8_t *visited;      // of each node: a node has one parent
    gs_gaussians *out;
    int64_t at; // Gaussians placed
    fault *why;
} gltf;

// Of components; the first: floats.
static const struct {
    json_int_t number, bytes;
    int most;
} types[] = {{5126, 4, 0}, {5120, 1, 127}, {5121, 1, 255}, {5122, 2, 32767}, {5123, 2, 65535}};
enum { TYPES = sizeof types / sizeof *types };

static const json_t *item(const gltf *f, const char *list, json_int_t index) {
    return index < 0 ? NULL : json_array_get(json_object_get(f->root, list), (size_t)index);
}

// A whole number that is not negative. `otherwise` if it is absent, -1 if it is something else.
static json_int_t whole(const json_t *object, const char *key, json_int_t otherwise) {
    const json_t *const value = json_object_get(object, key);
    const bool good = json_is_integer(value) && json_integer_value(value) >= 0;
    return !value ? otherwise : good ? json_integer_value(value) : -1;
}

static float value_at(const uint8_t *at, int type, bool normalized) {
    const int most = types[type].most;
    float real;
    if (most == 0) return *(float *)memcpy(&real, at, sizeof real);
    const int bits = most < 256 ? at[0] : at[0] | at[1] << 8;
    const int value = most < 128 ? (int8_t)bits : most == 32767 ? (int16_t)bits : bits;
    return normalized ? fmaxf((float)value / (float)most, -1) : (float)value; // parts of the largest
}

// Reads the *count rows of an attribute, to floats that are `width` apart; to NULL: only says how many it has.
static bool read_attribute(const gltf *f, const json_t *attributes, const char *name, int components,
                           float *to, int64_t width, int64_t *count) {
    static const char *const shapes[] = {NULL, "SCALAR", NULL, "VEC3", "VEC4"};
    const json_t *const a = item(f, "accessors", whole(attributes, name, -1));
    const json_t *const view = item(f, "bufferViews", whole(a, "bufferView", -1));
    const char *const shape = json_string_value(json_object_get(a, "type"));
    const bool normalized = json_is_true(json_object_get(a, "normalized"));
    const json_int_t buffer = whole(view, "buffer", -1), offset = whole(view, "byteOffset", 0),
                     length = whole(view, "byteLength", -1), begin = whole(a, "byteOffset", 0),
                     rows = whole(a, "count", -1), number = whole(a, "componentType", -1);
    int type = 0;
    while (type < TYPES && types[type].number != number) type++;
    const json_int_t bytes = type < TYPES ? types[type].bytes * components : INT32_MAX,
                     stride = whole(view, "byteStride", bytes);
    if (!shape || strcmp(shape, shapes[components]) != 0 || json_object_get(a, "sparse") || stride < bytes ||
        stride > 252 || rows < 0 || rows > INT32_MAX || buffer != 0 || offset < 0 || offset > f->room ||
        length < 0 || length > f->room - offset || begin < 0 || begin > length ||
        (rows > 0 && (rows - 1) * stride + bytes > length - begin))
        return fail(f->why,
                    "%s: attribute %s: its accessor is missing, of another type, or beyond its buffer",
                    f->path, name);
    if (to && rows != *count) return fail(f->why, "%s: attributes of different counts", f->path);
    *count = rows;
    const uint8_t *const first = f->buffer + offset + begin;
    for (int64_t i = 0; to && i < rows; i++)
        for (int k = 0; k < components; k++)
            to[i * width + k] = value_at(first + i * stride + k * types[type].bytes, type, normalized);
    return true;
}

// Of the coefficient k, whose degree is the root of k, rounded down.
static const char *harmonic_name(int k, char name[64]) {
    const int degree = (int)sqrt(k);
    snprintf(name, 64, EXTENSION ":SH_DEGREE_%d_COEF_%d", degree, k - degree * degree);
    return name;
}

// The highest degree of which a coefficient is there.
static int degree_of(const json_t *attributes) {
    char name[64];
    int k = 15;
    while (k > 0 && !json_object_get(attributes, harmonic_name(k, name))) k--;
    return (int)sqrt(k);
}

static bool check_extension(const gltf *f, const json_t *primitive, const json_t *extension) {
    const char *const kernel = json_string_value(json_object_get(extension, "kernel"));
    const char *const space = json_string_value(json_object_get(extension, "colorSpace"));
    const json_t *const packed = json_object_get(extension, "extensions");
    if (json_object_size(packed) > 0)
        return fail(f->why,
                    "%s: its Gaussians are compressed by %.60s, which cannot be read; export .spz or .ply",
                    f->path, json_object_iter_key(json_object_iter((json_t *)(uintptr_t)packed)));
    if (whole(primitive, "mode", 4) != 0)
        return fail(f->why, "%s: a primitive with " EXTENSION " must have mode 0", f->path);
    return (kernel && strcmp(kernel, "ellipse") == 0 && space && strcmp(space, "srgb_rec709_display") == 0) ||
           fail(f->why,
                "%s: " EXTENSION ": kernel '%.40s', colorSpace '%.40s'; only 'ellipse' and "
                "'srgb_rec709_display' can be read",
                f->path, kernel ? kernel : "", space ? space : "");
}

static bool read_rows(const gltf *f, const json_t *attributes, gs_gaussians *to) {
    char name[64];
    if (!read_attribute(f, attributes, "POSITION", 3, to->mean, 3, &to->count) ||
        !read_attribute(f, attributes, EXTENSION ":SCALE", 3, to->log_scale, 3, &to->count) ||
        !read_attribute(f, attributes, EXTENSION ":ROTATION", 4, to->quaternion, 4, &to->count) ||
        !read_attribute(f, attributes, EXTENSION ":OPACITY", 1, to->opacity_logit, 1, &to->count))
        return false;
    for (int64_t i = 0; i < to->count; i++) {
        float *const scale = to->log_scale + 3 * i, *const q = to->quaternion + 4 * i, w = q[3];
        const double opacity = (double)to->opacity_logit[i];
        for (int k = 0; k < 3; k++) {
            if (!(scale[k] >= 0) || !(opacity >= 0) || !(opacity <= 1))
                return fail(f->why,
                            "%s: Gaussian %" PRId64
                            " has scale %f and opacity %f; scales are not logarithms, "
                            "as in drafts of " EXTENSION,
                            f->path, i, (double)scale[k], opacity);
            scale[k] = logf(scale[k]);
        }
        to->opacity_logit[i] = (float)log(opacity / (1 - opacity));
        memmove(q + 1, q, 3 * sizeof *q); // x, y, z, w in the file
        q[0] = w;
    }
    for (int k = 0; k < coefficients(degree_of(attributes)); k++)
        if (!read_attribute(f, attributes, harmonic_name(k, name), 3, to->sh + GS_CHANNELS * k,
                            GS_CHANNELS * coefficients(to->sh_degree), &to->count))
            return false;
    return true;
}

// Counts the Gaussians of a mesh, or with f->out->mean reads and moves them.
static bool take_mesh(gltf *f, const json_t *mesh, const double place[12]) {
    size_t index;
    const json_t *primitive;
    json_array_foreach(json_object_get(mesh, "primitives"), index, primitive) {
        const json_t *const attributes = json_object_get(primitive, "attributes"),
                            *const extension =
                                json_object_get(json_object_get(primitive, "extensions"), EXTENSION);
        int64_t count;
        similarity move;
        if (!extension) continue;
        if (!check_extension(f, primitive, extension) ||
            !read_attribute(f, attributes, "POSITION", 3, NULL, 0, &count))
            return false;
        if (f->out->mean) {
            gs_gaussians rows = *f->out; // those from f->at
            rows.count = count;
            rows.mean += 3 * f->at;
            rows.log_scale += 3 * f->at;
            rows.quaternion += 4 * f->at;
            rows.opacity_logit += f->at;
            rows.sh += GS_CHANNELS * coefficients(rows.sh_degree) * f->at;
            if (!similarity_of(place, &move))
                return fail(f->why, "%s: a node shears its Gaussians, mirrors them or scales them unequally",
                            f->path);
            if (!read_rows(f, attributes, &rows)) return false;
            gaussians_move(&rows, &move);
        } else if (degree_of(attributes) > f->out->sh_degree) {
            f->out->sh_degree = degree_of(attributes);
        }
        f->at += count;
    }
    return true;
}

static bool read_numbers(const json_t *node, const char *key, size_t count, double *out) {
    const json_t *const list = json_object_get(node, key);
    for (size_t i = 0; list && i < count; i++) {
        if (!json_is_number(json_array_get(list, i))) return false;
        out[i] = json_number_value(json_array_get(list, i));
    }
    return !list || json_array_size(list) == count;
}

// The rows of a node's 3x4 matrix.
static bool read_place(const json_t *node, double rows[12]) {
    double m[16] = {0}, t[3] = {0}, q[4] = {0, 0, 0, 1}, s[3] = {1, 1, 1}, turn[9];
    if (!read_numbers(node, "matrix", 16, m) || !read_numbers(node, "translation", 3, t) ||
        !read_numbers(node, "rotation", 4, q) || !read_numbers(node, "scale", 3, s))
        return false;
    const bool matrix = json_object_get(node, "matrix") != NULL; // by columns
    rotation_of_quaternion((const double[4]){q[3], q[0], q[1], q[2]}, turn);
    for (int k = 0; k < 12; k++) {
        const int r = k / 4, c = k % 4;
        rows[k] = matrix ? m[4 * c + r] : c < 3 ? turn[3 * r + c] * s[c] : t[r];
    }
    return true;
}

static bool take_node(gltf *f, const json_t *name, const double parent[12], int depth) {
    const json_int_t index = json_is_integer(name) ? json_integer_value(name) : -1;
    const json_t *const node = item(f, "nodes", index), *child;
    double own[12], place[12];
    if (!node || depth > MOST_DEPTH || f->visited[index]++ || !read_place(node, own))
        return fail(f->why, "%s: nodes[%lld]: missing, malformed, a child of two nodes, or more than %d deep",
                    f->path, (long long)index, MOST_DEPTH);
    for (int k = 0; k < 12; k++) {
        const double *const row = parent + k / 4 * 4;
        place[k] = row[0] * own[k % 4] + row[1] * own[4 + k % 4] + row[2] * own[8 + k % 4] +
                   (k % 4 == 3 ? row[3] : 0);
    }
    if (!take_mesh(f, item(f, "meshes", whole(node, "mesh", -1)), place)) return false;
    size_t at;
    json_array_foreach(json_object_get(node, "children"), at, child) {
        if (!take_node(f, child, place, depth + 1)) return false;
    }
    return true;
}

// All of the scene that is shown; without scenes all meshes. Called twice: to count the Gaussians, by which memory is
// allocated, and to read them.
static bool take_scene(gltf *f) {
    const double ours[12] = {-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 0};
    const json_t *const scene = item(f, "scenes", whole(f->root, "scene", 0)), *one;
    size_t at;
    f->at = 0;
    memset(f->visited, 0, json_array_size(json_object_get(f->root, "nodes")));
    json_array_foreach(scene ? json_object_get(scene, "nodes") : json_object_get(f->root, "meshes"), at,
                       one) {
        if (!(scene ? take_node(f, one, ours, 0) : take_mesh(f, one, ours))) return false;
    }
    return true;
}

// ---- files

// The JSON, and behind it the buffer.
static bool read_chunks(gltf *f, const uint8_t *bytes, size_t size) {
    uint32_t header[5] = {0}, next[2]; // magic, version, bytes; bytes and type of a chunk
    const uint8_t *const text = bytes + sizeof header;
    json_error_t error;
    memcpy(header, bytes, size < sizeof header ? size : sizeof header);
    if (header[0] != MAGIC || header[1] != 2 || header[2] != size || header[4] != JSON_CHUNK ||
        size < sizeof header || header[3] > size - sizeof header)
        return fail(f->why, "%s: truncated or damaged: at byte 0: not a whole file of version 2 of glTF",
                    f->path);
    const size_t left = size - sizeof header - header[3];
    if (left > 0) {
        if (left >= sizeof next) memcpy(next, text + header[3], sizeof next);
        if (left < sizeof next || next[1] != BINARY_CHUNK || next[0] > left - sizeof next)
            return fail(f->why, "%s: truncated or damaged: at byte %zu: not a buffer", f->path, size - left);
        f->buffer = text + header[3] + sizeof next;
        f->room = next[0];
    }
    f->root = json_loadb((const char *)text, header[3], JSON_REJECT_DUPLICATES, &error);
    if (!f->root) return fail(f->why, "%s: at byte %d of the JSON: %s", f->path, error.position, error.text);
    const json_t *const buffers = json_object_get(f->root, "buffers"), *const first =
                                                                           json_array_get(buffers, 0);
    const json_int_t length = whole(first, "byteLength", -1);
    if (json_array_size(buffers) > 1 || json_object_get(first, "uri"))
        return fail(f->why, "%s: has buffers that are not in the file; `gltf-transform copy` puts them there",
                    f->path);
    return !first || (length >= 0 && length <= f->room) ||
           fail(f->why, "%s: truncated or damaged: buffers[0] has %lld bytes, not %lld", f->path,
                (long long)f->room, (long long)length);
}

static bool glb_read(input_file *file, gs_gaussians *out, fault *why) {
    uint8_t *bytes;
    size_t size;
    gltf f = {.path = file->path, .out = out, .why = why};
    if (!read_rest(file, "the scene", &bytes, &size, why)) return false;
    bool done = read_chunks(&f, bytes, size);
    f.visited = done ? malloc(json_array_size(json_object_get(f.root, "nodes")) + 1) : NULL;
    if (done && !f.visited) done = fail(why, "%s: no memory", f.path);
    done = done && take_scene(&f);
    if (done && f.at == 0) done = fail(why, "%s: holds no Gaussians of " EXTENSION, f.path);
    done = done && is_plausible(f.path, file->size, 16 * (uint64_t)f.at, why) &&
           scene_open(out, f.at, out->sh_degree, why) && take_scene(&f);
    free(f.visited);
    json_decref(f.root);
    free(bytes);
    return done;
}

const scene_format glb_format = {.suffix = ".glb", .marks = {"glTF"}, .read = glb_read};
