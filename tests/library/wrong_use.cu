// SPDX-License-Identifier: MIT
// Uses that must not compile, one for each value of WRONG_USE from 1. With WRONG_USE=0 the file has correct
// uses only and must compile.

#include <distwar/queue.cuh>
#include <distwar/sink.cuh>
#include <distwar/fixed.cuh>
#include <distwar/group.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>

struct three_bytes {
    char bytes[3];
};
struct loose {
    float x, y; // 8 bytes, aligned to 4
};
struct not_trivial {
    int value;
    __device__ not_trivial(const not_trivial &other) : value(other.value) {}
};
struct replace {
    template <typename T>
    __device__ T operator()(T, T value) const {
        return value;
    }
};

__global__ void use(float *base, double *base_of_doubles, unsigned *counters, three_bytes *a, loose *b,
                    not_trivial *c) {
    const float val[2] = {1, 2};
    const float *const one = val;
    (void)base, (void)base_of_doubles, (void)counters, (void)a, (void)b, (void)c, (void)one;
    using namespace distwar;
#if WRONG_USE == 0
    reduce<strategy::bfly>(all_lanes, true, 0, val, record<float>{base, 2});
    reduce_serial(all_lanes, true, 0, val, record<float>{base, 2});
    reduce_bfly(all_lanes, true, 0ull, val, pointers{base, base + 1});
    reduce_atomic(all_lanes, true, 0l, val, planes<float>{base, 1});
    reduce_tree(all_lanes, true, uniform_key{0}, val, aligned_record{base, 4});
    atomic_update(base_of_doubles, 1.0, replace{});
    reduce_fixed(all_lanes, true, 0, val, record<long long>{nullptr, 2}, fixed_format<2>{});
    reduce_serial(all_lanes, true, 0, val, record_of_pairs<__half2>{nullptr, 1});
    const fields<float, 1, 1> two_arrays = {{base, 1}, {base, 1}};
    reduce(all_lanes, true, 0, val, two_arrays);
    group_lanes(all_lanes, true, 0).add(val, two_arrays);
    fetch_add(all_lanes, true, 0, 1u, counters);
    append(all_lanes, true, 0, val[0], queue<float>{base, counters, 1});
    hot_slots<4, 2> *const slots = nullptr;
    reduce_tree(all_lanes, true, 0, val, slots->sink(two_arrays));
    reduce_tree(all_lanes, true, 0, val, record<float, minimum>{base, 2});
    reduce_tree(all_lanes, true, 0, val, record<float, minimum, scope::system>{base, 2});
    reduce_bfly(all_lanes, true, 0, val, aligned_record<float, scope::block>{base, 4});
    const float many[65] = {};
    reduce_tree(all_lanes, true, 0, many, fields<float, 60, 5>{{base, 60}, {base, 5}});
    reduce_tree(all_lanes, true, 0, val, record<double>{base_of_doubles, 2});
    reduce_tree(all_lanes, true, 0, values(float3{1, 2, 3}, val[0]).of, record<float>{base, 4});
    reduce(all_lanes, true, 0, val[0], in_shared(record<float>{base, 1}));
    reduce_n(all_lanes, true, 0, 1, val, record<float>{base, 2});
    reduce_n<8>(
        all_lanes, true, 0, 9, [&](int k) { return many[k]; }, record<float>{base, 9});
    reduce_n(all_lanes, true, 0, 9, one, record<float>{base, 9});
    reduce(all_lanes, true, 0, 1ul, record<unsigned long>{nullptr, 1});
    const int stride = 2;
    reduce(all_lanes, true, 0, val, record<float>{base, stride});
    fetch_add(all_lanes, true, 0, 2, counters);
    group_lanes(all_lanes, true, 0).add_n(2, one, record<float>{base, 2}, at_key{1ll});
#elif WRONG_USE == 1
    reduce_serial(all_lanes, true, 0.5f, val, record<float>{base, 2});
#elif WRONG_USE == 2
    reduce_bfly(all_lanes, true, short(1), val, record<float>{base, 2});
#elif WRONG_USE == 3
    reduce_atomic(all_lanes, true, true, val, record<float>{base, 2});
#elif WRONG_USE == 4
    reduce_serial(all_lanes, true, 0, val, record<unsigned>{counters, 2});
#elif WRONG_USE == 5
    reduce_bfly(all_lanes, true, 0, val, planes<unsigned>{counters, 2});
#elif WRONG_USE == 6
    reduce_serial(all_lanes, true, 0, val, pointers{base});
#elif WRONG_USE == 7
    reduce_serial(all_lanes, true, 0, val, pointers{counters, counters});
#elif WRONG_USE == 8
    pointers<0, float> none;
    (void)none;
#elif WRONG_USE == 9
    reduce_serial(all_lanes, true, 0, val, record<short>{nullptr, 2});
#elif WRONG_USE == 10
    atomic_update(a, three_bytes{}, replace{});
#elif WRONG_USE == 11
    atomic_update(b, loose{}, replace{});
#elif WRONG_USE == 12
    atomic_update(c, *c, replace{});
#elif WRONG_USE == 13
    const int integers[2] = {1, 2};
    reduce_fixed(all_lanes, true, 0, integers, record<long long>{nullptr, 2}, fixed_format<2, int>{});
#elif WRONG_USE == 14
    reduce_fixed(all_lanes, true, 0, val, record<float>{base, 2}, fixed_format<2>{});
#elif WRONG_USE == 15
    fixed_format<2, float, 63> no_room;
    (void)no_room;
#elif WRONG_USE == 16
    const double doubles[2] = {1, 2};
    reduce_serial(all_lanes, true, 0, doubles, record<__half>{nullptr, 2});
#elif WRONG_USE == 17
    reduce_serial(all_lanes, true, 0, val, record_of_pairs<float2>{nullptr, 2});
#elif WRONG_USE == 18
    reduce_tree(all_lanes, true, uniform_key{0.5}, val, record<float>{base, 2});
#elif WRONG_USE == 19
    const float many[65] = {};
    reduce_tree(all_lanes, true, 0, many, pointers<65, float>{});
#elif WRONG_USE == 20
    const short integers[2] = {1, 2};
    short total[1];
    tree_total(true, integers, total);
#elif WRONG_USE == 21
    reduce_tree(all_lanes, true, 0, val, record<unsigned>{counters, 2});
#elif WRONG_USE == 22
    const double doubles[2] = {1, 2};
    reduce_tree(all_lanes, true, 0, doubles, aligned_record{base, 4});
#elif WRONG_USE == 23
    reduce<strategy::fixed>(all_lanes, true, 0, val, record<float>{base, 2});
#elif WRONG_USE == 24
    reduce<strategy::cub>(all_lanes, true, 0, val, record<float>{base, 2});
#elif WRONG_USE == 25
    reduce_tree(all_lanes, true, 0, val, fields<float, 2, 1>{{base, 2}, {base, 1}});
#elif WRONG_USE == 26
    reduce_tree(all_lanes, true, 0, val, fields<unsigned, 1, 1>{{counters, 1}, {counters, 1}});
#elif WRONG_USE == 27
    fields<float, 2, 0> empty = {{base, 2}, {base, 0}};
    (void)empty;
#elif WRONG_USE == 28
    fetch_add(all_lanes, true, 0, 1.0f, base);
#elif WRONG_USE == 29
    fetch_add(all_lanes, true, 0.5f, counters);
#elif WRONG_USE == 30
    append(all_lanes, true, 0, val[0], queue<float, int>{base, nullptr, 1});
#elif WRONG_USE == 31
    reduce(all_lanes, true, short(1), val, record<float>{base, 2});
#elif WRONG_USE == 32
    group_lanes(all_lanes, true, 0.5f).add(val, record<float>{base, 2});
#elif WRONG_USE == 33
    const float many[65] = {};
    group_lanes(all_lanes, true, 0).add(many, pointers<65, float>{});
#elif WRONG_USE == 34
    hot_slots<3, 2> *three = nullptr;
    three->clear();
#elif WRONG_USE == 35
    hot_slots<4, 2> *slots = nullptr;
    reduce_tree(all_lanes, true, 0, val, slots->sink(pointers{base, base + 1}));
#elif WRONG_USE == 36
    hot_slots<4, 2> *slots = nullptr;
    reduce_tree(all_lanes, true, 0, val, slots->sink(record<float, maximum>{base, 2}));
#elif WRONG_USE == 37
    reduce_serial(all_lanes, true, 0, val, record<float, bit_or>{base, 2});
#elif WRONG_USE == 38
    reduce_serial(all_lanes, true, 0, val, planes<float, distwar::add, scope(3)>{base, 2});
#elif WRONG_USE == 39
    reduce_serial(all_lanes, true, 0, val, aligned_record<float, scope(3)>{base, 4});
#elif WRONG_USE == 40
    const float many[65] = {};
    float total[3];
    tree_total(true, many, total);
#elif WRONG_USE == 41
    reduce_n(all_lanes, true, 0, 2, val, pointers{base, base + 1});
#elif WRONG_USE == 42
    group_lanes(all_lanes, true, 0).add_n<4>(2, val, pointers{base, base + 1});
#elif WRONG_USE == 43
    reduce_n<strategy::serial, 6>(all_lanes, true, 0, 2, val, record<float>{base, 2});
#elif WRONG_USE == 44
    reduce_n<strategy::bfly, 68>(all_lanes, true, 0, 2, val, record<float>{base, 2});
#elif WRONG_USE == 45
    reduce_n(all_lanes, true, 0, 2, 1.0f, record<float>{base, 2});
#elif WRONG_USE == 46
    reduce_n<strategy::fixed>(all_lanes, true, 0, 2, val, record<float>{base, 2});
#elif WRONG_USE == 47
    reduce_n(
        all_lanes, true, 0, 2, [](int) { return 1.0; }, record<float>{base, 2});
#elif WRONG_USE == 48
    const float many[66] = {};
    reduce_tree(all_lanes, true, 0, many, fields<float, 60, 5>{{base, 60}, {base, 5}});
#elif WRONG_USE == 49
    reduce_n(all_lanes, true, 0.5, 2, val, record<float>{base, 2});
#elif WRONG_USE == 50
    reduce_n(
        all_lanes, true, 0, 2, [](int) { return short(1); }, record<float>{base, 2});
#elif WRONG_USE == 51
    reduce(all_lanes, true, 0, val, base);
#elif WRONG_USE == 52
    group_lanes(all_lanes, true, 0).add(val, base);
#elif WRONG_USE == 53
    reduce(all_lanes, true, 0, values(float3{1, 2, 3}, 1.0), record<float>{base, 4});
#elif WRONG_USE == 54
    reduce(all_lanes, true, 0.5, val, record<float>{base, 2});
#elif WRONG_USE == 55
    reduce(all_lanes, true, 0, val, in_shared(record<unsigned>{counters, 2}));
#elif WRONG_USE == 56
    float sums[2] = {1, 2};
    tree_of_lanes<-1, 2>(sums);
#elif WRONG_USE == 57
    float sums[2] = {1, 2};
    tree_of_lanes<3, 3>(sums);
#elif WRONG_USE == 58
    float sums[2] = {1, 2};
    tree_of_lanes<3, 6>(sums);
#elif WRONG_USE == 59
    short sums[2] = {1, 2};
    tree_of_lanes<0, 3>(sums);
#elif WRONG_USE == 60
    float sums[65] = {};
    tree_of_lanes<0, 3>(sums);
#elif WRONG_USE == 61
    reduce(all_lanes, true, 0, short(1), record<int>{nullptr, 1});
#elif WRONG_USE == 62
    reduce(all_lanes, true, 0, float3{1, 2, 3}, record<float>{base, 4});
#elif WRONG_USE == 63
    reduce(all_lanes, true, 0, 1, record<unsigned>{counters, 1});
#elif WRONG_USE == 64
    reduce(all_lanes, true, 0, __float2half_rn(1), record<__half>{nullptr, 1});
#elif WRONG_USE == 65
    fetch_add(all_lanes, true, 0, 1ll, counters);
#elif WRONG_USE == 66
    fetch_add(all_lanes, true, 0, 0.5f, counters);
#elif WRONG_USE == 67
    group_lanes(all_lanes, true, 0).add(val, record<float>{base, 2}, at_key{0.5f});
#elif WRONG_USE == 68
    reduce(all_lanes, true, 0, val, record<float>{base, 2.0f});
#elif WRONG_USE == 69
    reduce_n(all_lanes, true, 0, 2, counters, record<float>{base, 2});
#endif
}
