// SPDX-License-Identifier: MIT
// Mistakes that a GPU does not tell: simt refuses each with a message that names it, and the line of the call. Built
// for simt only.

#include "device_test.cuh"
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/queue.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using namespace distwar;

namespace {

int call_line; // of the wrong call, set by each kernel
unsigned here(int line = __builtin_LINE()) {
    call_line = line;
    return all_lanes;
}

enum { K = 3 };
const float val[K] = {1, 2, 3};

int seven() { // 1 in lane 7
    return threadIdx.x == 7;
}
using pairs = record_of_pairs<__half2>;
__global__ void small_stride_of_hot_slots(float *to) {
    __shared__ hot_slots<4, K> hot;
    hot.clear();
    reduce_tree(here(), true, 0, val, hot.sink(record<float>{to, K - 1}));
}

void expect_refusal(void (*kernel)(float *), const std::string &reason) {
    const device_array<float> to(64, {});
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

TEST(Mistakes, AreRefusedWithTheLineOfTheCall) {
    const std::string other_key = "a uniform_key differs between lanes of a call: lanes 0, 7\n",
                      other_sink =
                          "a sink that is addressed by key differs between lanes of a call, in its base or "
                          "stride: lanes 0, 7\n",
                      at_keys = "lanes of one group pass different keys in at_key: lanes ",
                      stride_below = "the stride of a sink is below its number of values\n";
    const struct {
        void (*kernel)(float *);
        std::string reason;
    } mistakes[] = {
#define CALL(...) [](float *to) { __VA_ARGS__; }
        {CALL(reduce_tree(here(), !seven(), uniform_key{seven()}, val, record<float>{to, K})), other_key},
        {CALL(reduce(here(), true, uniform_key{seven()}, val, pointers{to, to + 1, to + 2})), other_key},
        {CALL(fetch_add(here(), true, uniform_key{seven()}, reinterpret_cast<int *>(to))), other_key},
        {CALL(group_lanes(here(), true, uniform_key{seven()}).add(val, record<float>{to, K})), other_key},
        {CALL(reduce_tree(here(), threadIdx.x < 16, 0, val, record<float>{to + seven(), K})), other_sink},
        {CALL(reduce_serial(here(), true, 0, val, planes<float>{to, 1 + seven()})), other_sink},
        {CALL(reduce_bfly(here(), true, 0, val, aligned_record{to + 4 * seven(), 4})), other_sink},
        {CALL(group_lanes(here(), true, 0).add(val, record<float>{to + seven(), K})), other_sink},
        {CALL(reduce(here(), true, 0, val, record<float>{to + seven(), K})), other_sink},
        // Lanes 3, 7, ... have the key 3, and are one group.
        {CALL(reduce_tree(here(), threadIdx.x != 31, threadIdx.x % 4, val, pointers{to, to, to + seven()})),
         "lanes with one key pass different addresses in pointers: lanes 3, 7\n"},
        {CALL(group_lanes(here(), true, threadIdx.x % 4)
                  .add(val, record<float>{to, K}, at_key{seven() ? 5 : threadIdx.x % 4})),
         at_keys + "3, 7\n"},
        {CALL(group_lanes(here(), threadIdx.x != 3, uniform_key{0})
                  .add(val, record<float>{to, K}, at_key{threadIdx.x % 4 == 3 ? 1 : 2})),
         at_keys + "0, 7\n"},
        {CALL(fetch_add(here(), true, 0, reinterpret_cast<int *>(to) + seven())),
         "the counters of a call differ between its lanes: lanes 0, 7\n"},
        {CALL(reduce_atomic(here(), seven(), 0, val, record<float>{to, K - seven()})), stride_below},
        {CALL(reduce_n(here(), true, 0, K, val, record<float>{to, K - seven()})), stride_below},
        {CALL(reduce_atomic(here(), true, 0, val, aligned_record{to, 4 - 2 * seven()})), stride_below},
        {CALL(reduce_atomic(here(), true, 0, val,
                            pairs{reinterpret_cast<__half2 *>(to), size_t(2 - seven())})),
         stride_below},
        {CALL(reduce_atomic(here(), true, 0, val, fields<float, 1, 2>{{to, 1}, {to + 32, 2 - seven()}})),
         stride_below},
        {CALL(reduce(here(), true, 0, val, in_shared(fields<float, 2, 1>{{to, 1}, {to + 32, 1}}))),
         stride_below},
        {CALL(if (!seven()) reduce_tree(here(), true, 0, val, record<float>{to, K})),
         "a mask contains exited lanes: warp 0, lanes 0-6, 8-31 at __ballot_sync cannot wait for lane 7\n"},
        {small_stride_of_hot_slots, stride_below},
    };
    for (const auto &[kernel, reason] : mistakes) expect_refusal(kernel, reason);
}

// Not addressed by key: each lane may hold its own.
struct own_place {
    float *place;
    template <int N>
    __device__ void add(int, const float (&values)[N]) const {
        atomic_add(place, values[0]);
    }
};
// Addressed by key, with padding: bits that lanes do not promise.
struct padded_record : record<float> {
    char letter;
};
static_assert(sizeof(padded_record) > sizeof(record<float>) + sizeof(char));

// After a call its line is where a lane was seen last; two calls in turn may have other sinks.
__global__ void right_calls(float *to) {
    reduce_tree(all_lanes, true, uniform_key{0}, val, record<float>{to, K});
    reduce_tree(all_lanes, true, uniform_key{1}, val, record<float>{to + 1, K});
    float *const mine = to + (threadIdx.x % 4); // other addresses for other keys, any in inactive lanes
    reduce_tree(all_lanes, threadIdx.x > 3, threadIdx.x % 4 + 8 * (threadIdx.x < 4), val,
                pointers{mine, mine + 4, mine + 8});
    reduce_serial(all_lanes, true, 0, val, own_place{mine});
    const auto groups = group_lanes(all_lanes, threadIdx.x > 3, threadIdx.x % 4);
    groups.add(val, record<float>{to, K}, at_key{threadIdx.x % 4 / 2 + 8 * (threadIdx.x < 4)});
    padded_record padded;
    memset(static_cast<void *>(&padded), int(threadIdx.x), sizeof padded);
    padded.base = to, padded.stride = K, padded.letter = 'a';
    reduce_tree(all_lanes, true, 0, val, padded);
    using pairs = record_of_pairs<__half2>; // 3 values in 2 pairs
    reduce_atomic(all_lanes, true, 0, val, pairs{reinterpret_cast<__half2 *>(to + 16), 2});
    reduce_serial(here(), true, 0, val, record<float>{to, K});
    if (threadIdx.x > 0) return;
    for (int i = 0; i < 100; ++i) __threadfence(); // until the others have returned
    __trap();
}
TEST(Mistakes, AreNotSeenInRightCalls) {
    const device_array<float> to(64, {});
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
