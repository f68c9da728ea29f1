// SPDX-License-Identifier: MIT
// As wrong_use.cu, for pairs of 16-bit values.

#include <distwar/block.cuh>
#include <distwar/sink.cuh>
#include <distwar/fixed.cuh>
#include <distwar/group.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>

__global__ void use(__half2 *base, __nv_bfloat162 *other, const int *key_of_slot) {
    __half2 val[3] = {base[0], base[1], base[2]};
    (void)other, (void)key_of_slot, (void)val;
    using namespace distwar;
#if WRONG_USE == 0
    reduce_atomic(all_lanes, true, 0, val, record<__half2>{base, 3});
    reduce_tree(all_lanes, true, uniform_key{0}, val, aligned_record{base, 4});
    reduce_tree(all_lanes, true, 0, val, record<__half2, maximum>{base, 3});
    reduce(all_lanes, true, 0, val, fields_with<minimum, scope::block, __half2, 2, 1>{{base, 2}, {base, 1}});
    group_lanes(all_lanes, true, 0).add(val, planes<__half2, multiply>{base, 1});
    reduce_bfly(all_lanes, true, 0, val, aligned_record<__half2, scope::system>{base, 4});
    atomic_update(base, val[0], minimum{});
#elif WRONG_USE == 1
    reduce_fixed(all_lanes, true, 0, val, record<long long>{nullptr, 3}, fixed_format<3, __half2>{});
#elif WRONG_USE == 2
    hot_slots<4, 3, __half2> *slots = nullptr;
    slots->clear();
#elif WRONG_USE == 3
    accumulator<3, 4, __half2> *sums = nullptr;
    sums->clear();
#elif WRONG_USE == 4
    reduce_serial(all_lanes, true, 0, val, aligned_record<float>{nullptr, 4});
#elif WRONG_USE == 5
    reduce_tree(all_lanes, true, 0, val, record<__nv_bfloat162>{other, 3});
#elif WRONG_USE == 6
    const float floats[3] = {1, 2, 3};
    reduce_tree(all_lanes, true, 0, floats, record<__half2>{base, 3});
#elif WRONG_USE == 7
    reduce_serial(all_lanes, true, 0, val, aligned_record<__nv_bfloat162>{other, 4});
#elif WRONG_USE == 8
    reduce_serial(all_lanes, true, 0, val, record<__half2, bit_xor>{base, 3});
#elif WRONG_USE == 9
    reduce_tree(all_lanes, true, 0, val, fields<__half2, 2, 2>{{base, 2}, {base, 2}});
#endif
}
