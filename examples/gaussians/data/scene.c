// SPDX-License-Identifier: MIT
#include "scene.h"
#include "arrays.h"
#include "gpu/vector.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t gaussians_place(gs_gaussians *gaussians, void *memory, size_t alignment) {
    float **const arrays[GS_ARRAYS] = {&gaussians->mean, &gaussians->log_scale, &gaussians->quaternion,
                                       &gaussians->opacity_logit, &gaussians->sh};
    const gs_arrays list = gs_arrays_of(gaussians);
    size_t end = 0;
    for (int i = 0; i < GS_ARRAYS; i++) {
        const size_t bytes = (size_t)gaussians->count * (size_t)list.width[i] * sizeof(float);
        if (memory) *arrays[i] = (float *)(void *)((char *)memory + end);
        end += (bytes + alignment - 1) / alignment * alignment;
    }
    return end;
}

bool scene_open(gs_gaussians *out, int64_t count, int sh_degree, fault *why) {
    *out = (gs_gaussians){0};
    if (count < 0 || count > INT32_MAX || sh_degree < 0 || sh_degree > GS_MAX_SH_DEGREE)
        return fail(why, "%" PRId64 " Gaussians of SH degree %d are out of range", count, sh_degree);
    gs_gaussians shape = {.count = count, .sh_degree = sh_degree};
    const size_t bytes = gaussians_place(&shape, NULL, 16);
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) return fail(why, "no memory for %" PRId64 " Gaussians", count);
    gaussians_place(&shape, memory, 16); // distwar_gs.h wants this alignment
    *out = shape;
    return true;
}

void scene_close(gs_gaussians *scene) {
    free(scene->mean);
    *scene = (gs_gaussians){0};
}

int64_t gaussians_keep(gs_gaussians *gaussians, gaussian_filter keeps, const void *context) {
    const gs_arrays arrays = gs_arrays_of(gaussians);
    int64_t kept = 0;
    for (int64_t i = 0; i < gaussians->count; i++) {
        if (!keeps(gaussians, i, context)) continue;
        for (int a = 0; a < GS_ARRAYS && kept < i; a++) {
            const int width = arrays.width[a];
            memcpy(arrays.of[a] + kept * width, arrays.of[a] + i * width, (size_t)width * sizeof(float));
        }
        kept++;
    }
    const int64_t dropped = gaussians->count - kept;
    gaussians->count = kept;
    return dropped;
}

static bool is_finite(const gs_gaussians *gaussians, int64_t i, const void *context) {
    (void)context;
    const gs_arrays arrays = gs_arrays_of(gaussians);
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < arrays.width[a]; k++)
            if (!isfinite(arrays.of[a][i * arrays.width[a] + k])) return false;
    return true;
}

int64_t gaussians_keep_finite(gs_gaussians *gaussians) {
    return gaussians_keep(gaussians, is_finite, NULL);
}

double scene_sh_constant(double color) {
    return (color - 0.5) / 0.28209479177387814;
}

void scene_sh_basis(const double r[3], double out[SCENE_SH_COEFFICIENTS]) {
    const double x = r[0], y = r[1], z = r[2], xx = x * x, yy = y * y, zz = z * z;
    const double values[SCENE_SH_COEFFICIENTS] = {0.28209479177387814,
                                                  -0.4886025119029199 * y,
                                                  0.4886025119029199 * z,
                                                  -0.4886025119029199 * x,
                                                  1.0925484305920792 * x * y,
                                                  -1.0925484305920792 * y * z,
                                                  0.31539156525252005 * (2 * zz - xx - yy),
                                                  -1.0925484305920792 * x * z,
                                                  0.5462742152960396 * (xx - yy),
                                                  -0.5900435899266435 * y * (3 * xx - yy),
                                                  2.890611442640554 * x * y * z,
                                                  -0.4570457994644658 * y * (4 * zz - xx - yy),
                                                  0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy),
                                                  -0.4570457994644658 * x * (4 * zz - xx - yy),
                                                  1.445305721320277 * z * (xx - yy),
                                                  -0.5900435899266435 * x * (xx - 3 * yy)};
    memcpy(out, values, sizeof values);
}

// ---- moves

