// SPDX-License-Identifier: MIT
// Central differences of fourth order, and errors as norms.
#pragma once

#include <cmath>
#include <random>
#include <vector>

// df/dx; f() reads x. step: 1/300 of the scale on which f changes keeps truncation and rounding both below
// 1e-10 of f over that scale.
template <class F>
double derivative(F &&f, double &x, double step) {
    const double at = x;
    auto difference = [&](double delta) {
        x = at + delta;
        const double above = f();
        x = at - delta;
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
    // NaN if all expected values are 0, so that a comparison with an empty group fails.
    double relative() const { return std::sqrt(difference_ / size_); }

  private:
    double difference_ = 0, size_ = 0;
};

constexpr double max_gradient_error = 1e-6;

// Pseudorandom numbers in [-1, 1], the same in every run.
inline std::vector<double> random_weights(size_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<double> weights(n);
    for (double &w : weights) w = generator() / 2147483647.5 - 1;
    return weights;
}
