// SPDX-License-Identifier: MIT
#include "camera.h"
#include "gpu/pinhole.h"
#include "gpu/vector.h"
#include "random.h"
#include <math.h>
#include <string.h>

gs_camera camera_with_view_angle(int width, int height, double angle) {
    float focal = (float)(height / 2.0 / tan(angle / 2));
    return (gs_camera){.width = width,
                       .height = height,
                       .fx = focal,
                       .fy = focal,
                       .cx = (float)width / 2,
                       .cy = (float)height / 2,
                       .rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                       .near_plane = 0.2f};
}

void camera_inside(const gs_camera *camera, const double point[3], double inside[3]) {
    for (int row = 0; row < 3; row++) {
        inside[row] = camera->translation[row];
        for (int i = 0; i < 3; i++) inside[row] += camera->rotation[3 * row + i] * point[i];
    }
}

double camera_depth(const gs_camera *camera, const double point[3]) {
    double p[3];
    camera_inside(camera, point, p);
    return lens_of(camera)->depth_of(p);
}

// Where the camera sees a point of camera space, as camera_pixel.
static bool camera_project(const gs_camera *camera, const double p[3], double pixel[2]) {
    const camera_lens *const lens = lens_of(camera);
    double uv[2];
    if (!(lens->depth_of(p) > camera->near_plane && lens->uv_of(camera, p, uv))) return false;
    pixel[0] = camera->fx * uv[0] + camera->cx;
    pixel[1] = camera->fy * uv[1] + camera->cy;
    return pixel[0] >= 0 && pixel[0] < camera->width && pixel[1] >= 0 && pixel[1] < camera->height;
}

bool camera_pixel(const gs_camera *camera, const double point[3], double pixel[2]) {
    double inside[3];
    camera_inside(camera, point, inside);
    return camera_project(camera, inside, pixel);
}

void camera_point_at(const gs_camera *camera, const double pixel[2], double depth, double point[3]) {
    const double uv[2] = {(pixel[0] - camera->cx) / camera->fx, (pixel[1] - camera->cy) / camera->fy};
    double inside[3];
    lens_of(camera)->point_at(camera, uv, depth, inside);
    for (int i = 0; i < 3; i++) {
        point[i] = 0;
        for (int row = 0; row < 3; row++)
            point[i] += camera->rotation[3 * row + i] * (inside[row] - camera->translation[row]);
    }
}

void camera_look_at(gs_camera *camera, const double eye[3], const double target[3], const double up[3]) {
    look_at(eye, target, up, camera->rotation, camera->translation);
}

double scene_extent(const target_view *views, size_t count) {
    double mean[3] = {0}, center[3], largest = 0;
    for (size_t i = 0; i < count; i++) {
        camera_center(&views[i].camera, center);
        for (int axis = 0; axis < 3; axis++) mean[axis] += center[axis] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        camera_center(&views[i].camera, center);
        for (int axis = 0; axis < 3; axis++) center[axis] -= mean[axis];
        largest = fmax(largest, sqrt(dot(center, center)));
    }
    return largest > 0 ? 1.1 * largest : 1;
}

void camera_focus(const target_view *views, size_t count, double focus[3]) {
    const double far = 5 * scene_extent(views, count), weakness = 1e-4;
    double a[9] = {0}, b[3] = {0}, cofactors[9];
    for (size_t k = 0; k < count; k++) {
        const float *forward = views[k].camera.rotation + 6;
        double center[3];
        camera_center(&views[k].camera, center);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) {
                const double across = (i == j) - (double)forward[i] * forward[j]; // projects the axis away
                a[3 * i + j] += across + weakness * (i == j);
                b[i] += across * center[j];
            }
            b[i] += weakness * (center[i] + far * forward[i]);
        }
    }
    const double determinant = determinant_and_cofactors(a, cofactors); // Cramer's rule; a is symmetric
    for (int i = 0; i < 3; i++) focus[i] = dot(cofactors + 3 * i, b) / determinant;
}

