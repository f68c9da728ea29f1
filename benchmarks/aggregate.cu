// SPDX-License-Identifier: MIT
// How fast warps add to records in global memory: distwar's calls and their rivals, over the axes of axes.h.
//
// Before a run is timed its sums are compared with exact ones. A time is that of one launch, by CUDA events,
// after the L2 cache was overwritten; inputs alternate. Each run is repeated, and its median, mean and
// deviation are reported. Arguments are those of Google Benchmark.
#include "aggregate.cuh"
#include "costs.h"
#include "device.h"
#include "launch.cuh"
#include "random.h"
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

namespace {

enum { REPETITIONS = 11, INPUTS = 3, CHECKED_WARPS = 256, MAX_STRIDE = 16 };

struct shape {
    axes::way way;
    int active, keys, K, targets, threshold;
};

using kernel = void (*)(const slots *, uint32_t, int, float *);
template <int K>
kernel kernel_of(axes::way w) {
    static_assert(axes::record_stride<K> <= MAX_STRIDE, "the table has room for less");
    switch (w) {
    case axes::atomic:
        return aggregate<axes::atomic, K>;
    case axes::serial:
        return aggregate<axes::serial, K>;
    case axes::bfly:
        return aggregate<axes::bfly, K>;
    case axes::tree:
        return aggregate<axes::tree, K>;
    case axes::tree_uniform:
        return aggregate<axes::tree_uniform, K>;
    case axes::cub:
        return aggregate<axes::cub, K>;
#if HAS_WARP_REDUCE_BATCHED
    case axes::cub_batched:
        return aggregate<axes::cub_batched, K>;
#endif
    case axes::cg:
        return aggregate<axes::cg, K>;
    default:
        return nullptr;
    }
}
kernel kernel_of(axes::way w, int K) {
    switch (K) {
    case 1:
        return kernel_of<1>(w);
    case 4:
        return kernel_of<4>(w);
    case 9:
        return kernel_of<9>(w);
    case 16:
        return kernel_of<16>(w);
    default:
        return nullptr;
    }
}

template <typename T>
T *device_array(size_t count) {
    return static_cast<T *>(device_allocate(count * sizeof(T)));
}

// Inputs, tables and the events live as long as the program.
struct bench {
    cudaEvent_t begin, end;
    void *scrubbed;
    size_t scrubbed_bytes;
    float *table;
    slots *input[INPUTS];
    std::vector<slots> first_input; // of the checked warps
    int active = 0, keys = 0;       // of the inputs
    unsigned next_input = 0;

    bench() {
        DEVICE_CHECK(cudaEventCreate(&begin));
        DEVICE_CHECK(cudaEventCreate(&end));
        cudaDeviceProp properties;
        DEVICE_CHECK(cudaGetDeviceProperties(&properties, 0));
        scrubbed_bytes = 2 * size_t(properties.l2CacheSize);
        scrubbed = device_allocate(scrubbed_bytes);
        table = device_array<float>(size_t(1 << 20) * MAX_STRIDE);
        for (slots *&one : input) one = device_array<slots>(size_t(WARPS) * 32);
    }

    // Each call of a warp takes its lanes in an order of its own; the first `active` of them add.
    void make_inputs(int wanted_active, int wanted_keys) {
        if (active == wanted_active && keys == wanted_keys) return;
        active = wanted_active, keys = wanted_keys;
        std::vector<slots> made(size_t(WARPS) * 32);
        for (int i = 0; i < INPUTS; ++i) {
            random_stream random = {uint64_t(i)};
            for (size_t warp = 0; warp < WARPS; ++warp) {
                uint8_t slot[32][TURNS];
                for (int turn = 0; turn < TURNS; ++turn) {
                    const uint64_t bits = random_bits(&random);
                    const unsigned odd = bits >> 8 | 1, offset = bits & 31;
                    for (unsigned lane = 0; lane < 32; ++lane) {
                        const unsigned place = (lane * odd + offset) % 32;
                        slot[lane][turn] =
                            uint8_t(place < unsigned(active) ? place % unsigned(keys) : unsigned(NO_SLOT));
                    }
                }
                memcpy(&made[warp * 32], slot, sizeof(slot));
            }
            device_upload(input[i], made.data(), made.size() * sizeof(slots));
            if (i == 0) first_input.assign(made.begin(), made.begin() + CHECKED_WARPS * 32);
        }
    }

