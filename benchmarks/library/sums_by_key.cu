// SPDX-License-Identifier: MIT
// sums_by_key and histogram beside the calls of CUB that solve the same:
//
//     sums/deterministic/rows:1000000/K:4/keys:zipf
//     histogram/distwar/rows:10000000/bins:65536/keys:uniform
//
// sums       out[index[i]][k] += source[i][k] for KEYS rows of out, float, int32 indices
// fastest, deterministic, exact, bounded   ways of sums_by_key; bounded: deterministic with `bound`
// cub        DeviceRadixSort::SortPairs of keys and places, DeviceReduce::ReduceByKey, an addition to out. Not for
//            K = 64: a value of 256 bytes
// histogram  counts of unsigned, from 0. cub: DeviceHistogram::HistogramEven
// keys       uniform, zipf (exponent 1, ranks shuffled), constant
//
// Before a run is timed, its sums are compared with those of integers: values are multiples of 2^-20, so deterministic
// sums are exact and rounded once. A time is that of one call by CUDA events, after the L2 cache has been overwritten.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -Iinclude benchmarks/library/sums_by_key.cu -lbenchmark -lpthread
//     sums_by_key [--benchmark_filter=REGEX] [--benchmark_out=FILE --benchmark_out_format=json]
#include <benchmark/benchmark.h>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <distwar/histogram.cuh>
#include <distwar/sorted_sums_by_key.cuh>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <thrust/iterator/permutation_iterator.h>
#include <vector>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        const cudaError_t status = (call);                                                                   \
        if (status != cudaSuccess) {                                                                         \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

namespace {

enum { KEYS = 100000, MOST_ROWS = 10000000, MOST_K = 64, MOST_BINS = 1 << 20, BLOCK = 256, REPETITIONS = 7 };

template <typename T>
T *allocate(size_t count) {
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return memory;
}

__host__ __device__ inline unsigned long long mixed(unsigned long long x) { // splitmix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
// Value k of row i in units of 2^-20.
__device__ inline long long units_at(long long at) {
    return (long long)(mixed(at) >> 43) - (1 << 20);
}

// below: sums of the probabilities of ranks, NULL for uniform keys; keys: number of keys.
__global__ void make_keys(int *key, int count, const double *below, int keys) {
    const int i = int(blockIdx.x * BLOCK + threadIdx.x);
    if (i >= count) return;
    const double drawn = double(mixed(i + (1ull << 40)) >> 11) * 0x1p-53;
    int rank = int(drawn * keys);
    if (below) {
        int low = 0, high = keys - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (below[middle] <= drawn * below[keys - 1])
                low = middle + 1;
            else
                high = middle;
        }
        rank = low;
    }
    key[i] = int((unsigned long long)rank * 7919 %
                 unsigned(keys)); // 7919 is prime and divides no number of keys here
}
__global__ void make_values(float *value, long long count) {
    for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < count;
         i += (long long)gridDim.x * BLOCK)
        value[i] = float(units_at(i)) * 0x1p-20f;
}
__global__ void add_units(const int *key, long long values, int K, unsigned long long *sum) {
    for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < values;
         i += (long long)gridDim.x * BLOCK)
        atomicAdd(&sum[key[i / K] * (long long)K + i % K], (unsigned long long)(units_at(i)));
}
__global__ void count_plainly(const int *key, int count, unsigned *counts) {
    const int i = int(blockIdx.x * BLOCK + threadIdx.x);
    if (i < count) atomicAdd(&counts[key[i]], 1u);
}
__global__ void count_up(int *index, int count) {
    const int i = int(blockIdx.x * BLOCK + threadIdx.x);
    if (i < count) index[i] = i;
}

template <int K>
struct row {
    float of[K];
};
struct add_rows {
    template <int K>
    __host__ __device__ row<K> operator()(row<K> a, const row<K> &b) const {
        for (int k = 0; k < K; ++k) a.of[k] += b.of[k];
        return a;
    }
};
template <int K>
__global__ void add_sums(const int *key, const row<K> *sum, const int *sums, row<K> *table) {
    const int i = int(blockIdx.x * BLOCK + threadIdx.x);
    if (i < *sums) table[key[i]] = add_rows()(table[key[i]], sum[i]);
}

unsigned blocks_for(long long count) {
    return unsigned((count + BLOCK - 1) / BLOCK);
}

enum kind { uniform, zipf, constant };
constexpr const char *kind_name[] = {"uniform", "zipf", "constant"};
enum way { fastest, deterministic, bounded, exact, cub_call };
constexpr const char *way_name[] = {"fastest", "deterministic", "bounded", "exact", "cub"};

