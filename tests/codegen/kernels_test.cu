// SPDX-License-Identifier: MIT
// Runs every kernel of kernels.cu: its sums are those of a loop on the host. All numbers are integers that the types
// hold exactly, so the order of the additions does not matter. ci/run-as-ptx runs it as GPUs of older architectures would.

#include "../library/device_test.cuh"
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <sstream>

namespace {

std::set<std::string> &names() { // of the kernels
    static std::set<std::string> instance;
    return instance;
}
struct named {
    explicit named(const char *name) { names().insert(name); }
};

} // namespace

#define KERNEL(name)                                                                                         \
    static const named named_##name(#name);                                                                  \
    extern "C" __global__ void name
#define CLEAR(slots) slots.clear()
#define FLUSH(slots, sink) slots.flush sink
#include "kernels.cu"

namespace {

enum { PLACES = 9000, VALUES = 32 * 128 };

std::set<std::string> launched;
#define RUN(name, ...) (launched.insert(#name), run(1, 32, name, __VA_ARGS__))

// Numbers from and to a type with one or two of them.
template <typename T>
struct numbers {
    enum { COUNT = 1 };
    static T join(const float *from) { return T(from[0]); }
    static void split(T value, float *to) { to[0] = float(value); }
};
template <>
struct numbers<__half2> {
    enum { COUNT = 2 };
    static __half2 join(const float *from) { return __floats2half2_rn(from[0], from[1]); }
    static void split(__half2 value, float *to) { to[0] = __low2float(value), to[1] = __high2float(value); }
};
template <>
struct numbers<__nv_bfloat162> {
    enum { COUNT = 2 };
    static __nv_bfloat162 join(const float *from) { return __floats2bfloat162_rn(from[0], from[1]); }
    static void split(__nv_bfloat162 value, float *to) {
        to[0] = __low2float(value), to[1] = __high2float(value);
    }
};
template <typename T>
std::vector<T> join(const std::vector<float> &from) {
    std::vector<T> joined;
    for (size_t i = 0; i < from.size(); i += numbers<T>::COUNT) joined.push_back(numbers<T>::join(&from[i]));
    return joined;
}
template <typename T>
std::vector<float> split(const std::vector<T> &from) {
    std::vector<float> parts(from.size() * numbers<T>::COUNT);
    for (size_t i = 0; i < from.size(); ++i) numbers<T>::split(from[i], &parts[i * numbers<T>::COUNT]);
    return parts;
}

struct warp {
    unsigned lanes, active;
    int threshold, key[32];
};
// All lanes, some and none are active; one key, several, and as many as lanes; with and without a threshold.
std::vector<warp> warps(bool one_key) {
    std::vector<warp> all;
    for (const unsigned active : {0xffffffffu, 0x2f00da61u, 0x00000400u, 0u})
        for (const int keys : {1, 7, 32})
            for (const int threshold : {0, 4}) {
                if (one_key && (keys > 1 || threshold > 0)) continue;
                warp w = {active | (active && keys == 7 ? 0x10f0fff1 : 0xffffffff), active, threshold, {}};
                for (int lane = 0; lane < 32; ++lane) w.key[lane] = keys == 1 ? 3 : lane * 5 % keys;
                all.push_back(w);
            }
    return all;
}

// What a kernel is given. keys: [8][32], of which the first row holds each lane's key and row i that key + i.
template <typename From, typename To>
struct given {
    const From *from;
    unsigned lanes, active;
    const int *keys;
    int threshold;
    To *to;
};
struct differences {      // from a sum of all values of the active lanes, each with its key
    bool one_key = false; // 3
    float factor = 1;
    bool all_active = false; // whatever `active` says
    bool minimum = false;
    float start = 3;   // what is in memory before
    int compared = -1; // so many places are defined, -1: all
    int apart = 0;     // value 2 k + 1 lies so far behind value 2 k
};

// place: of value k of a key. The values of lane l are from[32 k + l].
template <typename From, typename To>
void check_sums(const char *name, int K, const differences &differs, int (*place)(int, int),
                void (*launches)(const given<From, To> &)) {
    SCOPED_TRACE(name);
    enum { PARTS = numbers<From>::COUNT };
    std::vector<float> values;
    draw random(1);
    for (int i = 0; i < VALUES * PARTS; ++i) values.push_back(float(1 + random.below(7)));
    const device_array<From> from(join<From>(values));
    const std::vector<float> before(PLACES * numbers<To>::COUNT, differs.start);
    const std::vector<To> start = join<To>(before);
    device_array<To> to(start);
    for (const warp &w : warps(differs.one_key)) {
        std::vector<float> expected = before;
        std::vector<int> keys;
        for (int i = 0; i < 256; ++i) keys.push_back(w.key[i % 32] + i / 32);
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < K * PARTS && (differs.all_active || w.active >> lane & 1); ++i) {
                const int k = i / PARTS, part = i % PARTS;
                const int from_place = differs.apart ? 32 * (k / 2) + k % 2 * differs.apart : 32 * k;
                const float value = differs.factor * values[(from_place + lane) * PARTS + part];
                float &sum = expected[place(w.key[lane], k) * PARTS + part];
                sum = differs.minimum ? std::min(sum, value) : sum + value;
            }
        const device_array<int> device_keys(keys);
        to.upload(start);
        launches({from.get(), w.lanes, w.active, device_keys.get(), w.threshold, to.get()});
        std::vector<float> found = split(to.download());
        if (differs.compared >= 0) {
            found.resize(differs.compared * PARTS);
            expected.resize(found.size());
        }
        for (size_t i = 0; found != expected && i < found.size(); ++i)
            ASSERT_EQ(found[i], expected[i]) << "place " << i << ", active " << std::hex << w.active;
    }
}

