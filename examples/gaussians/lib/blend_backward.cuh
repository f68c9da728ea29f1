// SPDX-License-Identifier: MIT
// The backward blend: one body, whatever way the moments of a splat take from the pixels to memory
// (docs/math.md, section 3). That way is a Commit, a plain value that the kernel gets as an argument:
//
//     struct some_commit {
//         static constexpr bool whole_tile; // what commits together: all threads of a tile, or those of a
//         warp struct memory {};                 // the shared memory that a tile needs for it
//         // The largest value among the threads that commit together; by all of them.
//         __device__ int farthest(int value, memory &) const;
//         // Adds the values of all active threads to the moments of splat `index`. By all threads that
//         // commit together, with the same index.
//         __device__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS], memory &) const;
//     };
//
// Those of libgs are in blend_commit.cuh.
#ifndef GS_BLEND_BACKWARD_CUH
#define GS_BLEND_BACKWARD_CUH

#include "blend.cuh"
#include "launch.cuh"
#include <distwar/lanes.cuh>
#include <type_traits>

// As gs_render_backward has them.
struct backward_input {
    const gs_splat *splats;
    gs_lists lists;
    int width, height;
    color3 background;
    gs_image image;
    const float *color_gradient, *alpha_gradient;
};

// A rectangle that every splat reaches.
__device__ constexpr rectangle everywhere = {-INFINITY, -INFINITY, INFINITY, INFINITY};

// Of a thread's pixels, between two splats. `light`: that which comes from beyond the place between the two,
// per unit that gets there, dotted with the pixel's gradient.
template <int Pixels>
struct backward_state {
    float transmittance[Pixels], light[Pixels];
    color3 gradient[Pixels];
    int consumed[Pixels]; // 0 outside the image
};

// Adds the moments of entries first .. last - 1 of the tile's list. Backwards, the state is that behind entry
// last - 1 and becomes that in front of entry `first`; forwards the other way round. All threads that commit
// together stay in the loop and come to commit.add with the same splat. Without branches for single pixels: a
// splat that does not count at one has alpha 0, which changes nothing.
template <bool Forwards, typename Commit, int Pixels>
__device__ __forceinline__ void
add_moments(const backward_input &in, const Commit &commit, const patch<Pixels> &mine, int first, int last,
            backward_state<Pixels> &state, splat_batch &batch, typename Commit::memory &memory) {
    const uint32_t *list = in.lists.splat_index + in.lists.tile_begin[mine.tile];
    const int lane = int(threadIdx.x % 32);
    for (int done = 0; done < last - first; done += 32) {
        const int start = Forwards ? first + done : last - 1 - done; // the entry of lane 0
        const int entry = Forwards ? start + lane : start - lane;
        unsigned rest = fill_batch(in.splats, list, entry, Forwards ? entry < last : entry >= first,
                                   Commit::whole_tile ? everywhere : mine.centres, batch);
        for (; rest != 0; rest &= rest - 1) {
            const int j = __ffs(int(rest)) - 1;
            const gs_splat splat = batch.splat[j];
            const int place = Forwards ? start + j : start - j;
            float value[GS_MOMENTS] = {}, sum = 0, sum_p = 0, sum_pp = 0, e0 = 0, e1 = 0;
            bool active = false;
            const auto add_pixels = [&](auto may_cut) {
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    coverage c;
                    const bool counts =
                        covers<decltype(may_cut)::value>(splat, mine.x, mine.y + row_step * p, &c) &
                        (place < state.consumed[p]);
                    active |= counts;
                    const float alpha = counts ? c.alpha : 0;
                    const color3 &by = state.gradient[p];
                    float &transmittance = state.transmittance[p], &light = state.light[p];
                    const float difference =
                        splat.color[0] * by.r + splat.color[1] * by.g + splat.color[2] * by.b - light;
                    float weight, by_alpha; // alpha times the transmittance in front; over that, dL/dalpha
                    if constexpr (Forwards) {
                        weight = transmittance * alpha;
                        transmittance = __fmul_rn(transmittance, 1 - alpha);
                        by_alpha = __fdividef(difference, 1 - alpha);
                        light += counts ? difference - by_alpha : 0;
                    } else {
                        transmittance = __fdividef(transmittance, 1 - alpha);
                        weight = transmittance * alpha;
                        by_alpha = difference;
                        light = fmaf(alpha, difference, light);
                    }
                    value[0] = fmaf(weight, by.r, value[0]);
                    value[1] = fmaf(weight, by.g, value[1]);
                    value[2] = fmaf(weight, by.b, value[2]);
                    // The pixels of a thread stand below one another: e = e of the first + p step. So three
                    // sums over p give all that have e.
                    const float h = c.cut ? 0 : weight * by_alpha, ph = float(p) * h;
                    sum += h;
                    sum_p += ph;
                    sum_pp = fmaf(float(p), ph, sum_pp);
                    if (p == 0) e0 = c.e0, e1 = c.e1;
                }
            };
            // Most splats are cut nowhere; with four pixels that saves more than the branch costs.
            if (Pixels == 4 && splat.log2_opacity < never_cut)
                add_pixels(std::false_type{});
            else
                add_pixels(std::true_type{});
            const float step0 = row_step * splat.whiten[1], step1 = row_step * splat.whiten[2];
            const float p_e0 = fmaf(step0, sum_pp, e0 * sum_p), p_e1 = fmaf(step1, sum_pp, e1 * sum_p);
            value[3] = sum;
            value[4] = fmaf(step0, sum_p, e0 * sum);
            value[5] = fmaf(step1, sum_p, e1 * sum);
            value[6] = fmaf(step0, p_e0, e0 * value[4]);
            value[7] = fmaf(step1, p_e0, e1 * value[4]);
            value[8] = fmaf(step1, p_e1, e1 * value[5]);
            commit.add(active, batch.index[j], value, memory);
        }
    }
}

