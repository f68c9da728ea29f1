// SPDX-License-Identifier: MIT
// histogram: counts beside those of the host, in shared memory and in memory; keys outside; arguments that are refused.

#include "device_test.cuh"
#include <distwar/device/histogram.cuh>
#include <gtest/gtest.h>

namespace {

// `offset` keys stand before the first. `run` neighbours have one key.
template <typename Key, typename Count>
void check_counts(int count, int64_t bins, double hot, int offset, int run = 1) {
    draw random{unsigned(bins)};
    std::vector<Key> key(static_cast<size_t>(count + offset));
    std::vector<Count> expected(static_cast<size_t>(bins), Count(3));
    for (int i = 0; i < count; ++i) {
        const bool is_hot = random.bits() < hot * 4294967295.0;
        const Key drawn = Key(is_hot ? bins / 2 : random.bits() % bins);
        key[size_t(i + offset)] = i % run ? key[size_t(i + offset - 1)] : drawn;
        ++expected[size_t(key[size_t(i + offset)])];
    }
    const device_array<uint32_t> report(1, {});
    for (int outside = 0; outside < 2; ++outside) {
        const device_array<Key> keys(key);
        const device_array<Count> counts(static_cast<size_t>(bins), Count(3));
        const distwar::key_counts<Key, Count> given{count, bins, keys.get() + offset, counts.get(),
                                                    report.get()};
        CHECK(distwar::histogram(given, nullptr));
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(counts.download(), expected) << count << " keys, " << bins << " bins";
        EXPECT_EQ(report.download()[0], unsigned(outside));
        if (count < 2 || outside) break;
        --expected[size_t(key[size_t(offset)])], --expected[size_t(key.back())];
        key[size_t(offset)] = key.back() = offset == 1 ? Key(-1) : Key(bins);
    }
}

TEST(Histogram, CountsEveryKey) {
    for (const double hot : {0.0, 0.7, 1.0}) {
        check_counts<int, unsigned>(1, 1, hot, 0);
        check_counts<int, unsigned>(3000, 100, hot, 1);
        check_counts<int, int>(9001, 4096, hot, 3);
        check_counts<long long, unsigned long long>(5003, 30000, hot, 1); // several ranges under simt
        check_counts<int, unsigned>(40000, 30000, hot, 2);
        check_counts<int, unsigned>(6000, 1000000, hot, 2); // in memory
        check_counts<long long, long long>(6000, 1000000, hot, 0);
    }
    // Lanes whose keys are one key each; warps with one key, and those whose lanes begin with one; several rounds.
    for (const int64_t bins : {int64_t{70}, int64_t{1000000}}) {
        check_counts<int, unsigned>(20011, bins, 0, 0, 4);
        check_counts<int, unsigned>(20011, bins, 0, 4, 300);
        check_counts<int, unsigned>(20011, bins, 0.99, 0);
        check_counts<long long, unsigned>(20011, bins, 0.5, 2, 2);
        check_counts<long long, unsigned>(20011, bins, 0, 0, 150);
    }
    check_counts<int, unsigned>(300007, 2, 0, 1);
    check_counts<int, uint64_t>(300, 4, 0.5, 0); // integers count by size, not by name
    check_counts<int64_t, size_t>(300, 4, 0.5, 1);
    check_counts<long, int>(300, 4, 0.5, 0);
    check_counts<int, unsigned>(300007, 5000, 0.5, 0, 700);
    EXPECT_EQ(distwar::histogram(distwar::key_counts<int>{}, nullptr), cudaSuccess);
    const device_array<int> key(std::vector<int>{5});
    const device_array<uint32_t> report(1, {});
    EXPECT_EQ(distwar::histogram(distwar::key_counts<int>{1, 0, key.get(), nullptr, report.get()}, nullptr),
              cudaSuccess);
    EXPECT_EQ(report.download()[0], 1u);
}

TEST(Histogram, RefusesBadArguments) {
    const device_array<int> key(1, {});
    const device_array<unsigned> counts(1, {});
    const auto refused = [&](distwar::key_counts<int> given) {
        EXPECT_EQ(distwar::histogram(given, nullptr), cudaErrorInvalidValue);
    };
    refused({-1, 1, key.get(), counts.get(), nullptr});
    refused({1, -1, key.get(), counts.get(), nullptr});
    refused({1, int64_t{1} << 31, key.get(), counts.get(), nullptr});
    refused({1, 1, nullptr, counts.get(), nullptr});
    refused({1, 1, key.get(), nullptr, nullptr});
}

} // namespace
