// SPDX-License-Identifier: MIT
// A Gaussian as a camera sees it, by the 3D covariance (Zwicker et al. 2002). There is no adjoint to be derived by hand:
// the same code, over numbers that carry their derivatives, is one.
#include "reference.h"

#include <algorithm>
#include <cmath>

namespace {

using std::atan2, std::exp, std::fabs, std::fmin, std::isfinite, std::log, std::sqrt;

// ---- numbers with derivatives ----

// What a splat's values are derived by, in the order of `inputs`.
enum { OPACITY_LOGIT = 10, COVARIANCE = 11, ROTATION = 17, TRANSLATION = 26, FOCAL = 29, VARIABLES = 33 };

struct dual {
    double value, by[VARIABLES] = {};
    dual(double constant = 0) : value(constant) {}
    dual(double at, int variable) : value(at) { by[variable] = 1; }
};

// A function of a and b with these partial derivatives.
dual chain(double value, const dual &a, double by_a, const dual &b, double by_b) {
    dual out = value;
    for (int v = 0; v < VARIABLES; v++) out.by[v] = by_a * a.by[v] + by_b * b.by[v];
    return out;
}
dual chain(double value, const dual &a, double by_a) {
    dual out = value;
    for (int v = 0; v < VARIABLES; v++) out.by[v] = by_a * a.by[v];
    return out;
}
dual operator+(const dual &a, const dual &b) {
    return chain(a.value + b.value, a, 1, b, 1);
}
dual operator-(const dual &a, const dual &b) {
    return chain(a.value - b.value, a, 1, b, -1);
}
dual operator-(const dual &a) {
    return chain(-a.value, a, -1);
}
dual operator*(const dual &a, const dual &b) {
    return chain(a.value * b.value, a, b.value, b, a.value);
}
dual operator/(const dual &a, const dual &b) {
    return chain(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
}
dual &operator+=(dual &a, const dual &b) {
    return a = a + b;
}
dual exp(const dual &a) {
    return chain(exp(a.value), a, exp(a.value));
}
dual log(const dual &a) {
    return chain(log(a.value), a, 1 / a.value);
}
dual sqrt(const dual &a) {
    return chain(sqrt(a.value), a, 0.5 / sqrt(a.value));
}
dual atan2(const dual &y, const dual &x) {
    const double square = x.value * x.value + y.value * y.value;
    return chain(atan2(y.value, x.value), y, x.value / square, x, -y.value / square);
}

double value_of(double x) {
    return x;
}
double value_of(const dual &x) {
    return x.value;
}
void set(double &to, double at, int) {
    to = at;
}
void set(dual &to, double at, int variable) {
    to = dual(at, variable);
}

// ---- a Gaussian and a camera ----

template <typename T>
struct inputs {
    T mean[3], log_scale[3], quaternion[4], opacity_logit, covariance[6];
    T rotation[9], translation[3], focal[2], center[2];
};

template <typename T>
inputs<T> inputs_of(const reference_gaussians &g, int64_t i, const reference_camera &camera) {
    const double focal[2] = {camera.fx, camera.fy}, center[2] = {camera.cx, camera.cy};
    inputs<T> in;
    int variable = 0;
    const auto take = [&variable](T *to, const double *from, int values) {
        for (int k = 0; k < values; k++, variable++) set(to[k], from ? from[k] : 0, variable);
    };
    take(in.mean, g.mean + 3 * i, 3);
    take(in.log_scale, g.log_scale + 3 * i, 3);
    take(in.quaternion, g.quaternion + 4 * i, 4);
    take(&in.opacity_logit, g.opacity_logit + i, 1);
    take(in.covariance, g.covariance ? g.covariance + 6 * i : nullptr, 6);
    take(in.rotation, camera.rotation, 9);
    take(in.translation, camera.translation, 3);
    take(in.focal, focal, 2);
    take(in.center, center, 2);
    return in;
}

// Q S S Q^T in the world's frame, or the one that is given.
template <typename T>
void world_covariance(const reference_gaussians &g, const inputs<T> &in, T out[3][3]) {
    static const int place[3][3] = {{0, 1, 2}, {1, 3, 4}, {2, 4, 5}};
    T unit[4], norm = 0;
    for (const T &q : in.quaternion) norm += q * q;
    for (int k = 0; k < 4; k++) unit[k] = in.quaternion[k] / sqrt(norm);
    const T w = unit[0], x = unit[1], y = unit[2], z = unit[3];
    const T Q[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                       {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                       {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    const double modifier = g.scale_modifier != 0 ? g.scale_modifier : 1;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            out[r][c] = g.covariance ? in.covariance[place[r][c]] : T(0);
            for (int j = 0; j < 3 && !g.covariance; j++) {
                const T scale = modifier * exp(in.log_scale[j]);
                out[r][c] += (Q[r][j] * scale) * (Q[c][j] * scale);
            }
        }
}

// A term of a basis function of the harmonics: basis[k] += factor x^power[0] y^power[1] z^power[2].
const struct {
    int k;
    double factor;
    int power[3];
} sh_terms[] = {
    {0, 0.28209479177387814, {0, 0, 0}},      {1, -0.4886025119029199, {0, 1, 0}},
    {2, 0.4886025119029199, {0, 0, 1}},       {3, -0.4886025119029199, {1, 0, 0}},
    {4, 1.0925484305920792, {1, 1, 0}},       {5, -1.0925484305920792, {0, 1, 1}},
    {6, 2 * 0.31539156525252005, {0, 0, 2}},  {6, -0.31539156525252005, {2, 0, 0}},
    {6, -0.31539156525252005, {0, 2, 0}},     {7, -1.0925484305920792, {1, 0, 1}},
    {8, 0.5462742152960396, {2, 0, 0}},       {8, -0.5462742152960396, {0, 2, 0}},
    {9, 3 * -0.5900435899266435, {2, 1, 0}},  {9, 0.5900435899266435, {0, 3, 0}},
    {10, 2.890611442640554, {1, 1, 1}},       {11, 4 * -0.4570457994644658, {0, 1, 2}},
    {11, 0.4570457994644658, {2, 1, 0}},      {11, 0.4570457994644658, {0, 3, 0}},
    {12, 2 * 0.3731763325901154, {0, 0, 3}},  {12, -3 * 0.3731763325901154, {2, 0, 1}},
    {12, -3 * 0.3731763325901154, {0, 2, 1}}, {13, 4 * -0.4570457994644658, {1, 0, 2}},
    {13, 0.4570457994644658, {3, 0, 0}},      {13, 0.4570457994644658, {1, 2, 0}},
    {14, 1.445305721320277, {2, 0, 1}},       {14, -1.445305721320277, {0, 2, 1}},
    {15, -0.5900435899266435, {3, 0, 0}},     {15, 3 * 0.5900435899266435, {1, 2, 0}},
};

template <typename T>
void sh_basis(const T direction[3], T basis[16]) {
    std::fill_n(basis, 16, T(0));
    for (const auto &term : sh_terms) {
        T product = term.factor;
        for (int i = 0; i < 3; i++)
            for (int n = 0; n < term.power[i]; n++) product = product * direction[i];
        basis[term.k] += product;
    }
}

// ---- what a camera sees of a point in its frame ----

template <typename T>
struct sight {
    T mean[2], jacobian[2][3], depth; // pixels, and their derivatives by the point; z or the distance
    bool in_front;                    // neither before the near plane nor beyond the fisheye's limit
    int clamped[2] = {0, 0};          // as reference_splat_decisions.ratio_clamped
    double near_margin, ratio_margin = INFINITY;
};

template <typename T>
void see_by_pinhole(const reference_camera &camera, const inputs<T> &in,
                    const reference_splat_decisions *held, const T point[3], sight<T> *s) {
    const double size[2] = {double(camera.width), double(camera.height)};
    for (int k = 0; k < 2; k++) {
        const T low = -(in.center[k] + 0.15 * size[k]) / in.focal[k],
                high = (1.15 * size[k] - in.center[k]) / in.focal[k], ratio = point[k] / point[2];
        const double at = value_of(ratio), least = value_of(low), most = value_of(high);
        s->mean[k] = in.focal[k] * point[k] / point[2] + in.center[k];
        s->ratio_margin = fmin(s->ratio_margin, fmin(fabs(at - least), fabs(at - most)) / (most - least));
        s->clamped[k] = held ? held->ratio_clamped[k] : at < least ? -1 : at > most ? 1 : 0;
        const T used = s->clamped[k] < 0 ? low : s->clamped[k] > 0 ? high : ratio;
        s->jacobian[k][k] = in.focal[k] / point[2];
        s->jacobian[k][1 - k] = 0;
        s->jacobian[k][2] = -(in.focal[k] * used / point[2]);
    }
}

// The angle up to which a fisheye sees.
double angle_limit(const double k[4]) {
    const double most = 160 * acos(-1) / 180;
    const int steps = 4000;
    double reached = 0;
    for (int i = 1; i <= steps; i++) {
        const double angle = most * i / steps, w = angle * angle;
        if (!(1 + w * (3 * k[0] + w * (5 * k[1] + w * (7 * k[2] + w * 9 * k[3]))) > 0)) break;
        reached = angle;
    }
    return reached;
}

// s = D / rho scales (x, y) to the image, with rho = |(x, y)|. Not for a point on the axis.
template <typename T>
void see_by_fisheye(const reference_camera &camera, const inputs<T> &in, const T point[3], sight<T> *s) {
    const double *const k = camera.distortion;
    const T rho = sqrt(point[0] * point[0] + point[1] * point[1]), square = rho * rho + point[2] * point[2];
    const T t = atan2(rho, point[2]), w = t * t;
    const T D = t * (1 + w * (k[0] + w * (k[1] + w * (k[2] + w * k[3]))));
    const T slope = 1 + w * (3 * k[0] + w * (5 * k[1] + w * (7 * k[2] + w * (9 * k[3]))));
    const T scale = D / rho, by_rho = (slope * point[2] / square - scale) / rho;
    const T first[3] = {by_rho * point[0] / rho, by_rho * point[1] / rho, -(slope / square)}; // of the scale
    s->depth = sqrt(square);
    s->in_front = value_of(s->depth) > camera.near_plane && value_of(t) <= angle_limit(k);
    s->near_margin =
        fmin(fabs(value_of(s->depth) / camera.near_plane - 1), fabs(value_of(t) / angle_limit(k) - 1));
    for (int row = 0; row < 2; row++) {
        s->mean[row] = in.focal[row] * scale * point[row] + in.center[row];
        for (int i = 0; i < 3; i++)
            s->jacobian[row][i] = in.focal[row] * ((row == i ? scale : T(0)) + point[row] * first[i]);
    }
}

template <typename T>
void see_in_parallel(const inputs<T> &in, const T point[3], sight<T> *s) {
    for (int k = 0; k < 2; k++) {
        s->mean[k] = in.focal[k] * point[k] + in.center[k];
        for (int i = 0; i < 3; i++) s->jacobian[k][i] = i == k ? in.focal[k] : T(0);
    }
}

// ---- a splat ----

template <typename T>
struct splat_values {
    sight<T> seen;
    T covariance[3], opacity, color[3]; // color: before it is cut at 0
    T basis[16];
    int coefficients; // in use
};

template <typename T>
T determinant_of(const T m[2][2]) {
    return m[0][0] * m[1][1] - m[0][1] * m[1][0];
}

template <typename T>
splat_values<T> look(const reference_gaussians &g, int64_t i, int sh_degree_used,
                     const reference_camera &camera, const reference_splat_decisions *held) {
    const inputs<T> in = inputs_of<T>(g, i, camera);
    const T *const R = in.rotation, *const t = in.translation;
    splat_values<T> out;
    T point[3], world[3][3], screen[2][3], sharp[2][2], blurred[2][2];
    for (int r = 0; r < 3; r++)
        point[r] = R[3 * r] * in.mean[0] + R[3 * r + 1] * in.mean[1] + R[3 * r + 2] * in.mean[2] + t[r];
    sight<T> &seen = out.seen;
    seen.depth = point[2];
    seen.in_front = value_of(point[2]) > camera.near_plane;
    seen.near_margin = fabs(value_of(point[2]) / camera.near_plane - 1);
    if (camera.model == GS_FISHEYE)
        see_by_fisheye(camera, in, point, &seen);
    else if (camera.model == GS_ORTHO)
        see_in_parallel(in, point, &seen);
    else
        see_by_pinhole(camera, in, held, point, &seen);

    world_covariance(g, in, world);
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            screen[k][c] = 0;
            for (int r = 0; r < 3; r++) screen[k][c] += seen.jacobian[k][r] * R[3 * r + c];
        }
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) {
            sharp[k][l] = 0;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++) sharp[k][l] += screen[k][r] * world[r][c] * screen[l][c];
            blurred[k][l] = sharp[k][l] + (k == l ? 0.3 : 0);
        }
    out.covariance[0] = blurred[0][0], out.covariance[1] = blurred[0][1], out.covariance[2] = blurred[1][1];
    out.opacity = 1 / (1 + exp(-in.opacity_logit));
    if (g.antialias) out.opacity = out.opacity * sqrt(determinant_of(sharp) / determinant_of(blurred));

    const int degree = std::min(sh_degree_used, g.sh_degree);
    out.coefficients = (degree + 1) * (degree + 1);
    T direction[3], square = 0; // from the camera's centre, -R^T t, to the mean
    for (int c = 0; c < 3; c++) {
        direction[c] = in.mean[c] + (R[c] * t[0] + R[3 + c] * t[1] + R[6 + c] * t[2]);
        square += direction[c] * direction[c];
    }
    for (T &d : direction) d = d / sqrt(square);
    sh_basis(direction, out.basis);
    const double *const sh = g.sh + 3 * i * (g.sh_degree + 1) * (g.sh_degree + 1);
    for (int channel = 0; channel < 3; channel++) {
        out.color[channel] = g.color ? g.color[3 * i + channel] : 0.5;
        for (int k = 0; k < out.coefficients && !g.color; k++)
            out.color[channel] += out.basis[k] * sh[3 * k + channel];
    }
    return out;
}

// What the gradient by the splat's values says along each variable.
dual objective(const splat_values<dual> &v, const reference_splat_decisions &decisions,
               const reference_splat_gradient &d) {
    dual sum = log(v.opacity) * d.log_opacity + v.seen.depth * d.depth;
    for (int k = 0; k < 2; k++) sum += v.seen.mean[k] * d.mean[k];
    for (int k = 0; k < 3; k++) sum += v.covariance[k] * d.covariance[k];
    for (int c = 0; c < 3; c++)
        if (decisions.color_positive[c]) sum += v.color[c] * d.color[c];
    return sum;
}

} // namespace