// Lives as long as the program.
struct bench {
    cudaEvent_t begin, end;
    char *scrubbed, *temporary = nullptr;
    size_t scrubbed_bytes = size_t(128) << 20, temporary_bytes = 0;
    int *key, *sorted_key, *place, *sorted_place, *unique_key, *sums;
    float *value, *sum, *table;
    unsigned long long *reference;
    unsigned *counts;
    double *below;
    int made_keys = 0, made_rows = 0;
    kind made_kind = uniform;

    bench() {
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
        scrubbed = allocate<char>(scrubbed_bytes);
        for (int **array : {&key, &sorted_key, &place, &sorted_place, &unique_key})
            *array = allocate<int>(MOST_ROWS);
        sums = allocate<int>(1);
        value = allocate<float>(size_t(MOST_ROWS) * MOST_K);
        sum = allocate<float>(size_t(MOST_ROWS) * 16);
        table = allocate<float>(size_t(KEYS) * MOST_K);
        reference = allocate<unsigned long long>(size_t(KEYS) * MOST_K);
        counts = allocate<unsigned>(2 * MOST_BINS);
        below = allocate<double>(MOST_BINS);
        count_up<<<blocks_for(MOST_ROWS), BLOCK>>>(place, MOST_ROWS);
        make_values<<<4096, BLOCK>>>(value, (long long)MOST_ROWS * MOST_K);
        CHECK(cudaGetLastError());
    }
    void reserve(size_t bytes) {
        if (bytes <= temporary_bytes) return;
        CHECK(cudaFree(temporary));
        temporary = allocate<char>(temporary_bytes = bytes);
    }
    void make(int rows, int keys, kind of) {
        if (made_rows == rows && made_keys == keys && made_kind == of) return;
        made_rows = rows, made_keys = keys, made_kind = of;
        std::vector<double> until(static_cast<size_t>(keys));
        double total = 0;
        for (int rank = 0; rank < keys; ++rank) until[size_t(rank)] = total += 1.0 / (rank + 1);
        CHECK(cudaMemcpy(below, until.data(), until.size() * sizeof(double), cudaMemcpyHostToDevice));
        if (of == constant)
            CHECK(cudaMemset(key, 0, size_t(rows) * sizeof(int)));
        else
            make_keys<<<blocks_for(rows), BLOCK>>>(key, rows, of == zipf ? below : nullptr, keys);
        CHECK(cudaGetLastError());
    }

    template <typename Solve>
    double time(const Solve &solve) {
        CHECK(cudaMemsetAsync(scrubbed, 1, scrubbed_bytes, nullptr));
        CHECK(cudaEventRecord(begin, nullptr));
        solve();
        CHECK(cudaEventRecord(end, nullptr));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        return ms * 1e-3;
    }
};

template <int K>
void sort_and_reduce(bench &b, int rows, bool measures) {
    int bits = 0;
    while (1 << bits < KEYS) ++bits;
    size_t bytes = 0, reduce_bytes = 0;
    const auto values =
        thrust::make_permutation_iterator(reinterpret_cast<const row<K> *>(b.value), b.sorted_place);
    const auto sort = [&](void *at) {
        CHECK(cub::DeviceRadixSort::SortPairs(at, bytes, b.key, b.sorted_key, b.place, b.sorted_place, rows,
                                              0, bits));
    };
    const auto reduce = [&](void *at) {
        CHECK(cub::DeviceReduce::ReduceByKey(at, reduce_bytes, b.sorted_key, b.unique_key, values,
                                             reinterpret_cast<row<K> *>(b.sum), b.sums, add_rows(), rows));
    };
    sort(nullptr), reduce(nullptr);
    if (measures) return b.reserve(bytes > reduce_bytes ? bytes : reduce_bytes);
    sort(b.temporary), reduce(b.temporary);
    add_sums<K><<<blocks_for(KEYS), BLOCK>>>(b.unique_key, reinterpret_cast<const row<K> *>(b.sum), b.sums,
                                             reinterpret_cast<row<K> *>(b.table));
    CHECK(cudaGetLastError());
}

void by_cub(bench &b, int rows, int K, bool measures) {
    if (K == 1)
        sort_and_reduce<1>(b, rows, measures);
    else if (K == 4)
        sort_and_reduce<4>(b, rows, measures);
    else
        sort_and_reduce<16>(b, rows, measures);
}

