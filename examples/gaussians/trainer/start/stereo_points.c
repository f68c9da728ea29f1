// SPDX-License-Identifier: MIT
#include "start/stereo_points.h"
#include "frames/camera.h"
#include "frames/gs_check.h"
#include "frames/view_order.h"
#include "device.h"
#include "distwar_gs_stereo.h"
#include "gpu/vector.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VIEWS = 150, MOST_SIDE = 320, LEAST_STEPS = 32, MOST_STEPS = 256, LEAST_POINTS = 2000 };
// The nearest plane, in depths of what the cameras look at. Pixels that are drawn, of which those without a point get one,
// as a part of the points that are wanted.
static const double nearest_part = 0.25, drawn_part = 0.2;

// A view at its working size. rgb, covered, inverse: on the host.
typedef struct swept_view {
    const target_view *whole;
    target_view small;
    double middle; // the depth of what the cameras look at
    double worth;  // as the next neighbour
    uint8_t (*rgb)[3], *covered;
    float *inverse;
} swept_view;

typedef struct sweep {
    size_t count, room;
    swept_view *of;       // [count]
    gs_stereo_view *view; // [count]
    gs_stereo in;
    random_stream random;
    float (*points)[3];
    uint8_t (*colors)[3];
    stereo_result *result;
} sweep;

static size_t pixels_of(const gs_camera *camera) {
    return (size_t)camera->width * (size_t)camera->height;
}

static int factor_of(const gs_camera *camera) {
    const int side = camera->width > camera->height ? camera->width : camera->height;
    return (side + MOST_SIDE - 1) / MOST_SIDE;
}

// ---- neighbours

// How well `to` serves as neighbour of a view, 0..1: a mean over points that the view sees. Small angles between the rays
// tell depth badly, at large ones things look different.
static double worth_of(const gs_camera *from, const gs_camera *to, double middle) {
    enum { SIDE = 3, POINTS = SIDE * SIDE * 3 };
    double a[3], b[3], point[3], pixel[2], sum = 0;
    camera_center(from, a);
    camera_center(to, b);
    for (int i = 0; i < POINTS; i++) {
        const int x = i % SIDE, y = i / SIDE % SIDE, depth = i / (SIDE * SIDE);
        const double at[2] = {(x + 0.5) / SIDE * from->width, (y + 0.5) / SIDE * from->height};
        camera_point_at(from, at, middle * pow(2, depth - 1), point);
        if (!camera_pixel(to, point, pixel)) continue;
        const double p[3] = {point[0] - a[0], point[1] - a[1], point[2] - a[2]};
        const double q[3] = {point[0] - b[0], point[1] - b[1], point[2] - b[2]};
        const double degrees = acos(fmin(1, dot(p, q) / sqrt(dot(p, p) * dot(q, q)))) * 57.29577951308232;
        sum += fmax(0, fmin(fmin(degrees / 6, 1), (35 - degrees) / (35 - 14)));
    }
    return sum / POINTS;
}

// The best ones; one that stands beside one already chosen, seen from the view, is worth less.
static void choose_neighbours(sweep *s, size_t v) {
    gs_stereo_view *const view = &s->view[v];
    for (size_t n = 0; n < s->count; n++)
        s->of[n].worth = n == v ? 0 : worth_of(&view->camera, &s->view[n].camera, s->of[v].middle);
    while (view->neighbours < GS_STEREO_NEIGHBOURS) {
        size_t best = 0;
        for (size_t n = 1; n < s->count; n++)
            if (s->of[n].worth > s->of[best].worth) best = n;
        if (s->of[best].worth <= 0) return;
        view->neighbour[view->neighbours++] = (int32_t)best;
        for (size_t n = 0; n < s->count; n++)
            if (s->of[n].worth > 0)
                s->of[n].worth *= fmin(1, 2 * camera_separation(&s->view[best].camera, &s->view[n].camera) /
                                              camera_separation(&view->camera, &s->view[n].camera));
    }
}