    void run(const shape &s, const slots *given, int warps) {
        DEVICE_CHECK(launch(nullptr, warps * 32 / BLOCK, BLOCK, kernel_of(s.way, s.K), given,
                            uint32_t(s.targets), s.threshold, table));
    }
};

// The exact sums of the checked warps.
std::vector<float> exact_sums(const shape &s, const std::vector<slots> &input) {
    const int stride = axes::stride_of(s.K);
    std::vector<float> sum(size_t(s.targets) * stride);
    for (uint32_t thread = 0; thread < CHECKED_WARPS * 32; ++thread) {
        uint8_t slot[TURNS];
        memcpy(slot, &input[thread], sizeof(slot));
        for (uint32_t turn = 0; turn < TURNS; ++turn) {
            if (slot[turn] == NO_SLOT) continue;
            const size_t key = (first_key(thread / 32, turn, s.targets) + slot[turn]) % s.targets;
            for (int k = 0; k < s.K; ++k) sum[key * stride + k] += value_of(thread, turn, k);
        }
    }
    return sum;
}

bool is_right(bench &b, const shape &s) {
    const std::vector<float> expected = exact_sums(s, b.first_input);
    std::vector<float> found(expected.size());
    device_clear(b.table, expected.size() * sizeof(float));
    b.run(s, b.input[0], CHECKED_WARPS);
    device_download(found.data(), b.table, found.size() * sizeof(float));
    return found == expected;
}

// Called once a repetition; `checked` is the run's own.
void measure(benchmark::State &state, bench &b, const shape &s, bool &checked) {
    b.make_inputs(s.active, s.keys);
    if (!checked) {
        if (!is_right(b, s)) {
            state.SkipWithError("wrong sums");
            return;
        }
        b.run(s, b.input[0], WARPS); // the first launch takes longer
        checked = true;
    }
    for (auto _ : state) {
        DEVICE_CHECK(cudaMemsetAsync(b.scrubbed, int(b.next_input), b.scrubbed_bytes, nullptr));
        DEVICE_CHECK(cudaEventRecord(b.begin, nullptr));
        b.run(s, b.input[b.next_input++ % INPUTS], WARPS);
        DEVICE_CHECK(cudaEventRecord(b.end, nullptr));
        DEVICE_CHECK(cudaEventSynchronize(b.end));
        float ms = 0;
        DEVICE_CHECK(cudaEventElapsedTime(&ms, b.begin, b.end));
        state.SetIterationTime(ms * 1e-3);
    }
    const double adds_a_call = double(s.active) * s.K, adds = adds_a_call * TURNS * WARPS;
    state.counters["adds_per_second"] =
        benchmark::Counter(adds, benchmark::Counter::kIsIterationInvariantRate);
    if (has_stated_cost(s.way)) {
        const call_cost cost = cost_of(s.way, s.active, s.keys, s.K, s.threshold);
        state.counters["shuffles_per_add"] = cost.shuffles / adds_a_call;
        state.counters["atomic_instructions_per_add"] = cost.atomic_instructions / adds_a_call;
        state.counters["atomic_requests_per_add"] = cost.atomic_requests / adds_a_call;
    }
}

// Shapes with the same inputs follow one another.
void register_all(bench &b) {
    for (const int active : axes::active)
        for (const int keys : axes::keys)
            for (const int K : axes::values)
                for (const int targets : axes::targets)
                    for (int w = 0; w < axes::ways; ++w)
                        for (const int threshold : axes::thresholds) {
                            const shape s = {axes::way(w), active, keys, K, targets, threshold};
                            if (!axes::exists(s.way, active, keys, targets, threshold) ||
                                !kernel_of(s.way, K))
                                continue;
                            const std::string name =
                                std::string("aggregate/") + axes::way_name[w] +
                                "/active:" + std::to_string(active) + "/keys:" + std::to_string(keys) +
                                "/K:" + std::to_string(K) + "/targets:" + std::to_string(targets) +
                                "/threshold:" + std::to_string(threshold);
                            benchmark::RegisterBenchmark(
                                name.c_str(),
                                [&b, s, checked = false](benchmark::State &state) mutable {
                                    measure(state, b, s, checked);
                                })
                                ->Iterations(1)
                                ->Repetitions(REPETITIONS)
                                ->ReportAggregatesOnly()
                                ->UseManualTime()
                                ->Unit(benchmark::kMicrosecond);
                        }
}

} // namespace

int main(int argc, char **argv) {
    std::vector<char *> arguments(argv, argv + argc);
    std::string filter = std::string("--benchmark_filter=") + axes::default_filter;
    bool filtered = false;
    for (int i = 1; i < argc; ++i) filtered = filtered || strncmp(argv[i], "--benchmark_filter", 18) == 0;
    if (!filtered) arguments.push_back(&filter[0]);
    int count = int(arguments.size());
    arguments.push_back(nullptr);
    benchmark::Initialize(&count, arguments.data());
    if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;

    const std::string cub = std::to_string(CUB_VERSION / 100000) + "." +
                            std::to_string(CUB_VERSION / 100 % 1000) + "." +
                            std::to_string(CUB_VERSION % 100);
    benchmark::AddCustomContext("device", device_name());
    benchmark::AddCustomContext("cuda_runtime", std::to_string(CUDART_VERSION));
    benchmark::AddCustomContext("cub", cub);
    if (!HAS_WARP_REDUCE_BATCHED)
        benchmark::AddCustomContext("cub_batched", "absent: cub::WarpReduceBatched came with CUB 3.4");
    bench b;
    register_all(b);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return EXIT_SUCCESS;
}
