// SPDX-License-Identifier: MIT
// What all kernels over Gaussians share besides the geometry.
#pragma once

#include "geometry/camera.cuh"
#include "geometry/covariance.cuh"
#include "geometry/sh.cuh"

namespace gs {

constexpr int project_block = 128;

// Of three scales or their logarithms.
__device__ inline int longest_axis(const float *scale) {
    return scale[0] >= scale[1] ? (scale[0] >= scale[2] ? 0 : 2) : (scale[1] >= scale[2] ? 1 : 2);
}

__device__ inline float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

} // namespace gs
