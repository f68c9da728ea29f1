// SPDX-License-Identifier: MIT
// Density control as sampling (Kheradmand et al. 2024): dead and new Gaussians take the places of living
// ones, noise moves nearly transparent ones, penalties on opacity and size let them die. Integer sums decide
// the places, so the result does not depend on the order of threads.
#include "density.cuh"
#include "distwar_gs_density.h"
#include "distwar_gs_share.h"
#include "launch.cuh"
#include <float.h>

using namespace gs;

namespace {

constexpr float weight_scale = 0x1p24f; // opacities become integers; 2^31 of them sum to less than 2^63
constexpr int most_sharing = 51;        // as published; with more, the result is brighter than the original

// weights[count] = 0: the scan leaves the total there. sharing: 1 for living Gaussians, 0 for others.
__global__ void __launch_bounds__(density_block)
    weigh_kernel(gs_gaussians gaussians, const gs_relocation r, int64_t *weights, uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > gaussians.count) return;
    const float opacity = i < gaussians.count ? living_opacity(gaussians, i, r.existing, r.least_opacity) : 0;
    weights[i] = opacity > 0 ? max(int64_t(opacity * weight_scale), int64_t(1)) : 0;
    if (i < gaussians.count) sharing[i] = opacity > 0;
    if (r.dead && i < r.existing && !(opacity > 0))
        atomicAdd(reinterpret_cast<unsigned long long *>(r.dead), 1ull);
}

// The row whose range before[row] .. before[row + 1] - 1 contains `at`.
__device__ int64_t row_at(const int64_t *before, int64_t count, int64_t at) {
    int64_t low = 0, high = count; // before[low] <= at < before[high]
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (before[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

__global__ void __launch_bounds__(density_block)
    draw_kernel(int64_t count, const int64_t *before, uint64_t seed, uint64_t iteration, uint32_t *source,
                uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const int64_t total = before[count];
    if (i >= count || total == 0) return;
    source[i] = uint32_t(i);
    if (before[i + 1] > before[i]) return; // living
    random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(i));
    source[i] = uint32_t(row_at(before, count, int64_t(random_bits(&random) % uint64_t(total))));
    atomicAdd(&sharing[source[i]], 1u);
}

// The opacity, and the factor of the scales, of n Gaussians that replace one.
__device__ void share(float opacity, int n, float *shared, float *scale_factor) {
    const double o = fmin(double(opacity), 1 - 1e-7), each = -expm1(log1p(-o) / n);
    // The published sum over i = 1..n and k = 0..i-1 of C(i-1, k) (-1)^k each^(k+1) / sqrt(k+1), with m = k +
    // 1 and sum over i of C(i-1, m-1) = C(n, m).
    double sum = 0, term = -1; // term: C(n, m) (-1)^(m-1) each^m
    for (int m = 1; m <= n; m++) {
        term *= -each * (n - m + 1) / m;
        sum += term / sqrt(double(m));
    }
    *shared = float(each);
    *scale_factor = float(o / sum);
}

__global__ void __launch_bounds__(density_block)
    share_kernel(gs_gaussians gaussians, gs_arrays first, gs_arrays second, const uint32_t *sharing,
                 float least_opacity) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count || sharing[i] <= 1) return;
    float opacity, factor;
    share(sigmoid(gaussians.opacity_logit[i]), int(min(sharing[i], uint32_t(most_sharing))), &opacity,
          &factor);
    opacity = fmaxf(opacity, nextafterf(least_opacity, 1)); // sharing kills no Gaussian
    gaussians.opacity_logit[i] = logf(opacity) - log1pf(-opacity);
    for (int k = 0; k < 3; k++) gaussians.log_scale[3 * i + k] += logf(factor);
    clear_moment(first, i);
    clear_moment(second, i);
}

__global__ void __launch_bounds__(density_block)
    follow_kernel(gs_arrays g, int64_t count, int64_t existing, gs_arrays first, gs_arrays second,
                  const int64_t *before, const uint32_t *source) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count || before[i + 1] > before[i]) return;
    const bool any_living = before[count] > 0;
    if (!any_living && i < existing) return;
    if (any_living)
        copy_row(g, int64_t(source[i]), i);
    else
        make_dead(g, i);
    clear_moment(first, i);
    clear_moment(second, i);
}

