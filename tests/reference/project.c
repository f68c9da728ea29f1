// SPDX-License-Identifier: MIT
//
// A Gaussian as a camera sees it, by the 3D covariance (Zwicker et al. 2002), and the adjoint.
#include "fisheye.h"
#include "reference.h"

#include <math.h>
#include <string.h>

// The places of the six numbers of a given covariance.
static const int upper_row[6] = {0, 0, 0, 1, 1, 2}, upper_column[6] = {0, 1, 2, 1, 2, 2};

// Shared by the projection and its adjoint.
typedef struct view {
    double point[3];         // in the camera's frame
    double mean2d[2];        // pixels
    double depth;            // z or distance
    double near_margin;      // see reference_splat
    int in_front;            // neither before the near plane nor beyond the fisheye's limit
    double ratio[2];         // x/z and y/z, clamped
    int clamped[2];          // -1, 0, 1
    double ratio_margin;     // see reference_splat
    double norm;             // of the quaternion
    double unit[4];          // quaternion
    double scale[3];         // exp(log_scale)
    double axes[3][3];       // rotation Q times scales: column j is axis j
    double rotation[3][3];   // Q
    double covariance[3][3]; // Q S S Q^T or as given, in the world's frame
    double jacobian[2][3];   // J
    double second[2][3][3];  // unless of a pinhole: derivatives of J by the point
    double screen[2][3];     // J R
    double sharp[2][2];      // J R C R^T J^T
    double direction[3];     // from the camera's centre to the mean
    double distance;
    double basis[16], basis_gradient[16][3];
    int coefficients; // in use
} view;

// The members of the view that no camera takes part in.
static void shape(const reference_gaussians *gaussians, int64_t i, view *v) {
    const double *g = gaussians->quaternion + 4 * i;
    v->norm = sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2] + g[3] * g[3]);
    for (int k = 0; k < 4; k++) v->unit[k] = g[k] / v->norm;
    const double qw = v->unit[0], qx = v->unit[1], qy = v->unit[2], qz = v->unit[3];
    const double Q[3][3] = {
        {1 - 2 * (qy * qy + qz * qz), 2 * (qx * qy - qw * qz), 2 * (qx * qz + qw * qy)},
        {2 * (qx * qy + qw * qz), 1 - 2 * (qx * qx + qz * qz), 2 * (qy * qz - qw * qx)},
        {2 * (qx * qz - qw * qy), 2 * (qy * qz + qw * qx), 1 - 2 * (qx * qx + qy * qy)},
    };
    memcpy(v->rotation, Q, sizeof Q);
    for (int j = 0; j < 3; j++) {
        v->scale[j] = exp(gaussians->log_scale[3 * i + j]);
        if (gaussians->scale_modifier != 0) v->scale[j] *= gaussians->scale_modifier;
        for (int r = 0; r < 3; r++) v->axes[r][j] = Q[r][j] * v->scale[j];
    }
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            v->covariance[r][c] = 0;
            for (int j = 0; j < 3; j++) v->covariance[r][c] += v->axes[r][j] * v->axes[c][j];
        }
    for (int k = 0; gaussians->covariance && k < 6; k++) {
        const int r = upper_row[k], c = upper_column[k];
        v->covariance[r][c] = v->covariance[c][r] = gaussians->covariance[6 * i + k];
    }
}

void reference_covariance(const reference_gaussians *gaussians, int64_t i, double upper[6]) {
    view v;
    shape(gaussians, i, &v);
    for (int k = 0; k < 6; k++) upper[k] = v.covariance[upper_row[k]][upper_column[k]];
}

