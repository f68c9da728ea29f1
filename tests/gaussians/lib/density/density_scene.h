// SPDX-License-Identifier: MIT
// Gaussians and moments of any values, for tests of density control: host arrays and the same on the device.
#pragma once

#include "device_vector.h"
#include "expect_status.h"
#include <cmath>
#include <memory>
#include <random>
#include <vector>

// The five arrays, in the order of gs_gaussians.
struct host_gaussians {
    int64_t count;
    int sh_degree;
    std::vector<float> array[5];
    host_gaussians(int64_t count, int sh_degree) : count(count), sh_degree(sh_degree) {
        for (int i = 0; i < 5; i++) array[i].resize(size_t(count) * size_t(width(i)));
    }
    int width(int i) const {
        const int widths[] = {3, 3, 4, 1, 3 * (sh_degree + 1) * (sh_degree + 1)};
        return widths[i];
    }
    float *mean(int64_t i) { return &array[0][size_t(3 * i)]; }
    float *log_scale(int64_t i) { return &array[1][size_t(3 * i)]; }
    float *quaternion(int64_t i) { return &array[2][size_t(4 * i)]; }
    float &opacity_logit(int64_t i) { return array[3][size_t(i)]; }
    double opacity(int64_t i) const { return 1 / (1 + std::exp(-double(array[3][size_t(i)]))); }
    std::vector<float> row(int64_t i) const {
        std::vector<float> all;
        for (int a = 0; a < 5; a++)
            all.insert(all.end(), array[a].begin() + i * width(a), array[a].begin() + (i + 1) * width(a));
        return all;
    }
};

inline host_gaussians random_gaussians(unsigned seed, int64_t count, int sh_degree) {
    host_gaussians out(count, sh_degree);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto &array : out.array)
        for (float &value : array) value = normal(random);
    return out;
}

class device_set {
  public:
    device_set(int64_t count, int sh_degree) : device_set(host_gaussians(count, sh_degree)) {}
    explicit device_set(const host_gaussians &host) : count(host.count), sh_degree(host.sh_degree) {
        for (const auto &values : host.array)
            arrays.push_back(std::make_unique<device_vector<float>>(values));
    }
    gs_gaussians get() const {
        gs_gaussians g = {};
        g.count = count;
        g.sh_degree = sh_degree;
        g.mean = arrays[0]->data(), g.log_scale = arrays[1]->data(), g.quaternion = arrays[2]->data();
        g.opacity_logit = arrays[3]->data(), g.sh = arrays[4]->data();
        return g;
    }
    host_gaussians read() const {
        host_gaussians out(count, sh_degree);
        for (size_t i = 0; i < 5; i++) out.array[i] = arrays[i]->read();
        return out;
    }

  private:
    int64_t count;
    int sh_degree;
    std::vector<std::unique_ptr<device_vector<float>>> arrays;
};

// v in the Gaussian's own axes, each divided by its scale to the power `power`: offsets that were drawn from
// it are standard normal for 1.
inline void to_own_axes(host_gaussians &g, int64_t i, const double v[3], int power, double out[3]) {
    double q[4], length = 0, r[3][3];
    for (int k = 0; k < 4; k++) length += std::pow(double(g.quaternion(i)[k]), 2);
    for (int k = 0; k < 4; k++) q[k] = g.quaternion(i)[k] / std::sqrt(length);
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0][0] = 1 - 2 * (y * y + z * z), r[0][1] = 2 * (x * y - w * z), r[0][2] = 2 * (x * z + w * y);
    r[1][0] = 2 * (x * y + w * z), r[1][1] = 1 - 2 * (x * x + z * z), r[1][2] = 2 * (y * z - w * x);
    r[2][0] = 2 * (x * z - w * y), r[2][1] = 2 * (y * z + w * x), r[2][2] = 1 - 2 * (x * x + y * y);
    for (int k = 0; k < 3; k++)
        out[k] =
            (r[0][k] * v[0] + r[1][k] * v[1] + r[2][k] * v[2]) / std::exp(power * double(g.log_scale(i)[k]));
}

// Means and second moments of what should be standard normal in three dimensions.
class normal_check {
  public:
    void add(const double v[3]) {
        n++;
        for (int a = 0; a < 3; a++) {
            sum[a] += v[a];
            for (int b = 0; b < 3; b++) product[a][b] += v[a] * v[b];
        }
    }
    void expect_standard() const {
        const double tolerance = 5 / std::sqrt(double(n)); // of five standard errors or more
        ASSERT_GT(n, 500);
        for (int a = 0; a < 3; a++) {
            EXPECT_NEAR(sum[a] / n, 0, tolerance);
            for (int b = 0; b < 3; b++) EXPECT_NEAR(product[a][b] / n, a == b, 1.5 * tolerance);
        }
    }

  private:
    int n = 0;
    double sum[3] = {}, product[3][3] = {};
};
