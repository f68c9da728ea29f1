// SPDX-License-Identifier: MIT
// As wrong_use.cu, for the calls of a block and of the host.

#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>
#include <distwar/block.cuh>

__global__ void use(float *base, const int *key_of_slot) {
    (void)base, (void)key_of_slot;
    using namespace distwar;
#if WRONG_USE == 0
    __shared__ accumulator<9, 4> sums;
    sums.flush(key_of_slot, 4, record<float>{base, 12});
    (void)existing_lanes<256>();
#elif WRONG_USE == 1
    (void)existing_lanes<2000>();
#elif WRONG_USE == 2
    __shared__ accumulator<2, 4, short> sums;
    sums.clear();
#endif
}
cudaError_t use_of_the_host() {
    using namespace distwar;
#if WRONG_USE == 3
    return histogram(key_counts<short>{}, cudaStream_t(0));
#elif WRONG_USE == 4
    return histogram(key_counts<int, float>{}, cudaStream_t(0));
#elif WRONG_USE == 5
    return sums_by_key(key_sums<float, unsigned>{}, cudaStream_t(0));
#elif WRONG_USE == 6
    return sums_by_key(key_sums<float, int, double>{}, cudaStream_t(0));
#else
    const key_counts<long, size_t> counts = {};
    const key_sums<float, int64_t> sums = {};
    const cudaError_t error = histogram(counts, cudaStream_t(0));
    return error == cudaSuccess ? sums_by_key(sums, cudaStream_t(0)) : error;
#endif
}
