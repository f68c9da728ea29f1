// SPDX-License-Identifier: MIT
// How a sphere lies to a pixel's ray.
#ifndef SPHERES_PIXEL_CUH
#define SPHERES_PIXEL_CUH

#include "spheres.h"
#include "tile_pixel.cuh"
#include <math.h>

// A direction in the camera's space, of length 1.
__device__ inline float3 ray_of(const pinhole_camera &camera, int x, int y) {
    const float u = (float(x) + 0.5f - camera.center[0]) / camera.focal;
    const float v = (float(y) + 0.5f - camera.center[1]) / camera.focal;
    const float scale = 1 / sqrtf(fmaf(u, u, fmaf(v, v, 1)));
    return make_float3(__fmul_rn(u, scale), __fmul_rn(v, scale), scale);
}

// d = 1 - |offset|^2 / radius^2, offset: from the ray to the centre, at right angles to the ray. The ray
// meets the sphere if d > 0. Its arithmetic cannot be contracted differently, so it gives the same
// everywhere.
__device__ inline float closeness(const float3 &center, float inverse_square, const float3 &ray,
                                  float3 *offset) {
    const float along = fmaf(center.x, ray.x, fmaf(center.y, ray.y, __fmul_rn(center.z, ray.z)));
    const float3 o = make_float3(fmaf(-along, ray.x, center.x), fmaf(-along, ray.y, center.y),
                                 fmaf(-along, ray.z, center.z));
    *offset = o;
    return fmaf(-fmaf(o.x, o.x, fmaf(o.y, o.y, __fmul_rn(o.z, o.z))), inverse_square, 1);
}

#endif
