// SPDX-License-Identifier: MIT
// What all kernels over Gaussians share besides the geometry.
#pragma once

#include "geometry/camera.cuh"
#include "geometry/covariance.cuh"
#include "geometry/sh.cuh"

namespace gs {

constexpr int project_block = 128;

__device__ inline float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

} // namespace gs