// A block a tile. Split: the first in.lists.split_tiles tiles have two blocks that meet in the middle of what
// counted; one goes backwards from the final transmittance, the other forwards from 1 and the final colour,
// so that neither waits for the other, and nothing is kept for it.
template <typename Commit, int Pixels, bool Split>
__global__ void __launch_bounds__(tile_threads<Pixels>)
    render_backward_kernel(const backward_input in, const Commit commit) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    __shared__ typename Commit::memory memory;
    splat_batch &batch = batches[threadIdx.x / 32];
    const int block = int(blockIdx.x), split_tiles = Split ? in.lists.split_tiles : 0;
    const bool split = block < 2 * split_tiles, forwards = split && block % 2 == 1;
    const int tile = tile_in_turn(in.lists, split ? block / 2 : block - split_tiles);
    const patch<Pixels> mine = patch_of_warp<Pixels>(tile, in.lists.tiles_x, in.width, in.height);

    backward_state<Pixels> state;
    int farthest = 0;
    const int64_t plane = int64_t(in.width) * in.height;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        state.transmittance[p] = 1;
        state.light[p] = 0;
        state.gradient[p] = {0, 0, 0};
        state.consumed[p] = 0;
        const int y = mine.y + row_step * p;
        if (mine.x >= in.width || y >= in.height) continue;
        const int64_t i = int64_t(y) * in.width + mine.x;
        const color3 by = {in.color_gradient[i], in.color_gradient[i + plane],
                           in.color_gradient[i + 2 * plane]};
        const auto dot = [&](float r, float g, float b) { return r * by.r + g * by.g + b * by.b; };
        const float behind = in.image.transmittance[i];
        // Of all that is left where this block begins.
        state.transmittance[p] = forwards ? 1 : behind;
        state.light[p] =
            forwards ? dot(in.image.color[i], in.image.color[i + plane], in.image.color[i + 2 * plane])
                     : dot(in.background.r, in.background.g, in.background.b);
        if (in.alpha_gradient) state.light[p] -= (forwards ? behind : 1) * in.alpha_gradient[i];
        state.gradient[p] = by;
        state.consumed[p] = int(in.image.n_contrib[i]);
        farthest = max(farthest, state.consumed[p]);
    }
    farthest = commit.farthest(farthest, memory);
    const int middle = split ? (farthest + 32) / 64 * 32 : 0; // in whole batches
    if (Split && forwards)
        add_moments<true>(in, commit, mine, 0, middle, state, batch, memory);
    else
        add_moments<false>(in, commit, mine, middle, farthest, state, batch, memory);
}

// Queues the kernel for the whole image, with as many pixels a thread as the lists say (1, 2 or 4). The
// caller has checked the input; sums are added to what the commit's memory holds.
template <typename Commit>
cudaError_t launch_render_backward(gs_stream stream, const backward_input &input, const Commit &commit) {
    using kernel = void (*)(const backward_input, const Commit);
    static const kernel kernels[3][2] = {
        {render_backward_kernel<Commit, 1, false>, render_backward_kernel<Commit, 1, true>},
        {render_backward_kernel<Commit, 2, false>, render_backward_kernel<Commit, 2, true>},
        {render_backward_kernel<Commit, 4, false>, render_backward_kernel<Commit, 4, true>}};
    const gs_lists &lists = input.lists;
    return launch(stream, unsigned(lists.tiles_x * lists.tiles_y + lists.split_tiles),
                  unsigned(tile_pixels / lists.pixels_per_thread),
                  kernels[lists.pixels_per_thread / 2][lists.split_tiles > 0], input, commit);
}

#endif
