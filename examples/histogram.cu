// SPDX-License-Identifier: MIT
// Counts samples in bins, with plain atomics and with distwar, and compares the counts.
#include "device.h"
#include "launch.cuh"
#include <distwar/reduce.cuh>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

enum { SAMPLES = 100'000, BINS = 8, BLOCK = 256 };

__global__ void by_plain_atomics(const int *bin_of, unsigned *count) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < SAMPLES) atomicAdd(&count[bin_of[i]], 1u);
}

__global__ void by_distwar(const int *bin_of, unsigned *count) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < SAMPLES; // no early return: all 32 lanes make the call
    distwar::reduce(distwar::all_lanes, active, active ? bin_of[i] : 0, 1u,
                    distwar::record<unsigned>{count, 1});
}

static std::vector<unsigned> counted(void (*kernel)(const int *, unsigned *), const int *bin_of) {
    std::vector<unsigned> count(BINS);
    unsigned *device_count = static_cast<unsigned *>(device_allocate(BINS * sizeof(unsigned)));
    device_clear(device_count, BINS * sizeof(unsigned));
    DEVICE_CHECK(launch(nullptr, blocks_for(SAMPLES, BLOCK), BLOCK, kernel, bin_of, device_count));
    device_download(count.data(), device_count, BINS * sizeof(unsigned));
    device_free(device_count);
    return count;
}

int main() {
    std::vector<int> bin_of(SAMPLES);
    for (int &bin : bin_of) bin = (rand() % BINS + rand() % BINS) / 2; // a triangle: the middle is crowded
    int *device_bin_of = static_cast<int *>(device_allocate(SAMPLES * sizeof(int)));
    device_upload(device_bin_of, bin_of.data(), SAMPLES * sizeof(int));

    const std::vector<unsigned> plain = counted(by_plain_atomics, device_bin_of);
    const std::vector<unsigned> summed = counted(by_distwar, device_bin_of);
    device_free(device_bin_of);

    printf("bin, samples by atomicAdd, by reduce:\n");
    unsigned total = 0;
    for (int bin = 0; bin < BINS; total += summed[bin++])
        printf("%d %6u %6u %.*s\n", bin, plain[bin], summed[bin], int(summed[bin] / 500),
               "##################################################");
    const bool right = plain == summed && total == SAMPLES;
    printf("%s\n", right ? "the same, and every sample counted" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
