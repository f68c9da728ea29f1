// SPDX-License-Identifier: MIT
// The cells `chunks`: a number of values known at run time, each the product of a weight of the lane and a
// factor in memory, which all lanes share. All lanes are active; lane l has key l % keys.
#ifndef BENCHMARKS_CHUNKS_CUH
#define BENCHMARKS_CHUNKS_CUH

#include "cells.cuh"

namespace chunks {

// method   what it does
// -------  ----------------------------------------------------------------------------------------
// atomics  a loop of atomicAdd
// handle   group_lanes, then a loop of add() over parts of Chunk values, the last one padded
// counted  reduce_tree_n<Chunk>
// array    the values in an array of 100, then reduce_tree
enum method { atomics, handle, counted, array, methods };
inline constexpr const char *method_name[methods] = {"atomics", "handle", "counted", "array"};
inline constexpr int counts[] = {100, 513};
inline constexpr int keys[] = {1, 8};
enum { TARGETS = 1024, ARRAY = 100 };
enum { STRIDE = 544 }; // a multiple of each chunk, for the padding of `handle`

__host__ __device__ inline float weight_of(uint32_t thread) {
    return float(1 + thread % 4);
}
__host__ __device__ inline float factor_of(int k) {
    return float(1 + k % 8);
}

template <method M, int Chunk>
__device__ __forceinline__ void add(int key, int count, float weight, const float *factors, float *table) {
    const auto value_of = [&](int k) { return weight * factors[k]; };
    const distwar::record<float> sink = {table, STRIDE};
    if constexpr (M == atomics) {
        for (int k = 0; k < count; ++k) atomicAdd(table + size_t(key) * STRIDE + k, value_of(k));
    } else if constexpr (M == handle) {
        const auto groups = distwar::group_lanes(distwar::all_lanes, true, key);
        for (int first = 0; first < count; first += Chunk) {
            float part[Chunk];
#pragma unroll
            for (int i = 0; i < Chunk; ++i) part[i] = first + i < count ? value_of(first + i) : 0;
            groups.add(part, distwar::record<float>{table + first, STRIDE});
        }
    } else if constexpr (M == counted) {
        distwar::reduce_tree_n<Chunk>(distwar::all_lanes, true, key, count, value_of, sink);
    } else {
        float val[ARRAY];
#pragma unroll
        for (int k = 0; k < ARRAY; ++k) val[k] = value_of(k);
        distwar::reduce_tree(distwar::all_lanes, true, key, val, sink);
    }
}

template <method M, int Chunk>
__global__ void __launch_bounds__(BLOCK)
    add_chunks(int calls, int keys, int count, const float *factors, float *table) {
    const uint32_t thread = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t draw = first_draw(thread / 32);
    const float weight = weight_of(thread);
#pragma unroll 1
    for (; calls > 0; --calls) {
        const int key = (int(first_key(draw, TARGETS)) + int(thread) % 32 % keys) % TARGETS;
        add<M, Chunk>(key, count, weight, factors, table);
        draw = next_draw(draw);
    }
}

inline bool is_right(const cell_launch &run, int count, int keys, float *table) {
    std::vector<float> expected(size_t(TARGETS) * STRIDE), found(expected.size());
    for (uint32_t thread = 0; thread < CHECKED_WARPS * 32; ++thread) {
        uint32_t draw = first_draw(thread / 32);
        for (int call = 0; call < CHECKED_CALLS; ++call, draw = next_draw(draw)) {
            const uint32_t key = (first_key(draw, TARGETS) + thread % 32 % keys) % TARGETS;
            for (int k = 0; k < count; ++k)
                expected[size_t(key) * STRIDE + k] += weight_of(thread) * factor_of(k);
        }
    }
    device_clear(table, expected.size() * sizeof(float));
    run(CHECKED_CALLS, CHECKED_WARPS);
    device_download(found.data(), table, found.size() * sizeof(float));
    return found == expected;
}

template <method M, int Chunk>
void append_cells(std::vector<cell> &cells, float *table, const float *factors) {
    for (const int count : counts)
        for (const int key_count : keys) {
            if (M == array && count != ARRAY) continue;
            const cell_launch run = [=](int calls, int warps) {
                DEVICE_CHECK(launch(nullptr, warps * 32 / BLOCK, BLOCK, add_chunks<M, Chunk>, calls,
                                    key_count, count, factors, table));
            };
            cells.push_back({std::string("chunks/") + method_name[M] + "/keys:" + std::to_string(key_count) +
                                 "/count:" + std::to_string(count) +
                                 (M == handle || M == counted ? "/chunk:" + std::to_string(Chunk) : ""),
                             double(count), run, [=] { return is_right(run, count, key_count, table); }});
        }
}
inline void append_all(std::vector<cell> &cells, void *table) {
    float made[STRIDE];
    for (int k = 0; k < STRIDE; ++k) made[k] = factor_of(k);
    float *const factors = static_cast<float *>(device_allocate(sizeof made)); // lives as long as the program
    device_upload(factors, made, sizeof made);
    float *const sums = static_cast<float *>(table);
    append_cells<atomics, 32>(cells, sums, factors);
    append_cells<handle, 8>(cells, sums, factors);
    append_cells<handle, 16>(cells, sums, factors);
    append_cells<handle, 32>(cells, sums, factors);
    append_cells<counted, 8>(cells, sums, factors);
    append_cells<counted, 16>(cells, sums, factors);
    append_cells<counted, 32>(cells, sums, factors);
    append_cells<array, 32>(cells, sums, factors);
}

} // namespace chunks

#endif
