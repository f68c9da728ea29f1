// SPDX-License-Identifier: MIT
#include "training/pose_refinement.h"
#include "random.h"
#include "training/view_order.h"
#include "vector.h"

void refined_poses_start(refined_pose *poses, const target_view *views, size_t count) {
    for (size_t i = 0; i < count; i++) poses[i] = (refined_pose){.now = pose_of(&views[i].camera)};
}

// Adam's step of one number, with gradient g.
static double adam_step(double g, double *first, double *second, int64_t step) {
    *first += 0.1 * (g - *first);
    *second += 0.001 * (g * g - *second);
    const double size = sqrt(*second / (1 - pow(0.999, (double)step)));
    return -(*first / (1 - pow(0.9, (double)step))) / (size + 1e-15);
}

// x' -> exp([w]) (x' - pivot) + pivot + v has, to first order, the twist (w, v - w x pivot).
void refined_pose_step(refined_pose *p, const float twist_gradient[6], const pose_rates *rates,
                       int64_t step) {
    double pivot[3], gradient[6], turned[3], motion[6];
    for (int r = 0; r < 3; r++) {
        pivot[r] = p->now.translation[r];
        for (int c = 0; c < 3; c++) pivot[r] += p->now.rotation[3 * r + c] * rates->pivot[c];
    }
    const double distance = sqrt(dot(pivot, pivot));
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
