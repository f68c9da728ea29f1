// SPDX-License-Identifier: MIT
// The stages of the renderer. Formulas: docs/developers/math.md, "Spheres".
#include "spheres.h"
#include "device.h"
#include "gpu/tile_pixel.cuh"
#include "launch.cuh"
#include "strategies/commit.cuh"
#include <distwar/block.cuh>
#include <math.h>
#include <type_traits>

namespace {

enum {
    THREADS = 256,  // of a block of spheres
    CAPACITY = 1024 // candidates of a round
};

// ---- spheres into a camera, and the adjoint

struct sphere_in_camera {
    float center[3], radius, opacity;
    float nearness; // s: 1 at the near limit, 0 at the far one
    bool seen;
};

__device__ sphere_in_camera in_camera(const sphere_frame &f, int64_t i) {
    sphere_in_camera out;
    into_camera(f.camera, f.set.center + 3 * i, out.center);
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

// ---- a pixel's ray and a sphere's distance from it

// The unit direction of the pixel's ray in camera space.
__device__ float3 ray_of(const pinhole_camera &camera, int x, int y) {
    const float u = (float(x) + 0.5f - camera.center[0]) / camera.focal;
    const float v = (float(y) + 0.5f - camera.center[1]) / camera.focal;
    const float scale = 1 / sqrtf(fmaf(u, u, fmaf(v, v, 1)));
    return make_float3(__fmul_rn(u, scale), __fmul_rn(v, scale), scale);
}

// d = 1 - |offset|^2 / radius^2. offset: from the ray to the centre, perpendicular to the ray. The ray meets
// the sphere if d > 0. The compiler cannot contract this arithmetic, so it gives the same bits in every
// kernel.
__device__ float closeness(const float3 &center, float inverse_square, const float3 &ray, float3 *offset) {
    const float along = fmaf(center.x, ray.x, fmaf(center.y, ray.y, __fmul_rn(center.z, ray.z)));
    const float3 o = make_float3(fmaf(-along, ray.x, center.x), fmaf(-along, ray.y, center.y),
                                 fmaf(-along, ray.z, center.z));
    *offset = o;
    return fmaf(-fmaf(o.x, o.x, fmaf(o.y, o.y, __fmul_rn(o.z, o.z))), inverse_square, 1);
}

// ---- candidates: the spheres of each pixel

// A tile gathers the spheres that reach it into shared memory and sorts them by depth; each of its pixels takes the
// spheres that its ray meets, closest first. If they do not fit into shared memory the tile works in rounds, and a
// pixel's list keeps the closest spheres of all rounds.

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

// ---- the blend, forward and adjoint

// Calls body(std::integral_constant<int, K>{}) with the K of the set.
template <typename Body>
void with_channels(const sphere_set &set, Body &&body) {
    if (set.channels == 3) return body(std::integral_constant<int, 3>{});
    if (set.channels == 8) return body(std::integral_constant<int, 8>{});
    if (set.channels == 16) return body(std::integral_constant<int, 16>{});
    body(std::integral_constant<int, 32>{});
}

// A sphere of a pixel's list.
struct sample {
    int index;
    float amplitude, radius;
    float closeness; // d; its weight is amplitude * d
    float3 offset;
};

__device__ sample sample_of(const sphere_frame &f, const tile_pixel &p, const float3 &ray, int j) {
    const int index = f.list[j * (int64_t(f.camera.width) * f.camera.height) + p.index];
    const sphere_view s = f.views[index];
    sample out = {index, s.amplitude, s.radius, 0, {}};
    out.closeness =
        closeness(make_float3(s.center[0], s.center[1], s.center[2]), s.inverse_square, ray, &out.offset);
    return out;
}

template <int K>
__global__ void __launch_bounds__(tile_threads) render_kernel(sphere_frame f) {
    const tile_pixel p = pixel_of_thread(f.camera);
    if (!p.inside) return;
    const float3 ray = ray_of(f.camera, p.x, p.y);
    float total = f.blend.background_weight, sum[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = total * f.blend.background;
    const int length = f.list_length[p.index];
    for (int j = 0; j < length; ++j) {
        const sample s = sample_of(f, p, ray, j);
        const float weight = s.amplitude * s.closeness;
        const float *feature = f.set.feature + int64_t(s.index) * K;
        total += weight;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = fmaf(weight, feature[k], sum[k]);
    }
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) f.color[k * plane + p.index] = sum[k] / total;
    f.total[p.index] = total;
}

// The adjoint, one body for every commit. All lanes of a warp stay in the loop until the longest of their
// lists ends. A lane whose list has ended, or whose pixel is outside the picture, is inactive.
template <int K, typename Commit>
__global__ void __launch_bounds__(tile_threads) render_backward_kernel(sphere_frame f, Commit commit) {
    const tile_pixel p = pixel_of_thread(f.camera);
    const float3 ray = ray_of(f.camera, p.x, p.y);
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    const int length = p.inside ? f.list_length[p.index] : 0;
    float gradient[K], along_color = 0, inverse_total = 0; // along_color: colour . gradient
    if (length > 0) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            gradient[k] = f.color_gradient[k * plane + p.index];
            along_color = fmaf(f.color[k * plane + p.index], gradient[k], along_color);
        }
        inverse_total = 1 / f.total[p.index];
    }
    const int longest = int(distwar::detail::largest(distwar::all_lanes, unsigned(length)));
    for (int j = 0; j < longest; ++j) {
        const bool active = j < length;
        int key = 0;
        float value[SPHERES_MOMENTS + K] = {};
        if (active) {
            const sample s = sample_of(f, p, ray, j);
            const float *feature = f.set.feature + int64_t(s.index) * K;
            const float share = s.amplitude * inverse_total, part = share * s.closeness;
            float along = -along_color;
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                along = fmaf(feature[k], gradient[k], along);
                value[SPHERES_MOMENTS + k] = part * gradient[k];
            }
            const float d_closeness = share * along, d_offset = d_closeness / s.radius;
            key = s.index;
            value[0] = d_offset * s.offset.x;
            value[1] = d_offset * s.offset.y;
            value[2] = d_offset * s.offset.z;
            value[3] = d_closeness * (1 - s.closeness);
            value[4] = d_closeness * s.closeness;
        }
        commit(active, key, value);
    }
}

} // namespace

