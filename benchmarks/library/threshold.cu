// SPDX-License-Identifier: MIT
// reduce_tree at thresholds 0 and 33 beside plain atomics, over what a call sees and what it does not see.
//
//     threshold [--repeat N] [--json FILE]
//
// A cell is one K, sink, number of targets, pattern of the lanes (how many are active, how many keys they
// hold, equally many lanes a key or not) and amount of work before the call: none, or 100 multiply-adds in
// blocks that fill half of a multiprocessor. All warps look alike. Every method of a cell makes the same
// number of calls. Before a cell is timed, the sums of each method must equal those of plain atomics, which
// are exact. On the CPU it only checks. benchmarks/tables.py threshold FILE prints what loses where.
#include "device.h"
#include "launch.cuh"
#include "program.h"
#include "random.h"
#include <algorithm>
#include <distwar/reduce.cuh>
#include <utility>
#include <vector>

namespace {

enum { BLOCK = 256, SLOTS = 4, NO_SLOT = 0xff, FEW = 1024, MANY = 1 << 20, HEAVY = 100, KEY_STEP = 33 };
#ifdef __SIMT__
enum { WARPS = 16 };
#else
enum { WARPS = 132 * 64 };
#endif
constexpr double SHORTEST_MS = 0.06; // a launch of the fastest of atomic and threshold 0
enum { MOST_CALLS = 256, HEAVY_SHARED_BYTES = 54 * 1024 }; // four blocks a multiprocessor

// atomic, or reduce_tree at a threshold.
enum method { ATOMIC, ZERO, NEVER, METHODS };
const char *const method_names[METHODS] = {"atomic", "0", "33"};
__host__ __device__ constexpr int threshold_of(int how) {
    return how == ZERO ? 0 : 33;
}

struct pattern {
    int active, keys;
    bool even;
};

__host__ __device__ inline float value_of(uint32_t thread, int k) {
    return float((thread + 3 * k) % 8 + k % 8);
}
// The value; the compiler takes it for another one.
__device__ __forceinline__ float keep(float value) {
#ifndef __SIMT__
    asm volatile("" : "+f"(value));
#endif
    return value;
}
__host__ __device__ constexpr int stride_of(int K) {
    return K <= 2 ? K : (K + 3) / 4 * 4;
}

struct launch_case {
    const uint32_t *slots; // of a thread's calls, one byte each: the number of its key, or NO_SLOT
    float *table;
    uint32_t targets;
    int calls, work;
    float one, zero; // 1 and 0, unknown to the compiler
};

template <int K, bool Vectors, int How>
__global__ void __launch_bounds__(BLOCK) adds(launch_case given) {
    constexpr int stride = stride_of(K);
    const uint32_t thread = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t rest = given.slots[thread], draw = thread / 32 * 0x9e3779b1u;
    draw = (draw ^ draw >> 15) * 0x85ebca77u;
    float val[K];
#pragma unroll
    for (int k = 0; k < K; ++k) val[k] = value_of(thread, k);
#pragma unroll 1
    for (int call = 0; call < given.calls; ++call) {
        if (given.work) {
            float chain[4] = {val[0], val[1 % K], val[2 % K], val[3 % K]};
#pragma unroll 1
            for (int i = 0; i < given.work; i += 20)
#pragma unroll
                for (int step = 0; step < 20; ++step)
                    chain[step % 4] = fmaf(chain[step % 4], given.one, given.zero);
            val[0] = chain[0];
            for (const float used : chain) keep(used);
        }
#pragma unroll
        for (int k = 0; k < K; ++k) val[k] = keep(val[k]);
        const unsigned slot = rest >> 24;
        const bool active = slot != NO_SLOT;
        uint32_t key = uint32_t(uint64_t(draw) * given.targets >> 32) + KEY_STEP * slot;
        key = active ? (key >= given.targets ? key - given.targets : key) : 0;
        if constexpr (Vectors) {
            const distwar::aligned_record sink = {given.table, stride};
            if constexpr (How == ATOMIC)
                distwar::reduce_atomic(distwar::all_lanes, active, int(key), val, sink);
            else
                distwar::reduce_tree(distwar::all_lanes, active, int(key), val, sink, threshold_of(How));
        } else {
            const distwar::record<float> sink = {given.table, stride};
            if constexpr (How == ATOMIC)
                distwar::reduce_atomic(distwar::all_lanes, active, int(key), val, sink);
            else
                distwar::reduce_tree(distwar::all_lanes, active, int(key), val, sink, threshold_of(How));
        }
        draw += 0x9e3779b1u;
        rest = rest << 8 | slot;
    }
}

using kernel = void (*)(launch_case);
struct family {
    int K;
    bool vectors;
    kernel of[METHODS];
};
template <int K, bool Vectors, int... How>
family family_of(std::integer_sequence<int, How...>) {
    return {K, Vectors, {adds<K, Vectors, How>...}};
}
template <int K, bool Vectors = false>
family family_of() {
    return family_of<K, Vectors>(std::make_integer_sequence<int, METHODS>());
}

// The sizes of the groups: equal, or each two thirds of the lanes that are left.
std::vector<int> sizes_of(const pattern &p) {
    std::vector<int> sizes;
    int lanes = p.active;
    for (int group = 0; group < p.keys; ++group) {
        const int others = p.keys - group - 1;
        const int size =
            p.even ? (p.active + group) / p.keys : std::max(1, std::min((2 * lanes + 2) / 3, lanes - others));
        sizes.push_back(others ? size : p.even ? size : lanes);
        lanes -= sizes.back();
    }
    return sizes;
}

// Each call of a warp has its lanes in an order of its own.
std::vector<uint32_t> slots_of(const pattern &p) {
    const std::vector<int> sizes = sizes_of(p);
    std::vector<uint32_t> all(size_t(WARPS) * 32);
    random_stream random = {uint64_t(p.active * 64 + p.keys * 2 + p.even)};
    for (int warp = 0; warp < WARPS; ++warp)
        for (int call = 0; call < SLOTS; ++call) {
            unsigned slot[32];
            int filled = 0;
            for (size_t group = 0; group < sizes.size(); ++group)
                for (int i = 0; i < sizes[group]; ++i) slot[filled++] = unsigned(group);
            while (filled < 32) slot[filled++] = NO_SLOT;
            for (int i = 31; i > 0; --i) std::swap(slot[i], slot[random_bits(&random) % unsigned(i + 1)]);
            for (int lane = 0; lane < 32; ++lane) {
                uint32_t &packed = all[size_t(warp) * 32 + lane];
                packed = packed << 8 | slot[lane];
            }
        }
    return all;
}

struct cell {
    int K, targets, work, calls;
    bool vectors;
    pattern lanes;
    double nanoseconds[METHODS]; // of a call of one warp, while the whole GPU makes such calls: medians
};

struct bench {
    int runs;
    launch_case given;
    std::vector<uint32_t> slots;
    std::vector<cell> cells;
    int checked;
    std::vector<cudaEvent_t> events;
    double empty_ms[2]; // a launch that makes no call, without and with work
};

void start(const bench &b, const family &f, int how, const cell &c, int calls) {
    launch_case given = b.given;
    given.targets = uint32_t(c.targets), given.calls = calls, given.work = c.work;
    cudaLaunchConfig_t config = {};
    config.gridDim = WARPS * 32 / BLOCK;
    config.blockDim = BLOCK;
#ifndef __SIMT__
    config.dynamicSmemBytes = c.work ? HEAVY_SHARED_BYTES : 0;
#endif
    DEVICE_CHECK(cudaLaunchKernelEx(&config, f.of[how], given));
}

// Every method's sums of a few calls.
bool check(bench *b, const family &f, const pattern &p, fault *why) {
    const size_t count = size_t(FEW) * stride_of(f.K);
    std::vector<float> expected(count), found(count);
    cell c = {};
    c.targets = FEW;
    for (int how = 0; how < METHODS; ++how) {
        device_clear(b->given.table, count * sizeof(float));
        c.work = how == NEVER ? HEAVY : 0;
        start(*b, f, how, c, 3);
        device_download((how == ATOMIC ? expected : found).data(), b->given.table, count * sizeof(float));
        if (how == ATOMIC && std::all_of(expected.begin(), expected.end(), [](float x) { return x == 0; }))
            return fail(why, "plain atomics added nothing: K = %d, %d active lanes", f.K, p.active);
        if (how != ATOMIC && memcmp(expected.data(), found.data(), count * sizeof(float)) != 0)
            return fail(why, "WRONG sums: %s, K = %d, %d active lanes, %d keys", method_names[how], f.K,
                        p.active, p.keys);
        ++b->checked;
    }
    return true;
}

#ifndef __SIMT__
double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// The medians of `count` methods from `first` on; their runs alternate.
void time_methods(bench *b, const family &f, const cell &c, int calls, int runs, int first, int count,
                  double *ms) {
    for (int run = 0; run < runs; ++run)
        for (int how = 0; how < count; ++how) {
            const size_t place = 2 * size_t(run * count + how);
            DEVICE_CHECK(cudaEventRecord(b->events[place], nullptr));
            start(*b, f, first + how, c, calls);
            DEVICE_CHECK(cudaEventRecord(b->events[place + 1], nullptr));
        }
    DEVICE_CHECK(cudaDeviceSynchronize());
    for (int how = 0; how < count; ++how) {
        std::vector<double> times;
        for (int run = 0; run < runs; ++run) {
            const size_t place = 2 * size_t(run * count + how);
            float elapsed;
            DEVICE_CHECK(cudaEventElapsedTime(&elapsed, b->events[place], b->events[place + 1]));
            times.push_back(elapsed);
        }
        ms[how] = median(times) - b->empty_ms[c.work != 0];
    }
}

void measure(bench *b, const family &f, cell c) {
    double first[2];
    int calls = 4;
    time_methods(b, f, c, calls, 2, ATOMIC, 2, first);
    for (; calls < MOST_CALLS && std::min(first[0], first[1]) < SHORTEST_MS;
         calls *= 2, first[0] *= 2, first[1] *= 2) {
    }
    double ms[METHODS];
    time_methods(b, f, c, calls, b->runs, 0, METHODS, ms);
    c.calls = calls;
    for (int how = 0; how < METHODS; ++how) c.nanoseconds[how] = ms[how] * 1e6 / (double(calls) * WARPS);
    b->cells.push_back(c);
}

void prepare(bench *b, const std::vector<family> &families) {
    b->events.resize(2 * size_t(b->runs) * METHODS + 8);
    for (cudaEvent_t &event : b->events) DEVICE_CHECK(cudaEventCreate(&event));
    for (const family &f : families)
        for (const kernel of : f.of)
            DEVICE_CHECK(
                cudaFuncSetAttribute(of, cudaFuncAttributeMaxDynamicSharedMemorySize, HEAVY_SHARED_BYTES));
    for (const int work : {0, int(HEAVY)}) {
        cell c = {};
        c.targets = FEW, c.work = work;
        double ms[METHODS];
        time_methods(b, families[0], c, 0, b->runs, 0, METHODS, ms);
        b->empty_ms[work != 0] = *std::min_element(ms, ms + METHODS);
    }
}
#endif

bool measure_pattern(bench *b, const std::vector<family> &families, const pattern &p, fault *why) {
    b->slots = slots_of(p);
    device_upload(const_cast<uint32_t *>(b->given.slots), b->slots.data(),
                  b->slots.size() * sizeof(uint32_t));
    for (const family &f : families) {
        if (!check(b, f, p, why)) return false;
#ifndef __SIMT__
        for (const int targets : {int(FEW), int(MANY)})
            for (const int work : {0, int(HEAVY)}) measure(b, f, {f.K, targets, work, 0, f.vectors, p, {}});
#endif
    }
    return true;
}

void write_json(FILE *json, const bench &b) {
    fprintf(json, "{\n\"benchmark\": \"threshold\", \"device\": \"%s\", \"runs\": %d,\n\"methods\": [",
            device_name(), b.runs);
    for (int how = 0; how < METHODS; ++how) fprintf(json, "%s\"%s\"", how ? ", " : "", method_names[how]);
    fprintf(
        json,
        "],\n\"columns\": [\"K\", \"vectors\", \"targets\", \"work\", \"active\", \"keys\", \"even\", \"calls\", "
        "\"nanoseconds by method\"],\n\"cells\": [");
    const char *separator = "";
    for (const cell &c : b.cells) {
        fprintf(json, "%s\n[%d, %d, %d, %d, %d, %d, %d, %d", separator, c.K, c.vectors, c.targets, c.work,
                c.lanes.active, c.lanes.keys, c.lanes.even, c.calls);
        for (const double time : c.nanoseconds) fprintf(json, ", %.5f", time);
        fprintf(json, "]");
        separator = ",";
    }
    fprintf(json, "\n]\n}\n");
}

} // namespace

