// SPDX-License-Identifier: MIT
// What it costs to bring the sums of blocks to memory: the flush of an accumulator by atomics of one float, by vector
// atomics and by bulk reductions.
//
//     flush [RUNS] > flush.json
//
// Each block writes its sums to shared memory and flushes them. Eight neighbouring blocks have the same keys; all
// blocks have, or 65,536 / slots groups of eight have different ones. All values are integers, and before a method is
// timed its sums must be exact. On the CPU it only checks.
#include "device.h"
#include "gpu_timer.h"
#include "launch.cuh"
#include "timing.h"
#include <distwar/bulk.cuh>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

namespace {

enum { BLOCK = 256, ROWS = 1 << 16, GROUP = 8, MAX_SHARED = 227 * 1024, MAX_VALUES = 32 };

enum method { PLAIN, VECTOR, BULK, CONSECUTIVE, METHODS };
const char *const method_names[METHODS] = {"plain", "vector", "bulk", "consecutive"};

struct launch_case {
    int blocks;
    int key_groups; // groups of GROUP blocks with different keys; 1: all blocks have the same
    float *table;   // [ROWS][stride]
    int *keys;      // [ROWS]: those of a block's slots are slots consecutive ones
};

__host__ __device__ float value_of(int key, int k) {
    return float(key % 7 + k % 3 + 1);
}
// The slots' keys in an order that is not that of memory.
__host__ __device__ int permuted(int slot, int slots) {
    return slot * 29 % slots;
}
__host__ __device__ int key_group_of(int block, int key_groups) {
    return block / GROUP % key_groups;
}

template <typename T>
__device__ T *block_memory() {
#ifdef __SIMT__
    return static_cast<T *>(simt_dynamic_shared());
#else
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T *>(memory);
#endif
}

template <method How, int K, int N>
__global__ void flush_sums(launch_case given) {
    constexpr int stride = (K + 3) / 4 * 4;
    auto &sums = *block_memory<distwar::accumulator<K, N, float, stride>>();
    const int first_key = key_group_of(int(blockIdx.x), given.key_groups) * N;
    for (int i = int(threadIdx.x); i < N * stride; i += BLOCK) {
        const int slot = i / stride, k = i % stride;
        const int key = first_key + (How == CONSECUTIVE ? slot : permuted(slot, N));
        sums.sum[slot][k] = k < K ? value_of(key, k) : 0;
    }
    const int *const keys = given.keys + first_key;
    const distwar::record<float> table = {given.table, size_t(stride)};
    if constexpr (How == PLAIN)
        sums.flush(keys, N, table);
    else if constexpr (How == VECTOR)
        sums.flush(keys, N, distwar::aligned_record{given.table, size_t(stride)});
    else if constexpr (How == BULK)
        distwar::detail::bulk_flush_slots<distwar::bulk_wait::source>(sums, keys, N, table);
    else
        distwar::bulk_flush_consecutive(sums, first_key, N, table);
}

__global__ void fill_keys(int *keys, int slots) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < ROWS) keys[i] = i / slots * slots + permuted(i % slots, slots);
}

// Counts the values of the table that are not the exact sums.
__global__ void count_wrong(launch_case given, int values, int slots, unsigned *wrong) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= ROWS) return;
    const int stride = (values + 3) / 4 * 4, groups = given.blocks / GROUP, key_group = row / slots;
    const int times = key_group >= given.key_groups
                          ? 0
                          : GROUP * (groups / given.key_groups + (key_group < groups % given.key_groups));
    for (int k = 0; k < stride; ++k) {
        const float expected = k < values ? float(times) * value_of(row, k) : 0;
        if (given.table[size_t(row) * stride + k] != expected) atomicAdd(wrong, 1u);
    }
}

struct measurement {
    const char *method;
    int values, slots, blocks, key_groups;
    double median_ms;
};

struct bench {
    int runs;
    launch_case memory;
    unsigned *wrong;
    gpu_timer timer;
    std::vector<measurement> results;
};

cudaError_t launch_blocks(void (*kernel)(launch_case), const launch_case &given, size_t shared_bytes) {
    cudaLaunchConfig_t config = {};
    config.gridDim = unsigned(given.blocks);
    config.blockDim = BLOCK;
    config.dynamicSmemBytes = shared_bytes;
    return cudaLaunchKernelEx(&config, kernel, given);
}

