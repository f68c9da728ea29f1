// SPDX-License-Identifier: MIT
#include "training/random_points.h"
#include "view/camera.h"
#include "random.h"
#include "training/start.h"
#include <math.h>
#include <string.h>

enum { ENOUGH_CAMERAS = 3, MOST_REFUSALS = 20, MOST_EMPTY = 300 };

static const float *forward_of(const gs_camera *camera) {
    return camera->rotation + 6;
}

static double depth_of(const gs_camera *camera, const double point[3]) {
    double depth = camera->translation[2];
    for (int i = 0; i < 3; i++) depth += forward_of(camera)[i] * point[i];
    return depth;
}

// The pixel in which the picture shows the point; false if it does not.
static bool pixel_of(const gs_camera *camera, const double point[3], int *x, int *y) {
    double p[3];
    for (int row = 0; row < 3; row++) {
        p[row] = camera->translation[row];
        for (int i = 0; i < 3; i++) p[row] += camera->rotation[3 * row + i] * point[i];
    }
    if (!(p[2] > camera->near_plane)) return false;
    const double u = camera->fx * p[0] / p[2] + camera->cx, v = camera->fy * p[1] / p[2] + camera->cy;
    if (!(u >= 0 && u < camera->width && v >= 0 && v < camera->height)) return false;
    *x = (int)u;
    *y = (int)v;
    return true;
}

static bool are_enough(const target_view *views, size_t count, const double point[3]) {
    size_t seen = 0;
    int x, y;
    for (size_t i = 0; i < count && seen < ENOUGH_CAMERAS; i++)
        seen += pixel_of(&views[i].camera, point, &x, &y);
    return seen == ENOUGH_CAMERAS || seen == count;
}

static void take_color(const target_view *view, int x, int y, uint8_t color[3]) {
    const image *picture = view->picture;
    memcpy(color, picture->pixels + 3 * ((size_t)y * (size_t)picture->width + (size_t)x), 3);
}

// Solves the symmetric, positive definite a x = b by Cramer's rule.
static void solve(double a[3][3], const double b[3], double x[3]) {
    double cofactor[3][3], determinant = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
            cofactor[i][j] = a[i1][j1] * a[i2][j2] - a[i1][j2] * a[i2][j1];
        }
    for (int j = 0; j < 3; j++) determinant += a[0][j] * cofactor[0][j];
    for (int i = 0; i < 3; i++) {
        x[i] = 0;
        for (int j = 0; j < 3; j++) x[i] += cofactor[j][i] * b[j] / determinant;
    }
}

void camera_focus(const target_view *views, size_t count, double focus[3]) {
    const double far = 5 * scene_extent(views, count), weakness = 1e-4;
    double a[3][3] = {{0}}, b[3] = {0};
    for (size_t k = 0; k < count; k++) {
        const float *forward = forward_of(&views[k].camera);
        double center[3];
        camera_center(&views[k].camera, center);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) {
                const double across =
                    (i == j) - (double)forward[i] * forward[j]; // its axis: all that is not across
                a[i][j] += across + weakness * (i == j);
                b[i] += across * center[j];
            }
            b[i] += weakness * (center[i] + far * forward[i]);
        }
    }
    solve(a, b, focus);
}

// Half the side of the cube.
static double half_side(const target_view *views, size_t count, const double focus[3]) {
    double least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const gs_camera *camera = &views[i].camera;
        const double angle = fmin(camera->width / camera->fx, camera->height / camera->fy) / 2;
        const double depth = depth_of(camera, focus);
        if (depth > 0) least = fmin(least, depth * angle);
    }
    return isfinite(least) ? least : scene_extent(views, count);
}

// Some picture shows the point's place, and none shows nothing there.
static bool may_hold_something(const target_view *views, size_t count, const double point[3]) {
    bool seen = false;
    int x, y;
    for (size_t i = 0; i < count; i++) {
        const target_view *view = &views[i];
        if (!pixel_of(&view->camera, point, &x, &y)) continue;
        if (view->outline && view->outline[(size_t)y * (size_t)view->picture->width + (size_t)x] == 0)
            return false;
        seen = true;
    }
    return seen;
}

static void point_in_cube(const target_view *views, size_t count, const double focus[3], double half,
                          random_stream *random, double point[3]) {
    for (int refusals = 0; refusals < MOST_EMPTY; refusals++) {
        for (int i = 0; i < 3; i++) point[i] = focus[i] + half * (2 * random_unit(random) - 1);
        if (may_hold_something(views, count, point)) return;
    }
}

static void color_from_any(const target_view *views, size_t count, const double point[3],
                           random_stream *random, uint8_t color[3]) {
    int x, y;
    memset(color, 128, 3);
    for (size_t i = 0, first = random_below(random, count); i < count; i++) {
        const target_view *view = &views[(first + i) % count];
        if (!pixel_of(&view->camera, point, &x, &y)) continue;
        take_color(view, x, y, color);
        return;
    }
}

// On the ray through the middle of the pixel.
static void point_at(const gs_camera *camera, int x, int y, double depth, double point[3]) {
    const double inside[3] = {depth * (x + 0.5 - camera->cx) / camera->fx,
                              depth * (y + 0.5 - camera->cy) / camera->fy, depth};
    for (int i = 0; i < 3; i++) {
        point[i] = 0;
        for (int row = 0; row < 3; row++)
            point[i] += camera->rotation[3 * row + i] * (inside[row] - camera->translation[row]);
    }
}

static void point_in_common_view(const target_view *views, size_t count, const double focus[3],
                                 double least_depth, random_stream *random, double point[3],
                                 uint8_t color[3]) {
    for (int refusals = 0; refusals < MOST_REFUSALS; refusals++) {
        const target_view *view = &views[random_below(random, count)];
        const gs_camera *camera = &view->camera;
        const int x = (int)random_below(random, (uint64_t)camera->width);
        const int y = (int)random_below(random, (uint64_t)camera->height);
        const double middle = fmax(depth_of(camera, focus), least_depth);
        point_at(camera, x, y, middle * exp(log(4) * (2 * random_unit(random) - 1)), point);
        take_color(view, x, y, color);
        if (are_enough(views, count, point)) return;
    }
}

void random_points(const target_view *views, size_t count, bool cut_out, size_t wanted, uint64_t seed,
                   float (*points)[3], uint8_t (*colors)[3]) {
    random_stream random = {seed};
    double focus[3], point[3];
    camera_focus(views, count, focus);
    const double half = half_side(views, count, focus);
    const double least_depth = scene_extent(views, count) / 2; // for cameras that look away from the focus
    for (size_t k = 0; k < wanted; k++) {
        if (cut_out) {
            point_in_cube(views, count, focus, half, &random, point);
            color_from_any(views, count, point, &random, colors[k]);
        } else {
            point_in_common_view(views, count, focus, least_depth, &random, point, colors[k]);
        }
        for (int i = 0; i < 3; i++) points[k][i] = (float)point[i];
    }
}
