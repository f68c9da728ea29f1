// SPDX-License-Identifier: MIT
// Random calls of single warps, made by every call into every sink, beside a loop on the host: every value of every
// active lane is added once, to its own place, and nothing else is touched.
#ifndef CALLS_CUH
#define CALLS_CUH

#include "device_test.cuh"
#include "numbers.cuh"
#include <algorithm>
#include <cmath>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <ostream>

// ---- one call of one warp

struct warp_call {
    unsigned lanes, active; // active is a subset of lanes
    int threshold;          // -1..34
    int key[32];            // 0..31 in active lanes, garbage in the others
};

inline std::ostream &operator<<(std::ostream &out, const warp_call &call) {
    out << "lanes " << std::hex << call.lanes << ", active " << call.active << std::dec << ", threshold "
        << call.threshold << ", keys";
    for (int lane = 0; lane < 32; ++lane)
        if (call.active >> lane & 1) out << ' ' << lane << ':' << call.key[lane];
    return out;
}

// Half of the calls are of a whole warp, a third have one key, half have keys in runs of neighbours, and half have a key
// that most lanes hold.
inline warp_call draw_warp_call(draw &random) {
    warp_call call = {};
    call.lanes = 0xffffffff;
    if (random.below(2)) call.lanes = random.below(4) ? random.bits_or_one() : 1u << random.below(32);
    const unsigned all = distwar::all_lanes, one = 1u << random.below(32), some = random.bits();
    const unsigned active[] = {0, one, some, some | random.bits(), all, all};
    call.active = call.lanes & active[random.below(6)];
    const unsigned keys = random.below(3) ? 1 + random.below(32) : 1;
    const bool in_runs = random.below(2), uneven = random.below(2);
    const unsigned length = 1 + random.below(12); // mean of a run
    int key = int(random.below(keys));
    for (int lane = 0; lane < 32; ++lane) {
        if (!in_runs || random.below(length) == 0)
            key = uneven && random.below(8) ? int(keys / 2) : int(random.below(keys));
        call.key[lane] = call.active >> lane & 1 ? key : random.below(2) ? int(random.bits()) : key;
    }
    return call;
}
// Half of the thresholds are 0, the others are -1 to 34 in turn. With one_key, all lanes of call i hold the key i % 32.
enum { CALLS = 72 };
inline std::vector<warp_call> draw_calls(draw &random, int count = CALLS, bool one_key = false) {
    std::vector<warp_call> calls;
    for (int i = 0; i < count; ++i) {
        calls.push_back(draw_warp_call(random));
        calls.back().threshold = i % 2 ? i / 2 % 36 - 1 : 0;
        for (int &key : calls.back().key)
            if (one_key) key = i % 32;
    }
    return calls;
}

// ---- the calls

enum call_kind {
    ATOMIC = DISTWAR_ATOMIC,
    SERIAL = DISTWAR_SERIAL,
    BFLY = DISTWAR_BFLY,
    TREE = DISTWAR_TREE,
    GROUP = DISTWAR_STRATEGY_COUNT,
    ONE_CALL,
    FIXED // floats into sums of long long that are whole numbers
};

template <call_kind Call, int K, typename T, typename Key, typename Sink>
__device__ void call_with(const warp_call &call, bool active, Key key, const T (&val)[K], const Sink &sink) {
    if constexpr (Call == ONE_CALL)
        distwar::reduce(call.lanes, active, key, val, sink);
    else if constexpr (Call == GROUP)
        distwar::group_lanes(call.lanes, active, key).add(val, sink, call.threshold);
    else if constexpr (Call == FIXED) {
        distwar::fixed_format<K> format = {}; // of no flag
        T scaled[K];
        for (int k = 0; k < K; ++k) {
            format.scale[k] = float(1 << k % 8);
            scaled[k] = val[k] / format.scale[k];
        }
        distwar::reduce_fixed(call.lanes, active, key, scaled, sink, format, call.threshold);
    } else
        distwar::reduce<distwar::strategy(Call)>(call.lanes, active, key, val, sink, call.threshold);
}
// A number of values known at run time, in chunks.
template <call_kind Call, int Chunk, typename Values, typename Sink>
__device__ void call_n_with(const warp_call &call, bool active, int key, int count, const Values &values,
                            const Sink &sink) {
    if constexpr (Call == GROUP)
        distwar::group_lanes(call.lanes, active, key)
            .template add_n<Chunk>(count, values, sink, call.threshold);
    else
        distwar::reduce_n<distwar::strategy(Call), Chunk>(call.lanes, active, (long long)(key), count, values,
                                                          sink, call.threshold);
}

