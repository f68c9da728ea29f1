// SPDX-License-Identifier: MIT
// Cooperative groups: ranks, results and counts, under several schedules. On a GPU the same tests compare CUDA's own
// groups with the same expectations, but for counts and for how simt divides coalesced threads.
#include "device_array.h"

#include <algorithm>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdint>
#include <set>

namespace cg = cooperative_groups;

namespace {

class Groups : public Simt {};

// What simt counted since the test or this seed began.
void expect_counts(std::uint64_t shuffles, std::uint64_t votes, std::uint64_t matches,
                   std::uint64_t reductions, std::uint64_t warp_syncs = 0, std::uint64_t barriers = 0) {
#ifdef __SIMT__
    const simt_counters c = simt_counters_read();
    EXPECT_EQ(c.shuffles, shuffles);
    EXPECT_EQ(c.votes, votes);
    EXPECT_EQ(c.matches, matches);
    EXPECT_EQ(c.reductions, reductions);
    EXPECT_EQ(c.warp_syncs, warp_syncs);
    EXPECT_EQ(c.barriers, barriers);
#else
    (void)shuffles, (void)votes, (void)matches, (void)reductions, (void)warp_syncs, (void)barriers;
#endif
}

// ---- the block and the grid

__global__ void positions(unsigned *out) {
    const cg::thread_block block = cg::this_thread_block();
    unsigned *mine = out + 8 * cg::this_grid().thread_rank();
    mine[0] = block.thread_rank();
    mine[1] = block.size();
    mine[2] = block.group_index().y;
    mine[3] = block.thread_index().y;
    mine[4] = block.dim_threads().x;
    mine[5] = unsigned(cg::this_grid().size());
    mine[6] = unsigned(cg::this_grid().block_rank());
    mine[7] = unsigned(cg::thread_rank(block) + cg::group_size(block));
}

TEST_F(Groups, PositionsInBlockAndGrid) {
    const auto expected = [](int i) {
        const unsigned b = unsigned(i) / 8 / 40, t = unsigned(i) / 8 % 40;
        const unsigned of_thread[8] = {t, 40, b / 2, t / 8, 8, 240, b, t + 40};
        return of_thread[i % 8];
    };
    expect_each({2, 3}, {8, 5}, 8 * 6 * 40, expected, positions);
}

// A sum through shared memory by a function that takes any group.
__device__ int sum_of(const cg::thread_group &group, int *scratch, int value) {
    const unsigned rank = unsigned(group.thread_rank());
    for (unsigned i = unsigned(group.size()) / 2; i > 0; i /= 2) {
        scratch[rank] = value;
        group.sync();
        if (rank < i) value += scratch[rank + i];
        group.sync();
    }
    return value;
}
__global__ void sums(int *out) {
    __shared__ int scratch[64];
    const cg::thread_block block = cg::this_thread_block();
    const int all = sum_of(block, scratch, int(threadIdx.x));
    if (threadIdx.x == 0) out[0] = all;
    const cg::thread_group tile = cg::tiled_partition(block, 8);
    const int some = sum_of(tile, scratch + threadIdx.x / 8 * 8, int(threadIdx.x));
    if (tile.thread_rank() == 0) out[1 + threadIdx.x / 8] = some;
    const cg::thread_group pair = cg::tiled_partition(tile, 2);
    const int two = sum_of(pair, scratch + threadIdx.x / 2 * 2, int(threadIdx.x));
    if (pair.thread_rank() == 0) out[9 + threadIdx.x / 2] = two;
}

TEST_F(Groups, FunctionsTakeAnyGroup) {
    under_seeds(8, [] {
        Device_array<int> out(41);
        ASSERT_EQ(run(1, 64, sums, out), cudaSuccess);
        EXPECT_EQ(out[0], 63 * 32);
        for (int tile = 0; tile < 8; tile++) EXPECT_EQ(out[1 + tile], 64 * tile + 28);
        for (int pair = 0; pair < 32; pair++) EXPECT_EQ(out[9 + pair], 4 * pair + 1);
        expect_counts(0, 0, 0, 0, 8 * 6 + 32 * 2, 12);
    });
}

// ---- tiles

struct Three {
    float x, y, z;
};

template <unsigned N>
__global__ void tile_calls(unsigned *out) {
    const auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    const unsigned rank = tile.thread_rank(), t = threadIdx.x;
    unsigned *mine = out + 12 * t;
    mine[0] = rank;
    mine[1] = tile.meta_group_rank();
    mine[2] = tile.meta_group_size();
    mine[3] = tile.shfl(t, int(N - 1));
    mine[4] = tile.shfl_up(t, 1);
    mine[5] = tile.shfl_down(t, 1);
    mine[6] = N > 1 ? tile.shfl_xor(t, 1) : t;
    mine[7] = tile.ballot(t % 3 == 0);
    mine[8] = unsigned(tile.any(t == 5)) + 2 * unsigned(tile.all(t < 40));
    mine[9] = tile.match_any(t % 3);
    int same;
    mine[10] = tile.match_all(t / 32, same);
    mine[11] = unsigned(same) + unsigned(tile.size());
}

template <unsigned N>
void check_tiles() {
    Device_array<unsigned> out(12 * 64);
    ASSERT_EQ(run(1, 64, tile_calls<N>, out), cudaSuccess);
    for (unsigned t = 0; t < 64; t++) {
        const unsigned rank = t % N, first = t - rank, last = first + N - 1;
        unsigned thirds = 0, same = 0, five = 0, all = 1;
        for (unsigned r = 0; r < N; r++) {
            thirds |= unsigned((first + r) % 3 == 0) << r;
            same |= unsigned((first + r) % 3 == t % 3) << r;
            five |= first + r == 5;
            all &= first + r < 40;
        }
        const unsigned expected[12] = {rank,
                                       t / N,
                                       64 / N,
                                       last,
                                       rank ? t - 1 : t,
                                       t < last ? t + 1 : t,
                                       N > 1 ? t ^ 1 : t,
                                       thirds,
                                       five + 2 * all,
                                       same,
                                       N == 32 ? ~0u : (1u << N % 32) - 1,
                                       1 + N};
        for (unsigned k = 0; k < 12; k++)
            ASSERT_EQ(out[12 * t + k], expected[k]) << N << ' ' << t << ' ' << k;
    }
}

TEST_F(Groups, Tiles) {
    under_seeds(8, [] {
        check_tiles<1>();
        check_tiles<2>();
        check_tiles<4>();
        check_tiles<16>();
        check_tiles<32>();
    });
    under_seeds(8, [] {
        check_tiles<8>();
        expect_counts(8 * 4, 8 * 5, 8 * 2, 0);
    });
}

__global__ void tiles_of_tiles(unsigned *out) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto quad = cg::tiled_partition<4>(warp);
    const cg::thread_block_tile<4> plain = quad;
    out[3 * threadIdx.x] = quad.meta_group_rank();
    out[3 * threadIdx.x + 1] = quad.meta_group_size();
    out[3 * threadIdx.x + 2] = plain.thread_rank() + 10 * plain.meta_group_rank();
}

