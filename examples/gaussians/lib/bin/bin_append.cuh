// SPDX-License-Identifier: MIT
// gs_bin: each splat to the buckets, or later the lists, of its tiles.
#pragma once

#include "launch.cuh"
#include "reach.cuh"
#include "tiles.cuh"
#include <distwar/warp.cuh>

namespace gs {

constexpr int bin_block = 256;

// The tile's pixel centres that are inside the image.
__device__ inline rectangle centres_of(int column, int row, const tile_grid &grid) {
    const int x = column * GS_TILE_SIZE, y = row * GS_TILE_SIZE;
    return {float(x) + 0.5f, float(y) + 0.5f, float(min(x + GS_TILE_SIZE, grid.width)) - 0.5f,
            float(min(y + GS_TILE_SIZE, grid.height)) - 0.5f};
}

// Exclusive prefix sum of `value` over the threads of the block; *all: the total. By all threads of the
// block.
template <int Threads, typename T>
__device__ T scan_of_block(T value, T *all) {
    __shared__ T warp_sums[32];
    const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
    const auto scan_of_warp = [lane](T x) { // inclusive
        for (int distance = 1; distance < 32; distance *= 2) {
            const T before = __shfl_up_sync(distwar::all_lanes, x, unsigned(distance));
            if (lane >= distance) x += before;
        }
        return x;
    };
    const T inclusive = scan_of_warp(value);
    __syncthreads(); // the previous call's sums have been read
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = scan_of_warp(lane < Threads / 32 ? warp_sums[lane] : 0);
    __syncthreads();
    *all = warp_sums[Threads / 32 - 1];
    return inclusive - value + (warp > 0 ? warp_sums[warp - 1] : 0);
}

// A splat and its box of tiles.
struct alignas(16) candidate {
    splat_reach reach;
    int x_begin, y_begin, columns;
    float inv_columns;
};

// Splats in portions, one for a block at a time.
struct splat_portions {
    const gs_splat *splats; // of all views, `count` each
    int64_t count;
    int size;        // splats of a portion, at most bin_block
    int per_view;    // portions
    uint32_t *depth; // of all views: the bits of gs_splat.depth, written with the portion
};

// By 16 bytes at a time, but for `reserved`.
__device__ inline gs_splat load_splat(const gs_splat *from) {
    const float4 *const words = reinterpret_cast<const float4 *>(from);
    const float4 a = words[0], b = words[1], c = words[2];
    return {{a.x, a.y}, {a.z, a.w, b.x}, b.y, {b.z, b.w, c.x}, c.y, {}};
}

// Takes a ticket for every (splat, tile) where the splat reaches the tile. One body for counting and for
// writing. The tiles of the boxes of the portion's splats, box after box, form one row of items, which the warps
// divide evenly: a splat with many tiles does not hold up the block. A ticket is used one iteration after it was
// taken, so that the latency of its atomic is hidden. Example: boxes of 2, 3 and 1 tiles give 6 items; first =
// {0, 2, 5, 6}; item 4 is the third tile of box 1.
template <typename Tickets>
__device__ void for_tiles_of_splats(const splat_portions &all, int portion, const tile_grid &grid,
                                    const Tickets &tickets) {
    __shared__ candidate candidates[bin_block];
    __shared__ int first[bin_block + 1]; // item of each box; first[k + 1] is its end
    const int thread = int(threadIdx.x), view = portion / all.per_view,
              in_view = portion - view * all.per_view;
    const int first_tile = view * grid.tiles_x * grid.tiles_y;
    const int64_t first_splat = view * all.count + int64_t(in_view) * all.size;
    const int size = int(min(int64_t(all.size), all.count - int64_t(in_view) * all.size));
    int area = 0;
    gs_splat splat = {};
    if (thread < size) {
        splat = load_splat(all.splats + first_splat + thread);
        all.depth[first_splat + thread] = __float_as_uint(splat.depth);
    }
    if (splat.depth > 0) {
        const splat_reach reach = reach_of(splat);
        const tile_box box = box_of(reach, grid);
        const int columns = box.x_end - box.x_begin;
        area = area_of(box);
        candidates[thread] = {reach, box.x_begin, box.y_begin, columns, 1 / float(columns)};
    }
    int items;
    first[thread] = scan_of_block<bin_block>(area, &items);
    if (thread == 0) first[bin_block] = items;
    __syncthreads();

    // Neighbouring lanes have neighbouring items.
    const int share = (items + bin_block - 1) / bin_block * 32, warp = thread / 32;
    const int begin = warp * share + thread % 32, end = min((warp + 1) * share, items);
    int low = 0, high = bin_block; // the box of item `begin` is among low .. high - 1
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (first[middle] <= begin ? low : high) = middle;
    }
    typename Tickets::ticket last = {};
    for (int k = begin; k < end; k += 32) {
        while (k >= first[low + 1]) low++;
        const candidate c = candidates[low];
        // The row is exact: a box has at most 1024 rows, and the half keeps the product away from integers.
        const int item = k - first[low], row = int((float(item) + 0.5f) * c.inv_columns);
        const int x = c.x_begin + item - row * c.columns, y = c.y_begin + row;
        typename Tickets::ticket next = {};
        if (reaches(c.reach, centres_of(x, y, grid)))
            next = tickets.take(first_tile + y * grid.tiles_x + x, uint32_t(first_splat + low), portion);
        tickets.use(last);
        last = next;
    }
    tickets.use(last);
}

