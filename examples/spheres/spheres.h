// SPDX-License-Identifier: MIT
//
// A differentiable renderer of spheres, in the spirit of Pulsar (Lassner and Zollhoefer 2021): each pixel is
// a softmax, over depth and over the distance from the ray, of the spheres that its ray meets. One call a
// stage:
//
//   spheres_draw (project, candidates, render) -> l1_loss
//     -> spheres_render_backward -> spheres_project_backward -> adam_groups_step
//
// A stage reads from the frame what earlier stages wrote, and writes its own part. All memory is device
// memory. The formulas are in math.md. Each pixel has a list of its own, so the lanes of a warp are at
// different spheres and the adjoint adds to several keys at once.
//
// Work is queued on the default stream. A failure of the device ends the program.
#pragma once

#include "gpu/pinhole.h"
#include "strategies/strategies.h"

C_LINKAGE_BEGIN

enum {
    SPHERES_MAX_KEPT = 16, // spheres of a pixel
    SPHERES_MOMENTS = 5    // values that the adjoint sums for a sphere, without those of its feature
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
    float near_limit, far_limit; // spheres with a centre outside this depth are culled; 0 < near < far
    float softness;              // gamma, >= 1/64; a smaller value gives the closest sphere more weight
    float background_weight;     // > 0; 1: the weight of an opaque sphere at the far limit
    float background;            // in all channels
    int kept;                    // spheres of a pixel, the closest ones; 1..SPHERES_MAX_KEPT
} sphere_blend;

// A sphere in camera space, as the pixels read it. 32 bytes.
typedef struct sphere_view {
    float center[3];      // camera space; all members are 0 if the sphere is culled
    float radius;         // 0: culled
    float amplitude;      // a; the weight in a pixel is a d
    float inverse_square; // 1 / radius^2
    float reserved[2];
} sphere_view;

// One camera's view, from the parameters to the picture and back.
typedef struct sphere_frame {
    sphere_set set; // a copy on the device; its values may change
    // From the caller. Between views all may change but the picture's size and blend.kept:
    pinhole_camera camera; // 1..8192 pixels both ways
    sphere_blend blend;
    // Memory of sphere_frame_open:
    sphere_view *views;    // [count]
    int *list;             // [kept][height][width]: the spheres of a pixel, closest first
    int *list_length;      // [height][width]
    float *color;          // [channels][height][width]
    float *total;          // [height][width]: the sum of the weights
    float *color_gradient; // [channels][height][width]: from the loss
    sum_memory moments;    // [count][SPHERES_MOMENTS + channels]
} sphere_frame;

// host: one block, as sphere_set_over makes it.
sphere_frame sphere_frame_open(const sphere_set *host, const pinhole_camera *camera,
                               const sphere_blend *blend);
void sphere_frame_close(sphere_frame *frame);

// Writes views; list and list_length, which are the first `kept` of the spheres that the pixel's ray meets, by depth,
// then by index; color and total. Cost: every tile tests every sphere and sorts those that reach it.
void spheres_draw(const sphere_frame *frame);
// Adjoint of the blend: from color_gradient writes the moments. policy, lanes: as sum_values of commit.cuh has them.
// DISTWAR_FIXED expects gradients of about 1 / (channels width height), as l1_loss gives. A pixel's part of a sum may be up
// to 2^15 times as large; sum_memory_is_exact fails if one was larger.
void spheres_render_backward(const sphere_frame *frame, distwar_policy policy, lane_histogram *lanes);
// Adjoint of the projection: from the moments writes the gradient of every parameter.
void spheres_project_backward(const sphere_frame *frame, const sphere_set *gradient);

// The set over a block of count * (5 + channels) floats, on the host or on the device, which begins at `center`.
sphere_set sphere_set_over(float *block, int64_t count, int channels);

C_LINKAGE_END
