// SPDX-License-Identifier: MIT
// A step of finite differences for every parameter of a Gaussian.
#pragma once

#include "derivative.h"
#include "held.h"

#include <algorithm>
#include <array>
#include <cmath>

// The first GROUPS are the stored parameters; the others are there only if they were given.
enum { MEAN, LOG_SCALE, QUATERNION, OPACITY_LOGIT, SH, GROUPS, COLOR = GROUPS, COVARIANCE, ALL_GROUPS };
inline const char *const group_name[ALL_GROUPS] = {"mean", "log_scale", "quaternion", "opacity_logit",
                                                   "sh",   "color",     "covariance"};

// Whether the Gaussians' picture depends on a group.
inline bool is_read(const reference_gaussians &gaussians, int group) {
    if (group == LOG_SCALE || group == QUATERNION) return !gaussians.covariance;
    if (group == COVARIANCE) return gaussians.covariance;
    return group == SH ? !gaussians.color : group != COLOR || gaussians.color;
}

// One group of one Gaussian within the block of parameters.
struct GroupRange {
    int64_t begin, size;
};

inline GroupRange group_of(const reference_gaussians &gaussians, int64_t i, int group) {
    const int64_t stored = 3 * (gaussians.sh_degree + 1) * (gaussians.sh_degree + 1), given = 11 + stored;
    const int64_t before[] = {0, 3, 6, 10, 11, given, given + (gaussians.color ? 3 : 0)}; // of a Gaussian
    const int64_t size[] = {3, 3, 4, 1, stored, 3, 6};
    return {before[group] * gaussians.count + size[group] * i, size[group]};
}

// Steps small against what changes the picture: a move against the splat's narrow side, a turn against its
// angle.
inline double step_of(const reference_scene &scene, const reference_splat &splat, int64_t i, int group) {
    const double added = scene.gaussians.antialias ? 0.3 : 0; // opacities then depend on what is without it
    const double a = splat.covariance[0] - added, b = splat.covariance[1], c = splat.covariance[2] - added;
    const double wide = (a + c) / 2 + std::sqrt((a - c) * (a - c) / 4 + b * b),
                 narrow = (a * c - b * b) / wide;
    const double thin = std::sqrt(narrow / wide);
    const double depth = scene.camera.model == GS_ORTHO ? 1 : splat.depth; // depth / focal: a pixel's width
    switch (group) {
    case MEAN:
        return 0.003 * depth * std::min(thin, std::sqrt(narrow) / std::max(scene.camera.fx, scene.camera.fy));
    case QUATERNION: {
        const double *q = scene.gaussians.quaternion + 4 * i;
        return 0.003 * thin * std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    }
    case COVARIANCE: {
        const double focal = std::max(scene.camera.fx, scene.camera.fy);
        return 0.003 * narrow * (depth / focal) * (depth / focal);
    }
    default:
        return 0.003;
    }
}

// ---- the camera ----

enum { CAMERA_VALUES = 22 }; // of a reference_camera_gradient, in the order of its members

inline const char *camera_value_group(int k) {
    return k < 12 ? "matrix" : k < 18 ? "se3_grad" : "intrinsics";
}
inline double &camera_value(reference_camera_gradient &gradient, int k) {
    return k < 12 ? gradient.matrix[k] : k < 18 ? gradient.se3_grad[k - 12] : gradient.intrinsics[k - 18];
}

// The camera moved by `by` along value k. By se3_grad it moves by exp, not by its first order.
inline reference_camera moved_camera(const reference_camera &from, int k, double by) {
    reference_camera to = from;
    if (k < 12) {
        (k % 4 < 3 ? to.rotation[3 * (k / 4) + k % 4] : to.translation[k / 4]) += by;
    } else if (k < 15) {
        const int next = (k - 12 + 1) % 3, last = (k - 12 + 2) % 3;
        const double cosine = std::cos(by), sine = std::sin(by);
        auto turn = [&](double &a, double &b) {
            const double old = a;
            a = cosine * a - sine * b;
            b = sine * old + cosine * b;
        };
        for (int c = 0; c < 3; c++) turn(to.rotation[3 * next + c], to.rotation[3 * last + c]);
        turn(to.translation[next], to.translation[last]);
    } else if (k < 18) {
        to.translation[k - 15] += by;
    } else {
        *std::array<double *, 4>{&to.fx, &to.fy, &to.cx, &to.cy}[static_cast<size_t>(k - 18)] += by;
    }
    return to;
}

// Steps for a splat as step_of's: `move` is that of its mean, `turn` that of its quaternion.
inline double camera_step(const reference_camera &camera, const double mean[3], double depth, int k,
                          double move, double turn) {
    const double focal = std::max(camera.fx, camera.fy);
    const double far = 1 + std::sqrt(mean[0] * mean[0] + mean[1] * mean[1] + mean[2] * mean[2]);
    if (k < 12) return k % 4 < 3 ? std::min(move / far, turn) : move;
    if (k < 15) return std::min(move / (far + depth), turn);
    return k < 18 ? move : focal * move / depth;
}
