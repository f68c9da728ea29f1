// SPDX-License-Identifier: MIT
// Particles to grid: each particle adds 4 values to the 27 nodes around it. The grid lies in blocks of 4 x 4 x 4
// nodes with one plane for each value. Into global memory, or into an arena of 8 x 8 x 8 nodes in shared memory
// for the particles of one block, which is then added to the grid.
#pragma once

#include "user_kernels.cuh"

namespace stencils {

enum {
    SIDE = 64,
    CELLS = SIDE * SIDE * SIDE,
    IN_CELL = 8,
    PARTICLES = 1 << 20,
    ARENA = 8 * 8 * 8,
    BLOCKS = CELLS / 64
};

// Value k of a node at (block * 4 + k) * 64 + cell: planes with a stride of 64 and this key.
DISTWAR_DEVICE int place_of(int x, int y, int z) {
    const int block = (x >> 2) + (SIDE / 4) * ((y >> 2) + (SIDE / 4) * (z >> 2));
    return block * 256 + (x & 3) + 4 * (y & 3) + 16 * (z & 3);
}

struct particle {
    int x, y, z; // the lowest of its nodes
    float wx[3], wy[3], wz[3], v[4];

    DISTWAR_DEVICE explicit particle(const float4 &at) {
        x = int(at.x), y = int(at.y), z = int(at.z);
        weights(at.x - float(x), wx), weights(at.y - float(y), wy), weights(at.z - float(z), wz);
        v[0] = 1, v[1] = at.w, v[2] = 1 - at.w, v[3] = at.w * at.w;
    }
    static DISTWAR_DEVICE void weights(float f, float (&w)[3]) {
        w[0] = 0.5f * (1 - f) * (1 - f), w[2] = 0.5f * f * f, w[1] = 1 - w[0] - w[2];
    }
    // Selects, so that the arrays stay in registers where node is not known when compiling.
    static DISTWAR_DEVICE float pick(const float (&w)[3], int i) {
        return i == 0 ? w[0] : i == 1 ? w[1] : w[2];
    }
    DISTWAR_DEVICE auto values_at(int node) const {
        const float w = pick(wx, node % 3) * pick(wy, node / 3 % 3) * pick(wz, node / 9);
        return distwar::values(w * v[0], w * v[1], w * v[2], w * v[3]);
    }
};

// Adds the particle of each lane by the place_at(node) of its nodes.
template <how H, bool Shared, typename PlaceAt, typename T>
DISTWAR_DEVICE void add_particle(bool active, const particle &p, int cell, const PlaceAt &place_at, T *to,
                                 int stride) {
    constexpr unsigned all = distwar::all_lanes;
    constexpr bool is_plain = H == how::plain || H == how::plain_looped || H == how::in_double;
    constexpr bool is_unrolled =
        H == how::plain || H == how::in_double || H == how::one_call || H == how::shared;
    const distwar::planes<T> sink = {to, size_t(stride)};
    if (is_plain && !active) return;
    [[maybe_unused]] const auto group = [&] {
        if constexpr (H == how::group)
            return distwar::group_lanes(all, active, cell);
        else
            return nullptr;
    }();
#pragma unroll(is_unrolled ? 27 : 1)
    for (int node = 0; node < 27; ++node) {
        if constexpr (is_plain) {
            const auto v = p.values_at(node);
            T *const first = to + place_at(node);
#pragma unroll
            for (int k = 0; k < 4; ++k) atomicAdd(first + k * stride, T(v.of[k]));
        } else if constexpr (H == how::group) {
            group.add(p.values_at(node), sink, distwar::at_key{place_at(node)});
        } else {
            call<H>(all, active, place_at(node), p.values_at(node).of, sink);
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

struct given_particles {
    float4 *at;
    int *first; // of each block
};
// 8 particles in each of PARTICLES / 8 cells, block after block; within a block (or, if `global`, in all) in the given order.
inline given_particles make_particles(order of, bool global) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> draw(0, 1);
    std::vector<float4> places;
    std::vector<int> first_of = {0};
    for (int block = 0; block < BLOCKS; ++block) {
        const int bx = block % 16 * 4, by = block / 16 % 16 * 4, bz = block / 256 * 4;
        const size_t begin = places.size();
        // Nodes reach two further: the last blocks of each axis stay empty.
        const bool inside = bx < SIDE - 4 && by < SIDE - 4 && bz < SIDE - 4 && int(begin) < PARTICLES;
        for (int i = 0; inside && i < 64 * IN_CELL; ++i) {
            const int cell = of == order::one_of_each_cell ? i % 64 : i / IN_CELL;
            places.push_back({float(bx + cell % 4) + 0.99f * draw(random),
                              float(by + cell / 4 % 4) + 0.99f * draw(random),
                              float(bz + cell / 16) + 0.99f * draw(random), draw(random)});
        }
        if (of == order::shuffled && !global)
            std::shuffle(places.begin() + long(begin), places.end(), random);
        first_of.push_back(int(places.size()));
    }
    if (of == order::shuffled && global) std::shuffle(places.begin(), places.end(), random);
    return {device_copy(places), device_copy(first_of)};
}

inline void add_case(const char *named, order of, bool global) {
    auto &one =
        *new kernel_case<float>(std::string(global ? "stencil_global/" : "stencil_shared/") + named, 1e-4);
    auto &given = *new given_particles;
    const auto run = [&given](auto kernel, auto *to) {
        DEVICE_CHECK(launch(nullptr, PARTICLES / 128, 128, kernel, given.at, to));
    };
    one.make = [=, &one, &given] {
        given = make_particles(of, global);
        one.make_sums(size_t(CELLS) * 4);
        one.refer_to(one.count, [&](double *to) { run(into_global<how::in_double, double>, to); });
    };
    const auto add = [&](const char *variant, void (*anywhere)(const float4 *, float *),
                         void (*in_shared)(const float4 *, const int *, float *)) {
        if (global)
            add_variant(&one, variant, anywhere, [=, &one] { run(anywhere, one.sums); });
        else
            add_variant(&one, variant, in_shared, [=, &one, &given] {
                DEVICE_CHECK(launch(nullptr, BLOCKS, 128, in_shared, given.at, given.first, one.sums));
            });
    };
    add("plain", into_global<how::plain, float>, into_shared<how::plain>);
    add("plain_looped", into_global<how::plain_looped, float>, into_shared<how::plain_looped>);
    add("reduce_unrolled", into_global<how::one_call, float>, into_shared<how::one_call>);
    add("reduce_looped", into_global<how::looped, float>, into_shared<how::looped>);
    add("reduce_in_shared", into_global<how::shared, float>, into_shared<how::shared>);
    add("group_lanes_by_cell", into_global<how::group, float>, into_shared<how::group>);
    add("reduce_tree_looped", into_global<how::tree, float>, into_shared<how::tree>);
}
inline void add_all() {
    for (const bool global : {true, false}) {
        add_case("by_cell", order::by_cell, global), add_case("shuffled", order::shuffled, global);
        if (!global) add_case("one_of_each_cell", order::one_of_each_cell, global);
    }
}

} // namespace stencils
