// SPDX-License-Identifier: MIT
// Spheres in memory, generated and in files.
#include "spheres.h"
#include "device.h"
#include "files/input_file.h"
#include "files/output_file.h"
#include "gpu/vector.h"
#include "random.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- memory

static size_t bytes_of(int64_t count, int channels) {
    return (size_t)count * (size_t)(5 + channels) * sizeof(float);
}

sphere_set sphere_set_over(float *block, int64_t count, int channels) {
    return (sphere_set){.count = count,
                        .channels = channels,
                        .center = block,
                        .log_radius = block + 3 * count,
                        .opacity_logit = block + 4 * count,
                        .feature = block + 5 * count};
}

bool sphere_set_open(sphere_set *out, int64_t count, int channels, fault *why) {
    float *block = calloc(bytes_of(count, channels), 1);
    *out = (sphere_set){0};
    if (!block) return fail(why, "no memory for %lld spheres", (long long)count);
    *out = sphere_set_over(block, count, channels);
    return true;
}

void sphere_set_close(sphere_set *host) {
    free(host->center);
    *host = (sphere_set){0};
}

sphere_set sphere_set_on_device(const sphere_set *host) {
    const size_t bytes = bytes_of(host->count, host->channels);
    float *block = device_allocate(bytes);
    device_upload(block, host->center, bytes);
    return sphere_set_over(block, host->count, host->channels);
}

sphere_frame sphere_frame_open(const sphere_set *set, const pinhole_camera *camera,
                               const sphere_blend *blend) {
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    const size_t values = pixels * (size_t)set->channels;
    sphere_frame out = {.set = *set, .camera = *camera, .blend = *blend};
    out.views = device_allocate((size_t)set->count * sizeof *out.views);
    out.list = device_allocate(pixels * (size_t)blend->kept * sizeof *out.list);
    out.list_length = device_allocate(pixels * sizeof *out.list_length);
    out.color = device_allocate(values * sizeof *out.color);
    out.total = device_allocate(pixels * sizeof *out.total);
    out.color_gradient = device_allocate(values * sizeof *out.color_gradient);
    out.moments = sum_memory_open(set->count, SPHERES_MOMENTS + set->channels);
    return out;
}

void sphere_frame_close(sphere_frame *frame) {
    device_free(frame->views);
    device_free(frame->list);
    device_free(frame->list_length);
    device_free(frame->color);
    device_free(frame->total);
    device_free(frame->color_gradient);
    sum_memory_close(&frame->moments);
    *frame = (sphere_frame){0};
}

// ---- the data sets

const char *const data_set_names[DATA_SETS + 1] = {"small", "large", NULL};

// The numbers and sizes of the spheres of the knot and the floor.
static const struct {
    int along, around; // of the knot's tube; around == 1: spheres on its axis
    int floor_side;
    double knot_radius, floor_radius;
} shapes[DATA_SETS] = {
    [DATA_SMALL] = {.along = 133, .around = 1, .floor_side = 13, .knot_radius = 0.26, .floor_radius = 0.25},
    [DATA_LARGE] = {
        .along = 1600, .around = 22, .floor_side = 160, .knot_radius = 0.045, .floor_radius = 0.03}};

pinhole_camera scene_camera(int view, int views, int width, int height) {
    const double around = 2 * pi * view / views + 0.8, up = view % 2 ? 3.2 : 4.8;
    return pinhole_look_at(width, height, 0.8, (const double[3]){6.4 * cos(around), 6.4 * sin(around), up},
                           (const double[3]){0, 0, 0}, (const double[3]){0, 0, 1});
}

sphere_blend scene_blend(int kept) {
    return (sphere_blend){.near_limit = 3,
                          .far_limit = 13,
                          .softness = 0.1f,
                          .background_weight = 10,
                          .background = 0.08f,
                          .kept = kept};
}

