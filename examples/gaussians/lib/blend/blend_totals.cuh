// SPDX-License-Identifier: MIT
// A warp's sums of a splat: from each thread's pixels to the fields of gs_moments (math.md, section 3).
//
// A thread sums h, and h times the row and its square, over its pixels. The warp's moments about the middle of its pixels
// follow from these: times the row before the four lanes of a column are summed, times the column after that. They are
// kept for a batch of splats. Then each lane turns one splat's into the fields of gs_moments, and commits them.
#pragma once

#include "blend_pass.cuh"
#include <distwar/tree.cuh>

namespace gs {

// `value`, which nvcc would compute again at each use.
template <typename T>
__device__ __forceinline__ T kept_in_register(T value) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float>)
        asm volatile("" : "+f"(value));
    else
        asm volatile("" : "+r"(value));
#endif
    return value;
}
// `object`, in shared memory, likewise its address.
template <typename T>
__device__ __forceinline__ T &kept_address(T &object) {
#ifdef __CUDA_ARCH__
    const unsigned address = kept_in_register(unsigned(__cvta_generic_to_shared(&object)));
    return *static_cast<T *>(__cvta_shared_to_generic(address));
#else
    return object;
#endif
}

// What a thread sums over its pixels. Pixel p is q = p - Pixels / 4 rows below the thread's pixel Pixels / 4.
template <typename Values>
struct pixel_sums {
    float h, qh, qqh;
    float other[Values::others]; // colours, depth, absolute sums
};

// Sums of h times offsets from the middle of the warp's pixels: x in pixels, y in rows.
template <typename Values>
struct tile_moments {
    float h, yh, yyh, xh, xyh, xxh;
    float other[Values::others];
};

// Where a batch keeps them. The values h, y h, y y h, others are those of a column of lanes: value v is at position v.
// At the last two fours of positions are x times the first four, and x times that.
template <typename Values>
struct totals_layout {
    static constexpr int column_values = 3 + Values::others;
    static constexpr int places = (column_values + 3) / 4 + 2;
    static constexpr int xh = 4 * (places - 2), xxh = xh + 4;
    static constexpr int stride = 4 * places + 1; // odd: no conflicts of banks
};

// A batch of splats, and a warp's sums of them.
template <typename Values>
struct summed_batch : blend_batch<Values::channels> {
    float total[32][totals_layout<Values>::stride];
};
// The position of the first total that a lane has of a sum over the warp. Lanes that have none: the one at a row's end.
template <typename Values>
__device__ __forceinline__ int position_of_lane() {
    const int lane = int(threadIdx.x % 32), position = 4 * (lane % 8) + lane / 8;
    return kept_in_register(min(position, totals_layout<Values>::stride - 1));
}

// The middle of the warp's pixels, from the tile's. Nearer to small splats that the warp sees than the tile's, so that
// less is lost where moments about it become moments about a splat's mean.
struct tile_offset {
    float x, y;
};
template <int Pixels>
__device__ __forceinline__ tile_offset origin_of(const patch<Pixels> &mine) {
    const rectangle &c = mine.centres;
    return {0.5f * (c.left + c.right) - mine.middle[0],
            (0.5f * (c.top + c.bottom) - mine.middle[1]) / row_step};
}
// The thread's pixel Pixels / 4, from there.
template <int Pixels>
__device__ __forceinline__ tile_offset from_origin(const patch<Pixels> &mine) {
    const tile_offset origin = origin_of(mine);
    return {kept_in_register(mine.column[0] - origin.x),
            kept_in_register(mine.column[1] + float(mine.row + Pixels / 4) - origin.y)};
}

// The moments of a thread's pixels.
template <typename Values>
__device__ __forceinline__ tile_moments<Values> moments_of_thread(const tile_offset &from_origin,
                                                                  const pixel_sums<Values> &sums) {
    const float x = from_origin.x, y = from_origin.y;
    tile_moments<Values> m;
    m.h = sums.h, m.yh = fmaf(y, m.h, sums.qh), m.yyh = fmaf(y, sums.qh + m.yh, sums.qqh);
    m.xh = x * m.h, m.xyh = x * m.yh, m.xxh = x * m.xh;
    DISTWAR_UNROLL
    for (int k = 0; k < Values::others; k++) m.other[k] = sums.other[k];
    return m;
}

