// SPDX-License-Identifier: MIT
// sums_by_key: sums beside exact ones in integers; the same bits for every order, grid and way to group;
// what is outside of a window or the table; arguments that are refused.

#include "device_test.cuh"
#include "numbers.cuh"
#include <algorithm>
#include <distwar/device/sorted_sums_by_key.cuh>
#include <gtest/gtest.h>
#include <limits>
#include <math.h>
#include <numeric>

using distwar::key_sums;
using distwar::sums_way;

namespace {

__extension__ typedef __int128 wide;

// The number of T that is nearest to sum 2^unit, the even one of two.
template <typename T>
double nearest(wide sum, int unit) {
    constexpr bool is_half = std::is_same_v<T, __half>;
    constexpr int digits = sizeof(T) == 8 ? 53 : sizeof(T) == 4 ? 24 : is_half ? 11 : 8;
    constexpr int least = sizeof(T) == 8 ? -1074 : sizeof(T) == 4 ? -149 : is_half ? -24 : -133;
    wide size = sum < 0 ? -sum : sum;
    int shift = std::max(least - unit, 0); // the bits that T does not have
    while (size >> shift >> digits != 0) ++shift;
    if (shift > 0) {
        const wide rest = size & ((wide(1) << shift) - 1), half = wide(1) << (shift - 1);
        size >>= shift;
        size += rest > half || (rest == half && (size & 1)) ? 1 : 0;
    }
    return ldexp(sum < 0 ? -double(size) : double(size), unit + shift);
}

template <typename T>
struct given {
    int64_t keys, width;
    std::vector<int> index;
    std::vector<T> source;
    int64_t skipped = -1;
};

// Adds to zeros; `multiprocessors` > 0: with the grids and tiles of that many.
template <typename T, typename Index = int, typename Out = T>
std::vector<Out> add(const given<T> &in, sums_way way, uint32_t *report = nullptr, int multiprocessors = 0) {
    std::vector<Index> wide_index(in.index.begin(), in.index.end());
    const device_array<Index> index(wide_index);
    const device_array<T> source(in.source);
    const device_array<Out> out(size_t(in.keys * in.width) + 1, {});
    const device_array<uint32_t> reported(1, {});
    key_sums<T, Index, Out> sums;
    sums.count = int64_t(in.index.size()), sums.width = in.width, sums.keys = in.keys;
    sums.index = index.get(), sums.source = source.get(), sums.out = out.get();
    sums.way = way, sums.report = reported.get(), sums.skipped = in.skipped;
    CHECK(distwar::sums_by_key_bytes<distwar::key_sort>(sums, &sums.workspace_bytes));
    const device_array<char> workspace(sums.workspace_bytes + 1, {});
    sums.workspace = sums.workspace_bytes ? workspace.get() : nullptr;
    if (multiprocessors) {
        distwar::detail::key_call call = distwar::detail::call_of(sums);
        call.multiprocessors = multiprocessors;
        const cudaError_t error = distwar::detail::add_call<distwar::key_sort, T, Out>(call, nullptr);
        CHECK(error);
    } else {
        EXPECT_EQ(distwar::key_sums_fault<distwar::key_sort>(sums, true), nullptr);
        CHECK(distwar::sums_by_key<distwar::key_sort>(sums, nullptr));
    }
    CHECK(cudaDeviceSynchronize());
    if (report) *report = reported.download()[0];
    std::vector<Out> found = out.download();
    found.pop_back();
    return found;
}

template <typename T>
given<T> shuffled(const given<T> &in, unsigned seed) {
    given<T> out = in;
    std::vector<size_t> order(in.index.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    for (size_t i = 0; i < order.size(); ++i) {
        out.index[i] = in.index[order[i]];
        std::copy_n(&in.source[order[i] * size_t(in.width)], in.width, &out.source[i * size_t(in.width)]);
    }
    return out;
}

template <typename T>
bool all_same_bits(const std::vector<T> &a, const std::vector<T> &b) {
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Values m 2^e, m of at most `digits` bits, e in 0..most, times 2^unit; and their sums in units.
template <typename T>
struct exact_given {
    given<T> in;
    std::vector<wide> sum;
    int unit;

    exact_given(int count, int64_t keys, int64_t width, int digits, int most, int unit, unsigned seed)
        : in{keys, width, {}, {}}, sum(size_t(keys * width)), unit(unit) {
        draw random(seed);
        for (int i = 0; i < count; ++i) {
            in.index.push_back(int(random.below(2) ? 0 : random.below(unsigned(keys))));
            for (int64_t k = 0; k < width; ++k) {
                const uint64_t drawn = (uint64_t(random.bits()) << 32 | random.bits()) >> (64 - digits);
                const int exponent = int(random.below(unsigned(most + 1)));
                const double sign = random.below(2) ? 1 : -1;
                in.source.push_back(stored<T>(ldexp(sign * double(drawn), exponent + unit)));
                sum[size_t(in.index.back() * width + k)] +=
                    wide(sign * double(drawn)) * (wide(1) << exponent);
            }
        }
    }
    void check(const std::vector<T> &found) const {
        for (size_t k = 0; k < sum.size(); ++k) EXPECT_EQ(number(found[k]), nearest<T>(sum[k], unit)) << k;
    }
};

template <typename T>
void check_exact(int digits, int most, int unit, unsigned seed) {
    for (const int64_t width : {1, 3}) {
        const exact_given<T> of(700, 23, width, digits, most, unit, seed);
        uint32_t report = 1;
        const auto found = add(of.in, sums_way::exact, &report);
        of.check(found);
        EXPECT_EQ(report, 0u);
        const auto wide_index = add<T, long long>(shuffled(of.in, seed), sums_way::exact);
        EXPECT_TRUE(all_same_bits(found, wide_index));
    }
}

// Half of the rows are at three keys; both signs, 30 powers of two. Made of integers, so the same on every machine.
template <typename T>
void expect_bits(const char *what, sums_way way, uint64_t wanted) {
    given<T> in{70, 3, {}, {}};
    draw random(31);
    for (int i = 0; i < 6000; ++i) {
        in.index.push_back(int(random.below(i % 2 ? 70 : 3)));
        for (int k = 0; k < 3; ++k) {
            const int drawn = int(random.below(1 << 24)) - (1 << 23);
            in.source.push_back(stored<T>(ldexp(double(drawn), -20 - int(random.below(30)))));
        }
    }
    EXPECT_EQ(printed_hash(what, add(in, way)), wanted) << what;
}
TEST(SumsByKey, HaveTheSameBitsOnEveryGpu) {
    expect_bits<float>("sums_by_key, deterministic, float", sums_way::deterministic, 0xf95e3128fba2240d);
    expect_bits<double>("sums_by_key, deterministic, double", sums_way::deterministic, 0x7778a739ca1d31c3);
    expect_bits<__half>("sums_by_key, deterministic, half", sums_way::deterministic, 0xc9a80ff65ff30e8e);
    expect_bits<__nv_bfloat16>("sums_by_key, deterministic, bfloat16", sums_way::deterministic,
                               0x42ae1b0fa3b56f57);
    expect_bits<float>("sums_by_key, sorted_fixed, float", sums_way::sorted_fixed, 0xf95e3128fba2240d);
    expect_bits<double>("sums_by_key, exact, double", sums_way::exact, 0x7778a739ca1d31c3);
}

// 700 rows: two words of 53 bits.
TEST(ExactSums, AreRoundedOnce) {
    check_exact<float>(24, 80, -60, 1);
    check_exact<float>(24, 12, -149, 2); // subnormal values and sums
    check_exact<float>(24, 76, 24, 3);   // up to 2^124
    check_exact<double>(53, 50, -300, 4);
    check_exact<double>(53, 50, -1074, 5);
    check_exact<double>(53, 50, 900, 6);
    check_exact<__half>(11, 15, -24, 7);
    check_exact<__nv_bfloat16>(8, 60, -40, 8);
    check_exact<__nv_bfloat16>(8, 60, -133, 9);
}

// The sum of each `size` values.
template <typename T>
std::vector<T> sums_of(size_t size, const std::vector<double> &values) {
    given<T> in{int64_t(values.size() / size), 1, {}, {}};
    for (size_t i = 0; i < values.size(); ++i)
        in.index.push_back(int(i / size)), in.source.push_back(stored<T>(values[i]));
    return add(in, sums_way::exact);
}

TEST(ExactSums, OfTiesAreEven) {
    const auto check = [](auto zero, double ulp) { // of 1
        using T = decltype(zero);
        const auto sums =
            sums_of<T>(2, {1, ulp / 2, 1 + ulp, ulp / 2, -1, -ulp / 2, -1 - ulp, -ulp / 2, 1, ulp * 0.75});
        EXPECT_EQ(number(sums[0]), 1);
        EXPECT_EQ(number(sums[1]), 1 + 2 * ulp);
        EXPECT_EQ(number(sums[2]), -1);
        EXPECT_EQ(number(sums[3]), -1 - 2 * ulp);
        EXPECT_EQ(number(sums[4]), 1 + ulp);
        const double least = sizeof(T) == 2 ? 0x1p-24 : 0x1p-90; // half: below the bits of a float
        const auto broken = sums_of<T>(3, {1, ulp / 2, least, 1, ulp / 2, -least, -1, -ulp / 2, -least});
        EXPECT_EQ(number(broken[0]), 1 + ulp);
        EXPECT_EQ(number(broken[1]), 1);
        EXPECT_EQ(number(broken[2]), -1 - ulp);
    };
    check(0.0, 0x1p-52);
    check(0.0f, 0x1p-23);
    check(stored<__half>(0), 0x1p-10);
    check(stored<__nv_bfloat16>(0), 0x1p-7);
}

TEST(ExactSums, TellWhatTheWindowDoesNotHold) {
    // 4 rows: two words of 61 bits, from 2^(b - 1) down to 2^(b - 122)
    given<float> in{1, 1, {0, 0, 0, 0}, {1.5f, 0x1p-121f, 0, 0}};
    uint32_t report;
    EXPECT_EQ(add(in, sums_way::exact, &report)[0], 1.5f);
    EXPECT_EQ(report, 0u);
    in.source[1] = 0x1.8p-121f;
    EXPECT_EQ(add(in, sums_way::exact, &report)[0], 1.5f);
    EXPECT_EQ(report, 256u);
    in.source = {1.5f, -1.5f, 0x1.8p-121f, 0x1.8p-121f}; // each rounded to 2 units
    EXPECT_EQ(add(in, sums_way::exact, &report)[0], 0x1p-119f);
    EXPECT_EQ(report, 256u);
    in.source = {1.5f, -1.5f, 0x1p-122f, 0}; // half a unit
    EXPECT_EQ(add(in, sums_way::exact, &report)[0], 0.0f);
    EXPECT_EQ(report, 256u);
    in.source = {1.5f, -1.5f, 0x1p-149f, 0};
    EXPECT_EQ(add(in, sums_way::exact, &report)[0], 0.0f);
    EXPECT_EQ(report, 256u);
    in.index[3] = 1;
    add(in, sums_way::exact, &report);
    EXPECT_EQ(report, 257u);
}

template <typename T>
given<T> random_rows(int count, int64_t keys, int64_t width, double hot, unsigned seed) {
    given<T> in{keys, width, {}, {}};
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (int i = 0; i < count; ++i)
        in.index.push_back(random() < hot * 4294967296.0 ? 0 : int(random() % keys));
    for (int64_t i = 0; i < count * width; ++i) in.source.push_back(stored<T>(normal(random)));
    return in;
}

// Each sum is at most `units` 2^-44 of the power of two above the largest value from the exact one, for each value, and
// half a unit of T in the last place.
template <typename T>
void check_deterministic(sums_way way) {
    struct shape {
        int count;
        int64_t keys, width;
        double hot;
    };
    for (const shape &s : {shape{1, 1, 1, 0},
                           {900, 40, 1, 0},
                           {1500, 3000, 2, 0.2},
                           {600, 2100, 5, 0.9},
                           {300, 20, 33, 0.5},
                           {600, 2100, 2, 0}, // singly
                           {600, 2100, 1, 1}, // one key
                           {400, 2, 3, 0},
                           {70, 40, 64, 0.5},
                           {70, 9, 100, 0.3}}) {
        const given<T> in = random_rows<T>(s.count, s.keys, s.width, s.hot, 5);
        const std::vector<T> found = add(in, way);
        std::vector<double> expected(found.size()), count(found.size());
        double largest = 0;
        for (size_t i = 0; i < in.source.size(); ++i) {
            const size_t place = size_t(in.index[i / size_t(s.width)] * s.width) + i % size_t(s.width);
            expected[place] += number(in.source[i]), ++count[place];
            largest = std::max(largest, fabs(number(in.source[i])));
        }
        const double ulp = sizeof(T) == 8 ? 0x1p-50 : sizeof(T) == 4 ? 0x1p-24 : 0x1p-8;
        for (size_t k = 0; k < found.size(); ++k)
            EXPECT_NEAR(number(found[k]), expected[k],
                        count[k] * largest * 0x1p-43 + fabs(expected[k]) * ulp + 1e-30)
                << s.count << " x " << s.width << " into " << s.keys;
        for (const unsigned seed : {1u, 2u}) {
            set_schedule(seed);
            EXPECT_TRUE(all_same_bits(found, add(shuffled(in, seed), way)));
        }
        for (const int multiprocessors : {1, 3, 50})
            EXPECT_TRUE(all_same_bits(found, add(in, way, nullptr, multiprocessors)));
    }
}

TEST(DeterministicSums, DependOnNoOrderAndGrid) {
    check_deterministic<float>(sums_way::fixed);
    check_deterministic<float>(sums_way::exact);
    check_deterministic<float>(sums_way::sorted_fixed);
    check_deterministic<double>(sums_way::fixed);
    check_deterministic<__half>(sums_way::fixed);
    check_deterministic<__nv_bfloat16>(sums_way::exact);
}

TEST(DeterministicSums, KeepInfinitiesAndNanWhereTheyAre) {
    for (int way = 0; way <= int(sums_way::deterministic); ++way)
        for (const int64_t keys : {3, 3000}) { // in groups, singly
            const float infinity = INFINITY;
            const given<float> in{
                keys, 2, {0, 0, 1, 1, 2}, {1, infinity, 2, 3, infinity, 5, -infinity, 7, NAN, 9}};
            const auto found = add(in, sums_way(way));
            EXPECT_EQ(found[0], 3);
            EXPECT_EQ(found[1], infinity);
            EXPECT_TRUE(std::isnan(found[2]) && std::isnan(found[4]));
            EXPECT_EQ(found[3], 12);
            EXPECT_EQ(found[5], 9);
        }
    const double infinity = INFINITY, nan = NAN;
    const auto found = add(given<double>{3, 1, {0, 1, 2, 2}, {infinity, nan, 1, 2}}, sums_way::fixed);
    EXPECT_TRUE(found[0] == infinity && std::isnan(found[1]) && found[2] == 3);
}

// Kernels of a call overlap on a GPU, but calls that are queued one after the other with one workspace do not.
TEST(DeterministicSums, OfQueuedCallsDoNotMix) {
    const auto in = random_rows<float>(5000, 3000, 1, 0, 9);
    const device_array<int> index(in.index);
    const std::vector<float> zeros(3000);
    const device_array<float> source(in.source), once(zeros), first(zeros), second(zeros);
    std::vector<float> doubled = in.source;
    for (float &value : doubled) value *= 1024;
    const device_array<float> larger(doubled);
    for (const sums_way way : {sums_way::fixed, sums_way::exact}) {
        key_sums<float> sums;
        sums.count = 5000, sums.keys = 3000, sums.index = index.get(), sums.way = way;
        CHECK(distwar::sums_by_key_bytes(sums, &sums.workspace_bytes));
        const device_array<char> workspace(sums.workspace_bytes, {});
        sums.workspace = workspace.get();
        for (const auto *out : {&first, &second}) CHECK(cudaMemset(out->get(), 0, 3000 * sizeof(float)));
        for (int call = 0; call < 16; ++call) {
            sums.source = call % 2 ? larger.get() : source.get();
            sums.out = call % 2 ? second.get() : first.get();
            CHECK(distwar::sums_by_key(sums, nullptr));
        }
        CHECK(cudaDeviceSynchronize());
        const auto small = first.download(), large = second.download(), one = add(in, way);
        for (size_t k = 0; k < one.size(); ++k) {
            EXPECT_EQ(small[k] * 1024, large[k]);
            EXPECT_NEAR(small[k], 8 * one[k], fabs(one[k]) * 1e-5);
        }
    }
}

TEST(SumsByKey, OfEveryWayAndTypeAreRight) {
    for (int way = 0; way <= int(sums_way::deterministic); ++way) {
        for (const int64_t width : {1, 2, 4, 7, 8}) {
            const auto in = random_rows<float>(400, 25, width, 0.4, 8);
            const auto found = add(in, sums_way(way)), exact = add(in, sums_way::exact);
            for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], exact[k], 1e-3) << way;
            if (distwar::detail::sorts(sums_way(way))) continue;
            const auto doubles = random_rows<double>(400, 25, width, 0.4, 8);
            const auto sums = add<double, long long>(doubles, sums_way(way));
            for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(sums[k], double(exact[k]), 1e-3) << way;
        }
        const auto halves = random_rows<__half>(400, 25, 8, 0.4, 8);
        if (distwar::detail::is_deterministic(sums_way(way))) continue;
        const auto found = add<__half, int, float>(halves, sums_way(way));
        const auto exact = add(halves, sums_way::exact);
        for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], number(exact[k]), 0.2) << way;
    }
}

