// SPDX-License-Identifier: MIT
// The blend's part of J p, of J^T u and of diag(J^T J): along the rays again, or from a cache. The cache holds all
// pairs of a pixel and a splat that contribute, sorted by splat: the intermediate gradients of 3DGS-LM (Hoellein et al.
// 2024). It is built by a counting sort: a pass down the rays counts the pairs of each splat, a prefix sum gives their
// places, a second pass writes them. In products every warp reads an equal part of the pairs in order, and commits once
// for each splat in it. How pixels map to threads: blend.cuh. Formulas: docs/developers/math.md.
#include "blend.cuh"
#include "gpu/scan_sort.h"
#include "kernels.cuh"
#include "launch.cuh"

using namespace gs;

namespace {

// ---- along the rays ----

// The rays of a thread's pixels.
template <int Pixels>
struct rays {
    patch<Pixels> mine;
    const uint32_t *list;  // of the patch's tile
    int n_contrib[Pixels]; // splats of the tile's list that the blend took; 0 outside the image
    int farthest = 0;      // the most of them, of the warp's pixels
    float transmittance[Pixels], behind[Pixels][GS_CHANNELS]; // where a walk back to front is

    // By all lanes of a warp.
    GS_DEVICE rays(const gs_tile_ranges &ranges, int width, int height, const color3 &background,
                   const gs_image &image) {
        mine = patch_of_warp<Pixels>(ordered_tile(ranges, int(blockIdx.x)), int(threadIdx.x) / 32,
                                     ranges.tiles_x, width, height);
        list = ranges.splat_index + ranges.tile_begin[mine.tile];
        DISTWAR_UNROLL
        for (int p = 0; p < Pixels; p++) {
            const bool inside = has(p, width, height);
            transmittance[p] = inside ? image.transmittance[pixel(p, width)] : 1;
            n_contrib[p] = inside ? int(image.n_contrib[pixel(p, width)]) : 0;
            for (int c = 0; c < GS_CHANNELS; c++) behind[p][c] = background.at[c];
            farthest = max(farthest, n_contrib[p]);
        }
        farthest = warp_max(farthest);
    }
    GS_DEVICE bool has(int p, int width, int height) const {
        return mine.x < width && mine.y + row_step * p < height;
    }
    GS_DEVICE int64_t pixel(int p, int width) const {
        return int64_t(mine.y + row_step * p) * width + mine.x;
    }
    // Calls visit(splat) for every splat of the list that reaches the warp's patch, back to front. By all lanes of a
    // warp.
    template <typename Visit>
    GS_DEVICE void walk(const gs_splat *splats, splat_batch &batch, const Visit &visit) const {
        for (int top = farthest; top > 0; top -= 32) {
            const int entry = top - 1 - int(threadIdx.x % 32);
            const int count = fill_batch(splats, list, entry, entry >= 0, mine, batch);
            for (int j = 0; j < count; j++) visit(batch.splat[j]);
        }
    }
    // Pixel p comes before the splat, which contributes there. Returns T alpha. difference: the splat's colour minus the
    // one behind it, 0 where alpha was clamped.
    GS_DEVICE float pass(int p, const tile_splat &splat, const coverage &c, float difference[GS_CHANNELS]) {
        transmittance[p] = __fdividef(transmittance[p], 1 - c.alpha);
        for (int k = 0; k < GS_CHANNELS; k++) {
            const float seen = splat.color[k] - behind[p][k];
            behind[p][k] = fmaf(c.alpha, seen, behind[p][k]);
            difference[k] = c.clamped ? 0 : seen;
        }
        return transmittance[p] * c.alpha;
    }
};

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
    forward_kernel(const gs_splat *splats, gs_tile_ranges ranges, int width, int height, color3 background,
                   gs_image image, const splat_tangent *tangents, const float *weight, float *change) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    __shared__ splat_tangent tangent_batches[tile_warps<Pixels>][32];
    splat_batch &batch = batches[threadIdx.x / 32];
    splat_tangent *tangent_batch = tangent_batches[threadIdx.x / 32];
    const int lane = int(threadIdx.x % 32);
    const rays<Pixels> own(ranges, width, height, background, image);
    const patch<Pixels> &mine = own.mine;
    const int64_t plane = int64_t(width) * height;
    const float u = float(lane % patch_width) - middle_x;

