// SPDX-License-Identifier: MIT
// Memory for the code on the pages.
#ifndef SHARED_ARRAY_H
#define SHARED_ARRAY_H

#include "launch.cuh"
#include <gtest/gtest.h>
#include <vector>

// Device memory that the host fills before a launch and reads after it.
template <typename T>
class shared_array {
    T *memory = nullptr;
    size_t count;

  public:
    explicit shared_array(const std::vector<T> &content) : count(content.size()) {
        EXPECT_EQ(cudaMalloc(reinterpret_cast<void **>(&memory), count * sizeof(T)), cudaSuccess);
        EXPECT_EQ(cudaMemcpy(memory, content.data(), count * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    }
    ~shared_array() { cudaFree(memory); }
    shared_array(const shared_array &) = delete;
    shared_array &operator=(const shared_array &) = delete;
    T *get() const { return memory; }
    std::vector<T> content() const {
        std::vector<T> found(count);
        EXPECT_EQ(cudaMemcpy(found.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
        return found;
    }
};

#endif
