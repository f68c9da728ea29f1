// SPDX-License-Identifier: MIT
// How the blend maps pixels to threads, how a splat covers a pixel, and what a pass over the lists carries. Shared by
// the forward and the backward blend, by Levenberg-Marquardt, and by the tests that replay their decisions. Formulas:
// docs/developers/math.md, section 3.
//
// A block handles a tile. Each of its warps handles a patch of the tile, 8 pixels wide and 4 * Pixels high:
// lane l has the pixels (l % 8, l / 8 + 4 p) of the patch, p < Pixels. Each warp reads the tile's list by
// itself, 32 splats at a time, and skips splats that do not reach its patch.
#pragma once

#include "splat.cuh"
#include "warp_rows.cuh"
#include <distwar/atomic.cuh>
#include <type_traits>

namespace gs {

constexpr int tile_pixels = GS_TILE_SIZE * GS_TILE_SIZE;
constexpr float max_alpha = 0.99f;
constexpr float never_clamped = -0.0146f; // just below log2(max_alpha): no pixel of such a splat is clamped
constexpr float min_transmittance = 1e-4f;
constexpr float min_exponent = -7.994353436858858f; // log2(1/255): below it a splat is skipped
constexpr unsigned full_warp = 0xffffffffu;

// The maximum over all 32 lanes, in every lane. T: int or unsigned.
template <typename T>
GS_DEVICE T warp_max(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800 // redux is there from 8.0 on
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(full_warp, value, distance);
        value = other > value ? other : value;
    }
    return value;
#else
    return __reduce_max_sync(full_warp, value);
#endif
}

template <int Pixels>
constexpr int tile_threads = tile_pixels / Pixels;
template <int Pixels>
constexpr int tile_warps = tile_threads<Pixels> / 32;
constexpr int patch_width = 8, row_step = 4;

template <int Pixels>
struct patch {
    int tile;
    int x, y;          // the thread's first pixel
    rectangle centres; // the warp's pixel centres inside the image; empty (right < left) if there are none
    // A tile has four rows of row_step lines. A column has one pixel in each row; the thread's pixels are in one column.
    float middle[2]; // the tile's middle, in pixels of the image
    float column[2]; // the column's second pixel less the middle: x in pixels, y in rows
    int row; // the row of the thread's first pixel less that of the column's second pixel: -1, 0, 1 or 2
};

// Sets what depends on the thread's first pixel.
template <int Pixels>
GS_DEVICE void put_pixel(patch<Pixels> &mine, int x, int y) {
    constexpr int half = GS_TILE_SIZE / 2;
    mine.x = x, mine.y = y;
    mine.middle[0] = float(x / GS_TILE_SIZE * GS_TILE_SIZE + half);
    mine.middle[1] = float(y / GS_TILE_SIZE * GS_TILE_SIZE + half);
    mine.column[0] = float(x % GS_TILE_SIZE - half) + 0.5f;
    mine.column[1] = (float(y % row_step + row_step - half) + 0.5f) / row_step;
    mine.row = Pixels == 4 ? -1 : y % GS_TILE_SIZE / row_step - 1;
}

template <int Pixels>
__device__ patch<Pixels> patch_of_warp(int tile, int warp, int tiles_x, int width, int height) {
    const int lane = int(threadIdx.x) % 32;
    const int left = tile % tiles_x * GS_TILE_SIZE + warp % 2 * patch_width;
    const int top = tile / tiles_x * GS_TILE_SIZE + warp / 2 * row_step * Pixels;
    const int right = min(left + patch_width, width), bottom = min(top + row_step * Pixels, height);
    patch<Pixels> mine = {};
    mine.tile = tile;
    mine.centres = {float(left) + 0.5f, float(top) + 0.5f, float(right) - 0.5f, float(bottom) - 0.5f};
    put_pixel(mine, left + lane % patch_width, top + lane / patch_width);
    return mine;
}

// The tiles of all views.
inline int tiles_in(const gs_tile_ranges &ranges) {
    return ranges.tiles_x * ranges.tiles_y * (ranges.views > 1 ? ranges.views : 1);
}

// The view of a tile, if there are several.
GS_DEVICE int view_of_tile(const gs_tile_ranges &ranges, int tile) {
    return tile / (ranges.tiles_x * ranges.tiles_y);
}