// ---- poses

static void multiply(const double a[9], const double b[9], double out[9]) {
    double product[9];
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            product[3 * r + c] = a[3 * r] * b[c] + a[3 * r + 1] * b[3 + c] + a[3 * r + 2] * b[6 + c];
    memcpy(out, product, sizeof product);
}

static void transform(const double a[9], const double x[3], double out[3]) {
    double product[3];
    for (int r = 0; r < 3; r++) product[r] = dot(a + 3 * r, x);
    memcpy(out, product, sizeof product);
}

static void transpose(const double a[9], double out[9]) {
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) out[3 * r + c] = a[3 * c + r];
}

pose pose_of(const gs_camera *camera) {
    pose p;
    for (int k = 0; k < 9; k++) p.rotation[k] = (double)camera->rotation[k];
    for (int k = 0; k < 3; k++) p.translation[k] = (double)camera->translation[k];
    nearest_rotation(p.rotation); // that of the camera is rounded to floats
    return p;
}

void pose_to_camera(const pose *from, gs_camera *camera) {
    for (int k = 0; k < 9; k++) camera->rotation[k] = (float)from->rotation[k];
    for (int k = 0; k < 3; k++) camera->translation[k] = (float)from->translation[k];
}

void pose_center(const pose *p, double center[3]) {
    const double *const r = p->rotation, *const t = p->translation;
    for (int k = 0; k < 3; k++) center[k] = -(r[k] * t[0] + r[3 + k] * t[1] + r[6 + k] * t[2]);
}

void rotation_about(const double axis[3], double angle, double out[9]) {
    const double x = axis[0], y = axis[1], z = axis[2], c = cos(angle), s = sin(angle), d = 1 - c;
    const double m[9] = {c + d * x * x,     d * x * y - s * z, d * x * z + s * y,
                         d * x * y + s * z, c + d * y * y,     d * y * z - s * x,
                         d * x * z - s * y, d * y * z + s * x, c + d * z * z};
    memcpy(out, m, sizeof m);
}

void pose_move(pose *p, const double motion[6]) {
    const double angle = sqrt(dot(motion, motion));
    if (angle > 0) {
        const double axis[3] = {motion[0] / angle, motion[1] / angle, motion[2] / angle};
        double turn[9];
        rotation_about(axis, angle, turn);
        multiply(turn, p->rotation, p->rotation);
        transform(turn, p->translation, p->translation);
    }
    for (int k = 0; k < 3; k++) p->translation[k] += motion[3 + k];
}

// ---- similarities

void similarity_apply(const similarity *s, pose *p) {
    double back[9], moved[3];
    transpose(s->rotation, back);
    multiply(p->rotation, back, p->rotation);
    transform(p->rotation, s->translation, moved);
    for (int k = 0; k < 3; k++) p->translation[k] = s->scale * p->translation[k] - moved[k];
}

similarity similarity_between(const pose *from, const pose *to, size_t count) {
    similarity s = {.scale = 1};
    double mean_from[3] = {0}, mean_to[3] = {0}, product = 0, square_from = 0, square_to = 0;
    for (size_t i = 0; i < count; i++) { // R_to = R_from G^T, so G = R_to^T R_from
        double back[9], turn[9], a[3], b[3];
        pose_center(&from[i], a);
        pose_center(&to[i], b);
        for (int k = 0; k < 3; k++) mean_from[k] += a[k] / (double)count, mean_to[k] += b[k] / (double)count;
        transpose(to[i].rotation, back);
        multiply(back, from[i].rotation, turn);
        for (int k = 0; k < 9; k++) s.rotation[k] += turn[k] / (double)count;
    }
    nearest_rotation(s.rotation);
    for (size_t i = 0; i < count; i++) {
        double a[3], b[3];
        pose_center(&from[i], a);
        pose_center(&to[i], b);
        for (int k = 0; k < 3; k++) a[k] -= mean_from[k], b[k] -= mean_to[k];
        transform(s.rotation, a, a);
        product += dot(a, b);
        square_from += dot(a, a);
        square_to += dot(b, b);
    }
    if (product > 0 && product > 1e-12 * square_to) s.scale = product / square_from;
    transform(s.rotation, mean_from, s.translation);
    for (int k = 0; k < 3; k++) s.translation[k] = mean_to[k] - s.scale * s.translation[k];
    return s;
}

