// SPDX-License-Identifier: MIT
// What it costs to bring the sums of blocks to memory: the flush of an accumulator by atomics of one float,
// by vector atomics, by bulk reductions, and of sums in fixed point.
//
//     flush [--repeat N] [--json FILE]
//
// Two phases. "flush": each block writes its sums to shared memory and flushes them. "accumulate": its
// threads add ADDS times to each slot by atomics in shared memory, then the block flushes.
// Eight neighbouring blocks have the same keys; all blocks have, or 65,536 / slots groups of eight have
// different ones. All values are integers, and before a method is timed its sums must be exact. On the CPU it
// only checks.
#include "device.h"
#include "gpu_timer.h"
#include "launch.cuh"
#include "program.h"
#include "timing.h"
#include <distwar/bulk.cuh>
#include <distwar/fixed.cuh>
#include <stdio.h>
#include <vector>

namespace {

enum { BLOCK = 256, ROWS = 1 << 16, GROUP = 8, ADDS = 4, MAX_SHARED = 227 * 1024, MAX_VALUES = 32 };

enum method { PLAIN, VECTOR, BULK, CONSECUTIVE, FIXED, METHODS };
const char *const method_names[METHODS] = {"plain", "vector", "bulk", "consecutive", "fixed"};

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

// Flushes sums of float.
template <method How, typename Sums>
__device__ void flush_by(Sums &sums, const int *keys, int first_key, int slots, float *table, size_t stride) {
    if constexpr (How == PLAIN)
        sums.flush(keys, slots, distwar::record<float>{table, stride});
    else if constexpr (How == VECTOR)
        sums.flush(keys, slots, distwar::aligned_record{table, stride});
    else if constexpr (How == BULK)
        distwar::detail::bulk_flush_slots<distwar::bulk_wait::source>(sums, keys, slots,
                                                                      distwar::record<float>{table, stride});
    else
        distwar::bulk_flush_consecutive(sums, first_key, slots, distwar::record<float>{table, stride});
}

template <method How, int K, int N>
__global__ void flush_only(launch_case given) {
    constexpr int stride = (K + 3) / 4 * 4;
    auto &sums = *block_memory<distwar::accumulator<K, N, float, stride>>();
    const int first_key = key_group_of(int(blockIdx.x), given.key_groups) * N;
    for (int i = int(threadIdx.x); i < N * stride; i += BLOCK) {
        const int slot = i / stride, k = i % stride;
        const int key = first_key + (How == CONSECUTIVE ? slot : permuted(slot, N));
        sums.sum[slot][k] = k < K ? value_of(key, k) : 0;
    }
    flush_by<How>(sums, given.keys + first_key, first_key, N, given.table, size_t(stride));
}

template <method How, int K, int N>
__global__ void accumulate_and_flush(launch_case given) {
    constexpr int stride = (K + 3) / 4 * 4;
    const int first_key = key_group_of(int(blockIdx.x), given.key_groups) * N;
    const int *const keys = given.keys + first_key;
    const auto add_all = [&](auto &sums, auto convert) {
        sums.clear();
        for (int i = int(threadIdx.x); i < N * ADDS; i += BLOCK) {
            const int slot = (i * 13 + int(blockIdx.x) * 5) % N;
            const int key = first_key + (How == CONSECUTIVE ? slot : permuted(slot, N));
            decltype(convert(0.0f)) values[K];
            for (int k = 0; k < K; ++k) values[k] = convert(value_of(key, k));
            sums.sink().add(slot, values);
        }
    };
    if constexpr (How < FIXED) {
        auto &sums = *block_memory<distwar::accumulator<K, N, float, stride>>();
        add_all(sums, [](float value) { return value; });
        flush_by<How>(sums, keys, first_key, N, given.table, size_t(stride));
    } else {
        auto &sums = *block_memory<distwar::accumulator<K, N, long long>>();
        distwar::fixed_format<K> format = {};
        for (int k = 0; k < K; ++k) format.scale[k] = 1;
        add_all(sums, [](float value) {
            unsigned flags = 0;
            return distwar::to_fixed(value, 1.0f, flags);
        });
        sums.flush(keys, N,
                   distwar::from_fixed(format, distwar::aligned_record{given.table, size_t(stride)}));
    }
}

__global__ void fill_keys(int *keys, int slots) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < ROWS) keys[i] = i / slots * slots + permuted(i % slots, slots);
}

// Counts the values of the table that are not the exact sums.
__global__ void count_wrong(launch_case given, int values, int slots, int adds, unsigned *wrong) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= ROWS) return;
    const int stride = (values + 3) / 4 * 4, groups = given.blocks / GROUP, key_group = row / slots;
    const int times = key_group >= given.key_groups
                          ? 0
                          : GROUP * (groups / given.key_groups + (key_group < groups % given.key_groups));
    for (int k = 0; k < stride; ++k) {
        const float expected = k < values ? float(adds * times) * value_of(row, k) : 0;
        if (given.table[size_t(row) * stride + k] != expected) atomicAdd(wrong, 1u);
    }
}

struct measurement {
    const char *phase, *method;
    int values, slots, blocks, key_groups;
    timing times;
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
bool measure(bench *b, measurement what, void (*kernel)(launch_case), size_t shared_bytes, int adds,
             fault *why) {
    if (shared_bytes > MAX_SHARED) return true;
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
                        adds, b->wrong));
    unsigned wrong;
    device_download(&wrong, b->wrong, sizeof wrong);
    if (wrong != 0)
        return fail(why, "WRONG: %u sums of %s, %s, %d values, %d slots, %d blocks, %d groups of keys", wrong,
                    what.method, what.phase, what.values, what.slots, what.blocks, what.key_groups);