// A tile has one counter, or several where few tiles have many splats; a portion of splats uses the one given by
// its number. Atomics to one line of the L2 are serialised, and neighbouring tiles have splats alike in number.
// So a counter has a sector of 32 bytes to itself, and the other three of its line are of tiles far away.
constexpr int counters_of_line = 4, sector_words = 8;
struct tile_counters {
    uint32_t *first; // [1 << log2_lines][counters_of_line][sector_words]
    int log2_copies, log2_lines;
    __device__ int number(int tile, int portion) const {
        return (tile << log2_copies) + (portion & ((1 << log2_copies) - 1));
    }
    __device__ uint32_t *at(int number) const {
        const int line = number & ((1 << log2_lines) - 1);
        return first + (line * counters_of_line + (number >> log2_lines)) * sector_words;
    }
};

// Each counter has a bucket of `room` entries.
struct buckets {
    tile_counters length; // count up, beyond the room too
    uint32_t *entry;      // [counters][room]
    uint32_t room;
    struct ticket {
        uint32_t *bucket; // NULL: no ticket
        uint32_t place, splat;
    };
    __device__ ticket take(int tile, uint32_t splat, int portion) const {
        const int number = length.number(tile, portion);
        return {entry + int64_t(number) * room, atomicAdd(length.at(number), 1u), splat};
    }
    __device__ void use(const ticket &t) const {
        if (t.bucket && t.place < room) t.bucket[t.place] = t.splat;
    }
};

struct writing {
    tile_counters counters;
    uint32_t *end;             // [counters]: of each one's range in the tile's list; counts down to its begin
    const int64_t *tile_begin; // [tiles + 1]
    uint32_t *list;
    struct ticket {
        int64_t begin;
        uint32_t left, splat; // left = 0: no ticket
    };
    __device__ ticket take(int tile, uint32_t splat, int portion) const {
        return {tile_begin[tile], atomicSub(end + counters.number(tile, portion), 1u), splat};
    }
    __device__ void use(const ticket &t) const {
        if (t.left > 0) list[t.begin + t.left - 1] = t.splat;
    }
};

static __global__ void __launch_bounds__(bin_block)
    append_kernel(const splat_portions all, tile_grid grid, buckets tickets) {
    let_next_start();
    for_tiles_of_splats(all, int(blockIdx.x), grid, tickets);
}

} // namespace gs