// The members of the view that follow from the point in the camera's frame.
static void see_by_pinhole(const reference_camera *camera, const reference_splat_decisions *held, view *v) {
    const double focal[2] = {camera->fx, camera->fy}, center[2] = {camera->cx, camera->cy};
    const double size[2] = {camera->width, camera->height};
    const double z = v->point[2];
    v->depth = z;
    v->near_margin = fabs(z / camera->near_plane - 1);
    v->in_front = z > camera->near_plane;
    v->ratio_margin = INFINITY;
    memset(v->jacobian, 0, sizeof v->jacobian);
    for (int k = 0; k < 2; k++) {
        const double low = -(center[k] + 0.15 * size[k]) / focal[k];
        const double high = (1.15 * size[k] - center[k]) / focal[k];
        double ratio = v->point[k] / z;
        v->mean2d[k] = focal[k] * v->point[k] / z + center[k];
        v->ratio_margin = fmin(v->ratio_margin, fmin(fabs(ratio - low), fabs(ratio - high)) / (high - low));
        v->clamped[k] = held ? held->ratio_clamped[k] : ratio < low ? -1 : ratio > high ? 1 : 0;
        v->ratio[k] = v->clamped[k] < 0 ? low : v->clamped[k] > 0 ? high : ratio;
        v->jacobian[k][k] = focal[k] / z;
        v->jacobian[k][2] = -focal[k] * v->ratio[k] / z;
    }
}

static void see_by_fisheye(const reference_camera *camera, const reference_splat_decisions *held, view *v) {
    reference_fisheye_point p;
    reference_fisheye(camera, v->point, &p);
    v->depth = p.distance;
    v->near_margin = INFINITY;
    v->in_front = 1;
    if (!held) {
        const double limit = reference_fisheye_limit(camera->distortion);
        v->near_margin = fmin(fabs(p.distance / camera->near_plane - 1), fabs(p.angle / limit - 1));
        v->in_front = p.distance > camera->near_plane && p.angle <= limit;
    }
    v->ratio_margin = INFINITY;
    memset(v->clamped, 0, sizeof v->clamped);
    memcpy(v->mean2d, p.mean, sizeof p.mean);
    memcpy(v->jacobian, p.jacobian, sizeof p.jacobian);
    memcpy(v->second, p.second, sizeof p.second);
}

static void see_in_parallel(const reference_camera *camera, view *v) {
    const double focal[2] = {camera->fx, camera->fy}, center[2] = {camera->cx, camera->cy};
    v->depth = v->point[2];
    v->near_margin = fabs(v->depth / camera->near_plane - 1);
    v->in_front = v->depth > camera->near_plane;
    v->ratio_margin = INFINITY;
    memset(v->clamped, 0, sizeof v->clamped);
    memset(v->jacobian, 0, sizeof v->jacobian);
    memset(v->second, 0, sizeof v->second);
    for (int k = 0; k < 2; k++) {
        v->mean2d[k] = focal[k] * v->point[k] + center[k];
        v->jacobian[k][k] = focal[k];
    }
}

static void look(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                 const reference_camera *camera, const reference_splat_decisions *held, view *v) {
    const double *mean = gaussians->mean + 3 * i;
    const double *R = camera->rotation;
    for (int r = 0; r < 3; r++)
        v->point[r] =
            R[3 * r] * mean[0] + R[3 * r + 1] * mean[1] + R[3 * r + 2] * mean[2] + camera->translation[r];
    if (camera->model == GS_FISHEYE)
        see_by_fisheye(camera, held, v);
    else if (camera->model == GS_ORTHO)
        see_in_parallel(camera, v);
    else
        see_by_pinhole(camera, held, v);
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            v->screen[k][c] = 0;
            for (int r = 0; r < 3; r++) v->screen[k][c] += v->jacobian[k][r] * R[3 * r + c];
        }

    shape(gaussians, i, v);
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) {
            v->sharp[k][l] = 0;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++)
                    v->sharp[k][l] += v->screen[k][r] * v->covariance[r][c] * v->screen[l][c];
        }

    for (int c = 0; c < 3; c++) {
        double camera_center = 0;
        for (int r = 0; r < 3; r++) camera_center -= R[3 * r + c] * camera->translation[r];
        v->direction[c] = mean[c] - camera_center;
    }
    const double *d = v->direction;
    v->distance = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    for (int c = 0; c < 3; c++) v->direction[c] /= v->distance;
    reference_sh_basis(v->direction, v->basis, v->basis_gradient);
    const int degree = sh_degree_used < gaussians->sh_degree ? sh_degree_used : gaussians->sh_degree;
    v->coefficients = (degree + 1) * (degree + 1);
}

static const double *sh_of(const reference_gaussians *gaussians, int64_t i) {
    return gaussians->sh + 3 * i * (gaussians->sh_degree + 1) * (gaussians->sh_degree + 1);
}

static double opacity_of(const reference_gaussians *gaussians, int64_t i) {
    return 1 / (1 + exp(-gaussians->opacity_logit[i]));
}

