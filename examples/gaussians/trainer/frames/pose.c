// SPDX-License-Identifier: MIT
#include "pose.h"
#include "gpu/vector.h"
#include <string.h>

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
    double back[9];
    transpose(p->rotation, back);
    transform(back, p->translation, center);
    for (int k = 0; k < 3; k++) center[k] = -center[k];
}

void pose_put_at(pose *p, const double center[3]) {
    transform(p->rotation, center, p->translation);
    for (int k = 0; k < 3; k++) p->translation[k] = -p->translation[k];
}

void rotation_about(const double axis[3], double angle, double out[9]) {
    const double x = axis[0], y = axis[1], z = axis[2], c = cos(angle), s = sin(angle), d = 1 - c;
    const double m[9] = {c + d * x * x,     d * x * y - s * z, d * x * z + s * y,
                         d * x * y + s * z, c + d * y * y,     d * y * z - s * x,
                         d * x * z - s * y, d * y * z + s * x, c + d * z * z};
    memcpy(out, m, sizeof m);
}

void pose_move(pose *p, const double twist[6]) {
    const double angle = sqrt(dot(twist, twist));
    if (angle > 0) {
        const double axis[3] = {twist[0] / angle, twist[1] / angle, twist[2] / angle};
        double turn[9];
        rotation_about(axis, angle, turn);
        multiply(turn, p->rotation, p->rotation);
        transform(turn, p->translation, p->translation);
    }
    for (int k = 0; k < 3; k++) p->translation[k] += twist[3 + k];
}

// ---- similarities

void similarity_apply(const similarity *s, pose *p) {
    double back[9], moved[3];
    transpose(s->rotation, back);
    multiply(p->rotation, back, p->rotation);
    transform(p->rotation, s->translation, moved);
    for (int k = 0; k < 3; k++) p->translation[k] = s->scale * p->translation[k] - moved[k];
}

static void mean_center(const pose *poses, size_t count, double mean[3]) {
    memset(mean, 0, 3 * sizeof *mean);
    for (size_t i = 0; i < count; i++) {
        double center[3];
        pose_center(&poses[i], center);
        for (int k = 0; k < 3; k++) mean[k] += center[k] / (double)count;
    }
}

similarity similarity_between(const pose *from, const pose *to, size_t count) {
    similarity s = {.scale = 1};
    for (size_t i = 0; i < count; i++) { // R_to = R_from G^T, so G = R_to^T R_from
        double back[9], turn[9];
        transpose(to[i].rotation, back);
        multiply(back, from[i].rotation, turn);
        for (int k = 0; k < 9; k++) s.rotation[k] += turn[k] / (double)count;
    }
    nearest_rotation(s.rotation);
    double mean_from[3], mean_to[3], product = 0, square_from = 0, square_to = 0;
    mean_center(from, count, mean_from);
    mean_center(to, count, mean_to);
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

// The angle between two rotations, in degrees: by the sine of its half, which is exact for small angles.
static double angle_between(const double a[9], const double b[9]) {
    double square = 0;
    for (int k = 0; k < 9; k++) square += (a[k] - b[k]) * (a[k] - b[k]);
    return 2 * asin(fmin(1, sqrt(square / 8))) * 57.29577951308232;
}

pose_difference pose_difference_between(const pose *from, const pose *to, size_t count) {
    const similarity s = similarity_between(from, to, count);
    pose_difference d = {0};
    for (size_t i = 0; i < count; i++) {
        pose moved = from[i];
        similarity_apply(&s, &moved);
        double a[3], b[3];
        pose_center(&moved, a);
        pose_center(&to[i], b);
        const double angle = angle_between(moved.rotation, to[i].rotation);
        for (int k = 0; k < 3; k++) a[k] -= b[k];
        const double distance = sqrt(dot(a, a));
        d.mean_degrees += angle / (double)count;
        d.mean_distance += distance / (double)count;
        d.largest_degrees = fmax(d.largest_degrees, angle);
        d.largest_distance = fmax(d.largest_distance, distance);
    }
    return d;
}
