// SPDX-License-Identifier: MIT
#include "lens.h"
#include "lenses.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const lens_parameter lens_parameters[LENS_PARAMETERS] = {
    {"fx", "fl_x", offsetof(lens, fx), false}, {"fy", "fl_y", offsetof(lens, fy), false},
    {"cx", "cx", offsetof(lens, cx), false},   {"cy", "cy", offsetof(lens, cy), false},
    {"k1", "k1", offsetof(lens, k1), true},    {"k2", "k2", offsetof(lens, k2), true},
    {"p1", "p1", offsetof(lens, p1), true},    {"p2", "p2", offsetof(lens, p2), true},
    {"k3", "k3", offsetof(lens, k3), true},    {"k4", "k4", offsetof(lens, k4), true},
};

double *lens_value(const lens *optics, const lens_parameter *parameter) {
    return (double *)((uintptr_t)optics + parameter->offset);
}

const lens_model lens_models[LENS_MODELS] = {
    {"SIMPLE_PINHOLE", "f cx cy", false, 3},
    {"PINHOLE", "fx fy cx cy", false, 4},
    {"SIMPLE_RADIAL", "f cx cy k1", false, 4},
    {"RADIAL", "f cx cy k1 k2", false, 5},
    {"OPENCV", "fx fy cx cy k1 k2 p1 p2", false, 8},
    {"OPENCV_FISHEYE", "fx fy cx cy k1 k2 k3 k4", true, 8},
    {.name = "FULL_OPENCV"},
    {.name = "FOV"},
    {"SIMPLE_RADIAL_FISHEYE", "f cx cy k1", true, 4},
    {"RADIAL_FISHEYE", "f cx cy k1 k2", true, 5},
    {.name = "THIN_PRISM_FISHEYE"},
    {.name = "RAD_TAN_THIN_PRISM_FISHEYE"},
    {.name = "SIMPLE_DIVISION"},
    {.name = "DIVISION"},
    {"SIMPLE_FISHEYE", "f cx cy", true, 3},
    {"FISHEYE", "fx fy cx cy", true, 4},
    {.name = "EUCM"},
    {.name = "EQUIRECTANGULAR"},
};

const lens_model *lens_model_find(const char *name) {
    for (int i = 0; i < LENS_MODELS; i++)
        if (strcmp(lens_models[i].name, name) == 0) return &lens_models[i];
    return NULL;
}

void lens_model_apply(const lens_model *model, const double *values, lens *optics) {
    const char *at = model->parameters;
    for (int k = 0; k < model->count; k++, at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strcspn(at, " ") == 1) optics->fx = optics->fy = values[k]; // f
        for (int i = 0; i < LENS_PARAMETERS; i++)
            if (strncmp(at, lens_parameters[i].name, 2) == 0)
                *lens_value(optics, &lens_parameters[i]) = values[k];
    }
    optics->fisheye = model->fisheye;
}

void lens_model_list(char text[160]) {
    size_t used = 0;
    for (int i = 0; i < LENS_MODELS; i++)
        if (lens_models[i].count > 0 && used < 160)
            used += (size_t)snprintf(text + used, 160 - used, "%s%s", used ? ", " : "", lens_models[i].name);
}

// Finite as a float, as all numbers here: gs_camera has floats. The focal length must be a normal float, so that it stays above 0 when the picture is downscaled.
static bool focal_is_possible(double focal, double angle, bool may_be_open) {
    if (focal != 0) return isfinite((float)focal) && (float)focal >= FLT_MIN;
    return angle != 0 ? angle > 0 && angle < acos(-1) : may_be_open;
}

static void fisheye_distortion(const lens *optics, float k[4]) {
    const double all[4] = {optics->k1, optics->k2, optics->k3, optics->k4};
    for (int i = 0; i < 4; i++) k[i] = (float)all[i];
}