static double determinant_of(const double m[2][2]) {
    return m[0][0] * m[1][1] - m[0][1] * m[1][0];
}

void reference_project(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                       const reference_camera *camera, const reference_splat_decisions *held,
                       reference_splat *splat) {
    view v;
    look(gaussians, i, sh_degree_used, camera, held, &v);
    *splat = (reference_splat){
        .mean = {v.mean2d[0], v.mean2d[1]}, .depth = v.depth, .opacity = opacity_of(gaussians, i)};

    double covariance[2][2];
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) covariance[k][l] = v.sharp[k][l] + (k == l ? 0.3 : 0);
    splat->covariance[0] = covariance[0][0];
    splat->covariance[1] = covariance[0][1];
    splat->covariance[2] = covariance[1][1];
    const double determinant = determinant_of((const double(*)[2])covariance);
    if (gaussians->antialias)
        splat->opacity *= sqrt(determinant_of((const double(*)[2])v.sharp) / determinant);

    const double *sh = sh_of(gaussians, i);
    splat->color_margin = INFINITY;
    int finite = isfinite(splat->mean[0]) && isfinite(splat->mean[1]) && isfinite(splat->opacity) &&
                 isfinite(covariance[0][0]) && isfinite(covariance[0][1]) && isfinite(covariance[1][1]);
    for (int channel = 0; channel < 3; channel++) {
        double color = 0.5;
        for (int k = 0; k < v.coefficients; k++) color += v.basis[k] * sh[3 * k + channel];
        const double *given = gaussians->color;
        if (given) color = given[3 * i + channel];
        finite = finite && isfinite(color);
        if (!given) splat->color_margin = fmin(splat->color_margin, fabs(color));
        const int positive = given || (held ? held->color_positive[channel] : color > 0);
        splat->decisions.color_positive[channel] = (signed char)positive;
        splat->color[channel] = positive ? color : 0;
    }
    splat->near_margin = v.near_margin;
    splat->opacity_margin = fabs(255 * splat->opacity - 1);
    splat->ratio_margin = v.ratio_margin;
    for (int k = 0; k < 2; k++) splat->decisions.ratio_clamped[k] = (signed char)v.clamped[k];
    const int visible =
        finite && v.in_front && determinant > 0 && covariance[0][0] > 0 && splat->opacity >= 1.0 / 255;
    splat->decisions.visible = held ? held->visible : (signed char)visible;
}

// C = A A^T with the axes A = Q S.
static void axes_adjoint(const view *v, const double d_covariance[3][3], double scale_gradient[3],
                         double quaternion_gradient[4]) {
    double d_rotation[3][3];
    for (int j = 0; j < 3; j++)
        for (int r = 0; r < 3; r++) {
            double d_axis = 0;
            for (int c = 0; c < 3; c++) d_axis += 2 * d_covariance[r][c] * v->axes[c][j];
            scale_gradient[j] += d_axis * v->axes[r][j];
            d_rotation[r][j] = d_axis * v->scale[j];
        }
    const double w = v->unit[0], x = v->unit[1], y = v->unit[2], z = v->unit[3];
    const double(*B)[3] = (const double(*)[3])d_rotation;
    const double d_unit[4] = {
        2 * (x * (B[2][1] - B[1][2]) + y * (B[0][2] - B[2][0]) + z * (B[1][0] - B[0][1])),
        2 * (y * (B[0][1] + B[1][0]) + z * (B[0][2] + B[2][0]) + w * (B[2][1] - B[1][2])) -
            4 * x * (B[1][1] + B[2][2]),
        2 * (x * (B[0][1] + B[1][0]) + z * (B[1][2] + B[2][1]) + w * (B[0][2] - B[2][0])) -
            4 * y * (B[0][0] + B[2][2]),
        2 * (x * (B[0][2] + B[2][0]) + y * (B[1][2] + B[2][1]) + w * (B[1][0] - B[0][1])) -
            4 * z * (B[0][0] + B[1][1]),
    };
    double along = 0;
    for (int k = 0; k < 4; k++) along += v->unit[k] * d_unit[k];
    for (int k = 0; k < 4; k++) quaternion_gradient[k] = (d_unit[k] - v->unit[k] * along) / v->norm;
}