#ifndef __SIMT__
    std::vector<double> times;
    for (int run = 0; run < b->runs; ++run) {
        gpu_timer_start(&b->timer);
        DEVICE_CHECK(launch_blocks(kernel, given, shared_bytes));
        times.push_back(gpu_timer_stop(&b->timer));
    }
    what.times = timing_of_runs(times.data(), times.size());
#endif
    b->results.push_back(what);
    return true;
}

template <method How, int K, int N>
bool measure_accumulate(bench *b, measurement what, fault *why) {
    what.phase = "accumulate", what.method = method_names[How];
    const size_t shared_bytes =
        N * (How < FIXED ? size_t((K + 3) / 4 * 4) * sizeof(float) : K * sizeof(long long));
    return measure(b, what, accumulate_and_flush<How, K, N>, shared_bytes, ADDS, why);
}

template <method How, int K, int N>
bool measure_flush(bench *b, measurement what, fault *why) {
    what.phase = "flush", what.method = method_names[How];
    return measure(b, what, flush_only<How, K, N>, N * size_t((K + 3) / 4 * 4) * sizeof(float), 1, why);
}

template <int K, int N>
bool measure_all(bench *b, fault *why) {
#ifdef __SIMT__
    const int grids[] = {16};
#else
    const int grids[] = {136, 1056, 8192};
#endif
    for (const int blocks : grids)
        for (const int key_groups : {1, ROWS / N}) {
            const measurement what = {nullptr, nullptr, K, N, blocks, key_groups, {}};
            if (!measure_flush<PLAIN, K, N>(b, what, why) || !measure_flush<VECTOR, K, N>(b, what, why) ||
                !measure_flush<BULK, K, N>(b, what, why) || !measure_flush<CONSECUTIVE, K, N>(b, what, why) ||
                !measure_accumulate<PLAIN, K, N>(b, what, why) ||
                !measure_accumulate<VECTOR, K, N>(b, what, why) ||
                !measure_accumulate<BULK, K, N>(b, what, why) ||
                !measure_accumulate<CONSECUTIVE, K, N>(b, what, why) ||
                !measure_accumulate<FIXED, K, N>(b, what, why))
                return false;
        }
    return true;
}

template <int K>
bool measure_values(bench *b, fault *why) {
#ifndef __SIMT__
    if (!measure_all<K, 512>(b, why) || !measure_all<K, 4096>(b, why)) return false;
#endif
    return measure_all<K, 64>(b, why);
}

void print_table(const bench &b) {
#ifdef __SIMT__
    printf("%zu combinations give exact sums\n", b.results.size());
    return;
#endif
    const measurement *before = nullptr;
    printf("%s; ms, medians of %d runs; largest spread of the runs: ", device_name(), b.runs);
    double spread = 0;
    for (const measurement &m : b.results) {
        const double of_this = (m.times.maximum - m.times.minimum) / m.times.median;
        spread = of_this > spread ? of_this : spread;
    }
    printf("%.0f %%", 100 * spread);
    for (const measurement &m : b.results) {
        if (!before || before->phase != m.phase || before->values != m.values || before->slots != m.slots ||
            before->blocks != m.blocks || before->key_groups != m.key_groups)
            printf("\n%-10s K %2d, %4d slots, %4d blocks, %4d key groups:", m.phase, m.values, m.slots,
                   m.blocks, m.key_groups);
        printf("  %s %.4f", m.method, m.times.median);
        before = &m;
    }
    printf("\n");
}

void write_json(FILE *json, const bench &b) {
    fprintf(
        json,
        "{\n\"benchmark\": \"flush\", \"device\": \"%s\", \"runs\": %d, \"adds_to_a_slot\": %d,\n\"measurements\": [",
        device_name(), b.runs, ADDS);
    const char *separator = "";
    for (const measurement &m : b.results) {
        fprintf(json,
                "%s\n{\"phase\": \"%s\", \"method\": \"%s\", \"values\": %d, \"slots\": %d, \"blocks\": %d, ",
                separator, m.phase, m.method, m.values, m.slots, m.blocks);
        fprintf(json, "\"key_groups\": %d, \"median_ms\": %.9g, \"minimum_ms\": %.9g, \"maximum_ms\": %.9g}",
                m.key_groups, m.times.median, m.times.minimum, m.times.maximum);
        separator = ",";
    }
    fprintf(json, "\n]\n}\n");
}

} // namespace

int main(int argc, char **argv) {
    const arguments given = read_arguments(argc, argv, 11);
    fault why;
    bench b = {};
    b.runs = given.runs;
    b.memory.table = static_cast<float *>(device_allocate(sizeof(float) * ROWS * MAX_VALUES));
    b.memory.keys = static_cast<int *>(device_allocate(sizeof(int) * ROWS));
    b.wrong = static_cast<unsigned *>(device_allocate(sizeof(unsigned)));
#ifndef __SIMT__
    gpu_timer_open(&b.timer);
#endif
    bool done = measure_values<4>(&b, &why) && measure_values<9>(&b, &why) && measure_values<16>(&b, &why) &&
                measure_values<32>(&b, &why);
    if (done) print_table(b);
    if (done && given.json) write_json(given.json, b);
#ifndef __SIMT__
    gpu_timer_close(&b.timer);
#endif
    device_free(b.wrong);
    device_free(b.memory.keys);
    device_free(b.memory.table);
    return end_program(given, done, &why);
}
