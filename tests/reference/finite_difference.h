// SPDX-License-Identifier: MIT
//
// Central differences of fourth order, errors as norms, and a step for every parameter of a Gaussian.
#ifndef FINITE_DIFFERENCE_H
#define FINITE_DIFFERENCE_H

#include "reference.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

// df/dx where f() reads x. With a step of 1/300 of the scale on which f changes, truncation and rounding both
// stay below 1e-10 of f over that scale.
template <class F>
double derivative(F &&f, double &x, double step) {
    const double at = x;
    auto difference = [&](double by) {
        x = at + by;
        const double above = f();
        x = at - by;
        return above - f();
    };
    const double near = difference(step), far = difference(2 * step);
    x = at;
    return (8 * near - far) / (12 * step);
}

// Relative error of a group of values, as a norm.
class GroupError {
  public:
    void add(double value, double expected) {
        difference_ += (value - expected) * (value - expected);
        size_ += expected * expected;
    }
    double size() const { return std::sqrt(size_); }
    // NaN if all expected values are 0, so that a group that nothing was added to does not pass.
    double relative() const { return std::sqrt(difference_ / size_); }

  private:
    double difference_ = 0, size_ = 0;
};

constexpr double max_gradient_error = 1e-6;

// The first GROUPS are the stored parameters; the others are there only if they were given.
enum { MEAN, LOG_SCALE, QUATERNION, OPACITY_LOGIT, SH, GROUPS, COLOR = GROUPS, COVARIANCE, ALL_GROUPS };
inline const char *const group_name[ALL_GROUPS] = {"mean", "log_scale", "quaternion", "opacity_logit",
                                                   "sh",   "color",     "covariance"};

// Whether the Gaussians' picture depends on a group.
inline bool is_read(const reference_gaussians &gaussians, int group) {
    switch (group) {
    case LOG_SCALE:
    case QUATERNION:
        return !gaussians.covariance;
    case SH:
        return !gaussians.color;
    case COLOR:
        return gaussians.color;
    case COVARIANCE:
        return gaussians.covariance;
    default:
        return true;
    }
}

// One group of one Gaussian within the block of parameters.
struct GroupRange {
    int64_t begin, size;
};

inline GroupRange group_of(const reference_gaussians &gaussians, int64_t i, int group) {
    const int64_t n = gaussians.count, stored = 3 * (gaussians.sh_degree + 1) * (gaussians.sh_degree + 1);
    switch (group) {
    case MEAN:
        return {3 * i, 3};
    case LOG_SCALE:
        return {3 * n + 3 * i, 3};
    case QUATERNION:
        return {6 * n + 4 * i, 4};
    case OPACITY_LOGIT:
        return {10 * n + i, 1};
    case COLOR:
        return {gaussians.color - gaussians.mean + 3 * i, 3};
    case COVARIANCE:
        return {gaussians.covariance - gaussians.mean + 6 * i, 6};
    default:
        return {11 * n + stored * i, stored};
    }
}

// Steps small against what changes the picture: a move against the splat's narrow side, a turn against its
// angle.
inline double step_of(const reference_scene &scene, const reference_splat &splat, int64_t i, int group) {
    const double added = scene.gaussians.antialias ? 0.3 : 0; // opacities then depend on what is without it
    const double a = splat.covariance[0] - added, b = splat.covariance[1], c = splat.covariance[2] - added;
    const double wide = (a + c) / 2 + std::sqrt((a - c) * (a - c) / 4 + b * b),
                 narrow = (a * c - b * b) / wide;
    const double thin = std::sqrt(narrow / wide);
    switch (group) {
    case MEAN:
        return 0.003 * splat.depth *
               std::min(thin, std::sqrt(narrow) / std::max(scene.camera.fx, scene.camera.fy));
    case QUATERNION: {
        const double *q = scene.gaussians.quaternion + 4 * i;
        return 0.003 * thin * std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    }
    case COVARIANCE: {
        const double focal = std::max(scene.camera.fx, scene.camera.fy);
        return 0.003 * narrow * (splat.depth / focal) * (splat.depth / focal);
    }
    default:
        return 0.003;
    }
}

// Numbers in [-1, 1], the same in every run.
inline std::vector<double> random_weights(size_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<double> weights(n);
    for (double &w : weights) w = generator() / 2147483647.5 - 1;
    return weights;
}

#endif
