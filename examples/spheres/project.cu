// SPDX-License-Identifier: MIT
// The projection of spheres into a camera, and its adjoint. Formulas: docs/developers/math-examples.md, "Spheres".
#include "device.h"
#include "launch.cuh"
#include "spheres.h"
#include <math.h>

namespace {

enum { THREADS = 256 };

struct sphere_in_camera {
    float center[3], radius, opacity;
    float nearness; // s: 1 at the near limit, 0 at the far one
    bool seen;
};

__device__ sphere_in_camera in_camera(const sphere_frame &f, int64_t i) {
    const float *x = f.set.center + 3 * i, *r = f.camera.rotation;
    sphere_in_camera out;
    for (int row = 0; row < 3; ++row)
        out.center[row] =
            fmaf(r[3 * row], x[0],
                 fmaf(r[3 * row + 1], x[1], fmaf(r[3 * row + 2], x[2], f.camera.translation[row])));
    out.radius = expf(f.set.log_radius[i]);
    out.opacity = 1 / (1 + expf(-f.set.opacity_logit[i]));
    out.nearness = (f.blend.far_limit - out.center[2]) / (f.blend.far_limit - f.blend.near_limit);
    const float inverse_square = 1 / (out.radius * out.radius);
    out.seen = out.center[2] > f.blend.near_limit && out.center[2] < f.blend.far_limit &&
               isfinite(out.center[0]) && isfinite(out.center[1]) && isfinite(out.radius) &&
               isfinite(inverse_square) && isfinite(out.opacity);
    return out;
}

__global__ void __launch_bounds__(THREADS) project_kernel(sphere_frame f) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= f.set.count) return;
    const sphere_in_camera s = in_camera(f, i);
    f.views[i] = {};
    if (!s.seen) return;
    f.views[i] = {{s.center[0], s.center[1], s.center[2]},
                  s.radius,
                  s.opacity * expf(s.opacity * s.nearness / f.blend.softness),
                  1 / (s.radius * s.radius),
                  {}};
}

__global__ void __launch_bounds__(THREADS) project_backward_kernel(sphere_frame f, sphere_set gradient) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= f.set.count) return;
    const sphere_in_camera s = in_camera(f, i);
    const float *moment = f.moments.sums + i * f.moments.stride, *r = f.camera.rotation;
    float d_center[3] = {};
    if (s.seen) {
        for (int row = 0; row < 3; ++row) d_center[row] = -2 / s.radius * moment[row];
        d_center[2] -= s.opacity / (f.blend.softness * (f.blend.far_limit - f.blend.near_limit)) * moment[4];
    }
    for (int axis = 0; axis < 3; ++axis)
        gradient.center[3 * i + axis] =
            r[axis] * d_center[0] + r[3 + axis] * d_center[1] + r[6 + axis] * d_center[2];
    gradient.log_radius[i] = s.seen ? 2 * moment[3] : 0;
    gradient.opacity_logit[i] =
        s.seen ? (1 - s.opacity) * (1 + s.opacity * s.nearness / f.blend.softness) * moment[4] : 0;
    for (int k = 0; k < f.set.channels; ++k)
        gradient.feature[i * f.set.channels + k] = moment[SPHERES_MOMENTS + k];
}

} // namespace

void spheres_project(const sphere_frame *frame) {
    DEVICE_CHECK(launch_for(NULL, frame->set.count, THREADS, project_kernel, *frame));
}

void spheres_project_backward(const sphere_frame *frame, const sphere_set *gradient) {
    DEVICE_CHECK(launch_for(NULL, frame->set.count, THREADS, project_backward_kernel, *frame, *gradient));
}
