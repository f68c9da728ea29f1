// SPDX-License-Identifier: MIT
// diag(J^T J) from the sums of the blend, and the preconditioner: the factored diagonal blocks of J^T J for each
// Gaussian's place and shape (10 x 10), for its opacity and for its spherical harmonics. Formulas:
// docs/developers/math.md, section 8.
#include "launch.cuh"
#include "kernels.cuh"
#include "tangents.cuh"

using namespace gs;

namespace {

constexpr int block_threads = 128;
constexpr int shape_values = 10; // mean, log_scale, quaternion
constexpr int opacity_entry = shape_values * (shape_values + 1) / 2, first_sh = opacity_entry + 1;

__host__ __device__ constexpr int entries(int rows) {
    return rows * (rows + 1) / 2;
}
// Index of an entry of the lower triangle, row by row.
__host__ __device__ constexpr int at(int row, int column) {
    return row * (row + 1) / 2 + column;
}

// Index of the sum of H e_j e_k, for e0, e1, e0^2, e0 e1, e1^2 as rows and columns.
__device__ constexpr int square_of[5][5] = {
    {SQUARE_H_E2, SQUARE_H_E2 + 1, SQUARE_H_E3, SQUARE_H_E3 + 1, SQUARE_H_E3 + 2},
    {SQUARE_H_E2 + 1, SQUARE_H_E2 + 2, SQUARE_H_E3 + 1, SQUARE_H_E3 + 2, SQUARE_H_E3 + 3},
    {SQUARE_H_E3, SQUARE_H_E3 + 1, SQUARE_H_E4, SQUARE_H_E4 + 1, SQUARE_H_E4 + 2},
    {SQUARE_H_E3 + 1, SQUARE_H_E3 + 2, SQUARE_H_E4 + 1, SQUARE_H_E4 + 2, SQUARE_H_E4 + 3},
    {SQUARE_H_E3 + 2, SQUARE_H_E3 + 3, SQUARE_H_E4 + 2, SQUARE_H_E4 + 3, SQUARE_H_E4 + 4}};

// A splat's derivatives by one of the ten values of place and shape: of its colour, 0 beyond the mean, and of log alpha.
struct splat_row {
    float color[GS_CHANNELS];
    log_alpha_tangent log_alpha;
};

// The splat's sums, which are a symmetric matrix, times a row. moves: the row is by a value of the mean.
GS_DEVICE splat_row times(const float (&sums)[GS_LM_SQUARES_STRIDE], const splat_row &row, bool moves) {
    splat_row out = {};
    const float *const d = row.log_alpha.d;
    DISTWAR_UNROLL
    for (int j = 0; j < 5; j++) {
        DISTWAR_UNROLL
        for (int k = 0; k < 5; k++)
            out.log_alpha.d[j] = fmaf(sums[square_of[j][k]], d[k], out.log_alpha.d[j]);
    }
    DISTWAR_UNROLL
    for (int c = 0; c < GS_CHANNELS; c++) {
        if (moves) out.color[c] = sums[SQUARE_COLOR + c] * row.color[c];
        DISTWAR_UNROLL
        for (int k = 0; k < 5; k++) {
            const float cross = sums[SQUARE_CROSS + 5 * c + k];
            out.color[c] = fmaf(cross, d[k], out.color[c]);
            if (moves) out.log_alpha.d[k] = fmaf(cross, row.color[c], out.log_alpha.d[k]);
        }
    }
    return out;
}

GS_DEVICE float product(const splat_row &a, const splat_row &row, bool moves) {
    float sum = 0;
    DISTWAR_UNROLL
    for (int k = 0; k < 5; k++) sum = fmaf(row.log_alpha.d[k], a.log_alpha.d[k], sum);
    for (int c = 0; moves && c < GS_CHANNELS; c++) sum = fmaf(row.color[c], a.color[c], sum);
    return sum;
}

// shape: the 55 entries of each Gaussian's lower triangle and then its opacity, entry by entry; or NULL.
template <int model>
__global__ void __launch_bounds__(block_threads, 3) // 168 registers
    add_diagonal_kernel(gs_gaussians gaussians, int degree, gs_camera camera, const gs_splat *splats,
                        const float *squares, gs_gaussians diagonal, float *shape) {
    const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
    if (i >= gaussians.count) return;
    const gs_splat splat = splats[i];
    if (splat.depth == 0) return;
    float s[GS_LM_SQUARES_STRIDE];
    DISTWAR_UNROLL
    for (int k = 0; k < GS_LM_SQUARES_STRIDE; k += 4)
        read_four<GS_LM_SQUARES_STRIDE>(squares + i * GS_LM_SQUARES_STRIDE + k, 4, s + k);
    const float d_logit = 1 - sigmoid(gaussians.opacity_logit[i]),
                of_opacity = d_logit * d_logit * s[SQUARE_H];
    diagonal.opacity_logit[i] += of_opacity;
    if (shape) shape[opacity_entry * gaussians.count + i] += of_opacity;

    const auto seen = seen_mean_of<model>(camera, view_constants_of(camera), gaussians.mean + 3 * i);
    const gaussian_shape own = gaussian_shape_of(gaussians, i);
    const int64_t first_sh_value = i * sh_floats(gaussians.sh_degree);
    float axes[3][3];
    world_axes(own, axes);
    const symmetric covariance = world_covariance(axes);
    splat_row rows[shape_values];
    DISTWAR_UNROLL
    for (int row = 0; row < shape_values; row++) {
        const bool moves = row < 3;
        float unit[shape_values]; // 1 in the row's value, else 0
        DISTWAR_UNROLL
        for (int k = 0; k < shape_values; k++) unit[k] = k == row ? 1.0f : 0.0f;
        rows[row] = {};
        if (moves)
            add_color_tangent(gaussians.sh + first_sh_value, degree, seen.direction, unit, rows[row].color);
        for (int c = 0; moves && c < GS_CHANNELS; c++)
            if (!(splat.color[c] > 0)) rows[row].color[c] = 0;
        rows[row].log_alpha =
            log_alpha_tangent_of(camera, splat, seen.point, covariance,
                                 world_covariance_tangent(own, axes, unit + 3, unit + 6), unit);
        const splat_row by = times(s, rows[row], moves);
        float *const to = row < 3   ? diagonal.mean + 3 * i + row
                          : row < 6 ? diagonal.log_scale + 3 * i + row - 3
                                    : diagonal.quaternion + 4 * i + row - 6;
        *to += fmaxf(product(by, rows[row], moves), 0.0f); // it is below 0 by rounding alone
        if (!shape) continue;
        DISTWAR_UNROLL
        for (int column = 0; column <= row; column++)
            shape[at(row, column) * gaussians.count + i] += product(by, rows[column], column < 3);
    }
    float basis[max_sh_coefficients];
    sh_basis(degree, seen.direction.unit, basis);
    DISTWAR_UNROLL
    for (int k = 0; k < max_sh_coefficients; k++) {
        if (k >= sh_coefficients(degree)) break;
        for (int c = 0; c < GS_CHANNELS; c++)
            if (splat.color[c] > 0)
                diagonal.sh[first_sh_value + GS_CHANNELS * k + c] +=
                    basis[k] * basis[k] * s[SQUARE_COLOR + c];
    }
}

template <int Bases>
__global__ void __launch_bounds__(block_threads)
    add_sh_kernel(gs_gaussians gaussians, int degree, gs_camera camera, const gs_splat *splats,
                  const float *squares, float *sh) {
    const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
    if (i >= gaussians.count) return;
    const gs_splat splat = splats[i];
    if (splat.depth == 0) return;
    const splat_squares &s = reinterpret_cast<const splat_squares *>(squares)[i];
    float basis[max_sh_coefficients] = {}, weight = 0; // the mean over channels
    for (int c = 0; c < GS_CHANNELS; c++)
        if (splat.color[c] > 0) weight += s.color[c] / GS_CHANNELS;
    const view_constants v = view_constants_of(camera);
    sh_basis(degree, view_direction_of<reciprocal>(v.negative_center, gaussians.mean + 3 * i).unit, basis);
    DISTWAR_UNROLL
    for (int row = 0; row < Bases; row++) {
        DISTWAR_UNROLL
        for (int column = 0; column <= row; column++)
            sh[at(row, column) * gaussians.count + i] += weight * basis[row] * basis[column];
    }
}

// Cholesky factorisation in place: the lower factor, with the inverse of its diagonal. A row that is zero,
// not finite, or linearly dependent on earlier rows becomes zeros, and does not affect other rows.
template <int Rows>
__device__ void factor(float (&a)[entries(Rows)]) {
    DISTWAR_UNROLL
    for (int row = 0; row < Rows; row++) {
        DISTWAR_UNROLL
        for (int column = 0; column <= row; column++) {
            float sum = a[at(row, column)];
            const float before = sum;
            DISTWAR_UNROLL
            for (int k = 0; k < column; k++) sum = fmaf(-a[at(row, k)], a[at(column, k)], sum);
            if (row > column) sum *= a[at(column, column)];
            a[at(row, column)] = sum;
            if (row > column) continue;
            const bool good = sum > 1e-5f * before && sum < INFINITY; // false if the row has a NaN
            DISTWAR_UNROLL
            for (int k = 0; k < row; k++) a[at(row, k)] = good ? a[at(row, k)] : 0;
            a[at(row, row)] = good ? rsqrtf(sum) : 0;
        }
    }
}

template <int Rows>
__device__ void solve(const float (&a)[entries(Rows)], float (&x)[Rows]) {
    DISTWAR_UNROLL
    for (int row = 0; row < Rows; row++) {
        DISTWAR_UNROLL
        for (int k = 0; k < row; k++) x[row] = fmaf(-a[at(row, k)], x[k], x[row]);
        x[row] *= a[at(row, row)];
    }
    DISTWAR_UNROLL
    for (int row = Rows - 1; row >= 0; row--) {
        DISTWAR_UNROLL
        for (int k = row + 1; k < Rows; k++) x[row] = fmaf(-a[at(k, row)], x[k], x[row]);
        x[row] *= a[at(row, row)];
    }
}

template <int Rows>
__device__ void load(const float *from, int64_t count, int64_t i, float (&a)[entries(Rows)]) {
    DISTWAR_UNROLL
    for (int k = 0; k < entries(Rows); k++) a[k] = from[k * count + i];
}

__device__ void load_shape(const gs_gaussians &vector, int64_t i, float (&x)[shape_values]) {
    for (int k = 0; k < 3; k++) x[k] = vector.mean[3 * i + k];
    for (int k = 0; k < 3; k++) x[3 + k] = vector.log_scale[3 * i + k];
    for (int k = 0; k < 4; k++) x[6 + k] = vector.quaternion[4 * i + k];
}

__global__ void __launch_bounds__(block_threads)
    factor_shape_kernel(gs_gaussians diagonal, float lambda, float *shape) {
    const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
    if (i >= diagonal.count) return;
    float a[entries(shape_values)], damping[shape_values];
    load<shape_values>(shape, diagonal.count, i, a);
    load_shape(diagonal, i, damping);
    DISTWAR_UNROLL
    for (int k = 0; k < shape_values; k++) a[at(k, k)] = fmaf(lambda, damping[k], a[at(k, k)]);
    factor<shape_values>(a);
    DISTWAR_UNROLL
    for (int k = 0; k < entries(shape_values); k++) shape[k * diagonal.count + i] = a[k];
    float &opacity = shape[opacity_entry * diagonal.count + i];
    const float square = fmaf(lambda, diagonal.opacity_logit[i], opacity);
    opacity = square > 0 ? 1 / square : 0;
}

GS_DEVICE float sum_of_channels(const float *value) {
    float sum = value[0];
    DISTWAR_UNROLL
    for (int c = 1; c < GS_CHANNELS; c++) sum += value[c];
    return sum;
}

template <int Bases>
__global__ void __launch_bounds__(block_threads)
    factor_sh_kernel(gs_gaussians diagonal, float lambda, float *sh) {
    const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
    if (i >= diagonal.count) return;
    float a[entries(Bases)];
    load<Bases>(sh, diagonal.count, i, a);
    const float *row = diagonal.sh + i * Bases * GS_CHANNELS;
    DISTWAR_UNROLL
    for (int k = 0; k < Bases; k++)
        a[at(k, k)] += lambda / GS_CHANNELS * sum_of_channels(row + GS_CHANNELS * k);
    factor<Bases>(a);
    DISTWAR_UNROLL
    for (int k = 0; k < entries(Bases); k++) sh[k * diagonal.count + i] = a[k];
}

__global__ void __launch_bounds__(block_threads)
    precondition_shape_kernel(const float *shape, gs_gaussians residual, gs_gaussians z, double *sum) {
    const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
    double part = 0;
    if (i < residual.count) {
        float a[entries(shape_values)], x[shape_values], r[shape_values];
        load<shape_values>(shape, residual.count, i, a);
        load_shape(residual, i, r);
        DISTWAR_UNROLL
        for (int k = 0; k < shape_values; k++) x[k] = r[k];
        solve<shape_values>(a, x);
        DISTWAR_UNROLL
        for (int k = 0; k < shape_values; k++) part += double(x[k]) * r[k];
        for (int k = 0; k < 3; k++) z.mean[3 * i + k] = x[k];
        for (int k = 0; k < 3; k++) z.log_scale[3 * i + k] = x[3 + k];
        for (int k = 0; k < 4; k++) z.quaternion[4 * i + k] = x[6 + k];
        const float d_opacity = residual.opacity_logit[i];
        const float opacity = shape[opacity_entry * residual.count + i] * d_opacity;
        z.opacity_logit[i] = opacity;
        part += double(opacity) * d_opacity;
    }
    add_of_block<block_threads>(part, sum);
}

template <int Bases>
__global__ void __launch_bounds__(block_threads)
    precondition_sh_kernel(const float *sh, gs_gaussians diagonal, gs_gaussians residual, gs_gaussians z,
                           double *sum) {
    const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
    double part = 0;
    if (i < residual.count) {
        float a[entries(Bases)];
        load<Bases>(sh, residual.count, i, a);
        const int64_t first = i * Bases * GS_CHANNELS;
        const float *d = diagonal.sh + first, *r = residual.sh + first;
        float *to = z.sh + first;
        const float mean = sum_of_channels(d) / GS_CHANNELS;
        for (int c = 0; c < GS_CHANNELS; c++) {
            float x[Bases];
            DISTWAR_UNROLL
            for (int k = 0; k < Bases; k++) x[k] = r[GS_CHANNELS * k + c];
            solve<Bases>(a, x);
            const float scale = d[c] > 0 ? mean / d[c] : 0;
            DISTWAR_UNROLL
            for (int k = 0; k < Bases; k++) {
                x[k] *= scale;
                part += double(x[k]) * r[GS_CHANNELS * k + c];
                to[GS_CHANNELS * k + c] = x[k];
            }
        }
    }
    add_of_block<block_threads>(part, sum);
}

// The blocks of the spherical harmonics.
float *sh_blocks(float *blocks, int64_t count) {
    return blocks + count * first_sh;
}

// kernel<BASES> of a degree
#define GS_OF_DEGREE(kernel, degree)                                                                         \
    ((degree) == 0 ? kernel<1> : (degree) == 1 ? kernel<4> : (degree) == 2 ? kernel<9> : kernel<16>)

} // namespace