// From the gradients by J and by the 2D mean to that by the point in the camera's frame.
static void point_adjoint(const reference_camera *camera, const view *v, const double d_jacobian[2][3],
                          const double d_mean[2], double d_point[3]) {
    const double focal[2] = {camera->fx, camera->fy};
    const double depth = v->point[2];
    for (int k = 0; camera->model != GS_PINHOLE && k < 2; k++)
        for (int i = 0; i < 3; i++) {
            d_point[i] += v->jacobian[k][i] * d_mean[k];
            for (int r = 0; r < 3; r++) d_point[i] += v->second[k][r][i] * d_jacobian[k][r];
        }
    for (int k = 0; camera->model == GS_PINHOLE && k < 2; k++) {
        const double d_diagonal = d_jacobian[k][k], d_last = d_jacobian[k][2]; // f / z and -f ratio / z
        d_point[2] += (d_last * v->ratio[k] - d_diagonal) * focal[k] / (depth * depth);
        if (v->clamped[k] == 0) {
            const double d_ratio = -d_last * focal[k] / depth;
            d_point[k] += d_ratio / depth;
            d_point[2] -= d_ratio * v->point[k] / (depth * depth);
        }
        d_point[k] += d_mean[k] * focal[k] / depth;
        d_point[2] -= d_mean[k] * focal[k] * v->point[k] / (depth * depth);
    }
}

void reference_project_backward(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                                const reference_camera *camera, const reference_splat_decisions *decisions,
                                const reference_splat_gradient *splat_gradient,
                                const reference_gaussians *gradients) {
    double *mean_gradient = gradients->mean + 3 * i, *scale_gradient = gradients->log_scale + 3 * i;
    double *quaternion_gradient = gradients->quaternion + 4 * i;
    const int stored = 3 * (gradients->sh_degree + 1) * (gradients->sh_degree + 1);
    double *sh_gradient = gradients->sh + stored * i;
    memset(mean_gradient, 0, 3 * sizeof(double));
    memset(scale_gradient, 0, 3 * sizeof(double));
    memset(quaternion_gradient, 0, 4 * sizeof(double));
    memset(sh_gradient, 0, (size_t)stored * sizeof(double));
    if (gaussians->color) memset(gradients->color + 3 * i, 0, 3 * sizeof(double));
    if (gaussians->covariance) memset(gradients->covariance + 6 * i, 0, 6 * sizeof(double));
    gradients->opacity_logit[i] = 0;
    if (!decisions->visible) return;

    view v;
    look(gaussians, i, sh_degree_used, camera, decisions, &v);
    gradients->opacity_logit[i] = (1 - opacity_of(gaussians, i)) * splat_gradient->log_opacity;

    // 2D covariance = P C P^T + 0.3 I with P = J R. With the symmetric gradient G by it, the gradient by C is
    // P^T G P and the gradient by P is 2 G P C.
    const double *d_abc = splat_gradient->covariance;
    double G[2][2] = {{d_abc[0], d_abc[1] / 2}, {d_abc[1] / 2, d_abc[2]}};
    if (gaussians->antialias) {
        // The gradient of log sqrt(determinant) is half the inverse.
        const double(*S)[2] = (const double(*)[2])v.sharp;
        const double B[2][2] = {{S[0][0] + 0.3, S[0][1]}, {S[1][0], S[1][1] + 0.3}};
        const double sharp = splat_gradient->log_opacity / 2 / determinant_of(S);
        const double blurred = splat_gradient->log_opacity / 2 / determinant_of(B);
        G[0][0] += sharp * S[1][1] - blurred * B[1][1];
        G[0][1] -= sharp * S[0][1] - blurred * B[0][1];
        G[1][0] -= sharp * S[1][0] - blurred * B[1][0];
        G[1][1] += sharp * S[0][0] - blurred * B[0][0];
    }
    double d_screen[2][3], d_covariance[3][3];
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            d_screen[k][c] = 0;
            for (int l = 0; l < 2; l++)
                for (int r = 0; r < 3; r++)
                    d_screen[k][c] += 2 * G[k][l] * v.screen[l][r] * v.covariance[r][c];
        }
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            d_covariance[r][c] = 0;
            for (int k = 0; k < 2; k++)
                for (int l = 0; l < 2; l++) d_covariance[r][c] += v.screen[k][r] * G[k][l] * v.screen[l][c];
        }

    for (int k = 0; gaussians->covariance && k < 6; k++) {
        const int r = upper_row[k], c = upper_column[k];
        gradients->covariance[6 * i + k] = d_covariance[r][c] + (r == c ? 0 : d_covariance[c][r]);
    }
    if (!gaussians->covariance)
        axes_adjoint(&v, (const double(*)[3])d_covariance, scale_gradient, quaternion_gradient);

    // P = J R, J and the 2D mean are functions of the point in the camera's frame.
    double d_jacobian[2][3], d_point[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++) // of z or of the distance
        d_point[k] = splat_gradient->depth * (camera->model == GS_FISHEYE ? v.point[k] / v.depth : k == 2);
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < 3; r++) {
            d_jacobian[k][r] = 0;
            for (int c = 0; c < 3; c++) d_jacobian[k][r] += d_screen[k][c] * camera->rotation[3 * r + c];
        }
    point_adjoint(camera, &v, (const double(*)[3])d_jacobian, splat_gradient->mean, d_point);
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < 3; r++) mean_gradient[c] += camera->rotation[3 * r + c] * d_point[r];

    // The colour: gradients by its coefficients and by the direction of view, or by the given colour.
    const double *sh = sh_of(gaussians, i);
    double d_direction[3] = {0, 0, 0};
    for (int channel = 0; channel < 3; channel++) {
        const double d_color = splat_gradient->color[channel];
        if (gaussians->color) {
            gradients->color[3 * i + channel] = d_color;
            continue;
        }
        if (!decisions->color_positive[channel]) continue;
        for (int k = 0; k < v.coefficients; k++) {
            sh_gradient[3 * k + channel] = v.basis[k] * d_color;
            for (int c = 0; c < 3; c++)
                d_direction[c] += d_color * sh[3 * k + channel] * v.basis_gradient[k][c];
        }
    }
    double along = 0;
    for (int c = 0; c < 3; c++) along += v.direction[c] * d_direction[c];
    for (int c = 0; c < 3; c++) mean_gradient[c] += (d_direction[c] - v.direction[c] * along) / v.distance;
}

