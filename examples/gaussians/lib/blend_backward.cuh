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

// All threads that commit together stay in the loop and come to commit.add with the same splat.
template <typename Commit, int Pixels>
__global__ void __launch_bounds__(tile_threads<Pixels>)
    render_backward_kernel(const backward_input in, const Commit commit) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    __shared__ typename Commit::memory memory;
    splat_batch &batch = batches[threadIdx.x / 32];
    const patch<Pixels> mine = patch_of_warp<Pixels>(in.lists.tiles_x, in.width, in.height);
    const int64_t begin = in.lists.tile_begin[mine.tile];

    float transmittance[Pixels], behind[Pixels]; // behind: what lies behind, dotted with the pixel's gradient
    color3 gradient[Pixels];
    int consumed[Pixels], farthest = 0;
    const int64_t plane = int64_t(in.width) * in.height;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        transmittance[p] = 1;
        behind[p] = 0;
        gradient[p] = {0, 0, 0};
        consumed[p] = 0;
        const int y = mine.y + row_step * p;
        if (mine.x >= in.width || y >= in.height) continue;
        const int64_t i = int64_t(y) * in.width + mine.x;
        gradient[p] = {in.color_gradient[i], in.color_gradient[i + plane], in.color_gradient[i + 2 * plane]};
        behind[p] = in.background.r * gradient[p].r + in.background.g * gradient[p].g +
                    in.background.b * gradient[p].b;
        if (in.alpha_gradient) behind[p] -= in.alpha_gradient[i];
        transmittance[p] = in.image.transmittance[i];
        consumed[p] = int(in.image.consumed[i]);
        farthest = max(farthest, consumed[p]);
    }

    // Backwards from the farthest entry that counted.
    for (int top = commit.farthest(farthest, memory); top > 0; top -= 32) {
        const int entry = top - 1 - int(threadIdx.x % 32);
        unsigned rest = fill_batch(in.splats, in.lists.splat_index + begin, entry, entry >= 0,
                                   Commit::whole_tile ? everywhere : mine.centres, batch);
        for (; rest != 0; rest &= rest - 1) {
            const int j = __ffs(int(rest)) - 1;
            const gs_splat splat = batch.splat[j];
            float value[GS_MOMENTS] = {};
            bool active = false;
            DISTWAR_UNROLL
            for (int p = 0; p < Pixels; p++) {
                coverage c;
                if (top - 1 - j >= consumed[p] || !covers(splat, mine.x, mine.y + row_step * p, &c)) continue;
                active = true;
                transmittance[p] = __fdividef(transmittance[p], 1 - c.alpha);
                const float weight = transmittance[p] * c.alpha;
                const float before = splat.color[0] * gradient[p].r + splat.color[1] * gradient[p].g +
                                     splat.color[2] * gradient[p].b - behind[p];
                const float h = c.cut ? 0 : weight * before, h0 = h * c.e0, h1 = h * c.e1;
                behind[p] = fmaf(c.alpha, before, behind[p]);
                value[0] = fmaf(weight, gradient[p].r, value[0]);
                value[1] = fmaf(weight, gradient[p].g, value[1]);
                value[2] = fmaf(weight, gradient[p].b, value[2]);
                value[3] += h;
                value[4] += h0;
                value[5] += h1;
                value[6] = fmaf(h0, c.e0, value[6]);
                value[7] = fmaf(h0, c.e1, value[7]);
                value[8] = fmaf(h1, c.e1, value[8]);
            }
            commit.add(active, batch.index[j], value, memory);
        }
    }
}

// Queues the kernel for the whole image, with as many pixels a thread as the lists say (1, 2 or 4). The
// caller has checked the input; sums are added to what the commit's memory holds.
template <typename Commit>
cudaError_t launch_render_backward(gs_stream stream, const backward_input &input, const Commit &commit) {
    const int pixels = input.lists.pixels_per_thread;
    void (*const kernel)(const backward_input, const Commit) = pixels == 4 ? render_backward_kernel<Commit, 4>
                                                               : pixels == 2
                                                                   ? render_backward_kernel<Commit, 2>
                                                                   : render_backward_kernel<Commit, 1>;
    return launch(stream, unsigned(input.lists.tiles_x * input.lists.tiles_y), unsigned(tile_pixels / pixels),
                  kernel, input, commit);
}

#endif