    // T' and not T'/T, which would need a division for each splat: T (1 - alpha) changes by T' - (T alpha)'.
    // The change of colour needs (T alpha)' as well.
    float transmittance[Pixels], transmittance_change[Pixels], v[Pixels];
    color3 color[Pixels];
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++) {
        transmittance[p] = 1;
        transmittance_change[p] = 0;
        v[p] = float(lane / patch_width + row_step * p) - middle_y<Pixels>;
        color[p] = {};
    }
    for (int first = 0; first < own.farthest; first += 32) {
        const int entry = first + lane;
        const int count = fill_batch(splats, own.list, entry, entry < own.farthest, mine, batch);
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
                                        (splat.place < own.n_contrib[p]);
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
        if (!own.has(p, width, height)) continue;
        const int64_t i = own.pixel(p, width);
        float value[GS_CHANNELS];
        for_channels(
            [&](int c) { value[c] = fmaf(transmittance_change[p], background.at[c], color[p].at[c]); });
        for (int c = 0; c < GS_CHANNELS; c++)
            change[i + c * plane] = weight ? weight[i + c * plane] * value[c] : value[c];
    }
}

template <distwar::strategy Strategy, int Pixels>
__global__ void __launch_bounds__(tile_threads<Pixels>)
    squares_kernel(const gs_splat *splats, gs_tile_ranges ranges, int width, int height, color3 background,
                   gs_image image, const float *weight, int balance_threshold, float *squares) {
    __shared__ splat_batch batches[tile_warps<Pixels>];
    const int64_t plane = int64_t(width) * height;
    rays<Pixels> own(ranges, width, height, background, image);
    float pixel_weight[Pixels][GS_CHANNELS];
    DISTWAR_UNROLL
    for (int p = 0; p < Pixels; p++)
        for (int c = 0; c < GS_CHANNELS; c++)
            pixel_weight[p][c] = own.has(p, width, height) ? weight[own.pixel(p, width) + c * plane] : 0;
    own.walk(splats, batches[threadIdx.x / 32], [&](const tile_splat splat) {
        const splat_column column = column_of(splat, own.mine);
        float value[GS_LM_SQUARES] = {};
        bool active = false;
        const auto add_pixels = [&](auto may_clamp) {
            coverage c[Pixels]; // all pixels first: their latencies overlap
            DISTWAR_UNROLL
            for (int p = 0; p < Pixels; p++) {
                const bool counts = covers<decltype(may_clamp)::value>(splat, column, own.mine, p, &c[p]) &
                                    (splat.place < own.n_contrib[p]);
                active |= counts;
                if (!counts) c[p].alpha = 0;
            }
            DISTWAR_UNROLL
            for (int p = 0; p < Pixels; p++) {
                if (!(c[p].alpha > 0)) continue; // a branch costs less than 31 sums
                float difference[GS_CHANNELS];
                const float share = own.pass(p, splat, c[p], difference), row = float(own.mine.row + p);
                add_squares(pixel_weight[p], share, difference, fmaf(row, splat.down[0], column.e[0]),
                            fmaf(row, splat.down[1], column.e[1]), value);
            }
        };
        if (Pixels == 4 && splat.log2_opacity < never_clamped) // as in the backward blend
            add_pixels(std::false_type{});
        else
            add_pixels(std::true_type{});
        distwar::reduce<Strategy>(distwar::all_lanes, active, distwar::uniform_key{splat.index}, value,
                                  distwar::record<float>{squares, GS_LM_SQUARES_STRIDE}, balance_threshold);
    });
}

// ---- building the cache ----

