// SPDX-License-Identifier: MIT
#include "device.h"
#include "fit/fit.h"
#include "gpu/adam.cuh"
#include "launch.cuh"
#include <distwar/fixed.cuh>

namespace {

// Differences are added as multiples of 2^-24, so that the order of the additions does not matter.
constexpr float units = 0x1p24f;

struct loss_sum {
    long long sum;
    unsigned flag;
};
static_assert(sizeof(loss_sum) <= L1_LOSS_BYTES, "L1_LOSS_BYTES");

enum { THREADS = 256, VALUES_A_THREAD = 8 };

__global__ void __launch_bounds__(THREADS)
    l1_loss_kernel(const float *value, const float *target, int64_t count, float slope, loss_sum *loss,
                   float *gradient) {
    const distwar::fixed_format<1> format = {{units}, &loss->flag};
    const int64_t first = int64_t(blockIdx.x) * THREADS * VALUES_A_THREAD + threadIdx.x;
    float mine[1] = {0};
    for (int j = 0; j < VALUES_A_THREAD; ++j) {
        const int64_t i = first + j * THREADS;
        if (i >= count) break;
        const float difference = value[i] - target[i];
        mine[0] += fabsf(difference);
        if (gradient) gradient[i] = difference > 0 ? slope : difference < 0 ? -slope : 0;
    }
    distwar::reduce_fixed(distwar::all_lanes, true, distwar::uniform_key{0}, mine,
                          distwar::record<long long>{&loss->sum, 1}, format);
}

} // namespace

void l1_loss(const float *value, const float *target, int64_t count, void *loss, float *gradient) {
    loss_sum *sum = static_cast<loss_sum *>(loss);
    DEVICE_CHECK(cudaMemsetAsync(sum, 0, sizeof *sum, NULL));
    DEVICE_CHECK(launch(NULL, blocks_for(count, THREADS * VALUES_A_THREAD), THREADS, l1_loss_kernel, value,
                        target, count, float(1.0 / double(count)), sum, gradient));
}

double l1_loss_read(const void *loss, int64_t count) {
    loss_sum sum;
    device_download(&sum, loss, sizeof sum);
    return sum.flag ? double(NAN) : double(sum.sum) / double(units) / double(count);
}

void adam_groups_step(float *value, const float *gradient, float *moments, const adam_group *groups,
                      int group_count, float rate, int64_t step) {
    int64_t count = 0, first = 0;
    for (int g = 0; g < group_count; ++g) count += groups[g].count;
    adam_array arrays[ADAM_MOST_ARRAYS];
    for (int g = 0; g < group_count; first += groups[g++].count) {
        const float its = groups[g].rate * rate;
        float *const m = moments + first;
        arrays[g] = {value + first, gradient + first, m, m + count, groups[g].count, 1, 1, its, its};
    }
    DEVICE_CHECK(adam_steps(arrays, group_count, adam_correction_at(step), NULL));
}