template <typename Key>
struct key_as {
    static constexpr bool one = false;
    static __device__ Key of(int key) { return Key(key); }
};
template <typename Key>
struct key_as<distwar::uniform_key<Key>> {
    static constexpr bool one = true;
    static __device__ distwar::uniform_key<Key> of(int key) { return {Key(key)}; }
};

// ---- the sinks

// HALVES are single halves, one behind the other; for an odd K they begin at an odd place.
// OWN is one of the caller's, of which the library knows only `add`; OWN_BY_KEY it knows to be addressed by key. BLOCKS are
// planes of 8 keys each. SAID is a record that is said to lie in shared memory.
enum sink_kind {
    RECORD,
    PLANES,
    POINTERS,
    FIELDS,
    SINKS,
    ALIGNED = SINKS,
    PAIRS,
    HALVES,
    BLOCKS,
    OWN,
    OWN_BY_KEY,
    SAID
};
enum { KEYS = 32 };

// How many of K values lie in each of the four arrays of FIELDS. Between the records of array a there are gaps of a.
__host__ __device__ constexpr int count_of(int K, int array) {
    const int counts[3][4] = {{3, 1, 2, 3}, {1, 33, 2, 4}, {30, 1, 33, 36}};
    if (K == 9 || K == 40 || K == 100) return counts[K == 9 ? 0 : K == 40 ? 1 : 2][array];
    return array == 0 ? K - (K > 1) : int(array == 1 && K > 1);
}
__host__ __device__ constexpr int begin_of(int K, int array) {
    int begin = 0;
    for (int a = 0; a < array; ++a) begin += KEYS * (count_of(K, a) + a);
    return begin;
}
// The memory of one warp: KEYS records with a gap behind each, or planes, or arrays.
__host__ __device__ constexpr int stride_of(int K) {
    return (K + 4) / 4 * 4;
}
__host__ __device__ constexpr int places_of(int K) {
    return KEYS * (stride_of(K) + 4);
}
// The place of value k of a key.
__host__ __device__ inline int place(sink_kind kind, int K, int key, int k) {
    if (kind == PLANES) return k * KEYS + key;
    if (kind == HALVES) return K % 2 + key * K + k;
    if (kind == BLOCKS) return (key / 8 * K + k) * 8 + key % 8;
    if (kind == OWN || kind == OWN_BY_KEY) return key * stride_of(K) + K - 1 - k;
    if (kind != FIELDS) return key * stride_of(K) + k;
    int array = 0;
    for (; k >= count_of(K, array); ++array) k -= count_of(K, array);
    return begin_of(K, array) + key * (count_of(K, array) + array) + k;
}

template <typename T>
struct own_sink {
    T *to;
    int count;
    template <int K>
    __device__ void add(int key, const T (&values)[K]) const {
        for (int k = 0; k < K; ++k) distwar::atomic_add(to + place(OWN, count, key, k), values[k]);
    }
};
template <typename T>
struct own_sink_by_key : own_sink<T> {
    __device__ void add_one(int key, int k, T value) const {
        distwar::atomic_add(this->to + place(OWN, this->count, key, k), value);
    }
};

