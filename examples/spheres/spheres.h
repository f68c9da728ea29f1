// SPDX-License-Identifier: MIT
//
// A differentiable renderer of spheres, in the spirit of Pulsar (Lassner and Zollhoefer 2021): each pixel is
// a softmax, over depth and over the distance from the ray, of the spheres that its ray meets. One call a
// stage:
//
//   spheres_project -> spheres_candidates -> spheres_render -> l1_loss
//     -> spheres_render_backward -> spheres_project_backward -> spheres_adam
//
// A stage reads what earlier stages left in the frame and writes its own part; all memory is the device's.
// The formulas are in docs/math.md. Each pixel goes through a list of its own, so that the lanes of a warp
// are at different spheres: the adjoint adds by several keys at once.
//
// Work is queued on the default stream. A failure of the device ends the program.
#ifndef SPHERES_H
#define SPHERES_H

#include "pinhole.h"
#include "sum_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPHERES_MAX_KEPT = 16, // spheres of a pixel
    SPHERES_MAX_CHANNELS = 32,
    SPHERES_MOMENTS = 5 // values that the adjoint sums for a sphere, beside those of its features
};

// The parameters of `count` spheres; also the shape of their gradients and of Adam's two moments.
typedef struct sphere_set {
    int64_t count;        // 1 <= count < 2^31
    int channels;         // of a feature: 3, 8, 16 or 32
    float *center;        // [count][3]   world
    float *log_radius;    // [count]
    float *opacity_logit; // [count]
    float *feature;       // [count][channels]
} sphere_set;

// How a pixel is blended from its spheres.
typedef struct sphere_blend {
    float near_limit, far_limit; // spheres whose centre has its depth outside are not seen; 0 < near < far
    float softness;              // gamma: the smaller, the more the closest wins; >= 1/64
    float background_weight;     // > 0; 1 is the weight of an opaque sphere that touches the far limit
    float background;            // in all channels
    int kept;                    // the closest spheres that a pixel counts; 1..SPHERES_MAX_KEPT
} sphere_blend;

// A sphere as a camera sees it: what the pixels read. 32 bytes.
typedef struct sphere_view {
    float center[3];      // camera; of what is not seen, all is 0
    float radius;         // 0: not seen
    float amplitude;      // a: its weight in a pixel is a d
    float inverse_square; // 1 / radius^2
    float reserved[2];
} sphere_view;

// One camera's view, from the parameters to the picture and back.
typedef struct sphere_frame {
    // From the caller; may change between views, but the set's size, the pictures' and `kept` stay:
    sphere_set set;
    pinhole_camera camera; // 1..8192 pixels both ways
    sphere_blend blend;
    // Memory of sphere_frame_open:
    sphere_view *views;    // [count]
    int *list;             // [kept][height][width]: a pixel's spheres, the closest first
    int *list_length;      // [height][width]
    float *color;          // [channels][height][width]
    float *total;          // [height][width]: the sum of the weights
    float *color_gradient; // [channels][height][width]: from the loss
    sum_memory moments;    // [count][SPHERES_MOMENTS + channels]
} sphere_frame;

sphere_frame sphere_frame_open(const sphere_set *set, const pinhole_camera *camera,
                               const sphere_blend *blend);
void sphere_frame_close(sphere_frame *frame); // not the set

// Writes views.
void spheres_project(const sphere_frame *frame);
// Writes list and list_length: of the spheres that a pixel's ray meets, the `kept` of the least depth; of
// equal depth, of the least index. Cost: every tile looks at every sphere; those that reach it are sorted.
void spheres_candidates(const sphere_frame *frame);
// Writes color and total.
void spheres_render(const sphere_frame *frame);
// Adjoint of spheres_render: from color_gradient writes the moments. threshold: 0..MAX_THRESHOLD. The fixed
// point of REDUCE_FIXED is for gradients of about 1 / (channels width height) each, as l1_loss gives; a
// pixel's part of a sum may be 2^15 times as large, and sum_memory_is_exact tells whether any was larger.
void spheres_render_backward(const sphere_frame *frame, distwar_policy policy);
// The same commits counted, not made: adds to `counts` on the device.
void spheres_count_lanes(const sphere_frame *frame, lane_histogram *counts);
// Adjoint of spheres_project: from the moments writes the gradient of every parameter.
void spheres_project_backward(const sphere_frame *frame, const sphere_set *gradient);

// Learning rates.
typedef struct sphere_rates {
    float center, log_radius, opacity_logit, feature;
} sphere_rates;

// One step of Adam; step = 1, 2, ... The moments start as zeros.
void spheres_adam(const sphere_set *set, const sphere_set *gradient, const sphere_set *first_moment,
                  const sphere_set *second_moment, const sphere_rates *rates, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