// A lens with open values is checked when it is complete.
static bool fisheye_check(const lens *optics, fault *why) {
    const double degree = acos(-1) / 180, enough = 85 * degree;
    if (optics->fx == 0) return fail(why, "a fisheye without a focal length; an angle of view is not enough");
    if (optics->width == 0 || optics->height == 0 || isnan(optics->cx) || isnan(optics->cy)) return true;
    float k[4];
    fisheye_distortion(optics, k);
    const double limit = fisheye_angle_limit(k), fy = optics->fy != 0 ? optics->fy : optics->fx;
    const double x = fmax(optics->cx, optics->width - optics->cx) / optics->fx; // the farthest corner
    const double y = fmax(optics->cy, optics->height - optics->cy) / fy;
    if (limit >= enough || fisheye_radius(k, limit) >= hypot(x, y)) return true;
    return fail(why,
                "the distortion k1, k2, k3, k4 = %g, %g, %g, %g, by which a fisheye's picture folds over "
                "%.1f degrees off the axis; it must grow up to the picture's corners or to 85 degrees",
                optics->k1, optics->k2, optics->k3, optics->k4, limit / degree);
}

bool lens_check(const lens *optics, fault *why) {
    if (optics->width < 0 || optics->width > GS_MAX_SIZE || optics->height < 0 ||
        optics->height > GS_MAX_SIZE)
        return fail(why, "images of %d x %d pixels; each side must be 1..%d", optics->width, optics->height,
                    GS_MAX_SIZE);
    if (!focal_is_possible(optics->fx, optics->angle_x, false) ||
        !focal_is_possible(optics->fy, optics->angle_y, true))
        return fail(why,
                    "focal lengths %g, %g and angles of view %g, %g; a focal length must be finite and above "
                    "0, an angle between 0 and pi",
                    optics->fx, optics->fy, optics->angle_x, optics->angle_y);
    if (isinf((float)optics->cx) || isinf((float)optics->cy))
        return fail(why, "the principal point %g, %g; it must be finite", optics->cx, optics->cy);
    for (int i = 0; i < LENS_PARAMETERS; i++) {
        const lens_parameter *parameter = &lens_parameters[i];
        if (parameter->distortion && !isfinite((float)*lens_value(optics, parameter)))
            return fail(why, "the distortion %s = %g; it must be finite", parameter->name,
                        *lens_value(optics, parameter));
    }
    return !optics->fisheye || fisheye_check(optics, why);
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

bool lens_resize(lens *optics, int width, int height) {
    const double w = optics->width, h = optics->height;
    // One factor must explain both sides to less than a pixel, and a side that is equal explains nothing.
    const double least = fmax((width - 1) / w, (height - 1) / h),
                 most = fmin((width + 1) / w, (height + 1) / h);
    if (width == w || height == h || !(least < most)) return false;
    optics->fx *= width / w, optics->cx *= width / w;
    optics->fy *= height / h, optics->cy *= height / h;
    optics->width = width, optics->height = height;
    return true;
}

gs_camera lens_camera(const lens *optics, bool undistort) {
    gs_camera camera = {.width = optics->width, .height = optics->height};
    camera.fx = (float)optics->fx, camera.fy = (float)optics->fy;
    camera.cx = (float)optics->cx, camera.cy = (float)optics->cy;
    if (!optics->fisheye || undistort) return camera;
    camera.model = GS_FISHEYE;
    fisheye_distortion(optics, camera.distortion);
    return camera;
}

bool lens_is_ideal(const lens *optics) {
    if (optics->fisheye) return false;
    for (int i = 0; i < LENS_PARAMETERS; i++)
        if (lens_parameters[i].distortion && *lens_value(optics, &lens_parameters[i]) != 0) return false;
    return true;
}

// The derivative by r of r (1 + k1 r^2 + k2 r^4 + k3 r^6 + k4 r^8), of s = r^2.
static double slope(const lens *optics, double s) {
    return 1 + s * (3 * optics->k1 + s * (5 * optics->k2 + s * (7 * optics->k3 + s * 9 * optics->k4)));
}

// The smallest r^2 where that is 0; infinity if there is none up to 89 degrees off the axis.
static double fold(const lens *optics) {
    enum { STEPS = 356, HALVINGS = 200 }; // a fold within a quarter of a degree may be missed
    double low = 0, high = 0;
    for (int i = 1; i <= STEPS && low == high; i++) {
        high = pow(tan(i * acos(-1) / 720), 2);
        if (slope(optics, high) > 0) low = high;
    }
    if (low == high) return INFINITY;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        *(slope(optics, middle) > 0 ? &low : &high) = middle;
    }
    return low;
}