__global__ void __launch_bounds__(density_block)
    noise_kernel(gs_gaussians gaussians, int64_t before, float scale, uint64_t seed, uint64_t iteration) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float strength = sigmoid(-100 * (sigmoid(gaussians.opacity_logit[i]) - 0.005f));
    if (!(strength >= 1e-8f)) return;
    float n[3], rotation[3][3], along[3];
    draw_normal(random_at(seed, RANDOM_NOISE, iteration, uint64_t(before + i)), n);
    rotation_of(gaussians, i, rotation);
    for (int k = 0; k < 3; k++) {
        const float s = expf(gaussians.log_scale[3 * i + k]);
        const float sizes = fminf(scale * s, 1); // scale has no unit, and nothing else bounds the noise
        along[k] = s * sizes * (rotation[0][k] * n[0] + rotation[1][k] * n[1] + rotation[2][k] * n[2]);
    }
    for (int k = 0; k < 3; k++)
        gaussians.mean[3 * i + k] +=
            strength * (rotation[k][0] * along[0] + rotation[k][1] * along[1] + rotation[k][2] * along[2]);
}

__global__ void __launch_bounds__(density_block)
    penalty_kernel(gs_gaussians gaussians, float opacity_weight, float scale_weight, gs_gaussians gradients) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float opacity = sigmoid(gaussians.opacity_logit[i]);
    gradients.opacity_logit[i] += opacity_weight * opacity * (1 - opacity);
    for (int k = 0; k < 3; k++)
        gradients.log_scale[3 * i + k] += scale_weight * expf(gaussians.log_scale[3 * i + k]);
}

// The arrays in gs_relocate's workspace.
struct relocation_arrays {
    int64_t *weights; // then their prefix sums
    uint32_t *source, *sharing;
    void *scratch;
    size_t scratch_bytes;
};

// Places them in `memory` (NULL: nowhere). *bytes: theirs.
gs_status place_arrays(void *memory, int64_t count, relocation_arrays *out, size_t *bytes) {
    GS_CUDA(scan_exclusive_bytes(count + 1, &out->scratch_bytes));
    block_layout layout = {static_cast<char *>(memory), 0};
    layout_add(&layout, size_t(count) + 1, &out->weights);
    layout_add(&layout, size_t(count), &out->source);
    layout_add(&layout, size_t(count), &out->sharing);
    out->scratch = layout_add(&layout, out->scratch_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

} // namespace

gs_status gs_relocate_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    relocation_arrays unplaced;
    return place_arrays(nullptr, count, &unplaced, bytes);
}

