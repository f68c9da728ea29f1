// SPDX-License-Identifier: MIT
// Sums, accumulators and sorting in the shared memory of a block, for blocks of any size and shape.

#include "device_test.cuh"
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <algorithm>
#include <limits>
#include <math.h>

namespace {

const dim3 shapes[] = {{1, 1, 1},   {2, 1, 1},    {31, 1, 1},   {32, 1, 1}, {33, 1, 1},
                       {257, 1, 1}, {1000, 1, 1}, {1024, 1, 1}, {1, 7, 1},  {5, 3, 1},
                       {16, 16, 1}, {3, 5, 7},    {4, 1, 64}};

std::string shape_name(dim3 shape) {
    return std::to_string(shape.x) + "x" + std::to_string(shape.y) + "x" + std::to_string(shape.z);
}

class Block : public testing::TestWithParam<dim3> {
  protected:
    const dim3 shape = GetParam();
    const int threads = int(shape.x * shape.y * shape.z);
};
INSTANTIATE_TEST_SUITE_P(Shapes, Block, testing::ValuesIn(shapes),
                         [](const auto &info) { return shape_name(info.param); });

// ---- sum

enum { K = 3, ROUNDS = 3 };

// Several sums in a row through the same memory. The thread of rank 0 writes totals[round][k].
template <typename T>
__global__ void sum_rounds(const T *values, T *totals, T limit, bool limited) {
    __shared__ distwar::block_sum_memory<K, 1024, T> memory;
    const int rank = distwar::block_rank();
    for (int round = 0; round < ROUNDS; ++round) {
        T value[K], total[K];
        for (int k = 0; k < K; ++k)
            value[k] = values[((round + int(blockIdx.x)) % ROUNDS * distwar::block_size() + rank) * K + k];
        if (limited)
            distwar::block_sum(value, memory, total, limit);
        else
            distwar::block_sum(value, memory, total);
        if (rank == 0)
            for (int k = 0; k < K; ++k) totals[(blockIdx.x * ROUNDS + round) * K + k] = total[k];
    }
}

template <typename T>
std::vector<T> sums_of_rounds(const std::vector<T> &values, dim3 shape, unsigned blocks, T limit = 0,
                              bool limited = false) {
    const device_array<T> device(values), totals(blocks * ROUNDS * K, T(-1));
    run(blocks, shape, sum_rounds<T>, device.get(), totals.get(), limit, limited);
    return totals.download();
}

template <typename T>
void check_block_sum(dim3 shape, int threads) {
    draw random(11);
    std::vector<T> values;
    for (int i = 0; i < ROUNDS * threads * K; ++i) values.push_back(T(int(random.below(2001)) - 1000));
    for (const bool limited : {false, true})
        for (int schedule = 0; schedule < 3; ++schedule) {
            const int limit = 300;
            std::vector<T> expected;
            for (int block = 0; block < 2; ++block)
                for (int round = 0; round < ROUNDS; ++round)
                    for (int k = 0; k < K; ++k) {
                        double total = 0;
                        for (int t = 0; t < threads; ++t) {
                            const double value =
                                double(values[((round + block) % ROUNDS * threads + t) * K + k]);
                            total += limited ? std::clamp<double>(value, -limit, limit) : value;
                        }
                        expected.push_back(T(total));
                    }
            set_schedule(schedule);
            EXPECT_EQ(sums_of_rounds<T>(values, shape, 2, T(limit), limited), expected);
        }
}
TEST_P(Block, Sums) {
    check_block_sum<float>(shape, threads);
    check_block_sum<double>(shape, threads);
    check_block_sum<int>(shape, threads);
}

// The order of additions is fixed: fractions give the same bits under every schedule.
TEST(BlockSum, IsTheSameUnderEverySchedule) {
    draw random(12);
    std::vector<float> values;
    for (int i = 0; i < ROUNDS * 77 * K; ++i)
        values.push_back((float(random.below(1000)) - 500) / 7 * float(1 << random.below(20)));
    const std::vector<float> first = sums_of_rounds<float>(values, 77, 1);
    for (int schedule = 1; schedule < 20; ++schedule) {
        set_schedule(schedule);
        EXPECT_EQ(sums_of_rounds<float>(values, 77, 1), first);
    }
}

TEST(BlockSum, NanPassesTheLimitAndInfinityDoesNot) {
    std::vector<float> values(ROUNDS * 40 * K, 1.0f);
    values[5 * K] = NAN, values[7 * K + 1] = INFINITY, values[9 * K + 2] = -INFINITY;
    const std::vector<float> found = sums_of_rounds<float>(values, 40, 1, 2.0f, true);
    EXPECT_TRUE(isnan(found[0]));
    EXPECT_EQ(found[1], 39 + 2);
    EXPECT_EQ(found[2], 39 - 2);
    const std::vector<float> unlimited = sums_of_rounds<float>(values, 40, 1, INFINITY, true);
    EXPECT_TRUE(isnan(unlimited[0]));
    EXPECT_EQ(unlimited[1], INFINITY);
    EXPECT_EQ(unlimited[2], -INFINITY);
}

// ---- accumulator

enum { SLOTS = 6, USED = 5, UNTOUCHED = 3, ADD_ROUNDS = 2, KEYS = 14 };

// Counts its commits in value 0 of the place before a record.
struct counting_record {
    float *base;
    size_t stride;
    template <typename Key, int N>
    __device__ void add(Key key, const float (&values)[N]) const {
        distwar::record<float>{base, stride}.add(key, values);
        distwar::atomic_add(base + size_t(key) * stride + N, 1.0f);
    }
};

// Two rounds with different keys. In each, lanes add by a tree, single threads by add(), and the block
// flushes. No thread adds to slot UNTOUCHED. The first flush leaves out slot SLOTS - 1.
__global__ void accumulate(const long long *key_of_slot, float *targets) {
    __shared__ distwar::accumulator<K, SLOTS> sums;
    const int rank = distwar::block_rank();
    sums.clear();
    for (int round = 0; round < ADD_ROUNDS; ++round) {
        int slot = rank % SLOTS;
        if (slot == UNTOUCHED) slot = 0;
        const float val[K] = {1, float(rank % 10), -1};
        distwar::reduce_tree(distwar::existing_lanes(), rank % 4 != 0, slot, val, sums.sink());
        if (rank % 4 == 0) sums.sink().add(slot, val);
        sums.flush(key_of_slot, round == 0 ? USED : SLOTS,
                   counting_record{targets + round * KEYS * (K + 1), K + 1});
    }
}

TEST_P(Block, AccumulatesAndFlushes) {
    const std::vector<long long> key_of_slot = {3, 9, 0, 1, 12, 5};
    const int blocks = 3;
    std::vector<float> expected(ADD_ROUNDS * KEYS * (K + 1), 0.0f);
    for (int round = 0; round < ADD_ROUNDS; ++round)
        for (int rank = 0; rank < threads; ++rank) {
            const int slot = rank % SLOTS == UNTOUCHED ? 0 : rank % SLOTS;
            const int flush = slot < USED ? round : 1;
            float *const target = &expected[(flush * KEYS + key_of_slot[slot]) * (K + 1)];
            target[0] += blocks, target[1] += float(blocks * (rank % 10)), target[2] -= blocks;
            target[K] = blocks;
        }
    for (int schedule = 0; schedule < 10; ++schedule) {
        const device_array<long long> keys(key_of_slot);
        const device_array<float> targets(expected.size(), {});
        set_schedule(schedule);
        run(blocks, shape, accumulate, keys.get(), targets.get());
        EXPECT_EQ(targets.download(), expected);
    }
}

// Floats flushed to records of doubles of 16 bytes: of consecutive keys, of any.
__global__ void flush_histogram(double *histogram) {
    using namespace distwar;
    __shared__ accumulator<2, 5> bins;
    bins.clear();
    const float val[2] = {1, 0.5f};
    reduce(all_lanes, true, int(threadIdx.x) % 4, val, in_shared(bins.sink()));
    for (int time = 0; time < 2; ++time) // the second time nothing is left
        bins.flush([](int slot) { return 1 + slot; }, 5, record<double>{histogram, 2});
    const int key_of_slot[] = {5, 0};
    reduce(all_lanes, true, 1, val, in_shared(bins.sink()));
    bins.flush(key_of_slot, 2, record<double>{histogram, 2});
}
TEST(Accumulator, FlushesIntoDoubles) {
    const device_array<double> histogram(12, {});
    run(1, 32, flush_histogram, histogram.get());
    EXPECT_EQ(histogram.download(), (std::vector<double>{32, 16, 8, 4, 8, 4, 8, 4, 8, 4, 0, 0}));
}

// ---- sort

constexpr int CAPACITY = 700;

template <typename Key>
struct pair_of {
    Key key;
    int value;
};

// Sorts the first n pairs of each block; the pairs behind them must not change.
template <typename Key>
__global__ void sort_pairs(pair_of<Key> *pairs, int n) {
    __shared__ distwar::sort_memory<Key, int, CAPACITY> memory;
    pair_of<Key> *const mine = pairs + blockIdx.x * CAPACITY;
    for (int i = distwar::block_rank(); i < CAPACITY; i += distwar::block_size())
        memory.key[i] = mine[i].key, memory.value[i] = mine[i].value;
    distwar::bitonic_sort(memory, n);
    for (int i = distwar::block_rank(); i < CAPACITY; i += distwar::block_size())
        mine[i] = {memory.key[i], memory.value[i]};
}

template <typename Key>
bool is_nan(Key key) {
    return !(key == key);
}

template <typename Key, typename Draw>
void check_sort(dim3 shape, int n, Draw draw_key) {
    std::vector<pair_of<Key>> given;
    for (int i = 0; i < 2 * CAPACITY; ++i) given.push_back({draw_key(), i});
    const device_array<pair_of<Key>> pairs(given);
    run(2, shape, sort_pairs<Key>, pairs.get(), n);
    const std::vector<pair_of<Key>> found = pairs.download();
    for (int block = 0; block < 2; ++block) {
        const auto begin = given.begin() + block * CAPACITY;
        std::vector<Key> expected;
        for (int i = 0; i < n; ++i) expected.push_back(begin[i].key);
        std::sort(expected.begin(), expected.end(), [](Key a, Key b) {
            if (is_nan(a) || is_nan(b)) return !is_nan(a) && is_nan(b);
            return a < b;
        });
        std::vector<bool> seen(CAPACITY, false);
        for (int i = 0; i < CAPACITY; ++i) {
            const pair_of<Key> pair = found[block * CAPACITY + i];
            const int origin = pair.value - block * CAPACITY;
            ASSERT_TRUE(origin >= 0 && origin < CAPACITY && !seen[origin]) << "place " << i << " of " << n;
            seen[origin] = true;
            ASSERT_TRUE(same_bits(pair.key, begin[origin].key)) << "place " << i << " of " << n;
            if (i >= n) {
                ASSERT_EQ(origin, i) << "place " << i << " of " << n;
                continue;
            }
            ASSERT_TRUE(is_nan(expected[i]) ? is_nan(pair.key) : pair.key == expected[i])
                << "place " << i << " of " << n;
        }
    }
}
TEST_P(Block, SortsAnyNumberOfPairs) {
    draw random(13);
    int schedule = 0;
    for (const int n : {0, 1, 2, 3, 31, 64, 257, 512, 513, 699, CAPACITY}) {
        set_schedule(schedule++);
        check_sort<unsigned>(shape, n, [&] { return random.bits(); });
    }
}
TEST(BitonicSort, SortsDuplicatesRunsAndWideKeys) {
    draw random(14);
    for (const int n : {5, 100, 127, 128, 129, 691}) {
        int next = 0;
        check_sort<int>(96, n, [&] { return int(random.below(4)) - 2; });
        check_sort<int>(96, n, [&] { return 7; });
        check_sort<int>(64, n, [&] { return next++; });
        check_sort<int>(64, n, [&] { return next--; });
    }
    const auto bits = [&] { return (unsigned long long)random.bits() << 32 | random.bits(); };
    check_sort<unsigned long long>(64, 333, bits);
    check_sort<long long>(64, 333, [&] { return (long long)(bits() >> 1) ^ -(long long)random.below(2); });
}
template <typename T>
T special(draw &random) {
    const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const T choice[] = {nan, -nan, infinity, -infinity, T(0), -T(0), T(random.below(100)) / 3};
    return choice[random.below(7)];
}
TEST(BitonicSort, NanComesLast) {
    draw random(16);
    for (const int n : {1, 2, 50, CAPACITY}) {
        check_sort<float>(96, n, [&] { return special<float>(random); });
        check_sort<double>(96, n, [&] { return special<double>(random); });
        check_sort<float>(96, n, [&] { return NAN; });
    }
}

} // namespace
