// SPDX-License-Identifier: MIT
// The forward blend (docs/math.md, section 3).
#ifndef GS_BLEND_FORWARD_CUH
#define GS_BLEND_FORWARD_CUH

#include "blend.cuh"
#include "launch.cuh"
#include <distwar/lanes.cuh>

// Each pixel's transmittance is one chain through its list, and on the longest lists its latency decides. One
// pixel a thread is for images with such lists, and has two splats in work at once, without branches: only
// what needs the transmittance waits for it. Two pixels a thread, for the others, leave out what they can.
template <int Pixels>
constexpr int splats_at_once = Pixels == 1 ? 2 : 1;

// Registers: with two pixels a thread, 10 tiles at once on a multiprocessor do better than the 8 there would
// be. Before compute capability 8.0 it may have threads for 8 alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int tiles_at_once = 8;
#else
constexpr int tiles_at_once = 10;
#endif
template <int Pixels>
__global__ void __launch_bounds__(tile_threads<Pixels>, Pixels == 2 ? tiles_at_once : 1)
    render_kernel(const gs_splat *splats, const gs_lists lists, int width, int height, color3 background,
                  gs_image image) {
    constexpr int N = splats_at_once<Pixels>;
    __shared__ splat_batch batches[tile_warps<Pixels>];
    splat_batch &batch = batches[threadIdx.x / 32];
    const int tile = tile_in_turn(lists, int(blockIdx.x));
    const patch<Pixels> mine = patch_of_warp<Pixels>(tile, lists.tiles_x, width, height);
    const int64_t begin = lists.tile_begin[tile];
    const int size = int(lists.tile_begin[tile + 1] - begin);
    const uint32_t *list = lists.splat_index + begin;

    float transmittance[Pixels];
    color3 color[Pixels];
    int consumed[Pixels];
    bool done[Pixels];
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        transmittance[p] = 1;
        color[p] = {0, 0, 0};
        consumed[p] = 0;
        done[p] = mine.x >= width || mine.y + row_step * p >= height;
    }
    int entry = int(threadIdx.x % 32);
    uint32_t next = entry < size ? list[entry] : 0; // read a batch ahead
    for (int first = 0; first < size; first += 32, entry += 32) {
        bool all_done = true;
        DISTWAR_UNROLL
        for (int p = 0; p < Pixels; p++) all_done = all_done && done[p];
        if (__all_sync(full_warp, all_done)) break;
        const uint32_t index = next;
        if (entry + 32 < size) next = list[entry + 32];
        unsigned rest = fill_batch(splats, index, entry < size, mine.centres, batch);
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
                color[p].r = fmaf(weight, splat[n].color[0], color[p].r);
                color[p].g = fmaf(weight, splat[n].color[1], color[p].g);
                color[p].b = fmaf(weight, splat[n].color[2], color[p].b);
                transmittance[p] = behind;
                consumed[p] = first + place[n] + 1;
            };
            if constexpr (N == 1) {
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    coverage c;
                    if (done[p] || !covers(splat[0], mine.x, mine.y + row_step * p, &c)) continue;
                    const float behind = __fmul_rn(transmittance[p], 1 - c.alpha);
                    done[p] = behind < min_transmittance;
                    if (!done[p]) blend(0, p, c.alpha, behind);
                }
            } else {
                float alpha[N][Pixels]; // 0: does not count
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
        image.color[i] = fmaf(transmittance[p], background.r, color[p].r);
        image.color[i + plane] = fmaf(transmittance[p], background.g, color[p].g);
        image.color[i + 2 * plane] = fmaf(transmittance[p], background.b, color[p].b);
        image.transmittance[i] = transmittance[p];
        image.n_contrib[i] = uint32_t(consumed[p]);
    }
}

// Queues the kernel for the whole image. The forward blend has less to share than the backward one: half as
// many pixels a thread suit it. The caller has checked the input.
inline cudaError_t launch_render(gs_stream stream, const gs_splat *splats, const gs_lists &lists, int width,
                                 int height, color3 background, const gs_image &image) {
    const bool two = lists.pixels_per_thread == 4;
    return launch(stream, unsigned(lists.tiles_x * lists.tiles_y),
                  unsigned(two ? tile_threads<2> : tile_threads<1>),
                  two ? render_kernel<2> : render_kernel<1>, splats, lists, width, height, background, image);
}

#endif
