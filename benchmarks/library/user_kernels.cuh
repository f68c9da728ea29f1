// SPDX-License-Identifier: MIT
// Shared by the benchmarks of user kernels: a case, its timed and checked variants, and the calls that they compare.
#pragma once

#include "bench.cuh"
#include "launch.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <distwar/block.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <distwar/sink.cuh>
#include <functional>
#include <random>
#include <type_traits>

namespace cg = cooperative_groups;

// How a kernel adds. Each has some of these; calls at nodes or corners are unrolled unless said.
enum class how {
    plain, // as in the other code base: cg::reduce of each value, then lane 0 adds; or atomics of each lane
    plain_looped,       // not unrolled: what the loop costs without any call
    plain_of_all_lanes, // in a loop that all lanes run equally often, as the calls need it
    one_call,           // reduce: with fields; of bins in shared memory with in_shared
    looped,             // not unrolled
    shared,             // with in_shared
    atomic,             // reduce_atomic: each lane adds, and needs no other lanes
    group,              // group_lanes and six adds; or by cell, one add for each node or corner, not unrolled
    tree,               // reduce_tree, not unrolled
    aligned,
    vectors,  // reduce to an aligned_record, and its vector atomics of each lane
    in_double // the reference
};

// The call of the library that H names: reduce, unless it is another.
template <how H, typename Key, typename Values, typename Sink>
DISTWAR_DEVICE void call(unsigned lanes, bool active, Key key, const Values &values, const Sink &sink) {
    if constexpr (H == how::tree)
        distwar::reduce_tree(lanes, active, key, values, sink);
    else if constexpr (H == how::atomic || H == how::vectors)
        distwar::reduce_atomic(lanes, active, key, values, sink);
    else if constexpr (H == how::shared)
        distwar::reduce(lanes, active, key, values, distwar::in_shared(sink));
    else
        distwar::reduce(lanes, active, key, values, sink);
}

// One case, which lives as long as the program: `make` puts its data on the device and calls make_sums() and refer_to();
// all its variants add to the sums.
template <typename Sum>
struct kernel_case {
    const std::string name;
    const double limit; // of the error
    std::function<void()> make;
    Sum *sums = nullptr; // device, [count]
    size_t count = 0;
    std::vector<double> reference; // the sums in double
    double plain = 0;              // milliseconds of the variant "plain"

    kernel_case(const std::string &named, double most) : name(named), limit(most) {}
    void make_sums(size_t size) { count = size, sums = device_array<Sum>(size); }
    // The reference is what a call adds to so many doubles.
    template <typename Launch>
    void refer_to(size_t size, const Launch &add_in_double) {
        double *const exact = device_array<double>(size);
        device_clear(exact, size * sizeof(double));
        add_in_double(exact);
        reference = host_copy<double>(exact, size);
        device_free(exact);
    }
    double error() const {
        std::vector<double> found;
        for (const Sum &sum : host_copy<Sum>(sums, count))
            if constexpr (std::is_same_v<Sum, __half2>)
                found.insert(found.end(), {__low2float(sum), __high2float(sum)});
            else
                found.push_back(sum);
        return relative_error(found, reference);
    }
};

// Milliseconds of a launch, the mean of ten in a row: each finds in the L2 what the one before left there.
inline double time_of_warm(const std::function<void()> &launch_once) {
    enum { LAUNCHES = 10 };
    static gpu_timer timer;
    if (!timer.begin) gpu_timer_open(&timer);
    launch_once();
    DEVICE_CHECK(cudaEventRecord(timer.begin));
    for (int i = 0; i < LAUNCHES; ++i) launch_once();
    return gpu_timer_stop(&timer) / LAUNCHES;
}

// Registers a variant: a launch and its kernel. Rows: time of one launch; `speedup` over the variant "plain", which comes
// first; `error`; registers and bytes of stack.
template <typename Case, typename Kernel, typename Launch>
void add_variant(Case *of, const std::string &name, Kernel kernel, const Launch &launch_once) {
    const auto body = [=,
                       error = -1.0](benchmark::State &state) mutable { // called several times
        cudaFuncAttributes attributes;
        if (!of->sums) of->make();
        DEVICE_CHECK(cudaFuncGetAttributes(&attributes, kernel));
        if (error < 0) {
            device_clear(of->sums, of->count * sizeof *of->sums);
            launch_once();
            error = of->error();
        }
        if (!(error <= of->limit)) {
            state.SkipWithError(("the sums are wrong: error " + std::to_string(error)).c_str());
            return;
        }
        double all = 0;
        for (auto _ : state) {
            device_clear(of->sums, of->count * sizeof *of->sums);
            const double once = time_of_warm(launch_once);
            state.SetIterationTime(once / 1000);
            all += once;
        }
        const double mean = all / double(state.iterations());
        if (name == "plain") of->plain = mean;
        if (of->plain > 0) state.counters["speedup"] = of->plain / mean;
        state.counters["error"] = error;
        state.counters["registers"] = attributes.numRegs;
        state.counters["stack"] = double(attributes.localSizeBytes);
    };
    benchmark::RegisterBenchmark((of->name + "/" + name).c_str(), body)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.02);
}
