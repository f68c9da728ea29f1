// SPDX-License-Identifier: MIT
// Calls in chunks: arrays of more than 64 values, and counts known at run time. Every value of every active
// lane is added once to its own place, nothing else is touched, and keys are compared once for all chunks.

#include "chunk_calls.cuh"
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <gtest/gtest.h>

using distwar::all_lanes;
using distwar::strategy;

namespace {

enum { CALLS = 16, SCHEDULES = 4 };

// Value k of a lane: 1..20. Sums of 32 of them are exact in all types.
__host__ __device__ int value_at(int warp, int lane, int k) {
    return 1 + (warp * 577 + lane * 131 + k * 31 + k / 7 * 3 + lane * k) % 20;
}

// ---- sinks: the place of value k of a key among 32 keys of `count` values, without room for more

template <typename T>
struct record_sink {
    static __host__ __device__ int place(int key, int k, int count) { return key * count + k; }
    static __device__ distwar::record<T> of(T *to, int count) { return {to, size_t(count)}; }
};
// Padding in place of values would become the minimum of the next record.
template <typename T>
struct minimum_sink : record_sink<T> {
    static __device__ distwar::record<T, distwar::minimum> of(T *to, int count) {
        return {to, size_t(count)};
    }
};
template <typename T>
struct planes_sink {
    static __host__ __device__ int place(int key, int k, int) { return k * KEYS + key; }
    static __device__ distwar::planes<T> of(T *to, int) { return {to, KEYS}; }
};
template <typename T>
struct aligned_sink {
    static __host__ __device__ int stride(int count) { return (count + 3) / 4 * 4; }
    static __host__ __device__ int place(int key, int k, int count) { return key * stride(count) + k; }
    static __device__ distwar::aligned_record<> of(T *to, int count) { return {to, size_t(stride(count))}; }
};
template <typename T>
struct pairs_sink {
    static __host__ __device__ int place(int key, int k, int count) {
        return key * ((count + 1) / 2 * 2) + k;
    }
    static __device__ distwar::record_of_pairs<__half2> of(T *to, int count) {
        return {reinterpret_cast<__half2 *>(to), size_t(count + 1) / 2};
    }
};
// 100 values in four arrays.
template <typename T>
struct fields_sink {
    static __host__ __device__ int place(int key, int k, int) {
        return k < 30   ? key * 30 + k
               : k < 31 ? KEYS * 30 + key
               : k < 64 ? KEYS * 31 + key * 33 + k - 31
                        : KEYS * 64 + key * 36 + k - 64;
    }
    static __device__ distwar::fields<T, 30, 1, 33, 36> of(T *to, int) {
        return {{to, 30}, {to + KEYS * 30, 1}, {to + KEYS * 31, 33}, {to + KEYS * 64, 36}};
    }
};
template <typename T>
struct user_sink {
    T *to;
    int count;
    static __host__ __device__ int place(int key, int k, int count) { return key * count + count - 1 - k; }
    static __device__ user_sink of(T *to, int count) { return {to, count}; }
    __device__ void add_one(int key, int k, T value) const {
        distwar::atomic_add(to + place(key, k, count), value);
    }
    template <int K>
    __device__ void add(int key, const T (&values)[K]) const {
        for (int k = 0; k < K; ++k) add_one(key, k, values[k]);
    }
};

// The values of inactive lanes are garbage, which no sum may contain.
template <typename Call, typename Sink, int K, typename T, typename V>
__global__ void add_array(const warp_call *calls, int size, T *to) {
    const warp_call &call = calls[blockIdx.x];
    const int lane = int(threadIdx.x);
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    V val[K];
    for (int k = 0; k < K; ++k) val[k] = active ? V(value_at(int(blockIdx.x), lane, k)) : V(1000);
    Call::add(call, active, call.key[lane], val, Sink::of(to + size_t(blockIdx.x) * size, K));
}
template <typename Call, typename Sink, int Bound, int Chunk, typename T, typename V>
__global__ void add_some(const warp_call *calls, int count, int size, T *to) {
    const warp_call &call = calls[blockIdx.x];
    const int lane = int(threadIdx.x);
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    V val[Bound];
    for (int k = 0; k < Bound; ++k)
        val[k] = active && k < count ? V(value_at(int(blockIdx.x), lane, k)) : V(1000);
    Call::template add_n<Chunk>(call, active, call.key[lane], count, val,
                                Sink::of(to + size_t(blockIdx.x) * size, count));
}
// wrong[0]: calls of value_of that are not the next one of an active lane. wrong[1]: calls that are missing.
template <typename Call, typename Sink, int Chunk, typename T, typename V>
__global__ void add_called(const warp_call *calls, int count, int size, T *to, int *wrong) {
    const warp_call &call = calls[blockIdx.x];
    const int lane = int(threadIdx.x), warp = int(blockIdx.x);
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    int next = 0;
    const auto value_of = [&](int k) {
        if (!active || k != next++) atomicAdd(&wrong[0], 1);
        return V(value_at(warp, lane, k));
    };
    Call::template add_n<Chunk>(call, active, call.key[lane], count, value_of,
                                Sink::of(to + size_t(blockIdx.x) * size, count));
    if (next != (active && count > 0 ? count : 0)) atomicAdd(&wrong[1], 1);
}

// ---- the check

template <typename T>
T from_int(int value) {
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(float(value));
    else
        return T(value);
}
template <typename T>
double to_double(T value) {
    if constexpr (std::is_same_v<T, __half>)
        return double(__half2float(value));
    else
        return double(value);
}

// launches(calls, size, to) adds into `size` places for each call.
template <template <typename> class Sink, typename T, typename Launch>
void check_sums(const std::vector<warp_call> &calls, int count, bool minimum, const Launch &launches) {
    const int values = count > 0 ? count : 0, size = KEYS * (values + 100); // fields_sink needs 100
    const int start = minimum ? 100 : 3;
    std::vector<double> expected(calls.size() * size, start);
    for (size_t i = 0; i < calls.size(); ++i)
        for (int lane = 0; lane < 32; ++lane) {
            if (!(calls[i].active >> lane & 1)) continue;
            for (int k = 0; k < values; ++k) {
                double &place = expected[i * size + Sink<T>::place(calls[i].key[lane], k, values)];
                const double value = value_at(int(i), lane, k);
                place = !minimum ? place + value : value < place ? value : place;
            }
        }
    const device_array<warp_call> device_calls(calls);
    const device_array<T> to(std::vector<T>(expected.size(), from_int<T>(start)));
    launches(device_calls.get(), size, to.get());
    const std::vector<T> found = to.download();
    for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(to_double(found[i]), expected[i])
            << "count " << count << ", place " << i % size << ": " << calls[i / size];
}
std::vector<warp_call> draw_calls(draw &random) {
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    return calls;
}

template <typename Call, template <typename> class Sink, int K, typename T, typename V = T>
void check_array(draw &random, bool minimum = false) {
    check_sums<Sink, T>(draw_calls(random), K, minimum, [&](const warp_call *calls, int size, T *to) {
        run(CALLS, 32, add_array<Call, Sink<T>, K, T, V>, calls, size, to);
    });
}
template <typename Call, template <typename> class Sink, int Bound, int Chunk, typename T, typename V = T>
void check_some(draw &random, int count, bool minimum = false) {
    check_sums<Sink, T>(draw_calls(random), count, minimum, [&](const warp_call *calls, int size, T *to) {
        run(CALLS, 32, add_some<Call, Sink<T>, Bound, Chunk, T, V>, calls, count, size, to);
    });
}
template <typename Call, template <typename> class Sink, int Chunk, typename T, typename V = T>
void check_called(draw &random, int count, bool minimum = false) {
    const device_array<int> wrong(std::vector<int>(2, 0));
    check_sums<Sink, T>(draw_calls(random), count, minimum, [&](const warp_call *calls, int size, T *to) {
        run(CALLS, 32, add_called<Call, Sink<T>, Chunk, T, V>, calls, count, size, to, wrong.get());
    });
    EXPECT_EQ(wrong.download(), std::vector<int>(2, 0)) << "count " << count;
}

// ---- arrays of more than 64 values

template <typename Call, int K, template <typename> class Sink = record_sink>
void check_arrays(bool is_minimum = false) {
    draw random(K);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_array<Call, Sink, K, float>(random, is_minimum);
        if (testing::Test::HasFailure()) return;
    }
}
// The lengths at which a last chunk has one value, and the array no longer lies in registers.
template <typename Call>
void check_lengths() {
    check_arrays<Call, 65>();
    check_arrays<Call, 129>();
    check_arrays<Call, 65, minimum_sink>(true);
}
TEST(Arrays, OfTheTree) {
    using tree = by_strategy<strategy::tree>;
    check_lengths<tree>();
    check_arrays<tree, 64>();
    check_arrays<tree, 96>();
    check_arrays<tree, 100>();
    check_arrays<tree, 128>();
}
TEST(Arrays, OfSerial) {
    check_lengths<by_strategy<strategy::serial>>();
}
TEST(Arrays, OfBfly) {
    check_lengths<by_strategy<strategy::bfly>>();
}
TEST(Arrays, OfAtomic) {
    check_lengths<by_strategy<strategy::atomic>>();
}
TEST(Arrays, OfAHandle) {
    check_lengths<by_group>();
}
TEST(Arrays, Of513Values) {
    draw random(513);
    check_array<by_strategy<strategy::tree>, record_sink, 513, float>(random);
    check_array<by_strategy<strategy::tree>, minimum_sink, 513, float>(random, true);
    check_array<by_strategy<strategy::tree>, aligned_sink, 513, float>(random);
    check_array<by_strategy<strategy::serial>, record_sink, 513, int>(random);
    check_array<by_strategy<strategy::bfly>, record_sink, 513, double>(random);
    check_array<by_group, planes_sink, 513, float>(random);
    check_array<by_group, record_sink, 513, float>(random);
}
TEST(Arrays, IntoEverySink) {
    using tree = by_strategy<strategy::tree>;
    draw random(7);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_array<tree, planes_sink, 100, double>(random);
        check_array<tree, aligned_sink, 99, float>(random);
        check_array<by_strategy<strategy::atomic>, aligned_sink, 99, float>(random);
        check_array<by_strategy<strategy::serial>, aligned_sink, 98, float>(random);
        check_array<tree, fields_sink, 100, float>(random);
        check_array<by_strategy<strategy::bfly>, fields_sink, 100, int>(random);
        check_array<tree, user_sink, 67, float>(random);
        check_array<tree, record_sink, 70, long long>(random);
        check_array<tree, record_sink, 65, unsigned>(random);
        check_array<tree, record_sink, 75, __half, float>(random);
        check_array<tree, pairs_sink, 75, __half, float>(random);
        check_array<by_strategy<strategy::atomic>, pairs_sink, 75, __half, float>(random);
        check_array<by_group, pairs_sink, 66, __half, float>(random);
        if (testing::Test::HasFailure()) return;
    }
}