// next: the place of each splat's next pair. Without Fill only counts the pairs there.
template <bool Fill>
__global__ void __launch_bounds__(tile_threads<1>)
    pairs_kernel(const gs_splat *splats, gs_tile_ranges ranges, int width, int height, color3 background,
                 gs_image image, int64_t *next, gs_lm_cache cache) {
    __shared__ splat_batch batches[tile_warps<1>];
    rays<1> own(ranges, width, height, background, image);
    const int lane = int(threadIdx.x % 32);
    own.walk(splats, batches[threadIdx.x / 32], [&](const tile_splat splat) {
        coverage c;
        const bool counts =
            covers(splat, column_of(splat, own.mine), own.mine, 0, &c) & (splat.place < own.n_contrib[0]);
        const unsigned mask = __ballot_sync(full_warp, counts);
        if (mask == 0) return;
        unsigned long long first = 0;
        if (lane == 0)
            first = atomicAdd(reinterpret_cast<unsigned long long *>(next + splat.index),
                              static_cast<unsigned long long>(__popc(mask)));
        if (!Fill) return;
        first = __shfl_sync(full_warp, first, 0);
        if (!counts) return;
        const int64_t at = int64_t(first) + __popc(mask & ((1u << lane) - 1));
        float difference[GS_CHANNELS];
        const float share = own.pass(0, splat, c, difference);
        cache.pixel[at] = uint32_t(own.mine.x) | uint32_t(own.mine.y) << 16;
        cache.share[at] = share;
        for_channels([&](int k) { cache.d_log_alpha[at + k * cache.pairs] = share * difference[k]; });
    });
}

// ---- products from the cache ----

constexpr int cache_block = 128, warps_of_block = cache_block / 32;
constexpr int pairs_of_warp = 2048, pairs_of_block = pairs_of_warp * warps_of_block;

// The splat as seen from a pixel. Callers need e alone.
__device__ tile_splat seen_at(const gs_splat &splat, uint32_t pixel) {
    const float centre[2] = {float(pixel & 0xffff) + 0.5f, float(pixel >> 16) + 0.5f};
    return seen_from(splat, centre);
}

__device__ int64_t pixel_index(uint32_t pixel, int width) {
    return int64_t(pixel >> 16) * width + (pixel & 0xffff);
}

// Divides the pairs evenly among warps. Calls body(splat index, first pair, end of pairs) for every splat with pairs in
// the warp's part. By all lanes of a warp.
template <typename Body>
GS_DEVICE void for_each_splat(const gs_lm_cache &cache, int64_t count, const Body &body) {
    const int64_t warp = int64_t(blockIdx.x) * warps_of_block + threadIdx.x / 32;
    int64_t at = warp * pairs_of_warp;
    const int64_t stop = min(at + pairs_of_warp, cache.pairs);
    if (at >= stop) return;
    int64_t splat = 0; // the last with begin[splat] <= at
    for (int64_t above = count; above - splat > 1;) {
        const int64_t middle = (splat + above) / 2;
        (cache.begin[middle] <= at ? splat : above) = middle;
    }
    for (;;) {
        const int64_t end = min(cache.begin[splat + 1], stop);
        body(splat, at, end);
        at = end;
        if (at >= stop) return;
        for (splat++;; splat += 32) { // skip splats without pairs
            const int64_t mine = splat + threadIdx.x % 32;
            const unsigned mask = __ballot_sync(full_warp, mine < count && cache.begin[mine + 1] > at);
            if (mask == 0) continue;
            splat += __ffs(int(mask)) - 1;
            break;
        }
    }
}

// change: zeros at first. weight: NULL counts as 1.
__global__ void __launch_bounds__(cache_block)
    cached_forward_kernel(const gs_splat *splats, int64_t count, gs_lm_cache cache, int width, int64_t plane,
                          const splat_tangent *tangents, const float *weight, float *change) {
    for_each_splat(cache, count, [&](int64_t splat_index, int64_t first, int64_t end) {
        const gs_splat splat = splats[splat_index];
        const splat_tangent tangent = tangents[splat_index];
        for (int64_t i = first + threadIdx.x % 32; i < end; i += 32) {
            const tile_splat seen = seen_at(splat, cache.pixel[i]);
            const int64_t at = pixel_index(cache.pixel[i], width);
            const float share = cache.share[i],
                        alpha_change = log_alpha_change(tangent, seen.e[0], seen.e[1]);
            float value[GS_CHANNELS];
            for_channels([&](int c) {
                value[c] = share * tangent.color[c] + alpha_change * cache.d_log_alpha[i + c * cache.pairs];
                if (weight) value[c] *= weight[at + c * plane];
            });
            distwar::planes{change, plane}.add(at, value);
        }
    });
}