TEST_F(Groups, TilesOfTiles) {
    const auto expected = [](int i) {
        const unsigned t = unsigned(i / 3), quad = t % 32 / 4;
        return i % 3 == 0 ? quad : i % 3 == 1 ? 8 : t % 4 + 10 * quad;
    };
    expect_each(1, 64, 3 * 64, expected, tiles_of_tiles);
}

__global__ void shuffle_types(double *out) {
    const auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    const float t = float(threadIdx.x);
    const Three three = tile.shfl(Three{t, t + 0.25f, t + 0.5f}, 2); // three shuffles
    const unsigned char small = tile.shfl(static_cast<unsigned char>(threadIdx.x), 1);
    out[threadIdx.x] = three.x + three.y + three.z + small + tile.shfl(double(t) / 8, 3);
}

TEST_F(Groups, ShuffleOfAnyType) {
    expect_each(
        1, 4, 4, [](int) { return 6.75 + 1 + 0.375; }, shuffle_types);
    expect_counts(3 + 1 + 1, 0, 0, 0);
}

// ---- groups by value, reductions, scans

__global__ void labeled(unsigned *out, const int *label) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const unsigned t = threadIdx.x;
    const cg::coalesced_group group = cg::labeled_partition(warp, label[t]);
    unsigned *mine = out + 13 * t;
    mine[0] = group.thread_rank();
    mine[1] = group.size();
    mine[2] = group.meta_group_rank();
    mine[3] = group.meta_group_size();
    mine[4] = group.shfl(t, group.size() - 1);
    mine[5] = group.shfl_up(t, 1);
    mine[6] = group.shfl_down(t, 1);
    mine[7] = group.ballot(t % 2);
    mine[8] = cg::reduce(group, t, cg::plus<unsigned>());
    mine[9] = unsigned(cg::reduce(group, float(t), cg::plus<float>()));
    mine[10] = unsigned(cg::exclusive_scan(group, int(t)));
    mine[11] = group.match_any(t % 4);
    mine[12] = cg::invoke_one_broadcast(
        group, [](unsigned x) { return 100 + x; }, t);
}