// ---- counts known at run time

template <typename Call, int Chunk>
void check_counts() {
    draw random(Chunk);
    int schedule = 0;
    for (const int count : {-1, 0, 1, Chunk - 1, Chunk, Chunk + 1, 3 * Chunk + 2, 100}) {
        set_schedule(++schedule);
        check_called<Call, record_sink, Chunk, float>(random, count);
        check_called<Call, minimum_sink, Chunk, float>(random, count, true);
        if (testing::Test::HasFailure()) return;
    }
    for (const int count : {-1, 0, 1, Chunk - 1, Chunk, Chunk + 1, 99, 100}) {
        set_schedule(++schedule);
        if (count <= 100) check_some<Call, minimum_sink, 100, Chunk, float>(random, count, true);
        check_some<Call, record_sink, 130, Chunk, float>(random, count);
        if (testing::Test::HasFailure()) return;
    }
}
TEST(Counts, OfTheTree) {
    check_counts<by_strategy<strategy::tree>, 4>();
    check_counts<by_strategy<strategy::tree>, 16>();
    check_counts<by_strategy<strategy::tree>, 64>();
}
TEST(Counts, OfSerial) {
    check_counts<by_strategy<strategy::serial>, 12>();
}
TEST(Counts, OfBfly) {
    check_counts<by_strategy<strategy::bfly>, 8>();
}
TEST(Counts, OfAtomic) {
    check_counts<by_strategy<strategy::atomic>, 16>();
}
TEST(Counts, OfAHandle) {
    check_counts<by_group, 32>();
}
TEST(Counts, UpToTheLengthOfAnArray) {
    draw random(3);
    for (int count = 0; count <= 9; ++count)
        check_some<by_strategy<strategy::tree>, minimum_sink, 9, 16, float>(random, count, true);
    check_some<by_strategy<strategy::tree>, minimum_sink, 130, 16, float>(random, 130, true);
    check_some<by_strategy<strategy::tree>, minimum_sink, 130, 16, float>(random, 129, true);
}
TEST(Counts, Of513Values) {
    draw random(513);
    check_called<by_strategy<strategy::tree>, minimum_sink, 32, float>(random, 513, true);
    check_called<by_strategy<strategy::tree>, aligned_sink, 32, float>(random, 513);
    check_called<by_group, planes_sink, 16, double>(random, 513);
}
TEST(Counts, IntoEverySink) {
    using tree = by_strategy<strategy::tree>;
    draw random(8);
    for (const int count : {1, 7, 15, 16, 34, 100}) {
        set_schedule(count);
        check_called<tree, planes_sink, 16, int>(random, count);
        check_called<tree, aligned_sink, 16, float>(random, count);
        check_called<by_strategy<strategy::atomic>, aligned_sink, 8, float>(random, count);
        check_called<by_strategy<strategy::serial>, aligned_sink, 8, float>(random, count);
        // The values of an array behind the count are not 0.
        check_some<by_strategy<strategy::atomic>, aligned_sink, 100, 16, float>(random, count);
        check_some<by_strategy<strategy::serial>, pairs_sink, 100, 16, __half, float>(random, count);
        check_called<tree, fields_sink, 16, float>(random, count);
        check_called<tree, user_sink, 16, float>(random, count);
        check_called<tree, record_sink, 8, unsigned long long>(random, count);
        check_called<tree, record_sink, 8, __half, float>(random, count);
        check_called<tree, pairs_sink, 16, __half, float>(random, count);
        check_called<by_strategy<strategy::atomic>, pairs_sink, 4, __half, float>(random, count);
        if (testing::Test::HasFailure()) return;
    }
}

