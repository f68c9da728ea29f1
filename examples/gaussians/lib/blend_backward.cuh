// SPDX-License-Identifier: MIT
// The backward blend (docs/math.md, section 3). One kernel body; a Commit takes the moments of a splat from
// the pixels to memory. A Commit is a plain value, passed to the kernel as an argument:
//
//     struct some_commit {
//         // true: all threads of a tile commit together; false: each warp by itself
//         static constexpr bool whole_tile;
//         // the shared memory that a tile needs
//         struct memory {};
//         // The maximum of `value` over the threads that commit together. By all of them.
//         __device__ int farthest(int value, memory &) const;
//         // Adds the values of all active threads to the moments of splat `index`, in the order of enum
//         // moment. By all threads that commit together, with the same index.
//         __device__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS], memory &) const;
//     };
//
// blend_commit.cuh and blend_fixed.cuh have those of libgs.
#ifndef GS_BLEND_BACKWARD_CUH
#define GS_BLEND_BACKWARD_CUH

#include "blend.cuh"
#include "launch.cuh"
#include "moments.cuh"
#include <distwar/lanes.cuh>
#include <type_traits>

namespace gs {

// The arguments of gs_render_backward.
struct backward_input {
    const gs_splat *splats;
    gs_lists lists;
    int width, height;
    color3 background;
    gs_image image;
    const float *color_gradient, *alpha_gradient;
};

__device__ __forceinline__ backward_input input_of_view(const backward_input &all, int view) {
    const int64_t plane = int64_t(all.width) * all.height;
    backward_input in = all;
    in.image = image_of_view(all.image, view, plane);
    in.color_gradient += view * GS_CHANNELS * plane;
    if (in.alpha_gradient) in.alpha_gradient += view * plane;
    return in;
}

// Every splat reaches it.
__device__ constexpr rectangle everywhere = {-INFINITY, -INFINITY, INFINITY, INFINITY};

// The state of a thread's pixels between two list entries.
template <int Pixels>
struct backward_state {
    float transmittance[Pixels];
    float light
        [Pixels]; // B of docs/math.md: colour from behind, per unit of light that gets there, dot d_color
    color3 d_color[Pixels];
    int n_contrib[Pixels]; // 0 outside the image
};

// Adds the moments of entries first .. last - 1 of the tile's list.
// Backwards, `state` is the one behind entry last - 1 and becomes the one in front of entry `first`. Forwards
// it is the one in front of `first` and becomes the one behind last - 1.
// All threads that commit together stay in the loop and call commit.add with the same splat. There is no
// branch for a single pixel: where a splat does not count, its alpha is 0, which changes nothing.
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
            float value[GS_MOMENTS] = {};
            float sum = 0, sum_p = 0, sum_pp = 0; // of h, p h, p^2 h
            float e0 = 0, e1 = 0;                 // at the first pixel
            bool active = false;
            const auto add_pixels = [&](auto may_clamp) {
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    coverage c;
                    const bool counts =
                        covers<decltype(may_clamp)::value>(splat, mine.x, mine.y + row_step * p, &c) &
                        (place < state.n_contrib[p]);
                    active |= counts;
                    const float alpha = counts ? c.alpha : 0;
                    const color3 &d_color = state.d_color[p];
                    float &transmittance = state.transmittance[p], &light = state.light[p];
                    const float difference = dot(splat.color, d_color) - light;
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
                    for_channels([&](int k) {
                        value[MOMENT_COLOR + k] = fmaf(weight, d_color.at[k], value[MOMENT_COLOR + k]);
                    });
                    // A thread's pixels are in one column, row_step apart: pixel p has e + p step, with e at
                    // the first. So the sums of h, p h and p^2 h give all moments with e.
                    const float h = c.clamped ? 0 : weight * d_alpha, ph = float(p) * h;
                    sum += h;
                    sum_p += ph;
                    sum_pp = fmaf(float(p), ph, sum_pp);
                    if (p == 0) e0 = c.e0, e1 = c.e1;
                }
            };
            // Most splats are clamped nowhere. With four pixels this saves more than the branch costs.
            if (Pixels == 4 && splat.log2_opacity < never_clamped)
                add_pixels(std::false_type{});
            else
                add_pixels(std::true_type{});
            const float step0 = row_step * splat.whiten[1], step1 = row_step * splat.whiten[2];
            const float p_e0 = fmaf(step0, sum_pp, e0 * sum_p), p_e1 = fmaf(step1, sum_pp, e1 * sum_p);
            const float h_e0 = fmaf(step0, sum_p, e0 * sum), h_e1 = fmaf(step1, sum_p, e1 * sum);
            value[MOMENT_H] = sum;
            value[MOMENT_H_E0] = h_e0;
            value[MOMENT_H_E1] = h_e1;
            value[MOMENT_H_E0E0] = fmaf(step0, p_e0, e0 * h_e0);
            value[MOMENT_H_E0E1] = fmaf(step1, p_e0, e1 * h_e0);
            value[MOMENT_H_E1E1] = fmaf(step1, p_e1, e1 * h_e1);
            commit.add(active, batch.index[j], value, memory);
        }
    }
}

