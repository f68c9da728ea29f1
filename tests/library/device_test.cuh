// SPDX-License-Identifier: MIT
// Shared by the tests of the library: device arrays, checked launches, schedules, and random numbers that are
// the same on every machine.
#ifndef DEVICE_TEST_CUH
#define DEVICE_TEST_CUH

#include "launch.cuh"
#include <random>
#include <stdexcept>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <string>
#include <vector>
#ifndef __CUDACC__
#include "simt.h"
#endif

// An error fails the test that made the call.
inline void check(cudaError_t status, const char *attempted) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(attempted) + ": " + cudaGetErrorString(status));
}
#define CHECK(call) check((call), #call)

template <typename T>
class device_array {
    T *memory = nullptr;
    size_t count = 0;

  public:
    explicit device_array(const std::vector<T> &content) : count(content.size()) {
        CHECK(cudaMalloc(reinterpret_cast<void **>(&memory), count * sizeof(T)));
        upload(content);
    }
    device_array(size_t count, T value) : device_array(std::vector<T>(count, value)) {}
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array() { cudaFree(memory); }
    T *get() const { return memory; }
    void upload(const std::vector<T> &content) {
        CHECK(cudaMemcpy(memory, content.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> download() const {
        std::vector<T> content(count);
        CHECK(cudaMemcpy(content.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
        return content;
    }
};

// Launches a kernel and waits for it.
template <typename... Parameters, typename... Arguments>
void run(dim3 grid, dim3 block, void (*kernel)(Parameters...), Arguments... arguments) {
    CHECK(launch(cudaStream_t(0), grid, block, kernel, arguments...));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

// Sets the order in which lanes run in the next launches. No effect on a GPU: there a test with another seed
// is one more repetition.
inline void set_schedule(unsigned seed) {
#ifdef __CUDACC__
    (void)seed;
#else
    simt_set_seed(seed);
#endif
}

class draw {
    std::mt19937 state;

  public:
    explicit draw(unsigned seed) : state(seed) {}
    unsigned bits() { return unsigned(state()); }
    unsigned below(unsigned count) { return bits() % count; } // 0..count-1
    unsigned bits_or_one() {
        const unsigned drawn = bits();
        return drawn ? drawn : 1;
    }
};

template <typename T>
bool same_bits(T a, T b) {
    return memcmp(&a, &b, sizeof(T)) == 0;
}

// A hash of the bits (FNV-1a), also printed: tests keep those that each GPU, PTX of each architecture and simt must give.
template <typename T>
uint64_t printed_hash(const char *what, const std::vector<T> &values) {
    uint64_t hash = 0xcbf29ce484222325;
    const auto *const bytes = reinterpret_cast<const unsigned char *>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
    printf("bits of %s: %016llx\n", what, (unsigned long long)(hash));
    return hash;
}

#endif