// Adds to K sums of each splat. add_pair(i, pixel, e, value) adds pair i to the thread's part of them.
template <distwar::strategy Strategy, int K, typename AddPair>
GS_DEVICE void sum_pairs(const gs_splat *splats, int64_t count, const gs_lm_cache &cache,
                         distwar::record<float> sums, int balance_threshold, const AddPair &add_pair) {
    for_each_splat(cache, count, [&](int64_t splat_index, int64_t first, int64_t end) {
        const gs_splat splat = splats[splat_index];
        float value[K] = {};
        const int64_t mine = first + threadIdx.x % 32;
        for (int64_t i = mine; i < end; i += 32) {
            const uint32_t pixel = cache.pixel[i];
            add_pair(i, pixel, seen_at(splat, pixel).e, value);
        }
        distwar::reduce<Strategy>(distwar::all_lanes, mine < end, distwar::uniform_key{splat_index}, value,
                                  sums, balance_threshold);
    });
}

template <distwar::strategy Strategy>
__global__ void __launch_bounds__(cache_block)
    cached_backward_kernel(const gs_splat *splats, int64_t count, gs_lm_cache cache, int width, int64_t plane,
                           const float *gradient, int balance_threshold, float *splat_grad) {
    constexpr int moments_of = MOMENT_H_E1E1 + 1; // those that are always summed
    const auto add_pair = [&](int64_t i, uint32_t pixel, const float *e, float(&value)[moments_of]) {
        const color3 d_color = pixel_of(gradient, plane, pixel_index(pixel, width));
        const float share = cache.share[i];
        float h = 0;
        for_channels([&](int c) {
            h = fmaf(d_color.at[c], cache.d_log_alpha[i + c * cache.pairs], h);
            value[MOMENT_COLOR + c] = fmaf(share, d_color.at[c], value[MOMENT_COLOR + c]);
        });
        const float h_e0 = h * e[0], h_e1 = h * e[1];
        value[MOMENT_H] += h;
        value[MOMENT_H_E0] += h_e0;
        value[MOMENT_H_E1] += h_e1;
        value[MOMENT_H_E0E0] = fmaf(h_e0, e[0], value[MOMENT_H_E0E0]);
        value[MOMENT_H_E0E1] = fmaf(h_e0, e[1], value[MOMENT_H_E0E1]);
        value[MOMENT_H_E1E1] = fmaf(h_e1, e[1], value[MOMENT_H_E1E1]);
    };
    sum_pairs<Strategy, moments_of>(splats, count, cache, {splat_grad, GS_LM_TANGENT_STRIDE},
                                    balance_threshold, add_pair);
}

template <distwar::strategy Strategy>
__global__ void __launch_bounds__(cache_block)
    cached_squares_kernel(const gs_splat *splats, int64_t count, gs_lm_cache cache, int width, int64_t plane,
                          const float *weight, int balance_threshold, float *squares) {
    const auto add_pair = [&](int64_t i, uint32_t pixel, const float *e, float(&value)[GS_LM_SQUARES]) {
        const color3 pixel_weight = pixel_of(weight, plane, pixel_index(pixel, width));
        const float share = cache.share[i], inv_share = 1 / share; // T alpha is never 0
        float difference[GS_CHANNELS];
        for_channels([&](int c) { difference[c] = inv_share * cache.d_log_alpha[i + c * cache.pairs]; });
        add_squares(pixel_weight.at, share, difference, e[0], e[1], value);
    };
    sum_pairs<Strategy, GS_LM_SQUARES>(splats, count, cache, {squares, GS_LM_SQUARES_STRIDE},
                                       balance_threshold, add_pair);
}

// ---- host ----

// Launches a kernel along the rays of a view, by blocks of `threads` for each tile.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_rays(const gs_view *view, int threads,
                        void (*kernel)(const gs_splat *, gs_tile_ranges, int, int, color3, gs_image,
                                       Parameters...),
                        Arguments... arguments) {
    const auto &ranges = view->ranges;
    return launch(nullptr, unsigned(ranges.tiles_x * ranges.tiles_y), unsigned(threads), kernel, view->splats,
                  ranges, view->camera.width, view->camera.height,
                  background_of<GS_CHANNELS>(*view, 0, GS_CHANNELS), view->image, arguments...);
}

// launch() of a kernel over all pairs of a cache.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_cached(const gs_view *view, const gs_lm_cache *cache,
                          void (*kernel)(const gs_splat *, int64_t, gs_lm_cache, int, int64_t, Parameters...),
                          Arguments... arguments) {
    return launch(nullptr, blocks_for(cache->pairs, pairs_of_block), cache_block, kernel, view->splats,
                  view->gaussians.count, *cache, view->camera.width, int64_t(plane_of(*view)), arguments...);
}

