// SPDX-License-Identifier: MIT
#include "commands/command.h"
#include "files/path.h"
#include "frame.h"
#include "scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool numbered_path(char path[PATH_ROOM], const char *folder, const char *format, int64_t number, fault *why) {
    char name[64];
    snprintf(name, sizeof name, format, (long long)number);
    return path_join(path, folder, name, why);
}

bool numbered_may_be_written(const dataset *data, const char *folder, const char *format, int64_t count,
                             fault *why) {
    char path[PATH_ROOM];
    file_id ignored;
    bool more = true;
    for (int64_t i = 0; more; i++) {
        if (!numbered_path(path, folder, format, i, why) || !dataset_may_write(data, path, why)) return false;
        more = i < count || file_id_of(path, &ignored);
    }
    return true;
}

bool remove_numbered(const char *folder, const char *format, int64_t first, fault *why) {
    char path[PATH_ROOM];
    bool more = true;
    for (int64_t i = first; more; i++)
        if (!numbered_path(path, folder, format, i, why) || !file_remove(path, &more, why)) return false;
    return true;
}

bool parse_numbers(const char *text, double *out, int count) {
    for (int k = 0; k < count; k++) {
        char *end;
        out[k] = strtod(text, &end);
        if (end == text || !isfinite(out[k]) || *end != (k < count - 1 ? ',' : '\0')) return false;
        text = end + 1;
    }
    return true;
}

bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why) {
    if (!scene_read(path, SCENE_FINITE, out, why)) return false;
    if (out->count > 0) return true;
    scene_close(out);
    return fail(why, "%s: holds no Gaussians, so there is nothing to measure", path);
}

// ---- pictures

void map_color(double part, uint8_t color[GS_CHANNELS]) {
    static const double stops[5][3] = {
        {0, 0, 4}, {87, 16, 110}, {188, 55, 84}, {249, 142, 9}, {252, 255, 164}};
    const double at = 4 * fmin(fmax(part, 0), 1);
    const int below = at < 4 ? (int)at : 3;
    for (int c = 0; c < GS_CHANNELS; c++)
        color[c] = (uint8_t)(stops[below][c] + (at - below) * (stops[below + 1][c] - stops[below][c]) + 0.5);
}

bool map_picture(const gs_gaussians *device, int sh_degree, const gs_camera *camera,
                 const float background[GS_CHANNELS], image *out, fault *why) {
    frame f = {0};
    frame_render(&f, device, sh_degree, camera, background);
    const bool done = frame_picture(&f, out, why);
    frame_close(&f);
    return done;
}

bool map_errors(const image *a, const image *b, int divisor, image *out, fault *why) {
    image differences; // gray
    if (!image_open(&differences, a->width, a->height, GS_CHANNELS, why)) return false;
    for (size_t i = 0; i < (size_t)a->width * (size_t)a->height; i++) {
        int sum = 0;
        for (size_t c = 0; c < GS_CHANNELS; c++)
            sum += abs(a->pixels[GS_CHANNELS * i + c] - b->pixels[GS_CHANNELS * i + c]);
        memset(differences.pixels + GS_CHANNELS * i, (sum + GS_CHANNELS / 2) / GS_CHANNELS, GS_CHANNELS);
    }
    const bool done = image_downscale(&differences, divisor, out, why);
    image_close(&differences);
    const size_t pixels = done ? (size_t)out->width * (size_t)out->height : 0;
    for (size_t i = 0; i < pixels; i++)
        map_color((double)out->pixels[GS_CHANNELS * i] / FULL_ERROR, out->pixels + GS_CHANNELS * i);
    return done;
}
