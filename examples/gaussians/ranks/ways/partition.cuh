// SPDX-License-Identifier: MIT
// Shares items out among groups and keeps their order: splats among parts of images, moments and draws among ranks. Each
// block counts its items of each group, a scan makes places of the counts, and each item is put in its place. An item may
// be in several groups. Both kernels take an `Items` with
//   groups                 how many there are, at most partition_block - 1
//   load(i)                item i of the block's column, blockIdx.y; without a meaning beyond the last one
//   may_have(group)        whether items of the block's column can be in the group, which is one column's alone
//   has(item, group)       whether the item is in it
//   put(item, i, place)    writes it
#pragma once

#include "context.h"
#include "gpu/block_layout.h"
#include "gpu/scan_sort.h"
#include "launch.cuh"
#include <distwar/warp.cuh>

namespace gs {

constexpr int partition_block = 256;

struct partition {
    int groups;
    unsigned blocks;
    int64_t *begin; // [groups][blocks] and the end: items of a group that a block has, then where they begin
    void *scan;
    size_t scan_bytes;
};

// items: of the longest column.
inline gs_status place_partition(block_layout *layout, int64_t items, int groups, partition *out) {
    out->groups = groups, out->blocks = blocks_for(items, partition_block);
    const int64_t counters = int64_t(groups) * out->blocks + 1;
    GS_CUDA(scan_exclusive_bytes(counters, &out->scan_bytes));
    layout_add(layout, size_t(counters), &out->begin);
    out->scan = layout_add(layout, out->scan_bytes);
    return GS_OK;
}

template <typename Items>
__global__ void __launch_bounds__(partition_block) count_items_kernel(const Items items, int64_t *counters) {
    const auto item = items.load(int64_t(blockIdx.x) * partition_block + threadIdx.x);
    for (int g = 0; g < items.groups; g++) {
        if (!items.may_have(g)) continue; // the same in all threads
        const int all = __syncthreads_count(items.has(item, g));
        if (threadIdx.x == 0) counters[int64_t(g) * gridDim.x + blockIdx.x] = all;
    }
}

template <typename Items>
__global__ void __launch_bounds__(partition_block) put_items_kernel(const Items items, const int64_t *begin) {
    __shared__ int in_warp[partition_block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * partition_block + thread;
    const auto item = items.load(i);
    for (int g = 0; g < items.groups; g++) {
        if (!items.may_have(g)) continue; // the same in all threads
        const bool has = items.has(item, g);
        const unsigned lanes = __ballot_sync(distwar::all_lanes, has);
        __syncthreads(); // the counts of the group before have been read
        if (lane == 0) in_warp[warp] = __popc(lanes);
        __syncthreads();
        int64_t place = begin[int64_t(g) * gridDim.x + blockIdx.x] + __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < warp; w++) place += in_warp[w];
        if (has) items.put(item, i, place);
    }
}

static __global__ void __launch_bounds__(partition_block)
    group_begin_kernel(const int64_t *begin, int groups, int64_t blocks, int64_t *group_begin) {
    const int g = int(threadIdx.x);
    if (g <= groups) group_begin[g] = begin[g * blocks];
}

// group_begin: [groups + 1]: group g has places group_begin[g] .. group_begin[g + 1] - 1.
template <typename Items>
gs_status count_items(const partition &p, unsigned columns, const Items &items, int64_t *group_begin) {
    const int64_t counters = int64_t(p.groups) * p.blocks + 1;
    GS_CUDA(cudaMemsetAsync(p.begin + counters - 1, 0, sizeof(int64_t), nullptr));
    GS_CUDA(
        launch(nullptr, dim3(p.blocks, columns), partition_block, count_items_kernel<Items>, items, p.begin));
    GS_CUDA(scan_exclusive(p.begin, p.begin, counters, p.scan, p.scan_bytes, nullptr));
    return GS_STATUS(
        launch(nullptr, 1, partition_block, group_begin_kernel, p.begin, p.groups, p.blocks, group_begin));
}

// After count_items.
template <typename Items>
gs_status put_items(const partition &p, unsigned columns, const Items &items) {
    return GS_STATUS(
        launch(nullptr, dim3(p.blocks, columns), partition_block, put_items_kernel<Items>, items, p.begin));
}

} // namespace gs