// From one plane to the next no neighbour's picture moves by much more than a pixel.
static void choose_planes(sweep *s, size_t v) {
    gs_stereo_view *const view = &s->view[v];
    const double nearest = 1 / (nearest_part * s->of[v].middle);
    double most = LEAST_STEPS;
    for (int k = 0; k < view->neighbours; k++) {
        const gs_camera *const to = &s->view[view->neighbour[k]].camera;
        most = fmax(most, camera_separation(&view->camera, to) * to->fx * nearest);
    }
    view->steps = (int32_t)fmin(ceil(most), MOST_STEPS);
    view->step = (float)(nearest / view->steps);
}

// ---- points

// One more point that stereo has found: of all, s->room are kept, any with the same chance (Vitter 1985, algorithm R).
static void add_point(sweep *s, const float point[3], const uint8_t color[3]) {
    const size_t before = s->result->found++;
    const size_t to = before < s->room ? before : random_below(&s->random, before + 1);
    if (to >= s->room) return;
    memcpy(s->points[to], point, sizeof *s->points);
    memcpy(s->colors[to], color, sizeof *s->colors);
}

static bool find_points(sweep *s) {
    const size_t bytes = (size_t)s->in.most_pixels * sizeof(float[3]);
    float *const device = device_allocate(bytes), (*const host)[3] = malloc(bytes);
    GS_CHECK(gs_stereo_depths(&s->in, NULL));
    for (size_t v = 0; v < s->count && host; v++) {
        const size_t pixels = pixels_of(&s->view[v].camera);
        GS_CHECK(gs_stereo_points(&s->in, (int32_t)v, device, NULL));
        device_download(host, device, pixels * sizeof *host);
        for (size_t i = 0; i < pixels; i++)
            if (!isnan(host[i][0])) add_point(s, host[i], s->of[v].rgb[i]);
    }
    for (size_t v = 0; v < s->count; v++) {
        const size_t pixels = pixels_of(&s->view[v].camera);
        device_download(s->of[v].inverse, s->view[v].inverse_depth, pixels * sizeof(float));
        device_download(s->of[v].covered, s->view[v].covered, pixels);
    }
    device_free(device);
    free(host);
    return host != NULL;
}

// The inverse depth of the first covered pixel from (x, y) in a random direction; 0: there is none.
static double nearby(sweep *s, size_t v, double x, double y) {
    const double angle = 6.283185307179586 * random_unit(&s->random);
    const gs_camera *const camera = &s->view[v].camera;
    for (;;) {
        x += cos(angle), y += sin(angle);
        if (!(x >= 0 && x < camera->width && y >= 0 && y < camera->height)) return 0;
        const size_t i = (size_t)y * (size_t)camera->width + (size_t)x;
        if (s->of[v].covered[i]) return s->of[v].inverse[i];
    }
}

static bool may_hold_something(const target_view *view, int x, int y) {
    const int factor = factor_of(&view->camera);
    const size_t i = (size_t)(y * factor) * (size_t)view->camera.width + (size_t)(x * factor);
    return !(view->mask_on_host && view->mask_on_host[i] == 0) && !(view->outline && view->outline[i] == 0);
}

// A point at a random pixel of view v, unless the pixel has one.
static void fill(sweep *s, size_t v) {
    const gs_camera *const camera = &s->view[v].camera;
    const int x = (int)random_below(&s->random, (uint64_t)camera->width);
    const int y = (int)random_below(&s->random, (uint64_t)camera->height);
    const size_t i = (size_t)y * (size_t)camera->width + (size_t)x;
    if (s->of[v].covered[i] || !may_hold_something(s->of[v].whole, x, y)) return;
    double w = 0, point[3];
    for (int tries = 0; tries < 4 && w <= 0; tries++) w = nearby(s, v, x + 0.5, y + 0.5);
    if (w <= 0) w = (0.02 + 0.98 * random_unit(&s->random)) / s->of[v].middle;
    camera_point_at(camera, (const double[2]){x + 0.5, y + 0.5}, 1 / w, point);
    for (int c = 0; c < 3; c++) s->points[s->result->points][c] = (float)point[c];
    memcpy(s->colors[s->result->points++], s->of[v].rgb[i], sizeof *s->colors);
}

