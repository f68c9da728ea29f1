// SPDX-License-Identifier: MIT
// Half2 into the tables of a hash grid: 8 corners of a cell for each sample and level, another key in each lane.
// As in the original, a thread has one pair of features: F / 2 neighbouring threads have one sample.
#ifndef STRANGERS_HASH_GRID_CUH
#define STRANGERS_HASH_GRID_CUH

#include "strangers.cuh"

namespace hash_grid {

enum { SAMPLES = 1 << 18, TABLE = 1 << 19 };
enum class how {
    plain, // red.f16x2 by each lane
    one_call,
    tree,
    whole_plain,    // all features in one thread, vector atomics of each lane
    whole_one_call, // the same, aligned_record by reduce
    whole_tree,
    by_cell, // groups of lanes by cell, one add for each corner
    each,    // reduce in a loop over the corners
    cg,
    in_double
};

struct grid {
    const float3 *at;
    const __half2 *gradient; // [level][sample][F / 2]
    int levels;
};

__device__ __forceinline__ unsigned entry_of(uint3 cell, unsigned resolution) {
    const unsigned long long dense = (unsigned long long)(resolution)*resolution * resolution;
    if (dense <= TABLE) return cell.x + resolution * (cell.y + resolution * cell.z);
    return (cell.x ^ cell.y * 2654435761u ^ cell.z * 805459861u) % TABLE;
}

__device__ __forceinline__ void add_pair(__half2 *to, __half2 value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
                 "r"(bits)
                 : "memory");
}

template <how H, int F, typename T>
__global__ void __launch_bounds__(512) backward(grid given, T *tables) {
    constexpr bool whole = H == how::whole_plain || H == how::whole_one_call || H == how::whole_tree;
    constexpr int pairs = F / 2, of_thread = whole ? pairs : 1;
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
    if constexpr (H == how::each) {
#pragma unroll 1
        for (int c = 0; c < 8; ++c)
            distwar::reduce(all, true, entry(c) * pairs + unsigned(pair), pair_of(c),
                            distwar::record<T>{table, 1});
    } else if constexpr (H == how::by_cell) {
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
            if constexpr (whole) {
                __half2 v[of_thread];
#pragma unroll
                for (int k = 0; k < of_thread; ++k) v[k] = __hmul2(__float2half2_rn(weight(c)), gradient[k]);
                const distwar::aligned_record<T> sink = {table, pairs};
                if constexpr (H == how::whole_plain) distwar::reduce_atomic(all, true, entry(c), v, sink);
                if constexpr (H == how::whole_one_call) distwar::reduce(all, true, entry(c), v, sink);
                if constexpr (H == how::whole_tree) distwar::reduce_tree(all, true, entry(c), v, sink);
            } else {
                const __half2 value = pair_of(c);
                const __half2 v[1] = {value};
                if constexpr (H == how::plain) {
                    add_pair(table + key, value);
                } else if constexpr (H == how::in_double) {
                    atomicAdd(table + 2 * size_t(key), double(__low2float(value)));
                    atomicAdd(table + 2 * size_t(key) + 1, double(__high2float(value)));
                } else if constexpr (H == how::cg) {
                    const auto group = cg::labeled_partition(cg::coalesced_threads(), key);
                    unsigned bits;
                    memcpy(&bits, &value, 4);
                    const unsigned sum = cg::reduce(group, bits, [](unsigned a, unsigned b) {
                        __half2 first, second;
                        memcpy(static_cast<void *>(&first), &a, 4);
                        memcpy(static_cast<void *>(&second), &b, 4);
                        const __half2 both = __hadd2(first, second);
                        unsigned result;
                        memcpy(&result, &both, 4);
                        return result;
                    });
                    __half2 total;
                    memcpy(static_cast<void *>(&total), &sum, 4);
                    if (group.thread_rank() == 0) add_pair(table + key, total);
                } else {
                    const distwar::record<T> sink = {table, 1};
                    if constexpr (H == how::one_call) distwar::reduce(all, true, key, v, sink);
                    if constexpr (H == how::tree) distwar::reduce_tree(all, true, key, v, sink);
                }
            }
        }
    }
}