// The patch of one of a tile's warps. Batch: among the tiles of several views.
template <int Pixels, bool Batch>
__device__ patch<Pixels> patch_of_tile(const gs_tile_ranges &ranges, int tile, int warp, int width,
                                       int height) {
    const int before = Batch ? view_of_tile(ranges, tile) * ranges.tiles_x * ranges.tiles_y : 0;
    patch<Pixels> mine = patch_of_warp<Pixels>(tile - before, warp, ranges.tiles_x, width, height);
    mine.tile = tile;
    return mine;
}

// The image of one view.
GS_DEVICE gs_image image_of_view(gs_image image, int view, int64_t plane) {
    const int64_t first = view * plane;
    if (image.color) image.color += GS_CHANNELS * first;
    image.transmittance += first;
    image.n_contrib += first;
    if (image.depth) image.depth += first;
    if (image.median_depth) image.median_depth += first;
    return image;
}

// The n-th tile to work on. The GPU starts blocks in order, so the longest lists start first.
__device__ inline int ordered_tile(const gs_tile_ranges &ranges, int n) {
    return ranges.tile_order ? int(ranges.tile_order[n]) : n;
}

// A splat as the pixels of a tile see it.
struct tile_splat {
    alignas(16) float e[2]; // conic_sqrt times the offset of the tile's middle from the mean
    float right;            // by which e[0] grows per pixel to the right; e[1] stays
    float down[2];          // by which e grows per row
    float log2_opacity;
    float color[GS_CHANNELS];
    float curve; // the square of `down`
    uint32_t index;
    int place; // in the tile's list
};

// The compiler cannot contract its arithmetic.
GS_DEVICE tile_splat seen_from(const gs_splat &splat, const float (&middle)[2], uint32_t index = 0,
                               int place = 0) {
    const float w0 = splat.conic_sqrt[0], w1 = splat.conic_sqrt[1], w2 = splat.conic_sqrt[2];
    const float dx = __fsub_rn(middle[0], splat.mean[0]), dy = __fsub_rn(middle[1], splat.mean[1]);
    tile_splat out;
    out.e[0] = fmaf(w1, dy, __fmul_rn(w0, dx)), out.e[1] = __fmul_rn(w2, dy);
    out.right = w0, out.down[0] = row_step * w1, out.down[1] = row_step * w2;
    out.log2_opacity = splat.log2_opacity;
    for_channels([&](int c) { out.color[c] = splat.color[c]; });
    out.curve = fmaf(out.down[1], out.down[1], __fmul_rn(out.down[0], out.down[0]));
    out.index = index, out.place = place;
    return out;
}

// Reads a lane's entries of a list, every 32nd. Ahead says what it reads in advance. 0: nothing; 1: the next entry's index;
// 2: its splat too, and the index of the entry after it.
template <int Ahead>
struct list_reader {
    const gs_splat *splats;
    const uint32_t *list;
    int step; // from entry to entry: 32, or -32
    int left; // entries of the list from the lane's next one on, other lanes' too
    uint32_t next, after;
    gs_splat splat;

    // entry: the lane's first one's place in the list.
    GS_DEVICE list_reader(const gs_splat *all, const uint32_t *of_list, int entry, int stride, int entries)
        : splats(all), list(of_list), step(stride), left(entries), next(0), after(0), splat{} {
        if (Ahead >= 1 && left > 0) next = list[entry];
        if (Ahead == 2 && left > 32) after = list[entry + step];
        if (Ahead == 2 && left > 0) splat = splats[next];
    }
    // entry: the next one's place in the list.
    GS_DEVICE uint32_t index(int entry, bool has_entry) const {
        if (Ahead >= 1) return next;
        return has_entry ? list[entry] : 0;
    }
    // Its splat, of that index. There must be one.
    GS_DEVICE gs_splat take(int entry, uint32_t index) {
        const gs_splat taken = Ahead == 2 ? splat : splats[index];
        if (Ahead == 1 && left > 32) next = list[entry + step];
        if constexpr (Ahead == 2) {
            next = after;
            if (left > 32) splat = splats[next];
            if (left > 64) after = list[entry + 2 * step];
        }
        left -= 32;
        return taken;
    }
};

// Up to 32 splats of a tile's list, for one warp, in the order in which its lanes brought them.
struct splat_batch {
    tile_splat splat[32];
    unsigned wanted[32]; // what `wants` said of it
};

