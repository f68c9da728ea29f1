// SPDX-License-Identifier: MIT
// The blend's derivative along a direction, front to back at each pixel, and the sums of products for
// diag(J^T J) and its blocks. How pixels map to threads: blend.cuh. Formulas: docs/developers/math.md, section 8.
#include "blend.cuh"
#include "launch.cuh"
#include "kernels.cuh"

using namespace gs;

namespace {

// The middle of a patch, relative to its first pixel.
constexpr float middle_x = 0.5f * (patch_width - 1);
template <int Pixels>
constexpr float middle_y = 0.5f * (row_step * Pixels - 1);

// The tangent with log_alpha as coefficients of 1, u, v, u^2, u v, v^2. (u, v): a pixel's offset from a point
// that is (x, y) from the tile's middle. Done once for a splat and warp; the pixels of a column then share
// the terms in u alone. The point is the middle of the patch: about the mean, a long thin splat has large
// terms that cancel.
__device__ inline splat_tangent recentred(const tile_splat &splat, splat_tangent tangent, float x, float y) {
    const float w0 = splat.right, w1 = splat.down[0] / row_step, w2 = splat.down[1] / row_step;
    const float e0 = fmaf(w1, y, fmaf(w0, x, splat.e[0])), e1 = fmaf(w2, y, splat.e[1]);
    float(&k)[6] = tangent.log_alpha;
    const float d_e0 = k[1] + 2 * k[3] * e0 + k[4] * e1, d_e1 = k[2] + k[4] * e0 + 2 * k[5] * e1;
    k[0] = log_alpha_change(tangent, e0, e1);
    k[1] = w0 * d_e0;
    k[2] = w1 * d_e0 + w2 * d_e1;
    const float w1_k3 = w1 * k[3], w2_k4 = w2 * k[4];
    k[3] *= w0 * w0;
    k[4] = w0 * (2 * w1_k3 + w2_k4);
    k[5] = w1 * (w1_k3 + w2_k4) + k[5] * w2 * w2;
    return tangent;
}

// There is no branch for a single pixel: where a splat does not count, its alpha is 0, which changes nothing.
template <int Pixels>
__global__ void __launch_bounds__(tile_threads<Pixels>)
    forward_kernel(const gs_splat *splats, const splat_tangent *tangents, gs_lists lists, int width,
                   int height, color3 background, gs_image image, const float *weight, float *change) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    __shared__ splat_tangent tangent_batches[tile_warps<Pixels>][32];
    splat_batch &batch = batches[threadIdx.x / 32];
    splat_tangent *tangent_batch = tangent_batches[threadIdx.x / 32];
    const int lane = int(threadIdx.x % 32);
    const patch<Pixels> mine = patch_of_warp<Pixels>(ordered_tile(lists, int(blockIdx.x)),
                                                     int(threadIdx.x) / 32, lists.tiles_x, width, height);
    const int64_t begin = lists.tile_begin[mine.tile], plane = int64_t(width) * height;
    const float u = float(lane % patch_width) - middle_x;