// Clears the records of all splats, `stride` floats each, and calls run(strategy), which queues the kernel that adds to
// them.
template <typename Run>
gs_status sum_by_splat(const char *function, const gs_view *view, const gs_lm_cache *cache,
                       distwar_policy policy, int stride, float *sums, const Run &run) {
    GS_TRY(check_policy(function, policy, warp_strategy_bits));
    const int64_t count = view->gaussians.count;
    if (count > 0) GS_CUDA(cudaMemsetAsync(sums, 0, size_t(count) * stride * sizeof(float), nullptr));
    if ((cache ? cache->pairs : view->ranges.isects) == 0) return GS_OK;
    return GS_STATUS(distwar::with_strategy(distwar::strategy(policy.strategy), run));
}

} // namespace

gs_status gs_lm_forward(const gs_view *view, const gs_lm_cache *cache, const float *tangents,
                        const float *weight, float *change) {
    const auto *const of = reinterpret_cast<const splat_tangent *>(tangents);
    if (cache) {
        GS_CUDA(cudaMemsetAsync(change, 0, GS_CHANNELS * plane_of(*view) * sizeof(float), nullptr));
        return GS_STATUS(launch_cached(view, cache, cached_forward_kernel, of, weight, change));
    }
    const bool two = view->ranges.pixels_per_thread == 4; // as gs_render
    return GS_STATUS(launch_rays(view, two ? tile_threads<2> : tile_threads<1>,
                                 two ? forward_kernel<2> : forward_kernel<1>, of, weight, change));
}

gs_status gs_lm_squares(const gs_view *view, const gs_lm_cache *cache, const float *weight,
                        distwar_policy policy, float *squares) {
    const auto run = [&](auto strategy) {
        if (cache)
            return launch_cached(view, cache, cached_squares_kernel<strategy>, weight,
                                 policy.balance_threshold, squares);
        const int pixels = view->ranges.pixels_per_thread;
        const auto kernel = pixels == 1   ? squares_kernel<strategy, 1>
                            : pixels == 2 ? squares_kernel<strategy, 2>
                                          : squares_kernel<strategy, 4>;
        return launch_rays(view, tile_pixels / pixels, kernel, weight, policy.balance_threshold, squares);
    };
    return sum_by_splat(__func__, view, cache, policy, GS_LM_SQUARES_STRIDE, squares, run);
}

gs_status gs_lm_cached_backward(const gs_view *view, const gs_lm_cache *cache, const float *color_gradient,
                                distwar_policy policy, float *splat_grad) {
    const auto run = [&](auto strategy) {
        return launch_cached(view, cache, cached_backward_kernel<strategy>, color_gradient,
                             policy.balance_threshold, splat_grad);
    };
    return sum_by_splat(__func__, view, cache, policy, GS_LM_TANGENT_STRIDE, splat_grad, run);
}

gs_status gs_lm_cache_begin(const gs_view *view, gs_lm_cache *cache) {
    const int64_t count = view->gaussians.count;
    size_t bytes;
    void *scratch;
    GS_CUDA(scan_exclusive_bytes(count + 1, &bytes));
    GS_TRY(libgs_memory(__func__, nullptr, CONTEXT_SCRATCH, bytes, &scratch));
    int64_t *const next = cache->begin + 1; // the place of each splat's next pair
    GS_CUDA(cudaMemsetAsync(cache->begin, 0, size_t(count + 2) * sizeof(int64_t), nullptr));
    if (view->ranges.isects > 0)
        GS_CUDA(launch_rays(view, tile_threads<1>, pairs_kernel<false>, next, gs_lm_cache{}));
    GS_CUDA(scan_exclusive(next, next, count + 1, scratch, bytes, nullptr));
    GS_CUDA(cudaMemcpyAsync(&cache->pairs, next + count, sizeof(int64_t), cudaMemcpyDeviceToHost, nullptr));
    return GS_STATUS(cudaStreamSynchronize(nullptr));
}

gs_status gs_lm_cache_fill(const gs_view *view, const gs_lm_cache *cache) {
    if (cache->pairs == 0) return GS_OK;
    return GS_STATUS(launch_rays(view, tile_threads<1>, pairs_kernel<true>, cache->begin + 1, *cache));
}
