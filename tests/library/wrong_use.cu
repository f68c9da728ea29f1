// SPDX-License-Identifier: MIT
// Uses that must not compile, each below the message that the compiler must give. -DUSE_N=CHOSEN compiles the one of number
// N alone, -DRIGHT_USES right uses that no other test makes.

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

#define SECOND(first, second, ...) second
#define PICK(...) SECOND(__VA_ARGS__, SKIP, )
#define CHOSEN , KEEP
#define KEEP(...) __VA_ARGS__;
#define SKIP(...)
#define WRONG(number, ...) PICK(USE_##number)(__VA_ARGS__)

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
                    not_trivial *c, __half2 *base_of_pairs, __nv_bfloat162 *base_of_bfloat16) {
    using namespace distwar;
    [[maybe_unused]] const float val[2] = {1, 2}, three[3] = {1, 2, 3}, *const one = val;
    [[maybe_unused]] float many[65] = {}, two[2] = {1, 2};
    [[maybe_unused]] const double doubles[2] = {1, 2};
    [[maybe_unused]] const int ints[2] = {1, 2};
    [[maybe_unused]] short shorts[2] = {1, 2};
    [[maybe_unused]] const __half2 pairs[3] = {base_of_pairs[0], base_of_pairs[1], base_of_pairs[2]};
    [[maybe_unused]] hot_slots<4, 2> *const slots = nullptr;
#ifdef RIGHT_USES
    atomic_update(base_of_doubles, 1.0, replace{});
    const fields<float, 1, 1> two_arrays = {{base, 1}, {base, 1}};
    reduce_tree(all_lanes, true, 0, val, slots->sink(two_arrays));
    reduce_tree(all_lanes, true, 0, val, record<double>{base_of_doubles, 2});
    const int stride = 2;
    reduce(all_lanes, true, 0, val, record<float>{base, stride});
    reduce(all_lanes, true, 0, val, planes<float>{base, short(2)});
    reduce(all_lanes, true, 0, val, aligned_record{base, 4ll});
    reduce(all_lanes, true, 0, val, fields<float, 1, 1>{{base, 2ul}, {base, 2u}});
    fetch_add(all_lanes, true, 0, 2, counters);
    fetch_add(all_lanes, true, 0, (unsigned char)(2), counters);
    append(all_lanes, true, static_cast<long *>(nullptr));
#endif
    // distwar: the key must be an integer of 4 or 8 bytes
    WRONG(1, reduce_serial(all_lanes, true, 0.5f, val, record<float>{base, 2}))
    WRONG(18, reduce_tree(all_lanes, true, uniform_key{0.5}, val, record<float>{base, 2}))
    WRONG(29, fetch_add(all_lanes, true, 0.5f, counters))
    WRONG(31, reduce(all_lanes, true, short(1), val, record<float>{base, 2}))
    WRONG(32, group_lanes(all_lanes, true, 0.5f).add(val, record<float>{base, 2}))
    WRONG(67, group_lanes(all_lanes, true, 0).add(val, record<float>{base, 2}, at_key{0.5f}))
    // distwar: the values have another type than the sink
    WRONG(4, reduce_serial(all_lanes, true, 0, val, record<unsigned>{counters, 2}))
    WRONG(5, reduce_bfly(all_lanes, true, 0, val, planes<unsigned>{counters, 2}))
    WRONG(7, reduce_serial(all_lanes, true, 0, val, pointers{counters, counters}))
    WRONG(14, reduce_fixed(all_lanes, true, 0, val, record<float>{base, 2}, fixed_format<2>{}))
    WRONG(16, reduce_serial(all_lanes, true, 0, doubles, record<__half>{nullptr, 2}))
    WRONG(21, reduce_tree(all_lanes, true, 0, val, record<unsigned>{counters, 2}))
    WRONG(22, reduce_tree(all_lanes, true, 0, doubles, aligned_record{base, 4}))
    WRONG(26, reduce_tree(all_lanes, true, 0, val, fields<unsigned, 1, 1>{{counters, 1}, {counters, 1}}))
    WRONG(47, reduce_n(
                  all_lanes, true, 0, 2, [](int) { return 1.0; }, record<float>{base, 2}))
    WRONG(55, reduce(all_lanes, true, 0, val, in_shared(record<unsigned>{counters, 2})))
    WRONG(63, reduce(all_lanes, true, 0, 1, record<unsigned>{counters, 1}))
    WRONG(69, reduce_n(all_lanes, true, 0, 2, counters, record<float>{base, 2}))
    WRONG(73, reduce_serial(all_lanes, true, 0, pairs, aligned_record<float>{nullptr, 4}))
    WRONG(74, reduce_tree(all_lanes, true, 0, pairs, record<__nv_bfloat162>{base_of_bfloat16, 3}))
    WRONG(75, reduce_tree(all_lanes, true, 0, three, record<__half2>{base_of_pairs, 3}))
    WRONG(76, reduce_serial(all_lanes, true, 0, pairs, aligned_record<__nv_bfloat162>{base_of_bfloat16, 4}))
    // distwar: the sink has another number of addresses than there are values
    WRONG(6, reduce_serial(all_lanes, true, 0, val, pointers{base}))
    // distwar: a sink takes at least one value
    WRONG(8, pointers<0, float> none; (void)none)
    // distwar: a sink takes float, double or integers of 4 or 8 bytes
    WRONG(9, reduce_serial(all_lanes, true, 0, val, record<short>{nullptr, 2}))
    // distwar: atomic_update needs a type of 2, 4 or 8 bytes
    WRONG(10, atomic_update(a, three_bytes{}, replace{}))
    // distwar: atomic_update needs a type aligned to its size
    WRONG(11, atomic_update(b, loose{}, replace{}))
    // distwar: atomic_update needs a trivially copyable type
    WRONG(12, atomic_update(c, *c, replace{}))
    // distwar: reduce_fixed takes float or double
    WRONG(13, reduce_fixed(all_lanes, true, 0, ints, record<long long>{nullptr, 2}, fixed_format<2, int>{}))
    WRONG(70,
          reduce_fixed(all_lanes, true, 0, pairs, record<long long>{nullptr, 3}, fixed_format<3, __half2>{}))
    // distwar: fixed_format counts 2.6 to 2.62 adds
    WRONG(15, fixed_format<2, float, 63> no_room; (void)no_room)
    // distwar: a sink of pairs takes __half2 or __nv_bfloat162
    WRONG(17, reduce_serial(all_lanes, true, 0, val, record_of_pairs<float2>{nullptr, 2}))
    // distwar: more than 64 values need a sink addressed by key
    WRONG(19, reduce_tree(all_lanes, true, 0, many, pointers<65, float>{}))
    WRONG(33, group_lanes(all_lanes, true, 0).add(many, pointers<65, float>{}))
    // distwar: a tree takes float, double or integers of 4 or 8 bytes
    WRONG(20, short total[1]; tree_total(true, shorts, total))
    WRONG(59, tree_of_lanes<0, 3>(shorts))
    // distwar: reduce<> takes the strategies atomic, serial, bfly and tree
    WRONG(23, reduce<strategy::fixed>(all_lanes, true, 0, val, record<float>{base, 2}))
    // distwar: the fields hold another number of values than there are
    WRONG(25, reduce_tree(all_lanes, true, 0, val, fields<float, 2, 1>{{base, 2}, {base, 1}}))
    WRONG(48, reduce_tree(all_lanes, true, 0, many, fields<float, 60, 4>{{base, 60}, {base, 4}}))
    WRONG(78, reduce_tree(all_lanes, true, 0, pairs,
                          fields<__half2, 2, 2>{{base_of_pairs, 2}, {base_of_pairs, 2}}))
    // distwar: fields need at least one part
    WRONG(85, fields<float> none; (void)none)
    // distwar: a field has at least one value
    WRONG(27, fields<float, 2, 0> empty = {{base, 2}, {base, 0}}; (void)empty)
    // distwar: a counter is an integer of 4 or 8 bytes
    WRONG(28, fetch_add(all_lanes, true, 0, 1.0f, base))
    // distwar: a queue counts in unsigned integers of 4 or 8 bytes
    WRONG(30, append(all_lanes, true, 0, val[0], queue<float, int>{base, nullptr, 1}))
    // distwar: the number of hot slots is a power of two
    WRONG(34, hot_slots<3, 2> *others = nullptr; others->clear())
    // distwar: hot slots need a sink addressed by key
    WRONG(35, reduce_tree(all_lanes, true, 0, val, slots->sink(pointers{base, base + 1})))
    // distwar: hot slots take no operator but add
    WRONG(36, reduce_tree(all_lanes, true, 0, val, slots->sink(record<float, maximum>{base, 2})))
    // distwar: bitwise operators take integers
    WRONG(37, reduce_serial(all_lanes, true, 0, val, record<float, bit_or>{base, 2}))
    WRONG(77, reduce_serial(all_lanes, true, 0, pairs, record<__half2, bit_xor>{base_of_pairs, 3}))
    // distwar: a tree takes at most 64 values
    WRONG(40, float total[3]; tree_total(true, many, total))
    WRONG(60, tree_of_lanes<0, 3>(many))
    // distwar: a number of values known at run time needs a sink addressed by key
    WRONG(41, reduce_n(all_lanes, true, 0, 2, val, pointers{base, base + 1}))
    WRONG(42, group_lanes(all_lanes, true, 0).add_n<4>(2, val, pointers{base, base + 1}))
    // distwar: a chunk is a multiple of 4 values, at most 64
    WRONG(43, reduce_n<strategy::serial, 6>(all_lanes, true, 0, 2, val, record<float>{base, 2}))
    WRONG(44, reduce_n<strategy::bfly, 68>(all_lanes, true, 0, 2, val, record<float>{base, 2}))
    // distwar: the values are an array, a pointer or a callable
    WRONG(45, reduce_n(all_lanes, true, 0, 2, 1.0f, record<float>{base, 2}))
    // distwar: values are float, double or integers of 4 or 8 bytes
    WRONG(50, reduce_n(
                  all_lanes, true, 0, 2, [](int) { return short(1); }, record<float>{base, 2}))
    // distwar: a sink is no pointer: write record<float>{pointer, stride}
    WRONG(51, reduce(all_lanes, true, 0, val, base))
    WRONG(52, group_lanes(all_lanes, true, 0).add(val, base))
    // distwar: the values of a list have one type
    WRONG(53, reduce(all_lanes, true, 0, values(float3{1, 2, 3}, 1.0), record<float>{base, 4}))
    // distwar: a warp has bits 0 to 4
    WRONG(56, tree_of_lanes<-1, 2>(two))
    WRONG(57, tree_of_lanes<3, 3>(two))
    WRONG(58, tree_of_lanes<3, 6>(two))
    // distwar: the values are float, double or integers of 4 or 8 bytes
    WRONG(61, reduce(all_lanes, true, 0, short(1), record<int>{nullptr, 1}))
    WRONG(62, reduce(all_lanes, true, 0, float3{1, 2, 3}, record<float>{base, 4}))
    WRONG(64, reduce(all_lanes, true, 0, __float2half_rn(1), record<__half>{nullptr, 1}))
    // distwar: a counter takes integers that are no wider than itself
    WRONG(65, fetch_add(all_lanes, true, 0, 1ll, counters))
    WRONG(66, fetch_add(all_lanes, true, 0, 0.5f, counters))
    // distwar: a stride is an integer
    WRONG(68, reduce(all_lanes, true, 0, val, record<float>{base, 2.0f}))
    // distwar: hot slots sum float, double or integers of 4 or 8 bytes
    WRONG(71, hot_slots<4, 3, __half2> *others = nullptr; others->clear())
    // distwar: an accumulator sums float, double or integers of 4 or 8 bytes
    WRONG(72, accumulator<3, 4, __half2> *sums = nullptr; sums->clear())
    WRONG(80, __shared__ accumulator<2, 4, short> sums; sums.clear())
    // distwar: a block has 1 to 1024 threads
    WRONG(79, (void)existing_lanes<2000>())
}
// Values of 4 bytes into sinks of 8: the sum of a warp would wrap.
__global__ void narrow_into_wide() {
    using namespace distwar;
    [[maybe_unused]] const int ints[2] = {1, 2};
    // distwar: the values have another type than the sink
    WRONG(91, reduce(all_lanes, true, 0, 1u, record<unsigned long long>{nullptr, 1}))
    WRONG(92, reduce(all_lanes, true, 0, 1, record<long long>{nullptr, 1}))
    WRONG(93, reduce_tree(all_lanes, true, 0, ints, fields<long long, 1, 1>{{nullptr, 1}, {nullptr, 1}}))
    WRONG(94, group_lanes(all_lanes, true, 0).add(values(1u), pointers<1, unsigned long long>{}))
}
__global__ void levels(float *base) {
    using namespace distwar;
    constexpr determinism level = determinism::gpu_to_gpu;
    require<level>(planes<int, maximum>{nullptr, 2});
    require<level>(in_shared(fields<int, 1, 1>{{nullptr, 1}, {nullptr, 1}}));
    require<determinism::not_guaranteed>(record<float>{base, 2});
    // distwar: only sinks of integers hold a level
    WRONG(86, require<determinism::run_to_run>(in_shared(planes<float>{base, 2})))
    WRONG(87, require<level>(record<float, minimum>{base, 2}))
    WRONG(88, require<level>(aligned_record{base, 4}))
    // distwar: block_sum takes K x Threads values in 48 KB
    WRONG(89, __shared__ block_sum_memory<29, 1024> memory; (void)memory)
}
cudaError_t use_of_the_host() {
    using namespace distwar;
    // distwar: the key must be an integer of 4 or 8 bytes
    WRONG(81, return histogram(key_counts<short>{}, cudaStream_t(0)))
    // distwar: a counter is an integer of 4 or 8 bytes
    WRONG(82, return histogram(key_counts<int, float>{}, cudaStream_t(0)))
    // distwar: the index has signed integers of 4 or 8 bytes
    WRONG(83, return sums_by_key(key_sums<float, unsigned>{}, cudaStream_t(0)))
    // distwar: sums have the type of the values, or are float for 16-bit values
    WRONG(84, return sums_by_key(key_sums<float, int, double>{}, cudaStream_t(0)))
    // distwar: float sums of 16-bit values hold no level
    WRONG(90, return sums_by_key(require<determinism::run_to_run>(key_sums<__half, int, float>{}),
                                 cudaStream_t(0)))
    const key_counts<long, size_t> counts = {};
    const key_sums<float, int64_t> sums = {};
    const cudaError_t error = histogram(counts, cudaStream_t(0));
    return error == cudaSuccess ? sums_by_key(require<determinism::gpu_to_gpu>(sums), cudaStream_t(0))
                                : error;
}
