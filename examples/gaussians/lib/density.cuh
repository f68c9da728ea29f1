// SPDX-License-Identifier: MIT
// What density control on one GPU (density.cu) and on several have in common: random numbers, dead and living
// Gaussians, rows that are sorted, relocations and splits.
#pragma once

#include "arrays.h"
#include "covariance.cuh"
#include "context.h"
#include "gpu/scan_sort.h"
#include "launch.cuh"
#include "random.h"

namespace gs {

constexpr int density_block = 256;
constexpr float unseen_logit = -20; // of dead rows, and in dropout

// Of a kernel with blocks of density_block threads.
__device__ inline int64_t row_of_thread() {
    return int64_t(blockIdx.x) * density_block + threadIdx.x;
}

// Purposes of libdistwar_gs's random numbers: the second argument of random_at. Disjoint from those of its callers,
// who may use the same seed.
enum density_purpose : uint64_t {
    RANDOM_SPLIT = 1u << 16,
    RANDOM_RELOCATION,
    RANDOM_NOISE,
    RANDOM_DRAW,
    RANDOM_DROPOUT
};

// Three independent standard normal numbers (Box-Muller).
__device__ inline void draw_normal(random_stream random, float out[3]) {
    float both[4];
    for (int k = 0; k < 4; k += 2) {
        const uint64_t bits = random_bits(&random); // two numbers of 24 bits; u is never 0
        const float u = (float(bits >> 40) + 0.5f) * 0x1p-24f, v = float(bits >> 8 & 0xffffff) * 0x1p-24f;
        const float radius = sqrtf(-2 * logf(u));
        both[k] = radius * cosf(6.2831853f * v);
        both[k + 1] = radius * sinf(6.2831853f * v);
    }
    for (int k = 0; k < 3; k++) out[k] = both[k];
}

// The opacity of a Gaussian that lives: of a row below `existing`, and above `least`. 0 of others.
__device__ inline float living_opacity(const gs_gaussians &gaussians, int64_t i, int64_t existing,
                                       float least) {
    if (i >= existing) return 0;
    const float opacity = sigmoid(gaussians.opacity_logit[i]);
    return opacity > least ? opacity : 0;
}

// The rotation of Gaussian i; NaN if its quaternion is 0.
__device__ inline void rotation_of(const gs_gaussians &gaussians, int64_t i, float out[3][3]) {
    float unit[4];
    unit_quaternion_of(gaussians, i, unit);
    rotation_matrix(unit, out);
}

// Row i of each array: its value k becomes value(array, k).
template <typename Value>
GS_DEVICE void set_row(const gs_arrays &g, int64_t i, const Value &value) {
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < g.width[a]; k++) g.of[a][i * g.width[a] + k] = value(a, k);
}

// Sets row i of both moments of Adam to 0.
__device__ inline void clear_moments(const gs_arrays &first, const gs_arrays &second, int64_t i) {
    set_row(first, i, [](int, int) { return 0.0f; });
    set_row(second, i, [](int, int) { return 0.0f; });
}

// Row i of the parameters becomes a Gaussian that is never seen.
__device__ inline void make_dead(const gs_arrays &parameters, int64_t i) {
    const float first[GS_ARRAYS] = {0, 0, 1, unseen_logit, 0}; // the first value of each array; others are 0
    set_row(parameters, i, [&](int a, int k) { return k == 0 ? first[a] : 0; });
}

__device__ inline void copy_row(const gs_arrays &g, int64_t from, int64_t to) {
    set_row(g, to, [&](int a, int k) { return g.of[a][from * g.width[a] + k]; });
}

// The arrays that count rows and sort them, or of gs_refill by relocation, which sorts none.
struct counted_rows {
    int64_t *before;   // of each row and of the end: a count or a weight, then the sum of those before
    uint32_t *source;  // of each row: the row that it comes from
    sort_arrays order; // values: rows. Of relocation keys[0] alone: how many share each row's place
    void *scratch;
    size_t scratch_bytes;
};

inline gs_status place_rows(block_layout *layout, int64_t count, bool sorts, counted_rows *out) {
    const size_t rows = size_t(count), sorted = sorts ? rows : 0;
    size_t scan = 0, sort = 0;
    GS_CUDA(scan_exclusive_bytes(count + 1, &scan));
    if (sorts) GS_CUDA(sort_pairs_bytes(count, &sort));
    layout_add(layout, rows + 1, &out->before);
    layout_add(layout, rows, &out->source);
    layout_add(layout, rows, &out->order.keys[0]);
    layout_add(layout, sorted, &out->order.keys[1]);
    for (uint32_t *&values : out->order.values) layout_add(layout, sorted, &values);
    out->scratch_bytes = scan > sort ? scan : sort;
    out->scratch = layout_add(layout, out->scratch_bytes);
    return GS_OK;
}

// ---- relocations ----

constexpr float weight_scale = 0x1p24f; // opacities become integers; 2^31 of them sum to less than 2^63
constexpr int most_sharing = 51;        // as published; with more, the result is brighter than the original