// ---- all of it

static bool open_view(sweep *s, size_t v) {
    swept_view *const of = &s->of[v];
    target_view whole = *of->whole;
    target_view_upload(&whole, true);
    target_view_shrink(&of->small, &whole, factor_of(&whole.camera));
    target_view_release(&whole);
    const size_t pixels = pixels_of(&of->small.camera);
    s->view[v] = (gs_stereo_view){.camera = of->small.camera,
                                  .rgb = of->small.pixels,
                                  .mask = of->small.alpha ? of->small.alpha : of->small.mask,
                                  .inverse_depth = device_allocate(pixels * sizeof(float)),
                                  .covered = device_allocate(pixels)};
    device_clear(s->view[v].covered, pixels);
    if ((int64_t)pixels > s->in.most_pixels) s->in.most_pixels = (int64_t)pixels;
    of->rgb = malloc(pixels * sizeof *of->rgb);
    of->covered = malloc(pixels);
    of->inverse = malloc(pixels * sizeof *of->inverse);
    if (of->rgb) device_download(of->rgb, of->small.pixels, pixels * sizeof *of->rgb);
    return of->rgb && of->covered && of->inverse;
}

static void close_view(swept_view *of, gs_stereo_view *view) {
    target_view_release(&of->small);
    device_free(view->inverse_depth);
    device_free(view->covered);
    free(of->rgb);
    free(of->covered);
    free(of->inverse);
}

static bool find(sweep *s, const gs_stereo_view *device) {
    s->in.views = device;
    for (size_t v = 0; v < s->count; v++)
        if (!open_view(s, v)) return false;
    for (size_t v = 0; v < s->count; v++) {
        choose_neighbours(s, v);
        choose_planes(s, v);
    }
    device_upload((void *)device, s->view, s->count * sizeof *device);
    return find_points(s);
}

bool stereo_points(const target_view *views, size_t count, size_t wanted, uint64_t seed, float (*points)[3],
                   uint8_t (*colors)[3], stereo_result *result) {
    const size_t stride = (count + MOST_VIEWS - 1) / MOST_VIEWS;
    const size_t swept = (count + stride - 1) / stride, draws = (size_t)(drawn_part * (double)wanted);
    *result = (stereo_result){0};
    for (size_t v = 0; v < count; v++)
        if (views[v].camera.model != GS_PINHOLE) return true;
    sweep s = {.count = swept,
               .room = wanted - draws,
               .of = calloc(swept, sizeof *s.of),
               .view = calloc(swept, sizeof *s.view),
               .in = {.count = (int32_t)swept, .least_score = 0.7f, .least_lead = 0.03f, .tolerance = 1},
               .random = random_at(seed, RANDOM_STEREO, 0, 0),
               .points = points,
               .colors = colors,
               .result = result};
    gs_stereo_view *const device = device_allocate(swept * sizeof *device);
    const double least = scene_extent(views, count) / 2; // for cameras that look away from the focus
    double focus[3];
    camera_focus(views, count, focus);
    bool done = s.of && s.view;
    for (size_t v = 0; v < swept && done; v++) {
        s.of[v].whole = &views[v * stride];
        s.of[v].middle = fmax(camera_depth(&s.of[v].whole->camera, focus), least);
    }
    done = done && find(&s, device);
    result->views = swept;
    if (done && (result->found >= LEAST_POINTS || result->found >= wanted)) {
        result->points = result->found < s.room ? result->found : s.room;
        for (size_t k = 0; k < draws; k++) fill(&s, k * swept / draws);
    }
    for (size_t v = 0; v < swept && s.of && s.view; v++) close_view(&s.of[v], &s.view[v]);
    device_free(device);
    free(s.view);
    free(s.of);
    return done;
}
