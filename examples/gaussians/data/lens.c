// SPDX-License-Identifier: MIT
// Lenses and undistortion.
#include "lens.h"
#include <float.h>
#include <math.h>

static bool side_is_possible(int32_t side) {
    return side >= 0 && side <= GS_MAX_SIZE;
}

// Finite also as a float, which cameras are made of.
static bool is_float(double value) {
    return isfinite((float)value);
}

// Normal as a float: divided with the picture, it must stay above 0.
static bool focal_is_possible(double focal, double angle, bool may_be_open) {
    if (focal != 0) return is_float(focal) && (float)focal >= FLT_MIN;
    return angle != 0 ? angle > 0 && angle < acos(-1) : may_be_open;
}

bool lens_check(const lens *optics, fault *why) {
    if (!side_is_possible(optics->width) || !side_is_possible(optics->height))
        return fail(why, "images of %d x %d pixels; each side must be 1..%d", optics->width, optics->height,
                    GS_MAX_SIZE);
    if (!focal_is_possible(optics->fx, optics->angle_x, false) ||
        !focal_is_possible(optics->fy, optics->angle_y, true))
        return fail(why,
                    "focal lengths %g, %g and angles of view %g, %g; a focal length must be finite and above "
                    "0, an angle between 0 and pi",
                    optics->fx, optics->fy, optics->angle_x, optics->angle_y);
    if (!(isnan(optics->cx) || is_float(optics->cx)) || !(isnan(optics->cy) || is_float(optics->cy)))
        return fail(why, "the principal point %g, %g; it must be finite", optics->cx, optics->cy);
    if (!is_float(optics->k1) || !is_float(optics->k2) || !is_float(optics->p1) || !is_float(optics->p2))
        return fail(why, "the distortion k1, k2, p1, p2 = %g, %g, %g, %g; all must be finite", optics->k1,
                    optics->k2, optics->p1, optics->p2);
    return true;
}

void lens_complete(lens *optics, int width, int height) {
    if (optics->width == 0) optics->width = width;
    if (optics->height == 0) optics->height = height;
    if (optics->fx == 0) optics->fx = optics->width / 2.0 / tan(optics->angle_x / 2);
    if (optics->fy == 0)
        optics->fy = optics->angle_y == 0 ? optics->fx : optics->height / 2.0 / tan(optics->angle_y / 2);
    if (isnan(optics->cx)) optics->cx = optics->width / 2.0;
    if (isnan(optics->cy)) optics->cy = optics->height / 2.0;
}

gs_camera lens_pinhole(const lens *optics) {
    return (gs_camera){.width = optics->width,
                       .height = optics->height,
                       .fx = (float)optics->fx,
                       .fy = (float)optics->fy,
                       .cx = (float)optics->cx,
                       .cy = (float)optics->cy,
                       .near_plane = 0.2f};
}

bool lens_is_ideal(const lens *optics) {
    return optics->k1 == 0 && optics->k2 == 0 && optics->p1 == 0 && optics->p2 == 0;
}

// The least r^2 where the derivative of r (1 + k1 r^2 + k2 r^4), 1 + 3 k1 r^2 + 5 k2 r^4, is 0; infinite if
// nowhere.
static double fold(const lens *optics) {
    const double b = 3 * optics->k1, a = 5 * optics->k2, discriminant = b * b - 4 * a;
    if (!(discriminant >= 0)) return INFINITY;
    const double q = -0.5 * (b + copysign(sqrt(discriminant), b)); // no cancellation
    const double roots[2] = {q / a, 1 / q};
    double least = INFINITY;
    for (int i = 0; i < 2; i++)
        if (roots[i] > 0 && roots[i] < least) least = roots[i];
    return least;
}

// Index and weight of the two neighbours between which `at` (index units) lies; the border repeats, also for
// NaN.
typedef struct between {
    int first, second;
    float weight; // of the second
} between;

static between neighbours(double at, int size) {
    at = fmin(fmax(at, 0), size - 1);
    const int first = (int)at;
    return (between){first, first + 1 < size ? first + 1 : first, (float)(at - first)};
}

bool lens_undistort(const lens *optics, const image *picture, image *out, fault *why) {
    if (!image_open(out, picture->width, picture->height, 3, why)) return false;
    const double limit = fold(optics), p1 = optics->p1, p2 = optics->p2;
    const size_t row = 3 * (size_t)picture->width;
    uint8_t *pixel = out->pixels;
    for (int j = 0; j < out->height; j++) {
        for (int i = 0; i < out->width; i++) {
            double x = (i + 0.5 - optics->cx) / optics->fx, y = (j + 0.5 - optics->cy) / optics->fy;
            double square = x * x + y * y;
            if (square > limit) {
                const double back = sqrt(limit / square);
                x *= back, y *= back, square = limit;
            }
            const double radial = 1 + square * (optics->k1 + square * optics->k2);
            const double u = x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x);
            const double v = y * radial + 2 * p2 * x * y + p1 * (square + 2 * y * y);
            const between h = neighbours(optics->fx * u + optics->cx - 0.5, picture->width);
            const between w = neighbours(optics->fy * v + optics->cy - 0.5, picture->height);
            const uint8_t *above = picture->pixels + (size_t)w.first * row,
                          *below = picture->pixels + (size_t)w.second * row;
            for (int c = 0; c < 3; c++) {
                const float top = (float)above[3 * h.first + c] * (1 - h.weight) +
                                  (float)above[3 * h.second + c] * h.weight;
                const float bottom = (float)below[3 * h.first + c] * (1 - h.weight) +
                                     (float)below[3 * h.second + c] * h.weight;
                *pixel++ = (uint8_t)(top * (1 - w.weight) + bottom * w.weight + 0.5f);
            }
        }
    }
    return true;
}
