// SPDX-License-Identifier: MIT
// Flushes of an accumulator by bulk reduction. Before compute capability 9.0 the same calls do the plain
// flush, and give the same sums.

#include "device_test.cuh"
#include <distwar/bulk.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

namespace {

using distwar::bulk_wait;

enum { SLOTS = 70, USED = 67, UNTOUCHED = 3, ROUNDS = 2, KEYS = 90, BLOCKS = 3, FIRST_KEY = 11 };

const dim3 shapes[] = {{1, 1, 1}, {8, 1, 1}, {33, 1, 1}, {16, 16, 1}, {1024, 1, 1}};

// Value k of the add of thread `rank` in a round.
__host__ __device__ int value_of(int rank, int k, int round) {
    return rank % 9 + k + 1 + 10 * round;
}
__host__ __device__ int slot_of(int rank) {
    return rank % SLOTS == UNTOUCHED ? 0 : rank % SLOTS;
}
// What is in memory before: each add must keep it, in padding too.
int content_before(size_t i) {
    return int(i % 13) + 1;
}

// Two rounds into the same shared memory. The first leaves out the slots from USED on, the second flushes
// them.
template <int K, int Stride, typename T, bool Consecutive, bulk_wait Wait>
__global__ void accumulate(const long long *key_of_slot, T *targets, size_t stride, unsigned *done, T *seen) {
    __shared__ distwar::accumulator<K, SLOTS, T, Stride> sums;
    const distwar::record<T> to = {targets, stride};
    const int rank = distwar::block_rank();
    for (int i = rank; i < SLOTS * Stride; i += distwar::block_size())
        sums.sum[i / Stride][i % Stride] = T(77);
    __syncthreads();
    sums.clear();
    for (int round = 0; round < ROUNDS; ++round) {
        T val[K];
        for (int k = 0; k < K; ++k) val[k] = T(value_of(rank, k, round));
        distwar::reduce_serial(distwar::existing_lanes(), true, slot_of(rank), val, sums.sink());
        const int slots = round == 0 ? USED : SLOTS;
        if constexpr (Consecutive)
            distwar::bulk_flush_consecutive<Wait>(sums, int(FIRST_KEY), slots, to);
        else
            distwar::bulk_flush<Wait>(sums, key_of_slot, slots, to);
    }
    if constexpr (Wait == bulk_wait::complete) {
        // The last block that is done sees the sums of all blocks.
        if (rank != 0) return;
        __threadfence();
        if (atomicAdd(done, 1u) != gridDim.x - 1) return;
        __threadfence();
        for (size_t i = 0; i < KEYS * stride; ++i) seen[i] = static_cast<volatile T *>(targets)[i];
    }
}

template <int K, int Stride, typename T, bool Consecutive, bulk_wait Wait = bulk_wait::source>
void check_flush(dim3 shape, size_t stride) {
    const int threads = int(shape.x * shape.y * shape.z);
    std::vector<long long> key_of_slot;
    for (int slot = 0; slot < SLOTS; ++slot) key_of_slot.push_back(slot * 37 % KEYS);
    key_of_slot[UNTOUCHED] = 1ll << 40; // its sums are 0: no access
    std::vector<T> before, expected;
    for (size_t i = 0; i < KEYS * stride; ++i) before.push_back(T(content_before(i)));
    expected = before;
    for (int round = 0; round < ROUNDS; ++round)
        for (int rank = 0; rank < threads; ++rank) {
            const int slot = slot_of(rank);
            const size_t key = Consecutive ? FIRST_KEY + slot : size_t(key_of_slot[slot]);
            for (int k = 0; k < K; ++k) expected[key * stride + k] += T(BLOCKS * value_of(rank, k, round));
        }
    for (int schedule = 0; schedule < 3; ++schedule) {
        const device_array<long long> keys(key_of_slot);
        const device_array<T> targets(before), seen(before);
        const device_array<unsigned> done({0});
        set_schedule(schedule);
        run(BLOCKS, shape, accumulate<K, Stride, T, Consecutive, Wait>, keys.get(), targets.get(), stride,
            done.get(), seen.get());
        EXPECT_EQ(targets.download(), expected);
        if (Wait == bulk_wait::complete) {
            EXPECT_EQ(seen.download(), expected);
        }
    }
}

TEST(BulkFlush, AddsEachSlotOnceForAnyBlock) {
    for (const dim3 shape : shapes) {
        SCOPED_TRACE(shape.x * shape.y);
        check_flush<9, 12, float, false>(shape, 12);
        check_flush<4, 4, float, false>(shape, 8); // by vector atomics
        check_flush<14, 16, float, false>(shape, 20);
        check_flush<3, 4, double, false>(shape, 6);
        check_flush<1, 2, long long, false>(shape, 2);
        check_flush<5, 6, unsigned long long, false>(shape, 6);
        check_flush<2, 4, int, false>(shape, 4);
        check_flush<6, 8, unsigned, false>(shape, 12);
    }
}
TEST(BulkFlush, ConsecutiveKeysForAnyBlock) {
    for (const dim3 shape : shapes) {
        SCOPED_TRACE(shape.x * shape.y);
        check_flush<9, 12, float, true>(shape, 12);
        check_flush<2, 2, double, true>(shape, 2);
        check_flush<1, 2, long long, true>(shape, 2);
        check_flush<3, 4, unsigned, true>(shape, 4);
    }
}
TEST(BulkFlush, CompleteSumsCanBePublished) {
    for (const dim3 shape : shapes) {
        SCOPED_TRACE(shape.x * shape.y);
        check_flush<9, 12, float, false, bulk_wait::complete>(shape, 12);
        check_flush<4, 4, float, true, bulk_wait::complete>(shape, 4);
    }
}

// Negative sums of 64-bit integers are added as unsigned ones: they wrap to the right sum.
__global__ void subtract(long long *targets) {
    __shared__ distwar::accumulator<2, 2, long long> sums;
    __shared__ int key_of_slot[2];
    if (threadIdx.x == 0) key_of_slot[0] = 1, key_of_slot[1] = 0;
    sums.clear();
    const long long val[2] = {-5, 1ll << 40};
    sums.sink().add(int(threadIdx.x % 2), val);
    distwar::bulk_flush(sums, key_of_slot, 2, distwar::record<long long>{targets, 2});
}
TEST(BulkFlush, AddsNegativeIntegers) {
    const device_array<long long> targets({10, 20, 30, 40});
    run(1, 3, subtract, targets.get());
    const std::vector<long long> expected = {10 - 5, 20 + (1ll << 40), 30 - 2 * 5, 40 + 2 * (1ll << 40)};
    EXPECT_EQ(targets.download(), expected);
}

static_assert(distwar::detail::is_faster_in_bulk<512, float, 12>);
static_assert(!distwar::detail::is_faster_in_bulk<513, float, 12>);
static_assert(!distwar::detail::is_faster_in_bulk<64, float, 8>);
static_assert(distwar::detail::is_faster_in_bulk<4096, float, 16>);
static_assert(distwar::detail::is_faster_in_bulk<64, int, 4>); // integers have no vector atomics

#ifdef __SIMT__
template <int K>
__global__ void flush_to(float *targets) {
    __shared__ distwar::accumulator<K, 1> sums;
    __shared__ int key_of_slot[1];
    key_of_slot[0] = 0;
    sums.clear();
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    sums.sink().add(0, val);
    distwar::bulk_flush(sums, key_of_slot, 1, distwar::record<float>{targets, K});
}
TEST(BulkFlush, SimtRefusesRecordsThatAreNotAligned) {
    const device_array<float> targets(std::vector<float>(32, 0.0f));
    EXPECT_EQ(launch(nullptr, 1, 1, flush_to<16>, targets.get() + 1), cudaErrorLaunchFailure);
    cudaGetLastError();
    EXPECT_EQ(launch(nullptr, 1, 1, flush_to<16>, targets.get() + 4), cudaSuccess);
}
// A slot of 16 bytes is one vector atomic; a bulk reduction counts as an atomic for each value.
template <int K>
uint64_t requests() {
    const device_array<float> targets(std::vector<float>(K, 0.0f));
    simt_counters_reset();
    run(1, 1, flush_to<K>, targets.get());
    return simt_counters_read().atomic_requests - K; // without those to shared memory
}
TEST(BulkFlush, TakesTheFasterWay) {
    EXPECT_EQ(requests<4>(), 1u);
    EXPECT_EQ(requests<8>(), 2u);
    EXPECT_EQ(requests<12>(), 12u);
    EXPECT_EQ(requests<16>(), 16u);
}
#endif

// ---- existing_lanes, and the calls in short warps

// Each thread adds (1, rank) to key rank % 3. Threads: the block size at compile time, or 0.
template <int Threads>
__global__ void short_warps(float *targets, unsigned *masks) {
    const int rank = distwar::block_rank();
    const unsigned lanes = distwar::existing_lanes<Threads>();
    masks[blockIdx.x * distwar::block_size() + rank] = lanes;
    const float val[2] = {1, float(rank)};
    const distwar::record<float> to = {targets, 2};
    distwar::reduce_tree(lanes, rank % 5 != 4, rank % 3, val, to);
    distwar::reduce_serial(lanes, rank % 5 != 4, rank % 3, val, to, 2);
    distwar::reduce_bfly(lanes, rank % 5 != 4, rank % 3, val, to);
    distwar::reduce_tree(lanes, rank % 5 != 4, distwar::uniform_key<int>{1}, val, to);
}

template <int Threads>
void check_short_warps(dim3 shape) {
    const int threads = int(shape.x * shape.y * shape.z), blocks = 2;
    std::vector<float> expected(6, 0.0f);
    std::vector<unsigned> masks;
    for (int block = 0; block < blocks; ++block)
        for (int rank = 0; rank < threads; ++rank) {
            const int rest = threads - rank / 32 * 32;
            masks.push_back(rest >= 32 ? 0xffffffff : (1u << rest) - 1);
            if (rank % 5 == 4) continue;
            for (const int key : {rank % 3, rank % 3, rank % 3, 1})
                expected[2 * key] += 1, expected[2 * key + 1] += float(rank);
        }
    for (int schedule = 0; schedule < 10; ++schedule) {
        const device_array<float> targets(std::vector<float>(6, 0.0f));
        const device_array<unsigned> found(std::vector<unsigned>(masks.size(), 0u));
        set_schedule(schedule);
        run(blocks, shape, short_warps<Threads>, targets.get(), found.get());
        EXPECT_EQ(targets.download(), expected) << threads << " threads";
        EXPECT_EQ(found.download(), masks) << threads << " threads";
    }
}

TEST(ExistingLanes, OfBlocksKnownAtCompileTime) {
    check_short_warps<1>(1);
    check_short_warps<8>({8, 1, 1});
    check_short_warps<8>({2, 2, 2});
    check_short_warps<31>(31);
    check_short_warps<32>({8, 4, 1});
    check_short_warps<40>({8, 5, 1});
    check_short_warps<64>(64);
}
TEST(ExistingLanes, OfBlocksKnownAtRunTime) {
    for (const dim3 shape : {dim3(1), dim3(8), dim3(31), dim3(32), dim3(8, 5), dim3(64), dim3(3, 11, 2)})
        check_short_warps<0>(shape);
}

// Blocks of 8 threads that share a warp: the launch is padded to full warps (docs/kernel.md).
__global__ void padded(float *targets, int tiles) {
    const int tile = int(blockIdx.x * blockDim.y + threadIdx.y);
    const bool exists = tile < tiles;
    const float val[1] = {float(threadIdx.x + 1)};
    distwar::reduce_tree(distwar::all_lanes, exists, exists ? tile / 2 : 0, val,
                         distwar::record<float>{targets, 1});
}
TEST(ExistingLanes, PaddedLaunch) {
    const int tiles = 11;
    const device_array<float> targets(std::vector<float>(6, 0.0f));
    run((tiles + 3) / 4, dim3(8, 4), padded, targets.get(), tiles);
    const std::vector<float> expected = {72, 72, 72, 72, 72, 36};
    EXPECT_EQ(targets.download(), expected);
}

} // namespace