const differences several_keys = {false}, one_key = {true}, doubled = {true, 2}, doubled_any = {false, 2};
const differences every_lane = {true, 1, true}, every_lane_any = {false, 1, true};
const differences least_of_every_lane = {true, 1, true, true};
const differences total = {true, 1, false, true, std::numeric_limits<float>::infinity(), 9};
const differences from_zero = {true, 1, false, false, 0}, from_zero_any = {false, 1, false, false, 0};

#define SUMS(name, From, To, K, differs, place, ...)                                                         \
    check_sums<From, To>(                                                                                    \
        #name, K, differs,                                                                                   \
        [](int key, int k) {                                                                                 \
            (void)key, (void)k;                                                                              \
            return place;                                                                                    \
        },                                                                                                   \
        [](const given<From, To> &g) { RUN(name, __VA_ARGS__); })

// The families, by the arguments of their kernels.
#define ONE(name, T, K, place) SUMS(name, T, T, K, one_key, place, g.from, g.active, 3, g.to)
#define RECORD_OF_ONE(call, K, T) ONE(call##_##K##_##T, T, K, key *K + k)
#define ANY(name, K)                                                                                         \
    SUMS(name, float, float, K, several_keys, key *K + k, g.from, g.lanes, g.active, g.keys, g.threshold,    \
         g.to)
#define CHUNKS_OF_ONE(name, K) SUMS(name, float, float, K, doubled, key *K + k, g.from, g.active, 3, K, g.to)
#define OFTEN(name, T, K, place) SUMS(name, T, T, K, several_keys, place, g.from, g.active, g.keys, g.to)
#define FOUR_ARRAYS(name)                                                                                    \
    SUMS(name, float, float, 9, one_key,                                                                     \
         (k < 3   ? key * 3 + k                                                                              \
          : k < 4 ? 400 + key                                                                                \
          : k < 6 ? 600 + key * 2 + k - 4                                                                    \
                  : 800 + key * 3 + k - 6),                                                                  \
         g.from, g.active, 3, g.to, g.to + 400, g.to + 600, g.to + 800)
#define SIX_FIELDS(key, k)                                                                                   \
    (k < 3    ? key * 3 + k                                                                                  \
     : k < 6  ? 100 + key * 3 + k - 3                                                                        \
     : k < 15 ? 200 + key * 9 + k - 6                                                                        \
     : k < 17 ? 1000 + key * 2 + k - 15                                                                      \
     : k < 19 ? 1100 + key * 2 + k - 17                                                                      \
              : 1200 + key)
#define INTO(name, K, place)                                                                                 \
    SUMS(name, float, float, K, several_keys, place, g.from, g.active, g.keys, g.threshold, g.to, g.to + 1000)