// A block a tile. Split: the first in.lists.split_tiles tiles of the order have two blocks each, which halve
// the list. The even block goes backwards from the end of the list, from the final transmittance. The odd
// block goes forwards from entry 0, from transmittance 1 and the finished pixel. Neither waits for the other,
// and the forward blend stores nothing extra.
//
// Example: split_tiles = 2, tile_order = {7, 4, 9, ...}. Blocks 0 and 1 work on tile 7, 2 and 3 on tile 4,
// block 4 on tile 9 (ordered_tile(4 - 2)). In tile 7 the last entry that counted at any pixel is number 149,
// so farthest = 150 and middle = (150 + 32) / 64 * 32 = 64, a multiple of 32: a batch is never shared. Block
// 0 adds entries 149 .. 64, batches of 32, 32 and 22 from the end; block 1 adds entries 0 .. 63. With
// the strategy block farthest is the tile's; otherwise each warp halves by its own.
//
// Batch: several views. Then Split always, to compile fewer kernels.
template <typename Commit, int Pixels, bool Split, bool Batch>
__global__ void __launch_bounds__(tile_threads<Pixels>)
    render_backward_kernel(const backward_input input, const Commit commit) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    __shared__ typename Commit::memory memory;
    splat_batch &batch = batches[threadIdx.x / 32];
    const int block = int(blockIdx.x), split_tiles = Split ? input.lists.split_tiles : 0;
    const bool split = block < 2 * split_tiles, forwards = split && block % 2 == 1;
    const int tile = ordered_tile(input.lists, split ? block / 2 : block - split_tiles);
    const backward_input in = Batch ? input_of_view(input, view_of_tile(input.lists, tile)) : input;
    const patch<Pixels> mine = patch_of_tile<Pixels, Batch>(in.lists, tile, in.width, in.height);

    backward_state<Pixels> state;
    int farthest = 0;
    const int64_t plane = int64_t(in.width) * in.height;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        state.transmittance[p] = 1;
        state.light[p] = 0;
        state.d_color[p] = {};
        state.n_contrib[p] = 0;
        const int y = mine.y + row_step * p;
        if (mine.x >= in.width || y >= in.height) continue;
        const int64_t i = int64_t(y) * in.width + mine.x;
        const color3 d_color = pixel_of(in.color_gradient, plane, i);
        const float behind = in.image.transmittance[i];
        // The state where this block begins.
        state.transmittance[p] = forwards ? 1 : behind;
        state.light[p] =
            forwards ? dot(pixel_of(in.image.color, plane, i).at, d_color) : dot(in.background.at, d_color);
        if (in.alpha_gradient) state.light[p] -= (forwards ? behind : 1) * in.alpha_gradient[i];
        state.d_color[p] = d_color;
        state.n_contrib[p] = int(in.image.n_contrib[i]);
        farthest = max(farthest, state.n_contrib[p]);
    }
    farthest = commit.farthest(farthest, memory);
    const int middle = split ? (farthest + 32) / 64 * 32 : 0; // a multiple of a batch
    if (Split && forwards)
        add_moments<true>(in, commit, mine, 0, middle, state, batch, memory);
    else
        add_moments<false>(in, commit, mine, middle, farthest, state, batch, memory);
}

// Queues the kernel for the whole image with lists.pixels_per_thread pixels a thread (1, 2 or 4). Adds to the
// commit's memory. The caller has checked the input.
template <typename Commit>
cudaError_t launch_render_backward(gs_stream stream, const backward_input &input, const Commit &commit) {
    using kernel = void (*)(const backward_input, const Commit);
    static const kernel kernels[3][3] = {
        {render_backward_kernel<Commit, 1, false, false>, render_backward_kernel<Commit, 1, true, false>,
         render_backward_kernel<Commit, 1, true, true>},
        {render_backward_kernel<Commit, 2, false, false>, render_backward_kernel<Commit, 2, true, false>,
         render_backward_kernel<Commit, 2, true, true>},
        {render_backward_kernel<Commit, 4, false, false>, render_backward_kernel<Commit, 4, true, false>,
         render_backward_kernel<Commit, 4, true, true>}};
    const gs_lists &lists = input.lists;
    return launch(stream, unsigned(tiles_in(lists) + lists.split_tiles),
                  unsigned(tile_pixels / lists.pixels_per_thread),
                  kernels[lists.pixels_per_thread / 2][lists.views > 1 ? 2 : lists.split_tiles > 0], input,
                  commit);
}

} // namespace gs

#endif
