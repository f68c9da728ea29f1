// SPDX-License-Identifier: MIT
// Particles to grid: each particle adds 4 values to the 27 nodes around it. The grid lies in blocks of 4 x 4 x 4
// nodes with one plane for each value. Into global memory, or into an arena of 8 x 8 x 8 nodes in shared memory
// for the particles of one block, which is then added to the grid.
#ifndef STRANGERS_STENCILS_CUH
#define STRANGERS_STENCILS_CUH

#include "strangers.cuh"

namespace stencils {

enum { SIDE = 64, CELLS = SIDE * SIDE * SIDE, IN_CELL = 8, PARTICLES = 1 << 20, ARENA = 8 * 8 * 8 };
enum class how {
    plain,        // 27 x 4 atomicAdd, unrolled
    plain_looped, // the same, not unrolled: what the loop costs without any call
    one_call,     // reduce for each node, unrolled
    looped,       // the same, not unrolled
    each,         // reduce with in_shared, unrolled
    by_cell,      // group_lanes by cell, one add for each node, not unrolled
    tree,         // reduce_tree, not unrolled
    cg,
    in_double
};

// Value k of a node at (block * 4 + k) * 64 + cell: planes with a stride of 64 and this key.
__device__ __forceinline__ int place_of(int x, int y, int z) {
    const int block = (x >> 2) + (SIDE / 4) * ((y >> 2) + (SIDE / 4) * (z >> 2));
    return block * 256 + (x & 3) + 4 * (y & 3) + 16 * (z & 3);
}

struct particle {
    int x, y, z; // the lowest of its nodes
    float wx[3], wy[3], wz[3], v[4];

    __device__ __forceinline__ explicit particle(const float4 &at) {
        x = int(at.x), y = int(at.y), z = int(at.z);
        weights(at.x - float(x), wx), weights(at.y - float(y), wy), weights(at.z - float(z), wz);
        v[0] = 1, v[1] = at.w, v[2] = 1 - at.w, v[3] = at.w * at.w;
    }
    static __device__ __forceinline__ void weights(float f, float (&w)[3]) {
        w[0] = 0.5f * (1 - f) * (1 - f), w[2] = 0.5f * f * f, w[1] = 1 - w[0] - w[2];
    }
    // Selects, so that the arrays stay in registers where node is not known when compiling.
    static __device__ __forceinline__ float pick(const float (&w)[3], int i) {
        return i == 0 ? w[0] : i == 1 ? w[1] : w[2];
    }
    __device__ __forceinline__ auto values_at(int node) const {
        const float w = pick(wx, node % 3) * pick(wy, node / 3 % 3) * pick(wz, node / 9);
        return distwar::values(w * v[0], w * v[1], w * v[2], w * v[3]);
    }
};

// Adds the particle of each lane by the place_at(node) of its nodes.
template <how H, bool Shared, typename PlaceAt, typename T>
__device__ __forceinline__ void add_particle(bool active, const particle &p, int cell,
                                             const PlaceAt &place_at, T *to, int stride) {
    constexpr unsigned all = distwar::all_lanes;
    const distwar::planes<T> sink = {to, size_t(stride)};
    if constexpr (H == how::plain || H == how::in_double) {
        if (!active) return;
#pragma unroll
        for (int node = 0; node < 27; ++node) {
            const auto v = p.values_at(node);
            T *const first = to + place_at(node);
#pragma unroll
            for (int k = 0; k < 4; ++k) atomicAdd(first + k * stride, T(v.of[k]));
        }
    } else if constexpr (H == how::plain_looped) {
        if (!active) return;
#pragma unroll 1
        for (int node = 0; node < 27; ++node) {
            const auto v = p.values_at(node);
            T *const first = to + place_at(node);
#pragma unroll
            for (int k = 0; k < 4; ++k) atomicAdd(first + k * stride, v.of[k]);
        }
    } else if constexpr (H == how::one_call) {
#pragma unroll
        for (int node = 0; node < 27; ++node)
            distwar::reduce(all, active, place_at(node), p.values_at(node), sink);
    } else if constexpr (H == how::looped) {
#pragma unroll 1
        for (int node = 0; node < 27; ++node)
            distwar::reduce(all, active, place_at(node), p.values_at(node), sink);
    } else if constexpr (H == how::each) {
#pragma unroll
        for (int node = 0; node < 27; ++node)
            distwar::reduce(all, active, place_at(node), p.values_at(node), distwar::in_shared(sink));
    } else if constexpr (H == how::by_cell) {
        const auto cells = distwar::group_lanes(all, active, cell);
#pragma unroll 1
        for (int node = 0; node < 27; ++node)
            cells.add(p.values_at(node), sink, distwar::at_key{place_at(node)});
    } else if constexpr (H == how::tree) {
#pragma unroll 1
        for (int node = 0; node < 27; ++node)
            distwar::reduce_tree(all, active, place_at(node), p.values_at(node).of, sink);
    } else if (active) {
        const auto group = cg::labeled_partition(cg::coalesced_threads(), cell);
#pragma unroll 1
        for (int node = 0; node < 27; ++node) {
            const auto v = p.values_at(node);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float sum = cg::reduce(group, v.of[k], cg::plus<float>());
                if (group.thread_rank() == 0) atomicAdd(to + place_at(node) + k * stride, sum);
            }
        }
    }
}

template <how H, typename T>
__global__ void __launch_bounds__(128) into_global(const float4 *at, T *grid) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const particle p(at[i]);
    add_particle<H, false>(
        true, p, p.x + SIDE * (p.y + SIDE * p.z),
        [&](int node) { return place_of(p.x + node % 3, p.y + node / 3 % 3, p.z + node / 9); }, grid, 64);
}

