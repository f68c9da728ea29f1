// SPDX-License-Identifier: MIT
// The sphere renderer again, in double precision and in world space, written from the formulas; and its
// adjoint. Arrays are the caller's. Of a frame only camera and blend are read.
#ifndef SPHERE_REFERENCE_H
#define SPHERE_REFERENCE_H

#include "spheres.h"

#ifdef __cplusplus
extern "C" {
#endif

// One block that begins at `center`, in this order.
typedef struct reference_spheres {
    int64_t count;
    int channels;
    double *center, *log_radius, *opacity_logit, *feature;
} reference_spheres;

// d of a sphere at a pixel: > 0 where the ray meets it. And its depth in the camera.
double reference_closeness(const reference_spheres *set, const sphere_frame *view, int64_t i, int x, int y);
double reference_depth(const reference_spheres *set, const sphere_frame *view, int64_t i);

// list: [kept][height][width], length: [height][width].
void reference_lists(const reference_spheres *set, const sphere_frame *view, int *list, int *length);
// color: [channels][height][width], of the spheres in the lists.
void reference_render(const reference_spheres *set, const sphere_frame *view, const int *list,
                      const int *length, double *color);
// Overwrites the gradient.
void reference_render_backward(const reference_spheres *set, const sphere_frame *view, const int *list,
                               const int *length, const double *color_gradient,
                               const reference_spheres *gradient);

#ifdef __cplusplus
}
#endif
#endif
