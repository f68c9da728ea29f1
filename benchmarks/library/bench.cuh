// SPDX-License-Identifier: MIT
// Shared by the programs that measure with Google Benchmark.
#pragma once

#include "device.h"
#include <benchmark/benchmark.h>
#include <math.h>
#include <stdlib.h>
#include <string>
#include <vector>
#ifndef __SIMT__
#include <cub/version.cuh>
#endif

template <typename T>
T *device_array(size_t count) {
    return static_cast<T *>(device_allocate(count * sizeof(T)));
}
template <typename T>
T *device_copy(const std::vector<T> &content) {
    T *const memory = device_array<T>(content.size());
    device_upload(memory, content.data(), content.size() * sizeof(T));
    return memory;
}
template <typename T>
std::vector<T> host_copy(const void *device, size_t count) {
    std::vector<T> content(count);
    device_download(content.data(), device, count * sizeof(T));
    return content;
}

// The root of the sum of squares of the differences, divided by that of the reference.
template <typename Found, typename Reference>
double relative_error(const std::vector<Found> &found, const std::vector<Reference> &reference) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        difference += (found[i] - reference[i]) * (found[i] - reference[i]);
        size += double(reference[i]) * reference[i];
    }
    return difference > 0 ? sqrt(difference / size) : 0;
}

// Milliseconds of the work that a call queues on the NULL stream.
template <typename Launch>
double time_of(gpu_timer &timer, const Launch &launch_once) {
    gpu_timer_start(&timer);
    launch_once();
    return gpu_timer_stop(&timer);
}

// A run whose time a repetition sets itself. `check` is called before the first and returns what is wrong, or NULL.
template <typename Check, typename Measure>
void register_run(const std::string &name, int repetitions, const Check &check, const Measure &repetition) {
    const auto checked = [=, passed = false](benchmark::State &state) mutable {
        const char *const wrong = passed ? nullptr : check();
        passed = !wrong;
        if (wrong)
            state.SkipWithError(wrong);
        else
            repetition(state);
    };
    benchmark::RegisterBenchmark(name.c_str(), checked)
        ->Iterations(1)
        ->Repetitions(repetitions)
        ->ReportAggregatesOnly()
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
}

// The time of a repetition that makes so many additions, and their rate.
template <typename Launch>
void measure_adds(benchmark::State &state, gpu_timer &timer, double adds, const Launch &launch_once) {
    for (auto _ : state) state.SetIterationTime(time_of(timer, launch_once) * 1e-3);
    state.counters["adds_per_second"] =
        benchmark::Counter(adds, benchmark::Counter::kIsIterationInvariantRate);
}

inline void add_context() {
    benchmark::AddCustomContext("device", device_name());
#ifndef __SIMT__
    benchmark::AddCustomContext("cuda_runtime", std::to_string(CUDART_VERSION));
    benchmark::AddCustomContext("cub", std::to_string(CUB_VERSION / 100000) + "." +
                                           std::to_string(CUB_VERSION / 100 % 1000) + "." +
                                           std::to_string(CUB_VERSION % 100));
#endif
}

// main() of a program that has the options of Google Benchmark alone.
template <typename Register>
int run_benchmarks(int count, char **arguments, const Register &register_all) {
    benchmark::Initialize(&count, arguments);
    if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
    add_context();
    register_all();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return EXIT_SUCCESS;
}