gs_status gs_relocate(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                      const gs_gaussians *second_moment, const gs_relocation *relocation, void *workspace,
                      size_t workspace_bytes, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(relocation, "relocation must be given");
    const int64_t count = gaussians->count, existing = relocation->existing;
    const float least_opacity = relocation->least_opacity;
    GS_TRY(check_living(__func__, count, existing, least_opacity));
    relocation_arrays a;
    size_t needed;
    GS_TRY(place_arrays(workspace, count, &a, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));

    const unsigned blocks = blocks_for(count, density_block);
    GS_CUDA(launch_for(stream, count + 1, density_block, weigh_kernel, *gaussians, *relocation, a.weights,
                       a.sharing));
    GS_CUDA(scan_exclusive(a.weights, a.weights, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(launch(stream, blocks, density_block, draw_kernel, count, a.weights, relocation->seed,
                   relocation->iteration, a.source, a.sharing));
    const gs_arrays first = gs_arrays_of(first_moment), second = gs_arrays_of(second_moment);
    GS_CUDA(launch(stream, blocks, density_block, share_kernel, *gaussians, first, second, a.sharing,
                   least_opacity));
    return GS_STATUS(launch(stream, blocks, density_block, follow_kernel, gs_arrays_of(gaussians), count,
                            existing, first, second, a.weights, a.source));
}

// ---- on several GPUs (distwar_gs_share.h) ----

namespace {

// The sums of weights before each GPU's rows.
struct gpu_weights {
    int count;
    int64_t begin[GS_MAX_GPUS + 1];
};

// Also the number of requests of every block of rows to every GPU, and then where they begin.
struct shared_arrays {
    relocation_arrays own;
    int64_t *begin;
    void *scratch;
    size_t scratch_bytes;
};

gs_status place_shared(void *memory, int64_t count, int32_t gpus, shared_arrays *out, size_t *bytes) {
    const int64_t counters = int64_t(gpus) * blocks_for(count, density_block) + 1;
    size_t own_bytes = 0;
    GS_TRY(place_arrays(memory, count, &out->own, &own_bytes));
    GS_CUDA(scan_exclusive_bytes(counters, &out->scratch_bytes));
    block_layout layout = {static_cast<char *>(memory), own_bytes};
    layout_add(&layout, size_t(counters), &out->begin);
    out->scratch = layout_add(&layout, out->scratch_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

struct drawn_place {
    int gpu;    // -1: the row is living or nothing can be drawn
    int64_t at; // in the sums of weights of that GPU
};

// Draws the living row whose place dead or new row i takes.
__device__ drawn_place draw_of(int64_t i, int64_t count, const int64_t *before, const gpu_weights &weights,
                               int64_t first, uint64_t seed, uint64_t iteration) {
    const int64_t total = weights.begin[weights.count];
    if (i >= count || before[i + 1] > before[i] || total == 0) return {-1, 0};
    random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(first + i));
    const int64_t at = int64_t(random_bits(&random) % uint64_t(total));
    const int gpu = int(row_at(weights.begin, weights.count, at));
    return {gpu, at - weights.begin[gpu]};
}

__global__ void __launch_bounds__(density_block)
    count_draws_kernel(int64_t count, const int64_t *before, gpu_weights weights, int64_t first,
                       gs_relocation relocation, int64_t *counters) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const drawn_place place =
        draw_of(i, count, before, weights, first, relocation.seed, relocation.iteration);
    for (int g = 0; g < weights.count; g++) {
        const int all = __syncthreads_count(place.gpu == g);
        if (threadIdx.x == 0) counters[int64_t(g) * gridDim.x + blockIdx.x] = all;
    }
}

__global__ void draws_begin_kernel(const int64_t *begin, int gpus, int64_t blocks, int64_t *out) {
    const int g = int(threadIdx.x);
    if (g <= gpus) out[g] = begin[g * blocks];
}

__global__ void __launch_bounds__(density_block)
    draw_places_kernel(int64_t count, const int64_t *before, gpu_weights weights, int64_t first,
                       gs_relocation relocation, const int64_t *begin, uint32_t *row, int64_t *at) {
    __shared__ int in_warp[density_block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * density_block + thread;
    const drawn_place place =
        draw_of(i, count, before, weights, first, relocation.seed, relocation.iteration);
    for (int g = 0; g < weights.count; g++) {
        const unsigned lanes = __ballot_sync(0xffffffffu, place.gpu == g);
        __syncthreads(); // the counts of the GPU before have been read
        if (lane == 0) in_warp[warp] = __popc(lanes);
        __syncthreads();
        int64_t to = begin[int64_t(g) * gridDim.x + blockIdx.x] + __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < warp; w++) to += in_warp[w];
        if (place.gpu == g) row[to] = uint32_t(i), at[to] = place.at;
    }
}

// Turns places in the sums of weights into rows. The sums end with the total.
__global__ void __launch_bounds__(density_block)
    find_rows_kernel(int64_t count, const int64_t *before, int64_t drawn, int64_t *at, uint32_t *sharing) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= drawn) return;
    const int64_t row = row_at(before, count, at[k]);
    at[k] = row;
    atomicAdd(&sharing[row], 1u);
}

__device__ int place_in_record(const gs_arrays &g, int array) {
    int at = 0;
    for (int a = 0; a < array; a++) at += g.width[a];
    return at;
}

// blockIdx.y: the array. Gathers rows at[k] into records, or spreads records over rows row[k].
__global__ void __launch_bounds__(density_block)
    gather_rows_kernel(gs_arrays g, const int64_t *at, int64_t drawn, int record, float *values) {
    const int array = int(blockIdx.y), width = g.width[array];
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x, k = i / width,
                  column = i - k * width;
    if (k >= drawn) return;
    values[k * record + place_in_record(g, array) + column] = g.of[array][at[k] * width + column];
}

__global__ void __launch_bounds__(density_block)
    spread_rows_kernel(gs_arrays g, gs_arrays first, gs_arrays second, const uint32_t *row, int64_t drawn,
                       int record, const float *values) {
    const int array = int(blockIdx.y), width = g.width[array];
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x, k = i / width,
                  column = i - k * width;
    if (k >= drawn) return;
    const int64_t to = int64_t(row[k]) * width + column;
    g.of[array][to] = values[k * record + place_in_record(g, array) + column];
    first.of[array][to] = second.of[array][to] = 0;
}

gs_status check_shared(const char *function, const gs_gaussians *gaussians, const gs_shared_relocation *r,
                       shared_arrays *arrays) {
    GS_TRY(check_parameters(function, gaussians));
    GS_REQUIRE_OF(function, r && r->gpus >= 1 && r->gpus <= GS_MAX_GPUS, "gpus must be in 1..64");
    const gs_relocation *relocation = &r->relocation;
    GS_TRY(check_living(function, gaussians->count, relocation->existing, relocation->least_opacity));
    size_t needed = 0;
    GS_TRY(place_shared(r->workspace, gaussians->count, r->gpus, arrays, &needed));
    return check_workspace(function, r->workspace, r->workspace_bytes, needed);
}

gs_status weights_of(const char *function, const gs_shared_relocation *r, gpu_weights *out) {
    GS_REQUIRE_OF(function, r->weight_begin, "weight_begin must be given");
    *out = {};
    out->count = r->gpus;
    for (int g = 0; g <= r->gpus; g++) {
        out->begin[g] = r->weight_begin[g];
        GS_REQUIRE_OF(function, g == 0 ? out->begin[0] == 0 : out->begin[g] >= out->begin[g - 1],
                      "weight_begin must begin with 0 and not decrease");
    }
    return GS_OK;
}

int record_of(const gs_gaussians *gaussians) {
    const gs_arrays g = gs_arrays_of(gaussians);
    int values = 0;
    for (int a = 0; a < GS_ARRAYS; a++) values += g.width[a];
    return values;
}

} // namespace

