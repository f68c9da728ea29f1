// SPDX-License-Identifier: MIT
// The cells `pairs`: 16-bit values in pairs. A record has K pairs, 2 K values. All lanes are active; lane l has
// key l % keys.
#ifndef BENCHMARKS_PAIRS_CUH
#define BENCHMARKS_PAIRS_CUH

#include "cells.cuh"
#include <distwar/packed.cuh>

namespace pairs {

// method        values  what it does
// ------------  ------  ------------------------------------------------------------------
// atomics       pairs   atomicAdd of each pair, by each lane
// vectors       pairs   reduce_atomic to aligned_pairs: one atomic for 4 pairs, by each lane
// serial        pairs   reduce_serial to record
// tree          pairs   reduce_tree to record
// tree_planes   pairs   reduce_tree to planes
// tree_aligned  pairs   reduce_tree to aligned_pairs
// floats        floats  reduce_tree to record_of_pairs: sums in float, rounds once
// singly        floats  the same to a record of single 16-bit values
enum method { atomics, vectors, serial, tree, tree_planes, tree_aligned, floats, singly, methods };
inline constexpr const char *method_name[methods] = {"atomics",     "vectors",      "serial", "tree",
                                                     "tree_planes", "tree_aligned", "floats", "singly"};
template <method M>
inline constexpr bool is_float = M == floats || M == singly;
inline constexpr int keys[] = {1, 8};
inline constexpr int targets[] = {1024, 1 << 20};

// Value k of a lane: 1 or -1 in the lower lanes, else 0. The sums are exact in bfloat16.
__host__ __device__ inline float value_of(uint32_t thread, int k) {
    const bool is_lower = thread % 32 < 1 + (7 * uint32_t(k) + thread / 32) % 13;
    return is_lower ? float(1 - 2 * (k % 2)) : 0;
}

template <typename Pair>
inline constexpr const char *name_of = "half2";
template <>
inline constexpr const char *name_of<__nv_bfloat162> = "bfloat162";
__host__ __device__ inline void round_to(__half2 &pair, float first, float second) {
    pair = __floats2half2_rn(first, second);
}
__host__ __device__ inline void round_to(__nv_bfloat162 &pair, float first, float second) {
    pair = __floats2bfloat162_rn(first, second);
}
// Keeps the compiler from summing before the loop.
__device__ __forceinline__ void hide(float &value) {
    asm volatile("" : "+f"(value));
}
template <typename Pair>
__device__ __forceinline__ void hide(Pair &pair) {
    float bits = distwar::detail::moved<Pair>::form(pair);
    hide(bits);
    pair = distwar::detail::moved<Pair>::value(bits);
}

template <method M, typename Pair, typename T, int Count>
__device__ __forceinline__ void add(int key, uint32_t targets, const T (&val)[Count], Pair *table) {
    constexpr int K = is_float<M> ? Count / 2 : Count;
    const unsigned lanes = distwar::all_lanes;
    if constexpr (M == atomics) {
#pragma unroll
        for (int k = 0; k < K; ++k) atomicAdd(table + size_t(key) * K + k, val[k]);
    } else if constexpr (M == vectors) {
        distwar::reduce_atomic(lanes, true, key, val, distwar::aligned_pairs<Pair>{table, K});
    } else if constexpr (M == serial) {
        distwar::reduce_serial(lanes, true, key, val, distwar::record<Pair>{table, K});
    } else if constexpr (M == tree) {
        distwar::reduce_tree(lanes, true, key, val, distwar::record<Pair>{table, K});
    } else if constexpr (M == tree_planes) {
        distwar::reduce_tree(lanes, true, key, val, distwar::planes<Pair>{table, targets});
    } else if constexpr (M == tree_aligned) {
        distwar::reduce_tree(lanes, true, key, val, distwar::aligned_pairs<Pair>{table, K});
    } else if constexpr (M == floats) {
        distwar::reduce_tree(lanes, true, key, val, distwar::record_of_pairs<Pair>{table, K});
    } else {
        using half = typename distwar::detail::pair_of<Pair>::half;
        distwar::reduce_tree(lanes, true, key, val,
                             distwar::record<half>{reinterpret_cast<half *>(table), 2 * K});
    }
}

template <method M, typename Pair, int K>
__global__ void __launch_bounds__(BLOCK) add_pairs(int calls, int keys, uint32_t targets, Pair *table) {
    constexpr int count = is_float<M> ? 2 * K : K;
    using value = std::conditional_t<is_float<M>, float, Pair>;
    const uint32_t thread = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t draw = first_draw(thread / 32);
    value val[count];
#pragma unroll
    for (int k = 0; k < count; ++k) {
        if constexpr (is_float<M>)
            val[k] = value_of(thread, k);
        else
            round_to(val[k], value_of(thread, 2 * k), value_of(thread, 2 * k + 1));
    }
#pragma unroll 1
    for (; calls > 0; --calls) {
#pragma unroll
        for (int k = 0; k < count; ++k) hide(val[k]);
        const uint32_t key = first_key(draw, targets) + thread % 32 % uint32_t(keys);
        add<M>(int(key < targets ? key : key - targets), targets, val, table);
        draw = next_draw(draw);
    }
}

// Whether the sums of the checked warps are right. run: a launch at `targets` targets.
template <typename Pair>
bool is_right(const cell_launch &run, bool planes, int K, int keys, uint32_t targets, void *table) {
    std::vector<float> expected(size_t(targets) * K * 2);
    for (uint32_t thread = 0; thread < CHECKED_WARPS * 32; ++thread) {
        uint32_t draw = first_draw(thread / 32);
        for (int call = 0; call < CHECKED_CALLS; ++call, draw = next_draw(draw)) {
            const size_t key = (first_key(draw, targets) + thread % 32 % keys) % targets;
            for (int k = 0; k < 2 * K; ++k) {
                const size_t pair = planes ? size_t(k / 2) * targets + key : key * K + k / 2;
                expected[2 * pair + k % 2] += value_of(thread, k);
            }
        }
    }
    std::vector<Pair> rounded(expected.size() / 2), found(rounded.size());
    const size_t bytes = found.size() * sizeof(Pair);
    for (size_t i = 0; i < rounded.size(); ++i) round_to(rounded[i], expected[2 * i], expected[2 * i + 1]);
    device_clear(table, bytes);
    run(CHECKED_CALLS, CHECKED_WARPS);
    device_download(found.data(), table, bytes);
    return memcmp(found.data(), rounded.data(), bytes) == 0;
}

template <method M, typename Pair, int K>
void append_cells(std::vector<cell> &cells, void *table) {
    for (const int key_count : keys)
        for (const int target_count : targets) {
            const auto launch_at = [=](uint32_t some) -> cell_launch {
                return [=](int calls, int warps) {
                    DEVICE_CHECK(launch(nullptr, warps * 32 / BLOCK, BLOCK, add_pairs<M, Pair, K>, calls,
                                        key_count, some, static_cast<Pair *>(table)));
                };
            };
            const uint32_t checked = uint32_t(std::min(target_count, int(CHECKED_TARGETS)));
            cells.push_back({std::string("pairs/") + method_name[M] + "/type:" + name_of<Pair> +
                                 "/pairs:" + std::to_string(K) + "/keys:" + std::to_string(key_count) +
                                 "/targets:" + std::to_string(target_count),
                             2.0 * K, launch_at(uint32_t(target_count)), [=] {
                                 return is_right<Pair>(launch_at(checked), M == tree_planes, K, key_count,
                                                       checked, table);
                             }});
        }
}
template <typename Pair, int K>
void append_common(std::vector<cell> &cells, void *table) {
    append_cells<atomics, Pair, K>(cells, table);
    append_cells<vectors, Pair, K>(cells, table);
    append_cells<tree, Pair, K>(cells, table);
    append_cells<floats, Pair, K>(cells, table);
}
template <int K>
void append_cells(std::vector<cell> &cells, void *table) {
    append_common<__half2, K>(cells, table);
    append_common<__nv_bfloat162, K>(cells, table);
    append_cells<serial, __half2, K>(cells, table);
    append_cells<tree_planes, __half2, K>(cells, table);
    append_cells<tree_aligned, __half2, K>(cells, table);
    append_cells<singly, __half2, K>(cells, table);
}
inline void append_all(std::vector<cell> &cells, void *table) {
    append_cells<4>(cells, table);
    append_cells<16>(cells, table);
}

} // namespace pairs

#endif
