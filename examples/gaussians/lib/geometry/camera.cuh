// SPDX-License-Identifier: MIT
// The camera: where it sees a mean, the Jacobian J of that, and the direction of view. Each with its
// adjoint. docs/developers/math.md, sections 2 and 4. No other kernel file depends on the camera model: kernels take it as a template argument, and the
// points of all models (GS_CAMERA_LIST) have the functions of pinhole.cuh. The host's version: lenses.h.
#pragma once

#include "geometry/fisheye.cuh"
#include "geometry/ortho.cuh"
#include "geometry/pinhole.cuh"
#include <type_traits>

namespace gs {

// body(model) with the model as a compile-time constant. model: below GS_CAMERA_MODELS.
template <int last = GS_CAMERA_MODELS - 1, typename Body>
auto with_model(int32_t model, const Body &body) {
    if constexpr (last > 0)
        if (model != last) return with_model<last - 1>(model, body);
    return body(std::integral_constant<int, last>());
}

// kernel<model>, on the host.
#define GS_OF_MODEL(kernel, model) gs::with_model((model), [](auto of) { return kernel<of>; })

// ---- all models ----

// P = J R, which takes directions of the world to the image.
template <typename Point>
__device__ __forceinline__ void screen_map(const gs_camera &camera, const Point &p, float out[2][3]) {
    const float *r = camera.rotation;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            const float column[3] = {r[c], r[3 + c], r[6 + c]};
            out[k][c] = jacobian_times(camera, p, k, column);
        }
}

// ---- direction of view ----

// Minus the camera's centre: R^T t.
__host__ __device__ inline void negative_center(const gs_camera &camera, float out[3]) {
    for (int k = 0; k < 3; k++) out[k] = to_world(camera, camera.translation, k);
}

// From the camera's centre to a mean.
template <typename Denominator>
struct view_direction {
    float unit[3];
    Denominator distance;
};

template <typename Denominator>
__device__ __forceinline__ view_direction<Denominator> view_direction_of(const float negative_center[3],
                                                                         const float *mean) {
    view_direction<Denominator> v;
    for (int k = 0; k < 3; k++) v.unit[k] = mean[k] + negative_center[k];
    v.distance = Denominator::of(sqrtf(dot(v.unit, v.unit)));
    for (int k = 0; k < 3; k++) v.unit[k] = v.unit[k] / v.distance;
    return v;
}

// The derivative of the unit vector along a change of the mean. The matrix is symmetric, so this is its
// adjoint as well: from the gradient by the unit vector to the gradient by the mean.
template <typename Denominator>
__device__ __forceinline__ void view_direction_tangent(const view_direction<Denominator> &v,
                                                       const float mean_change[3], float out[3]) {
    const float along = dot(v.unit, mean_change);
    for (int k = 0; k < 3; k++) out[k] = (mean_change[k] - v.unit[k] * along) / v.distance;
}

} // namespace gs