pose_difference pose_difference_between(const pose *from, const pose *to, size_t count) {
    const similarity s = similarity_between(from, to, count);
    pose_difference d = {0};
    for (size_t i = 0; i < count; i++) {
        pose moved = from[i];
        similarity_apply(&s, &moved);
        double a[3], b[3], square = 0;
        pose_center(&moved, a);
        pose_center(&to[i], b);
        for (int k = 0; k < 9; k++) square += pow(moved.rotation[k] - to[i].rotation[k], 2);
        // By the sine of its half, which is exact for small angles.
        const double angle = 2 * asin(fmin(1, sqrt(square / 8))) * 57.29577951308232;
        for (int k = 0; k < 3; k++) a[k] -= b[k];
        const double distance = sqrt(dot(a, a));
        d.mean_degrees += angle / (double)count;
        d.mean_distance += distance / (double)count;
        d.largest_degrees = fmax(d.largest_degrees, angle);
        d.largest_distance = fmax(d.largest_distance, distance);
    }
    return d;
}

// ---- the metric of poses

enum { MOST_POINTS = 4096 };

static int at(int row, int column) { // of the lower triangle
    return row * (row + 1) / 2 + column;
}

// Adds weight J^T J. False if the camera does not see the point. A turn w moves it by w x inside. The derivative of the pixel
// by the point of camera space is by central differences, which serve every lens.
static bool add_point(const gs_camera *camera, const double inside[3], double weight,
                      double sum[POSE_METRIC_VALUES]) {
    const double step = 1e-4 * sqrt(dot(inside, inside));
    double by[2][3];
    for (int k = 0; k < 3; k++) {
        double before[3] = {inside[0], inside[1], inside[2]}, after[3] = {inside[0], inside[1], inside[2]};
        double from[2], to[2];
        before[k] -= step;
        after[k] += step;
        if (!camera_project(camera, before, from) || !camera_project(camera, after, to)) return false;
        for (int i = 0; i < 2; i++) by[i][k] = (to[i] - from[i]) / (2 * step);
    }
    for (int i = 0; i < 2; i++) {
        double row[6];
        for (int k = 0; k < 3; k++) {
            const int a = (k + 1) % 3, b = (k + 2) % 3;
            row[k] = inside[a] * by[i][b] - inside[b] * by[i][a];
            row[3 + k] = by[i][k];
        }
        for (int r = 0; r < 6; r++)
            for (int c = 0; c <= r; c++) sum[at(r, c)] += weight * row[r] * row[c];
    }
    return true;
}

void pose_metric(const gs_camera *camera, const weighted_points *points, const pose_scale *scale,
                 double factor[POSE_METRIC_VALUES]) {
    const double certain = 0.3;
    double sum[POSE_METRIC_VALUES] = {0}, total = 0, focus[3];
    camera_inside(camera, scale->focus, focus);
    const double nearest = fmax(sqrt(dot(focus, focus)), 4 * (double)camera->near_plane) / 16;
    const size_t stride = points->count / MOST_POINTS + 1;
    for (size_t i = 0; i < points->count; i += stride) {
        const double point[3] = {points->points[i][0], points->points[i][1], points->points[i][2]};
        const double weight = points->weights ? points->weights[i] : 1;
        double inside[3];
        camera_inside(camera, point, inside);
        // One that is very near would count for all others.
        if (weight > 0 && sqrt(dot(inside, inside)) > nearest && add_point(camera, inside, weight, sum))
            total += weight;
    }
    for (int k = 0; k < POSE_METRIC_VALUES; k++) factor[k] = total > 0 ? sum[k] / total : 0;
    for (int k = 0; k < 6; k++) {
        const double expected = k < 3 ? scale->radians : scale->distance;
        factor[at(k, k)] += certain * certain / (expected * expected);
    }
    for (int c = 0; c < 6; c++) // Cholesky
        for (int r = c; r < 6; r++) {
            double value = factor[at(r, c)];
            for (int k = 0; k < c; k++) value -= factor[at(r, k)] * factor[at(c, k)];
            factor[at(r, c)] = r == c ? sqrt(value) : value / factor[at(c, c)];
        }
}

