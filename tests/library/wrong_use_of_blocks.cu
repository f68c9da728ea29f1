// SPDX-License-Identifier: MIT
// As wrong_use.cu, for the calls of a block.

#include <distwar/bulk.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>

__global__ void use(float *base, const int *key_of_slot) {
    (void)base, (void)key_of_slot;
    using namespace distwar;
#if WRONG_USE == 0
    __shared__ accumulator<9, 4, float, 12> sums;
    bulk_flush(sums, key_of_slot, 4, record<float>{base, 12});
    bulk_flush_consecutive(sums, 0, 4, record<float>{base, 12});
    bulk_flush(sums, key_of_slot, 4, record_at<scope::block, float>{base, 12});
    __shared__ accumulator<2, 4, long long> fixed_sums;
    fixed_sums.flush(key_of_slot, 4, from_fixed(fixed_format<2>{}, record<float>{base, 2}));
    (void)existing_lanes<256>();
#elif WRONG_USE == 1
    __shared__ accumulator<9, 4> sums;
    bulk_flush(sums, key_of_slot, 4, record<float>{base, 12});
#elif WRONG_USE == 2
    __shared__ accumulator<9, 4> sums;
    bulk_flush_consecutive(sums, 0, 4, record<float>{base, 9});
#elif WRONG_USE == 3
    __shared__ accumulator<4, 4, float, 3> sums;
    sums.clear();
#elif WRONG_USE == 4
    __shared__ accumulator<8, 4, __half> sums;
    bulk_flush(sums, key_of_slot, 4, record<__half>{nullptr, 8});
#elif WRONG_USE == 5
    __shared__ accumulator<4, 4> sums;
    bulk_flush_consecutive(sums, 0.0f, 4, record<float>{base, 4});
#elif WRONG_USE == 6
    (void)existing_lanes<2000>();
#elif WRONG_USE == 7
    __shared__ accumulator<4, 4> sums;
    bulk_flush(sums, key_of_slot, 4, record_at<scope::system, float>{base, 4});
#endif
}
