// SPDX-License-Identifier: MIT
// Prints what one call of one warp costs, a line a case, counted by simt: every strategy with K values, so
// many active lanes and among them so many keys, which take turns; threshold 0, K values into a record.
// `votes` are with matches and reductions, `instructions` are of atomics, and `requests` those that single
// lanes make of them.

#include "device_test.cuh"
#include <distwar/reduce.cuh>
#include <inttypes.h>
#include <stdio.h>

namespace {

template <distwar::strategy S, int K>
__global__ void reduce_once(int active, int keys, float *records) {
    const int lane = int(threadIdx.x);
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    distwar::reduce<S>(distwar::all_lanes, lane < active, lane % keys, val,
                       distwar::record<float>{records, K});
}

template <int K>
void print_counts(distwar::strategy strategy, const char *name) {
    const device_array<float> records(std::vector<float>(32 * K, 0.0f));
    for (const int active : {1, 4, 8, 16, 32})
        for (int keys = 1; keys <= active; keys *= 2) {
            simt_counters_reset();
            distwar::with_strategy(
                strategy, [&](auto s) { run(1, 32, reduce_once<s, K>, active, keys, records.get()); });
            const simt_counters c = simt_counters_read();
            printf("%-8s %2d %6d %5d %8" PRIu64 " %5" PRIu64 " %12" PRIu64 " %8" PRIu64 "\n", name, K, active,
                   keys, c.shuffles, c.votes, c.atomic_instructions, c.atomic_requests);
        }
}

} // namespace

int main() {
    printf("strategy  K active  keys shuffles votes instructions requests\n");
    const struct {
        distwar::strategy strategy;
        const char *name;
    } all[] = {{distwar::strategy::atomic, "atomic"},
               {distwar::strategy::serial, "serial"},
               {distwar::strategy::bfly, "bfly"},
               {distwar::strategy::tree, "tree"}};
    for (const auto &each : all) {
        print_counts<1>(each.strategy, each.name);
        print_counts<4>(each.strategy, each.name);
        print_counts<9>(each.strategy, each.name);
        print_counts<16>(each.strategy, each.name);
    }
    return 0;
}