// A change of a camera: of its matrix, focal lengths and principal point.
typedef struct camera_change {
    double rotation[9], translation[3], focal[2], center[2];
} camera_change;

// The trace of A^-1 B, the derivative of log det A along B.
static double log_determinant_change(const double a[2][2], const double b[2][2]) {
    return (a[1][1] * b[0][0] - a[0][1] * b[1][0] - a[1][0] * b[0][1] + a[0][0] * b[1][1]) /
           determinant_of(a);
}

// The derivative of the objective along a change of the camera, by the derivatives of the splat's values.
static double along_camera_change(const reference_gaussians *gaussians, int64_t i, const view *v,
                                  const reference_camera *camera, const reference_splat_decisions *decisions,
                                  const reference_splat_gradient *d_splat, const camera_change *change) {
    const double *mean = gaussians->mean + 3 * i, *R = camera->rotation, z = v->point[2];
    const double focal[2] = {camera->fx, camera->fy};
    double point[3], jacobian[2][3] = {{0}}, screen[2][3], sharp[2][2], sum = 0;
    for (int r = 0; r < 3; r++) {
        point[r] = change->translation[r];
        for (int c = 0; c < 3; c++) point[r] += change->rotation[3 * r + c] * mean[c];
    }
    const int pinhole = camera->model == GS_PINHOLE, fisheye = camera->model == GS_FISHEYE;
    for (int k = 0; k < 2 && pinhole; k++) {
        const double slope = v->point[k] / z, slope_change = (point[k] - slope * point[2]) / z;
        // A bound is (a constant - center) / focal.
        const double ratio_change =
            v->clamped[k] ? -(change->center[k] + v->ratio[k] * change->focal[k]) / focal[k] : slope_change;
        jacobian[k][k] = (change->focal[k] - focal[k] * point[2] / z) / z;
        jacobian[k][2] = -v->ratio[k] * jacobian[k][k] - focal[k] * ratio_change / z;
        sum += d_splat->mean[k] * (change->focal[k] * slope + focal[k] * slope_change + change->center[k]);
    }
    const double center[2] = {camera->cx, camera->cy};
    for (int k = 0; k < 2 && !pinhole; k++) {
        double mean2d = change->focal[k] * (v->mean2d[k] - center[k]) / focal[k] + change->center[k];
        for (int r = 0; r < 3; r++) {
            mean2d += v->jacobian[k][r] * point[r];
            jacobian[k][r] = change->focal[k] * v->jacobian[k][r] / focal[k];
            for (int c = 0; c < 3; c++) jacobian[k][r] += v->second[k][r][c] * point[c];
        }
        sum += d_splat->mean[k] * mean2d;
    }
    for (int r = 0; r < 3; r++)
        sum += d_splat->depth * point[r] * (fisheye ? v->point[r] / v->depth : r == 2);
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            screen[k][c] = 0;
            for (int r = 0; r < 3; r++)
                screen[k][c] +=
                    jacobian[k][r] * R[3 * r + c] + v->jacobian[k][r] * change->rotation[3 * r + c];
        }
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) {
            sharp[k][l] = 0;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++)
                    sharp[k][l] += (screen[k][r] * v->screen[l][c] + v->screen[k][r] * screen[l][c]) *
                                   v->covariance[r][c];
        }
    sum += d_splat->covariance[0] * sharp[0][0] + d_splat->covariance[1] * sharp[0][1] +
           d_splat->covariance[2] * sharp[1][1];
    if (gaussians->antialias) {
        const double blurred[2][2] = {{v->sharp[0][0] + 0.3, v->sharp[0][1]},
                                      {v->sharp[1][0], v->sharp[1][1] + 0.3}};
        const double(*to)[2] = (const double(*)[2])sharp;
        sum +=
            d_splat->log_opacity / 2 *
            (log_determinant_change((const double(*)[2])v->sharp, to) - log_determinant_change(blurred, to));
    }
    if (gaussians->color) return sum;

    // Minus the centre, R^T t, is added to the mean.
    double toward[3], along = 0;
    for (int c = 0; c < 3; c++) {
        toward[c] = 0;
        for (int r = 0; r < 3; r++)
            toward[c] +=
                change->rotation[3 * r + c] * camera->translation[r] + R[3 * r + c] * change->translation[r];
        along += toward[c] * v->direction[c];
    }
    const double *sh = sh_of(gaussians, i);
    for (int k = 0; k < v->coefficients; k++)
        for (int c = 0; c < 3; c++) {
            const double turn = (toward[c] - v->direction[c] * along) / v->distance;
            for (int channel = 0; channel < 3; channel++)
                if (decisions->color_positive[channel])
                    sum += d_splat->color[channel] * sh[3 * k + channel] * v->basis_gradient[k][c] * turn;
        }
    return sum;
}