// The rows of a patch that the splat can reach: bit p for pixel p of any lane. Conservative, as `reaches`. Over the
// columns of the patch the ellipse is highest at its highest point, or in the column nearest to that; likewise lowest.
template <int Pixels>
__device__ inline unsigned reached_rows(const splat_reach &r, const rectangle &centres) {
    const float w0 = r.conic_sqrt[0], w1 = r.conic_sqrt[1], w2 = r.conic_sqrt[2];
    const float left = centres.left - r.mean[0], right = centres.right - r.mean[0];
    const float nearest = fminf(fmaxf(0.0f, left), right);
    // The exponent is of_least dx^2 + (dy - slope dx)^2 / inv_a.
    const float inv_a = __fdividef(1, fmaf(w1, w1, w2 * w2)), of_least = (w0 * w2) * (w0 * w2) * inv_a;
    if (of_least * nearest * nearest > r.limit) return 0;
    const float dx_of_end = r.along_x * __fdividef(r.limit * rsqrtf(r.limit), w2);
    constexpr float slack = 1e-5f;
    float end[2];
    DISTWAR_UNROLL
    for (int i = 0; i < 2; i++) {
        const float sign = i == 0 ? -1 : 1, dx = fminf(fmaxf(sign * dx_of_end, left), right);
        // A long splat may end nearer to dx_of_end than that is exact: the rest may be below 0.
        const float square = fmaxf(fmaf(-of_least * dx, dx, r.limit), 1e-10f) * inv_a;
        const float middle = r.slope * dx;
        end[i] = middle + sign * fmaf(slack, fabsf(middle), square * rsqrtf(square) * (1 + slack));
    }
    unsigned rows = 0;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        const float first = centres.top + float(row_step * p), last = first + (row_step - 1);
        const bool apart = __fsub_rn(first, r.mean[1]) > end[1] || __fsub_rn(last, r.mean[1]) < end[0];
        rows |= unsigned(!apart) << p; // not apart if the ends are NaN
    }
    return rows;
}

// Each lane with has_entry brings a splat, bring(), of that index and place in the list. Stores those that are wanted,
// wants(reach) != 0, side by side; returns their number. By all lanes of a warp.
template <int Pixels, typename Bring, typename Wants>
GS_DEVICE int fill_batch(const Bring &bring, uint32_t index, int place, bool has_entry,
                         const patch<Pixels> &mine, const Wants &wants, splat_batch &batch) {
    tile_splat splat;
    unsigned wanted = 0;
    if (has_entry) {
        const gs_splat brought = bring();
        wanted = wants(reach_of(brought));
        splat = seen_from(brought, mine.middle, index, place);
    }
    const unsigned filled = __ballot_sync(full_warp, wanted != 0);
    __syncwarp(); // all lanes are done with the previous batch
    if (wanted != 0) {
        const int at = __popc(filled & ((1u << threadIdx.x % 32) - 1));
        batch.splat[at] = splat;
        batch.wanted[at] = wanted;
    }
    __syncwarp();
    return __popc(filled);
}
// Fills the batch with the splats that reach the patch.
template <int Pixels>
GS_DEVICE int fill_batch(const gs_splat *splats, const uint32_t *list, int entry, bool has_entry,
                         const patch<Pixels> &mine, splat_batch &batch) {
    const auto wants = [&](const splat_reach &reach) { return unsigned(reaches(reach, mine.centres)); };
    const uint32_t index = has_entry ? list[entry] : 0;
    const auto bring = [&] { return splats[index]; };
    return fill_batch(bring, index, entry, has_entry, mine, wants, batch);
}

template <int Channels>
struct channel_values {
    float at[Channels];
};
using color3 = channel_values<GS_CHANNELS>;

template <int Channels>
GS_DEVICE float dot(const float *a, const channel_values<Channels> &b) {
    float sum = 0;
    for_channels<Channels>([&](int c) { sum = c == 0 ? a[0] * b.at[0] : sum + a[c] * b.at[c]; });
    return sum;
}

// The channels of a pass at pixel i of an image of planes, [used][plane]; 0 beyond `used`.
template <int Channels = GS_CHANNELS>
GS_DEVICE channel_values<Channels> pixel_of(const float *image, int64_t plane, int64_t i,
                                            int used = GS_CHANNELS) {
    channel_values<Channels> out;
    for_channels<Channels>(
        [&](int c) { out.at[c] = Channels == GS_CHANNELS || c < used ? image[i + c * plane] : 0; });
    return out;
}

