// SPDX-License-Identifier: MIT
// How a picture is divided among threads, and how a sphere lies to a pixel's ray. A block has a tile of 16 x
// 16 pixels, each of its warps a patch of 8 x 4.
#ifndef SPHERES_PIXEL_CUH
#define SPHERES_PIXEL_CUH

#include "spheres.h"
#include <cuda_runtime.h>
#include <math.h>

constexpr int tile_threads = SPHERES_TILE * SPHERES_TILE;

struct pixel {
    int x, y;
    bool inside;   // the picture
    int64_t index; // y * width + x
};

inline dim3 tiles_of(const pinhole_camera &camera) {
    return dim3(unsigned((camera.width + SPHERES_TILE - 1) / SPHERES_TILE),
                unsigned((camera.height + SPHERES_TILE - 1) / SPHERES_TILE));
}

__device__ inline pixel pixel_of_thread(const pinhole_camera &camera) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int x = int(blockIdx.x) * SPHERES_TILE + warp % 2 * 8 + lane % 8;
    const int y = int(blockIdx.y) * SPHERES_TILE + warp / 2 * 4 + lane / 8;
    return {x, y, x < camera.width && y < camera.height, int64_t(y) * camera.width + x};
}

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
