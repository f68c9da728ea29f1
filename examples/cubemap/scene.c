// SPDX-License-Identifier: MIT
#include "scene.h"
#include "gpu/vector.h"
#include <math.h>
#include <stddef.h>

pinhole_camera scene_camera(int view, int width, int height) {
    const double around = 2 * pi * view / SCENE_VIEWS + 0.4, up = view % 2 ? 1.9 : -0.9;
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