// A splat in a column of a tile. Its exponent there is a parabola about the second pixel, by which all kernels decide
// whether it counts at a pixel: alike, however many pixels they have, as the compiler cannot contract its arithmetic.
struct splat_column {
    float e[2];            // conic_sqrt times the offset of the second pixel
    float exponent, slope; // there
};

template <int Pixels>
GS_DEVICE splat_column column_of(const tile_splat &splat, const patch<Pixels> &mine) {
    const float e0 = fmaf(splat.down[0], mine.column[1], fmaf(splat.right, mine.column[0], splat.e[0])),
                e1 = fmaf(splat.down[1], mine.column[1], splat.e[1]);
    return {{e0, e1},
            fmaf(-e0, e0, fmaf(-e1, e1, splat.log2_opacity)),
            fmaf(splat.down[1], e1, __fmul_rn(splat.down[0], e0))};
}

struct coverage {
    float exponent, alpha;
    bool clamped; // alpha was clamped at max_alpha
};

// Whether the splat counts at pixel p of the thread, and its alpha there. It has no branch, so the latencies of several
// pixels overlap. MayClamp = false is for splats with log2_opacity < never_clamped.
template <bool MayClamp = true, int Pixels>
GS_DEVICE bool covers(const tile_splat &splat, const splat_column &column, const patch<Pixels> &mine, int p,
                      coverage *out) {
    const float row = float(mine.row + p);
    const float exponent = Pixels == 4 && p == 1
                               ? column.exponent
                               : fmaf(-2 * row, fmaf(0.5f * row, splat.curve, column.slope), column.exponent);
    const float alpha = exp2f(exponent);
    out->exponent = exponent;
    out->clamped = MayClamp && alpha > max_alpha;
    out->alpha = MayClamp ? fminf(alpha, max_alpha) : alpha;
    return exponent >= min_exponent; // false for NaN, from a far offset
}
// Whether the splat counts at the pixel (x, y), and its alpha there.
__device__ inline bool covers(const gs_splat &splat, int x, int y, coverage *out) {
    patch<1> mine;
    put_pixel(mine, x, y);
    const tile_splat seen = seen_from(splat, mine.middle);
    return covers(seen, column_of(seen, mine), mine, 0, out);
}

// ---- passes ----

// A pass: up to 32 channels, and what else it carries. Known at compile time, so that a pass pays
// for nothing that it does not carry.
//
// Three channels lie in gs_splat.color, whether from SH or given. Given colours of any other number of
// channels are read from their own array, a row per splat, beside the splats of a batch; their gradients are
// summed into rows of the same shape. A pass has room for 1, 4, 8, 16 or 32 of them. Channels beyond those
// that are used are 0 and are not written. An image of more than 32 channels takes several passes. Each finds
// the same coverage again; the moments of the passes add up, since they are linear in the colours.
constexpr int most_channels_of_pass = 32;

// A thread's values in a backward pass. Depth, Absolute: what it sums beside the nine moments.
template <int Channels, bool Depth = false, bool Absolute = false>
struct pass_values {
    static constexpr int channels = Channels;
    static constexpr bool has_rows = Channels != GS_CHANNELS;
    static constexpr bool has_depth = Depth, has_absolute = Absolute;
    static constexpr int others = Channels + has_depth + 2 * has_absolute; // values beside moments of h
    // The first fields of gs_splat_grad, those that are added; colours are 0 if they have rows.
    static constexpr int fields = has_absolute ? GS_SPLAT_GRAD_STRIDE : GS_SPLAT_GRAD_SUMS + has_depth;

    // Pixels per thread that there are kernels for: 1, 2 and 4, or 2 alone. With many channels four pixels have
    // no room in registers, and one pixel pays too many reductions.
    static constexpr bool any_pixels = Channels <= 4;
    static constexpr int most_threads = any_pixels ? tile_pixels : tile_pixels / 2;
};
using plain_values = pass_values<GS_CHANNELS>;

// Rows of given colours.
struct color_rows {
    const float *first; // channel 0 of the pass, of splat 0
    int64_t stride;     // floats from row to row
    int used;           // channels of the pass, 1..Channels
};

