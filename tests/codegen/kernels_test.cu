// SPDX-License-Identifier: MIT
// Runs every kernel of kernels.cu: its sums are those of a loop on the host. All numbers are integers that the types
// hold exactly, so the order of the additions does not matter. ci/run-as-ptx runs it as GPUs of older architectures would.

#include "../library/device_test.cuh"
#include "../library/numbers.cuh"
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
std::vector<void (*)()> &checks() { // of their sums
    static std::vector<void (*)()> instance;
    return instance;
}
struct checked {
    explicit checked(void (*check)()) { checks().push_back(check); }
};
std::set<std::string> launched;
#define RUN(name, ...) (launched.insert(#name), run(1, 32, name, __VA_ARGS__))

enum { PLACES = 9000, VALUES = 32 * 128 };

template <typename T>
constexpr int parts_of = is_pair<T> ? 2 : 1;
template <typename T>
std::vector<T> join(const std::vector<float> &from) {
    std::vector<T> joined;
    for (size_t i = 0; i < from.size(); i += parts_of<T>) {
        if constexpr (is_pair<T>)
            joined.push_back(pair_of<T>(from[i], from[i + 1]));
        else
            joined.push_back(stored<T>(from[i]));
    }
    return joined;
}
template <typename T>
std::vector<float> split(const std::vector<T> &from) {
    std::vector<float> parts;
    for (const T &value : from) {
        if constexpr (is_pair<T>)
            parts.insert(parts.end(), {float(number(value.x)), float(number(value.y))});
        else
            parts.push_back(float(number(value)));
    }
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
    constexpr int PARTS = parts_of<From>;
    std::vector<float> values;
    draw random(1);
    for (int i = 0; i < VALUES * PARTS; ++i) values.push_back(float(1 + random.below(7)));
    const device_array<From> from(join<From>(values));
    const std::vector<float> before(PLACES * parts_of<To>, differs.start);
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
const differences total_of_least = {true, 1, false, true, std::numeric_limits<float>::infinity(), 9};
const differences from_zero = {true, 1, false, false, 0}, from_zero_any = {false, 1, false, false, 0};

} // namespace

#define KERNEL(name)                                                                                         \
    static const named named_##name(#name);                                                                  \
    extern "C" __global__ void name
#define SUMS(name, From, To, K, differs, place, ...)                                                         \
    static const checked check_of_##name([] {                                                                \
        check_sums<From, To>(                                                                                \
            #name, K, differs,                                                                               \
            [](int key, int k) {                                                                             \
                (void)key, (void)k;                                                                          \
                return int(place);                                                                           \
            },                                                                                               \
            [](const given<From, To> &g) { RUN(name, __VA_ARGS__); });                                       \
    });
#define CLEAR(slots) slots.clear()
#define FLUSH(slots, sink) slots.flush sink
#include "kernels.cu"

namespace {

// Kernels that are given something else.
void check_other_arguments() {
    check_sums<float, long long>(
        "fixed_9_float", 9, {true, 4}, [](int key, int k) { return key * 9 + k; },
        [](const given<float, long long> &g) {
            const device_array<unsigned> flag({0});
            RUN(fixed_9_float, g.from, g.active, 3, 4.0f, g.to, flag.get());
            EXPECT_EQ(flag.download()[0], 0u);
        });
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
    for (const auto check : checks()) check();
    check_other_arguments();
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
