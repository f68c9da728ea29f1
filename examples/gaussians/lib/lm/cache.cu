// SPDX-License-Identifier: MIT
// Products with J from a cache of all (pixel, splat) pairs that count, sorted by splat. Two passes over the
// rays build it, a prefix sum between them. Warps read equal shares of the pairs in order, and commit once
// for each splat in their share. Formulas: docs/developers/math.md, section 8.
#include "blend/blend_pass.cuh"
#include "check.h"
#include "distwar_gs_lm.h"
#include "launch.cuh"
#include "lm/squares.cuh"
#include "lm/tangent.cuh"
#include "gpu/scan_sort.h"

using namespace gs;

namespace {

constexpr int cache_block = 128, warps_of_block = cache_block / 32;
constexpr int pairs_of_warp = 2048, pairs_of_block = pairs_of_warp * warps_of_block;

// Whitened.
struct offset {
    float e0, e1;
};

__device__ offset offset_at(const gs_splat &splat, uint32_t pixel) {
    const float dx = float(pixel & 0xffff) + 0.5f - splat.mean[0];
    const float dy = float(pixel >> 16) + 0.5f - splat.mean[1];
    return {fmaf(splat.whiten[0], dx, splat.whiten[1] * dy), splat.whiten[2] * dy};
}

__device__ int64_t pixel_index(uint32_t pixel, int width) {
    return int64_t(pixel >> 16) * width + (pixel & 0xffff);
}

// Calls visit(splat, counts, coverage) for every splat that reaches the warp's patch, back to front.
// counts: whether it counts at this thread's pixel. By all lanes of a warp.
template <typename Visit>
__device__ __forceinline__ void walk(const gs_splat *splats, const gs_lists &lists, int width, int height,
                                     const gs_image &image, splat_batch &batch, const Visit &visit) {
    const patch<1> mine = patch_of_warp<1>(ordered_tile(lists, int(blockIdx.x)), int(threadIdx.x) / 32,
                                           lists.tiles_x, width, height);
    const int64_t begin = lists.tile_begin[mine.tile];
    const bool inside = mine.x < width && mine.y < height;
    const int n_contrib = inside ? int(image.n_contrib[int64_t(mine.y) * width + mine.x]) : 0;
    for (int top = largest_in_warp(n_contrib); top > 0; top -= 32) {
        const int entry = top - 1 - int(threadIdx.x % 32);
        const int count = fill_batch(splats, lists.splat_index + begin, entry, entry >= 0, mine, batch);
        for (int j = 0; j < count; j++) {
            const tile_splat splat = batch.splat[j];
            coverage c;
            const bool counts =
                covers(splat, column_of(splat, mine), mine, 0, &c) & (splat.place < n_contrib);
            visit(splat, counts, c);
        }
    }
}

__global__ void __launch_bounds__(tile_threads<1>)
    count_kernel(const gs_splat *splats, gs_lists lists, int width, int height, gs_image image,
                 int64_t *counts) {
    __shared__ splat_batch batches[tile_warps<1>];
    walk(splats, lists, width, height, image, batches[threadIdx.x / 32],
         [&](const tile_splat &splat, bool counting, const coverage &) {
             const unsigned mask = __ballot_sync(full_warp, counting);
             if (mask != 0 && threadIdx.x % 32 == 0)
                 atomicAdd(reinterpret_cast<unsigned long long *>(counts + splat.index),
                           static_cast<unsigned long long>(__popc(mask)));
         });
}

__global__ void __launch_bounds__(tile_threads<1>)
    fill_kernel(const gs_splat *splats, gs_lists lists, int width, int height, color3 background,
                gs_image image, int64_t *cursor, gs_lm_cache cache) {
    __shared__ splat_batch batches[tile_warps<1>];
    const patch<1> mine = patch_of_warp<1>(ordered_tile(lists, int(blockIdx.x)), int(threadIdx.x) / 32,
                                           lists.tiles_x, width, height);
    const bool inside = mine.x < width && mine.y < height;
    const int lane = int(threadIdx.x % 32);
    float transmittance = inside ? image.transmittance[int64_t(mine.y) * width + mine.x] : 1;
    color3 behind = background;
    walk(splats, lists, width, height, image, batches[threadIdx.x / 32],
         [&](const tile_splat &splat, bool counting, const coverage &c) {
             const unsigned mask = __ballot_sync(full_warp, counting);
             if (mask == 0) return;
             unsigned long long first = 0;
             if (lane == 0)
                 first = atomicAdd(reinterpret_cast<unsigned long long *>(cursor + splat.index),
                                   static_cast<unsigned long long>(__popc(mask)));
             first = __shfl_sync(full_warp, first, 0);
             if (!counting) return;
             const int64_t at = int64_t(first) + __popc(mask & ((1u << lane) - 1));
             transmittance = __fdividef(transmittance, 1 - c.alpha);
             const float share = transmittance * c.alpha;
             cache.pixel[at] = uint32_t(mine.x) | uint32_t(mine.y) << 16;
             cache.share[at] = share;
             for (int k = 0; k < GS_CHANNELS; k++) {
                 const float difference = splat.color[k] - behind.at[k];
                 cache.d_log_alpha[at + k * cache.pairs] = c.clamped ? 0 : share * difference;
                 behind.at[k] = fmaf(c.alpha, difference, behind.at[k]);
             }
         });
}

// Divides the pairs evenly among warps. Calls body(splat index, first pair, end of pairs) for every splat
// with pairs in the warp's share. By all lanes of a warp.
template <typename Body>
__device__ __forceinline__ void for_each_splat(const gs_lm_cache &cache, int64_t count, const Body &body) {
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

__global__ void __launch_bounds__(cache_block)
    cached_forward_kernel(const gs_splat *splats, int64_t count, gs_lm_cache cache, int width,
                          const splat_tangent *tangents, float *change) {
    for_each_splat(cache, count, [&](int64_t splat_index, int64_t first, int64_t end) {
        const gs_splat splat = splats[splat_index];
        const splat_tangent tangent = tangents[splat_index];
        for (int64_t i = first + threadIdx.x % 32; i < end; i += 32) {
            const uint32_t pixel = cache.pixel[i];
            const offset e = offset_at(splat, pixel);
            const float share = cache.share[i], alpha_change = log_alpha_change(tangent, e.e0, e.e1);
            float value[4] = {0, 0, 0, 0};
            for (int c = 0; c < GS_CHANNELS; c++)
                value[c] = share * tangent.color[c] + alpha_change * cache.d_log_alpha[i + c * cache.pairs];
            distwar::aligned_record{change, 4}.add(pixel_index(pixel, width), value);
        }
    });
}

// Adds to K sums of each splat. add_pair(i, pixel, e, value) adds pair i to the thread's part of them.
template <distwar::strategy Strategy, int K, typename AddPair>
__device__ __forceinline__ void sum_pairs(const gs_splat *splats, int64_t count, const gs_lm_cache &cache,
                                          distwar::record<float> sums, int balance_threshold,
                                          const AddPair &add_pair) {
    for_each_splat(cache, count, [&](int64_t splat_index, int64_t first, int64_t end) {
        const gs_splat splat = splats[splat_index];
        float value[K] = {};
        const int64_t mine = first + threadIdx.x % 32;
        for (int64_t i = mine; i < end; i += 32) {
            const uint32_t pixel = cache.pixel[i];
            add_pair(i, pixel, offset_at(splat, pixel), value);
        }
        distwar::reduce<Strategy>(distwar::all_lanes, mine < end, distwar::uniform_key{splat_index}, value,
                                  sums, balance_threshold);
    });
}

template <distwar::strategy Strategy>
__global__ void __launch_bounds__(cache_block)
    cached_backward_kernel(const gs_splat *splats, int64_t count, gs_lm_cache cache, int width,
                           const float4 *gradient, int balance_threshold, float *moments) {
    const auto add_pair = [&](int64_t i, uint32_t pixel, const offset &e, float(&value)[GS_MOMENTS]) {
        const float4 four = gradient[pixel_index(pixel, width)]; // of which the last is 0
        const float d_color[GS_CHANNELS] = {four.x, four.y, four.z};
        const float share = cache.share[i];
        float h = 0;
        for_channels([&](int c) {
            const float d_alpha = d_color[c] * cache.d_log_alpha[i + c * cache.pairs];
            h = c == 0 ? d_alpha : h + d_alpha;
        });
        const float h_e0 = h * e.e0, h_e1 = h * e.e1;
        for_channels(
            [&](int c) { value[MOMENT_COLOR + c] = fmaf(share, d_color[c], value[MOMENT_COLOR + c]); });
        value[MOMENT_H] += h;
        value[MOMENT_H_E0] += h_e0;
        value[MOMENT_H_E1] += h_e1;
        value[MOMENT_H_E0E0] = fmaf(h_e0, e.e0, value[MOMENT_H_E0E0]);
        value[MOMENT_H_E0E1] = fmaf(h_e0, e.e1, value[MOMENT_H_E0E1]);
        value[MOMENT_H_E1E1] = fmaf(h_e1, e.e1, value[MOMENT_H_E1E1]);
    };
    sum_pairs<Strategy, GS_MOMENTS>(splats, count, cache, {moments, GS_MOMENTS_STRIDE}, balance_threshold,
                                    add_pair);
}

template <distwar::strategy Strategy>
__global__ void __launch_bounds__(cache_block)
    cached_squares_kernel(const gs_splat *splats, int64_t count, gs_lm_cache cache, int width, int64_t plane,
                          const float *weight, int balance_threshold, float *squares) {
    const auto add_pair = [&](int64_t i, uint32_t pixel, const offset &e, float(&value)[GS_LM_SQUARES]) {
        const int64_t at = pixel_index(pixel, width);
        float pixel_weight[GS_CHANNELS], difference[GS_CHANNELS];
        for_channels([&](int c) { pixel_weight[c] = weight[at + c * plane]; });
        const float share = cache.share[i], inv_share = 1 / share; // T alpha is never 0
        for_channels([&](int c) { difference[c] = inv_share * cache.d_log_alpha[i + c * cache.pairs]; });
        add_squares(pixel_weight, share, difference, e.e0, e.e1, value);
    };
    sum_pairs<Strategy, GS_LM_SQUARES>(splats, count, cache, {squares, GS_LM_SQUARES_STRIDE},
                                       balance_threshold, add_pair);
}

size_t cursor_bytes(int64_t count) {
    return (size_t(count + 1) * sizeof(int64_t) + 255) / 256 * 256;
}

gs_status check_build(const char *function, const gs_view *view, const void *workspace, size_t bytes,
                      const gs_lm_cache *cache) {
    GS_TRY(check_one_view(function, view));
    GS_TRY(check_blended(function, view));
    GS_REQUIRE_OF(function, cache && cache->begin, "cache and its begin must be given");
    size_t needed = 0;
    GS_TRY(gs_lm_cache_bytes(view->gaussians.count, &needed));
    return check_workspace(function, workspace, bytes, needed);
}

gs_status check_cache(const char *function, const gs_view *view, const gs_lm_cache *cache) {
    GS_TRY(check_one_view(function, view));
    GS_REQUIRE_OF(function, cache && cache->begin && cache->pairs >= 0, "the cache must be given");
    return libgs_require(
        function, cache->pairs == 0 || (view->splats && cache->pixel && cache->share && cache->d_log_alpha),
        "the arrays of the cache and the splats must be given");
}

} // namespace

gs_status gs_lm_cache_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    size_t scan = 0;
    GS_CUDA(scan_exclusive_bytes(count + 1, &scan));
    *bytes = cursor_bytes(count) + scan;
    return GS_OK;
}