// A batch of splats and, unless they are in the splats, their colours.
template <int Channels>
struct blend_batch : splat_batch {
    alignas(16) float color[32][Channels];
};
template <>
struct blend_batch<GS_CHANNELS> : splat_batch {};

// fill_batch has stored `count` splats; adds their colours. By all lanes of a warp.
template <int Channels>
GS_DEVICE void fill_colors(const color_rows &rows, int count, blend_batch<Channels> &batch) {
    if constexpr (Channels != GS_CHANNELS) {
        constexpr int rows_a_turn = 32 / Channels;
        const int lane = int(threadIdx.x % 32), column = lane % Channels;
        DISTWAR_UNROLL
        for (int turn = 0; turn < Channels; turn++) {
            const int j = turn * rows_a_turn + lane / Channels;
            if (j >= count) continue;
            float *const to = &batch.color[j][column];
            if (column < rows.used)
                copy_async<1>(to, rows.first + size_t(batch.splat[j].index) * size_t(rows.stride) + column);
            else
                *to = 0;
        }
        finish_rows();
    }
}

// The colour of splat j of a batch.
template <int Channels>
GS_DEVICE const float *color_of(const tile_splat &splat, const blend_batch<Channels> &batch, int j) {
    if constexpr (Channels == GS_CHANNELS)
        return splat.color;
    else
        return batch.color[j];
}

// Where the sums of a pass lie. T: float, or the integers of the strategy fixed.
template <typename T>
struct pass_sums {
    T *splat_grad; // [count][GS_SPLAT_GRAD_STRIDE]
    T *colors;     // channel 0 of the pass; unused with GS_CHANNELS channels, as what follows
    int64_t stride;
    int used;

    GS_DEVICE T *place(uint32_t index, int field) const {
        return splat_grad + size_t(index) * GS_SPLAT_GRAD_STRIDE + field;
    }
    GS_DEVICE void add_color(uint32_t index, int channel, T value) const {
        if (channel < used) distwar::atomic_add(colors + (index * stride + channel), value);
    }
};

// The form of image.depth: summed inverse depth or depth, divided by the sum of weights or not.
struct depth_form {
    bool normalized, inverse;
};

// The depth of a splat as image.depth sums it.
GS_DEVICE float summed_depth(float depth, bool inverse) {
    return inverse ? __fdividef(1, depth) : depth;
}

// ---- host ----

inline depth_form depth_form_of(const gs_view &view) {
    return {view.normalize_depth != 0, view.inverse_depth != 0};
}

template <int Channels>
channel_values<Channels> background_of(const gs_view &view, int first, int used) {
    channel_values<Channels> out = {};
    const float *const from = Channels == GS_CHANNELS ? view.background : view.channel_background;
    for (int c = 0; from && c < used; c++) out.at[c] = from[first + c];
    return out;
}

inline size_t plane_of(const gs_view &view) {
    return size_t(view.camera.width) * size_t(view.camera.height);
}

// The image as it begins at channel `first`.
inline gs_image image_of_pass(const gs_view &view, int first) {
    gs_image image = view.image;
    if (image.color) image.color += size_t(first) * plane_of(view);
    return image;
}

inline color_rows rows_of_pass(const gs_gaussians &gaussians, int first, int used) {
    return {gaussians.color + first, gaussians.channels, used};
}

// Calls body(Channels, first, used) for each pass over `channels` channels: those from `first` on, and as
// std::integral_constant the least that a pass has room for and is enough for them.
template <typename Body>
cudaError_t for_passes(int channels, const Body &body) {
    if (channels == GS_CHANNELS) return body(std::integral_constant<int, GS_CHANNELS>{}, 0, channels);
    cudaError_t status = cudaSuccess;
    for (int first = 0; status == cudaSuccess && first < channels; first += most_channels_of_pass) {
        const int rest = channels - first, used = rest < most_channels_of_pass ? rest : most_channels_of_pass;
        status = used == 1    ? body(std::integral_constant<int, 1>{}, first, used)
                 : used <= 4  ? body(std::integral_constant<int, 4>{}, first, used)
                 : used <= 8  ? body(std::integral_constant<int, 8>{}, first, used)
                 : used <= 16 ? body(std::integral_constant<int, 16>{}, first, used)
                              : body(std::integral_constant<int, most_channels_of_pass>{}, first, used);
    }
    return status;
}

} // namespace gs
