// SPDX-License-Identifier: MIT
// libdistwar_train from C: trains a scene on pictures that lie in memory, here of a patterned floor seen from a circle.
#include "distwar_train.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VIEWS = 8, SIZE = 48, POINTS = 400 };

static gs_camera camera_at(double angle) { // four units away, 45 degrees above the floor
    const float c = (float)cos(angle), s = (float)sin(angle), h = sqrtf(0.5f);
    return (gs_camera){.width = SIZE, .height = SIZE, .fx = SIZE, .fy = SIZE, .cx = SIZE / 2.0f, .cy = SIZE / 2.0f,
                       .rotation = {-s, c, 0, h * c, h * s, -h, -h * c, -h * s, -h},
                       .translation = {0, 0, 4}, .near_plane = 0.2f};
}

static void color_at(float x, float y, uint8_t rgb[3]) {
    const int inside = fabsf(x) < 1 && fabsf(y) < 1;
    rgb[0] = (uint8_t)(inside * (130 + 100 * sinf(4 * x)));
    rgb[1] = (uint8_t)(inside * (130 + 100 * cosf(3 * y)));
    rgb[2] = (uint8_t)(inside * 90);
}

static void photograph(const gs_camera *k, uint8_t (*rgb)[3]) { // where the ray of each pixel meets z = 0
    const float *r = k->rotation;
    for (int i = 0; i < SIZE * SIZE; i++) {
        const float d[3] = {((float)(i % SIZE) + 0.5f - k->cx) / k->fx, ((float)(i / SIZE) + 0.5f - k->cy) / k->fy, 1};
        float at[3], to[3];
        for (int a = 0; a < 3; a++) at[a] = -4 * r[6 + a], to[a] = r[a] * d[0] + r[3 + a] * d[1] + r[6 + a] * d[2];
        color_at(at[0] - at[2] / to[2] * to[0], at[1] - at[2] / to[2] * to[1], rgb[i]);
    }
}

static void check(int good) {
    if (good) return;
    fprintf(stderr, "train: %s\n", distwar_train_error());
    exit(1);
}

int main(void) {
    static uint8_t pictures[VIEWS][SIZE * SIZE][3], colors[POINTS][3];
    static float points[POINTS][3];
    distwar_train_view views[VIEWS] = {{.pixels = NULL}};
    for (int v = 0; v < VIEWS; v++) {
        views[v] = (distwar_train_view){.camera = camera_at(6.2832 * v / VIEWS), .pixels = pictures[v][0]};
        photograph(&views[v].camera, pictures[v]);
    }
    for (int i = 0; i < POINTS; i++) {
        points[i][0] = (float)(i % 20) / 10 - 0.95f, points[i][1] = (float)(i / 20) / 10 - 0.95f; // z = 0
        color_at(points[i][0], points[i][1], colors[i]);
    }
    const distwar_train_data data = {.views = views, .view_count = VIEWS, .points = (const float(*)[3])points,
                                     .colors = (const uint8_t(*)[3])colors, .point_count = POINTS};
    const char *const settings[] = {"iterations=100", NULL};
    distwar_train_progress now;
    distwar_trainer *const t = distwar_trainer_open(&data, settings);
    check(t != NULL);
    while (!distwar_trainer_is_over(t)) check(distwar_trainer_step(t));
    check(distwar_trainer_progress(t, &now));
    printf("%lld views in %.1f s: %lld Gaussians, loss %.4f -> %.4f\n", (long long)now.views, now.seconds,
           (long long)now.gaussians, now.losses[0], now.loss);
    const int learned = now.loss < now.losses[0] / 2;
    distwar_trainer_close(t);
    return learned ? 0 : 1;
}