// The (2, 3) torus knot, t from 0 to 1.
static void knot(double t, double point[3]) {
    const double angle = 2 * pi * t, radius = 1.9 + 0.85 * cos(3 * angle);
    point[0] = radius * cos(2 * angle);
    point[1] = radius * sin(2 * angle);
    point[2] = 0.85 * sin(3 * angle) + 0.35;
}

// A point of the tube of the given radius around the knot.
static void tube(double t, double turn, double radius, double point[3]) {
    double here[3], there[3], side[3], up[3];
    knot(t, here);
    knot(t + 1e-4, there);
    const double x = there[0] - here[0], y = there[1] - here[1], z = there[2] - here[2];
    const double flat = hypot(x, y), length = hypot(flat, z); // the knot is nowhere vertical
    side[0] = -y / flat, side[1] = x / flat, side[2] = 0;
    up[0] = -x * z / (flat * length), up[1] = -y * z / (flat * length), up[2] = flat / length;
    for (int axis = 0; axis < 3; axis++)
        point[axis] = here[axis] + radius * (cos(2 * pi * turn) * side[axis] + sin(2 * pi * turn) * up[axis]);
}

static void set_sphere(sphere_set *set, int64_t i, const double center[3], double radius, double opacity,
                       const double color[3]) {
    for (int axis = 0; axis < 3; axis++) set->center[3 * i + axis] = (float)center[axis];
    set->log_radius[i] = (float)log(radius);
    set->opacity_logit[i] = (float)log(opacity / (1 - opacity));
    for (int k = 0; k < set->channels; k++)
        set->feature[set->channels * i + k] =
            (float)(k < 3 ? color[k] : 0.5 + 0.4 * sin(k + (1 + 0.1 * k) * center[k % 3]));
}

static void add_knot(data_set which, sphere_set *set, int64_t first) {
    const double wide = shapes[which].around > 1 ? 0.22 : 0;
    for (int i = 0; i < shapes[which].along; i++)
        for (int j = 0; j < shapes[which].around; j++) {
            const double t = (double)i / shapes[which].along, turn = (double)j / shapes[which].around;
            double center[3], color[3];
            tube(t, turn + i * 0.5 / shapes[which].around, wide, center);
            for (int k = 0; k < 3; k++) color[k] = 0.52 + 0.42 * cos(2 * pi * (t + 2 * turn + k / 3.0));
            set_sphere(set, first + (int64_t)i * shapes[which].around + j, center, shapes[which].knot_radius,
                       0.9, color);
        }
}

static void add_floor(data_set which, sphere_set *set, int64_t first) {
    const int side = shapes[which].floor_side;
    const double size = 6.6, level = -1.15;
    for (int row = 0; row < side; row++)
        for (int column = 0; column < side; column++) {
            const double x = ((column + 0.5) / side - 0.5) * size, y = ((row + 0.5) / side - 0.5) * size;
            const double wave = 0.12 * sin(2.2 * x) * sin(2.2 * y);
            const bool light = ((int)floor(x / 0.55 + 100) + (int)floor(y / 0.55 + 100)) % 2;
            const double shade = light ? 0.8 : 0.25, color[3] = {shade, shade, shade + 0.08};
            set_sphere(set, first + (int64_t)row * side + column, (const double[3]){x, y, level + wave},
                       shapes[which].floor_radius, 0.8, color);
        }
}

bool scene_generate(data_set which, int channels, sphere_set *out, fault *why) {
    const int64_t beads = (int64_t)shapes[which].along * shapes[which].around;
    const int64_t floor_count = (int64_t)shapes[which].floor_side * shapes[which].floor_side;
    if (!sphere_set_open(out, beads + floor_count, channels, why)) return false;
    add_knot(which, out, 0);
    add_floor(which, out, beads);
    return true;
}

