// SPDX-License-Identifier: MIT
// Finds the spheres of each pixel. A tile gathers the spheres that reach it into shared memory and sorts them
// by depth; each of its pixels takes the spheres that its ray meets, closest first. If they do not fit into
// shared memory the tile works in rounds, and a pixel's list keeps the closest spheres of all rounds.
#include "device.h"
#include "launch.cuh"
#include "pixel.cuh"
#include <distwar/block.cuh>

namespace {

enum { CAPACITY = 1024 }; // candidates of a round

// Depth in the high bits, index in the low: no two keys are equal. Depths are positive, so their bits sort as
// they do.
using order_key = unsigned long long;
using candidate_memory = distwar::sort_memory<order_key, float4, CAPACITY>; // center, inverse square

__device__ order_key key_of(float depth, int index) {
    return order_key(__float_as_uint(depth)) << 32 | unsigned(index);
}

// The four planes through the camera and the outermost pixel centres of a tile. Normals point inwards.
struct frustum {
    float left[2], right[2], top[2], bottom[2]; // components x or y, and z
};

__device__ void set_plane(float (&plane)[2], float slope, float sign) {
    const float scale = sign / sqrtf(1 + slope * slope);
    plane[0] = scale;
    plane[1] = -slope * scale;
}

__device__ frustum frustum_of_tile(const pinhole_camera &camera) {
    const int x = int(blockIdx.x) * tile_size, y = int(blockIdx.y) * tile_size;
    const int last_x = min(x + tile_size, camera.width) - 1;
    const int last_y = min(y + tile_size, camera.height) - 1;
    frustum out;
    set_plane(out.left, (float(x) + 0.5f - camera.center[0]) / camera.focal, 1);
    set_plane(out.right, (float(last_x) + 0.5f - camera.center[0]) / camera.focal, -1);
    set_plane(out.top, (float(y) + 0.5f - camera.center[1]) / camera.focal, 1);
    set_plane(out.bottom, (float(last_y) + 0.5f - camera.center[1]) / camera.focal, -1);
    return out;
}

// False only if the sphere lies behind a plane, so that no ray of the tile meets it. The margin exceeds
// rounding errors.
__device__ bool reaches(const sphere_view &s, const frustum &f) {
    const float x = s.center[0], y = s.center[1], z = s.center[2];
    const float least = -(s.radius * 1.0001f + 1e-5f * (fabsf(x) + fabsf(y) + z));
    return s.radius > 0 && f.left[0] * x + f.left[1] * z >= least &&
           f.right[0] * x + f.right[1] * z >= least && f.top[0] * y + f.top[1] * z >= least &&
           f.bottom[0] * y + f.bottom[1] * z >= least;
}

// A pixel's list, sorted.
struct best_list {
    order_key key[SPHERES_MAX_KEPT];
    int length;
};

// True if the list has room for the key, or a larger one.
__device__ bool is_wanted(const best_list &list, int kept, order_key key) {
    return list.length < kept || key < list.key[kept - 1];
}

// Inserts the key; drops the last one if the list is full.
__device__ void insert(best_list &list, int kept, order_key key) {
    int at = list.length < kept ? list.length++ : kept - 1;
    for (; at > 0 && list.key[at - 1] > key; --at) list.key[at] = list.key[at - 1];
    list.key[at] = key;
}

// Adds the spheres of first .. last - 1 that reach the tile, in any order. All threads call it; there is room
// for all these spheres.
__device__ void gather(const sphere_view *views, int first, int last, const frustum &tile,
                       candidate_memory &candidates, int &filled) {
    for (int i = first + int(threadIdx.x); i < last; i += tile_threads) {
        const sphere_view s = views[i];
        if (!reaches(s, tile)) continue;
        const int place = atomicAdd(&filled, 1);
        candidates.key[place] = key_of(s.center[2], i);
        candidates.value[place] = make_float4(s.center[0], s.center[1], s.center[2], s.inverse_square);
    }
}

__global__ void __launch_bounds__(tile_threads) candidates_kernel(sphere_frame f) {
    __shared__ candidate_memory candidates;
    __shared__ int filled;
    const tile_pixel p = pixel_of_thread(f.camera);
    const float3 ray = ray_of(f.camera, p.x, p.y);
    const frustum tile = frustum_of_tile(f.camera);
    const int count = int(f.set.count), kept = f.blend.kept;
    best_list list = {{}, 0};

    for (int first = 0; first < count;) {
        __syncthreads(); // the previous round has been read
        if (threadIdx.x == 0) filled = 0;
        __syncthreads();
        int n = 0;
        while (first < count && n + tile_threads <= CAPACITY) {
            const int last = min(first + CAPACITY - n, count);
            gather(f.views, first, last, tile, candidates, filled);
            first = last;
            __syncthreads();
            n = filled;
            __syncthreads();
        }
        distwar::bitonic_sort(candidates, n);
        for (int i = 0; i < n && p.inside && is_wanted(list, kept, candidates.key[i]); ++i) {
            const float4 c = candidates.value[i];
            float3 offset;
            if (closeness(make_float3(c.x, c.y, c.z), c.w, ray, &offset) > 0)
                insert(list, kept, candidates.key[i]);
        }
    }
    if (!p.inside) return;
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    for (int j = 0; j < list.length; ++j) f.list[j * plane + p.index] = int(unsigned(list.key[j]));
    f.list_length[p.index] = list.length;
}

} // namespace

void spheres_candidates(const sphere_frame *frame) {
    DEVICE_CHECK(launch(NULL, tiles_of(frame->camera), tile_threads, candidates_kernel, *frame));
}
