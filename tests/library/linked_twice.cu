// SPDX-License-Identifier: MIT
// Uses every public call. It is compiled twice into one program, so linking fails if a header defines a
// symbol that is not inline. LINKED_AS is the name of this copy's entry.

#include "device_test.cuh"
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>

template <distwar::strategy S>
__global__ void sum_of_lanes(float *target) {
    const float val[1] = {float(threadIdx.x)};
    distwar::reduce<S>(distwar::all_lanes, true, 0, val, distwar::record<float>{target, 1});
    distwar::atomic_update(target, 1.0f, distwar::add{});
}

// The same sum, 496, once by the block and once by an accumulator; 16 of it in half, and all in fixed point.
template <int Threads>
__global__ void sum_of_block(float *target, long long *units, distwar::fixed_format<1> format,
                             __half *small) {
    __shared__ distwar::block_sum_memory<1, Threads> memory;
    __shared__ distwar::accumulator<1, 1> gathered;
    __shared__ distwar::sort_memory<int, int, 2> pairs;
    const float val[1] = {float(threadIdx.x)};
    const int slot = 0;
    float sum[1];
    distwar::block_sum(val, memory, sum);
    if (threadIdx.x == 0) distwar::record<float>{target, 1}.add(0, sum);
    gathered.clear();
    distwar::reduce_tree(distwar::all_lanes, true, 0, val, gathered.sink());
    gathered.flush(&slot, 1, distwar::record<float>{target, 1});
    distwar::reduce_fixed(distwar::all_lanes, true, 0, val, distwar::record<long long>{units, 1}, format);
    distwar::reduce_serial(distwar::all_lanes, threadIdx.x == 16, 0, val, distwar::record<__half>{small, 1});
    distwar::bitonic_sort(pairs, 0);
}

float LINKED_AS() {
    const device_array<float> target(std::vector<float>(1, 0.0f));
    run(1, 32, sum_of_lanes<distwar::strategy::atomic>, target.get());
    run(1, 32, sum_of_lanes<distwar::strategy::serial>, target.get());
    run(1, 32, sum_of_lanes<distwar::strategy::bfly>, target.get());
    run(1, 32, sum_of_lanes<distwar::strategy::tree>, target.get());
    const device_array<long long> units(std::vector<long long>(1, 0));
    const device_array<unsigned> flag(std::vector<unsigned>(1, 0));
    const device_array<__half> small(std::vector<__half>(1, __float2half_rn(0)));
    run(1, 32, sum_of_block<32>, target.get(), units.get(), distwar::fixed_format<1>{{4}, flag.get()},
        small.get());
    return target.download()[0] + float(units.download()[0]) / 4 + __half2float(small.download()[0]);
}
