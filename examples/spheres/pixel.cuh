// SPDX-License-Identifier: MIT
// A pixel's ray and a sphere's distance from it.
#pragma once

#include "spheres.h"
#include "gpu/tile_pixel.cuh"
#include <math.h>

// The unit direction of the pixel's ray in camera space.
__device__ inline float3 ray_of(const pinhole_camera &camera, int x, int y) {
    const float u = (float(x) + 0.5f - camera.center[0]) / camera.focal;
    const float v = (float(y) + 0.5f - camera.center[1]) / camera.focal;
    const float scale = 1 / sqrtf(fmaf(u, u, fmaf(v, v, 1)));
    return make_float3(__fmul_rn(u, scale), __fmul_rn(v, scale), scale);
}

// d = 1 - |offset|^2 / radius^2. offset: from the ray to the centre, perpendicular to the ray. The ray meets
// the sphere if d > 0. The compiler cannot contract this arithmetic, so it gives the same bits in every
// kernel.
__device__ inline float closeness(const float3 &center, float inverse_square, const float3 &ray,
                                  float3 *offset) {
    const float along = fmaf(center.x, ray.x, fmaf(center.y, ray.y, __fmul_rn(center.z, ray.z)));
    const float3 o = make_float3(fmaf(-along, ray.x, center.x), fmaf(-along, ray.y, center.y),
                                 fmaf(-along, ray.z, center.z));
    *offset = o;
    return fmaf(-fmaf(o.x, o.x, fmaf(o.y, o.y, __fmul_rn(o.z, o.z))), inverse_square, 1);
}