gs_status gs_share_relocate_bytes(int64_t count, int32_t gpus, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(gpus >= 1 && gpus <= GS_MAX_GPUS, "gpus must be in 1..64");
    GS_REQUIRE(bytes, "bytes must be given");
    shared_arrays unplaced;
    return place_shared(nullptr, count, gpus, &unplaced, bytes);
}

gs_status gs_share_weigh(const gs_gaussians *gaussians, const gs_shared_relocation *r, int64_t *total,
                         gs_stream stream) {
    shared_arrays a;
    GS_TRY(check_shared(__func__, gaussians, r, &a));
    GS_REQUIRE(total, "total must be given");
    const int64_t count = gaussians->count;
    GS_CUDA(launch_for(stream, count + 1, density_block, weigh_kernel, *gaussians, r->relocation,
                       a.own.weights, a.own.sharing));
    GS_CUDA(
        scan_exclusive(a.own.weights, a.own.weights, count + 1, a.own.scratch, a.own.scratch_bytes, stream));
    return GS_STATUS(
        cudaMemcpyAsync(total, a.own.weights + count, sizeof(int64_t), cudaMemcpyDeviceToDevice, stream));
}

gs_status gs_share_count_draws(const gs_gaussians *gaussians, const gs_shared_relocation *r, int64_t *begin,
                               gs_stream stream) {
    shared_arrays a;
    gpu_weights weights;
    GS_TRY(check_shared(__func__, gaussians, r, &a));
    GS_TRY(weights_of(__func__, r, &weights));
    GS_REQUIRE(begin, "begin must be given");
    const unsigned blocks = blocks_for(gaussians->count, density_block);
    const int64_t counters = int64_t(r->gpus) * blocks + 1;
    GS_CUDA(cudaMemsetAsync(a.begin + counters - 1, 0, sizeof(int64_t), stream));
    GS_CUDA(launch(stream, blocks, density_block, count_draws_kernel, gaussians->count, a.own.weights,
                   weights, r->first, r->relocation, a.begin));
    GS_CUDA(scan_exclusive(a.begin, a.begin, counters, a.scratch, a.scratch_bytes, stream));
    return GS_STATUS(launch(stream, 1, GS_MAX_GPUS + 1, draws_begin_kernel, a.begin, r->gpus, blocks, begin));
}

gs_status gs_share_draw(const gs_gaussians *gaussians, const gs_shared_relocation *r, const gs_draws *draws,
                        gs_stream stream) {
    shared_arrays a;
    gpu_weights weights;
    GS_TRY(check_shared(__func__, gaussians, r, &a));
    GS_TRY(weights_of(__func__, r, &weights));
    GS_REQUIRE(draws && (draws->count == 0 || (draws->row && draws->at)), "row and at must be given");
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, draw_places_kernel, gaussians->count,
                                a.own.weights, weights, r->first, r->relocation, a.begin, draws->row,
                                draws->at));
}

