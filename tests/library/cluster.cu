// SPDX-License-Identifier: MIT
// Sums of a cluster in distributed shared memory. Under simt and before compute capability 9.0 the kernels
// are launched without clusters, and each block flushes for itself: the sums in memory are the same.

#include "device_test.cuh"
#include <distwar/cluster.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

namespace {

enum { K = 3, SLOTS = 21, USED = 18, UNTOUCHED = 4, ROUNDS = 2, KEYS = 23, STRIDE = K + 1 };

bool have_clusters() {
#ifdef __CUDACC__
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    return properties.major >= 9;
#else
    return false;
#endif
}

// Launches in clusters of `blocks` blocks, where there are clusters.
template <typename... Parameters, typename... Arguments>
void run_in_clusters(unsigned blocks, unsigned grid, dim3 block, void (*kernel)(Parameters...),
                     Arguments... arguments) {
#ifdef __CUDACC__
    if (have_clusters()) {
        cudaLaunchAttribute cluster = {};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim.x = blocks, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = grid, config.blockDim = block;
        config.attrs = &cluster, config.numAttrs = 1;
        CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
        CHECK(cudaDeviceSynchronize());
        return;
    }
#endif
    (void)blocks;
    run(grid, block, kernel, arguments...);
}

__host__ __device__ int slot_of(int rank, int block) {
    const int slot = (rank + 5 * block) % SLOTS;
    return slot == UNTOUCHED ? 0 : slot;
}
__host__ __device__ int value_of(int rank, int k, int round) {
    return rank % 7 - 3 * k + 100 * round;
}

// Counts its commits behind the values.
struct counting_record {
    float *base;
    template <typename Key>
    __device__ void add(Key key, const float (&values)[K]) const {
        distwar::record<float>{base, STRIDE}.add(key, values);
        distwar::atomic_add(base + size_t(key) * STRIDE + K, 1.0f);
    }
};

// The first round leaves out the slots from USED on, the second flushes them. No thread adds to UNTOUCHED.
template <int Blocks>
__global__ void accumulate(const int *key_of_slot, float *targets, unsigned *flag) {
    __shared__ distwar::cluster_accumulator<K, SLOTS, Blocks> sums;
    const distwar::fixed_format<K> format = {{4, 2, 1}, flag};
    const int rank = distwar::block_rank();
    if (rank == 0)
        for (auto &row : sums.sum)
            for (long long &sum : row) sum = 77;
    __syncthreads();
    sums.clear();
    for (int round = 0; round < ROUNDS; ++round) {
        float val[K];
        for (int k = 0; k < K; ++k) val[k] = float(value_of(rank, k, round)) / 2;
        val[2] *= 2;
        distwar::reduce_fixed(distwar::existing_lanes(), rank % 4 != 0, slot_of(rank, int(blockIdx.x)), val,
                              sums.sink(), format);
        if (rank % 4 == 0) {
            long long units[K];
            for (int k = 0; k < K; ++k) units[k] = (long long)(val[k] * format.scale[k]);
            sums.sink().add(slot_of(rank, int(blockIdx.x)), units);
        }
        sums.flush(key_of_slot, round == 0 ? USED : SLOTS,
                   distwar::from_fixed(format, counting_record{targets + round * KEYS * STRIDE}));
    }
}

template <int Blocks>
void check_accumulator(int threads, int clusters) {
    const int grid = clusters * Blocks;
    std::vector<int> key_of_slot;
    for (int slot = 0; slot < SLOTS; ++slot) key_of_slot.push_back(slot * 5 % KEYS);
    const int owners = have_clusters() ? Blocks : 1;
    std::vector<float> expected(ROUNDS * KEYS * STRIDE, 0.0f);
    for (int cluster = 0; cluster < grid / owners; ++cluster) {
        std::vector<std::vector<double>> sums(SLOTS, std::vector<double>(K, 0.0));
        for (int round = 0; round < ROUNDS; ++round) {
            for (int block = cluster * owners; block < (cluster + 1) * owners; ++block)
                for (int rank = 0; rank < threads; ++rank)
                    for (int k = 0; k < K; ++k)
                        sums[slot_of(rank, block)][k] += value_of(rank, k, round) / (k == 2 ? 1.0 : 2.0);
            for (int slot = 0; slot < (round == 0 ? USED : SLOTS); ++slot) {
                float *const target = &expected[(round * KEYS + key_of_slot[slot]) * STRIDE];
                bool any = false;
                for (int k = 0; k < K; ++k) {
                    any = any || sums[slot][k] != 0;
                    target[k] += float(sums[slot][k]);
                    sums[slot][k] = 0;
                }
                target[K] += any;
            }
        }
    }
    for (int schedule = 0; schedule < 5; ++schedule) {
        const device_array<int> keys(key_of_slot);
        const device_array<float> targets(std::vector<float>(expected.size(), 0.0f));
        const device_array<unsigned> flag({0});
        set_schedule(schedule);
        run_in_clusters(Blocks, grid, threads, accumulate<Blocks>, keys.get(), targets.get(), flag.get());
        EXPECT_EQ(targets.download(), expected) << Blocks << " blocks, " << threads << " threads";
        EXPECT_EQ(flag.download()[0], 0u);
    }
}

TEST(ClusterAccumulator, AddsAndFlushesOnceForACluster) {
    for (const int threads : {1, 8, 33, 256}) {
        check_accumulator<1>(threads, 3);
        check_accumulator<2>(threads, 2);
        check_accumulator<3>(threads, 1);
        check_accumulator<4>(threads, 2);
        check_accumulator<8>(threads, 2);
    }
}

// Integers as they are, of 4 and 8 bytes, to a record of the same type.
template <typename T>
__global__ void count(const int *key_of_slot, T *targets) {
    __shared__ distwar::cluster_accumulator<1, 5, 2, T> sums;
    sums.clear();
    const T one[1] = {T(1)};
    distwar::reduce_tree(distwar::existing_lanes(), true, distwar::block_rank() % 5, one, sums.sink());
    sums.flush(key_of_slot, 5, distwar::record<T>{targets, 1});
}
template <typename T>
void check_count() {
    const device_array<int> keys({4, 3, 2, 1, 0});
    const device_array<T> targets(std::vector<T>(5, T(1)));
    run_in_clusters(2, 4, 64, count<T>, keys.get(), targets.get());
    EXPECT_EQ(targets.download(),
              (std::vector<T>{1 + 4 * 12, 1 + 4 * 13, 1 + 4 * 13, 1 + 4 * 13, 1 + 4 * 13}));
}
TEST(ClusterAccumulator, SumsEachTypeOfInteger) {
    check_count<int>();
    check_count<unsigned>();
    check_count<long long>();
    check_count<unsigned long long>();
}

#ifdef __CUDACC__
// Kernels that need clusters: the fallback cannot show that slots are shared.
__global__ void commits(unsigned *commits) {
    __shared__ distwar::cluster_accumulator<1, 8, 8, unsigned> sums;
    __shared__ int key_of_slot[8];
    if (threadIdx.x < 8) key_of_slot[threadIdx.x] = int(threadIdx.x);
    sums.clear();
    const unsigned one[1] = {1};
    sums.sink().add(int(threadIdx.x % 8), one);
    struct counting {
        unsigned *commits;
        __device__ void add(int key, const unsigned (&)[1]) const { atomicAdd(commits + key, 1u); }
    };
    sums.flush(key_of_slot, 8, counting{commits});
}
TEST(ClusterAccumulator, CommitsASlotOnceForACluster) {
    if (!have_clusters()) GTEST_SKIP() << "needs compute capability 9.0";
    const device_array<unsigned> found(std::vector<unsigned>(8, 0u));
    run_in_clusters(8, 16, 32, commits, found.get());
    EXPECT_EQ(found.download(), std::vector<unsigned>(8, 2u));
}
#else
TEST(ClusterAccumulator, CommitsASlotOnceForACluster) {
    GTEST_SKIP() << "simt has no clusters";
}
#endif

} // namespace