// K: the number of values, or a bound of it; count: the number.
template <sink_kind Kind, int K, typename Op, distwar::scope S, typename T>
__device__ auto sink_of(T *to, int count, int key, bool active) {
    using namespace distwar;
    const size_t stride =
        count < 0 ? size_t(-1) : size_t(stride_of(count)); // simt asks for one of so many values
    (void)key, (void)active, (void)stride;
    if constexpr (Kind == PLANES || Kind == BLOCKS) {
        return planes<T, Op, S>{to, Kind == PLANES ? KEYS : 8};
    } else if constexpr (Kind == POINTERS) {
        pointers<K, T, Op, S> sink;
        for (int k = 0; k < K; ++k) sink.address[k] = active ? to + place(RECORD, K, key, k) : nullptr;
        return sink;
    } else if constexpr (Kind == FIELDS && K == 1) {
        return fields_with<Op, S, T, 1>{{to, 1}};
    } else if constexpr (Kind == FIELDS && count_of(K, 2) == 0) {
        return fields_with<Op, S, T, K - 1, 1>{{to, K - 1}, {to + begin_of(K, 1), 2}};
    } else if constexpr (Kind == FIELDS) {
        constexpr int a = count_of(K, 0), b = count_of(K, 1), c = count_of(K, 2), d = count_of(K, 3);
        return fields_with<Op, S, T, a, b, c, d>{{to, a},
                                                 {to + begin_of(K, 1), b + 1},
                                                 {to + begin_of(K, 2), c + 2},
                                                 {to + begin_of(K, 3), d + 3}};
    } else if constexpr (Kind == ALIGNED) {
        return aligned_record<T, S>{to, stride};
    } else if constexpr (Kind == PAIRS) {
        using pair = typename pair_with<T>::type;
        return record_of_pairs<pair, S>{reinterpret_cast<pair *>(to), stride / 2};
    } else if constexpr (Kind == HALVES) {
        return record_of_halves<T, S>{to + K % 2, K, KEYS * K};
    } else if constexpr (Kind == OWN) {
        return own_sink<T>{to, count};
    } else if constexpr (Kind == OWN_BY_KEY) {
        return own_sink_by_key<T>{{to, count}};
    } else if constexpr (Kind == SAID) {
        return in_shared(record<T, Op, S>{to, stride});
    } else {
        return record<T, Op, S>{to, stride};
    }
}

// ---- the kernel: block i is one warp, which makes the call calls[i] with values[i][lane][K]

template <typename T>
__device__ bool differs(T a, T b) { // the bits of NaN may differ
    if constexpr (is_pair<T>)
        return false;
    else
        return a != b && (a == a || b == b);
}
template <call_kind Call, sink_kind Kind, typename Op, int K, typename T, typename V, typename Key,
          distwar::scope S>
__device__ void make_call(const warp_call &call, const V *values, T *to, unsigned *changed) {
    const bool active = call.active >> threadIdx.x & 1;
    int key = call.key[threadIdx.x];
    V val[K];
    for (int k = 0; k < K; ++k) val[k] = values[k];
    const auto sink = sink_of<Kind, K, Op, S>(to, K, key, active);
    if constexpr (Kind == BLOCKS) key = key / 8 * (K * 8) + key % 8;
    call_with<Call>(call, active, key_as<Key>::of(key), val, sink);
    for (int k = 0; k < K; ++k)
        if (differs(val[k], values[k])) *changed = 1;
}
template <call_kind Call, sink_kind Kind, typename Op, int K, typename T, typename V, typename Key,
          bool Shared, distwar::scope S>
__global__ void make_calls(const warp_call *calls, const V *values, T *targets, unsigned *changed) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    const bool makes_it = call.lanes >> lane & 1;
    const V *const own = values + (blockIdx.x * 32 + lane) * K;
    T *const to = targets + blockIdx.x * places_of(K);
    if constexpr (Shared) {
        __shared__ T copy[places_of(K)];
        for (int i = int(lane); i < places_of(K); i += 32) copy[i] = to[i];
        __syncwarp();
        if (makes_it) make_call<Call, Kind, Op, K, T, V, Key, S>(call, own, copy, changed);
        __syncwarp();
        for (int i = int(lane); i < places_of(K); i += 32) to[i] = copy[i];
    } else {
        if (makes_it) make_call<Call, Kind, Op, K, T, V, Key, S>(call, own, to, changed);
    }
}

// ---- the host

template <typename Op>
inline constexpr bool is_extreme =
    std::is_same_v<Op, distwar::minimum> || std::is_same_v<Op, distwar::maximum>;