int main(int argc, char **argv) {
    const arguments given = read_arguments(argc, argv, 5);
    fault why;
    const std::vector<family> families = {family_of<1>(),       family_of<2>(),       family_of<3>(),
                                          family_of<4>(),       family_of<6>(),       family_of<9>(),
                                          family_of<12>(),      family_of<16>(),      family_of<32>(),
                                          family_of<3, true>(), family_of<9, true>(), family_of<16, true>()};
    bench b = {};
    b.runs = given.runs;
    b.given.one = 1;
    b.given.table = static_cast<float *>(device_allocate(sizeof(float) * MANY * 32));
    b.given.slots = static_cast<uint32_t *>(device_allocate(sizeof(uint32_t) * WARPS * 32));
#ifndef __SIMT__
    prepare(&b, families);
#endif
    bool done = true;
    for (const int active : {2, 4, 8, 16, 24, 32})
        for (const int keys : {1, 2, 4, 8, 16, 19, 24, 32})
            for (const bool even : {true, false}) {
                if (keys > active || (!even && (keys == 1 || keys > 16 || keys == active))) continue;
                done = done && measure_pattern(&b, families, {active, keys, even}, &why);
            }
    if (done) printf("%d sums are exact, %zu cells measured\n", b.checked, b.cells.size());
    if (done && given.json) write_json(given.json, b);
    for (const cudaEvent_t event : b.events) DEVICE_CHECK(cudaEventDestroy(event));
    device_free(const_cast<uint32_t *>(b.given.slots));
    device_free(b.given.table);
    return end_program(given, done, &why);
}
