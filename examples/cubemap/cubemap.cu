// SPDX-License-Identifier: MIT
// The stages of the fit. Formulas: docs/developers/math.md, "Cubemap".
#include "device.h"
#include "launch.cuh"
#include "strategies/commit.cuh"
#include "texel.cuh"
#include "gpu/tile_pixel.cuh"

namespace {

enum {
    THREADS = 256, // of a block of values
    CAPACITY = 512 // triangles of a round
};

// ---- the corners of the triangles in camera space

__global__ void __launch_bounds__(THREADS) project_kernel(cubemap_frame f) {
    const int64_t k = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (k >= 3 * int64_t(f.surface.triangles)) return;
    into_camera(f.camera, f.surface.position + 3 * int64_t(f.surface.corner[k]), f.corner + 3 * k);
}

// ---- the triangle of each pixel and the direction that it mirrors. Homogeneous edge functions (Olano and Greer 1997)
// need no clipping at the camera's plane.

constexpr float near_limit = 1e-3f; // along the viewing axis; closer points are not drawn

__device__ float3 load3(const float *from) {
    return make_float3(from[0], from[1], from[2]);
}

__device__ float dot(const float3 &a, const float3 &b) {
    return fmaf(a.x, b.x, fmaf(a.y, b.y, a.z * b.z));
}

// The compiler cannot contract this arithmetic, so cross(b, a) is exactly -cross(a, b). So no pixel falls
// between two triangles that share an edge.
__device__ float3 cross(const float3 &a, const float3 &b) {
    return make_float3(__fsub_rn(__fmul_rn(a.y, b.z), __fmul_rn(a.z, b.y)),
                       __fsub_rn(__fmul_rn(a.z, b.x), __fmul_rn(a.x, b.z)),
                       __fsub_rn(__fmul_rn(a.x, b.y), __fmul_rn(a.y, b.x)));
}

__device__ float side(const float3 &edge, const float3 &ray) {
    return __fadd_rn(__fadd_rn(__fmul_rn(edge.x, ray.x), __fmul_rn(edge.y, ray.y)), edge.z);
}

// (u, v, 1) of a point in the picture, in pixels.
__device__ float3 ray_of(const pinhole_camera &camera, float x, float y) {
    return make_float3((x - camera.center[0]) / camera.focal, (y - camera.center[1]) / camera.focal, 1);
}

// A triangle in camera space. A ray d meets its plane at the depth volume / (sum of side(edge[k], d)),
// at the barycentric coordinates side(edge[k], d) / sum.
struct cone {
    float3 edge[3];
    float volume;
    float nearest, farthest; // depths of its corners
};

__device__ cone cone_of(const float *corner, int triangle) {
    const float *from = corner + 9 * int64_t(triangle);
    const float3 a = load3(from), b = load3(from + 3), c = load3(from + 6);
    cone out = {
        {cross(b, c), cross(c, a), cross(a, b)}, 0, fminf(a.z, fminf(b.z, c.z)), fmaxf(a.z, fmaxf(b.z, c.z))};
    out.volume = dot(a, out.edge[0]);
    return out;
}

// The depth at which the ray meets the triangle; 0 if it does not. A ray through an edge meets both of the
// triangles that share it.
__device__ float depth_at(const cone &c, const float3 &ray) {
    const float a = side(c.edge[0], ray), b = side(c.edge[1], ray), g = side(c.edge[2], ray);
    const float sum = a + b + g;
    if (!((a >= 0 && b >= 0 && g >= 0) || (a <= 0 && b <= 0 && g <= 0)) || sum == 0) return 0;
    // If the triangle is seen edge-on, the quotient is only rounding error; the clamp keeps it between the
    // corners.
    const float depth = fminf(fmaxf(c.volume / sum, c.nearest), c.farthest);
    return depth > near_limit ? depth : 0;
}

// False only if all corners of the triangle are behind one plane of the tile's frustum, so that no ray of the
// tile meets the triangle. first, last: the rays of two opposite corners of the tile.
__device__ bool reaches(const float *corner, int triangle, const float3 &first, const float3 &last) {
    const float *at = corner + 9 * int64_t(triangle);
    bool left = true, right = true, above = true, below = true;
    for (int k = 0; k < 3; ++k, at += 3) {
        const float x = at[0], y = at[1], z = at[2];
        const float margin = 1e-5f * (fabsf(x) + fabsf(y) + fabsf(z)); // exceeds rounding errors
        left = left && x - first.x * z < -margin;
        right = right && x - last.x * z > margin;
        above = above && y - first.y * z < -margin;
        below = below && y - last.y * z > margin;
    }
    return !(left || right || above || below);
}

// The mirrored ray in world space, of the ray's length. The normal is interpolated over the triangle and may
// point either way. NaN if the normals cancel out.
__device__ float3 mirrored(const cubemap_frame &f, int triangle, const cone &c, const float3 &ray) {
    float3 n = make_float3(0, 0, 0);
    for (int k = 0; k < 3; ++k) {
        const float3 at = load3(f.surface.normal + 3 * int64_t(f.surface.corner[3 * int64_t(triangle) + k]));
        const float w = side(c.edge[k], ray) / sqrtf(dot(at, at));
        n = make_float3(fmaf(w, at.x, n.x), fmaf(w, at.y, n.y), fmaf(w, at.z, n.z));
    }
    const float *r = f.camera.rotation;
    const float3 d = make_float3(r[0] * ray.x + r[3] * ray.y + r[6], r[1] * ray.x + r[4] * ray.y + r[7],
                                 r[2] * ray.x + r[5] * ray.y + r[8]);
    const float twice = -2 * dot(d, n) / dot(n, n);
    return make_float3(fmaf(twice, n.x, d.x), fmaf(twice, n.y, d.y), fmaf(twice, n.z, d.z));
}

__device__ float3 unit(const float3 &v) {
    const float scale = 1 / sqrtf(dot(v, v));
    return make_float3(v.x * scale, v.y * scale, v.z * scale);
}

__device__ float distance(const float3 &a, const float3 &b) {
    const float3 d = make_float3(a.x - b.x, a.y - b.y, a.z - b.z);
    return sqrtf(dot(d, d));
}

__global__ void __launch_bounds__(tile_threads) raster_kernel(cubemap_frame f) {
    __shared__ int candidate[CAPACITY];
    __shared__ int filled;
    const tile_pixel p = pixel_of_thread(f.camera);
    const int left = int(blockIdx.x) * tile_size, top = int(blockIdx.y) * tile_size;
    const float3 first_ray = ray_of(f.camera, float(left), float(top)),
                 last_ray = ray_of(f.camera, float(left + tile_size), float(top + tile_size));
    const float3 ray = ray_of(f.camera, float(p.x) + 0.5f, float(p.y) + 0.5f);
    int closest = -1;
    float depth = INFINITY;

    for (int first = 0; first < f.surface.triangles; first += CAPACITY) {
        __syncthreads(); // the previous round has been read
        if (threadIdx.x == 0) filled = 0;
        __syncthreads();
        const int last = min(first + CAPACITY, f.surface.triangles);
        for (int i = first + int(threadIdx.x); i < last; i += tile_threads)
            if (reaches(f.corner, i, first_ray, last_ray)) candidate[atomicAdd(&filled, 1)] = i;
        __syncthreads();
        const int n = filled;
        for (int k = 0; k < n; ++k) {
            // The order does not matter for the closest.
            const int i = candidate[k];
            const float at = depth_at(cone_of(f.corner, i), ray);
            if (at > 0 && (at < depth || (at == depth && i < closest))) depth = at, closest = i;
        }
    }
    if (!p.inside) return;
    float *sample = f.sample + 4 * p.index;
    sample[0] = sample[1] = 0, sample[2] = 1, sample[3] = -1;
    if (closest < 0) return;
    // The distance between the directions of neighbouring pixels selects the level with texels of this size.
    // At the middle of a face, texels of level 0 are 2 / size apart.
    const cone c = cone_of(f.corner, closest);
    const float3 here = unit(mirrored(f, closest, c, ray));
    if (!(dot(here, here) > 0)) return;
    const float pixel = 1 / f.camera.focal;
    const float3 across = unit(mirrored(f, closest, c, make_float3(ray.x + pixel, ray.y, 1))),
                 down = unit(mirrored(f, closest, c, make_float3(ray.x, ray.y + pixel, 1)));
    const float apart = fmaxf(distance(across, here), distance(down, here)) * 0.5f * float(f.size);
    const float detail = fminf(fmaxf(log2f(apart), 0.0f), float(f.levels - 1));
    sample[0] = here.x, sample[1] = here.y, sample[2] = here.z, sample[3] = detail;
}

// ---- the levels of detail, and the adjoint

// One thread for each value of the level.
__global__ void __launch_bounds__(THREADS) reduce_level_kernel(float *texel, int size, int level) {
    const int s = size >> level;
    const int64_t k = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (k >= int64_t(18) * s * s) return;
    const int channel = int(k % 3), at = int(k / 3), i = at % s, j = at / s % s, face = at / (s * s);
    const float *finer = texel + 3 * int64_t(cubemap_level_begin(size, level - 1));
    float sum = 0;
    for (int n = 0; n < 4; ++n)
        sum += finer[3 * ((int64_t(face) * 2 * s + 2 * j + n / 2) * 2 * s + 2 * i + n % 2) + channel];
    texel[3 * (int64_t(cubemap_level_begin(size, level)) + at) + channel] = 0.25f * sum;
}

// One thread for each texel of level 0, which is a 4^-l part of the texel of level l that contains it.
__global__ void __launch_bounds__(THREADS) gather_levels_kernel(cubemap_frame f, float *gradient) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= int64_t(6) * f.size * f.size) return;
    const int i = int(at % f.size), j = int(at / f.size % f.size), face = int(at / f.size / f.size);
    float sum[3] = {}, share = 1;
    for (int level = 0; level < f.levels; ++level, share *= 0.25f) {
        const int s = f.size >> level;
        const int64_t texel =
            cubemap_level_begin(f.size, level) + (int64_t(face) * s + (j >> level)) * s + (i >> level);
        const float *from = f.sums.sums + texel * f.sums.stride;
        for (int channel = 0; channel < 3; ++channel) sum[channel] = fmaf(share, from[channel], sum[channel]);
    }
    for (int channel = 0; channel < 3; ++channel) gradient[3 * at + channel] = sum[channel];
}

