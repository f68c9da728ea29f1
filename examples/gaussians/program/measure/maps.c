// SPDX-License-Identifier: MIT
#include "measure/maps.h"
#include "frame.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