bool is_right(bench &b, int rows, int K, way how) {
    const size_t size = size_t(KEYS) * size_t(K);
    CHECK(cudaMemset(b.reference, 0, size * 8));
    add_units<<<4096, BLOCK>>>(b.key, (long long)rows * K, K, b.reference);
    std::vector<long long> expected(size);
    std::vector<float> found(size);
    CHECK(cudaMemcpy(expected.data(), b.reference, size * 8, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(found.data(), b.table, size * 4, cudaMemcpyDeviceToHost));
    const bool is_exact = how == deterministic || how == bounded || how == exact;
    for (size_t k = 0; k < size; ++k) {
        const double sum = double(expected[k]) * 0x1p-20;
        if (is_exact ? found[k] != float(sum)
                     : fabs(found[k] - sum) > 1e-3 * sqrt(double(rows)) + 1e-3 * fabs(sum))
            return false;
    }
    return true;
}

void measure_sums(benchmark::State &state, bench &b, int rows, int K, kind of, way how) {
    b.make(rows, KEYS, of);
    distwar::key_sums<float> given;
    given.count = rows, given.width = K, given.keys = KEYS;
    given.index = b.key, given.source = b.value, given.out = b.table;
    given.way = how == fastest ? distwar::sums_way::fastest
                : how == exact ? distwar::sums_way::exact
                               : distwar::sums_way::deterministic;
    given.bound = how == bounded ? 1 : 0;
    if (how == cub_call) {
        by_cub(b, rows, K, true);
    } else {
        CHECK(distwar::sums_by_key_bytes<distwar::key_sort>(given, &given.workspace_bytes));
        b.reserve(given.workspace_bytes);
        given.workspace = b.temporary;
    }
    const auto solve = [&] {
        if (how == cub_call)
            by_cub(b, rows, K, false);
        else
            CHECK(distwar::sums_by_key<distwar::key_sort>(given, nullptr));
    };
    CHECK(cudaMemset(b.table, 0, size_t(KEYS) * size_t(K) * 4));
    solve();
    if (!is_right(b, rows, K, how)) return state.SkipWithError("wrong sums");
    for (auto _ : state) state.SetIterationTime(b.time(solve));
    state.counters["rows_per_second"] =
        benchmark::Counter(double(rows), benchmark::Counter::kIsIterationInvariantRate);
}

void measure_counts(benchmark::State &state, bench &b, int rows, int bins, kind of, bool cub) {
    b.make(rows, bins, of);
    size_t bytes = 0;
    const auto by_cub = [&](void *at) {
        CHECK(cub::DeviceHistogram::HistogramEven(at, bytes, b.key, b.counts, bins + 1, 0, bins, rows));
    };
    if (cub) by_cub(nullptr), b.reserve(bytes);
    const auto solve = [&] {
        if (cub) return by_cub(b.temporary);
        CHECK(cudaMemsetAsync(b.counts, 0, size_t(bins) * 4, nullptr));
        CHECK(distwar::histogram(distwar::key_counts<int, unsigned>{rows, bins, b.key, b.counts, nullptr},
                                 nullptr));
    };
    solve();
    unsigned *const expected_on_device = b.counts + MOST_BINS;
    CHECK(cudaMemset(expected_on_device, 0, size_t(bins) * 4));
    count_plainly<<<blocks_for(rows), BLOCK>>>(b.key, rows, expected_on_device);
    std::vector<unsigned> expected(static_cast<size_t>(bins)), found(expected.size());
    CHECK(cudaMemcpy(expected.data(), expected_on_device, expected.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(found.data(), b.counts, found.size() * 4, cudaMemcpyDeviceToHost));
    if (found != expected) return state.SkipWithError("wrong counts");
    for (auto _ : state) state.SetIterationTime(b.time(solve));
    state.counters["keys_per_second"] =
        benchmark::Counter(double(rows), benchmark::Counter::kIsIterationInvariantRate);
    state.counters["workspace_bytes"] = double(bytes);
}

template <typename Measure>
void add_run(const std::string &name, const Measure &measure) {
    benchmark::RegisterBenchmark(name.c_str(), measure)
        ->Iterations(1)
        ->Repetitions(REPETITIONS)
        ->ReportAggregatesOnly()
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
}

} // namespace

int main(int count, char **arguments) {
    benchmark::Initialize(&count, arguments);
    if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    benchmark::AddCustomContext("gpu", properties.name);
    static bench b;
    for (const int K : {1, 4, 16, 64})
        for (const int rows : {100000, 1000000, int(MOST_ROWS)})
            for (const kind of : {uniform, zipf, constant})
                for (const way how : {fastest, deterministic, bounded, exact, cub_call})
                    if (how != cub_call || K < 64)
                        add_run(std::string("sums/") + way_name[how] + "/rows:" + std::to_string(rows) +
                                    "/K:" + std::to_string(K) + "/keys:" + kind_name[of],
                                [=](benchmark::State &state) { measure_sums(state, b, rows, K, of, how); });
    for (const int rows : {1000000, int(MOST_ROWS)})
        for (const int bins : {256, 4096, 16384, 65536, 262144, int(MOST_BINS)})
            for (const kind of : {uniform, zipf, constant})
                for (const bool cub : {false, true})
                    add_run(std::string("histogram/") + (cub ? "cub" : "distwar") +
                                "/rows:" + std::to_string(rows) + "/bins:" + std::to_string(bins) +
                                "/keys:" + kind_name[of],
                            [=](benchmark::State &state) { measure_counts(state, b, rows, bins, of, cub); });
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
