// SPDX-License-Identifier: MIT
// Products with C from a cache of all pairs of a pixel and a splat that contribute, sorted by splat: the intermediate
// gradients of 3DGS-LM (Hoellein et al. 2024). It is a counting sort: a pass down the rays counts the pairs of each
// splat, a prefix sum gives their places, a second pass writes them. In the products warps read equal shares of the
// pairs in order, and commit once for each splat in their share. Formulas: docs/developers/math-lm.md.
#include "blend.cuh"
#include "gpu/scan_sort.h"
#include "kernels.cuh"
#include "launch.cuh"

using namespace gs;

namespace {

constexpr int cache_block = 128, warps_of_block = cache_block / 32;
constexpr int pairs_of_warp = 2048, pairs_of_block = pairs_of_warp * warps_of_block;

// ---- building it ----

// A thread's pixel, and how many splats of its tile's list the blend took there.
struct ray {
    patch<1> mine;
    int64_t pixel; // its index in the image
    bool inside;
    int n_contrib;
};

__device__ ray ray_of_thread(int tile, int tiles_x, const gs_image &image, int width, int height) {
    ray r;
    r.mine = patch_of_warp<1>(tile, int(threadIdx.x) / 32, tiles_x, width, height);
    r.pixel = int64_t(r.mine.y) * width + r.mine.x;
    r.inside = r.mine.x < width && r.mine.y < height;
    r.n_contrib = r.inside ? int(image.n_contrib[r.pixel]) : 0;
    return r;
}

// Calls visit(splat, counts, coverage) for every splat of the tile's list that reaches the warp's patch, back to front.
// counts: whether it contributes at this thread's pixel. By all lanes of a warp.
template <typename Visit>
__device__ __forceinline__ void walk(const gs_splat *splats, const uint32_t *list, const ray &r,
                                     splat_batch &batch, const Visit &visit) {
    for (int top = largest_in_warp(r.n_contrib); top > 0; top -= 32) {
        const int entry = top - 1 - int(threadIdx.x % 32);
        const int count = fill_batch(splats, list, entry, entry >= 0, r.mine, batch);
        for (int j = 0; j < count; j++) {
            const tile_splat splat = batch.splat[j];
            coverage c;
            const bool counts =
                covers(splat, column_of(splat, r.mine), r.mine, 0, &c) & (splat.place < r.n_contrib);
            visit(splat, counts, c);
        }
    }
}

// next: the place of each splat's next pair. Without Fill only counts the pairs there.
template <bool Fill>
__global__ void __launch_bounds__(tile_threads<1>)
    pairs_kernel(const gs_splat *splats, gs_lists lists, int width, int height, color3 background,
                 gs_image image, int64_t *next, gs_lm_cache cache) {
    __shared__ splat_batch batches[tile_warps<1>];
    const ray r = ray_of_thread(ordered_tile(lists, int(blockIdx.x)), lists.tiles_x, image, width, height);
    const uint32_t *const list = lists.splat_index + lists.tile_begin[r.mine.tile];
    const int lane = int(threadIdx.x % 32);
    float transmittance = r.inside ? image.transmittance[r.pixel] : 1;
    color3 behind = background;
    walk(splats, list, r, batches[threadIdx.x / 32],
         [&](const tile_splat &splat, bool counting, const coverage &c) {
             const unsigned mask = __ballot_sync(full_warp, counting);
             if (mask == 0) return;
             unsigned long long first = 0;
             if (lane == 0)
                 first = atomicAdd(reinterpret_cast<unsigned long long *>(next + splat.index),
                                   static_cast<unsigned long long>(__popc(mask)));
             if (!Fill) return;
             first = __shfl_sync(full_warp, first, 0);
             if (!counting) return;
             const int64_t at = int64_t(first) + __popc(mask & ((1u << lane) - 1));
             transmittance = __fdividef(transmittance, 1 - c.alpha);
             const float share = transmittance * c.alpha;
             cache.pixel[at] = uint32_t(r.mine.x) | uint32_t(r.mine.y) << 16;
             cache.share[at] = share;
             for_channels([&](int k) {
                 const float difference = splat.color[k] - behind.at[k];
                 cache.d_log_alpha[at + k * cache.pairs] = c.clamped ? 0 : share * difference;
                 behind.at[k] = fmaf(c.alpha, difference, behind.at[k]);
             });
         });
}

// ---- reading it ----

// The splat as seen from a pixel; of it e is needed.
__device__ tile_splat seen_at(const gs_splat &splat, uint32_t pixel) {
    const float centre[2] = {float(pixel & 0xffff) + 0.5f, float(pixel >> 16) + 0.5f};
    return seen_from(splat, centre);
}

__device__ int64_t pixel_index(uint32_t pixel, int width) {
    return int64_t(pixel >> 16) * width + (pixel & 0xffff);
}

// Divides the pairs evenly among warps. Calls body(splat index, first pair, end of pairs) for every splat with pairs in
// the warp's share. By all lanes of a warp.
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
__device__ __forceinline__ void sum_pairs(const gs_splat *splats, int64_t count, const gs_lm_cache &cache,
                                          distwar::record<float> sums, int balance_threshold,
                                          const AddPair &add_pair) {
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
                           const float *gradient, int balance_threshold, float *moments) {
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
    sum_pairs<Strategy, moments_of>(splats, count, cache, {moments, GS_LM_TANGENT_STRIDE}, balance_threshold,
                                    add_pair);
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

// Of the places of each splat's next pair.
size_t places_bytes(int64_t count) {
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

cudaError_t launch_pairs(decltype(pairs_kernel<true>) *kernel, const gs_view *view, int64_t *next,
                         const gs_lm_cache &cache, gs_stream stream) {
    const auto &lists = view->lists;
    if (lists.pairs == 0) return cudaSuccess;
    return launch(stream, unsigned(lists.tiles_x * lists.tiles_y), unsigned(tile_threads<1>), kernel,
                  view->splats, lists, view->camera.width, view->camera.height,
                  background_of<GS_CHANNELS>(*view, 0, GS_CHANNELS), view->image, next, cache);
}

gs_status check_cache(const char *function, const gs_view *view, const gs_lm_cache *cache) {
    GS_TRY(check_one_view(function, view));
    GS_REQUIRE_OF(function, cache && cache->begin && cache->pairs >= 0, "the cache must be given");
    return libgs_require(
        function, cache->pairs == 0 || (view->splats && cache->pixel && cache->share && cache->d_log_alpha),
        "the arrays of the cache and the splats must be given");
}

// Launches a kernel over all pairs that adds to records of `stride` floats for each splat, which are zeros at first.
// kernel_of(strategy) gives it; picture: what it reads at pixels.
template <typename KernelOf>
gs_status sum_by_splat(const char *function, const gs_view *view, const gs_lm_cache *cache,
                       const float *picture, distwar_policy policy, int stride, float *sums, gs_stream stream,
                       const KernelOf &kernel_of) {
    GS_TRY(check_cache(function, view, cache));
    GS_TRY(check_policy(function, policy, warp_strategies));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE_OF(function, picture && (count == 0 || sums),
                  "the values of the pixels and the sums must be given");
    if (count > 0) GS_CUDA(cudaMemsetAsync(sums, 0, size_t(count) * stride * sizeof(float), stream));
    const auto run = [&](auto strategy) {
        return launch(stream, blocks_for(cache->pairs, pairs_of_block), cache_block, kernel_of(strategy),
                      view->splats, count, *cache, view->camera.width, int64_t(plane_of(*view)), picture,
                      policy.balance_threshold, sums);
    };
    return GS_STATUS(distwar::with_strategy(distwar::strategy(policy.strategy), run));
}

} // namespace

gs_status gs_lm_cache_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    size_t scan = 0;
    GS_CUDA(scan_exclusive_bytes(count + 1, &scan));
    *bytes = places_bytes(count) + scan;
    return GS_OK;
}

gs_status gs_lm_cache_begin(const gs_view *view, void *workspace, size_t workspace_bytes, gs_lm_cache *cache,
                            gs_stream stream) {
    GS_TRY(check_build(__func__, view, workspace, workspace_bytes, cache));
    const int64_t count = view->gaussians.count;
    GS_CUDA(cudaMemsetAsync(cache->begin, 0, size_t(count + 1) * sizeof(int64_t), stream));
    GS_CUDA(launch_pairs(pairs_kernel<false>, view, cache->begin, {}, stream));
    GS_CUDA(scan_exclusive(cache->begin, cache->begin, count + 1,
                           static_cast<char *>(workspace) + places_bytes(count),
                           workspace_bytes - places_bytes(count), stream));
    GS_CUDA(cudaMemcpyAsync(&cache->pairs, cache->begin + count, sizeof(int64_t), cudaMemcpyDeviceToHost,
                            stream));
    return GS_STATUS(cudaStreamSynchronize(stream));
}

gs_status gs_lm_cache_fill(const gs_view *view, void *workspace, size_t workspace_bytes,
                           const gs_lm_cache *cache, gs_stream stream) {
    GS_TRY(check_build(__func__, view, workspace, workspace_bytes, cache));
    GS_TRY(check_cache(__func__, view, cache));
    int64_t *const next = static_cast<int64_t *>(workspace);
    GS_CUDA(cudaMemcpyAsync(next, cache->begin, size_t(view->gaussians.count + 1) * sizeof(int64_t),
                            cudaMemcpyDeviceToDevice, stream));
    return GS_STATUS(launch_pairs(pairs_kernel<true>, view, next, *cache, stream));
}

gs_status gs_lm_cached_forward(const gs_view *view, const gs_lm_cache *cache, const float *tangents,
                               const float *weight, float *change, gs_stream stream) {
    GS_TRY(check_cache(__func__, view, cache));
    GS_REQUIRE(change && (cache->pairs == 0 || tangents), "tangents and change must be given");
    const size_t plane = plane_of(*view);
    GS_CUDA(cudaMemsetAsync(change, 0, GS_CHANNELS * plane * sizeof(float), stream));
    return GS_STATUS(launch(stream, blocks_for(cache->pairs, pairs_of_block), cache_block,
                            cached_forward_kernel, view->splats, view->gaussians.count, *cache,
                            view->camera.width, int64_t(plane),
                            reinterpret_cast<const splat_tangent *>(tangents), weight, change));
}

gs_status gs_lm_cached_backward(const gs_view *view, const gs_lm_cache *cache, const float *color_gradient,
                                distwar_policy policy, float *moments, gs_stream stream) {
    return sum_by_splat(__func__, view, cache, color_gradient, policy, GS_LM_TANGENT_STRIDE, moments, stream,
                        [](auto strategy) { return cached_backward_kernel<strategy>; });
}

gs_status gs_lm_cached_squares(const gs_view *view, const gs_lm_cache *cache, const float *weight,
                               distwar_policy policy, float *squares, gs_stream stream) {
    return sum_by_splat(__func__, view, cache, weight, policy, GS_LM_SQUARES_STRIDE, squares, stream,
                        [](auto strategy) { return cached_squares_kernel<strategy>; });
}