void spheres_project_backward(const sphere_frame *frame, const sphere_set *gradient) {
    DEVICE_CHECK(launch_for(NULL, frame->set.count, THREADS, project_backward_kernel, *frame, *gradient));
}

void spheres_draw(const sphere_frame *frame) {
    const dim3 tiles = tiles_of(frame->camera);
    DEVICE_CHECK(launch_for(NULL, frame->set.count, THREADS, project_kernel, *frame));
    DEVICE_CHECK(launch(NULL, tiles, tile_threads, candidates_kernel, *frame));
    with_channels(frame->set, [&](auto chosen) {
        DEVICE_CHECK(launch(NULL, tiles, tile_threads, render_kernel<decltype(chosen)::value>, *frame));
    });
}

void spheres_render_backward(const sphere_frame *frame, distwar_policy policy, lane_histogram *lanes) {
    with_channels(frame->set, [&](auto chosen) {
        constexpr int K = decltype(chosen)::value;
        // A gradient of l1_loss is 1 / (K pixels); 2^24 units each leave room for sums 2^15 times as large.
        const double pixels = double(frame->camera.width) * frame->camera.height;
        const float unit = float(exp2(ceil(log2(pixels)) + 24)),
                    feature_unit = float(exp2(ceil(log2(K)))) * unit;
        float scale[SPHERES_MOMENTS + K];
        for (int k = 0; k < SPHERES_MOMENTS + K; ++k) scale[k] = k < SPHERES_MOMENTS ? unit : feature_unit;
        DEVICE_CHECK(sum_values(policy, scale, frame->moments, lanes, NULL, [&](const auto &commit) {
            return launch(NULL, tiles_of(frame->camera), tile_threads,
                          render_backward_kernel<K, std::decay_t<decltype(commit)>>, *frame, commit);
        }));
    });
}

// ---- memory

template <typename T>
static void allocate(T **array, size_t count) {
    *array = static_cast<T *>(device_allocate(count * sizeof(T)));
}

sphere_set sphere_set_over(float *block, int64_t count, int channels) {
    return {count, channels, block, block + 3 * count, block + 4 * count, block + 5 * count};
}

sphere_frame sphere_frame_open(const sphere_set *host, const pinhole_camera *camera,
                               const sphere_blend *blend) {
    const size_t pixels = size_t(camera->width) * size_t(camera->height);
    const size_t values = pixels * size_t(host->channels);
    const size_t parameters = size_t(host->count) * size_t(5 + host->channels);
    float *block;
    allocate(&block, parameters);
    device_upload(block, host->center, parameters * sizeof *block);
    sphere_frame out = {};
    out.set = sphere_set_over(block, host->count, host->channels), out.camera = *camera, out.blend = *blend;
    allocate(&out.views, size_t(host->count));
    allocate(&out.list, pixels * size_t(blend->kept));
    allocate(&out.list_length, pixels);
    allocate(&out.color, values);
    allocate(&out.total, pixels);
    allocate(&out.color_gradient, values);
    out.moments = sum_memory_open(host->count, SPHERES_MOMENTS + host->channels);
    return out;
}

void sphere_frame_close(sphere_frame *frame) {
    void *const arrays[] = {frame->set.center, frame->views, frame->list,          frame->list_length,
                            frame->color,      frame->total, frame->color_gradient};
    for (void *array : arrays) device_free(array);
    sum_memory_close(&frame->moments);
    *frame = {};
}