// The weight by which a Gaussian of this opacity is drawn; 0 unless it lives.
__device__ inline int64_t weight_of(float opacity) {
    return opacity > 0 ? max(int64_t(opacity * weight_scale), int64_t(1)) : 0;
}

// The row whose range before[row] .. before[row + 1] - 1 contains `at`.
__device__ inline int64_t row_at(const int64_t *before, int64_t count, int64_t at) {
    int64_t low = 0, high = count; // before[low] <= at < before[high]
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (before[middle] <= at ? low : high) = middle;
    }
    return low;
}

// The opacity, and the factor of the scales, of n Gaussians that replace one.
static __global__ void __launch_bounds__(density_block)
    share_kernel(gs_gaussians gaussians, gs_arrays first, gs_arrays second, const uint32_t *sharing,
                 float least_opacity) {
    const int64_t i = row_of_thread();
    if (i >= gaussians.count || sharing[i] <= 1) return;
    const float drawn = sigmoid(gaussians.opacity_logit[i]);
    const int n = int(min(sharing[i], uint32_t(most_sharing)));
    const double o = fmin(double(drawn), 1 - 1e-7), each = -expm1(log1p(-o) / n);
    // The published sum over i = 1..n and k = 0..i-1 of C(i-1, k) (-1)^k each^(k+1) / sqrt(k+1), with m = k + 1 and sum
    // over i of C(i-1, m-1) = C(n, m).
    double sum = 0, term = -1; // term: C(n, m) (-1)^(m-1) each^m
    for (int m = 1; m <= n; m++) {
        term *= -each * (n - m + 1) / m;
        sum += term / sqrt(double(m));
    }
    const float factor = float(o / sum);
    const float opacity = fmaxf(float(each), nextafterf(least_opacity, 1)); // those that share stay alive
    gaussians.opacity_logit[i] = logf(opacity) - log1pf(-opacity);
    for (int k = 0; k < 3; k++) gaussians.log_scale[3 * i + k] += logf(factor);
    clear_moments(first, second, i);
}

// source: the living row whose place a dead or new row takes; others are their own, and all are if none lives.
static __global__ void __launch_bounds__(density_block)
    draw_source_kernel(int64_t count, const int64_t *before, uint64_t seed, uint64_t iteration,
                       uint32_t *source, uint32_t *sharing) {
    const int64_t i = row_of_thread();
    const int64_t total = before[count];
    if (i >= count) return;
    source[i] = uint32_t(i);
    if (before[i + 1] > before[i] || total == 0) return; // this one lives, or none does
    random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(i));
    source[i] = uint32_t(row_at(before, count, int64_t(random_bits(&random) % uint64_t(total))));
    atomicAdd(&sharing[source[i]], 1u);
}

// ---- splits ----

constexpr uint32_t not_drawn = UINT32_MAX; // key of Gaussians that cannot be drawn: sorts last

// Weighted sampling without replacement: the n least of the exponential variates -log(u) / weight are drawn
// (Efraimidis and Spirakis 2006). Positive floats order as their bits do. place: of the Gaussian among all.
__device__ inline uint32_t split_key(float weight, uint64_t seed, uint64_t iteration, int64_t place) {
    random_stream random = random_at(seed, RANDOM_DRAW, iteration, uint64_t(place));
    const float u = (float(random_bits(&random) >> 40) + 0.5f) * 0x1p-24f; // never 0 or 1
    const float key = -logf(u) / weight;
    return weight > 0 && weight <= FLT_MAX && key <= FLT_MAX ? __float_as_uint(key) : not_drawn;
}

// Makes a half of a Gaussian: that on the negative side of the longest axis, or the other.
__device__ inline void place_half(const gs_gaussians &g, int64_t i, bool other_side, float least_opacity) {
    const float *scale = g.log_scale + 3 * i;
    const int axis = scale[0] >= scale[1] ? (scale[0] >= scale[2] ? 0 : 2) : (scale[1] >= scale[2] ? 1 : 2);
    const float inv_sqrt2 = 0.70710678f, log_sqrt2 = 0.34657359f, inv_e = 0.36787944f;
    const float reach = inv_sqrt2 * expf(scale[axis]), along = other_side ? reach : -reach;
    float rotation[3][3];
    rotation_of(g, i, rotation);
    // 4 p - p^2 / e = 2 sqrt 2 o
    const float twice = 2.8284271f * sigmoid(g.opacity_logit[i]);
    const float half = twice / (2 + sqrtf(4 - inv_e * twice));
    const float opacity = fmaxf(half, nextafterf(least_opacity, 1)); // both halves stay alive
    for (int k = 0; k < 3; k++) g.mean[3 * i + k] += along * rotation[k][axis];
    g.log_scale[3 * i + axis] -= log_sqrt2;
    g.opacity_logit[i] = logf(opacity) - log1pf(-opacity);
}

} // namespace gs