gs_status gs_lm_cache_begin(const gs_view *view, void *workspace, size_t workspace_bytes, gs_lm_cache *cache,
                            gs_stream stream) {
    GS_TRY(check_build(__func__, view, workspace, workspace_bytes, cache));
    const int64_t count = view->gaussians.count;
    const gs_lists &lists = view->lists;
    GS_CUDA(cudaMemsetAsync(cache->begin, 0, size_t(count + 1) * sizeof(int64_t), stream));
    if (lists.pairs > 0)
        GS_CUDA(launch(stream, unsigned(lists.tiles_x * lists.tiles_y), unsigned(tile_threads<1>),
                       count_kernel, view->splats, lists, view->camera.width, view->camera.height,
                       view->image, cache->begin));
    char *temporary = static_cast<char *>(workspace) + cursor_bytes(count);
    GS_CUDA(scan_exclusive(cache->begin, cache->begin, count + 1, temporary,
                           workspace_bytes - cursor_bytes(count), stream));
    GS_CUDA(cudaMemcpyAsync(&cache->pairs, cache->begin + count, sizeof(int64_t), cudaMemcpyDeviceToHost,
                            stream));
    return GS_STATUS(cudaStreamSynchronize(stream));
}

gs_status gs_lm_cache_fill(const gs_view *view, void *workspace, size_t workspace_bytes,
                           const gs_lm_cache *cache, gs_stream stream) {
    GS_TRY(check_build(__func__, view, workspace, workspace_bytes, cache));
    GS_TRY(check_cache(__func__, view, cache));
    if (cache->pairs == 0) return GS_OK;
    const gs_lists &lists = view->lists;
    int64_t *cursor = static_cast<int64_t *>(workspace);
    GS_CUDA(cudaMemcpyAsync(cursor, cache->begin, size_t(view->gaussians.count + 1) * sizeof(int64_t),
                            cudaMemcpyDeviceToDevice, stream));
    return GS_STATUS(launch(stream, unsigned(lists.tiles_x * lists.tiles_y), unsigned(tile_threads<1>),
                            fill_kernel, view->splats, lists, view->camera.width, view->camera.height,
                            background_of<GS_CHANNELS>(*view, 0, GS_CHANNELS), view->image, cursor, *cache));
}

