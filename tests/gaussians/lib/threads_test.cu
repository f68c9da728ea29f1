// SPDX-License-Identifier: MIT
// libdistwar_gs called by several threads at once, each with a view and a context of its own: the bits of one thread.
#include "kernel_frame.h"
#include <string>
#include <thread>

namespace threads_test {

// The picture and, after it, the moments of the gradient, by sums that do not depend on the order.
std::vector<float> values_of(const scene_choice &choice, gs_context *context) {
    const kernel_frame frame(choice, context);
    std::vector<float> values = frame.color.read();
    const std::vector<float> weight = random_floats(choice.seed, size_t(4 * frame.pixels()), -1, 1);
    const std::vector<float> alpha(weight.begin() + 3 * frame.pixels(), weight.end());
    const std::vector<float> splat_grad =
        frame.backward({weight.begin(), weight.begin() + 3 * frame.pixels()}, alpha, {DISTWAR_FIXED, 0});
    values.insert(values.end(), splat_grad.begin(), splat_grad.end());
    return values;
}

TEST(Threads, WithTheirOwnViewsGiveTheBitsOfOne) {
    const size_t threads = 4, rounds = 3;
    std::vector<scene_choice> choices;
    std::vector<std::vector<float>> alone, together(threads * rounds);
    for (size_t t = 0; t < threads; t++) {
        choices.push_back({11 + t, 40 + 20 * int64_t(t), int(t), int(t), 40 + 8 * int(t), 33});
        alone.push_back(values_of(choices[t], NULL));
    }
    std::vector<std::thread> running;
    for (size_t t = 0; t < threads; t++)
        running.emplace_back([&, t] {
            cudaStream_t stream = nullptr;
            DEVICE_CHECK(cudaStreamCreate(&stream));
            gs_context *context = nullptr;
            EXPECT_GS_OK(gs_context_create(nullptr, stream, &context));
            for (size_t round = 0; round < rounds; round++)
                together[t * rounds + round] = values_of(choices[t], context);
            gs_context_destroy(context);
            DEVICE_CHECK(cudaStreamDestroy(stream));
        });
    for (std::thread &thread : running) thread.join();
    for (size_t k = 0; k < threads * rounds; k++) {
        ASSERT_GT(together[k].size(), 100u);
        EXPECT_TRUE(together[k] == alone[k / rounds]) << "thread " << k / rounds << ", round " << k % rounds;
    }
}

} // namespace threads_test
