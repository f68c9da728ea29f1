// SPDX-License-Identifier: MIT
// Shared by the programs that measure with Google Benchmark.
#ifndef BENCHMARKS_BENCH_CUH
#define BENCHMARKS_BENCH_CUH

#include "device.h"
#include <benchmark/benchmark.h>
#include <string>
#ifndef __SIMT__
#include <cub/version.cuh>
#endif

template <typename T>
T *device_array(size_t count) {
    return static_cast<T *>(device_allocate(count * sizeof(T)));
}

// Milliseconds of what a call queues on the NULL stream.
template <typename Launch>
double time_of(gpu_timer &timer, const Launch &launch_once) {
    gpu_timer_start(&timer);
    launch_once();
    return gpu_timer_stop(&timer);
}

// A run whose time the repetition sets itself.
template <typename Measure>
void register_run(const std::string &name, int repetitions, const Measure &repetition) {
    benchmark::RegisterBenchmark(name.c_str(), repetition)
        ->Iterations(1)
        ->Repetitions(repetitions)
        ->ReportAggregatesOnly()
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
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

#endif