    // T' and not T'/T, which would need a division for each splat: T (1 - alpha) changes by T' - (T alpha)'.
    // The change of colour needs (T alpha)' as well.
    float transmittance[Pixels], transmittance_change[Pixels], v[Pixels];
    color3 color[Pixels];
    int n_contrib[Pixels], farthest = 0;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        const int y = mine.y + row_step * p;
        const bool inside = mine.x < width && y < height;
        transmittance[p] = 1;
        transmittance_change[p] = 0;
        v[p] = float(lane / patch_width + row_step * p) - middle_y<Pixels>;
        color[p] = {};
        n_contrib[p] = inside ? int(image.n_contrib[int64_t(y) * width + mine.x]) : 0;
        farthest = max(farthest, n_contrib[p]);
    }
    farthest = largest_in_warp(farthest);
    for (int first = 0; first < farthest; first += 32) {
        const int entry = first + lane;
        const int count = fill_batch(splats, lists.splat_index + begin, entry, entry < farthest, mine, batch);
        if (lane < count) {
            const tile_splat &splat = batch.splat[lane];
            tangent_batch[lane] =
                recentred(splat, tangents[splat.index], mine.centres.left + middle_x - mine.middle[0],
                          mine.centres.top + middle_y<Pixels> - mine.middle[1]);
        }
        __syncwarp();
        for (int j = 0; j < count; j++) {
            const tile_splat splat = batch.splat[j];
            const splat_column column = column_of(splat, mine);
            const splat_tangent tangent = tangent_batch[j];
            const float *k = tangent.log_alpha;
            // log alpha' = u_terms + v (uv_terms + v k[5])
            const float u_terms = fmaf(u, fmaf(u, k[3], k[1]), k[0]), uv_terms = fmaf(u, k[4], k[2]);
            const auto add_pixels = [&](auto may_clamp) {
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    coverage c;
                    const bool counts = covers<decltype(may_clamp)::value>(splat, column, mine, p, &c) &
                                        (splat.place < n_contrib[p]);
                    const float alpha = counts ? c.alpha : 0;
                    const float log_alpha_change =
                        c.clamped ? 0 : fmaf(v[p], fmaf(v[p], k[5], uv_terms), u_terms);
                    const float share = transmittance[p] * alpha;
                    const float share_change = fmaf(alpha, transmittance_change[p], share * log_alpha_change);
                    for_channels([&](int m) {
                        color[p].at[m] =
                            fmaf(share, tangent.color[m], fmaf(share_change, splat.color[m], color[p].at[m]));
                    });
                    transmittance_change[p] -= share_change;
                    transmittance[p] = fmaf(-alpha, transmittance[p], transmittance[p]);
                }
            };
            // As in the backward blend: most splats are clamped nowhere.
            if (Pixels > 1 && splat.log2_opacity < never_clamped)
                add_pixels(std::false_type{});
            else
                add_pixels(std::true_type{});
        }
    }
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        const int y = mine.y + row_step * p;
        if (mine.x >= width || y >= height) continue;
        const int64_t i = int64_t(y) * width + mine.x;
        float value[GS_CHANNELS];
        for_channels(
            [&](int c) { value[c] = fmaf(transmittance_change[p], background.at[c], color[p].at[c]); });
        for (int c = 0; c < GS_CHANNELS; c++)
            change[i + c * plane] = weight ? weight[i + c * plane] * value[c] : value[c];
    }
}

