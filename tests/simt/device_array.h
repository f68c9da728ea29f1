// SPDX-License-Identifier: MIT
// Short forms of launches and device arrays. A fixture resets simt's settings after each test.
#ifndef SIMT_DEVICE_ARRAY_H
#define SIMT_DEVICE_ARRAY_H

#include <cstdint>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <new>
#include <string>
#include <vector>
#ifdef __SIMT__
#include <simt.h>
#endif

template <typename... Parameters, typename... Arguments>
cudaError_t run(dim3 grid, dim3 block, void (*kernel)(Parameters...), Arguments &&...arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    const cudaError_t launched = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
    return launched == cudaSuccess ? cudaDeviceSynchronize() : launched;
}

// The host reads and writes it by index, while no kernel runs.
template <typename T>
class Device_array {
  public:
    explicit Device_array(std::size_t size, T value = T()) {
        if (cudaMallocManaged(&data_, size * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
        for (std::size_t i = 0; i < size; i++) data_[i] = value;
    }
    explicit Device_array(const std::vector<T> &values) : Device_array(values.size()) {
        for (std::size_t i = 0; i < values.size(); i++) data_[i] = values[i];
    }
    Device_array(const Device_array &) = delete;
    Device_array &operator=(const Device_array &) = delete;
    ~Device_array() { cudaFree(data_); }
    operator T *() { return data_; }

  private:
    T *data_ = nullptr;
};

// Runs a kernel that writes an array of `size`, its first argument, and compares the array with expected(i).
template <typename T, typename Expected, typename... Parameters, typename... Arguments>
void expect_each(dim3 grid, dim3 block, std::size_t size, const Expected &expected,
                 void (*kernel)(T *, Parameters...), Arguments &&...arguments) {
    Device_array<T> out(size);
    ASSERT_EQ(run(grid, block, kernel, out, arguments...), cudaSuccess);
    for (std::size_t i = 0; i < size; i++) ASSERT_EQ(out[i], expected(int(i))) << i;
}

// On a GPU a test with another seed is one more repetition.
template <typename Checks>
void under_seeds(std::uint64_t count, const Checks &checks) {
    for (std::uint64_t seed = 0; seed < count && !testing::Test::HasFatalFailure(); seed++) {
        SCOPED_TRACE(seed);
#ifdef __SIMT__
        simt_set_seed(seed);
        simt_counters_reset();
#endif
        checks();
    }
}

#ifdef __SIMT__
class Simt : public testing::Test {
  protected:
    Simt() { restore(); }
    ~Simt() override { restore(); }

  private:
    static void restore() {
        simt_set_seed(0);
        simt_set_threads(0);
        simt_set_step_limit(std::uint64_t(1) << 32);
        simt_set_stack_size(0);
        simt_set_counting(true);
        simt_counters_reset();
        simt_refusal_clear();
        cudaGetLastError();
    }
};
#else
class Simt : public testing::Test {};
#endif

#endif
