// SPDX-License-Identifier: MIT
// Mistakes that a GPU does not tell: simt refuses each with a message that names it, and the line of the call. Built
// for simt only.

#include "device_test.cuh"
#include <distwar/sink.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using distwar::all_lanes;

namespace {

int call_line; // of the wrong call, set by each kernel
#define HERE (call_line = __LINE__, all_lanes)

enum { K = 3 };
const float val[K] = {1, 2, 3};

__global__ void other_uniform_key(float *to) {
    const int key = threadIdx.x == 7 ? 1 : 0;
    distwar::reduce_tree(HERE, threadIdx.x != 7, distwar::uniform_key{key}, val,
                         distwar::record<float>{to, K});
}
__global__ void other_uniform_key_by_default(float *to) {
    const int key = threadIdx.x == 7 ? 1 : 0;
    distwar::reduce(HERE, true, distwar::uniform_key{key}, val, distwar::pointers{to, to + 1, to + 2});
}
__global__ void other_uniform_key_of_a_counter(float *to) {
    const int key = threadIdx.x == 7 ? 1 : 0;
    distwar::fetch_add(HERE, true, distwar::uniform_key{key}, reinterpret_cast<int *>(to));
}
__global__ void other_uniform_key_of_a_group(float *to) {
    const int key = threadIdx.x == 7 ? 1 : 0;
    const auto groups = distwar::group_lanes(HERE, true, distwar::uniform_key{key});
    groups.add(val, distwar::record<float>{to, K});
}
__global__ void other_base(float *to) {
    distwar::reduce_tree(HERE, threadIdx.x < 16, 0, val, distwar::record<float>{to + (threadIdx.x == 7), K});
}
__global__ void other_stride(float *to) {
    distwar::reduce_serial(HERE, true, 0, val, distwar::planes<float>{to, threadIdx.x == 7 ? 2u : 1u});
}
__global__ void other_base_in_bfly(float *to) {
    distwar::reduce_bfly(HERE, true, 0, val, distwar::aligned_record{to + 4 * (threadIdx.x == 7), 4});
}
__global__ void other_base_in_a_group(float *to) {
    const auto groups = distwar::group_lanes(HERE, true, 0);
    groups.add(val, distwar::record<float>{to + (threadIdx.x == 7), K});
}
__global__ void other_base_by_default(float *to) {
    distwar::reduce(HERE, true, 0, val, distwar::record<float>{to + (threadIdx.x == 7), K});
}
__global__ void other_pointers(float *to) { // lanes 3, 7, ... have the key 3
    float *const mine = to + (threadIdx.x == 7);
    distwar::reduce_tree(HERE, threadIdx.x != 31, threadIdx.x % 4, val, distwar::pointers{to, to, mine});
}
__global__ void small_stride(float *to) {
    distwar::reduce_atomic(HERE, threadIdx.x == 7, 0, val,
                           distwar::record<float>{to, K - size_t(threadIdx.x == 7)});
}
__global__ void small_stride_by_count(float *to) {
    distwar::reduce_n(HERE, true, 0, K, val, distwar::record<float>{to, K - size_t(threadIdx.x == 7)});
}
__global__ void small_stride_of_vectors(float *to) {
    distwar::reduce_atomic(HERE, true, 0, val, distwar::aligned_record{to, 4 - 2 * size_t(threadIdx.x == 7)});
}
__global__ void small_stride_of_pairs(float *to) {
    using pairs = distwar::record_of_pairs<__half2>;
    const size_t stride = 2 - size_t(threadIdx.x == 7);
    distwar::reduce_atomic(HERE, true, 0, val, pairs{reinterpret_cast<__half2 *>(to), stride});
}
__global__ void small_stride_of_a_field(float *to) {
    const distwar::fields<float, 1, 2> sink = {{to, 1}, {to + 32, 2 - size_t(threadIdx.x == 7)}};
    distwar::reduce_atomic(HERE, true, 0, val, sink);
}
__global__ void small_stride_in_shared(float *to) {
    const distwar::fields<float, 1, 2> sink = {{to, 1}, {to + 32, 1}};
    distwar::reduce(HERE, true, 0, val, distwar::in_shared(sink));
}
__global__ void small_stride_of_hot_slots(float *to) {
    __shared__ distwar::hot_slots<4, K> hot;
    hot.clear();
    distwar::reduce_tree(HERE, true, 0, val, hot.sink(distwar::record<float>{to, K - 1}));
}
__global__ void other_counters(float *to) {
    int *const counters = reinterpret_cast<int *>(to);
    distwar::fetch_add(HERE, true, 0, counters + (threadIdx.x == 7));
}
__global__ void other_key_in_a_group(float *to) { // lanes 3, 7, ... are one group
    const auto groups = distwar::group_lanes(HERE, true, threadIdx.x % 4);
    groups.add(val, distwar::record<float>{to, K}, distwar::at_key{threadIdx.x == 7 ? 5 : threadIdx.x % 4});
}
__global__ void other_key_of_one_group(float *to) {
    const auto groups = distwar::group_lanes(HERE, threadIdx.x != 3, distwar::uniform_key{0});
    groups.add(val, distwar::record<float>{to, K}, distwar::at_key{threadIdx.x % 4 == 3 ? 1 : 2});
}
__global__ void early_return(float *to) {
    if (threadIdx.x == 7) return;
    distwar::reduce_tree(HERE, true, 0, val, distwar::record<float>{to, K});
}

const std::string other_key = "a uniform_key differs between lanes of a call: lanes 0, 7\n";
const std::string other_sink =
    "a sink that is addressed by key differs between lanes of a call, in its base or stride: lanes 0, 7\n";
const std::string stride_below = "the stride of a sink is below its number of values\n";

void expect_refusal(void (*kernel)(float *), const std::string &reason) {
    const device_array<float> to(std::vector<float>(64, 0.0f));
    for (unsigned seed = 0; seed < 4; ++seed) {
        set_schedule(seed);
        simt_refusal_clear();
        testing::internal::CaptureStderr();
        EXPECT_EQ(launch(cudaStream_t(0), 1, 32, kernel, to.get()), cudaErrorLaunchFailure);
        testing::internal::GetCapturedStderr();
        cudaGetLastError();
        const std::string message = simt_refusal();
        EXPECT_NE(message.find("simt: refused: " + reason), std::string::npos) << message;
        EXPECT_NE(message.find("mistakes.cu:" + std::to_string(call_line) + " ("), std::string::npos)
            << message;
    }
    set_schedule(0);
    simt_refusal_clear();
}

TEST(Mistakes, AUniformKeyThatDiffers) {
    expect_refusal(other_uniform_key, other_key);
    expect_refusal(other_uniform_key_by_default, other_key);
    expect_refusal(other_uniform_key_of_a_counter, other_key);
    expect_refusal(other_uniform_key_of_a_group, other_key);
}
TEST(Mistakes, ASinkThatDiffers) {
    expect_refusal(other_base, other_sink);
    expect_refusal(other_stride, other_sink);
    expect_refusal(other_base_in_bfly, other_sink);
    expect_refusal(other_base_in_a_group, other_sink);
    expect_refusal(other_base_by_default, other_sink);
}
TEST(Mistakes, CountersThatDiffer) {
    expect_refusal(other_counters, "the counters of a call differ between its lanes: lanes 0, 7\n");
}
TEST(Mistakes, KeysOfOneGroupThatDiffer) {
    const std::string reason = "lanes of one group pass different keys in at_key: lanes ";
    expect_refusal(other_key_in_a_group, reason + "3, 7\n");
    expect_refusal(other_key_of_one_group, reason + "0, 7\n");
}
TEST(Mistakes, PointersOfOneKeyThatDiffer) {
    expect_refusal(other_pointers, "lanes with one key pass different addresses in pointers: lanes 3, 7\n");
}
TEST(Mistakes, AStrideBelowTheNumberOfValues) {
    expect_refusal(small_stride, stride_below);
    expect_refusal(small_stride_by_count, stride_below);
    expect_refusal(small_stride_of_vectors, stride_below);
    expect_refusal(small_stride_of_pairs, stride_below);
    expect_refusal(small_stride_of_a_field, stride_below);
    expect_refusal(small_stride_in_shared, stride_below);
    expect_refusal(small_stride_of_hot_slots, stride_below);
}
TEST(Mistakes, AMissingLaneIsSaidWithTheLineOfTheCall) {
    expect_refusal(early_return,
                   "a mask contains exited lanes: warp 0, lanes 0-6, 8-31 at __ballot_sync cannot wait for "
                   "lane 7\n");
}

// Not addressed by key: each lane may hold its own.
struct own_place {
    float *place;
    template <int N>
    __device__ void add(int, const float (&values)[N]) const {
        distwar::atomic_add(place, values[0]);
    }
};
// Addressed by key, with padding: bits that lanes do not promise.
struct padded_record : distwar::record<float> {
    char letter;
};
static_assert(sizeof(padded_record) > sizeof(distwar::record<float>) + sizeof(char));

// After a call its line is where a lane was seen last; two calls in turn may have other sinks.
__global__ void right_calls(float *to) {
    distwar::reduce_tree(all_lanes, true, distwar::uniform_key{0}, val, distwar::record<float>{to, K});
    distwar::reduce_tree(all_lanes, true, distwar::uniform_key{1}, val, distwar::record<float>{to + 1, K});
    float *const mine = to + (threadIdx.x % 4); // other addresses for other keys, any in inactive lanes
    distwar::reduce_tree(all_lanes, threadIdx.x > 3, threadIdx.x % 4 + 8 * (threadIdx.x < 4), val,
                         distwar::pointers{mine, mine + 4, mine + 8});
    distwar::reduce_serial(all_lanes, true, 0, val, own_place{mine});
    const auto groups = distwar::group_lanes(all_lanes, threadIdx.x > 3, threadIdx.x % 4);
    groups.add(val, distwar::record<float>{to, K},
               distwar::at_key{threadIdx.x % 4 / 2 + 8 * (threadIdx.x < 4)});
    const distwar::fields<float, 1, distwar::may_be_null(2)> some = {{to, 1}, {nullptr, 0}};
    distwar::reduce(all_lanes, true, 0, val, some);
    padded_record padded;
    memset(static_cast<void *>(&padded), int(threadIdx.x), sizeof padded);
    padded.base = to, padded.stride = K, padded.letter = 'a';
    distwar::reduce_tree(all_lanes, true, 0, val, padded);
    using pairs = distwar::record_of_pairs<__half2>; // 3 values in 2 pairs
    distwar::reduce_atomic(all_lanes, true, 0, val, pairs{reinterpret_cast<__half2 *>(to + 16), 2});
    distwar::reduce_serial(HERE, true, 0, val, distwar::record<float>{to, K});
    if (threadIdx.x > 0) return;
    for (int i = 0; i < 100; ++i) __threadfence(); // until the others have returned
    __trap();
}
TEST(Mistakes, AreNotSeenInRightCalls) {
    const device_array<float> to(std::vector<float>(64, 0.0f));
    testing::internal::CaptureStderr();
    EXPECT_EQ(launch(cudaStream_t(0), 1, 32, right_calls, to.get()), cudaErrorLaunchFailure);
    testing::internal::GetCapturedStderr();
    cudaGetLastError();
    const std::string message = simt_refusal();
    EXPECT_NE(message.find("__trap() was called"), std::string::npos) << message;
    EXPECT_NE(message.find("lanes 1-31: exited, last seen at "), std::string::npos) << message;
    EXPECT_NE(message.find("mistakes.cu:" + std::to_string(call_line) + "\n"), std::string::npos) << message;
    simt_refusal_clear();
}

} // namespace