// ---- the lookup of the texels that pixels mirror, forward and adjoint

struct sample {
    float3 direction;
    float detail; // < 0: there is no mesh at the pixel
};

__device__ sample sample_of(const cubemap_frame &f, const tile_pixel &p) {
    const float *at = f.sample + 4 * p.index;
    return {make_float3(at[0], at[1], at[2]), at[3]};
}

__global__ void __launch_bounds__(tile_threads) render_kernel(cubemap_frame f) {
    const tile_pixel p = pixel_of_thread(f.camera);
    if (!p.inside) return;
    const sample s = sample_of(f, p);
    float color[3] = {f.background, f.background, f.background};
    if (s.detail >= 0) {
        color[0] = color[1] = color[2] = 0;
        const level_pair pair = levels_of(s.detail, f.levels);
        DISTWAR_UNROLL
        for (int n = 0; n < 2; ++n) {
            const footprint at = footprint_of(s.direction, f.size >> pair.level[n]);
            const float *level = f.texel + 3 * int64_t(cubemap_level_begin(f.size, pair.level[n]));
            DISTWAR_UNROLL
            for (int k = 0; k < TEXELS; ++k)
                for (int channel = 0; channel < 3; ++channel)
                    color[channel] = fmaf(pair.weight[n] * at.weight[k],
                                          level[3 * int64_t(at.texel[k]) + channel], color[channel]);
        }
    }
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    for (int channel = 0; channel < 3; ++channel) f.color[channel * plane + p.index] = color[channel];
}