// A turned function is f'(d) = f(R^T d). Its coefficients are turn[j][k] times those of f, turn[j][k] the integral over
// the sphere of Y_j(d) Y_k(R^T d): they are orthonormal. The products are polynomials of degree 6, for which four
// latitudes of Gauss and Legendre with eight longitudes are exact.
static void turn_of(const double rotation[9], double turn[SCENE_SH_COEFFICIENTS][SCENE_SH_COEFFICIENTS]) {
    const double node[2] = {0.3399810435848563, 0.8611363115940526};
    const double weight[2] = {0.6521451548625461, 0.3478548451374538};
    memset(turn, 0, SCENE_SH_COEFFICIENTS * sizeof *turn);
    for (int point = 0; point < 4 * 8; point++) {
        const double z = point & 1 ? -node[point >> 1 & 1] : node[point >> 1 & 1];
        const double part = weight[point >> 1 & 1] * acos(-1) / 4, angle = (point >> 2) * acos(-1) / 4;
        const double d[3] = {sqrt(1 - z * z) * cos(angle), sqrt(1 - z * z) * sin(angle), z};
        double back[3] = {0}, of_d[SCENE_SH_COEFFICIENTS], of_back[SCENE_SH_COEFFICIENTS];
        for (int k = 0; k < 9; k++) back[k % 3] += rotation[k] * d[k / 3];
        scene_sh_basis(d, of_d);
        scene_sh_basis(back, of_back);
        for (int j = 0; j < SCENE_SH_COEFFICIENTS; j++)
            for (int k = 0; k < SCENE_SH_COEFFICIENTS; k++) turn[j][k] += part * of_d[j] * of_back[k];
    }
}

// Divides by the largest component, whose row is the most accurate. The diagonal gives 4 times the square of each.
void quaternion_of_rotation(const double m[9], double q[4]) {
    const double four[4] = {1 + m[0] + m[4] + m[8], 1 + m[0] - m[4] - m[8], 1 - m[0] + m[4] - m[8],
                            1 - m[0] - m[4] + m[8]};
    // Row i: 4 q_i times each component.
    const double rows[4][4] = {{four[0], m[7] - m[5], m[2] - m[6], m[3] - m[1]},
                               {m[7] - m[5], four[1], m[1] + m[3], m[2] + m[6]},
                               {m[2] - m[6], m[1] + m[3], four[2], m[5] + m[7]},
                               {m[3] - m[1], m[2] + m[6], m[5] + m[7], four[3]}};
    int best = 0;
    for (int k = 1; k < 4; k++)
        if (four[k] > four[best]) best = k;
    double square = 0;
    for (int k = 0; k < 4; k++) square += rows[best][k] * rows[best][k];
    for (int k = 0; k < 4; k++) q[k] = rows[best][k] / sqrt(square);
}

void rotation_of_quaternion(const double q[4], double m[9]) {
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double values[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                              2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                              2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    memcpy(m, values, sizeof values);
}

bool similarity_of(const double rows[12], similarity *out) {
    double m[9], cofactors[9];
    for (int k = 0; k < 9; k++) m[k] = rows[k / 3 * 4 + k % 3];
    const double volume = determinant_and_cofactors(m, cofactors);
    if (!(volume > 0) || !isfinite(volume)) return false;
    out->scale = cbrt(volume);
    for (int k = 0; k < 9; k++) out->rotation[k] = m[k] /= out->scale;
    nearest_rotation(out->rotation);
    for (int k = 0; k < 9; k++)
        if (!(fabs(m[k] - out->rotation[k]) < 1e-3)) return false;
    for (int k = 0; k < 3; k++) out->translation[k] = rows[4 * k + 3];
    return true;
}

// q = a b
static void product(const double a[4], const float b[4], float q[4]) {
    const double values[4] = {a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
                              a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
                              a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
                              a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]};
    for (int k = 0; k < 4; k++) q[k] = (float)values[k];
}

void gaussians_move(gs_gaussians *g, const similarity *by) {
    double turn[SCENE_SH_COEFFICIENTS][SCENE_SH_COEFFICIENTS], q[4];
    turn_of(by->rotation, turn);
    quaternion_of_rotation(by->rotation, q);
    const double grown = log(by->scale);
    const int count = (g->sh_degree + 1) * (g->sh_degree + 1);
    for (int64_t i = 0; i < g->count; i++) {
        float *const mean = g->mean + 3 * i, *const sh = g->sh + i * count * GS_CHANNELS;
        const double old[3] = {mean[0], mean[1], mean[2]};
        for (int k = 0; k < 3; k++) {
            const double *const row = by->rotation + 3 * k;
            mean[k] = (float)(by->scale * (row[0] * old[0] + row[1] * old[1] + row[2] * old[2]) +
                              by->translation[k]);
            g->log_scale[3 * i + k] = (float)(g->log_scale[3 * i + k] + grown);
        }
        product(q, g->quaternion + 4 * i, g->quaternion + 4 * i);
        float turned[SCENE_SH_COEFFICIENTS * GS_CHANNELS];
        for (int j = 1; j < count; j++) {
            const int degree = j < 4 ? 1 : j < 9 ? 2 : 3;
            for (int c = 0; c < GS_CHANNELS; c++) {
                double sum = 0;
                for (int k = degree * degree; k < (degree + 1) * (degree + 1); k++)
                    sum += turn[j][k] * sh[k * GS_CHANNELS + c];
                turned[j * GS_CHANNELS + c] = (float)sum;
            }
        }
        memcpy(sh + GS_CHANNELS, turned + GS_CHANNELS, (size_t)(count - 1) * GS_CHANNELS * sizeof *sh);
    }
}