gs_status gs_lm_cached_forward(const gs_view *view, const gs_lm_cache *cache, const float *tangents,
                               float *change, gs_stream stream) {
    GS_TRY(check_cache(__func__, view, cache));
    GS_REQUIRE(change && (cache->pairs == 0 || tangents), "tangents and change must be given");
    const int width = view->camera.width, height = view->camera.height;
    GS_CUDA(cudaMemsetAsync(change, 0, size_t(width) * height * 4 * sizeof(float), stream));
    return GS_STATUS(launch(stream, blocks_for(cache->pairs, pairs_of_block), cache_block,
                            cached_forward_kernel, view->splats, view->gaussians.count, *cache, width,
                            reinterpret_cast<const splat_tangent *>(tangents), change));
}

gs_status gs_lm_cached_backward(const gs_view *view, const gs_lm_cache *cache, const float *color_gradient,
                                distwar_policy policy, gs_moments *moments, gs_stream stream) {
    GS_TRY(check_cache(__func__, view, cache));
    GS_TRY(check_policy(__func__, policy, warp_strategies));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(color_gradient && (count == 0 || moments), "color_gradient and moments must be given");
    if (count > 0) GS_CUDA(cudaMemsetAsync(moments, 0, size_t(count) * sizeof(gs_moments), stream));
    const auto run = [&](auto strategy) {
        return launch(stream, blocks_for(cache->pairs, pairs_of_block), cache_block,
                      cached_backward_kernel<strategy>, view->splats, count, *cache, view->camera.width,
                      reinterpret_cast<const float4 *>(color_gradient), policy.balance_threshold,
                      reinterpret_cast<float *>(moments));
    };
    return GS_STATUS(distwar::with_strategy(distwar::strategy(policy.strategy), run));
}

gs_status gs_lm_cached_squares(const gs_view *view, const gs_lm_cache *cache, const float *weight,
                               distwar_policy policy, float *squares, gs_stream stream) {
    GS_TRY(check_cache(__func__, view, cache));
    GS_TRY(check_policy(__func__, policy, warp_strategies));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(weight && (count == 0 || squares), "weight and squares must be given");
    if (count > 0)
        GS_CUDA(cudaMemsetAsync(squares, 0, size_t(count) * GS_LM_SQUARES_STRIDE * sizeof(float), stream));
    const int width = view->camera.width;
    const auto run = [&](auto strategy) {
        return launch(stream, blocks_for(cache->pairs, pairs_of_block), cache_block,
                      cached_squares_kernel<strategy>, view->splats, count, *cache, width,
                      int64_t(width) * view->camera.height, weight, policy.balance_threshold, squares);
    };
    return GS_STATUS(distwar::with_strategy(distwar::strategy(policy.strategy), run));
}