TEST(SumsByKey, LeaveOutRowsOutsideOrSkipped) {
    for (int number = 0; number <= int(sums_way::deterministic); ++number) {
        const sums_way way = sums_way(number);
        given<float> in{3, 1, {0, 1, 2, 2}, {1, 2, 4, 8}};
        in.skipped = 1;
        uint32_t report;
        EXPECT_EQ(add(in, way, &report), (std::vector<float>{1, 0, 12}));
        EXPECT_EQ(report, 0u);
        for (const int outside : {3, -1, INT32_MIN}) {
            in.index[3] = outside;
            EXPECT_EQ(add(in, way, &report), (std::vector<float>{1, 0, 4}));
            EXPECT_EQ(report, 1u);
        }
        EXPECT_TRUE(add(given<float>{0, 1, {0}, {1}}, way, &report).empty());
        EXPECT_EQ(report, 1u);
    }
}

TEST(SumsByKey, HoldTheLevel) {
    using distwar::determinism;
    key_sums<float> sums;
    for (int way = 0; way <= int(sums_way::deterministic); ++way) {
        sums.way = sums_way(way);
        const bool holds = distwar::detail::is_deterministic(sums.way);
        EXPECT_EQ(distwar::require<determinism::run_to_run>(sums).way,
                  holds ? sums.way : sums_way::deterministic);
        EXPECT_EQ(distwar::require<determinism::not_guaranteed>(sums).way, sums.way);
    }
}