void pose_metric_solve(const double factor[POSE_METRIC_VALUES], double x[6]) {
    for (int r = 0; r < 6; r++) {
        for (int c = 0; c < r; c++) x[r] -= factor[at(r, c)] * x[c];
        x[r] /= factor[at(r, r)];
    }
}

void pose_metric_solve_transposed(const double factor[POSE_METRIC_VALUES], double x[6]) {
    for (int r = 5; r >= 0; r--) {
        for (int c = r + 1; c < 6; c++) x[r] -= factor[at(c, r)] * x[c];
        x[r] /= factor[at(r, r)];
    }
}

// ---- the refinement of poses

void refined_poses_start(refined_pose *poses, const target_view *views, size_t count) {
    for (size_t i = 0; i < count; i++) poses[i] = (refined_pose){.now = pose_of(&views[i].camera)};
}

void refined_poses_measure(refined_pose *poses, const target_view *views, size_t count,
                           const weighted_points *points) {
    pose_scale scale = {.radians = 1 / 57.3, .distance = 0.01 * scene_extent(views, count)};
    camera_focus(views, count, scale.focus);
    for (size_t i = 0; i < count; i++) pose_metric(&views[i].camera, points, &scale, poses[i].metric);
}

void refined_pose_step(refined_pose *p, const float se3_grad[6], double rate, int64_t step) {
    double gradient[6], motion[6], square = 0;
    for (int k = 0; k < 6; k++) gradient[k] = (double)se3_grad[k];
    pose_metric_solve(p->metric, gradient);
    for (int k = 0; k < 6; k++) {
        p->first_moment[k] += 0.1 * (gradient[k] - p->first_moment[k]);
        square += gradient[k] * gradient[k] / 6;
    }
    p->second_moment += 0.001 * (square - p->second_moment);
    const double size = sqrt(p->second_moment / (1 - pow(0.999, (double)step))) + 1e-15;
    for (int k = 0; k < 6; k++)
        motion[k] = -rate * p->first_moment[k] / ((1 - pow(0.9, (double)step)) * size);
    pose_metric_solve_transposed(p->metric, motion);
    pose_move(&p->now, motion);
}

static void random_direction(random_stream *random, double out[3]) {
    do
        for (int k = 0; k < 3; k++) out[k] = random_normal(random);
    while (!(dot(out, out) > 1e-6));
    normalize(out);
}

void perturb_poses(target_view *views, size_t count, double degrees, double distance, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        random_stream random = random_at(seed, RANDOM_POSES, 0, i);
        pose p = pose_of(&views[i].camera);
        double axis[3], direction[3], center[3], motion[6] = {0};
        random_direction(&random, axis);
        random_direction(&random, direction);
        pose_center(&p, center);
        for (int k = 0; k < 3; k++) {
            motion[k] = degrees / 57.29577951308232 * axis[k];
            center[k] += distance * direction[k];
        }
        pose_move(&p, motion);
        transform(p.rotation, center, p.translation);
        for (int k = 0; k < 3; k++) p.translation[k] = -p.translation[k];
        pose_to_camera(&p, &views[i].camera);
    }
}
