// SPDX-License-Identifier: MIT
// The sphere renderer again, in double precision and in world space, written from the formulas; and its
// adjoint. Arrays are the caller's.
#ifndef SPHERE_REFERENCE_H
#define SPHERE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One block that begins at `center`, in this order.
typedef struct reference_spheres {
    int64_t count;
    int channels;
    double *center, *log_radius, *opacity_logit, *feature;
} reference_spheres;

typedef struct reference_view {
    int width, height, kept;
    double focal, principal[2];
    double rotation[9], translation[3];
    double near_limit, far_limit, softness, background_weight, background;
} reference_view;

// d of a sphere at a pixel: > 0 where the ray meets it. And its depth in the camera.
double reference_closeness(const reference_spheres *set, const reference_view *view, int64_t i, int x, int y);
double reference_depth(const reference_spheres *set, const reference_view *view, int64_t i);

// list: [kept][height][width], length: [height][width].
void reference_lists(const reference_spheres *set, const reference_view *view, int *list, int *length);
// color: [channels][height][width], of the spheres in the lists.
void reference_render(const reference_spheres *set, const reference_view *view, const int *list,
                      const int *length, double *color);
// Overwrites the gradient.
void reference_render_backward(const reference_spheres *set, const reference_view *view, const int *list,
                               const int *length, const double *color_gradient,
                               const reference_spheres *gradient);

#ifdef __cplusplus
}
#endif
#endif
