// SPDX-License-Identifier: MIT
#include "training/pose_refinement.h"
#include "random.h"
#include "training/random_purpose.h"
#include <math.h>
#include <string.h>

void refined_poses_start(refined_pose *poses, const target_view *views, size_t count) {
    for (size_t i = 0; i < count; i++) poses[i] = (refined_pose){.now = pose_of(&views[i].camera)};
}

// The mean of the centres, and their mean square distance from it.
static double spread(const refined_pose *poses, size_t count, double mean[3]) {
    double center[3], square = 0;
    memset(mean, 0, 3 * sizeof *mean);
    for (size_t i = 0; i < count; i++) {
        pose_center(&poses[i].now, center);
        for (int k = 0; k < 3; k++) mean[k] += center[k] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        pose_center(&poses[i].now, center);
        for (int k = 0; k < 3; k++) square += (center[k] - mean[k]) * (center[k] - mean[k]) / (double)count;
    }
    return square;
}

// By how much the view turned from `before`, as a rotation vector of the world: R^T turns by it.
static void world_turn(const pose *before, const pose *after, double turn[3]) {
    double m[9]; // R_after^T R_before
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            m[3 * r + c] = 0;
            for (int k = 0; k < 3; k++)
                m[3 * r + c] += after->rotation[3 * k + r] * before->rotation[3 * k + c];
        }
    turn[0] = (m[7] - m[5]) / 2;
    turn[1] = (m[2] - m[6]) / 2;
    turn[2] = (m[3] - m[1]) / 2;
}

// The motion of all poses that undoes what a step of one view changed of their means.
static similarity undoing(const refined_pose *poses, size_t count, const pose *before, const pose *after,
                          const double old_mean[3], double old_square) {
    similarity s = {.scale = 1, .rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    double turn[3], mean[3];
    world_turn(before, after, turn);
    const double angle = sqrt(turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2]);
    if (angle > 0) {
        const double axis[3] = {turn[0] / angle, turn[1] / angle, turn[2] / angle};
        rotation_about(axis, -angle / (double)count, s.rotation);
    }
    const double square = spread(poses, count, mean);
    if (old_square > 0 && square > 0) s.scale = sqrt(old_square / square);
    for (int r = 0; r < 3; r++) {
        s.translation[r] = old_mean[r];
        for (int c = 0; c < 3; c++) s.translation[r] -= s.scale * s.rotation[3 * r + c] * mean[c];
    }
    return s;
}

// a x b
static void cross(const double a[3], const double b[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

// Adam's step of one number, with gradient g.
static double adam_step(double g, double *first, double *second, int64_t step) {
    *first += 0.1 * (g - *first);
    *second += 0.001 * (g * g - *second);
    const double size = sqrt(*second / (1 - pow(0.999, (double)step)));
    return -(*first / (1 - pow(0.9, (double)step))) / (size + 1e-15);
}

// x' -> exp([w]) (x' - pivot) + pivot + v has, to first order, the twist (w, v - w x pivot).
static void step_one(refined_pose *p, const float twist_gradient[6], const pose_rates *rates, int64_t step) {
    double pivot[3], gradient[6], turned[3], motion[6];
    for (int r = 0; r < 3; r++) {
        pivot[r] = p->now.translation[r];
        for (int c = 0; c < 3; c++) pivot[r] += p->now.rotation[3 * r + c] * rates->pivot[c];
    }
    const double distance = sqrt(pivot[0] * pivot[0] + pivot[1] * pivot[1] + pivot[2] * pivot[2]);
    for (int k = 0; k < 6; k++) gradient[k] = (double)twist_gradient[k];
    cross(pivot, gradient + 3, turned);
    for (int k = 0; k < 3; k++) gradient[k] -= turned[k];
    for (int k = 0; k < 6; k++)
        motion[k] = rates->rate * (k < 3 ? 1 : distance) *
                    adam_step(gradient[k], &p->first_moment[k], &p->second_moment[k], step);
    cross(motion, pivot, turned);
    for (int k = 0; k < 3; k++) motion[3 + k] -= turned[k];
    pose_move(&p->now, motion);
}

void refined_poses_step(refined_pose *poses, size_t count, size_t view, const float twist_gradient[6],
                        const pose_rates *rates, int64_t step) {
    const pose before = poses[view].now;
    double mean[3];
    const double square = spread(poses, count, mean);
    step_one(&poses[view], twist_gradient, rates, step);
    const similarity back = undoing(poses, count, &before, &poses[view].now, mean, square);
    for (size_t i = 0; i < count; i++) similarity_apply(&back, &poses[i].now);
}

static void random_direction(random_stream *random, double out[3]) {
    double length;
    do {
        for (int k = 0; k < 3; k++) out[k] = random_normal(random);
        length = sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2]);
    } while (!(length > 1e-3));
    for (int k = 0; k < 3; k++) out[k] /= length;
}

void perturb_poses(target_view *views, size_t count, double degrees, double distance, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        random_stream random = random_at(seed, RANDOM_POSES, 0, i);
        pose p = pose_of(&views[i].camera);
        double axis[3], direction[3], center[3], twist[6] = {0};
        random_direction(&random, axis);
        random_direction(&random, direction);
        pose_center(&p, center);
        for (int k = 0; k < 3; k++) {
            twist[k] = degrees / 57.29577951308232 * axis[k];
            center[k] += distance * direction[k];
        }
        pose_move(&p, twist);
        pose_put_at(&p, center);
        pose_to_camera(&p, &views[i].camera);
    }
}
