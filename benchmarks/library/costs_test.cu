// SPDX-License-Identifier: MIT
// costs.h against simt's counters, at every place on the axes where a cost is stated.
#include "axes.h"
#include "costs.h"
#include "launch.cuh"
#include "simt.h"
#include <distwar/fixed.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <vector>

namespace {

// Lanes 0, stride, 2 stride ... are active; consecutive ones have different keys.
template <axes::method Method, int K>
__global__ void call_once(int active_lanes, int keys, int threshold, float *table, long long *sums) {
    const int stride = 32 / active_lanes, place = int(threadIdx.x) / stride;
    const bool active = int(threadIdx.x) % stride == 0;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    const distwar::record<float> sink = {table, K};
    using distwar::all_lanes;
    if constexpr (Method == axes::tree_uniform)
        distwar::reduce_tree(all_lanes, active, distwar::uniform_key<int>{0}, val, sink, threshold);
    else if constexpr (Method == axes::fixed) {
        unsigned flag = 0;
        distwar::fixed_format<K> format;
        for (float &scale : format.scale) scale = 1;
        format.flag = &flag;
        distwar::reduce_fixed(all_lanes, active, place % keys, val, distwar::record<long long>{sums, K},
                              format, threshold);
    } else
        distwar::reduce<axes::strategy_of<Method>>(all_lanes, active, place % keys, val, sink, threshold);
}

template <axes::method Method, int K>
void check_method() {
    std::vector<float> table(32 * K);
    std::vector<long long> sums(32 * K);
    for (const int active : axes::active)
        for (const int keys : axes::keys)
            for (const int threshold : axes::thresholds) {
                if (active == axes::mixed || !axes::exists(Method, active, keys, 32, threshold)) continue;
                SCOPED_TRACE(testing::Message() << axes::method_name[Method] << " K " << K << " active "
                                                << active << " keys " << keys << " threshold " << threshold);
                simt_counters_reset();
                ASSERT_EQ(launch(nullptr, 1, 32, call_once<Method, K>, active, keys, threshold, table.data(),
                                 sums.data()),
                          cudaSuccess);
                const simt_counters counted = simt_counters_read();
                const call_cost stated = cost_of(Method, active, keys, K, threshold);
                EXPECT_EQ(counted.shuffles, uint64_t(stated.shuffles));
                EXPECT_EQ(counted.atomic_instructions, uint64_t(stated.atomic_instructions));
                EXPECT_EQ(counted.atomic_requests, uint64_t(stated.atomic_requests));
            }
}
template <axes::method Method>
void check_every_k() {
    check_method<Method, 1>();
    check_method<Method, 4>();
    check_method<Method, 9>();
    check_method<Method, 16>();
}

TEST(Costs, AreWhatSimtCounts) {
    check_every_k<axes::atomic>();
    check_every_k<axes::serial>();
    check_every_k<axes::bfly>();
    check_every_k<axes::tree>();
    check_every_k<axes::tree_uniform>();
    check_every_k<axes::fixed>();
}

} // namespace
