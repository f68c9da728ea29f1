// SPDX-License-Identifier: MIT
// A translation unit that uses every public call; it is built twice into one program, so nothing in the
// headers may be defined twice. LINKED_AS names this copy's entry.

#include "device_test.cuh"
#include <distwar/reduce.cuh>

template <distwar::strategy S>
__global__ void sum_of_lanes(float *target) {
    const float val[1] = {float(threadIdx.x)};
    distwar::reduce<S>(distwar::all_lanes, true, 0, val, distwar::record<float>{target, 1});
    distwar::atomic_update(target, 1.0f, distwar::add{});
}

float LINKED_AS() {
    const device_array<float> target(std::vector<float>(1, 0.0f));
    run(1, 32, sum_of_lanes<distwar::strategy::atomic>, target.get());
    run(1, 32, sum_of_lanes<distwar::strategy::serial>, target.get());
    run(1, 32, sum_of_lanes<distwar::strategy::bfly>, target.get());
    run(1, 32, sum_of_lanes<distwar::strategy::tree>, target.get());
    return target.download()[0];
}