TEST_F(Groups, LabeledPartition) {
    std::vector<int> label;
    for (int t = 0; t < 64; t++) label.push_back(t < 32 ? t * t % 7 : 9);
    Device_array<int> device_label(label);
    under_seeds(8, [&] {
        Device_array<unsigned> out(13 * 64);
        ASSERT_EQ(run(1, 64, labeled, out, device_label), cudaSuccess);
        for (unsigned t = 0; t < 64; t++) {
            const unsigned warp = t / 32 * 32;
            std::vector<unsigned> ranks; // threads of the group
            std::vector<int> seen;       // labels by their lowest lane
            unsigned meta = 0, below = 0, sum = 0;
            for (unsigned o = warp; o < warp + 32; o++) {
                if (std::find(seen.begin(), seen.end(), label[o]) == seen.end()) seen.push_back(label[o]);
                if (label[o] != label[t]) continue;
                ranks.push_back(o);
                sum += o;
                below += o < t ? o : 0;
            }
            while (seen[meta] != label[t]) meta++;
            const unsigned rank = unsigned(std::find(ranks.begin(), ranks.end(), t) - ranks.begin());
            const unsigned size = unsigned(ranks.size());
            unsigned odd = 0, same = 0;
            for (unsigned r = 0; r < size; r++) {
                odd |= ranks[r] % 2 << r;
                same |= unsigned(ranks[r] % 4 == t % 4) << r;
            }
            const unsigned elected = out[13 * ranks[0] + 12] - 100; // simt: the lowest; a GPU: any
            ASSERT_NE(std::find(ranks.begin(), ranks.end(), elected), ranks.end());
#ifdef __SIMT__
            ASSERT_EQ(elected, ranks[0]);
#endif
            const unsigned expected[13] = {rank,
                                           size,
                                           meta,
                                           unsigned(seen.size()),
                                           ranks.back(),
                                           rank ? ranks[rank - 1] : t,
                                           rank + 1 < size ? ranks[rank + 1] : t,
                                           odd,
                                           sum,
                                           sum,
                                           below,
                                           same,
                                           100 + elected};
            for (unsigned k = 0; k < 13; k++) ASSERT_EQ(out[13 * t + k], expected[k]) << t << ' ' << k;
        }
    });
}

__global__ void binary(unsigned *out) {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const cg::coalesced_group group = cg::binary_partition(tile, threadIdx.x % 3 == 0 && threadIdx.x < 24);
    out[threadIdx.x] = group.size() + 10 * group.meta_group_rank() + 100 * group.meta_group_size();
    const cg::coalesced_group by_bool = cg::labeled_partition(group, true);
    out[32 + threadIdx.x] = by_bool.size();
    const cg::coalesced_group pairs = cg::tiled_partition(group, 2);
    out[64 + threadIdx.x] = pairs.size() + 10 * pairs.meta_group_rank() + 100 * pairs.thread_rank();
}

TEST_F(Groups, BinaryPartition) {
    under_seeds(8, [] {
        Device_array<unsigned> out(96);
        ASSERT_EQ(run(1, 32, binary, out), cudaSuccess);
        for (unsigned t = 0; t < 32; t++) {
            const auto in = [](unsigned o) { return o % 3 == 0 && o < 24; };
            unsigned size = 0, rank = 0;
            for (unsigned o = t / 8 * 8; o < t / 8 * 8 + 8; o++) {
                size += in(o) == in(t);
                rank += in(o) == in(t) && o < t;
            }
            EXPECT_EQ(out[t], t < 24 ? size + 10 * in(t) + 200 : 108);
            EXPECT_EQ(out[32 + t], size);
            // A group of at most two lanes is its own tile and keeps its rank in the partition.
            const unsigned tile = size > 2 ? rank / 2 : in(t);
            EXPECT_EQ(out[64 + t], (rank / 2 * 2 + 1 < size ? 2 : 1) + 10 * tile + 100 * (rank % 2));
        }
        expect_counts(0, 4 + 7, 0, 0);
    });
}

template <unsigned N>
__global__ void reductions(int *out) {
    const auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    const int v = int(threadIdx.x) - 20;
    int *mine = out + 8 * threadIdx.x;
    mine[0] = cg::reduce(tile, v, cg::plus<int>());
    mine[1] = cg::reduce(tile, v, cg::less<int>());
    mine[2] = cg::reduce(tile, v, cg::greater<int>());
    mine[3] = cg::reduce(tile, v, cg::bit_and<int>());
    mine[4] = cg::reduce(tile, v, cg::bit_or<int>());
    mine[5] = cg::reduce(tile, v, cg::bit_xor<int>());
    mine[6] = int(cg::reduce(tile, float(v), cg::greater<float>()));
    mine[7] = cg::reduce(tile, v, [](int a, int b) { return a + 2 * b - b; });
}