size_t gs_lm_blocks_bytes(int64_t count, int sh_degree) {
    return size_t(count) * size_t(first_sh + entries((sh_degree + 1) * (sh_degree + 1))) * sizeof(float);
}

gs_status gs_lm_add_diagonal(const gs_view *view, const float *squares, const gs_gaussians *diagonal,
                             float *blocks) {
    const gs_gaussians in = scaled(view->gaussians);
    const int degree = used_degree(view->sh_degree_used, &in);
    const unsigned grid = blocks_for(in.count, block_threads);
    GS_CUDA(launch(nullptr, grid, block_threads, GS_OF_MODEL(add_diagonal_kernel, view->camera.model), in,
                   degree, view->camera, view->splats, squares, *diagonal, blocks));
    if (!blocks) return GS_OK;
    return GS_STATUS(launch(nullptr, grid, block_threads, GS_OF_DEGREE(add_sh_kernel, in.sh_degree), in,
                            degree, view->camera, view->splats, squares, sh_blocks(blocks, in.count)));
}

gs_status gs_lm_factor_blocks(const gs_gaussians *diagonal, float lambda, float *blocks) {
    const unsigned grid = blocks_for(diagonal->count, block_threads);
    GS_CUDA(launch(nullptr, grid, block_threads, factor_shape_kernel, *diagonal, lambda, blocks));
    return GS_STATUS(launch(nullptr, grid, block_threads, GS_OF_DEGREE(factor_sh_kernel, diagonal->sh_degree),
                            *diagonal, lambda, sh_blocks(blocks, diagonal->count)));
}

gs_status gs_lm_precondition(const float *blocks, const gs_gaussians *diagonal, const gs_gaussians *residual,
                             const gs_gaussians *z, double *sum) {
    const unsigned grid = blocks_for(residual->count, block_threads);
    GS_CUDA(launch(nullptr, grid, block_threads, precondition_shape_kernel, blocks, *residual, *z, sum));
    return GS_STATUS(launch(nullptr, grid, block_threads,
                            GS_OF_DEGREE(precondition_sh_kernel, residual->sh_degree),
                            blocks + residual->count * first_sh, *diagonal, *residual, *z, sum));
}
