// SPDX-License-Identifier: MIT
// The examples in the comments of the headers give what their last lines say. examples.py writes each as a kernel that
// one warp runs, and those of the host as lines of a function.
#include "device_test.cuh"
#include "numbers.cuh"
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/queue.cuh>
#include <distwar/reduce.cuh>
#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>
#include <gtest/gtest.h>
#include <tuple>
#include <utility>

namespace {

// An array of zeros that an example adds to, the numbers that it must hold then, and zeros that must stay behind them.
template <typename T>
struct array_of {
    std::vector<double> expected;
    device_array<T> memory;
    explicit array_of(const std::vector<double> &numbers)
        : expected(numbers), memory(std::vector<T>(numbers.size() + 4, stored<T>(0))) {
        expected.resize((numbers.size() + 4) * (is_pair<T> ? 2 : 1));
    }
    ~array_of() {
        std::vector<double> found;
        for (const T &value : memory.download()) {
            if constexpr (is_pair<T>)
                found.insert(found.end(), {number(value.x), number(value.y)});
            else
                found.push_back(number(value));
        }
        EXPECT_EQ(found, expected);
    }
};
template <typename... T, size_t... I>
void check_example(void (*kernel)(T *...), const std::vector<double> (&expected)[sizeof...(T)],
                   std::index_sequence<I...>) {
    const std::tuple<array_of<T>...> arrays(expected[I]...);
    run(1, 32, kernel, std::get<I>(arrays).memory.get()...);
}
template <typename... T>
void check_example(void (*kernel)(T *...), const std::vector<double> (&expected)[sizeof...(T)]) {
    check_example(kernel, expected, std::index_sequence_for<T...>());
}
#define GIVES(example, ...)                                                                                  \
    {                                                                                                        \
        SCOPED_TRACE(#example);                                                                              \
        check_example(example, __VA_ARGS__);                                                                 \
    }
#include "examples.h"
TEST(Examples, GiveWhatTheirLastLinesSay) {
    run_examples();
}

TEST(ExamplesOfTheHost, WithStrategy) {
#include "example_of_strategy.h"
    EXPECT_EQ(found, DISTWAR_SERIAL);
}
TEST(ExamplesOfTheHost, SumsByKey) {
    const device_array<int> indices({2, 0, 2});
    const device_array<float> rows({1, 10, 2, 20, 3, 30});
    const device_array<float> to(6, {});
    const int *const index = indices.get();
    const float *const source = rows.get();
    float *const out = to.get();
    cudaStream_t stream = nullptr;
#include "example_of_sums_by_key.h"
    CHECK(error);
    EXPECT_EQ(to.download(), (std::vector<float>{2, 20, 0, 0, 4, 40}));
    CHECK(cudaFree(sums.workspace));
}
TEST(ExamplesOfTheHost, Histogram) {
    const device_array<int> keys({3, 1, 3, 3});
    const device_array<unsigned> bins(4, {});
    const int *const key = keys.get();
    unsigned *const counts = bins.get();
    cudaStream_t stream = nullptr;
#include "example_of_histogram.h"
    CHECK(error);
    EXPECT_EQ(bins.download(), (std::vector<unsigned>{0, 1, 0, 3}));
}

} // namespace