// The adjoint, one body for every commit. All lanes of a warp stay to the end; lanes without a mesh at their
// pixel are inactive.
template <typename Commit>
__global__ void __launch_bounds__(tile_threads) render_backward_kernel(cubemap_frame f, Commit commit) {
    const tile_pixel p = pixel_of_thread(f.camera);
    sample s = {make_float3(0, 0, 1), -1};
    float gradient[3] = {};
    if (p.inside) {
        const int64_t plane = int64_t(f.camera.width) * f.camera.height;
        s = sample_of(f, p);
        for (int channel = 0; channel < 3; ++channel)
            gradient[channel] = f.color_gradient[channel * plane + p.index];
    }
    const level_pair pair = levels_of(fmaxf(s.detail, 0.0f), f.levels);
    DISTWAR_UNROLL
    for (int n = 0; n < 2; ++n) {
        const footprint at = footprint_of(s.direction, f.size >> pair.level[n]);
        const int begin = cubemap_level_begin(f.size, pair.level[n]);
        DISTWAR_UNROLL
        for (int k = 0; k < TEXELS; ++k) {
            const float weight = pair.weight[n] * at.weight[k];
            const float value[3] = {weight * gradient[0], weight * gradient[1], weight * gradient[2]};
            commit(s.detail >= 0 && weight != 0, begin + at.texel[k], value);
        }
    }
}

} // namespace

void cubemap_raster(const cubemap_frame *frame) {
    DEVICE_CHECK(launch_for(NULL, 3 * int64_t(frame->surface.triangles), THREADS, project_kernel, *frame));
    DEVICE_CHECK(launch(NULL, tiles_of(frame->camera), tile_threads, raster_kernel, *frame));
}

void cubemap_gather_levels(const cubemap_frame *frame, float *gradient) {
    DEVICE_CHECK(launch_for(NULL, int64_t(6) * frame->size * frame->size, THREADS, gather_levels_kernel,
                            *frame, gradient));
}

void cubemap_render(const cubemap_frame *frame) {
    for (int level = 1; level < frame->levels; ++level) {
        const int64_t s = frame->size >> level;
        DEVICE_CHECK(
            launch_for(NULL, 18 * s * s, THREADS, reduce_level_kernel, frame->texel, frame->size, level));
    }
    DEVICE_CHECK(launch(NULL, tiles_of(frame->camera), tile_threads, render_kernel, *frame));
}

void cubemap_render_backward(const cubemap_frame *frame, distwar_policy policy, lane_histogram *lanes) {
    // A gradient of l1_loss is 1 / (3 pixels); 2^24 units each leave room for sums 2^15 times as large.
    const double values = 3.0 * frame->camera.width * frame->camera.height;
    const float unit = float(exp2(ceil(log2(values)) + 24)), scale[3] = {unit, unit, unit};
    DEVICE_CHECK(sum_values(policy, scale, frame->sums, lanes, NULL, [&](const auto &commit) {
        return launch(NULL, tiles_of(frame->camera), tile_threads,
                      render_backward_kernel<std::decay_t<decltype(commit)>>, *frame, commit);
    }));
}
