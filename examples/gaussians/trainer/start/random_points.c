// SPDX-License-Identifier: MIT
#include "start/random_points.h"
#include "frames/camera.h"
#include "lenses.h"
#include "random.h"
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

// The pixel that shows the point. False if it is behind the camera or outside the picture.
static bool pixel_of(const gs_camera *camera, const double point[3], int *x, int *y) {
    double pixel[2];
    if (!camera_pixel(camera, point, pixel)) return false;
    *x = (int)pixel[0];
    *y = (int)pixel[1];
    return true;
}

static bool is_seen_by_enough(const target_view *views, size_t count, const double point[3]) {
    size_t seen = 0;
    int x, y;
    for (size_t i = 0; i < count && seen < ENOUGH_CAMERAS; i++)
        seen += pixel_of(&views[i].camera, point, &x, &y);
    return seen == ENOUGH_CAMERAS || seen == count;
}

// False if the pixel does not count.
static bool take_color(const target_view *view, int x, int y, uint8_t color[3]) {
    const image *picture = view->picture;
    const size_t pixel = (size_t)y * (size_t)picture->width + (size_t)x;
    if (view->mask_on_host && view->mask_on_host[pixel] == 0) return false;
    memcpy(color, picture->pixels + GS_CHANNELS * pixel, GS_CHANNELS);
    return true;
}

// Half the side of the cube around an object, see random_points.h.
static double half_side(const target_view *views, size_t count, const double focus[3]) {
    double least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const gs_camera *camera = &views[i].camera;
        const double depth = depth_of(camera, focus);
        double slope = fmin(camera->width / camera->fx, camera->height / camera->fy) / 2;
        if (camera->model == GS_FISHEYE) slope = tan(fmin(fisheye_angle(camera->distortion, slope), 1));
        if (depth > 0) least = fmin(least, depth * slope);
    }
    return isfinite(least) ? least : scene_extent(views, count);
}

// Whether some picture contains the point and none shows transparent pixels there.
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
    memset(color, 128, GS_CHANNELS);
    for (size_t i = 0, first = random_below(random, count); i < count; i++) {
        const target_view *view = &views[(first + i) % count];
        if (!pixel_of(&view->camera, point, &x, &y)) continue;
        if (take_color(view, x, y, color)) return;
    }
}

static void point_in_common_view(const target_view *views, size_t count, const double focus[3],
                                 double least_depth, random_stream *random, double point[3],
                                 uint8_t color[3]) {
    memset(color, 128, GS_CHANNELS);
    for (int refusals = 0; refusals < MOST_REFUSALS; refusals++) {
        const target_view *view = &views[random_below(random, count)];
        const gs_camera *camera = &view->camera;
        const int x = (int)random_below(random, (uint64_t)camera->width);
        const int y = (int)random_below(random, (uint64_t)camera->height);
        const double middle = fmax(depth_of(camera, focus), least_depth);
        camera_point_at(camera, (const double[2]){x + 0.5, y + 0.5},
                        middle * exp(log(4) * (2 * random_unit(random) - 1)), point);
        if (take_color(view, x, y, color) && is_seen_by_enough(views, count, point)) return;
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