gs_status gs_share_answer(const gs_shared_vectors *v, const gs_shared_relocation *r, const gs_draws *draws,
                          gs_stream stream) {
    GS_REQUIRE(v, "Gaussians, and vectors of their shape, must be given");
    const gs_gaussians *const gaussians = &v->gaussians;
    shared_arrays a;
    GS_TRY(check_shared(__func__, gaussians, r, &a));
    GS_TRY(check_vector(__func__, gaussians, &v->first_moment));
    GS_TRY(check_vector(__func__, gaussians, &v->second_moment));
    GS_REQUIRE(draws && (draws->count == 0 || (draws->at && draws->values)), "at and values must be given");
    const gs_arrays g = gs_arrays_of(gaussians);
    GS_CUDA(launch_for(stream, draws->count, density_block, find_rows_kernel, gaussians->count, a.own.weights,
                       draws->count, draws->at, a.own.sharing));
    GS_CUDA(launch_for(stream, gaussians->count, density_block, share_kernel, *gaussians,
                       gs_arrays_of(&v->first_moment), gs_arrays_of(&v->second_moment), a.own.sharing,
                       r->relocation.least_opacity));
    const int record = record_of(gaussians), widest = g.width[GS_ARRAYS - 1] > 4 ? g.width[GS_ARRAYS - 1] : 4;
    return GS_STATUS(launch(stream, dim3(blocks_for(draws->count * widest, density_block), GS_ARRAYS),
                            density_block, gather_rows_kernel, g, draws->at, draws->count, record,
                            draws->values));
}

gs_status gs_share_take(const gs_shared_vectors *v, const gs_shared_relocation *r, const gs_draws *draws,
                        gs_stream stream) {
    GS_REQUIRE(v, "Gaussians, and vectors of their shape, must be given");
    const gs_gaussians *const gaussians = &v->gaussians;
    shared_arrays a;
    gpu_weights weights;
    GS_TRY(check_shared(__func__, gaussians, r, &a));
    GS_TRY(check_vector(__func__, gaussians, &v->first_moment));
    GS_TRY(check_vector(__func__, gaussians, &v->second_moment));
    GS_TRY(weights_of(__func__, r, &weights));
    GS_REQUIRE(draws && (draws->count == 0 || (draws->row && draws->values)), "row and values must be given");
    const gs_arrays g = gs_arrays_of(gaussians), first = gs_arrays_of(&v->first_moment),
                    second = gs_arrays_of(&v->second_moment);
    if (weights.begin[weights.count] == 0) // nobody lives: the sums are 0, as follow_kernel reads them
        return GS_STATUS(launch_for(stream, gaussians->count, density_block, follow_kernel, g,
                                    gaussians->count, r->relocation.existing, first, second, a.own.weights,
                                    a.own.source));
    const int record = record_of(gaussians), widest = g.width[GS_ARRAYS - 1] > 4 ? g.width[GS_ARRAYS - 1] : 4;
    return GS_STATUS(launch(stream, dim3(blocks_for(draws->count * widest, density_block), GS_ARRAYS),
                            density_block, spread_rows_kernel, g, first, second, draws->row, draws->count,
                            record, draws->values));
}

int32_t gs_share_record(const gs_gaussians *gaussians) {
    return record_of(gaussians);
}

gs_status gs_density_noise(const gs_gaussians *gaussians, float scale, uint64_t seed, uint64_t iteration,
                           gs_stream stream) {
    return gs_share_noise(gaussians, 0, scale, seed, iteration, stream);
}

gs_status gs_share_noise(const gs_gaussians *gaussians, int64_t first, float scale, uint64_t seed,
                         uint64_t iteration, gs_stream stream) {
    GS_TRY(check_parameters("gs_density_noise", gaussians));
    GS_REQUIRE_OF("gs_density_noise", scale >= 0 && scale <= FLT_MAX,
                  "scale must be finite and not negative");
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, noise_kernel, *gaussians, first,
                                scale, seed, iteration));
}

gs_status gs_density_penalty(const gs_gaussians *gaussians, float opacity_weight, float scale_weight,
                             const gs_gaussians *gradients, gs_stream stream) {
    return gs_share_penalty(gaussians, gaussians ? gaussians->count : 0, opacity_weight, scale_weight,
                            gradients, stream);
}

gs_status gs_share_penalty(const gs_gaussians *gaussians, int64_t all, float opacity_weight,
                           float scale_weight, const gs_gaussians *gradients, gs_stream stream) {
    static const char function[] = "gs_density_penalty";
    GS_TRY(check_vector(function, gaussians, gradients));
    GS_REQUIRE_OF(function,
                  opacity_weight >= 0 && opacity_weight <= FLT_MAX && scale_weight >= 0 &&
                      scale_weight <= FLT_MAX,
                  "weights must be finite and not negative");
    const double count = double(all > 0 ? all : 1);
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, penalty_kernel, *gaussians,
                                float(opacity_weight / count), float(scale_weight / (3 * count)),
                                *gradients));
}
