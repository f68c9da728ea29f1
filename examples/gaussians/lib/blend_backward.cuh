// SPDX-License-Identifier: MIT
// The backward blend (docs/developers/math.md, section 3). One kernel body; a Commit takes the moments of a splat from
// the pixels to memory. A Commit is a plain value, passed to the kernel as an argument:
//
//     struct some_commit {
//         // true: the blend sums over a warp, a batch of splats at a time (totals, below), and each lane commits one
//         //       splat's sums
//         // false: each thread commits its own values, one splat after another; for comparison only, with fewer kernels
//         static constexpr bool by_batch;
//         // The threads that commit together: a tile's; false: a warp's
//         static constexpr bool whole_tile;
//         // the shared memory that a tile needs
//         struct memory {};
//         // Adds the values of all active threads to the first K fields of the moments of splat `index`. by_batch: by any
//         // lanes, each with an index of its own. Else by all threads that commit together, with the same index.
//         template <int K>
//         __device__ void add(bool active, uint32_t index, const float (&field)[K], memory &) const;
//
//         // by_batch: whether the blend shall sum over the warp for this splat; if not, each active lane adds its own.
//         // By all lanes.
//         __device__ bool warp_sums(bool active) const;
//         // by_batch: adds to a channel of a row of colours. By one lane.
//         __device__ void add_color(uint32_t index, int channel, float value) const;
//     };
//
// From top to bottom: totals of a warp, the Commits of libdistwar_gs, the kernel. blend_backward.cu calls it.
#pragma once

#include "blend.cuh"
#include "launch.cuh"
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>
#include <distwar/reduce.cuh>
#include <distwar/tree.cuh>

namespace gs {

// ---- totals ----

// A warp's sums of a splat: from each thread's pixels to the fields of gs_splat_grad (math.md, section 3).
//
// A thread sums h, and h times the row and its square, over its pixels. The warp's moments about the middle of its pixels
// follow from these: times the row before the four lanes of a column are summed, times the column after that. They are
// kept for a batch of splats. Then each lane turns one splat's into the fields of gs_splat_grad, and commits them.

// Returns `value`, and keeps nvcc from computing it again at each use.
template <typename T>
GS_DEVICE T kept_in_register(T value) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float>)
        asm volatile("" : "+f"(value));
    else
        asm volatile("" : "+r"(value));