// A value for the operator, V into memory of T. Sums and products are exact in any order, minima and maxima meet NaN and
// infinity, integers wrap but for signed sums.
template <typename Op, typename T, typename V>
V draw_value(draw &random) {
    using limits = std::numeric_limits<V>;
    constexpr bool adds = std::is_same_v<Op, distwar::add>,
                   multiplies = std::is_same_v<Op, distwar::multiply>;
    if constexpr (is_pair<V>) {
        const float first = draw_value<Op, T, float>(random);
        return pair_of<V>(first, draw_value<Op, T, float>(random));
    } else if constexpr (std::is_integral_v<V>) {
        const V drawn = V((unsigned long long)random.bits() << 32 | random.bits());
        if (adds) return std::is_signed_v<V> ? V(drawn / 64) : drawn;
        return random.below(16) ? drawn : random.below(2) ? limits::max() : limits::min();
    } else if constexpr (multiplies) {
        if (has_16_bits<T> && random.below(64) == 0) return limits::quiet_NaN();
        return random.below(8) ? V(1) : random.below(2) ? V(-2) : V(0.5);
    } else if constexpr (adds) {
        return has_16_bits<T> ? V(random.below(7)) - 3 : V(1 + random.below((1 << 19) - 64));
    } else {
        const V special[] = {limits::infinity(), -limits::infinity(), limits::quiet_NaN(),
                             -limits::quiet_NaN(), has_16_bits<T> ? V(0) : limits::denorm_min()};
        const unsigned which = random.below(24);
        if (which < 5) return special[which];
        return has_16_bits<T> ? (V(random.below(2000)) - 1000) / 8
                              : V((int(random.bits()) >> random.below(28)) + 0.25);
    }
}
// What an inactive lane holds, which nothing may take: a NaN, where the operator would keep it.
template <typename Op, typename T, typename V>
V draw_idle(draw &random) {
    if constexpr (std::is_integral_v<V> || is_extreme<Op>)
        return draw_value<Op, T, V>(random);
    else
        return stored<V>(std::nan(""));
}
template <typename Op, typename T>
T draw_start(draw &random) { // of a place in memory
    if constexpr (has_16_bits<T>) {
        return stored<T>(double(random.below(8)) - 3);
    } else {
        if (std::is_same_v<Op, distwar::add>) return T(random.below(1 << 10));
        T drawn = draw_value<Op, T, T>(random);
        while (drawn != drawn) drawn = draw_value<Op, T, T>(random);
        return drawn;
    }
}
template <typename Op, typename T, typename V>
T combined(T old, V given) {
    using namespace distwar;
    if constexpr (is_pair<T>) {
        return pair_of<T>(float(combined<Op>(number(old.x), number(given.x))),
                          float(combined<Op>(number(old.y), number(given.y))));
    } else if constexpr (has_16_bits<T>) {
        return stored<T>(combined<Op>(number(old), double(given)));
    } else if constexpr (std::is_integral_v<T>) {
        using bits = std::make_unsigned_t<T>;
        const bits a = bits(old), b = bits(given);
        return std::is_same_v<Op, add>        ? T(a + b)
               : std::is_same_v<Op, multiply> ? T(a * b)
               : std::is_same_v<Op, minimum>  ? std::min(old, T(given))
               : std::is_same_v<Op, maximum>  ? std::max(old, T(given))
               : std::is_same_v<Op, bit_and>  ? T(a & b)
               : std::is_same_v<Op, bit_or>   ? T(a | b)
                                              : T(a ^ b);
    } else {
        return std::is_same_v<Op, add>        ? old + given
               : std::is_same_v<Op, multiply> ? old * given
               : std::is_same_v<Op, minimum>  ? std::fmin(old, given)
                                              : std::fmax(old, given);
    }
}

