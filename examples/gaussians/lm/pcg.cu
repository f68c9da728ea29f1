// SPDX-License-Identifier: MIT
// Conjugate gradients on (A + lambda diagonal) x = b, preconditioned by the diagonal or by the caller, and
// other operations on vectors of parameters. Scalars stay on the device: in iteration k, scalars[2 k] is r^T
// z with z = P r, and scalars[2 k + 1] is p^T (A + lambda diagonal) p.
#include "launch.cuh"
#include "kernels.cuh"

using namespace gs;

namespace {

constexpr int vector_block = 256, most_blocks = 1024;

__device__ int64_t first_value() {
    return int64_t(blockIdx.x) * vector_block + threadIdx.x;
}
__device__ int64_t stride_of_grid() {
    return int64_t(gridDim.x) * vector_block;
}

__global__ void __launch_bounds__(vector_block)
    precondition_kernel(const float *diagonal, const float *residual, int64_t values, float *z, double *sum) {
    double part = 0;
    for (int64_t i = first_value(); i < values; i += stride_of_grid()) {
        const float r = residual[i], quotient = diagonal[i] > 0 ? r / diagonal[i] : 0;
        z[i] = quotient;
        part += double(r) * quotient;
    }
    add_of_block<vector_block>(part, sum);
}

__global__ void __launch_bounds__(vector_block)
    curvature_kernel(const float *diagonal, float lambda, int64_t values, float *product,
                     const float *direction, double *scalars) {
    double sum = 0;
    for (int64_t i = first_value(); i < values; i += stride_of_grid()) {
        const float p = direction[i], q = fmaf(lambda * diagonal[i], p, product[i]);
        product[i] = q;
        sum += double(p) * q;
    }
    add_of_block<vector_block>(sum, scalars + 1);
}

__device__ double ratio(double a, double b) {
    return b > 0 ? a / b : 0; // b = 0: converged; b < 0: rounding
}

__global__ void __launch_bounds__(vector_block)
    update_kernel(int64_t values, const float *product, float *x, float *residual, const float *direction,
                  const double *scalars) {
    const float alpha = float(ratio(scalars[0], scalars[1]));
    for (int64_t i = first_value(); i < values; i += stride_of_grid()) {
        x[i] = fmaf(alpha, direction[i], x[i]);
        residual[i] = fmaf(-alpha, product[i], residual[i]);
    }
}

__global__ void __launch_bounds__(vector_block)
    direction_kernel(const float *z, int64_t values, float *direction, const double *scalars) {
    const float beta = float(ratio(scalars[2], scalars[0]));
    for (int64_t i = first_value(); i < values; i += stride_of_grid())
        direction[i] = fmaf(beta, direction[i], z[i]);
}

// weight: NULL counts as 1.
__global__ void __launch_bounds__(vector_block)
    dot_kernel(const float *weight, const float *a, const float *b, int64_t values, double *sum) {
    double part = 0;
    for (int64_t i = first_value(); i < values; i += stride_of_grid())
        part += (weight ? double(weight[i]) : 1.0) * a[i] * b[i];
    add_of_block<vector_block>(part, sum);
}

// weight: NULL counts as 1.
__global__ void __launch_bounds__(vector_block)
    add_kernel(float *to, float scale, const float *weight, const float *from, int64_t values) {
    for (int64_t i = first_value(); i < values; i += stride_of_grid())
        to[i] = fmaf(weight ? scale * weight[i] : scale, from[i], to[i]);
}

unsigned grid_for(int64_t values) {
    const int64_t blocks = (values + vector_block - 1) / vector_block;
    return unsigned(blocks < most_blocks ? blocks : most_blocks);
}

} // namespace

gs_status gs_lm_pcg_start(const gs_lm_pcg *pcg, const float *right, int iterations) {
    const size_t bytes = size_t(pcg->values) * sizeof(float);
    GS_CUDA(cudaMemsetAsync(pcg->scalars, 0, (2 * size_t(iterations) + 1) * sizeof(double), nullptr));
    GS_CUDA(cudaMemsetAsync(pcg->x, 0, bytes, nullptr));
    if (pcg->residual != right)
        GS_CUDA(cudaMemcpyAsync(pcg->residual, right, bytes, cudaMemcpyDeviceToDevice, nullptr));
    return GS_OK;
}

gs_status gs_lm_pcg_step(const gs_lm_pcg *pcg, const float *diagonal, float lambda, int iteration,
                         float *product) {
    double *const scalars = pcg->scalars + 2 * iteration;
    const unsigned grid = grid_for(pcg->values);
    GS_CUDA(launch(nullptr, grid, vector_block, curvature_kernel, diagonal, lambda, pcg->values, product,
                   pcg->direction, scalars));
    return GS_STATUS(launch(nullptr, grid, vector_block, update_kernel, pcg->values, product, pcg->x,
                            pcg->residual, pcg->direction, scalars));
}

gs_status gs_lm_pcg_update(const gs_lm_pcg *pcg, const float *z, int iteration) {
    return GS_STATUS(launch(nullptr, grid_for(pcg->values), vector_block, direction_kernel, z, pcg->values,
                            pcg->direction, pcg->scalars + 2 * iteration));
}

gs_status gs_lm_precondition_diagonal(const float *diagonal, const float *residual, int64_t values, float *z,
                                      double *sum) {
    return GS_STATUS(launch(nullptr, grid_for(values), vector_block, precondition_kernel, diagonal, residual,
                            values, z, sum));
}

gs_status gs_lm_add_dot(const float *weight, const float *a, const float *b, int64_t values, double *sum) {
    return GS_STATUS(launch(nullptr, grid_for(values), vector_block, dot_kernel, weight, a, b, values, sum));
}

gs_status gs_lm_add(float *to, float scale, const float *weight, const float *from, int64_t values) {
    return GS_STATUS(
        launch(nullptr, grid_for(values), vector_block, add_kernel, to, scale, weight, from, values));
}
