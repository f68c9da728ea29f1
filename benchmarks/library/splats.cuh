// SPDX-License-Identifier: MIT
// 20 values of a splat in six arrays, one key for each warp: the backward pass of a rasteriser of flat splats. A
// block is a tile of 16 x 16 pixels and walks one list.
#pragma once

#include "user_kernels.cuh"

namespace splats {

enum { WIDTH = 1280, HEIGHT = 800, TILE = 16, TILES_X = WIDTH / TILE, TILES = TILES_X * (HEIGHT / TILE) };
enum { VALUES = 20 };

struct scene {
    const float4 *splat; // x, y, 1 / radius^2, weight
    const int *first, *list;
};
template <typename T>
struct gradients {
    T *mean, *normal, *transform, *mean2d, *absolute, *opacity; // 3, 3, 9, 2, 2, 1
};

// Computes the values of one pixel at about the cost of a real kernel.
DISTWAR_DEVICE bool values_at(float4 splat, float x, float y, float (&v)[VALUES]) {
    const float dx = x - splat.x, dy = y - splat.y, r = (dx * dx + dy * dy) * splat.z;
    if (r >= 1) return false;
    const float alpha = splat.w * __expf(-2 * r), g = alpha * (1 - alpha), c = __fdividef(alpha, 1 + r);
#pragma unroll
    for (int k = 0; k < VALUES; ++k)
        v[k] = (k % 3 == 0 ? g : k % 3 == 1 ? c : alpha) * (k % 2 ? dx : dy) + 0.1f * float(k) * g;
    return true;
}

template <how H, typename T>
__global__ void __launch_bounds__(256) backward(scene given, gradients<T> to) {
    const int x = int(blockIdx.x) * TILE + int(threadIdx.x), y = int(blockIdx.y) * TILE + int(threadIdx.y);
    const int tile = int(blockIdx.y) * TILES_X + int(blockIdx.x);
    const int end = given.first[tile + 1];
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto lane = warp.thread_rank();
    for (int i = given.first[tile]; i < end; ++i) {
        const int g = given.list[i];
        float v[VALUES] = {};
        const bool active = values_at(given.splat[g], float(x) + 0.5f, float(y) + 0.5f, v);
        if constexpr (H == how::plain) {
            if (!warp.any(active)) continue;
            float sum[VALUES];
#pragma unroll
            for (int k = 0; k < VALUES; ++k) sum[k] = cg::reduce(warp, v[k], cg::plus<float>());
            if (lane == 0) {
#pragma unroll
                for (int k = 0; k < 3; ++k) atomicAdd(&to.mean[3 * g + k], sum[k]);
#pragma unroll
                for (int k = 0; k < 3; ++k) atomicAdd(&to.normal[3 * g + k], sum[3 + k]);
#pragma unroll
                for (int k = 0; k < 9; ++k) atomicAdd(&to.transform[9 * g + k], sum[6 + k]);
#pragma unroll
                for (int k = 0; k < 2; ++k) atomicAdd(&to.mean2d[2 * g + k], sum[15 + k]);
#pragma unroll
                for (int k = 0; k < 2; ++k) atomicAdd(&to.absolute[2 * g + k], sum[17 + k]);
                atomicAdd(&to.opacity[g], sum[19]);
            }
        } else {
            using sink_type = distwar::fields<T, 3, 3, 9, 2, 2, 1>;
            const sink_type sink = {{to.mean, 3},   {to.normal, 3},   {to.transform, 9},
                                    {to.mean2d, 2}, {to.absolute, 2}, {to.opacity, 1}};
            const distwar::uniform_key<int> key = {g};
            constexpr unsigned all = distwar::all_lanes;
            if constexpr (H == how::one_call) {
                distwar::reduce(all, active, key, v, sink);
            } else if constexpr (H == how::atomic || H == how::in_double) {
                distwar::reduce_atomic(all, active, g, v, sink);
            } else {
                const float a[3] = {v[0], v[1], v[2]}, b[3] = {v[3], v[4], v[5]}, d[2] = {v[15], v[16]},
                            e[2] = {v[17], v[18]};
                const float c[9] = {v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14]},
                            f[1] = {v[19]};
                using distwar::record;
                const auto groups = distwar::group_lanes(all, active, key);
                groups.add(a, record<float>{to.mean, 3});
                groups.add(b, record<float>{to.normal, 3});
                groups.add(c, record<float>{to.transform, 9});
                groups.add(d, record<float>{to.mean2d, 2});
                groups.add(e, record<float>{to.absolute, 2});
                groups.add(f, record<float>{to.opacity, 1});
            }
        }
    }
}

template <typename T>
gradients<T> parts(T *base, size_t n) {
    return {base, base + 3 * n, base + 6 * n, base + 15 * n, base + 17 * n, base + 19 * n};
}

inline scene make_scene(int splats, float radius) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> draw(0, 1);
    std::vector<float4> splat_of;
    std::vector<std::vector<int>> of_tile(TILES);
    for (int g = 0; g < splats; ++g) {
        const float x = draw(random) * WIDTH, y = draw(random) * HEIGHT;
        splat_of.push_back({x, y, 1 / (radius * radius), 0.5f * draw(random)});
        for (int ty = int(fmaxf(0, (y - radius) / TILE)); ty <= int(y + radius) / TILE && ty < HEIGHT / TILE;
             ++ty)
            for (int tx = int(fmaxf(0, (x - radius) / TILE)); tx <= int(x + radius) / TILE && tx < TILES_X;
                 ++tx)
                of_tile[ty * TILES_X + tx].push_back(g);
    }
    std::vector<int> first_of = {0}, list_of;
    for (const std::vector<int> &one : of_tile) {
        list_of.insert(list_of.end(), one.begin(), one.end());
        first_of.push_back(int(list_of.size()));
    }
    return {device_copy(splat_of), device_copy(first_of), device_copy(list_of)};
}

inline void add_case(const char *named, int splats, float radius) {
    auto &one = *new kernel_case<float>(std::string("splats/") + named, 1e-4);
    auto &given = *new scene;
    const auto run = [&given, splats](auto kernel, auto *to) {
        DEVICE_CHECK(launch(nullptr, dim3(TILES_X, HEIGHT / TILE), dim3(TILE, TILE), kernel, given,
                            parts(to, splats)));
    };
    one.make = [=, &one, &given] {
        given = make_scene(splats, radius);
        one.make_sums(size_t(VALUES) * splats);
        one.refer_to(one.count, [&](double *to) { run(backward<how::in_double, double>, to); });
    };
    const auto add = [&](const char *variant, void (*kernel)(scene, gradients<float>)) {
        add_variant(&one, variant, kernel, [=, &one] { run(kernel, one.sums); });
    };
    add("plain", backward<how::plain, float>);
    add("reduce_fields", backward<how::one_call, float>);
    add("group_lanes_six_adds", backward<how::group, float>);
    add("atomics_of_each_lane", backward<how::atomic, float>);
}
inline void add_all() {
    add_case("60k_radius_20", 60000, 20), add_case("600k_radius_3", 600000, 3);
}

} // namespace splats
