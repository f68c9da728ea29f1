// SPDX-License-Identifier: MIT
// Spheres in memory and in files.
#include "spheres.h"
#include "device.h"
#include "files/input_file.h"
#include "files/output_file.h"
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
