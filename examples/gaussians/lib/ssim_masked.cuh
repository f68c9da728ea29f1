// SPDX-License-Identifier: MIT
// SSIM under a mask: windows' means are over the pixels that count, and those outside the image, which count
// as zeros (docs/math.md, section 5).
#pragma once

#include "ssim.cuh"

namespace gs {

// The place nearest to `middle` for which has(place) is true, among middle - most .. middle + most - 1; else
// `middle`.
template <typename Has>
__device__ __forceinline__ int nearest(int middle, int most, const Has &has) {
    for (int k = 0; k < most; k++) {
        if (has(middle + k)) return middle + k;
        if (has(middle - 1 - k)) return middle - 1 - k;
    }
    return middle;
}

// As for_each_value. Where the mask is 0 the values, the similarity and the derivatives are 0.
template <typename Use>
__device__ __forceinline__ void for_each_masked_value(const images &in, const Use &use) {
    __shared__ float color[HALO][HALO + 1], target[HALO][HALO + 1]; // a target below 0: does not count
    __shared__ float rows[6][HALO][TILE + 1];                       // the members of statistics, the weight

    const int channel = blockIdx.z;
    const int64_t plane = int64_t(in.width) * in.height;
    const float *const in_color = in.color + channel * plane;
    for_each_of_halo([&](int row, int column, int x, int y) {
        const bool has = inside(in, x, y), counts = has && in.mask[y * in.width + x] != 0;
        color[row][column] = counts ? in_color[y * in.width + x] : 0;
        target[row][column] = counts ? target_at(in, y * in.width + x, channel) : has ? -1 : 0;
    });
    __syncthreads();

    // As in for_each_value, about the value nearest to the middle that counts.
    for_each_run([&](int row, int column) {
        const int at = nearest(column + RADIUS + RUN_X / 2, RADIUS + RUN_X / 2,
                               [&](int i) { return target[row][i] >= 0; });
        const float about1 = color[row][at], about2 = fmaxf(target[row][at], 0.0f);
        float sum[RUN_X][6];
        slide_window(
            [&](int k, float value[6]) {
                const float t = target[row][column + k], weight = t < 0 ? 0.0f : 1.0f;
                const float d1 = weight * (color[row][column + k] - about1), d2 = weight * (t - about2);
                value[0] = d1, value[1] = d2, value[2] = d1 * d1, value[3] = d2 * d2, value[4] = d1 * d2;
                value[5] = weight;
            },
            sum);
        for (int j = 0; j < RUN_X; j++) {
            const float *m = sum[j], inv_weight = m[5] > 0 ? 1 / m[5] : 0;
            const float e1 = m[0] * inv_weight, e2 = m[1] * inv_weight;
            rows[0][row][column + j] = about1 + e1;
            rows[1][row][column + j] = about2 + e2;
            rows[2][row][column + j] = m[2] * inv_weight - e1 * e1;
            rows[3][row][column + j] = m[3] * inv_weight - e2 * e2;
            rows[4][row][column + j] = m[4] * inv_weight - e1 * e2;
            rows[5][row][column + j] = m[5];
        }
    });
    __syncthreads();

    const int column = threadIdx.x, row = threadIdx.y * RUN_Y;
    const int at =
        nearest(row + RADIUS + RUN_Y / 2, RADIUS + RUN_Y / 2, [&](int i) { return rows[5][i][column] > 0; });
    const float about1 = rows[0][at][column], about2 = rows[1][at][column];
    float sum[RUN_Y][6];
    slide_window(
        [&](int k, float value[6]) {
            const float weight = rows[5][row + k][column];
            const float d1 = rows[0][row + k][column] - about1, d2 = rows[1][row + k][column] - about2;
            value[0] = weight * d1, value[1] = weight * d2;
            value[2] = weight * (rows[2][row + k][column] + d1 * d1);
            value[3] = weight * (rows[3][row + k][column] + d2 * d2);
            value[4] = weight * (rows[4][row + k][column] + d1 * d2);
            value[5] = weight;
        },
        sum);
    for (int j = 0; j < RUN_Y; j++) {
        const int x = blockIdx.x * TILE + column, y = blockIdx.y * TILE + row + j;
        if (!inside(in, x, y)) continue;
        const int64_t i = channel * plane + y * in.width + x;
        const float *m = sum[j], t = target[row + j + RADIUS][column + RADIUS];
        similarity like = {0, 0, 0};
        derivatives d = {0, 0, 0};
        if (t < 0) {
            use(i, 0.0f, 0.0f, like, d, window_share{false, 0});
            continue;
        }
        const float inv_weight = 1 / m[5], e1 = m[0] * inv_weight, e2 = m[1] * inv_weight;
        like = similarity_of({about1 + e1, about2 + e2, m[2] * inv_weight - e1 * e1,
                              m[3] * inv_weight - e2 * e2, m[4] * inv_weight - e1 * e2},
                             &d);
        d.m *= inv_weight, d.p *= inv_weight, d.s *= inv_weight;
        use(i, color[row + j + RADIUS][column + RADIUS], t, like, d, window_share{true, inv_weight});
    }
}

// for_each_value, under in.mask if `masked`.
template <bool masked, typename Use>
__device__ __forceinline__ void for_each_counted_value(const images &in, const Use &use) {
    if constexpr (masked)
        for_each_masked_value(in, use);
    else
        for_each_value(in, use);
}

} // namespace gs