// Block b has the particles whose lowest nodes lie in block b of the grid.
template <how H>
__global__ void __launch_bounds__(128) into_shared(const float4 *at, const int *first_of, float *grid) {
    __shared__ float arena[4 * ARENA];
    for (int i = int(threadIdx.x); i < 4 * ARENA; i += int(blockDim.x)) arena[i] = 0;
    __syncthreads();
    const int first = first_of[blockIdx.x], end = first_of[blockIdx.x + 1];
    const int bx = int(blockIdx.x) % (SIDE / 4) * 4, by = int(blockIdx.x) / (SIDE / 4) % (SIDE / 4) * 4,
              bz = int(blockIdx.x) / (SIDE * SIDE / 16) * 4;
    for (int i = first; i < end; i += int(blockDim.x)) {
        const bool active = i + int(threadIdx.x) < end;
        if (H == how::plain && !active) break;
        const particle p(at[active ? i + int(threadIdx.x) : first]);
        const int cell = p.x - bx + 8 * (p.y - by + 8 * (p.z - bz));
        add_particle<H, true>(
            active, p, cell, [&](int node) { return cell + node % 3 + 8 * (node / 3 % 3) + 64 * (node / 9); },
            arena, ARENA);
    }
    __syncthreads();
    for (int i = int(threadIdx.x); i < 4 * ARENA; i += int(blockDim.x)) {
        const int node = i % ARENA;
        if (arena[i] != 0)
            atomicAdd(grid + place_of(bx + node % 8, by + node / 8 % 8, bz + node / 64) + 64 * (i / ARENA),
                      arena[i]);
    }
}

enum class order { by_cell, one_of_each_cell, shuffled };

struct data {
    device_array<float4> at;
    device_array<int> first;
    device_array<float> grid;
    std::vector<double> reference;

    // 8 particles in each of PARTICLES / 8 cells, block after block; within a block (or, if `global`, in all) in the
    // given order.
    static data *make(order of, bool global) {
        std::mt19937 random(5);
        std::uniform_real_distribution<float> draw(0, 1);
        std::vector<float4> at;
        std::vector<int> first = {0};
        const int blocks = (SIDE / 4) * (SIDE / 4) * (SIDE / 4), used = PARTICLES / (64 * IN_CELL);
        for (int block = 0; block < blocks; ++block) {
            const int bx = block % 16 * 4, by = block / 16 % 16 * 4, bz = block / 256 * 4;
            const size_t begin = at.size();
            // Nodes reach two further: the last blocks of each axis stay empty.
            const bool inside =
                bx < SIDE - 4 && by < SIDE - 4 && bz < SIDE - 4 && int(begin) < used * 64 * IN_CELL;
            for (int i = 0; inside && i < 64 * IN_CELL; ++i) {
                const int cell = of == order::one_of_each_cell ? i % 64 : i / IN_CELL;
                at.push_back({float(bx + cell % 4) + 0.99f * draw(random),
                              float(by + cell / 4 % 4) + 0.99f * draw(random),
                              float(bz + cell / 16) + 0.99f * draw(random), draw(random)});
            }
            if (of == order::shuffled && !global) std::shuffle(at.begin() + long(begin), at.end(), random);
            first.push_back(int(at.size()));
        }
        if (of == order::shuffled && global) std::shuffle(at.begin(), at.end(), random);
        data *const made = new data{
            device_array<float4>(at), device_array<int>(first), device_array<float>(size_t(CELLS) * 4), {}};
        const device_array<double> exact(size_t(CELLS) * 4);
        exact.clear();
        into_global<how::in_double><<<PARTICLES / 128, 128>>>(made->at.get(), exact.get());
        CHECK(cudaGetLastError());
        made->reference = exact.download();
        return made;
    }
};

inline void add_all() {
    struct kind {
        const char *name;
        order of;
        bool global;
    };
    static const kind kinds[] = {{"stencil_global/by_cell", order::by_cell, true},
                                 {"stencil_global/shuffled", order::shuffled, true},
                                 {"stencil_shared/by_cell", order::by_cell, false},
                                 {"stencil_shared/one_of_each_cell", order::one_of_each_cell, false},
                                 {"stencil_shared/shuffled", order::shuffled, false}};
    static data *all[5];
    static strangers_case cases[5];
    for (int i = 0; i < 5; ++i) {
        data *&of = all[i];
        cases[i] = {kinds[i].name,
                    [&of, i] {
                        if (!of) of = data::make(kinds[i].of, kinds[i].global);
                    },
                    [&of] { of->grid.clear(); },
                    [&of] {
                        const std::vector<float> found = of->grid.download();
                        return relative_error({found.begin(), found.end()}, of->reference);
                    },
                    1e-4};
#define ADD(h, name)                                                                                         \
    if (kinds[i].global)                                                                                     \
        add_variant(cases[i], name, reinterpret_cast<const void *>(into_global<how::h, float>),              \
                    [&of] { into_global<how::h><<<PARTICLES / 128, 128>>>(of->at.get(), of->grid.get()); }); \
    else                                                                                                     \
        add_variant(cases[i], name, reinterpret_cast<const void *>(into_shared<how::h>), [&of] {             \
            into_shared<how::h>                                                                              \
                <<<unsigned(of->first.size() - 1), 128>>>(of->at.get(), of->first.get(), of->grid.get());    \
        })
        ADD(plain, "plain");
        ADD(plain_looped, "plain_looped");
        ADD(one_call, "reduce_unrolled");
        ADD(looped, "reduce_looped");
        ADD(each, "reduce_in_shared");
        ADD(by_cell, "group_lanes_by_cell");
        ADD(tree, "reduce_tree_looped");
        ADD(cg, "cg_by_cell");
#undef ADD
    }
}

} // namespace stencils

#endif
