// SPDX-License-Identifier: MIT
// The tuner with the runtime's own events, around kernels whose lengths differ.

#include "../device_test.cuh"
#include <distwar/tune.h>
#include <gtest/gtest.h>

__global__ void spin(int steps, float *out) {
    float value = (float)threadIdx.x;
    for (int i = 0; i < steps; i++) value = value * 0.999f + 1;
    out[threadIdx.x] = value;
}

TEST(TuneDevice, FindsTheShortestKernel) {
    const tune_candidate candidates[] = {{0, 40000}, {0, 4000}, {1, 100000}};
    tuner t;
    tune_events ring;
    ASSERT_TRUE(tune_init(&t, candidates, 3));
    CHECK(tune_events_open(&ring));
    device_array<float> out(32, {});
    for (int i = 0; i < 20000 && !t.known; i++) {
        tune_launch next;
        CHECK(tune_events_begin(&ring, &t, nullptr, &next));
        CHECK(launch(cudaStream_t(0), dim3(1), dim3(32), spin, next.threshold, out.get()));
        CHECK(tune_events_end(&ring, &t, nullptr, 1));
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(tune_events_close(&ring));
    EXPECT_TRUE(t.known);
    EXPECT_EQ(t.best, 1);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}