void reference_covariance(const reference_gaussians *gaussians, int64_t i, double upper[6]) {
    double out[3][3];
    world_covariance(*gaussians, inputs_of<double>(*gaussians, i, reference_camera{}), out);
    for (int r = 0; r < 3; r++)
        for (int c = r; c < 3; c++) *upper++ = out[r][c];
}

void reference_sh_basis(const double direction[3], double basis[16]) {
    sh_basis(direction, basis);
}

void reference_project(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                       const reference_camera *camera, const reference_splat_decisions *held,
                       reference_splat *splat) {
    const splat_values<double> v = look<double>(*gaussians, i, sh_degree_used, *camera, held);
    *splat = {};
    std::copy_n(v.seen.mean, 2, splat->mean);
    std::copy_n(v.covariance, 3, splat->covariance);
    splat->depth = v.seen.depth, splat->opacity = v.opacity;
    splat->near_margin = v.seen.near_margin, splat->ratio_margin = v.seen.ratio_margin;
    splat->opacity_margin = fabs(255 * v.opacity - 1);
    splat->color_margin = INFINITY;
    const double *const c = v.covariance;
    bool finite = isfinite(v.seen.mean[0] + v.seen.mean[1]) && isfinite(v.opacity) && isfinite(c[0]) &&
                  isfinite(c[1]) && isfinite(c[2]);
    for (int channel = 0; channel < 3; channel++) {
        const double color = v.color[channel];
        finite = finite && isfinite(color);
        if (!gaussians->color) splat->color_margin = fmin(splat->color_margin, fabs(color));
        const bool positive = gaussians->color || (held ? held->color_positive[channel] : color > 0);
        splat->decisions.color_positive[channel] = positive;
        splat->color[channel] = positive ? color : 0;
    }
    for (int k = 0; k < 2; k++)
        splat->decisions.ratio_clamped[k] = static_cast<signed char>(v.seen.clamped[k]);
    const bool visible =
        finite && v.seen.in_front && c[0] * c[2] - c[1] * c[1] > 0 && c[0] > 0 && v.opacity >= 1.0 / 255;
    splat->decisions.visible = held ? held->visible : visible;
}