template <distwar::strategy Strategy, int Pixels>
__global__ void __launch_bounds__(tile_threads<Pixels>)
    squares_kernel(const gs_splat *splats, gs_lists lists, int width, int height, color3 background,
                   gs_image image, const float *weight, int balance_threshold, float *squares) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    splat_batch &batch = batches[threadIdx.x / 32];
    const patch<Pixels> mine = patch_of_warp<Pixels>(ordered_tile(lists, int(blockIdx.x)),
                                                     int(threadIdx.x) / 32, lists.tiles_x, width, height);
    const int64_t begin = lists.tile_begin[mine.tile], plane = int64_t(width) * height;

    float transmittance[Pixels], behind[Pixels][GS_CHANNELS], pixel_weight[Pixels][GS_CHANNELS];
    int n_contrib[Pixels], farthest = 0;
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        const int y = mine.y + row_step * p;
        const bool inside = mine.x < width && y < height;
        const int64_t i = int64_t(y) * width + mine.x;
        transmittance[p] = inside ? image.transmittance[i] : 1;
        n_contrib[p] = inside ? int(image.n_contrib[i]) : 0;
        for (int c = 0; c < GS_CHANNELS; c++) behind[p][c] = background.at[c];
        for (int c = 0; c < GS_CHANNELS; c++) pixel_weight[p][c] = inside ? weight[i + c * plane] : 0;
        farthest = max(farthest, n_contrib[p]);
    }
    for (int top = largest_in_warp(farthest); top > 0; top -= 32) {
        const int entry = top - 1 - int(threadIdx.x % 32);
        const int count = fill_batch(splats, lists.splat_index + begin, entry, entry >= 0, mine, batch);
        for (int j = 0; j < count; j++) {
            const tile_splat splat = batch.splat[j];
            const splat_column column = column_of(splat, mine);
            float value[GS_LM_SQUARES] = {};
            bool active = false;
            const auto add_pixels = [&](auto may_clamp) {
                coverage c[Pixels]; // all pixels first: their latencies overlap
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    const bool counts = covers<decltype(may_clamp)::value>(splat, column, mine, p, &c[p]) &
                                        (splat.place < n_contrib[p]);
                    active |= counts;
                    if (!counts) c[p].alpha = 0;
                }
                DISTWAR_UNROLL
                for (int p = 0; p < Pixels; p++) {
                    const float alpha = c[p].alpha;
                    if (!(alpha > 0)) continue; // a branch costs less than 31 sums
                    transmittance[p] = __fdividef(transmittance[p], 1 - alpha);
                    float difference[GS_CHANNELS];
                    for (int k = 0; k < GS_CHANNELS; k++) {
                        const float seen = splat.color[k] - behind[p][k];
                        behind[p][k] = fmaf(alpha, seen, behind[p][k]);
                        difference[k] = c[p].clamped ? 0 : seen;
                    }
                    const float row = float(mine.row + p);
                    add_squares(pixel_weight[p], transmittance[p] * alpha, difference,
                                fmaf(row, splat.down[0], column.e[0]), fmaf(row, splat.down[1], column.e[1]),
                                value);
                }
            };
            if (Pixels == 4 && splat.log2_opacity < never_clamped) // as in the backward blend
                add_pixels(std::false_type{});
            else
                add_pixels(std::true_type{});
            distwar::reduce<Strategy>(distwar::all_lanes, active, distwar::uniform_key{splat.index}, value,
                                      distwar::record<float>{squares, GS_LM_SQUARES_STRIDE},
                                      balance_threshold);
        }
    }
}

} // namespace

gs_status gs_lm_forward(const gs_view *view, const float *tangents, const float *weight, float *change,
                        gs_stream stream) {
    GS_TRY(check_one_view(__func__, view));
    GS_TRY(check_blended(__func__, view));
    const auto &lists = view->lists;
    GS_REQUIRE(change && (lists.pairs == 0 || tangents), "tangents and change must be given");
    const bool two = lists.pixels_per_thread == 4; // as gs_render
    return GS_STATUS(launch(
        stream, unsigned(lists.tiles_x * lists.tiles_y), two ? tile_threads<2> : tile_threads<1>,
        two ? forward_kernel<2> : forward_kernel<1>, view->splats,
        reinterpret_cast<const splat_tangent *>(tangents), lists, view->camera.width, view->camera.height,
        background_of<GS_CHANNELS>(*view, 0, GS_CHANNELS), view->image, weight, change));
}

gs_status gs_lm_squares(const gs_view *view, const float *weight, distwar_policy policy, float *squares,
                        gs_stream stream) {
    GS_TRY(check_one_view(__func__, view));
    GS_TRY(check_blended(__func__, view));
    GS_TRY(check_policy(__func__, policy, warp_strategies));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(weight && (count == 0 || squares), "weight and squares must be given");
    if (count > 0)
        GS_CUDA(cudaMemsetAsync(squares, 0, size_t(count) * GS_LM_SQUARES_STRIDE * sizeof(float), stream));
    const auto &lists = view->lists;
    if (lists.pairs == 0) return GS_OK;
    const auto run = [&](auto strategy) {
        const auto kernel = lists.pixels_per_thread == 1   ? squares_kernel<strategy, 1>
                            : lists.pixels_per_thread == 2 ? squares_kernel<strategy, 2>
                                                           : squares_kernel<strategy, 4>;
        return launch(stream, unsigned(lists.tiles_x * lists.tiles_y),
                      unsigned(tile_pixels / lists.pixels_per_thread), kernel, view->splats, lists,
                      view->camera.width, view->camera.height,
                      background_of<GS_CHANNELS>(*view, 0, GS_CHANNELS), view->image, weight,
                      policy.balance_threshold, squares);
    };
    return GS_STATUS(distwar::with_strategy(distwar::strategy(policy.strategy), run));
}
