// SPDX-License-Identifier: MIT
// The gradient by the camera, which every Gaussian adds to: math.md, section 4. A tree sums the terms of a warp, which
// writes them as a row of floats. Two kernels sum the rows in double precision. The order of additions depends on the
// number of Gaussians alone. Atomics are not needed: the rows of a million Gaussians are 2.5 MB.
#pragma once

#include "context.h"

#include "camera.cuh"
#include "launch.cuh"
#include "warp_rows.cuh"
#include <algorithm>
#include <distwar/block.cuh>
#include <distwar/tree.cuh>

namespace gs {

// The terms of a Gaussian. `turn` has the rows of d_p p^T + J^T d_J, whose antisymmetric part is the gradient
// by a rotation of the camera.
enum camera_term {
    TERM_POINT = 0,      // [3]: by the mean in camera space
    TERM_TURN = 3,       // [3][3]
    TERM_CENTER = 12,    // [3]: by minus the camera's centre, from the direction of view; world space
    TERM_FOCAL = 15,     // [2]
    TERM_PRINCIPAL = 17, // [2]
    CAMERA_TERMS = 19
};

template <bool wanted>
struct camera_terms {
    float value[CAMERA_TERMS];
};
template <>
struct camera_terms<false> {};

// d_j: gradient by J; d_mean2d: by the mean in pixels; d_point: all of that by the mean in camera space. TERM_CENTER: 0.
template <typename Point>
GS_DEVICE camera_terms<true> camera_terms_of(const gs_camera &camera, const Point &p, const float d_j[2][3],
                                             const float d_mean2d[2], const float d_point[3]) {
    camera_terms<true> terms = {};
    for (int r = 0; r < 3; r++) terms.value[TERM_POINT + r] = d_point[r];
    for (int c = 0; c < 3; c++) {
        float column[3] = {d_point[0] * p.at[c], d_point[1] * p.at[c], d_point[2] * p.at[c]};
        for (int k = 0; k < 2; k++) p.add_jacobian_transposed(camera, k, d_j[k][c], column);
        for (int r = 0; r < 3; r++) terms.value[TERM_TURN + 3 * r + c] = column[r];
    }
    for (int k = 0; k < 2; k++)
        p.intrinsics_adjoint(camera, k, d_j[k], d_mean2d[k], &terms.value[TERM_FOCAL + k],
                             &terms.value[TERM_PRINCIPAL + k]);
    return terms;
}

// ---- sums ----

constexpr int camera_row_floats = 20; // CAMERA_TERMS and a 0; 80 bytes
constexpr int most_camera_blocks = 64, camera_block = 256;

struct camera_sums {
    double (*of_block)[CAMERA_TERMS]; // [most_camera_blocks]
    float *rows;                      // [warps][camera_row_floats]
};

// In the context's memory.
inline gs_status place_camera_sums(const char *function, gs_context *context, int64_t count,
                                   camera_sums *out) {
    return libgs_place(function, context, CONTEXT_SCRATCH, [=](block_layout *layout) {
        layout_add(layout, most_camera_blocks, &out->of_block);
        layout_add(layout, size_t(blocks_for(count, 32)) * camera_row_floats, &out->rows);
        return GS_OK;
    });
}

// By all lanes of a warp. row: the warp's.
GS_DEVICE void store_warp_total(bool active, const camera_terms<true> &terms, float *row) {
    float total[distwar::tree_places(CAMERA_TERMS)];
    distwar::tree_total(active, terms.value, total);
    const int k = int(distwar::lane_id());
    if (k < camera_row_floats) row[k] = k < CAMERA_TERMS ? total[0] : 0;
}

static __global__ void __launch_bounds__(camera_block)
    sum_camera_rows_kernel(const float *rows, int64_t count, double (*of_block)[CAMERA_TERMS]) {
    __shared__ distwar::block_sum_memory<CAMERA_TERMS, camera_block, double> memory;
    double sum[CAMERA_TERMS] = {}, total[CAMERA_TERMS];
    for (int64_t i = int64_t(blockIdx.x) * camera_block + threadIdx.x; i < count;
         i += int64_t(gridDim.x) * camera_block) {
        const float *const row = rows + i * camera_row_floats;
        DISTWAR_UNROLL
        for (int four = 0; four < camera_row_floats / 4; four++) {
            const float4 in = four_at(row + 4 * four);
            const float value[4] = {in.x, in.y, in.z, in.w};
            for (int e = 0; e < 4; e++)
                if (4 * four + e < CAMERA_TERMS) sum[4 * four + e] += double(value[e]);
        }
    }
    distwar::block_sum(sum, memory, total);
    for (int k = 0; threadIdx.x == 0 && k < CAMERA_TERMS; k++) of_block[blockIdx.x][k] = total[k];
}

// From the sums of all terms to the gradient. One block.
static __global__ void __launch_bounds__(most_camera_blocks)
    camera_gradient_kernel(gs_camera camera, const double (*of_block)[CAMERA_TERMS], int blocks,
                           gs_camera_gradient *out) {
    __shared__ distwar::block_sum_memory<CAMERA_TERMS, most_camera_blocks, double> memory;
    double mine[CAMERA_TERMS] = {}, sum[CAMERA_TERMS];
    if (int(threadIdx.x) < blocks)
        for (int k = 0; k < CAMERA_TERMS; k++) mine[k] = of_block[threadIdx.x][k];
    distwar::block_sum(mine, memory, sum);
    if (threadIdx.x != 0) return;
    const double *const point = sum + TERM_POINT, *const turn = sum + TERM_TURN,
                        *const center = sum + TERM_CENTER;
    const float *const R = camera.rotation, *const t = camera.translation;
    for (int r = 0; r < 3; r++) {
        double d_translation = point[r];
        for (int c = 0; c < 3; c++) d_translation += R[3 * r + c] * center[c];
        for (int c = 0; c < 3; c++) {
            double d_rotation = t[r] * center[c];
            for (int j = 0; j < 3; j++) d_rotation += (turn[3 * r + j] - point[r] * t[j]) * R[3 * j + c];
            out->matrix[4 * r + c] = float(d_rotation);
        }
        out->matrix[4 * r + 3] = out->se3_grad[3 + r] = float(d_translation);
        const int next = (r + 1) % 3, last = (r + 2) % 3;
        out->se3_grad[r] = float(turn[3 * last + next] - turn[3 * next + last]);
    }
    for (int k = 0; k < 2; k++) {
        out->intrinsics[k] = float(sum[TERM_FOCAL + k]);
        out->intrinsics[2 + k] = float(sum[TERM_PRINCIPAL + k]);
        out->reserved[k] = 0;
    }
}

// Queues both kernels. sums: with the rows of all warps.
inline gs_status launch_camera_sums(gs_stream stream, const gs_camera &camera, int64_t count,
                                    const camera_sums &sums, gs_camera_gradient *gradient) {
    const int64_t rows = blocks_for(count, 32); // a warp's
    const unsigned blocks = std::min(blocks_for(rows, camera_block), unsigned(most_camera_blocks));
    GS_CUDA(launch(stream, blocks, camera_block, sum_camera_rows_kernel, sums.rows, rows, sums.of_block));
    return GS_STATUS(launch(stream, 1u, most_camera_blocks, camera_gradient_kernel, camera, sums.of_block,
                            int(blocks), gradient));
}

} // namespace gs
