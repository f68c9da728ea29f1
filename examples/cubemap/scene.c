// SPDX-License-Identifier: MIT
// Frames, the surroundings and their files.
#include "cubemap.h"
#include "device.h"
#include "gpu/vector.h"
#include "images/image.h"
#include <math.h>

cubemap_frame cubemap_frame_open(const mesh *surface, const pinhole_camera *camera, int size,
                                 float background) {
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    cubemap_frame out = {.surface = *surface, .camera = *camera, .size = size, .background = background};
    while (size >> out.levels > 0) out.levels++;
    out.texels = cubemap_level_begin(size, out.levels - 1) + 6;
    out.corner = device_allocate((size_t)surface->triangles * 9 * sizeof *out.corner);
    out.sample = device_allocate(pixels * 4 * sizeof *out.sample);
    out.texel = device_allocate((size_t)out.texels * 3 * sizeof *out.texel);
    out.color = device_allocate(pixels * 3 * sizeof *out.color);
    out.color_gradient = device_allocate(pixels * 3 * sizeof *out.color_gradient);
    out.sums = sum_memory_open(out.texels, 3);
    return out;
}

void cubemap_frame_close(cubemap_frame *frame) {
    device_free(frame->corner);
    device_free(frame->sample);
    device_free(frame->texel);
    device_free(frame->color);
    device_free(frame->color_gradient);
    sum_memory_close(&frame->sums);
    *frame = (cubemap_frame){0};
}

pinhole_camera scene_camera(int view, int views, int width, int height) {
    const double around = 2 * pi * view / views + 0.4, up = view % 2 ? 1.9 : -0.9;
    return pinhole_look_at(width, height, 0.72, (const double[3]){2.8 * cos(around), 2.8 * sin(around), up},
                           (const double[3]){0, 0, 0}, (const double[3]){0, 0, 1});
}

// Light from a unit direction, z upwards.
static void light_from(const double d[3], double color[3]) {
    static const double sun[3] = {0.48, 0.6, 0.64};
    const double around = atan2(d[1], d[0]) / (2 * pi) + 0.5, height = d[2];
    if (height < -0.45) {
        const double x = d[0] / -height, y = d[1] / -height;
        const double shade = ((int)floor(3 * x + 100) + (int)floor(3 * y + 100)) % 2 ? 0.75 : 0.2;
        color[0] = shade, color[1] = 0.9 * shade, color[2] = 0.75 * shade;
    } else if (height < 0.35) {
        const double stripe = 0.5 + 0.5 * sin(2 * pi * 12 * around);
        for (int i = 0; i < 3; i++)
            color[i] = 0.25 + 0.6 * stripe * (0.5 + 0.5 * cos(2 * pi * (around + i / 3.0)));
        const double across = fmod(8 * around, 1) - 0.5, over = (height + 0.05) * 3;
        if (across * across + over * over < 0.05)
            for (int i = 0; i < 3; i++) color[i] = 1;
    } else {
        const double haze = exp(-4 * (height - 0.35));
        color[0] = 0.25 + 0.6 * haze, color[1] = 0.45 + 0.45 * haze, color[2] = 0.85;
        if (dot(d, sun) > 0.985) color[0] = 1, color[1] = 0.95, color[2] = 0.7;
    }
}

void scene_surroundings(int size, float *texel) {
    for (int face = 0; face < 6; face++)
        for (int j = 0; j < size; j++)
            for (int i = 0; i < size; i++) {
                const int axis = face / 2;
                double d[3], color[3];
                d[axis] = face % 2 ? -1 : 1;
                d[(axis + 1) % 3] = (2 * i + 1.0) / size - 1;
                d[(axis + 2) % 3] = (2 * j + 1.0) / size - 1;
                normalize(d);
                light_from(d, color);
                float *out =
                    texel + 3 * (((size_t)face * (size_t)size + (size_t)j) * (size_t)size + (size_t)i);
                for (int k = 0; k < 3; k++) out[k] = (float)color[k];
            }
}

bool face_file_write(const char *path, const float *texel, int size, fault *why) {
    image picture;
    if (!image_open(&picture, size, 6 * size, 3, why)) return false;
    for (size_t k = 0; k < (size_t)18 * (size_t)size * (size_t)size; k++) {
        const float value = fminf(fmaxf(texel[k], 0), 1); // NaN becomes 0
        picture.pixels[k] = (uint8_t)lrintf(255 * value);
    }
    const bool done = image_write_png(path, &picture, why);
    image_close(&picture);
    return done;
}
