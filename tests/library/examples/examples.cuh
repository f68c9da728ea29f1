// SPDX-License-Identifier: MIT
// Arrays of zeros that an example of a header adds to.
#ifndef EXAMPLES_CUH
#define EXAMPLES_CUH

#include "device_test.cuh"
#include <cuda_fp16.h>
#include <gtest/gtest.h>

// The numbers in an array of zeros that the example got.
template <typename T>
std::vector<double> numbers(const std::vector<T> &content) {
    return {content.begin(), content.end()};
}
inline std::vector<double> numbers(const std::vector<__half2> &content) {
    std::vector<double> found;
    for (const __half2 &both : content) {
        found.push_back(__low2float(both));
        found.push_back(__high2float(both));
    }
    return found;
}
template <typename T>
struct zeros : device_array<T> {
    explicit zeros(size_t size) : device_array<T>(std::vector<T>(size)) {}
    std::vector<double> found() const { return numbers(this->download()); }
};
using expected = std::vector<double>;

#endif