void scene_disturb(sphere_set *host, uint64_t seed) {
    random_stream random = {seed};
    for (int64_t i = 0; i < host->count; i++) {
        const double radius = exp((double)host->log_radius[i]);
        for (int axis = 0; axis < 3; axis++)
            host->center[3 * i + axis] += (float)(0.5 * radius * random_normal(&random));
        host->log_radius[i] += (float)(0.25 * random_normal(&random));
        host->opacity_logit[i] = 0;
        for (int k = 0; k < host->channels; k++)
            host->feature[host->channels * i + k] = (float)(0.5 + 0.1 * random_normal(&random));
    }
}

// ---- files

static const char first_line[] = "spheres 1";

// The numbers of sphere i in the order of a line, 0 <= k < 5 + channels.
static float *value_at(const sphere_set *set, int64_t i, int k) {
    return k < 3    ? set->center + 3 * i + k
           : k == 3 ? set->log_radius + i
           : k == 4 ? set->opacity_logit + i
                    : set->feature + set->channels * i + k - 5;
}

// Moves to the next line; fails at the end of the file.
static bool next_line(input_file *text, const char *what, fault *why) {
    if (!input_file_next_line(text, why)) return false;
    return text->line ||
           fail(why, "%s: truncated at byte %" PRIu64 ": %s is missing", text->path, text->offset, what);
}

static bool read_sphere(input_file *text, const sphere_set *out, int64_t i, fault *why) {
    if (!next_line(text, "a sphere", why)) return false;
    const char *rest = text->line;
    for (int k = 0; k < 5 + out->channels; k++) {
        char *end;
        const float value = *value_at(out, i, k) = strtof(rest, &end);
        if (end == rest) return input_file_fail_at_line(text, "has fewer numbers than a sphere", why);
        if (!isfinite(value)) return input_file_fail_at_line(text, "has a number that is not finite", why);
        rest = end;
    }
    return rest[strspn(rest, " ")] == '\0' ||
           input_file_fail_at_line(text, "has more numbers than a sphere", why);
}

static bool read_header(input_file *text, int64_t *count, int *channels, fault *why) {
    if (!next_line(text, "the first line", why)) return false;
    if (strcmp(text->line, first_line) != 0) return input_file_fail_at_line(text, "is not 'spheres 1'", why);
    if (!next_line(text, "the line with count and channels", why)) return false;
    char *end;
    const long long announced = strtoll(text->line, &end, 10);
    const long width = strtol(end, &end, 10);
    if (*end != '\0' || announced < 1 || announced >= INT32_MAX)
        return input_file_fail_at_line(text, "is not a count of spheres, from 1 on, and their channels", why);
    if (width != 3 && width != 8 && width != 16 && width != 32)
        return input_file_fail_at_line(text, "announces features that have not 3, 8, 16 or 32 channels", why);
    *count = announced;
    *channels = (int)width;
    // A number takes at least two bytes: refuses counts for which the file is too short.
    return input_file_expect(text, (uint64_t)announced, 2 * (5 + (uint64_t)width), "spheres", why);
}

bool sphere_file_read(const char *path, sphere_set *out, fault *why) {
    input_file text;
    int64_t count = 0;
    int channels = 0;
    *out = (sphere_set){0};
    if (!input_file_open(&text, path, why)) return false;
    bool done = read_header(&text, &count, &channels, why) && sphere_set_open(out, count, channels, why);
    for (int64_t i = 0; done && i < count; i++) done = read_sphere(&text, out, i, why);
    done = done && input_file_next_line(&text, why) &&
           (!text.line || input_file_fail_at_line(&text, "comes after the last sphere", why));
    input_file_close(&text);
    if (!done) sphere_set_close(out);
    return done;
}

bool sphere_file_write(const char *path, const sphere_set *host, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    fprintf(file.stream, "%s\n%" PRId64 " %d\n", first_line, host->count, host->channels);
    for (int64_t i = 0; i < host->count; i++)
        for (int k = 0; k < 5 + host->channels; k++)
            fprintf(file.stream, "%.9g%c", *value_at(host, i, k), k < 4 + host->channels ? ' ' : '\n');
    return output_file_commit(&file, why);
}