// Checks and times one method; leaves out what does not fit into shared memory.
void measure(bench *b, measurement what, void (*kernel)(launch_case), size_t shared_bytes) {
    if (shared_bytes > MAX_SHARED) return;
    launch_case given = b->memory;
    given.blocks = what.blocks, given.key_groups = what.key_groups;
    const size_t table_bytes = size_t(ROWS) * size_t((what.values + 3) / 4 * 4) * sizeof(float);
    if (shared_bytes > 48 * 1024)
        DEVICE_CHECK(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)));

    DEVICE_CHECK(launch(nullptr, blocks_for(ROWS, BLOCK), BLOCK, fill_keys, given.keys, what.slots));
    device_clear(given.table, table_bytes);
    device_clear(b->wrong, sizeof *b->wrong);
    DEVICE_CHECK(launch_blocks(kernel, given, shared_bytes));
    DEVICE_CHECK(launch(nullptr, blocks_for(ROWS, BLOCK), BLOCK, count_wrong, given, what.values, what.slots,
                        b->wrong));
    unsigned wrong;
    device_download(&wrong, b->wrong, sizeof wrong);
    if (wrong != 0) {
        fprintf(stderr, "WRONG: %u sums of %s, %d values, %d slots, %d blocks, %d groups of keys\n", wrong,
                what.method, what.values, what.slots, what.blocks, what.key_groups);
        exit(EXIT_FAILURE);
    }
#ifndef __SIMT__
    std::vector<double> times;
    for (int run = 0; run < b->runs; ++run) {
        gpu_timer_start(&b->timer);
        DEVICE_CHECK(launch_blocks(kernel, given, shared_bytes));
        times.push_back(gpu_timer_stop(&b->timer));
    }
    what.median_ms = timing_of_runs(times.data(), times.size()).median;
#endif
    b->results.push_back(what);
}

template <method How, int K, int N>
void measure_method(bench *b, measurement what) {
    what.method = method_names[How];
    measure(b, what, flush_sums<How, K, N>, N * size_t((K + 3) / 4 * 4) * sizeof(float));
}

template <int K, int N>
void measure_slots(bench *b) {
#ifdef __SIMT__
    const int grids[] = {16};
#else
    const int grids[] = {136, 1056, 8192};
#endif
    for (const int blocks : grids)
        for (const int key_groups : {1, ROWS / N}) {
            const measurement what = {nullptr, K, N, blocks, key_groups, 0};
            measure_method<PLAIN, K, N>(b, what);
            measure_method<VECTOR, K, N>(b, what);
            measure_method<BULK, K, N>(b, what);
            measure_method<CONSECUTIVE, K, N>(b, what);
        }
}

template <int K>
void measure_values(bench *b) {
#ifndef __SIMT__
    measure_slots<K, 512>(b);
    measure_slots<K, 4096>(b);
#endif
    measure_slots<K, 64>(b);
}

// In the form of Google Benchmark.
void print_json(const bench &b) {
    printf("{\"context\": {\"device\": \"%s\", \"runs\": %d},\n\"benchmarks\": [", device_name(), b.runs);
    const char *separator = "";
    for (const measurement &m : b.results) {
        printf("%s\n{\"name\": \"flush/K:%d/slots:%d/blocks:%d/key_groups:%d/%s\", \"median_ms\": %.9g}",
               separator, m.values, m.slots, m.blocks, m.key_groups, m.method, m.median_ms);
        separator = ",";
    }
    printf("\n]}\n");
}

} // namespace

int main(int argc, char **argv) {
    bench b = {};
    b.runs = argc > 1 ? atoi(argv[1]) : 11;
    if (argc > 2 || b.runs < 1 || b.runs > 10000) {
        fprintf(stderr, "usage: %s [RUNS], 1 to 10000\n", argv[0]);
        return 2;
    }
    b.memory.table = static_cast<float *>(device_allocate(sizeof(float) * ROWS * MAX_VALUES));
    b.memory.keys = static_cast<int *>(device_allocate(sizeof(int) * ROWS));
    b.wrong = static_cast<unsigned *>(device_allocate(sizeof(unsigned)));
#ifndef __SIMT__
    gpu_timer_open(&b.timer);
#endif
    measure_values<4>(&b);
    measure_values<9>(&b);
    measure_values<16>(&b);
    measure_values<32>(&b);
    print_json(b);
#ifndef __SIMT__
    gpu_timer_close(&b.timer);
#endif
    device_free(b.wrong);
    device_free(b.memory.keys);
    device_free(b.memory.table);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
