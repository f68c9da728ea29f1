// SPDX-License-Identifier: MIT
#include "poses/pose_refinement.h"
#include "random.h"
#include "frames/view_order.h"
#include "gpu/vector.h"
#include "frames/camera.h"

void refined_poses_start(refined_pose *poses, const target_view *views, size_t count) {
    for (size_t i = 0; i < count; i++) poses[i] = (refined_pose){.now = pose_of(&views[i].camera)};
}

void refined_poses_measure(refined_pose *poses, const target_view *views, size_t count,
                           const weighted_points *points) {
    pose_scale scale = {.radians = 1 / 57.3, .distance = 0.01 * scene_extent(views, count)};
    camera_focus(views, count, scale.focus);
    for (size_t i = 0; i < count; i++) pose_metric(&views[i].camera, points, &scale, poses[i].metric);
}

void refined_pose_step(refined_pose *p, const float twist_gradient[6], double rate, int64_t step) {
    double gradient[6], motion[6], square = 0;
    for (int k = 0; k < 6; k++) gradient[k] = (double)twist_gradient[k];
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
    double length;
    do {
        for (int k = 0; k < 3; k++) out[k] = random_normal(random);
        length = sqrt(dot(out, out));
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
