// SPDX-License-Identifier: MIT
// The pixel of each thread: each block has a tile of 16 x 16 pixels, each of its warps a patch of 8 x 4. And the camera's
// space.
#pragma once

#include "pinhole.h"
#include <cuda_runtime.h>
#include <stdint.h>

constexpr int tile_size = 16, tile_threads = tile_size * tile_size;

struct tile_pixel {
    int x, y;
    bool inside;   // the picture
    int64_t index; // y * width + x
};

inline dim3 tiles_of(const pinhole_camera &camera) {
    return dim3(unsigned((camera.width + tile_size - 1) / tile_size),
                unsigned((camera.height + tile_size - 1) / tile_size));
}

__device__ inline tile_pixel pixel_of_thread(const pinhole_camera &camera) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int x = int(blockIdx.x) * tile_size + warp % 2 * 8 + lane % 8;
    const int y = int(blockIdx.y) * tile_size + warp / 2 * 4 + lane / 8;
    return {x, y, x < camera.width && y < camera.height, int64_t(y) * camera.width + x};
}

// The point in camera space.
__device__ inline void into_camera(const pinhole_camera &camera, const float *point, float *out) {
    const float *r = camera.rotation;
    for (int row = 0; row < 3; ++row)
        out[row] =
            fmaf(r[3 * row], point[0],
                 fmaf(r[3 * row + 1], point[1], fmaf(r[3 * row + 2], point[2], camera.translation[row])));
}
