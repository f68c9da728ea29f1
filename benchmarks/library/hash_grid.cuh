// SPDX-License-Identifier: MIT
// Half2 into the tables of a hash grid: 8 corners of a cell for each sample and level, another key in each lane.
// As in the original, a thread has one pair of features: F / 2 neighbouring threads have one sample.
#pragma once

#include "user_kernels.cuh"

namespace hash_grid {

enum { SAMPLES = 1 << 18, TABLE = 1 << 19 };

struct grid {
    const float3 *at;
    const __half2 *gradient; // [level][sample][F / 2]
    int levels;
};

DISTWAR_DEVICE unsigned entry_of(uint3 cell, unsigned resolution) {
    const unsigned long long dense = (unsigned long long)(resolution)*resolution * resolution;
    if (dense <= TABLE) return cell.x + resolution * (cell.y + resolution * cell.z);
    return (cell.x ^ cell.y * 2654435761u ^ cell.z * 805459861u) % TABLE;
}

// Whole: all features of a sample in one thread, and their records, to which vector atomics add.
template <how H, int F, typename T, bool Whole = false>
__global__ void __launch_bounds__(512) backward(grid given, T *tables) {
    constexpr int pairs = F / 2, of_thread = Whole ? pairs : 1;
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x); // the launch is of whole blocks
    const int sample = i * of_thread / pairs, pair = i * of_thread % pairs, level = int(blockIdx.y);
    const unsigned resolution = unsigned(16 * exp2f(float(level) * 7.0f / float(given.levels))) + 1;
    T *const table = tables + size_t(level) * TABLE * (H == how::in_double ? F : pairs);
    const float3 at = given.at[sample];
    const float scale = float(resolution - 1);
    const float x = at.x * scale, y = at.y * scale, z = at.z * scale;
    const uint3 cell = {unsigned(x), unsigned(y), unsigned(z)};
    const float wx = x - float(cell.x), wy = y - float(cell.y), wz = z - float(cell.z);
    __half2 gradient[of_thread];
#pragma unroll
    for (int k = 0; k < of_thread; ++k)
        gradient[k] = given.gradient[(size_t(level) * SAMPLES + sample) * pairs + pair + k];
    const auto weight = [&](int c) {
        return (c & 1 ? wx : 1 - wx) * (c & 2 ? wy : 1 - wy) * (c & 4 ? wz : 1 - wz);
    };
    const auto entry = [&](int c) {
        return entry_of({cell.x + (c & 1), cell.y + (c >> 1 & 1), cell.z + (c >> 2)}, resolution);
    };
    const auto pair_of = [&](int c) { return __hmul2(__float2half2_rn(weight(c)), gradient[0]); };
    constexpr unsigned all = distwar::all_lanes;
    if constexpr (H == how::looped) {
#pragma unroll 1
        for (int c = 0; c < 8; ++c)
            distwar::reduce(all, true, entry(c) * pairs + unsigned(pair), pair_of(c),
                            distwar::record<T>{table, 1});
    } else if constexpr (H == how::group) {
        const unsigned key = (cell.x + resolution * (cell.y + resolution * cell.z)) * pairs + unsigned(pair);
        const auto cells = distwar::group_lanes(all, true, key);
        const distwar::record<T> sink = {table, 1};
#pragma unroll 1
        for (int c = 0; c < 8; ++c)
            cells.add(distwar::values(pair_of(c)), sink, distwar::at_key{entry(c) * pairs + unsigned(pair)});
    } else {
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const unsigned key = entry(c) * pairs + unsigned(pair);
            if constexpr (Whole) {
                __half2 v[of_thread];
#pragma unroll
                for (int k = 0; k < of_thread; ++k) v[k] = __hmul2(__float2half2_rn(weight(c)), gradient[k]);
                const distwar::aligned_record<T> sink = {table, pairs};
                call<H == how::plain ? how::atomic : H>(all, true, entry(c), v, sink);
            } else {
                const __half2 value = pair_of(c);
                const __half2 v[1] = {value};
                if constexpr (H == how::plain) {
                    distwar::atomic_add(table + key, value); // red.f16x2, as the original has it
                } else if constexpr (H == how::in_double) {
                    atomicAdd(table + 2 * size_t(key), double(__low2float(value)));
                    atomicAdd(table + 2 * size_t(key) + 1, double(__high2float(value)));
                } else {
                    call<H>(all, true, key, v, distwar::record<T>{table, 1});
                }
            }
        }
    }
}

// The samples lie on rays, 512 on each, in their order, or anywhere.
inline grid make_grid(bool rays, int levels) {
    std::mt19937 random(2);
    std::uniform_real_distribution<float> draw(0, 1), draw_signed(-1, 1);
    std::vector<float3> samples;
    while (samples.size() < SAMPLES) {
        const float3 from = {draw(random), draw(random), draw(random)},
                     to = {draw(random), draw(random), draw(random)};
        for (int i = 0; i < (rays ? 512 : 1); ++i) {
            const float t = float(i) / 512;
            samples.push_back({0.999f * (from.x + t * (to.x - from.x)),
                               0.999f * (from.y + t * (to.y - from.y)),
                               0.999f * (from.z + t * (to.z - from.z))});
        }
    }
    random.seed(3);
    std::vector<__half2> gradients;
    for (size_t i = 0; i < size_t(SAMPLES) * 16; ++i)
        gradients.push_back(__floats2half2_rn(draw_signed(random) / 64, draw_signed(random) / 64));
    return {device_copy(samples), device_copy(gradients), levels};
}

template <int F>
void add_for(bool rays) {
    constexpr int levels = 32 / F;
    auto &one =
        *new kernel_case<__half2>("hash_grid/F" + std::to_string(F) + (rays ? "_rays" : "_random"), 2e-2);
    auto &given = *new grid;
    const auto run = [&given](auto kernel, auto *to, int pairs_of_thread) {
        DEVICE_CHECK(
            launch(nullptr, dim3(SAMPLES * (F / 2) / pairs_of_thread / 512, levels), 512, kernel, given, to));
    };
    one.make = [&one, &given, run, rays] {
        given = make_grid(rays, levels);
        one.make_sums(size_t(levels) * TABLE * F / 2);
        one.refer_to(2 * one.count, [&](double *to) { run(backward<how::in_double, F, double>, to, 1); });
    };
    const auto add = [&](const char *variant, void (*kernel)(grid, __half2 *), int pairs_of_thread = 1) {
        add_variant(&one, variant, kernel, [=, &one] { run(kernel, one.sums, pairs_of_thread); });
    };
    add("plain", backward<how::plain, F, __half2>);
    add("reduce", backward<how::one_call, F, __half2>);
    add("reduce_loop", backward<how::looped, F, __half2>);
    add("reduce_tree", backward<how::tree, F, __half2>);
    add("group_lanes_by_cell", backward<how::group, F, __half2>);
    if (F > 2) {
        add("other_layout_reduce", backward<how::one_call, F, __half2, true>, F / 2);
        add("other_layout_vector_atomics", backward<how::plain, F, __half2, true>, F / 2);
    }
}

inline void add_all() {
    for (const bool rays : {true, false}) add_for<2>(rays), add_for<4>(rays), add_for<8>(rays);
}

} // namespace hash_grid