// Where a ray goes, in focal lengths. limit: of r^2, beyond which the place stays where it is, or of a fisheye's angle.
static void distort(const lens *l, const float fisheye[4], double limit, double x, double y, double out[2]) {
    double square = x * x + y * y;
    if (l->fisheye) {
        const double r = hypot(x, y);
        const double scale = r > 0 ? fisheye_radius(fisheye, fmin(atan(r), limit)) / r : 1;
        out[0] = x * scale, out[1] = y * scale;
        return;
    }
    if (square > limit) {
        const double back = sqrt(limit / square);
        x *= back, y *= back, square = limit;
    }
    const double factor = 1 + square * (l->k1 + square * (l->k2 + square * (l->k3 + square * l->k4)));
    out[0] = x * factor + 2 * l->p1 * x * y + l->p2 * (square + 2 * x * x);
    out[1] = y * factor + 2 * l->p2 * x * y + l->p1 * (square + 2 * y * y);
}

static inline float value_at(bool bytes, const void *from, size_t i) {
    return bytes ? (float)((const uint8_t *)from)[i] : ((const float *)from)[i];
}

// Samples where the lens maps each pixel: bytes of a picture or floats of a map. Compiled for each kind and number of
// channels, which takes a quarter of the time.
static inline __attribute__((always_inline)) void undistort(const lens *optics, int width, int height,
                                                            size_t channels, bool bytes, const void *from,
                                                            void *to) {
    float fisheye[4];
    fisheye_distortion(optics, fisheye);
    const double limit = optics->fisheye ? fisheye_angle_limit(fisheye) : fold(optics);
    const size_t row = channels * (size_t)width;
    size_t at = 0;
    for (int j = 0; j < height; j++)
        for (int i = 0; i < width; i++) {
            // The ray of a pixel of the pinhole meets the photograph at (x, y), in pixels; the border repeats, NaN becomes 0.
            double place[2];
            distort(optics, fisheye, limit, (i + 0.5 - optics->cx) / optics->fx,
                    (j + 0.5 - optics->cy) / optics->fy, place);
            const double x = fmin(fmax(optics->fx * place[0] + optics->cx - 0.5, 0), width - 1),
                         y = fmin(fmax(optics->fy * place[1] + optics->cy - 0.5, 0), height - 1);
            const int left = (int)x, top = (int)y;
            const float right_part = (float)(x - left), low_part = (float)(y - top);
            const size_t first = (size_t)left * channels,
                         second = left + 1 < width ? first + channels : first, above = (size_t)top * row,
                         below = top + 1 < height ? above + row : above;
            for (size_t c = 0; c < channels; c++, at++) {
                const float upper = value_at(bytes, from, above + first + c) * (1 - right_part) +
                                    value_at(bytes, from, above + second + c) * right_part;
                const float lower = value_at(bytes, from, below + first + c) * (1 - right_part) +
                                    value_at(bytes, from, below + second + c) * right_part;
                const float mean = upper * (1 - low_part) + lower * low_part;
                if (bytes)
                    ((uint8_t *)to)[at] = (uint8_t)(mean + 0.5f);
                else
                    ((float *)to)[at] = mean;
            }
        }
}

bool lens_undistort(const lens *optics, const image *picture, image *out, fault *why) {
    if (!image_open(out, picture->width, picture->height, GS_CHANNELS, why)) return false;
    undistort(optics, out->width, out->height, GS_CHANNELS, true, picture->pixels, out->pixels);
    return true;
}

bool lens_undistort_plane(const lens *optics, const plane *map, plane *out, fault *why) {
    if (!plane_open(out, map->width, map->height, why)) return false;
    undistort(optics, map->width, map->height, 1, false, map->values, out->values);
    return true;
}
