// SPDX-License-Identifier: MIT
// gs_render: blends the splats of each tile's list front to back over the background, in passes (blend.cuh, which also
// says how pixels map to threads). Reads splats and lists, writes the image. Formulas: docs/developers/math.md, section
// 3. A view whose lists had no room, where gs_bin did not wait, says so in its image: NaN.
#include "blend.cuh"
#include "launch.cuh"
#include <algorithm>

using namespace gs;

namespace {

// Whether a splat of that exponent counts at a pixel and leaves enough light behind it. Where it counts and does not,
// the pixel is done: *least becomes INFINITY.
GS_DEVICE bool goes_on(float exponent, float behind, float *least) {
#ifdef __CUDA_ARCH__
    // nvcc compiles the C++ below to two instructions more.
    unsigned result;
    asm("{\n\t.reg .pred counts, on, done;\n\t"
        "setp.ge.f32 counts, %2, %1;\n\t"
        "setp.ge.and.f32 on|done, %3, %4, counts;\n\t"
        "@done mov.f32 %1, 0f7F800000;\n\t"
        "selp.u32 %0, 1, 0, on;\n\t}"
        : "=r"(result), "+f"(*least)
        : "f"(exponent), "f"(behind), "f"(min_transmittance));
    return result != 0;
#else
    const bool counts = exponent >= *least, on = behind >= min_transmittance;
    if (counts & !on) *least = INFINITY;
    return counts & on;
#endif
}

// The form of a pass's kernel.
template <int Channels>
struct forward_form {
    // Whether tiles may have four pixels per thread: a block is then for one of these, and a tile with one pixel per thread
    // has several blocks.
    static constexpr bool is_mixed = pass_values<Channels>::any_pixels;
    static constexpr int most_pixels = is_mixed ? 4 : 1;
    static constexpr int threads = tile_threads<most_pixels>, warps = threads / 32;
    static constexpr int blocks_of_long_tile = tile_threads<1> / threads;
};

// A pixel's transmittance is one chain of dependent operations through its list; on long lists its latency is the time of
// the blend. Tiles with such lists have one pixel per thread: two splats at once, without branches, so that only what
// depends on the transmittance waits. Other tiles have four pixels per thread, and skip rows of the patch that the splat
// does not reach, or that are done.
//
// Blends a patch of a tile, by all lanes of a warp. image.color: channel 0 of the pass. Depth: writes image.depth and
// median_depth, unless NULL. Pixels do not change bits.
template <int Pixels, int Channels, bool Depth>
GS_DEVICE void blend_patch(const gs_splat *splats, const gs_tile_ranges &ranges, int tile, int warp,
                           int width, int height, const channel_values<Channels> &background, gs_image image,
                           const color_rows &rows, depth_form form, blend_batch<Channels> &batch) {
    constexpr int N = Pixels == 1 ? 2 : 1;              // splats at once
    constexpr bool has_views = Channels == GS_CHANNELS; // a pass with rows of colours takes one view
    const patch<Pixels> mine = patch_of_tile<Pixels, has_views>(ranges, tile, warp, width, height);
    if (has_views) image = image_of_view(image, view_of_tile(ranges, tile), int64_t(width) * height);
    const int64_t begin = ranges.tile_begin[tile];
    const int size = int(ranges.tile_begin[tile + 1] - begin);
    const uint32_t *list = ranges.splat_index + begin;

    float transmittance[Pixels];
    channel_values<Channels> color[Pixels];
    float depth[Pixels], median_depth[Pixels]; // unused without Depth
    int n_contrib[Pixels];
    float least[Pixels]; // exponent that counts: min_exponent, or INFINITY where the pixel is done
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        transmittance[p] = 1;
        color[p] = {};
        depth[p] = median_depth[p] = 0;
        n_contrib[p] = 0;
        least[p] = mine.x < width && mine.y + row_step * p < height ? min_exponent : INFINITY;
    }
    int entry = int(threadIdx.x % 32);
    list_reader<Pixels == 1 ? 2 : 1> reader(splats, list, entry, 32, size - entry);
    for (int first = 0; first < size; first += 32, entry += 32) {
        unsigned live = 0; // rows that are not done
        DISTWAR_UNROLL
        for (int p = 0; p < Pixels; p++) live |= unsigned(__any_sync(full_warp, least[p] < INFINITY)) << p;
        if (live == 0) break;
        const auto rows_for = [&](const splat_reach &reach) {
            return Pixels == 1 ? unsigned(reaches(reach, mine.centres))
                               : reached_rows<Pixels>(reach, mine.centres) & live;
        };
        const uint32_t index = reader.index(entry, entry < size);
        const auto bring = [&] { return reader.take(entry, index); };
        const int count = fill_batch(bring, index, entry, entry < size, mine, rows_for, batch);
        fill_colors<Channels>(rows, count, batch);
        if constexpr (N > 1) { // splats that count nowhere complete the last turn
            const int lane = int(threadIdx.x % 32);
            tile_splat nowhere = {};
            nowhere.log2_opacity = -INFINITY;
            if (lane >= count && lane < (count + N - 1) / N * N) batch.splat[lane] = nowhere;
            __syncwarp();
        }
        for (int j = 0; j < count; j += N) {
            tile_splat splat[N];
            DISTWAR_UNROLL
            for (int n = 0; n < N; n++) splat[n] = batch.splat[j + n];
            float depth_of[N]; // unused without Depth
            DISTWAR_UNROLL
            for (int n = 0; n < N; n++) depth_of[n] = Depth ? splats[splat[n].index].depth : 0;
            const auto blend = [&](int n, int p, const coverage &c) {
                const float before = transmittance[p], behind = __fmul_rn(before, 1 - c.alpha);
                if (!goes_on(c.exponent, behind, &least[p])) return;
                const float weight = before * c.alpha;
                const float *const of_splat = color_of<Channels>(splat[n], batch, j + n);
                for_channels<Channels>(
                    [&](int k) { color[p].at[k] = fmaf(weight, of_splat[k], color[p].at[k]); });
                if constexpr (Depth) {
                    depth[p] = fmaf(weight, summed_depth(depth_of[n], form.inverse), depth[p]);
                    if (before > 0.5f && behind <= 0.5f) median_depth[p] = depth_of[n];
                }
                transmittance[p] = behind;
                n_contrib[p] = splat[n].place + 1;
            };
            if constexpr (N == 1) {
                const splat_column column = column_of(splat[0], mine);
                const auto blend_row = [&](int p) {
                    coverage c;
                    covers(splat[0], column, mine, p, &c);
                    blend(0, p, c);
                };
                const unsigned reached = batch.wanted[j];
                if (reached == (1u << Pixels) - 1) {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++) blend_row(p);
                } else {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++)
                        if (reached >> p & 1) blend_row(p);
                }
            } else {
                coverage c[N][Pixels];
                DISTWAR_UNROLL
                for (int n = 0; n < N; n++) {
                    const splat_column column = column_of(splat[n], mine);
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++) covers(splat[n], column, mine, p, &c[n][p]);
                }
                DISTWAR_UNROLL
                for (int n = 0; n < N; n++) {
                    DISTWAR_UNROLL
                    for (int p = 0; p < Pixels; p++) blend(n, p, c[n][p]);
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

// The first long_tiles tiles of the order have one pixel per thread, the others four. One kernel for one view and for
// several, as for the backward blend. least_blocks: per multiprocessor, that registers leave room for. Long: whether there
// are long tiles; with the code for them the rest takes 3% longer.
template <int Channels, bool Depth, int least_blocks, bool Long>
__global__ void __launch_bounds__(forward_form<Channels>::threads, least_blocks)
    render_kernel(const gs_splat *splats, const gs_tile_ranges ranges, int long_tiles, int width, int height,
                  channel_values<Channels> background, gs_image image, color_rows rows, depth_form form) {
    using of = forward_form<Channels>;
    constexpr int B = of::blocks_of_long_tile;
    __shared__ blend_batch<Channels> batches[of::warps];
    const int block = int(blockIdx.x), warp = int(threadIdx.x) / 32;
    blend_batch<Channels> &batch = batches[warp];
    if (!of::is_mixed || (Long && block < B * long_tiles))
        blend_patch<1, Channels, Depth>(splats, ranges, ordered_tile(ranges, block / B),
                                        block % B * of::warps + warp, width, height, background, image, rows,
                                        form, batch);
    else if constexpr (of::is_mixed)
        blend_patch<4, Channels, Depth>(splats, ranges, ordered_tile(ranges, block - (B - 1) * long_tiles),
                                        warp, width, height, background, image, rows, form, batch);
}

// Tiles with one pixel per thread: those with the longest lists, which the GPU would wait for; all, where few tiles have
// short lists. Where gs_bin did not wait, their number is that of the lists before.
int long_tiles_of(const gs_tile_ranges &ranges, int tiles) {
    if (ranges.pixels_per_thread == 1 || (ranges.pixels_per_thread == 2 && ranges.split_tiles == 0))
        return tiles;
    return std::min(ranges.pixels_per_thread == 2 ? 2 * ranges.split_tiles : ranges.split_tiles, tiles);
}

// Queues the kernel for a pass over the whole image. The caller has checked the input.
template <int Channels, bool Depth>
cudaError_t launch_render(const gs_view &view, int first, int used, gs_stream stream) {
    using of = forward_form<Channels>;
    const gs_tile_ranges &ranges = view.ranges;
    const int tiles = tiles_in(ranges), long_tiles = of::is_mixed ? long_tiles_of(ranges, tiles) : tiles;
    const auto queue = [&](auto kernel) {
        return launch(stream, unsigned(tiles) + unsigned(long_tiles) * (of::blocks_of_long_tile - 1),
                      unsigned(of::threads), kernel, view.splats, ranges, long_tiles, view.camera.width,
                      view.camera.height, background_of<Channels>(view, first, used),
                      image_of_pass(view, first), rows_of_pass(view.gaussians, first, used),
                      depth_form_of(view));
    };
    // Measured for the plain pass (docs/notes/rasteriser.md): with four pixels a thread needs 80 registers, with one 92.
    constexpr bool is_plain = Channels == GS_CHANNELS && !Depth;
    constexpr int blocks_of_one = is_plain ? 10 : 1, blocks_of_four = is_plain ? 12 : 1;
    if constexpr (is_plain) {
        if (long_tiles == 0) return queue(render_kernel<Channels, Depth, blocks_of_four, false>);
        if (ranges.pixels_per_thread == 4) return queue(render_kernel<Channels, Depth, blocks_of_four, true>);
    }
    return queue(render_kernel<Channels, Depth, blocks_of_one, true>);
}

constexpr int finish_block = 256;
constexpr unsigned most_finish_blocks = 1024;

// Writes image.alpha, if given. If the lists had no room (intersections may be NULL: they had), the image becomes NaN.
__global__ void __launch_bounds__(finish_block) finish_kernel(const int64_t *isects, int64_t isect_capacity,
                                                              int64_t pixels, int channels, gs_image image) {
    const bool overflow = isects && *isects > isect_capacity;
    const int64_t step = int64_t(gridDim.x) * finish_block, first = int64_t(blockIdx.x) * finish_block;
    for (int64_t i = first + threadIdx.x; overflow && i < channels * pixels; i += step) {
        image.color[i] = NAN;
        if (i >= pixels) continue;
        image.transmittance[i] = NAN;
        if (image.depth) image.depth[i] = NAN;
        if (image.median_depth) image.median_depth[i] = NAN;
    }
    for (int64_t i = first + threadIdx.x; image.alpha && i < pixels; i += step)
        image.alpha[i] = 1 - image.transmittance[i];
}

} // namespace

gs_status gs_render(const gs_view *view, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_TRY(check_blended(__func__, view));
    GS_REQUIRE(view->image.color, "color of the image must be given");
    GS_CUDA(for_passes(channels_of(&view->gaussians), [&](auto channels, int first, int used) {
        const bool depth = first == 0 && (view->image.depth || view->image.median_depth);
        return depth ? launch_render<channels, true>(*view, first, used, stream)
                     : launch_render<channels, false>(*view, first, used, stream);
    }));
    if (!view->ranges.device_isects && !view->image.alpha) return GS_OK;
    const int64_t pixels = view_count(view) * int64_t(plane_of(*view));
    return GS_STATUS(launch(stream, std::min(blocks_for(pixels, finish_block), most_finish_blocks),
                            finish_block, finish_kernel, view->ranges.device_isects, view->ranges.isects,
                            pixels, channels_of(&view->gaussians), view->image));
}