template <unsigned N>
void check_reductions() {
    Device_array<int> out(8 * 64);
    ASSERT_EQ(run(1, 64, reductions<N>, out), cudaSuccess);
    for (int t = 0; t < 64; t++) {
        int e[6] = {0, 100, -100, -1, 0, 0};
        for (int o = t / int(N) * int(N), end = o + int(N); o < end; o++) {
            const int v = o - 20;
            e[0] += v, e[1] = std::min(e[1], v), e[2] = std::max(e[2], v);
            e[3] &= v, e[4] |= v, e[5] ^= v;
        }
        for (int k = 0; k < 6; k++) ASSERT_EQ(out[8 * t + k], e[k]) << N << ' ' << k;
        ASSERT_EQ(out[8 * t + 6], e[2]);
        ASSERT_EQ(out[8 * t + 7], e[0]);
    }
}

TEST_F(Groups, Reduce) {
    under_seeds(8, [] {
        check_reductions<1>();
        check_reductions<8>();
        check_reductions<32>();
        // 8 tiles of 8: eight reductions of log2(8) shuffles; 2 of 32: six redux, two of log2(32) shuffles
        expect_counts(8 * 8 * 3 + 2 * 2 * 5, 2 * 6, 0, 2 * 6);
    });
}

// Every lane gets the same bits, although addition of floats is not associative.
__global__ void same_bits(float *out, const float *in) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    out[threadIdx.x] = cg::reduce(warp, in[threadIdx.x], cg::plus<float>());
    const auto odd = cg::binary_partition(warp, threadIdx.x % 2);
    out[32 + threadIdx.x] = cg::reduce(odd, in[threadIdx.x], cg::plus<float>());
}

TEST_F(Groups, ReduceGivesAllLanesTheSameBits) {
    std::vector<float> in;
    for (int t = 0; t < 32; t++)
        in.push_back(std::ldexp(1.0f + float(t) / 37, t % 11 * 3) * (t % 3 ? 1 : -1));
    Device_array<float> device_in(in), out(64);
    ASSERT_EQ(run(1, 32, same_bits, out, device_in), cudaSuccess);
    for (int t = 1; t < 32; t++) {
        EXPECT_EQ(out[t], out[0]);
        EXPECT_EQ(out[32 + t], out[32 + t % 2]);
    }
}

__global__ void scans(int *out) {
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int v = int(threadIdx.x * 7 % 10);
    out[threadIdx.x] = cg::inclusive_scan(tile, v);
    out[32 + threadIdx.x] = cg::exclusive_scan(tile, v);
    out[64 + threadIdx.x] = cg::inclusive_scan(tile, v, cg::greater<int>());
}

TEST_F(Groups, Scan) {
    under_seeds(8, [] {
        Device_array<int> out(96);
        ASSERT_EQ(run(1, 32, scans, out), cudaSuccess);
        for (int t = 0; t < 32; t++) {
            int sum = 0, largest = 0;
            for (int o = t / 16 * 16; o <= t; o++) sum += o * 7 % 10, largest = std::max(largest, o * 7 % 10);
            EXPECT_EQ(out[t], sum);
            EXPECT_EQ(out[32 + t], sum - t * 7 % 10);
            EXPECT_EQ(out[64 + t], largest);
        }
        expect_counts(2 * (4 + 5 + 4), 0, 0, 0);
    });
}

__global__ void copies(int *out, const int *in) {
    __shared__ int staged[50];
    const cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, staged, in, sizeof staged);
    cg::wait(block);
    for (unsigned i = block.thread_rank(); i < 50; i += block.size()) out[i] = staged[49 - i];
}

TEST_F(Groups, MemcpyAsync) {
    std::vector<int> in;
    for (int i = 0; i < 50; i++) in.push_back(i * i);
    Device_array<int> device_in(in);
    under_seeds(8, [&] {
        expect_each(
            1, 40, 50, [](int i) { return (49 - i) * (49 - i); }, copies, device_in);
    });
}

// ---- coalesced threads