// Hot slots take both, and so does reduce_fixed.
template <int K>
__global__ void add_to_slots(const warp_call *calls, int count, float *to) {
    __shared__ distwar::hot_slots<8, K> slots;
    const distwar::record<float> table = {to + size_t(blockIdx.x) * KEYS * count, size_t(count)};
    slots.clear();
    for (int i = 0; i < 3; ++i) {
        warp_call call = calls[blockIdx.x];
        const int lane = int(threadIdx.x), warp = int(blockIdx.x);
        const bool active = call.active >> lane & 1;
        const auto value_of = [&](int k) { return float(value_at(warp, lane, k)); };
        distwar::reduce_n<16>(all_lanes, active, active ? call.key[lane] : 0, count, value_of,
                              slots.sink(table), call.threshold);
    }
    slots.flush(table);
}
TEST(Counts, IntoHotSlots) {
    draw random(11);
    for (const int count : {5, 40}) {
        const std::vector<warp_call> calls = draw_calls(random);
        std::vector<float> expected(size_t(CALLS) * KEYS * count, 0.0f);
        for (int i = 0; i < CALLS; ++i)
            for (int lane = 0; lane < 32; ++lane)
                if (calls[i].active >> lane & 1)
                    for (int k = 0; k < count; ++k)
                        expected[(i * KEYS + calls[i].key[lane]) * count + k] +=
                            3 * float(value_at(i, lane, k));
        const device_array<warp_call> device_calls(calls);
        const device_array<float> to(std::vector<float>(expected.size(), 0.0f));
        run(CALLS, 32, add_to_slots<40>, device_calls.get(), count, to.get());
        EXPECT_EQ(to.download(), expected);
    }
}

