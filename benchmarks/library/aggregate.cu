// SPDX-License-Identifier: MIT
// How fast warps add to records in global memory, over the axes of axes.h.
//
// Before a run is timed, its sums are compared with exact ones. A time is the time of one launch by CUDA
// events, after the L2 cache has been overwritten; the inputs alternate. Each warp makes enough calls for a
// launch of at least LONG_MS. Each run is repeated; the median, mean and deviation are reported. Arguments:
// those of Google Benchmark.
#include "aggregate.cuh"
#include "bench.cuh"
#include "launch.cuh"
#include "random.h"
#include <distwar/tune.h>
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <utility>
#include <vector>

namespace {

enum { REPETITIONS = 7, INPUTS = 3, MAX_STRIDE = 16, MOST_CALLS = 256 };
enum { CHECKED_WARPS = 256, CHECKED_CALLS = 16, CHECKED_TARGETS = 1 << 16 };
constexpr float LONG_MS = 0.25f; // a launch lasts that long, unless it makes the most calls

struct shape {
    axes::method method;
    int active, keys, K, targets, threshold;
    int calls = CHECKED_CALLS;
};

using kernel = void (*)(const slots *, int, uint32_t, int, void *, unsigned *);
// `tuned` runs the tree.
constexpr axes::method run_by(int m) {
    return m == axes::tuned ? axes::tree : axes::method(m);
}
template <int K, int... M>
kernel kernel_of(axes::method m, std::integer_sequence<int, M...>) {
    static const kernel all[] = {aggregate<run_by(M), K>...};
    return all[m];
}
// NULL if this CUB lacks the rival.
template <int K>
kernel kernel_of(axes::method m, int threshold) {
    static_assert(axes::record_stride<K> <= MAX_STRIDE, "the table has room for less");
    if (!HAS_WARP_REDUCE_BATCHED && (m == axes::cub_batched || m == axes::cub_looking)) return nullptr;
    if (m == axes::tree && threshold == 0) return aggregate<axes::tree, K, false>;
    return kernel_of<K>(m, std::make_integer_sequence<int, axes::methods>());
}
kernel kernel_of(axes::method m, int K, int threshold) {
    switch (K) {
    case 1:
        return kernel_of<1>(m, threshold);
    case 4:
        return kernel_of<4>(m, threshold);
    case 9:
        return kernel_of<9>(m, threshold);
    case 16:
        return kernel_of<16>(m, threshold);
    default:
        return nullptr;
    }
}

// Inputs, tables and the timer live as long as the program.
struct bench {
    gpu_timer timer;
    void *table;
    unsigned *flag; // of reduce_fixed
    slots *input[INPUTS];
    std::vector<slots> first_input; // of the checked warps
    int active = -1, keys = -1;     // of the inputs
    unsigned next_input = 0;

    bench() {
        gpu_timer_open(&timer);
        table = device_array<long long>(size_t(1 << 20) * MAX_STRIDE);
        flag = device_array<unsigned>(1);
        device_clear(flag, sizeof *flag);
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
                slots *const given = &made[warp * 32];
                for (int call = 0; call < SLOTS; ++call) {
                    const uint64_t bits = random_bits(&random);
                    const unsigned odd = bits >> 8 | 1, offset = bits & 31;
                    const unsigned adds = active == axes::mixed ? 1 + (bits >> 40) % 32 : unsigned(active);
                    for (unsigned lane = 0; lane < 32; ++lane) {
                        const unsigned place = (lane * odd + offset) % 32;
                        given[lane] =
                            given[lane] << 8 | (place < adds ? place % unsigned(keys) : unsigned(NO_SLOT));
                    }
                }
            }
            device_upload(input[i], made.data(), made.size() * sizeof(slots));
            if (i == 0) first_input.assign(made.begin(), made.begin() + CHECKED_WARPS * 32);
        }
    }

    void run(const shape &s, const slots *given, int warps) {
        DEVICE_CHECK(launch(nullptr, warps * 32 / BLOCK, BLOCK, kernel_of(s.method, s.K, s.threshold), given,
                            s.calls, uint32_t(s.targets), s.threshold, table, flag));
    }
    double time(const shape &s) {
        return time_of(timer, [&] { run(s, input[next_input++ % INPUTS], WARPS); });
    }
};