#define BOTH(name, T, K, place)                                                                              \
    OFTEN(plain_##name, T, K, place);                                                                        \
    OFTEN(own_##name, T, K, place)
#define BOTH_FROM_ZERO(name, T, K, place)                                                                    \
    SUMS(plain_##name, T, T, K, from_zero_any, place, g.from, g.active, g.keys, g.to);                       \
    SUMS(own_##name, T, T, K, from_zero_any, place, g.from, g.active, g.keys, g.to)
#define AT(where)                                                                                            \
    SUMS(record_at_##where, float, float, 7, every_lane, key * 8 + k, g.from, 3, g.to);                      \
    SUMS(minimum_at_##where, float, float, 7, least_of_every_lane, key * 8 + k, g.from, 3, g.to);            \
    SUMS(planes_at_##where, float, float, 7, every_lane, key + k * 1000, g.from, 3, g.to);                   \
    SUMS(fields_at_##where, float, float, 7, every_lane, (k < 3 ? key * 3 + k : 1000 + key * 4 + k - 3),     \
         g.from, 3, g.to);                                                                                   \
    SUMS(pointers_at_##where, float, float, 2, every_lane, k * 100, g.from, g.to);                           \
    SUMS(aligned_at_##where, float, float, 7, every_lane, key * 8 + k, g.from, 3, g.to);                     \
    SUMS(half_at_##where, float, __half, 7, every_lane, key * 8 + k, g.from, 3, g.to);                       \
    SUMS(pairs_at_##where, float, __half2, 2, every_lane, key * 16 + k, g.from, 3, g.to);                    \
    SUMS(vectors_at_##where, __half2, __half2, 5, every_lane, key * 8 + k, g.from, 3, g.to)

void check_one_key() {
    RECORD_OF_ONE(atomic, 9, float);
    RECORD_OF_ONE(serial, 9, float);
    RECORD_OF_ONE(bfly, 9, float);
    RECORD_OF_ONE(bfly, 9, double);
    RECORD_OF_ONE(tree, 1, float);
    RECORD_OF_ONE(tree, 4, float);
    RECORD_OF_ONE(tree, 9, float);
    RECORD_OF_ONE(tree, 9, double);
    RECORD_OF_ONE(tree, 16, float);
    RECORD_OF_ONE(tree, 32, float);
    RECORD_OF_ONE(tree, 33, float);
    RECORD_OF_ONE(tree, 64, float);
    RECORD_OF_ONE(tree, 64, double);
    RECORD_OF_ONE(tree, 65, float);
    RECORD_OF_ONE(tree, 100, float);
    RECORD_OF_ONE(tree, 128, float);
    RECORD_OF_ONE(bfly, 5, half2);
    RECORD_OF_ONE(tree, 5, half2);
    RECORD_OF_ONE(tree, 9, half2);
    RECORD_OF_ONE(tree, 9, nv_bfloat162);
    RECORD_OF_ONE(serial, 5, nv_bfloat162);
    ONE(atomic_9_aligned_pairs, half2, 9, key * 12 + k);
    ONE(tree_9_block, float, 9, key * 9 + k);
    ONE(tree_9_planes, float, 9, key + k * 1000);
    ONE(bfly_9_aligned, float, 9, key * 12 + k);
    ONE(tree_70_aligned, float, 70, key * 72 + k);
    ONE(hot_9_tree, float, 9, key * 9 + k);
    SUMS(tree_9_shared, float, float, 9, from_zero, key * 9 + k, g.from, g.active, 3, g.to);
    SUMS(tree_9_pointers, float, float, 9, one_key, k * 100, g.from, g.active, g.to);
    SUMS(tree_9_some, float, float, 7, one_key, key * 7 + k, g.from, g.active, 3, 7, g.to);
    SUMS(total_9_minimum, float, float, 9, total, k, g.from, g.active, g.to);
    SUMS(total_9_minimum_of_pairs, half2, half2, 9, total, k, g.from, g.active, g.to);
    FOUR_ARRAYS(tree_9_arrays);
    FOUR_ARRAYS(tree_9_fields);
    SUMS(one_call_20_fields, float, float, 20, one_key, SIX_FIELDS(key, k), g.from, g.active, 3, g.to,
         g.to + 1000);
    check_sums<float, long long>(
        "fixed_9_float", 9, {true, 4}, [](int key, int k) { return key * 9 + k; },
        [](const given<float, long long> &g) {
            const device_array<unsigned> flag({0});
            RUN(fixed_9_float, g.from, g.active, 3, 4.0f, g.to, flag.get());
            EXPECT_EQ(flag.download()[0], 0u);
        });
}

void check_any_keys() {
    ANY(serial_9_any, 9);
    ANY(bfly_9_any, 9);
    ANY(tree_9_any, 9);
    ANY(tree_64_any, 64);
    INTO(atomic_20_fields, 20, SIX_FIELDS(key, k));
    INTO(serial_20_fields, 20, SIX_FIELDS(key, k));
    INTO(bfly_20_fields, 20, SIX_FIELDS(key, k));
    INTO(tree_20_fields, 20, SIX_FIELDS(key, k));
    INTO(serial_17_fields, 17, (k < 16 ? key * 16 + k : 1000 + key));
    OFTEN(one_call_1_float, float, 1, key);
    OFTEN(one_call_4_float, float, 4, key * 4 + k);
    OFTEN(one_call_2_vector, float, 2, key * 2 + k);
    OFTEN(one_call_1_half2, half2, 1, key);
    OFTEN(one_call_4_vector, half2, 4, key * 4 + k);
    OFTEN(one_call_9_float, float, 9, key * 9 + k);
    OFTEN(corners_unrolled, float, 8, key + k);
    OFTEN(corners_looped, float, 8, key + k);
    SUMS(hot_4_add, float, float, 4, every_lane_any, key * 4 + k, g.from, g.keys, g.to);
}

void check_chunks() {
    CHUNKS_OF_ONE(tree_8_chunks, 20);
    CHUNKS_OF_ONE(tree_16_chunks, 20);
    CHUNKS_OF_ONE(tree_32_chunks, 40);
    CHUNKS_OF_ONE(bfly_8_chunks, 20);
    CHUNKS_OF_ONE(atomic_16_chunks, 20);
    SUMS(tree_16_chunks_any, float, float, 20, doubled_any, key * 20 + k, g.from, g.lanes, g.active, g.keys,
         g.threshold, 20, g.to);
    SUMS(atomic_16_chunks_aligned, float, float, 23, doubled, key * 24 + k, g.from, g.active, 3, 23, g.to,
         24);
}

void check_scopes() {
    AT(block);
    AT(device);
    AT(system);
}

void check_plain_and_own() {
    BOTH(record_float, float, 9, key * 12 + k);
    BOTH(record_double, double, 3, key * 4 + k);
    BOTH(record_int, int, 3, key * 4 + k);
    BOTH(record_half2, half2, 1, key);
    BOTH(planes_float, float, 4, key + k * 1000);
    BOTH(pointers_float, float, 2, key + k * 1000);
    BOTH(fields_float, float, 4, (k < 3 ? key * 3 + k : 1000 + key));
    BOTH(block_int, int, 1, key);
    BOTH(sink_float, float, 2, key * 2 + k);
    BOTH_FROM_ZERO(shared_int, int, 1, key);
    BOTH_FROM_ZERO(shared_planes, float, 4, key + k * 256);
    BOTH_FROM_ZERO(shared_double, double, 2, key * 2 + k);
    BOTH_FROM_ZERO(shared_said, int, 2, key * 2 + k);
    BOTH_FROM_ZERO(shared_seen, int, 2, key * 2 + k);
    BOTH_FROM_ZERO(shared_seen_float, float, 2, key * 2 + k);
}

void check_memory() {
    using given_floats = given<float, float>;
    const auto place = [](int key, int k) { return key * 12 + k; };
    check_sums<float, float>("tree_9_from_memory", 9, several_keys, place, [](const given_floats &g) {
        const device_array<float> own(std::vector<float>(32, 0.0f));
        const device_array<arguments> from({{g.to, own.get(), g.keys, g.active}});
        RUN(tree_9_from_memory, g.from, from.get());
        EXPECT_EQ(own.download(), std::vector<float>(32, 1.0f));
    });
    check_sums<float, float>("one_call_9_from_memory", 9, several_keys, place, [](const given_floats &g) {
        const device_array<arguments> from({{g.to, nullptr, g.keys, g.active}});
        RUN(one_call_9_from_memory, g.from, from.get());
    });
    check_sums<float, float>(
        "group_27_nodes", 2 * 27, {false, 1, false, false, 3, -1, 1000},
        [](int key, int k) { return (key + 40 * (k / 2)) * 4 + k % 2; },
        [](const given_floats &g) {
            std::vector<int> offsets;
            for (int node = 0; node < 27; ++node) offsets.push_back(40 * node);
            const device_array<int> offset(offsets);
            RUN(group_27_nodes, g.from, g.active, g.keys, offset.get(), g.to);
        });
}

// As if the active lanes had added one after another.
void check_counters() {
    std::vector<unsigned> from;
    for (unsigned lane = 0; lane < 32; ++lane) from.push_back(1 + lane * lane % 11);
    const device_array<unsigned> device_from(from);
    for (const warp &w : warps(false)) {
        std::vector<unsigned> one(1, 10), sum(1, 10), counts(32, 10), slots(32), by_key(32), begins(32);
        for (unsigned lane = 0; lane < 32; ++lane) {
            if (!(w.active >> lane & 1)) continue;
            slots[lane] = one[0]++;
            by_key[lane] = counts[w.key[lane]]++;
            begins[lane] = sum[0];
            sum[0] += from[lane];
        }
        const device_array<int> keys(std::vector<int>(w.key, w.key + 32));
        const auto check = [&](const std::vector<unsigned> &results, const std::vector<unsigned> &counters,
                               const std::function<void(unsigned *, unsigned *)> &launches) {
            const device_array<unsigned> device_results(std::vector<unsigned>(32)),
                device_counters(std::vector<unsigned>(counters.size(), 10));
            launches(device_counters.get(), device_results.get());
            EXPECT_EQ(device_counters.download(), counters);
            const std::vector<unsigned> found = device_results.download();
            for (int lane = 0; lane < 32; ++lane)
                if (w.active >> lane & 1) {
                    EXPECT_EQ(found[lane], results[lane]) << lane;
                }
        };
        check(slots, one,
              [&](unsigned *counter, unsigned *results) { RUN(append_to_one, w.active, counter, results); });
        check(by_key, counts, [&](unsigned *counters, unsigned *results) {
            RUN(fetch_ones, w.active, keys.get(), counters, results);
        });
        check(begins, sum, [&](unsigned *counter, unsigned *results) {
            RUN(fetch_at_one_key, device_from.get(), w.active, counter, results);
        });
    }
}

// Checks histograms of 100 values, more than a warp has lanes.
void check_histograms() {
    std::vector<int> from, keys, sums(1024);
    for (int i = 0; i < 100; ++i) {
        from.push_back(1 + i % 7), keys.push_back(i * i % 1024);
        sums[size_t(keys.back())] += from.back();
    }
    const device_array<int> device_from(from), device_keys(keys);
    const auto check = [&](const std::function<void(int *)> &launches) {
        const device_array<int> to(std::vector<int>(1024));
        launches(to.get());
        EXPECT_EQ(to.download(), sums);
    };
    check([&](int *to) { RUN(plain_histogram, device_from.get(), 100, device_keys.get(), to); });
    check([&](int *to) { RUN(own_histogram, device_from.get(), 100, device_keys.get(), to); });
    check([&](int *to) { RUN(plain_histogram_said, device_from.get(), 100, device_keys.get(), to); });
    check([&](int *to) { RUN(own_histogram_said, device_from.get(), 100, device_keys.get(), to); });
}

TEST(CodegenKernels, AddWhatALoopOfTheHostAdds) {
    check_one_key();
    check_any_keys();
    check_chunks();
    check_scopes();
    check_plain_and_own();
    check_memory();
    check_counters();
    check_histograms();
    for (const std::string &name : names()) EXPECT_EQ(launched.count(name), 1u) << name << " is not launched";
}

// Else a kernel has no name above.
TEST(CodegenKernels, AreDeclaredByTheMacro) {
    std::ostringstream text;
    text << std::ifstream(KERNELS).rdbuf();
    const std::string source = text.str(), word = "extern \"C\" __global__";
    const size_t first = source.find(word);
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(source.find(word, first + 1), std::string::npos);
}

} // namespace