TEST(SumsByKey, RefuseBadArguments) {
    const device_array<float> values(64, {});
    const device_array<int> index(8, {});
    const auto fault_after = [&](auto change) {
        key_sums<float> sums;
        sums.count = 4, sums.width = 4, sums.keys = 4, sums.index = index.get();
        sums.source = sums.out = values.get();
        sums.way = sums_way::fastest;
        change(sums);
        const char *const fault = distwar::key_sums_fault(sums, true);
        EXPECT_EQ(distwar::sums_by_key(sums, nullptr), fault ? cudaErrorInvalidValue : cudaSuccess);
        return std::string(fault ? fault : "");
    };
    const auto refuses = [&](const char *text, auto change) {
        const std::string fault = fault_after(change);
        EXPECT_NE(fault.find(text), std::string::npos) << fault;
    };
    EXPECT_EQ(fault_after([](auto &) {}), "");
    EXPECT_EQ(fault_after([](auto &sums) { sums.count = 0, sums.index = nullptr; }), "");
    refuses("negative", [](auto &sums) { sums.count = -1; });
    refuses("negative", [](auto &sums) { sums.keys = -1; });
    refuses("width", [](auto &sums) { sums.width = 0; });
    refuses("too large", [](auto &sums) { sums.keys = INT64_MAX / 16; });
    refuses("2^36", [](auto &sums) { sums.count = (int64_t{1} << 36) + 1; });
    refuses("way", [](auto &sums) { sums.way = sums_way(99); });
    refuses("sort", [](auto &sums) { sums.way = sums_way::sorted; });
    refuses("source", [](auto &sums) { sums.source = nullptr; });
    refuses("out", [](auto &sums) { sums.out = nullptr; });
    refuses("aligned",
            [](auto &sums) { sums.out = reinterpret_cast<float *>(reinterpret_cast<char *>(sums.out) + 2); });
    refuses("workspace", [](auto &sums) { sums.way = sums_way::exact; });
    size_t bytes = 1;
    key_sums<float> none;
    EXPECT_EQ(distwar::sums_by_key_bytes(none, &bytes), cudaSuccess);
    EXPECT_EQ(distwar::sums_by_key(none, nullptr), cudaSuccess);
    none.count = -1;
    EXPECT_EQ(distwar::sums_by_key_bytes(none, &bytes), cudaErrorInvalidValue);
}

} // namespace