template <int F>
struct data {
    int levels = 32 / F;
    device_array<float3> at;
    device_array<__half2> gradient, tables;
    std::vector<double> reference;

    static std::vector<float3> samples(bool rays) {
        std::mt19937 random(2);
        std::uniform_real_distribution<float> draw(0, 1);
        std::vector<float3> all;
        while (all.size() < SAMPLES) {
            const float3 from = {draw(random), draw(random), draw(random)},
                         to = {draw(random), draw(random), draw(random)};
            for (int i = 0; i < (rays ? 512 : 1); ++i) {
                const float t = float(i) / 512;
                all.push_back({0.999f * (from.x + t * (to.x - from.x)),
                               0.999f * (from.y + t * (to.y - from.y)),
                               0.999f * (from.z + t * (to.z - from.z))});
            }
        }
        return all;
    }
    static std::vector<__half2> gradients() {
        std::mt19937 random(3);
        std::uniform_real_distribution<float> draw(-1, 1);
        std::vector<__half2> all;
        for (size_t i = 0; i < size_t(SAMPLES) * 16; ++i)
            all.push_back(__floats2half2_rn(draw(random) / 64, draw(random) / 64));
        return all;
    }
    grid view() const { return {at.get(), gradient.get(), levels}; }
    explicit data(bool rays)
        : at(samples(rays)), gradient(gradients()), tables(size_t(levels) * TABLE * F / 2) {
        const device_array<double> exact(2 * tables.size());
        exact.clear();
        backward<how::in_double, F><<<dim3(SAMPLES * (F / 2) / 512, levels), 512>>>(view(), exact.get());
        CHECK(cudaGetLastError());
        reference = exact.download();
    }
};

template <int F>
void add_for(bool rays) {
    // Kept for the whole run of the program.
    data<F> **const of = new data<F> *(nullptr);
    strangers_case &given =
        *new strangers_case{"hash_grid/F" + std::to_string(F) + (rays ? "_rays" : "_random"),
                            [of, rays] {
                                if (!*of) *of = new data<F>(rays);
                            },
                            [of] { (*of)->tables.clear(); },
                            [of] {
                                std::vector<double> found;
                                for (const __half2 &both : (*of)->tables.download()) {
                                    found.push_back(__low2float(both));
                                    found.push_back(__high2float(both));
                                }
                                return relative_error(found, (*of)->reference);
                            },
                            2e-2};
    const auto launch = [of](auto kernel, bool whole) {
        return [of, kernel, whole] {
            kernel<<<dim3(SAMPLES * (whole ? 1 : F / 2) / 512, (*of)->levels), 512>>>((*of)->view(),
                                                                                      (*of)->tables.get());
        };
    };
#define ADD(h, name, whole)                                                                                  \
    add_variant(given, name, reinterpret_cast<const void *>(backward<how::h, F, __half2>),                   \
                launch(backward<how::h, F, __half2>, whole))
    ADD(plain, "plain", false);
    ADD(one_call, "reduce", false);
    ADD(each, "reduce_loop", false);
    ADD(tree, "reduce_tree", false);
    ADD(by_cell, "group_lanes_by_cell", false);
    ADD(cg, "cg_labeled_partition", false);
    if (F > 2) {
        ADD(whole_one_call, "other_layout_reduce", true);
        ADD(whole_tree, "other_layout_reduce_tree", true);
        ADD(whole_plain, "other_layout_vector_atomics", true);
    }
#undef ADD
}

inline void add_all() {
    add_for<2>(true);
    add_for<2>(false);
    add_for<4>(true);
    add_for<4>(false);
    add_for<8>(true);
    add_for<8>(false);
}

} // namespace hash_grid

#endif
