// SPDX-License-Identifier: MIT
// Uses that must not compile, one for each value of WRONG_USE from 1, with the reason that the compiler's message gives.
// With WRONG_USE=0 the file has correct uses only and must compile.

#include <distwar/block.cuh>
#include <distwar/fixed.cuh>
#include <distwar/group.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/queue.cuh>
#include <distwar/reduce.cuh>
#include <distwar/sink.cuh>
#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>

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
                    not_trivial *c, __half2 *base_of_pairs, __nv_bfloat162 *base_of_bfloat16,
                    const int *key_of_slot) {
    const float val[2] = {1, 2};
    const float *const one = val;
    const __half2 pairs[3] = {base_of_pairs[0], base_of_pairs[1], base_of_pairs[2]};
    (void)base, (void)base_of_doubles, (void)counters, (void)a, (void)b, (void)c, (void)one, (void)pairs;
    (void)base_of_bfloat16, (void)key_of_slot;
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
    reduce_atomic(all_lanes, true, 0, pairs, record<__half2>{base_of_pairs, 3});
    reduce_tree(all_lanes, true, uniform_key{0}, pairs, aligned_record{base_of_pairs, 4});
    reduce_tree(all_lanes, true, 0, pairs, record<__half2, maximum>{base_of_pairs, 3});
    reduce(all_lanes, true, 0, pairs,
           fields_with<minimum, scope::block, __half2, 2, 1>{{base_of_pairs, 2}, {base_of_pairs, 1}});
    group_lanes(all_lanes, true, 0).add(pairs, planes<__half2, multiply>{base_of_pairs, 1});
    reduce_bfly(all_lanes, true, 0, pairs, aligned_record<__half2, scope::system>{base_of_pairs, 4});
    atomic_update(base_of_pairs, pairs[0], minimum{});
    __shared__ accumulator<9, 4> sums;
    sums.flush(key_of_slot, 4, record<float>{base, 12});
    (void)existing_lanes<256>();
#elif WRONG_USE == 1  // the key must be an integer of 4 or 8 bytes
    reduce_serial(all_lanes, true, 0.5f, val, record<float>{base, 2});
#elif WRONG_USE == 2  // the key must be an integer of 4 or 8 bytes
    reduce_bfly(all_lanes, true, short(1), val, record<float>{base, 2});
#elif WRONG_USE == 3  // the key must be an integer of 4 or 8 bytes
    reduce_atomic(all_lanes, true, true, val, record<float>{base, 2});
#elif WRONG_USE == 4  // the values have another type than the sink
    reduce_serial(all_lanes, true, 0, val, record<unsigned>{counters, 2});
#elif WRONG_USE == 5  // the values have another type than the sink
    reduce_bfly(all_lanes, true, 0, val, planes<unsigned>{counters, 2});
#elif WRONG_USE == 6  // the sink has another number of addresses than there are values
    reduce_serial(all_lanes, true, 0, val, pointers{base});
#elif WRONG_USE == 7  // the values have another type than the sink
    reduce_serial(all_lanes, true, 0, val, pointers{counters, counters});
#elif WRONG_USE == 8  // a sink takes at least one value
    pointers<0, float> none;
    (void)none;
#elif WRONG_USE == 9  // a sink takes float, double or integers of 4 or 8 bytes
    reduce_serial(all_lanes, true, 0, val, record<short>{nullptr, 2});
#elif WRONG_USE == 10 // atomic_update needs a type of 2, 4 or 8 bytes
    atomic_update(a, three_bytes{}, replace{});
#elif WRONG_USE == 11 // atomic_update needs a type aligned to its size
    atomic_update(b, loose{}, replace{});
#elif WRONG_USE == 12 // atomic_update needs a trivially copyable type
    atomic_update(c, *c, replace{});
#elif WRONG_USE == 13 // reduce_fixed takes float or double
    const int integers[2] = {1, 2};
    reduce_fixed(all_lanes, true, 0, integers, record<long long>{nullptr, 2}, fixed_format<2, int>{});
#elif WRONG_USE == 14 // the values have another type than the sink
    reduce_fixed(all_lanes, true, 0, val, record<float>{base, 2}, fixed_format<2>{});
#elif WRONG_USE == 15 // fixed_format counts 2.6 to 2.62 adds
    fixed_format<2, float, 63> no_room;
    (void)no_room;
#elif WRONG_USE == 16 // the values have another type than the sink
    const double doubles[2] = {1, 2};
    reduce_serial(all_lanes, true, 0, doubles, record<__half>{nullptr, 2});
#elif WRONG_USE == 17 // a sink of pairs takes __half2 or __nv_bfloat162
    reduce_serial(all_lanes, true, 0, val, record_of_pairs<float2>{nullptr, 2});
#elif WRONG_USE == 18 // the key must be an integer of 4 or 8 bytes
    reduce_tree(all_lanes, true, uniform_key{0.5}, val, record<float>{base, 2});
#elif WRONG_USE == 19 // more than 64 values need a sink addressed by key
    const float many[65] = {};
    reduce_tree(all_lanes, true, 0, many, pointers<65, float>{});
#elif WRONG_USE == 20 // a tree takes float, double or integers of 4 or 8 bytes
    const short integers[2] = {1, 2};
    short total[1];
    tree_total(true, integers, total);
#elif WRONG_USE == 21 // the values have another type than the sink
    reduce_tree(all_lanes, true, 0, val, record<unsigned>{counters, 2});
#elif WRONG_USE == 22 // the values have another type than the sink
    const double doubles[2] = {1, 2};
    reduce_tree(all_lanes, true, 0, doubles, aligned_record{base, 4});
#elif WRONG_USE == 23 // reduce<> takes the strategies atomic, serial, bfly and tree
    reduce<strategy::fixed>(all_lanes, true, 0, val, record<float>{base, 2});
#elif WRONG_USE == 24 // reduce<> takes the strategies atomic, serial, bfly and tree
    reduce<strategy::cub>(all_lanes, true, 0, val, record<float>{base, 2});
#elif WRONG_USE == 25 // the fields hold another number of values than there are
    reduce_tree(all_lanes, true, 0, val, fields<float, 2, 1>{{base, 2}, {base, 1}});
#elif WRONG_USE == 26 // the values have another type than the sink
    reduce_tree(all_lanes, true, 0, val, fields<unsigned, 1, 1>{{counters, 1}, {counters, 1}});
#elif WRONG_USE == 27 // a field has at least one value
    fields<float, 2, 0> empty = {{base, 2}, {base, 0}};
    (void)empty;
#elif WRONG_USE == 28 // a counter is an integer of 4 or 8 bytes
    fetch_add(all_lanes, true, 0, 1.0f, base);
#elif WRONG_USE == 29 // the key must be an integer of 4 or 8 bytes
    fetch_add(all_lanes, true, 0.5f, counters);
#elif WRONG_USE == 30 // a queue counts in unsigned integers of 4 or 8 bytes
    append(all_lanes, true, 0, val[0], queue<float, int>{base, nullptr, 1});
#elif WRONG_USE == 31 // the key must be an integer of 4 or 8 bytes
    reduce(all_lanes, true, short(1), val, record<float>{base, 2});
#elif WRONG_USE == 32 // the key must be an integer of 4 or 8 bytes
    group_lanes(all_lanes, true, 0.5f).add(val, record<float>{base, 2});
#elif WRONG_USE == 33 // more than 64 values need a sink addressed by key
    const float many[65] = {};
    group_lanes(all_lanes, true, 0).add(many, pointers<65, float>{});
#elif WRONG_USE == 34 // the number of hot slots is a power of two
    hot_slots<3, 2> *three = nullptr;
    three->clear();
#elif WRONG_USE == 35 // hot slots need a sink addressed by key
    hot_slots<4, 2> *slots = nullptr;
    reduce_tree(all_lanes, true, 0, val, slots->sink(pointers{base, base + 1}));
#elif WRONG_USE == 36 // hot slots take no operator but add
    hot_slots<4, 2> *slots = nullptr;
    reduce_tree(all_lanes, true, 0, val, slots->sink(record<float, maximum>{base, 2}));
#elif WRONG_USE == 37 // bitwise operators take integers
    reduce_serial(all_lanes, true, 0, val, record<float, bit_or>{base, 2});
#elif WRONG_USE == 38 // the scope of a sink is block, device or system
    reduce_serial(all_lanes, true, 0, val, planes<float, distwar::add, scope(3)>{base, 2});
#elif WRONG_USE == 39 // the scope of a sink is block, device or system
    reduce_serial(all_lanes, true, 0, val, aligned_record<float, scope(3)>{base, 4});
#elif WRONG_USE == 40 // a tree takes at most 64 values
    const float many[65] = {};
    float total[3];
    tree_total(true, many, total);
#elif WRONG_USE == 41 // a number of values known at run time needs a sink addressed by key
    reduce_n(all_lanes, true, 0, 2, val, pointers{base, base + 1});
#elif WRONG_USE == 42 // a number of values known at run time needs a sink addressed by key
    group_lanes(all_lanes, true, 0).add_n<4>(2, val, pointers{base, base + 1});
#elif WRONG_USE == 43 // a chunk is a multiple of 4 values, at most 64
    reduce_n<strategy::serial, 6>(all_lanes, true, 0, 2, val, record<float>{base, 2});
#elif WRONG_USE == 44 // a chunk is a multiple of 4 values, at most 64
    reduce_n<strategy::bfly, 68>(all_lanes, true, 0, 2, val, record<float>{base, 2});
#elif WRONG_USE == 45 // the values are an array, a pointer or a callable
    reduce_n(all_lanes, true, 0, 2, 1.0f, record<float>{base, 2});
#elif WRONG_USE == 46 // reduce<> takes the strategies atomic, serial, bfly and tree
    reduce_n<strategy::fixed>(all_lanes, true, 0, 2, val, record<float>{base, 2});
#elif WRONG_USE == 47 // the values have another type than the sink
    reduce_n(
        all_lanes, true, 0, 2, [](int) { return 1.0; }, record<float>{base, 2});
#elif WRONG_USE == 48 // the fields hold another number of values than there are
    const float many[66] = {};
    reduce_tree(all_lanes, true, 0, many, fields<float, 60, 5>{{base, 60}, {base, 5}});
#elif WRONG_USE == 49 // the key must be an integer of 4 or 8 bytes
    reduce_n(all_lanes, true, 0.5, 2, val, record<float>{base, 2});
#elif WRONG_USE == 50 // values are float, double or integers of 4 or 8 bytes
    reduce_n(
        all_lanes, true, 0, 2, [](int) { return short(1); }, record<float>{base, 2});
#elif WRONG_USE == 51 // a sink is no pointer: write record<float>{pointer, stride}
    reduce(all_lanes, true, 0, val, base);
#elif WRONG_USE == 52 // a sink is no pointer: write record<float>{pointer, stride}
    group_lanes(all_lanes, true, 0).add(val, base);
#elif WRONG_USE == 53 // the values of a list have one type
    reduce(all_lanes, true, 0, values(float3{1, 2, 3}, 1.0), record<float>{base, 4});
#elif WRONG_USE == 54 // the key must be an integer of 4 or 8 bytes
    reduce(all_lanes, true, 0.5, val, record<float>{base, 2});
#elif WRONG_USE == 55 // the values have another type than the sink
    reduce(all_lanes, true, 0, val, in_shared(record<unsigned>{counters, 2}));
#elif WRONG_USE == 56 // a warp has bits 0 to 4
    float sums[2] = {1, 2};
    tree_of_lanes<-1, 2>(sums);
#elif WRONG_USE == 57 // a warp has bits 0 to 4
    float sums[2] = {1, 2};
    tree_of_lanes<3, 3>(sums);
#elif WRONG_USE == 58 // a warp has bits 0 to 4
    float sums[2] = {1, 2};
    tree_of_lanes<3, 6>(sums);
#elif WRONG_USE == 59 // a tree takes float, double or integers of 4 or 8 bytes
    short sums[2] = {1, 2};
    tree_of_lanes<0, 3>(sums);
#elif WRONG_USE == 60 // a tree takes at most 64 values
    float sums[65] = {};
    tree_of_lanes<0, 3>(sums);
#elif WRONG_USE == 61 // the values are float, double or integers of 4 or 8 bytes
    reduce(all_lanes, true, 0, short(1), record<int>{nullptr, 1});
#elif WRONG_USE == 62 // the values are float, double or integers of 4 or 8 bytes
    reduce(all_lanes, true, 0, float3{1, 2, 3}, record<float>{base, 4});
#elif WRONG_USE == 63 // the values have another type than the sink
    reduce(all_lanes, true, 0, 1, record<unsigned>{counters, 1});
#elif WRONG_USE == 64 // the values are float, double or integers of 4 or 8 bytes
    reduce(all_lanes, true, 0, __float2half_rn(1), record<__half>{nullptr, 1});
#elif WRONG_USE == 65 // a counter takes integers that are no wider than itself
    fetch_add(all_lanes, true, 0, 1ll, counters);
#elif WRONG_USE == 66 // a counter takes integers that are no wider than itself
    fetch_add(all_lanes, true, 0, 0.5f, counters);
#elif WRONG_USE == 67 // the key must be an integer of 4 or 8 bytes
    group_lanes(all_lanes, true, 0).add(val, record<float>{base, 2}, at_key{0.5f});
#elif WRONG_USE == 68 // a stride is an integer
    reduce(all_lanes, true, 0, val, record<float>{base, 2.0f});
#elif WRONG_USE == 69 // the values have another type than the sink
    reduce_n(all_lanes, true, 0, 2, counters, record<float>{base, 2});
#elif WRONG_USE == 70 // reduce_fixed takes float or double
    reduce_fixed(all_lanes, true, 0, pairs, record<long long>{nullptr, 3}, fixed_format<3, __half2>{});
#elif WRONG_USE == 71 // hot slots sum float, double or integers of 4 or 8 bytes
    hot_slots<4, 3, __half2> *slots = nullptr;
    slots->clear();
#elif WRONG_USE == 72 // an accumulator sums float, double or integers of 4 or 8 bytes
    accumulator<3, 4, __half2> *sums = nullptr;
    sums->clear();
#elif WRONG_USE == 73 // the values have another type than the sink
    reduce_serial(all_lanes, true, 0, pairs, aligned_record<float>{nullptr, 4});
#elif WRONG_USE == 74 // the values have another type than the sink
    reduce_tree(all_lanes, true, 0, pairs, record<__nv_bfloat162>{base_of_bfloat16, 3});
#elif WRONG_USE == 75 // the values have another type than the sink
    const float floats[3] = {1, 2, 3};
    reduce_tree(all_lanes, true, 0, floats, record<__half2>{base_of_pairs, 3});
#elif WRONG_USE == 76 // the values have another type than the sink
    reduce_serial(all_lanes, true, 0, pairs, aligned_record<__nv_bfloat162>{base_of_bfloat16, 4});
#elif WRONG_USE == 77 // bitwise operators take integers
    reduce_serial(all_lanes, true, 0, pairs, record<__half2, bit_xor>{base_of_pairs, 3});
#elif WRONG_USE == 78 // the fields hold another number of values than there are
    reduce_tree(all_lanes, true, 0, pairs, fields<__half2, 2, 2>{{base_of_pairs, 2}, {base_of_pairs, 2}});
#elif WRONG_USE == 79 // a block has 1 to 1024 threads
    (void)existing_lanes<2000>();
#elif WRONG_USE == 80 // an accumulator sums float, double or integers of 4 or 8 bytes
    __shared__ accumulator<2, 4, short> sums;
    sums.clear();
#endif
}
cudaError_t use_of_the_host() {
    using namespace distwar;
#if WRONG_USE == 81 // the key must be an integer of 4 or 8 bytes
    return histogram(key_counts<short>{}, cudaStream_t(0));
#elif WRONG_USE == 82 // a counter is an integer of 4 or 8 bytes
    return histogram(key_counts<int, float>{}, cudaStream_t(0));
#elif WRONG_USE == 83 // the index has signed integers of 4 or 8 bytes
    return sums_by_key(key_sums<float, unsigned>{}, cudaStream_t(0));
#elif WRONG_USE == 84 // sums have the type of the values, or are float for 16-bit values
    return sums_by_key(key_sums<float, int, double>{}, cudaStream_t(0));
#else
    const key_counts<long, size_t> counts = {};
    const key_sums<float, int64_t> sums = {};
    const cudaError_t error = histogram(counts, cudaStream_t(0));
    return error == cudaSuccess ? sums_by_key(sums, cudaStream_t(0)) : error;
#endif
}
