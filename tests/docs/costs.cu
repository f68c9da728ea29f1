// SPDX-License-Identifier: MIT
// calls.md states the costs that simt counts.
#include "launch.cuh"
#include <distwar/reduce.cuh>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#ifdef __SIMT__
#include "simt.h"

namespace {

// Lanes 0, stride, 2 stride ... are active; consecutive ones have different keys.
template <distwar::strategy Strategy>
__global__ void add_nine(int active_lanes, int keys, float *table) {
    const int stride = 32 / active_lanes, place = int(threadIdx.x) / stride;
    float val[9];
    for (float &value : val) value = 1;
    distwar::reduce<Strategy>(distwar::all_lanes, int(threadIdx.x) % stride == 0, place % keys, val,
                              distwar::record<float>{table, 9});
}

template <distwar::strategy Strategy>
void count(std::ostringstream &row, int active, int keys) {
    float table[32 * 9] = {};
    simt_counters_reset();
    ASSERT_EQ(launch(nullptr, 1, 32, add_nine<Strategy>, active, keys, table), cudaSuccess);
    const simt_counters counted = simt_counters_read();
    row << ' ' << counted.shuffles << ", " << counted.atomic_instructions << ", " << counted.atomic_requests
        << " |";
}

TEST(Pages, StateTheCostsThatAreCounted) {
    std::ostringstream text;
    text << std::ifstream(CALLS).rdbuf();
    for (const int active : {1, 8, 32})
        for (const int keys : {1, 2, 4, 8, 16, 32}) {
            if (keys > (active == 32 ? 32 : 1)) continue;
            std::ostringstream row;
            row << "| " << active << " | " << keys << " |";
            count<distwar::strategy::atomic>(row, active, keys);
            count<distwar::strategy::serial>(row, active, keys);
            count<distwar::strategy::bfly>(row, active, keys);
            count<distwar::strategy::tree>(row, active, keys);
            EXPECT_NE(text.str().find(row.str() + "\n"), std::string::npos) << "calls.md lacks\n"
                                                                            << row.str();
        }
}

} // namespace
#endif
