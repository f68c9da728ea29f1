// SPDX-License-Identifier: MIT
// Finds the triangle of each pixel and the direction that it mirrors. Homogeneous edge functions (Olano and
// Greer 1997) need no clipping at the camera's plane. Formulas: docs/developers/math-examples.md, "Cubemap".
#include "cubemap.h"
#include "device.h"
#include "launch.cuh"
#include "gpu/tile_pixel.cuh"
#include <distwar/warp.cuh>
#include <math.h>

namespace {

enum { CAPACITY = 512 }; // triangles of a round

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

} // namespace

void cubemap_raster(const cubemap_frame *frame) {
    DEVICE_CHECK(launch(NULL, tiles_of(frame->camera), tile_threads, raster_kernel, *frame));
}
