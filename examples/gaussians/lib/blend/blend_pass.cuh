// SPDX-License-Identifier: MIT
// A pass of the blend: up to 32 channels, and what else it carries. Known at compile time, so that a pass pays
// for nothing that it does not carry.
//
// Three channels lie in gs_splat.color, whether from SH or given. Given colours of any other number of
// channels are read from their own array, a row per splat, beside the splats of a batch; their gradients are
// summed into rows of the same shape. A pass has room for 1, 4, 8, 16 or 32 of them. Channels beyond those
// that are used are 0 and are not written. An image of more than 32 channels takes several passes. Each finds
// the same coverage again; the moments of the passes add up, since they are linear in the colours.
#pragma once

#include "blend.cuh"
#include "moments.cuh"
#include "warp_rows.cuh"
#include <distwar/reduce.cuh>
#include <type_traits>

namespace gs {

constexpr int most_channels_of_pass = 32;

// The sums of a pass beside the nine moments.
enum class extras { none, depth, absolute, both };

// A thread's values in a backward pass.
template <int Channels, extras Extras = extras::none>
struct pass_values {
    static constexpr int channels = Channels;
    static constexpr bool has_rows = Channels != GS_CHANNELS;
    static constexpr bool has_depth = Extras == extras::depth || Extras == extras::both;
    static constexpr bool has_absolute = Extras == extras::absolute || Extras == extras::both;
    static constexpr int others = Channels + has_depth + 2 * has_absolute; // values beside moments of h
    // The first fields of gs_moments, those that are added; colours are 0 if they have rows.
    static constexpr int fields = has_absolute ? GS_MOMENTS_STRIDE : GS_MOMENTS + has_depth;

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
__device__ __forceinline__ void fill_colors(const color_rows &rows, int count, blend_batch<Channels> &batch) {
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
__device__ __forceinline__ const float *color_of(const tile_splat &splat, const blend_batch<Channels> &batch,
                                                 int j) {
    if constexpr (Channels == GS_CHANNELS)
        return splat.color;
    else
        return batch.color[j];
}

// The channels of a pass at pixel i of an image of planes, [used][plane]; 0 beyond `used`.
template <int Channels>
__device__ __forceinline__ channel_values<Channels> pixel_of(const float *image, int64_t plane, int64_t i,
                                                             int used) {
    if constexpr (Channels == GS_CHANNELS) {
        return pixel_of(image, plane, i);
    } else {
        channel_values<Channels> out;
        for_channels<Channels>([&](int c) { out.at[c] = c < used ? image[i + c * plane] : 0; });
        return out;
    }
}

// Where the sums of a pass lie. T: float, or the integers of the strategy fixed.
template <typename T>
struct pass_sums {
    T *moments; // [count][GS_MOMENTS_STRIDE]
    T *colors;  // channel 0 of the pass; unused with GS_CHANNELS channels, as what follows
    int64_t stride;
    int used;

    __device__ __forceinline__ T *place(uint32_t index, int field) const {
        return moments + size_t(index) * GS_MOMENTS_STRIDE + field;
    }
    __device__ __forceinline__ void add_color(uint32_t index, int channel, T value) const {
        if (channel < used) distwar::atomic_add(colors + (index * stride + channel), value);
    }
};

// The form of image.depth: summed inverse depth or depth, divided by the sum of weights or not.
struct depth_form {
    bool normalized, inverse;
};

// The depth of a splat as image.depth sums it.
__device__ __forceinline__ float summed_depth(float depth, bool inverse) {
    return inverse ? __fdividef(1, depth) : depth;
}

// ---- host: one pass of a call ----

inline depth_form depth_form_of(const gs_view &view) {
    return {view.normalize_depth != 0, view.inverse_depth != 0};
}

struct forward_pass {
    const gs_view *view;
    int first, used; // channels
    gs_stream stream;
};

struct backward_pass {
    const gs_view *view;
    const gs_gradient *gradient;
    distwar_policy policy;
    int first, used; // channels
    gs_stream stream;
};

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

// Calls body with the channels that a pass has room for, as std::integral_constant: the least that is enough for
// `used` channels, which are not GS_CHANNELS.
template <typename Body>
cudaError_t with_channels(int used, const Body &body) {
    return used == 1    ? body(std::integral_constant<int, 1>{})
           : used <= 4  ? body(std::integral_constant<int, 4>{})
           : used <= 8  ? body(std::integral_constant<int, 8>{})
           : used <= 16 ? body(std::integral_constant<int, 16>{})
                        : body(std::integral_constant<int, most_channels_of_pass>{});
}

// Queue a pass. The caller has checked the arguments. _plain: GS_CHANNELS channels alone. _extras: with depth or
// absolute sums, as asked for. _channels: any other number of channels; the first pass has what is asked for.
cudaError_t render_plain(const forward_pass &pass);
cudaError_t render_extras(const forward_pass &pass);
cudaError_t render_channels(const forward_pass &pass);
cudaError_t render_backward_plain(const backward_pass &pass);
cudaError_t render_backward_extras(const backward_pass &pass);
cudaError_t render_backward_channels(const backward_pass &pass);

} // namespace gs
