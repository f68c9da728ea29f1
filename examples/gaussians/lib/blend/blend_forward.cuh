// SPDX-License-Identifier: MIT
// The forward blend (docs/math.md, section 3).
#pragma once

#include "blend_pass.cuh"
#include "launch.cuh"
#include <distwar/lanes.cuh>

namespace gs {

// Splats that a thread works on at once. A pixel's transmittance is one chain of dependent operations through
// its list; on long lists its latency is the time of the blend. Images with such lists have one pixel a
// thread: two splats at once, without branches, so that only what depends on the transmittance waits. Other
// images have two pixels a thread, and branches that skip what does not count.
template <int Pixels>
constexpr int splats_at_once = Pixels == 1 ? 2 : 1;

// Least blocks a multiprocessor with two pixels a thread. The compiler's own choice of registers allows 8; 10
// are faster. Before compute capability 8.0 a multiprocessor has threads for only 8.
// Depth or a fourth channel would be spilled at 10.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <int Channels, bool Depth>
constexpr int render_blocks = 8;
#else
template <int Channels, bool Depth>
constexpr int render_blocks = Channels <= 3 && !Depth ? 10 : 8;
#endif

// image.color: channel 0 of the pass. Depth: writes image.depth and median_depth, unless NULL. One kernel for one view
// and for several, as for the backward blend.
template <int Pixels, int Channels, bool Depth>
__global__ void __launch_bounds__(tile_threads<Pixels>, Pixels == 2 ? render_blocks<Channels, Depth> : 1)
    render_kernel(const gs_splat *splats, const gs_lists lists, int width, int height,
                  channel_values<Channels> background, gs_image image, color_rows rows, depth_form form) {
    constexpr int N = splats_at_once<Pixels>;
    constexpr bool has_views = Channels == GS_CHANNELS; // a pass with rows of colours takes one view
    __shared__ blend_batch<Channels> batches[tile_warps<Pixels>];
    blend_batch<Channels> &batch = batches[threadIdx.x / 32];
    const int tile = ordered_tile(lists, int(blockIdx.x));
    const patch<Pixels> mine = patch_of_tile<Pixels, has_views>(lists, tile, width, height);
    if (has_views) image = image_of_view(image, view_of_tile(lists, tile), int64_t(width) * height);
    const int64_t begin = lists.tile_begin[tile];
    const int size = int(lists.tile_begin[tile + 1] - begin);
    const uint32_t *list = lists.splat_index + begin;

    float transmittance[Pixels];
    channel_values<Channels> color[Pixels];
    float depth[Pixels], median_depth[Pixels]; // unused without Depth
    int n_contrib[Pixels];
    bool done[Pixels];
    float least[Pixels]; // exponent that counts; infinity: done. With four pixels, in place of `done`
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        transmittance[p] = 1;
        color[p] = {};
        depth[p] = median_depth[p] = 0;
        n_contrib[p] = 0;
        done[p] = mine.x >= width || mine.y + row_step * p >= height;
        least[p] = done[p] ? INFINITY : min_exponent;
    }
    int entry = int(threadIdx.x % 32);
    uint32_t next = entry < size ? list[entry] : 0; // one batch ahead
    for (int first = 0; first < size; first += 32, entry += 32) {
        unsigned live = 0; // rows
        bool all_done = true;
        DISTWAR_UNROLL
        for (int p = 0; p < Pixels; p++) {
            if (Pixels == 4)
                live |= unsigned(__any_sync(full_warp, least[p] < INFINITY)) << p;
            else
                all_done = all_done && done[p];
        }
        if (Pixels == 4 ? live == 0 : bool(__all_sync(full_warp, all_done))) break;
        const uint32_t index = next;
        if (entry + 32 < size) next = list[entry + 32];
        unsigned rest = fill_batch<Pixels == 4>(splats, index, entry < size, mine.centres, batch, live);
        fill_colors<Channels>(rows, rest, batch);
        while (rest != 0) {
            gs_splat splat[N];
            int place[N];
            DISTWAR_UNROLL
            for (int n = 0; n < N; n++) {
                place[n] = rest != 0 ? __ffs(int(rest)) - 1 : -1;
                rest &= rest - 1;
                splat[n] = batch.splat[n == 0 || place[n] >= 0 ? place[n] : 0];
            }
            const auto blend = [&](int n, int p, float alpha, float behind) {
                const float weight = transmittance[p] * alpha;
                const float *const of_splat = color_of<Channels>(splat[n], batch, place[n]);
                for_channels<Channels>(
                    [&](int k) { color[p].at[k] = fmaf(weight, of_splat[k], color[p].at[k]); });
                if constexpr (Depth) {
                    depth[p] = fmaf(weight, summed_depth(splat[n], form.inverse), depth[p]);
                    if (transmittance[p] > 0.5f && behind <= 0.5f) median_depth[p] = splat[n].depth;
                }
                transmittance[p] = behind;
                n_contrib[p] = first + place[n] + 1;
            };
            if constexpr (Pixels == 4) {
                const auto pass = [&](int p) {
                    float e0, e1;
                    const float exponent = exponent_at(splat[0], mine.x, mine.y + row_step * p, &e0, &e1);
                    const float alpha = fminf(exp2f(exponent), max_alpha);
                    const float behind = __fmul_rn(transmittance[p], 1 - alpha);
                    const bool counts = exponent >= least[p], stops = behind < min_transmittance;
                    if (counts & stops) least[p] = INFINITY;
                    if (counts & !stops) blend(0, p, alpha, behind);
                };
                const unsigned rows = __float_as_uint(splat[0].tilt[0]);
                if (rows == 15) {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++) pass(p);
                } else {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++)
                        if (rows >> p & 1) pass(p);
                }
            } else if constexpr (N == 1) {
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    coverage c;
                    if (done[p] || !covers(splat[0], mine.x, mine.y + row_step * p, &c)) continue;
                    const float behind = __fmul_rn(transmittance[p], 1 - c.alpha);
                    done[p] = behind < min_transmittance;
                    if (!done[p]) blend(0, p, c.alpha, behind);
                }
            } else {
                float alpha[N][Pixels]; // 0: the splat does not count
                DISTWAR_UNROLL
                for (int n = 0; n < N; n++) {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++) {
                        coverage c;
                        const bool counts = covers(splat[n], mine.x, mine.y + row_step * p, &c);
                        alpha[n][p] = counts & (place[n] >= 0) ? c.alpha : 0;
                    }
                }
                DISTWAR_UNROLL
                for (int n = 0; n < N; n++) {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++) {
                        const bool counts = (alpha[n][p] > 0) & !done[p];
                        const float behind = __fmul_rn(transmittance[p], 1 - alpha[n][p]);
                        const bool stops = counts & (behind < min_transmittance);
                        done[p] |= stops;
                        if (counts & !stops) blend(n, p, alpha[n][p], behind);
                    }
                }
            }
        }
    }
    const int64_t plane = int64_t(width) * height;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        const int y = mine.y + row_step * p;
        if (mine.x >= width || y >= height) continue;
        const int64_t i = int64_t(y) * width + mine.x;
        for_channels<Channels>([&](int k) {
            if (Channels == GS_CHANNELS || k < rows.used)
                image.color[i + k * plane] = fmaf(transmittance[p], background.at[k], color[p].at[k]);
        });
        if constexpr (Depth) {
            const bool divides = form.normalized && transmittance[p] < 1;
            if (image.depth) image.depth[i] = divides ? __fdividef(depth[p], 1 - transmittance[p]) : depth[p];
            if (image.median_depth) image.median_depth[i] = median_depth[p];
        }
        image.transmittance[i] = transmittance[p];
        image.n_contrib[i] = uint32_t(n_contrib[p]);
    }
}

// Queues the kernel for the whole image. The forward blend shares less work between pixels than the backward
// one, so it takes half as many pixels a thread. The caller has checked the input.
template <int Channels, bool Depth>
cudaError_t launch_render(const forward_pass &pass) {
    const gs_view &view = *pass.view;
    const gs_lists &lists = view.lists;
    const auto queue = [&](auto pixels) {
        return launch(pass.stream, unsigned(tiles_in(lists)), unsigned(tile_threads<pixels>),
                      render_kernel<pixels, Channels, Depth>, view.splats, lists, view.camera.width,
                      view.camera.height, background_of<Channels>(view, pass.first, pass.used),
                      image_of_pass(view, pass.first), rows_of_pass(view.gaussians, pass.first, pass.used),
                      depth_form_of(view));
    };
    if constexpr (pass_values<Channels>::any_pixels)
        if (lists.pixels_per_thread == 4) return queue(std::integral_constant<int, GS_BLEND_FORWARD ? 4 : 2>{});
    return queue(std::integral_constant<int, 1>{});
}

} // namespace gs