// The exact sums of the checked warps.
std::vector<float> exact_sums(const shape &s, const std::vector<slots> &input) {
    const int stride = axes::stride_of(s.K);
    std::vector<float> sum(size_t(s.targets) * stride);
    for (uint32_t thread = 0; thread < CHECKED_WARPS * 32; ++thread) {
        uint32_t draw = first_draw(thread / 32);
        for (int call = 0; call < s.calls; ++call, draw = next_draw(draw)) {
            const unsigned slot = input[thread] >> (24 - 8 * (call % SLOTS)) & 0xff;
            if (slot == NO_SLOT) continue;
            const size_t key = (first_key(draw, s.targets) + slot) % s.targets;
            for (int k = 0; k < s.K; ++k) sum[key * stride + k] += value_of(thread, k);
        }
    }
    return sum;
}

bool is_right(bench &b, shape s) {
    s.targets = std::min(s.targets, int(CHECKED_TARGETS));
    const std::vector<float> expected = exact_sums(s, b.first_input);
    std::vector<float> found(expected.size());
    const bool fixed = s.method == axes::fixed;
    device_clear(b.table, expected.size() * (fixed ? sizeof(long long) : sizeof(float)));
    b.run(s, b.input[0], CHECKED_WARPS);
    if (fixed) {
        std::vector<long long> sums(expected.size());
        device_download(sums.data(), b.table, sums.size() * sizeof(long long));
        for (size_t i = 0; i < sums.size(); ++i) found[i] = float(double(sums[i]) / FIXED_SCALE);
    } else
        device_download(found.data(), b.table, found.size() * sizeof(float));
    return found == expected;
}

// Lets the tuner choose among all thresholds while the kernel runs. The threshold it settled on.
int tuned_threshold(bench &b, shape s) {
    std::vector<tune_candidate> candidates;
    for (const int threshold : axes::thresholds) candidates.push_back({axes::tree, threshold});
    tuner t;
    if (!tune_init(&t, candidates.data(), int(candidates.size()))) return -1;
    for (int launches = 0; launches < 5000 && !t.known; ++launches) {
        const tune_launch next = tune_choose(&t);
        s.threshold = next.threshold;
        const double ms = b.time(s);
        if (next.ticket >= 0) tune_report(&t, next.ticket, float(ms), 1);
    }
    return t.known ? t.candidates[t.best].threshold : -1;
}

// Called once a repetition; `s` and `checked` are the run's own.
void measure(benchmark::State &state, bench &b, shape &s, bool &checked) {
    b.make_inputs(s.active, s.keys);
    if (!checked) {
        if (!is_right(b, s)) {
            state.SkipWithError("wrong sums");
            return;
        }
        s.calls = 1;                 // one call of all warps to one target lasts over 20 ms
        b.run(s, b.input[0], WARPS); // the first launch takes longer
        while (s.calls < MOST_CALLS && b.time(s) < LONG_MS) s.calls *= 2;
        if (s.method == axes::tuned) s.threshold = tuned_threshold(b, s);
        if (s.threshold < 0) {
            state.SkipWithError("the tuner came to no end");
            return;
        }
        checked = true;
    }
    for (auto _ : state) state.SetIterationTime(b.time(s) * 1e-3);
    const double adds_a_call = (s.active == axes::mixed ? 16.5 : s.active) * s.K;
    state.counters["adds_per_second"] =
        benchmark::Counter(adds_a_call * s.calls * WARPS, benchmark::Counter::kIsIterationInvariantRate);
    if (s.method == axes::tuned) state.counters["chosen_threshold"] = s.threshold;
}

// Shapes with the same inputs follow one another.
void register_all(bench &b) {
    for (const int active : axes::active)
        for (const int keys : axes::keys)
            for (const int K : axes::values)
                for (const int targets : axes::targets)
                    for (int m = 0; m < axes::methods; ++m)
                        for (const int threshold : axes::thresholds) {
                            const shape s = {axes::method(m), active, keys, K, targets, threshold};
                            if (!axes::exists(s.method, active, keys, targets, threshold) ||
                                !kernel_of(s.method, K, threshold))
                                continue;
                            const std::string name =
                                std::string("aggregate/") + axes::method_name[m] +
                                "/active:" + std::to_string(active) + "/keys:" + std::to_string(keys) +
                                "/K:" + std::to_string(K) + "/targets:" + std::to_string(targets) +
                                "/threshold:" + std::to_string(threshold);
                            register_run(name, REPETITIONS,
                                         [&b, s = s, checked = false](benchmark::State &state) mutable {
                                             measure(state, b, s, checked);
                                         });
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

    add_context();
    if (!HAS_WARP_REDUCE_BATCHED)
        benchmark::AddCustomContext("cub_batched", "absent: cub::WarpReduceBatched came with CUB 3.4");
    bench b;
    register_all(b);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return EXIT_SUCCESS;
}