// launches(calls, values, targets) makes the calls, with K values each. The code of the host is compiled once for each Op,
// T and V.
template <typename Op, typename T, typename V>
void check_calls(draw &random, const std::vector<warp_call> &calls, call_kind call, sink_kind sink, int K,
                 const std::function<void(const warp_call *, const V *, T *)> &launches) {
    const int places = places_of(K);
    std::vector<V> values;
    std::vector<T> expected;
    for (int i = 0; i < int(calls.size()) * places; ++i) expected.push_back(draw_start<Op, T>(random));
    const device_array<T> targets(expected);
    for (int i = 0; i < int(calls.size()) * 32 * K; ++i) {
        const warp_call &one = calls[size_t(i / (32 * K))];
        const int lane = i / K % 32;
        if (!(one.active >> lane & 1)) {
            values.push_back(draw_idle<Op, T, V>(random));
            continue;
        }
        values.push_back(draw_value<Op, T, V>(random));
        T &target = expected[size_t(i / (32 * K) * places + place(sink, K, one.key[lane], i % K))];
        target = combined<Op>(target, values.back());
    }
    values.resize(values.size() + 1); // none are read of no values
    const device_array<warp_call> device_calls(calls);
    const device_array<V> device_values(values);
    launches(device_calls.get(), device_values.get(), targets.get());
    const std::vector<T> found = targets.download();
    for (size_t i = 0; i < found.size(); ++i)
        ASSERT_TRUE(same_number(found[i], expected[i]))
            << "call " << call << ", sink " << sink << ", K " << K << ", place " << i % size_t(places) << ": "
            << testing::PrintToString(found[i]) << ", not " << testing::PrintToString(expected[i]) << ": "
            << calls[i / size_t(places)];
}
template <call_kind Call, sink_kind Kind, typename Op, int K, typename T, typename V = T, typename Key = int,
          bool Shared = false, distwar::scope S = distwar::scope::device>
void check(draw &random, int count = CALLS) {
    const device_array<unsigned> changed({0u});
    check_calls<Op, T, V>(random, draw_calls(random, count, key_as<Key>::one), Call, Kind, K,
                          [&](const warp_call *calls, const V *values, T *targets) {
                              run(unsigned(count), 32, make_calls<Call, Kind, Op, K, T, V, Key, Shared, S>,
                                  calls, values, targets, changed.get());
                          });
    EXPECT_EQ(changed.download()[0], 0u) << "call " << Call << " changed its values, K " << K;
}

// Calls check(old, value, least, most) for every two of the values in memory and those given.
template <distwar::scope S, typename T>
__global__ void update_each(const T *values, int count, T *minima, T *maxima) {
    const int i = int(threadIdx.x) / count, j = int(threadIdx.x) % count;
    distwar::detail::update_in_memory<S>(minima + i * count + j, values[j], distwar::minimum{});
    distwar::detail::update_in_memory<S>(maxima + i * count + j, values[j], distwar::maximum{});
}
template <distwar::scope S = distwar::scope::device, typename T, typename Check>
void check_every_two(const std::vector<T> &in_memory, const std::vector<T> &values, const Check &check) {
    const int count = int(values.size());
    std::vector<T> initial;
    for (int i = 0; i < count * count; ++i) initial.push_back(in_memory[size_t(i / count)]);
    const device_array<T> given(values), minima(initial), maxima(initial);
    run(1, unsigned(count * count), update_each<S, T>, given.get(), count, minima.get(), maxima.get());
    const std::vector<T> least = minima.download(), most = maxima.download();
    for (size_t i = 0; i < initial.size(); ++i)
        check(initial[i], values[i % size_t(count)], least[i], most[i]);
}

// The types of a typed test that is one for each of these calls.
template <call_kind... Calls>
using tests_of = testing::Types<std::integral_constant<call_kind, Calls>...>;
// Makes `checks` under each schedule, until one fails.
template <typename Checks>
void under_schedules(unsigned schedules, const Checks &checks) {
    for (unsigned schedule = 0; schedule < schedules && !testing::Test::HasFailure(); ++schedule) {
        set_schedule(schedule);
        checks();
    }
}

// The kind of sink changes from call to call: so each configuration of operator, type and K meets each call and each
// kind, and each call each kind, with a quarter of the kernels of all combinations. Turn differs from one configuration to
// the next.
template <call_kind Call, int Turn>
inline constexpr sink_kind sink_in_turn = sink_kind((Call + Turn) % SINKS);
static_assert((1 << ATOMIC % SINKS | 1 << SERIAL % SINKS | 1 << BFLY % SINKS | 1 << TREE % SINKS |
               1 << GROUP % SINKS) == (1 << SINKS) - 1);

#endif