void reference_project_by_camera(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                                 const reference_camera *camera, const reference_splat_decisions *decisions,
                                 const reference_splat_gradient *splat_gradient,
                                 reference_camera_gradient *sum) {
    if (!decisions->visible) return;
    view v;
    look(gaussians, i, sh_degree_used, camera, decisions, &v);
    const double *R = camera->rotation, *t = camera->translation;
    for (int k = 0; k < 12 + 6 + 4; k++) {
        camera_change change = {.focal = {0, 0}};
        double *to;
        if (k < 12) {
            to = &sum->matrix[k];
            if (k % 4 < 3)
                change.rotation[3 * (k / 4) + k % 4] = 1;
            else
                change.translation[k / 4] = 1;
        } else if (k < 15) { // a turn about axis k takes axis `next` towards axis `last`
            to = &sum->se3_grad[k - 12];
            const int next = (k - 12 + 1) % 3, last = (k - 12 + 2) % 3;
            for (int c = 0; c < 3; c++) {
                change.rotation[3 * last + c] = R[3 * next + c];
                change.rotation[3 * next + c] = -R[3 * last + c];
            }
            change.translation[last] = t[next];
            change.translation[next] = -t[last];
        } else if (k < 18) {
            to = &sum->se3_grad[k - 12];
            change.translation[k - 15] = 1;
        } else {
            to = &sum->intrinsics[k - 18];
            *(k < 20 ? &change.focal[k - 18] : &change.center[k - 20]) = 1;
        }
        *to += along_camera_change(gaussians, i, &v, camera, decisions, splat_gradient, &change);
    }
}