#endif
    return value;
}
// Returns `object`, in shared memory, and keeps its address likewise.
template <typename T>
GS_DEVICE T &kept_address(T &object) {
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
// The position in a row of the lane's first total; of a lane that has none the row's end, which nobody reads.
template <typename Values>
GS_DEVICE int position_of_lane() {
    const int lane = int(threadIdx.x % 32), position = 4 * (lane % 8) + lane / 8;
    return kept_in_register(min(position, totals_layout<Values>::stride - 1));
}

// The middle of the warp's pixels, from the tile's. Nearer to small splats that the warp sees than the tile's, so that
// less is lost where moments about it become moments about a splat's mean.
template <int Pixels>
GS_DEVICE float2 origin_of(const patch<Pixels> &mine) {
    const rectangle &c = mine.centres;
    return {0.5f * (c.left + c.right) - mine.middle[0],
            (0.5f * (c.top + c.bottom) - mine.middle[1]) / row_step};
}
// The thread's pixel Pixels / 4, from there.
template <int Pixels>
GS_DEVICE float2 from_origin(const patch<Pixels> &mine) {
    const float2 origin = origin_of(mine);
    return {kept_in_register(mine.column[0] - origin.x),
            kept_in_register(mine.column[1] + float(mine.row + Pixels / 4) - origin.y)};
}

// The moments of a thread's pixels.
template <typename Values>
GS_DEVICE tile_moments<Values> moments_of_thread(const float2 &from_origin, const pixel_sums<Values> &sums) {
    const float x = from_origin.x, y = from_origin.y;
    tile_moments<Values> m;
    m.h = sums.h, m.yh = fmaf(y, m.h, sums.qh), m.yyh = fmaf(y, sums.qh + m.yh, sums.qqh);
    m.xh = x * m.h, m.xyh = x * m.yh, m.xxh = x * m.xh;
    DISTWAR_UNROLL
    for (int k = 0; k < Values::others; k++) m.other[k] = sums.other[k];
    return m;
}

// Keeps the sums over the warp in a row of summed_batch.total. By all lanes. row: its place at position_of_lane(); a
// lane's totals are 32 places apart.
template <typename Values>
GS_DEVICE void keep_sum_of_warp(const float2 &from_origin, const pixel_sums<Values> &sums, int position,
                                float *row) {
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

// The fields of gs_splat_grad. depth_scale: the gradient by the splat's depth over that by its depth as the image sums it.
template <typename Values>
GS_DEVICE void fields_of(const tile_splat &splat, const float2 &origin, const tile_moments<Values> &m,
                         float depth_scale, float (&field)[Values::fields]) {
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
GS_DEVICE void commit_batch(const Commit &commit, unsigned kept, const float2 &origin,
                            const DepthScale &depth_scale, const summed_batch<Values> &batch,
                            typename Commit::memory &memory) {
    constexpr int C = Values::channels;
    const int lane = int(threadIdx.x % 32);
    __syncwarp();
    if (kept >> lane & 1) {
        using layout = totals_layout<Values>;
        const tile_splat &splat = batch.splat[lane];
        const float *const total = batch.total[lane];
        tile_moments<Values> m;
        m.h = total[0], m.yh = total[1], m.yyh = total[2];
        m.xh = total[layout::xh], m.xyh = total[layout::xh + 1], m.xxh = total[layout::xxh];
        DISTWAR_UNROLL
        for (int k = 0; k < Values::others; k++) m.other[k] = total[3 + k];
        float field[Values::fields];
        fields_of(splat, origin, m, depth_scale(splat), field);
        commit.add(true, splat.index, field, memory);
    }
    if constexpr (Values::has_rows)
        for (int j = lane / C; j < 32; j += 32 / C)
            if (kept >> j & 1) commit.add_color(batch.splat[j].index, lane % C, batch.total[j][3 + lane % C]);
}

// ---- the Commits of libdistwar_gs ----

// Each warp sums; its sums are committed a batch at a time. Splats that fewer lanes than the threshold count at are
// added by each of these lanes.
struct tree_commit {
    pass_sums<float> sums;
    int balance_threshold; // at least 1

    static constexpr bool by_batch = true, whole_tile = false;
    struct memory {};

    GS_DEVICE bool warp_sums(bool active) const {
        return __popc(__ballot_sync(full_warp, active)) >= balance_threshold;
    }
    template <int K>
    GS_DEVICE void add(bool active, uint32_t index, const float (&field)[K], memory &) const {
        if (active) distwar::aligned_record{sums.splat_grad, GS_SPLAT_GRAD_STRIDE}.add(index, field);
    }
    GS_DEVICE void add_color(uint32_t index, int channel, float value) const {
        sums.add_color(index, channel, value);
    }
};

// Each warp adds its own sums, by one of the library's strategies.
template <distwar::strategy Strategy>
struct warp_commit {
    pass_sums<float> sums;
    int balance_threshold;

    static constexpr bool by_batch = false, whole_tile = false;
    struct memory {};

    template <int K>
    GS_DEVICE void add(bool active, uint32_t index, const float (&field)[K], memory &) const {
        distwar::reduce<Strategy>(distwar::all_lanes, active, distwar::uniform_key{index}, field,
                                  distwar::record{sums.splat_grad, GS_SPLAT_GRAD_STRIDE}, balance_threshold);
    }
};

// One sum over the whole tile in shared memory, then a compare-and-swap for each value.
template <typename Values>
struct tile_commit {
    pass_sums<float> sums;
    float limit; // of the size of each thread's part of a sum; INFINITY: none

    static constexpr bool by_batch = false, whole_tile = true;
    struct memory {
        distwar::block_sum_memory<Values::fields, Values::most_threads> sum;
        int farthest;
    };

    GS_DEVICE void add(bool active, uint32_t index, const float (&field)[Values::fields],
                       memory &shared) const {
        if (!__syncthreads_or(active)) return;
        float sum[Values::fields];
        distwar::block_sum(field, shared.sum, sum, limit);
        if (distwar::block_rank() != 0) return;
        for (int k = 0; k < Values::fields; k++)
            distwar::atomic_update(sums.place(index, k), sum[k], distwar::add{});
    }
};

// ---- fixed ----

// The strategy fixed: moments with the same bits in every run. A warp sums floats in a fixed order. From
// warps on, the sums are 64-bit integers, so the order of the atomics does not matter.
//
// The scale of each moment is a power of two, chosen so that no sum can overflow: math.md, section 3, has
// the bounds of the sums. Each bound is scaled to below 2^56 units, which leaves a factor of 128 to the range
// of a 64-bit integer. A gradient that is not finite, or a value above 2^57 units, raises a flag. With the flag
// all moments become NaN; a wrong sum is never returned.

namespace fixed {

constexpr int threads = 256, most_blocks = threads; // one block sums the parts of all blocks
constexpr int log2_adds = 6;                        // of to_fixed: a single value may have 2^57 units

// Over one block's part of the image and of the splats.
struct bounds {
    double d_color, d_depth, d_alpha; // sums of absolute values
    float largest_color, largest_depth;
};

// In the context's memory. The integer sums, [count][GS_SPLAT_GRAD_STRIDE], follow the header, then those of colours,
// [count][channels], unless these are in the moments.
struct header {
    float scale[GS_SPLAT_GRAD_STRIDE]; // units per 1.0, of each moment
    unsigned flag;                     // of distwar::fixed_flag
    bounds of_block[most_blocks];
};

struct sums_memory {
    header *head;
    long long *sums;
    size_t bytes; // of both
};

inline gs_status place_sums(block_layout *layout, int64_t count, int channels, sums_memory *out) {
    const size_t values = size_t(GS_SPLAT_GRAD_STRIDE + (channels == GS_CHANNELS ? 0 : channels));
    layout_add(layout, 1, &out->head);
    layout_add(layout, size_t(count) * values, &out->sums);
    out->bytes = layout->bytes;
    return GS_OK;
}

// Of the context, until its next call.
inline gs_status sums_of(const char *function, int64_t count, int channels, gs_context *context,
                         sums_memory *out) {
    return libgs_place(function, context, CONTEXT_SCRATCH,
                       [=](block_layout *layout) { return place_sums(layout, count, channels, out); });
}

// The least float that is not below a sum.
__device__ inline float at_least(double sum) {
    const float bound = float(sum);
    return double(bound) < sum ? nextafterf(bound, INFINITY) : bound;
}

// Fields of gs_splat_grad that are summed; the first ones.
inline int summed_moments(const gs_gradient &gradient) {
    return gradient.abs_mean2d ? GS_SPLAT_GRAD_STRIDE
           : gradient.depth    ? int(MOMENT_DEPTH) + 1
                               : GS_SPLAT_GRAD_SUMS;
}

} // namespace fixed

// tree_commit with threshold 1, on integers.
struct fixed_commit {
    pass_sums<long long> sums;
    fixed::header *header;

    static constexpr bool by_batch = true, whole_tile = false;
    struct memory {};

    GS_DEVICE bool warp_sums(bool active) const { return __any_sync(full_warp, active); }
    GS_DEVICE long long units(float value, int field) const {
        unsigned flags = 0;
        const long long units = distwar::to_fixed<fixed::log2_adds>(value, header->scale[field], flags);
        if (flags != 0) atomicOr(&header->flag, flags);
        return units;
    }
    template <int K>
    GS_DEVICE void add(bool active, uint32_t index, const float (&field)[K], memory &) const {
        if (!active) return;
        DISTWAR_UNROLL
        for (int k = 0; k < K; k++) distwar::atomic_add(sums.place(index, k), units(field[k], k));
    }
    GS_DEVICE void add_color(uint32_t index, int channel, float value) const {
        sums.add_color(index, channel, units(value, MOMENT_COLOR));
    }
};

// ---- the kernel ----

// What only some passes read. The plain pass has no members for it: with more or larger arguments nvcc keeps
// less of what its loop needs in registers.
template <bool HasRows>
struct row_input {
    color_rows rows;
};
template <>
struct row_input<false> {
    static constexpr color_rows rows = {nullptr, 0, GS_CHANNELS};
};
template <bool HasDepth>
struct depth_input {
    const float *depth, *depth_gradient; // of the image; the gradient may be NULL
    depth_form form;
};
template <>
struct depth_input<false> {};

// The arguments of gs_render_backward, for a pass: `color` and color_gradient begin at its channel 0.
template <typename Values = plain_values>
struct backward_input : row_input<Values::has_rows>, depth_input<Values::has_depth> {
    const gs_splat *splats;
    gs_tile_ranges ranges;
    int width, height;
    channel_values<Values::channels> background;
    const float *color, *transmittance; // of the image
    const uint32_t *n_contrib;
    const float *color_gradient, *alpha_gradient;
};

template <typename Values>
GS_DEVICE backward_input<Values> input_of_view(const backward_input<Values> &all, int view) {
    const int64_t first = view * (int64_t(all.width) * all.height);
    backward_input<Values> in = all;
    if (in.color) in.color += GS_CHANNELS * first;
    in.transmittance += first;
    in.n_contrib += first;
    in.color_gradient += GS_CHANNELS * first;
    if (in.alpha_gradient) in.alpha_gradient += first;
    if constexpr (Values::has_depth) {
        if (in.depth) in.depth += first;
        if (in.depth_gradient) in.depth_gradient += first;
    }
    return in;
}

// The state of a thread's pixels between two list entries.
template <int Pixels, int Channels>
struct backward_state {
    float transmittance[Pixels];
    float light
        [Pixels]; // B of docs/developers/math.md: colour from behind, per unit of light there, dot d_color
    channel_values<Channels> d_color[Pixels];
    float d_depth[Pixels]; // unused without depth
    int n_contrib[Pixels]; // 0 outside the image
};

// Sums a splat over a thread's pixels, whose state moves past it. sums: 0 before. Result: whether the splat counts
// at any of the pixels. The same function for every Commit: where the compiler does not inline, it compiles it once.
// There is no branch for a single pixel: where a splat does not count, its alpha is 0, which changes nothing.
template <typename Values, bool Forwards, int Pixels, int Channels>
GS_DEVICE bool pixel_sums_of(const backward_input<Values> &in, const patch<Pixels> &mine,
                             const tile_splat &splat, const float *color,
                             backward_state<Pixels, Channels> &state, pixel_sums<Values> &sums) {
    const splat_column column = column_of(splat, mine);
    float h_of[Pixels]; // gradient by log alpha
    bool active = false;
    float depth = 0; // unused without depth
    if constexpr (Values::has_depth) depth = summed_depth(in.splats[splat.index].depth, in.form.inverse);
    const auto add_pixels = [&](auto may_clamp) {
        DISTWAR_UNROLL
        for (int p = 0; p < Pixels; p++) {
            coverage c;
            const bool counts = covers<decltype(may_clamp)::value>(splat, column, mine, p, &c) &
                                (splat.place < state.n_contrib[p]);
            active |= counts;
            const float alpha = counts ? c.alpha : 0;
            const channel_values<Channels> &d_color = state.d_color[p];
            float &transmittance = state.transmittance[p], &light = state.light[p];
            float difference = -light; // from there to the splat's colour dot d_color
            for_channels<Channels>([&](int k) { difference = fmaf(color[k], d_color.at[k], difference); });
            if constexpr (Values::has_depth) difference = fmaf(depth, state.d_depth[p], difference);
            float weight;  // T alpha, with T in front of the splat
            float d_alpha; // gradient by alpha, over T
            if constexpr (Forwards) {
                weight = transmittance * alpha;
                transmittance = __fmul_rn(transmittance, 1 - alpha);
                d_alpha = __fdividef(difference, 1 - alpha);
                light += counts ? difference - d_alpha : 0;
            } else {
                transmittance = __fdividef(transmittance, 1 - alpha);
                weight = transmittance * alpha;
                d_alpha = difference;
                light = fmaf(alpha, difference, light);
            }
            for_channels<Channels>(
                [&](int k) { sums.other[k] = fmaf(weight, d_color.at[k], sums.other[k]); });
            if constexpr (Values::has_depth)
                sums.other[Channels] = fmaf(weight, state.d_depth[p], sums.other[Channels]);
            const float h = h_of[p] = c.clamped ? 0 : weight * d_alpha;
            if constexpr (Values::has_absolute) {
                // nvcc keeps additions of 0 and products by it: a NaN would show.
                const float row = float(mine.row + p);
                const bool second = Pixels == 4 && p == 1;
                const float e0 = second ? column.e[0] : fmaf(row, splat.down[0], column.e[0]);
                const float slope = second ? column.slope : fmaf(row, splat.curve, column.slope);
                float &x = sums.other[Values::others - 2], &y = sums.other[Values::others - 1];
                x = p == 0 ? fabsf(h * e0) : x + fabsf(h * e0);
                y = p == 0 ? fabsf(h * slope) : y + fabsf(h * slope);
            }
        }
    };
    // Most splats are clamped nowhere. With four pixels this saves more than the branch costs.
    if (Pixels == 4 && splat.log2_opacity < never_clamped)
        add_pixels(std::false_type{});
    else
        add_pixels(std::true_type{});
    sums.h = h_of[0], sums.qh = 0, sums.qqh = 0;
    if constexpr (Pixels == 2) {
        sums.qh = sums.qqh = h_of[1];
        sums.h += h_of[1];
    } else if constexpr (Pixels == 4) {
        const float odd = h_of[0] + h_of[2];
        sums.h = odd + h_of[1] + h_of[3];
        sums.qh = fmaf(2, h_of[3], h_of[2] - h_of[0]);
        sums.qqh = fmaf(4, h_of[3], odd);
    }
    return active;
}

// The gradient by a splat's depth over that by its depth as the image sums it.
template <typename Values>
GS_DEVICE float depth_scale(const backward_input<Values> &in, const tile_splat &splat) {
    if constexpr (Values::has_depth) {
        const float depth = summed_depth(in.splats[splat.index].depth, in.form.inverse);
        return in.form.inverse ? -depth * depth : 1;
    }
    return 1;
}

// Adds the moments of entries first .. last - 1 of the tile's list.
// Backwards, `state` is the one behind entry last - 1 and becomes the one in front of entry `first`. Forwards
// it is the one in front of `first` and becomes the one behind last - 1.
// All threads that commit together stay in the loop and call commit.add with the same splat.
template <typename Values, bool Forwards, typename Commit, int Pixels, int Channels, typename Batch>
GS_DEVICE void add_moments(const backward_input<Values> &in, const Commit &commit, const patch<Pixels> &mine,
                           int first, int last, backward_state<Pixels, Channels> &state, Batch &batch,
                           typename Commit::memory &memory) {
    const uint32_t *list = in.ranges.splat_index + in.ranges.tile_begin[mine.tile];
    const int lane = int(threadIdx.x % 32), position = position_of_lane<Values>();
    const float2 origin = origin_of(mine), from_it = from_origin(mine);
    const auto scale = [&](const tile_splat &splat) { return depth_scale(in, splat); };
    list_reader<Pixels == 1 ? 2 : 0> reader(in.splats, list, Forwards ? first + lane : last - 1 - lane,
                                            Forwards ? 32 : -32, last - first - lane);
    for (int done = 0; done < last - first; done += 32) {
        const int start = Forwards ? first + done : last - 1 - done; // the entry of lane 0
        const int entry = Forwards ? start + lane : start - lane;
        const bool has_entry = Forwards ? entry < last : entry >= first;
        const auto wants = [&](const splat_reach &reach) {
            return unsigned(Commit::whole_tile || reaches(reach, mine.centres));
        };
        const uint32_t index = reader.index(entry, has_entry);
        const auto bring = [&] { return reader.take(entry, index); };
        const int count = fill_batch(bring, index, entry, has_entry, mine, wants, batch);
        if constexpr (Values::has_rows) fill_colors<Channels>(in.rows, count, batch);
        unsigned kept = count < 32 ? (1u << count) - 1 : ~0u; // splats whose sums are kept in the batch
        float *row = nullptr;
        if constexpr (Commit::by_batch) row = &batch.total[0][position];
        for (int j = 0; j < count; j++, row += Commit::by_batch ? totals_layout<Values>::stride : 0) {
            const tile_splat splat = batch.splat[j];
            const float *const color = color_of<Channels>(splat, batch, j);
            pixel_sums<Values> sums = {};
            const bool active = pixel_sums_of<Values, Forwards>(in, mine, splat, color, state, sums);
            float field[Values::fields];
            if constexpr (!Commit::by_batch) {
                fields_of(splat, origin, moments_of_thread(from_it, sums), scale(splat), field);
                commit.add(active, splat.index, field, memory);
            } else if (commit.warp_sums(active)) {
                keep_sum_of_warp(from_it, sums, position, row);
            } else {
                kept &= ~(1u << j);
                if (!active) continue;
                const tile_splat &again = batch.splat[j]; // not `splat`, which would stay in registers
                fields_of(again, origin, moments_of_thread(from_it, sums), scale(again), field);
                commit.add(true, again.index, field, memory);
                if constexpr (Values::has_rows)
                    for_channels<Channels>([&](int c) { commit.add_color(again.index, c, sums.other[c]); });
            }
        }
        if constexpr (Commit::by_batch) commit_batch(commit, kept, origin, scale, batch, memory);
    }
}

// The gradient by the sum of weight times depth at pixel i. Adds the depth's part to the light where the block
// begins. Normalised: depth = sum / alpha, so the gradient by alpha is -depth / alpha times that by depth.
template <typename Values>
GS_DEVICE float begin_depth(const backward_input<Values> &in, int64_t i, bool forwards, float *light) {
    const float d_depth = in.depth_gradient[i], behind = in.transmittance[i];
    const float weighted = forwards || in.form.normalized ? d_depth * in.depth[i] : 0;
    if (forwards) *light += weighted;
    if (!in.form.normalized) return d_depth;
    const float inv_alpha = behind < 1 ? __fdividef(1, 1 - behind) : 0; // alpha 0: no splat counts here
    *light += (forwards ? behind : 1) * weighted * inv_alpha;
    return d_depth * inv_alpha;
}

// Blocks per multiprocessor that registers leave room for; 0: as ptxas chooses. Measured (docs/notes/rasteriser.md).
template <typename Values, int Pixels>
constexpr int least_blocks = Pixels == 4                            ? 12
                             : std::is_same_v<Values, plain_values> ? 1
                                                                    : 0;

// Adds the moments of a patch of a tile; split (only if Split): of half its list. The half that goes backwards begins at
// the end, from the final transmittance; the one that goes forwards at entry 0, from transmittance 1 and the finished
// pixel. Neither waits for the other, and the forward blend stores nothing extra. By all threads that commit together.
//
// Example: the last entry that counted at any pixel of the patch is number 149, so farthest = 150 and middle = (150 + 32) /
// 64 * 32 = 64, a multiple of 32: a batch is never shared. Backwards entries 149 .. 64 are added, batches of 32, 32 and 22
// from the end; forwards entries 0 .. 63. With the strategy block farthest is the tile's; otherwise each patch's own.
template <int Pixels, bool Split, typename Values, typename Commit, typename Batch>
GS_DEVICE void add_patch(const backward_input<Values> &input, const Commit &commit, int tile, int warp,
                         bool split, bool forwards, Batch &batch, typename Commit::memory &memory) {
    constexpr int C = Values::channels;
    constexpr bool has_views = !Values::has_rows; // a pass with rows of colours takes one view
    const backward_input<Values> in =
        has_views ? input_of_view(input, view_of_tile(input.ranges, tile)) : input;
    const patch<Pixels> mine = patch_of_tile<Pixels, has_views>(in.ranges, tile, warp, in.width, in.height);

    backward_state<Pixels, C> state;
    int farthest = 0;
    const int64_t plane = int64_t(in.width) * in.height;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        state.transmittance[p] = 1;
        state.light[p] = 0;
        state.d_color[p] = {};
        if constexpr (Values::has_depth) state.d_depth[p] = 0;
        state.n_contrib[p] = 0;
        const int y = mine.y + row_step * p;
        if (mine.x >= in.width || y >= in.height) continue;
        const int64_t i = int64_t(y) * in.width + mine.x;
        state.n_contrib[p] = int(in.n_contrib[i]);
        if (state.n_contrib[p] == 0) continue; // whatever its gradient, splats get 0 from it
        const channel_values<C> d_color = pixel_of<C>(in.color_gradient, plane, i, in.rows.used);
        const float behind = in.transmittance[i];
        // The state where this block begins.
        state.transmittance[p] = forwards ? 1 : behind;
        state.light[p] = forwards ? dot(pixel_of<C>(in.color, plane, i, in.rows.used).at, d_color)
                                  : dot(in.background.at, d_color);
        if (in.alpha_gradient) state.light[p] -= (forwards ? behind : 1) * in.alpha_gradient[i];
        if constexpr (Values::has_depth) {
            if (in.depth_gradient) state.d_depth[p] = begin_depth(in, i, forwards, &state.light[p]);
        }
        state.d_color[p] = d_color;
        farthest = max(farthest, state.n_contrib[p]);
    }
    if constexpr (Commit::whole_tile) { // the most over the threads that commit together
        if (threadIdx.x == 0) memory.farthest = 0;
        __syncthreads();
        if (farthest > 0) atomicMax(&memory.farthest, farthest);
        __syncthreads();
        farthest = memory.farthest;
    } else {
        farthest = warp_max(farthest);
    }
    const int middle = split ? (farthest + 32) / 64 * 32 : 0; // a multiple of a batch
    if (Split && forwards)
        add_moments<Values, true>(in, commit, mine, 0, middle, state, batch, memory);
    else
        add_moments<Values, false>(in, commit, mine, middle, farthest, state, batch, memory);
}

// Pixels per thread of long tiles: with four pixels everywhere else, two, so that the GPU waits less for them.
template <typename Commit, int Pixels>
constexpr int long_tile_pixels = Pixels == 4 && Commit::by_batch ? 2 : Pixels;

// One block per tile. Split: the first ranges.split_tiles tiles of the order have blocks for either half of their lists, and
// if they have fewer pixels per thread, for either half of the tile. Example: split_tiles = 2, tile_order = {7, 4, 9, ...},
// two pixels per thread. Blocks 0 and 1 work on tile 7, 2 and 3 on tile 4, block 4 on tile 9.
//
// One kernel for one view and for several: with one of its own for one view the loop has the same instructions.
template <typename Values, typename Commit, int Pixels, bool Split>
__global__ void __launch_bounds__(tile_threads<Pixels>, least_blocks<Values, Pixels>)
    render_backward_kernel(const backward_input<Values> input, const Commit commit) {
    constexpr int P = long_tile_pixels<Commit, Pixels>, warps = tile_warps<Pixels>;
    constexpr int blocks_of_long_tile = 2 * Pixels / P;
    using batch_type =
        std::conditional_t<Commit::by_batch, summed_batch<Values>, blend_batch<Values::channels>>;
    __shared__ batch_type batches[warps];
    __shared__ typename Commit::memory memory;
    const int block = int(blockIdx.x), warp = int(threadIdx.x) / 32;
    batch_type &batch = kept_address(batches[warp]);
    const int long_tiles = Split ? input.ranges.split_tiles : 0;
    const bool is_long = block < blocks_of_long_tile * long_tiles;
    const int part = is_long ? block % blocks_of_long_tile : 0;
    const int tile = ordered_tile(input.ranges, is_long ? block / blocks_of_long_tile
                                                        : block - (blocks_of_long_tile - 1) * long_tiles);
    if constexpr (P == Pixels)
        add_patch<Pixels, Split>(input, commit, tile, warp, is_long, part == 1, batch, memory);
    else if (Split && is_long)
        add_patch<P, true>(input, commit, tile, part / 2 * warps + warp, true, part % 2 == 1, batch, memory);
    else
        add_patch<Pixels, false>(input, commit, tile, warp, false, false, batch, memory);
}

// Queues the kernel for the whole image with ranges.pixels_per_thread pixels per thread (1, 2 or 4), or 2 if the
// pass has no others. Adds to the commit's memory. The caller has checked the input.
template <typename Values = plain_values, typename Commit>
cudaError_t launch_render_backward(gs_stream stream, const backward_input<Values> &input,
                                   const Commit &commit) {
    const gs_tile_ranges &ranges = input.ranges;
    const auto queue = [&](auto pixels) {
        constexpr int P = decltype(pixels)::value;
        const auto run = [&](auto kernel) {
            constexpr int more_blocks = 2 * P / long_tile_pixels<Commit, P> - 1;
            return launch(stream, unsigned(tiles_in(ranges) + more_blocks * ranges.split_tiles),
                          unsigned(tile_threads<P>), kernel, input, commit);
        };
        // The plain pass has a kernel of its own for images without split tiles, which the other takes up to 19% longer.
        if constexpr (!Values::has_rows && !Values::has_depth && Commit::by_batch)
            if (ranges.split_tiles == 0) return run(render_backward_kernel<Values, Commit, P, false>);
        return run(render_backward_kernel<Values, Commit, P, true>);
    };
    if constexpr (Values::any_pixels) {
        if (ranges.pixels_per_thread == 1) return queue(std::integral_constant<int, 1>{});
        if (ranges.pixels_per_thread == 4) return queue(std::integral_constant<int, 4>{});
    }
    return queue(std::integral_constant<int, 2>{});
}

} // namespace gs