// Keeps the sums over the warp in a row of summed_batch.total. By all lanes. row: its value at position_of_lane(), where the
// lane has a total, and of every 32nd after it.
template <typename Values>
__device__ __forceinline__ void keep_sum_of_warp(const tile_offset &from_origin,
                                                 const pixel_sums<Values> &sums, int position, float *row) {
    using layout = totals_layout<Values>;
    const tile_moments<Values> own = moments_of_thread(from_origin, sums);
    float column[layout::column_values] = {own.h, own.yh, own.yyh};
    DISTWAR_UNROLL
    for (int k = 0; k < Values::others; k++) column[3 + k] = own.other[k];
    distwar::tree_of_lanes<3, 5>(column);
    float all[layout::places];
    DISTWAR_UNROLL
    for (int i = 0; i < layout::places - 2; i++) all[i] = column[i];
    all[layout::places - 2] = from_origin.x * column[0];
    all[layout::places - 1] = from_origin.x * all[layout::places - 2];
    distwar::tree_of_lanes<0, 3>(all);
    DISTWAR_UNROLL
    for (int i = 0; i < (layout::places + 7) / 8; i++)
        if (position + 32 * i < layout::stride - 1) row[32 * i] = all[i];
}

template <typename Values>
__device__ __forceinline__ tile_moments<Values>
moments_at(const float (&total)[totals_layout<Values>::stride]) {
    using layout = totals_layout<Values>;
    tile_moments<Values> m;
    m.h = total[0], m.yh = total[1], m.yyh = total[2];
    m.xh = total[layout::xh], m.xyh = total[layout::xh + 1], m.xxh = total[layout::xxh];
    DISTWAR_UNROLL
    for (int k = 0; k < Values::others; k++) m.other[k] = total[3 + k];
    return m;
}

// The fields of gs_moments. depth_scale: the gradient by the splat's depth over that by its depth as the image sums it.
template <typename Values>
__device__ __forceinline__ void fields_of(const tile_splat &splat, const tile_offset &origin,
                                          const tile_moments<Values> &m, float depth_scale,
                                          float (&field)[Values::fields]) {
    const float down0 = splat.down[0], down1 = splat.down[1];
    const float e0 = fmaf(splat.right, origin.x, fmaf(down0, origin.y, splat.e[0])),
                e1 = fmaf(down1, origin.y, splat.e[1]);
    // Sums of h e0 and h e1, also times x or y, where `sum` is that of h, `x` and `y` times that.
    const auto with_e0 = [&](float sum, float x, float y) {
        return fmaf(e0, sum, fmaf(splat.right, x, down0 * y));
    };
    const auto with_e1 = [&](float sum, float y) { return fmaf(e1, sum, down1 * y); };
    const float h_e0 = with_e0(m.h, m.xh, m.yh), x_e0 = with_e0(m.xh, m.xxh, m.xyh),
                y_e0 = with_e0(m.yh, m.xyh, m.yyh);
    const float h_e1 = with_e1(m.h, m.yh);
    DISTWAR_UNROLL
    for (int k = 0; k < Values::fields; k++) field[k] = 0;
    if constexpr (!Values::has_rows) for_channels([&](int c) { field[MOMENT_COLOR + c] = m.other[c]; });
    field[MOMENT_H] = m.h;
    field[MOMENT_H_E0] = h_e0;
    field[MOMENT_H_E1] = h_e1;
    field[MOMENT_H_E0E0] = with_e0(h_e0, x_e0, y_e0);
    field[MOMENT_H_E0E1] = with_e1(h_e0, y_e0);
    field[MOMENT_H_E1E1] = with_e1(h_e1, with_e1(m.yh, m.yyh));
    if constexpr (Values::has_depth) field[MOMENT_DEPTH] = depth_scale * m.other[Values::channels];
    if constexpr (Values::has_absolute) {
        field[MOMENT_ABS_X] = m.other[Values::others - 2];
        field[MOMENT_ABS_Y] = m.other[Values::others - 1] * rsqrtf(splat.curve);
    }
}

// Commits the sums of those splats of a batch whose bit in `kept` is set. By all lanes of a warp.
template <typename Values, typename Commit, typename DepthScale>
__device__ __forceinline__ void commit_batch(const Commit &commit, unsigned kept, const tile_offset &origin,
                                             const DepthScale &depth_scale,
                                             const summed_batch<Values> &batch) {
    constexpr int C = Values::channels;
    const int lane = int(threadIdx.x % 32);
    __syncwarp();
    if (kept >> lane & 1) {
        const tile_splat &splat = batch.splat[lane];
        float field[Values::fields];
        fields_of(splat, origin, moments_at<Values>(batch.total[lane]), depth_scale(splat), field);
        commit.add(splat.index, field);
    }
    if constexpr (Values::has_rows)
        for (int j = lane / C; j < 32; j += 32 / C)
            if (kept >> j & 1) commit.add_color(batch.splat[j].index, lane % C, batch.total[j][3 + lane % C]);
}

} // namespace gs