void reference_project_backward(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                                const reference_camera *camera, const reference_splat_decisions *decisions,
                                const reference_splat_gradient *splat_gradient,
                                const reference_gaussians *gradients) {
    const int64_t stored = 3 * (gradients->sh_degree + 1) * (gradients->sh_degree + 1);
    double *const sh_gradient = gradients->sh + stored * i;
    splat_values<dual> v;
    dual sum; // 0 if it is culled
    if (decisions->visible) {
        v = look<dual>(*gaussians, i, sh_degree_used, *camera, decisions);
        sum = objective(v, *decisions, *splat_gradient);
    }
    const double *const by = sum.by;
    std::copy_n(by, 3, gradients->mean + 3 * i);
    std::copy_n(by + 3, 3, gradients->log_scale + 3 * i);
    std::copy_n(by + 6, 4, gradients->quaternion + 4 * i);
    gradients->opacity_logit[i] = by[OPACITY_LOGIT];
    if (gaussians->covariance) std::copy_n(by + COVARIANCE, 6, gradients->covariance + 6 * i);
    std::fill_n(sh_gradient, stored, 0.0);
    for (int c = 0; c < 3; c++) {
        const double d_color = decisions->visible ? splat_gradient->color[c] : 0;
        if (gaussians->color)
            gradients->color[3 * i + c] = d_color;
        else if (decisions->visible && decisions->color_positive[c])
            for (int k = 0; k < v.coefficients; k++) sh_gradient[3 * k + c] = v.basis[k].value * d_color;
    }
}

void reference_project_by_camera(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                                 const reference_camera *camera, const reference_splat_decisions *decisions,
                                 const reference_splat_gradient *splat_gradient,
                                 reference_camera_gradient *sum) {
    if (!decisions->visible) return;
    const dual d =
        objective(look<dual>(*gaussians, i, sh_degree_used, *camera, decisions), *decisions, *splat_gradient);
    const double *const R = camera->rotation, *const t = camera->translation;
    const double *const by_R = d.by + ROTATION, *const by_t = d.by + TRANSLATION;
    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 3; c++) sum->matrix[4 * r + c] += by_R[3 * r + c];
        sum->matrix[4 * r + 3] += by_t[r];
        sum->se3_grad[3 + r] += by_t[r];
        const int next = (r + 1) % 3, last = (r + 2) % 3; // a turn about axis r takes `next` towards `last`
        sum->se3_grad[r] += by_t[last] * t[next] - by_t[next] * t[last];
        for (int c = 0; c < 3; c++)
            sum->se3_grad[r] += by_R[3 * last + c] * R[3 * next + c] - by_R[3 * next + c] * R[3 * last + c];
    }
    for (int k = 0; k < 4; k++) sum->intrinsics[k] += d.by[FOCAL + k];
}
