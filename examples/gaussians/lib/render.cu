// SPDX-License-Identifier: MIT
// Blending, forward and backward: a block a tile, a thread a pixel, a warp an 8x4 patch. Formulas:
// docs/math.md, section 3.
#include "blend.cuh"
#include "blend_commit.cuh"
#include "launch.cuh"
#include "status.h"
#include <math.h>

namespace {

struct color3 {
    float r, g, b;
};

__global__ void __launch_bounds__(tile_pixels)
    render_kernel(const gs_splat *splats, gs_lists lists, int width, int height, color3 background,
                  gs_image image) {
    __shared__ gs_splat batch[tile_pixels];
    const pixel p = pixel_of_thread(lists.tiles_x, width, height);
    const int64_t begin = lists.tile_begin[p.tile], end = lists.tile_begin[p.tile + 1];

    float transmittance = 1;
    color3 color = {0, 0, 0};
    uint32_t consumed = 0;
    bool done = !p.inside;
    for (int64_t first = begin; first < end; first += tile_pixels) {
        if (__syncthreads_and(done)) break; // also: nobody reads the last batch any more
        if (first + threadIdx.x < end) batch[threadIdx.x] = splats[lists.splat_index[first + threadIdx.x]];
        __syncthreads();
        const int size = int(end - first < tile_pixels ? end - first : tile_pixels);
        for (int j = 0; j < size && !done; j++) {
            coverage c;
            if (!covers(batch[j], p, &c)) continue;
            const float behind = __fmul_rn(transmittance, 1 - c.alpha);
            if (behind < min_transmittance) {
                done = true;
                break;
            }
            const float weight = transmittance * c.alpha;
            color.r = fmaf(weight, batch[j].color[0], color.r);
            color.g = fmaf(weight, batch[j].color[1], color.g);
            color.b = fmaf(weight, batch[j].color[2], color.b);
            transmittance = behind;
            consumed = uint32_t(first - begin) + j + 1;
        }
    }
    if (!p.inside) return;
    const int64_t plane = int64_t(width) * height;
    image.color[p.index] = fmaf(transmittance, background.r, color.r);
    image.color[p.index + plane] = fmaf(transmittance, background.g, color.g);
    image.color[p.index + 2 * plane] = fmaf(transmittance, background.b, color.b);
    image.transmittance[p.index] = transmittance;
    image.consumed[p.index] = consumed;
}

// One body for every reduction. All threads of the tile stay in the loop and come to `commit` together.
template <gs_reduction Reduction>
__global__ void __launch_bounds__(tile_pixels)
    render_backward_kernel(const gs_splat *splats, gs_lists lists, int width, int height, color3 background,
                           gs_image image, const float *color_gradient, const float *alpha_gradient,
                           int balance_threshold, float *moments) {
    __shared__ gs_splat batch[tile_pixels];
    __shared__ uint32_t batch_index[tile_pixels];
    __shared__ uint32_t tile_consumed;
    __shared__ commit_memory<Reduction> memory;
    const pixel p = pixel_of_thread(lists.tiles_x, width, height);
    const int64_t begin = lists.tile_begin[p.tile];

    float transmittance = 1, behind = 0; // behind: what lies behind, dotted with the pixel's gradient
    color3 gradient = {0, 0, 0};
    uint32_t consumed = 0;
    if (p.inside) {
        const int64_t plane = int64_t(width) * height;
        gradient = {color_gradient[p.index], color_gradient[p.index + plane],
                    color_gradient[p.index + 2 * plane]};
        behind = background.r * gradient.r + background.g * gradient.g + background.b * gradient.b;
        if (alpha_gradient) behind -= alpha_gradient[p.index];
        transmittance = image.transmittance[p.index];
        consumed = image.consumed[p.index];
    }

    // The farthest that any pixel of the tile went into the list: start there.
    if (threadIdx.x == 0) tile_consumed = 0;
    __syncthreads();
    if (consumed > 0) atomicMax(&tile_consumed, consumed);
    __syncthreads();

    for (int64_t top = tile_consumed; top > 0; top -= tile_pixels) {
        __syncthreads(); // nobody reads the last batch any more
        if (top > threadIdx.x) {
            const uint32_t index = lists.splat_index[begin + top - 1 - threadIdx.x];
            batch_index[threadIdx.x] = index;
            batch[threadIdx.x] = splats[index];
        }
        __syncthreads();
        const int size = int(top < tile_pixels ? top : tile_pixels);
        for (int j = 0; j < size; j++) {
            const gs_splat &splat = batch[j];
            float value[GS_MOMENTS] = {};
            coverage c;
            const bool active = top - 1 - j < consumed && covers(splat, p, &c);
            if (active) {
                transmittance /= 1 - c.alpha;
                const float weight = transmittance * c.alpha;
                const float in_front =
                    splat.color[0] * gradient.r + splat.color[1] * gradient.g + splat.color[2] * gradient.b;
                const float h = c.cut ? 0 : weight * (in_front - behind);
                behind = fmaf(c.alpha, in_front - behind, behind);
                value[0] = weight * gradient.r;
                value[1] = weight * gradient.g;
                value[2] = weight * gradient.b;
                value[3] = h;
                value[4] = h * c.e0;
                value[5] = h * c.e1;
                value[6] = h * c.e0 * c.e0;
                value[7] = h * c.e0 * c.e1;
                value[8] = h * c.e1 * c.e1;
            }
            commit(active, batch_index[j], value, moments, balance_threshold, memory);
        }
    }
}

gs_status check(const char *function, const gs_splat *splats, const gs_lists *lists, int width, int height,
                const float *background, const gs_image *image) {
    GS_REQUIRE_OF(function, lists && background && image, "lists, background and image must be given");
    GS_REQUIRE_OF(function, width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
                  "width and height must be in 1..16384");
    GS_REQUIRE_OF(function,
                  lists->tiles_x == (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE &&
                      lists->tiles_y == (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
                  "the lists are of an image of another size");
    GS_REQUIRE_OF(function, lists->tile_begin && (lists->pairs == 0 || (lists->splat_index && splats)),
                  "the lists and their splats must be given");
    GS_REQUIRE_OF(function, image->color && image->transmittance && image->consumed,
                  "every plane of the image must be given");
    return GS_OK;
}

} // namespace

gs_status gs_render(const gs_splat *splats, const gs_lists *lists, int32_t width, int32_t height,
                    const float background[3], const gs_image *image, gs_stream stream) {
    const gs_status status = check(__func__, splats, lists, width, height, background, image);
    if (status != GS_OK) return status;
    GS_CUDA(launch(stream, lists->tiles_x * lists->tiles_y, tile_pixels, render_kernel, splats, *lists, width,
                   height, color3{background[0], background[1], background[2]}, *image));
    return GS_OK;
}

gs_status gs_render_backward(const gs_splat *splats, int64_t count, const gs_lists *lists, int32_t width,
                             int32_t height, const float background[3], const gs_image *image,
                             const float *color_gradient, const float *alpha_gradient, gs_reduction reduction,
                             int balance_threshold, float *moments, gs_stream stream) {
    const gs_status status = check(__func__, splats, lists, width, height, background, image);
    if (status != GS_OK) return status;
    GS_REQUIRE(count >= 0 && count < INT32_MAX, "count must be in 0..2^31 - 2");
    GS_REQUIRE(color_gradient && (count == 0 || moments), "color_gradient and moments must be given");
    GS_REQUIRE(balance_threshold >= 0 && balance_threshold <= 33, "balance_threshold must be in 0..33");
    using kernel = void (*)(const gs_splat *, gs_lists, int, int, color3, gs_image, const float *,
                            const float *, int, float *);
    static const kernel kernels[GS_REDUCTIONS] = {
        render_backward_kernel<GS_ATOMIC>, render_backward_kernel<GS_SERIAL>, render_backward_kernel<GS_BFLY>,
        render_backward_kernel<GS_TREE>, render_backward_kernel<GS_BLOCK>};
    GS_REQUIRE(reduction >= 0 && reduction < GS_REDUCTIONS, "unknown reduction");
    if (count > 0)
        GS_CUDA(cudaMemsetAsync(moments, 0, size_t(count) * GS_MOMENTS_STRIDE * sizeof(float), stream));
    if (lists->pairs == 0) return GS_OK;
    GS_CUDA(launch(stream, lists->tiles_x * lists->tiles_y, tile_pixels, kernels[reduction], splats, *lists,
                   width, height, color3{background[0], background[1], background[2]}, *image, color_gradient,
                   alpha_gradient, balance_threshold, moments));
    return GS_OK;
}