// Counts the even lanes and the odd lanes, with one atomic a group.
__global__ void count_by_groups(int *counts, unsigned *size) {
    const unsigned t = threadIdx.x;
    if (t % 2) {
        const cg::coalesced_group group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(&counts[1], int(group.size()));
        size[t] = group.size();
    } else {
        const cg::coalesced_group group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(&counts[0], int(group.size()));
        size[t] = group.size();
        group.sync();
    }
}

// The sizes of the groups of 70 threads, of which each lane is counted once.
std::vector<unsigned> sizes_of_groups() {
    Device_array<int> counts(2, 0);
    Device_array<unsigned> size(70);
    EXPECT_EQ(run(1, 70, count_by_groups, counts, size), cudaSuccess);
    EXPECT_EQ(counts[0], 35);
    EXPECT_EQ(counts[1], 35);
    return std::vector<unsigned>(&size[0], &size[0] + 70);
}
TEST_F(Groups, CoalescedThreadsCountEachLaneOnce) {
    under_seeds(8, [] {
        for (const unsigned size : sizes_of_groups()) EXPECT_TRUE(size >= 1 && size <= 16) << size;
    });
}
#ifdef __SIMT__
TEST_F(Groups, CoalescedThreadsAreThoseOfOneLine) {
    const std::vector<unsigned> size = sizes_of_groups();
    for (unsigned t = 0; t < 70; t++) EXPECT_EQ(size[t], t < 64 ? 16u : 3u);
    expect_counts(0, 6, 0, 0, 3);
    EXPECT_EQ(simt_counters_read().atomic_instructions, 6u);
}
// Any division is legal, so other schedules divide; a kernel that needs all lanes together shows here.
TEST_F(Groups, CoalescedThreadsAreDividedAtRandom) {
    std::set<unsigned> sizes;
    for (std::uint64_t seed = 1; seed <= 50; seed++) {
        simt_set_seed(seed);
        for (const unsigned size : sizes_of_groups()) sizes.insert(size);
    }
    EXPECT_EQ(sizes.count(1), 1u);
    EXPECT_EQ(sizes.count(16), 1u);
    EXPECT_GT(sizes.size(), 10u);
}
#endif

// Groups in a loop that lanes leave at different times, while other lanes wait at a barrier.
__global__ void ragged(int *sum, int *calls) {
    const int rounds = int(threadIdx.x % 7);
    for (int i = 0; i < rounds; i++) {
        const cg::coalesced_group group = cg::coalesced_threads();
        const int total = cg::reduce(group, i + 1, cg::plus<int>());
        cg::invoke_one(group, [&] { atomicAdd(sum, total); });
        if (i == 2) {
            __threadfence();
            atomicAdd(calls, 1);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(calls, *sum * 1000);
}

TEST_F(Groups, CoalescedThreadsInALoop) {
    int total = 0, third = 0;
    for (int t = 0; t < 64; t++) {
        total += t % 7 * (t % 7 + 1) / 2;
        third += t % 7 > 2;
    }
    under_seeds(8, [&] {
        Device_array<int> sum(1, 0), calls(1, 0);
        ASSERT_EQ(run(1, 64, ragged, sum, calls), cudaSuccess);
        EXPECT_EQ(sum[0], total);
        EXPECT_EQ(calls[0], third + 1000 * total);
    });
}

// Lane 0 spins for what a lane does after coalesced_threads: the lanes there do not wait for it forever.
__global__ void spin_for_a_group(int *flag, unsigned *size) {
    if (threadIdx.x == 0) {
        while (atomicAdd(flag, 0) == 0) {
        }
    } else {
        const cg::coalesced_group group = cg::coalesced_threads();
        *size = group.size();
        if (group.thread_rank() == 0) atomicExch(flag, 1);
    }
}

TEST_F(Groups, CoalescedThreadsDoNotWaitForALaneThatSpins) {
#ifdef __SIMT__
    simt_set_step_limit(1000000);
#endif
    under_seeds(8, [] {
        Device_array<int> flag(1, 0);
        Device_array<unsigned> size(1);
        ASSERT_EQ(run(1, 32, spin_for_a_group, flag, size), cudaSuccess);
        EXPECT_EQ(flag[0], 1);
        EXPECT_GE(size[0], 1u);
    });
}

#ifdef __SIMT__
// A lane that fences on its way still joins.
__global__ void late(unsigned *size) {
    if (threadIdx.x % 4 == 1)
        for (int i = 0; i < 20; i++) __threadfence();
    size[threadIdx.x] = cg::coalesced_threads().size();
}

TEST_F(Groups, CoalescedThreadsWaitForLateLanes) {
    expect_each(
        1, 32, 32, [](int) { return 32u; }, late);
}
#endif

} // namespace