template <int K>
__global__ void add_fixed(const warp_call *calls, long long *to, unsigned *flag) {
    const warp_call &call = calls[blockIdx.x];
    const int lane = int(threadIdx.x), warp = int(blockIdx.x);
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    distwar::fixed_format<K> format;
    float val[K];
    for (int k = 0; k < K; ++k) {
        format.scale[k] = float(1 << k % 8);
        val[k] = active ? float(value_at(warp, lane, k)) : __int_as_float(0x7fc00000);
    }
    if (warp == 1 && active) val[K - 1] = __int_as_float(0x7fc00000);
    format.flag = flag + warp;
    distwar::reduce_fixed(call.lanes, active, call.key[lane], val,
                          distwar::record<long long>{to + size_t(warp) * KEYS * K, K}, format,
                          call.threshold);
}
TEST(Arrays, OfFixedPoint) {
    constexpr int K = 70;
    draw random(12);
    std::vector<warp_call> calls = draw_calls(random);
    calls[1].lanes = calls[1].active = all_lanes;
    for (int &key : calls[1].key) key &= 31;
    std::vector<long long> expected(size_t(CALLS) * KEYS * K, 0);
    for (int i = 0; i < CALLS; ++i)
        for (int lane = 0; lane < 32; ++lane)
            if (calls[i].active >> lane & 1)
                for (int k = 0; k < K - (i == 1); ++k)
                    expected[(i * KEYS + calls[i].key[lane]) * K + k] += (long long)(value_at(i, lane, k))
                                                                         << k % 8;
    const device_array<warp_call> device_calls(calls);
    const device_array<long long> to(std::vector<long long>(expected.size(), 0));
    const device_array<unsigned> flag(std::vector<unsigned>(CALLS, 0));
    run(CALLS, 32, add_fixed<K>, device_calls.get(), to.get(), flag.get());
    EXPECT_EQ(to.download(), expected);
    std::vector<unsigned> flags(CALLS, 0);
    flags[1] = distwar::fixed_nan;
    EXPECT_EQ(flag.download(), flags);
}

} // namespace
