// SPDX-License-Identifier: MIT
// Whole problems, from arrays in global memory to sums in global memory, beside the calls of CUB that solve
// them:
//
//     whole/scatter/tree/K:4/bins:65536/exponent:1/sorted:0
//     whole/histogram/hot_slots/K:1/bins:256/exponent:0/sorted:0
//
// scatter    table[key[i]][k] += value[i][k] for ADDS keys and K floats per key
// histogram  count[key[i]] += 1, unsigned
// exponent   of Zipf's law of the keys; 0 is uniform, 64 one key. Neighbouring ranks are not neighbouring keys.
// sorted     1: the keys are sorted
//
// Before a run is timed, its sums are compared with exact ones. A time is that of all kernels of one solution
// by CUDA events, after the L2 cache has been overwritten. Temporary memory is allocated before. Arguments:
// those of Google Benchmark.
#include "bench.cuh"
#include "launch.cuh"
#include "random.h"
#include <algorithm>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <distwar/device/histogram.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <distwar/device/sorted_sums_by_key.cuh>
#include <math.h>
#include <numeric>
#include <thrust/iterator/permutation_iterator.h>
#include <type_traits>
#include <utility>

namespace {

enum { ADDS = 1 << 20, MOST_BINS = 1 << 20, MOST_ROWS = 1 << 16, MOST_K = 16 };
enum { BLOCK = 256, BLOCKS = 1024, SLOTS = 256, REPETITIONS = 7 };

enum way {
    atomic,      // reduce_atomic
    vector,      // reduce_atomic with vector atomics (aligned_record)
    serial,      // reduce_serial
    tree,        // reduce_tree
    tree_vector, // reduce_tree with vector atomics (aligned_record)
    hot_slots,   // reduce_atomic to hot_slots of a block, a flush at the end
    hot_tree,    // reduce_tree to hot_slots
    fastest,     // this way of sums_by_key, as deterministic and exact
    deterministic,
    bounded, // deterministic with `bound`
    exact,
    counts, // histogram(), from counts of 0
    // scatter: DeviceRadixSort::SortPairs of keys and places (unless sorted), then DeviceReduce::ReduceByKey.
    // histogram: DeviceHistogram::HistogramEven
    cub_call,
    ways
};
constexpr const char *way_name[ways] = {"atomic",    "vector",   "serial",  "tree",          "tree_vector",
                                        "hot_slots", "hot_tree", "fastest", "deterministic", "bounded",
                                        "exact",     "counts",   "cub"};
constexpr bool is_of_sums_by_key(int w) {
    return w >= fastest && w <= exact;
}
constexpr bool has_vectors(int w) {
    return w == vector || w == tree_vector;
}

struct problem {
    bool histogram;
    way how;
    int K, bins, exponent;
    bool sorted;
};

// The K values of one add, or one record of the table.
template <int K, typename T>
struct alignas(K % 4 == 0 ? 16 : sizeof(T)) row {
    T of[K];
};
struct add_rows {
    template <int K, typename T>
    __host__ __device__ row<K, T> operator()(row<K, T> a, const row<K, T> &b) const {
        for (int k = 0; k < K; ++k) a.of[k] += b.of[k];
        return a;
    }
};

// value: NULL counts.
template <way W, int K, typename T>
__global__ void __launch_bounds__(BLOCK) solve(const int *key, const row<K, T> *value, row<K, T> *table) {
    using distwar::all_lanes;
    constexpr bool is_hot = W == hot_slots || W == hot_tree;
    using slots = distwar::hot_slots<is_hot ? int(SLOTS) : 1, K, T>;
    const distwar::record<T> sink = {table->of, K};
    __shared__ slots hot;
    if constexpr (is_hot) hot.clear();
    for (int i = int(blockIdx.x * BLOCK + threadIdx.x); i < ADDS; i += int(gridDim.x) * BLOCK) {
        row<K, T> mine;
        if (value)
            mine = value[i];
        else
            mine.of[0] = 1;
        const distwar::aligned_record vectors = {reinterpret_cast<float *>(table), K};
        if constexpr (W == vector)
            distwar::reduce_atomic(all_lanes, true, key[i], mine.of, vectors);
        else if constexpr (W == tree_vector)
            distwar::reduce_tree(all_lanes, true, key[i], mine.of, vectors);
        else if constexpr (W == hot_slots)
            distwar::reduce_atomic(all_lanes, true, key[i], mine.of, hot.sink(sink));
        else if constexpr (W == hot_tree)
            distwar::reduce_tree(all_lanes, true, key[i], mine.of, hot.sink(sink));
        else if constexpr (W == serial)
            distwar::reduce_serial(all_lanes, true, key[i], mine.of, sink);
        else if constexpr (W == tree)
            distwar::reduce_tree(all_lanes, true, key[i], mine.of, sink);
        else
            distwar::reduce_atomic(all_lanes, true, key[i], mine.of, sink);
    }
    if constexpr (is_hot) hot.flush(sink);
}
static_assert(ADDS % (BLOCK * 32) == 0 && BLOCK % 32 == 0, "all warps are whole");

// Adds the sums of ReduceByKey to the table. Each key occurs once.
template <int K>
__global__ void add_sums(const int *key, const row<K, float> *sum, const int *sums, row<K, float> *table) {
    const int i = int(blockIdx.x * BLOCK + threadIdx.x);
    if (i >= *sums) return;
    row<K, float> &to = table[key[i]];
    to = add_rows()(to, sum[i]);
}

float value_of(size_t i, int k) {
    return float((i * 5 + size_t(k)) % 7);
}

// Calls with K as std::integral_constant.
template <typename Call>
void with_K(int K, const Call &call) {
    if (K == 1)
        call(std::integral_constant<int, 1>());
    else if (K == 4)
        call(std::integral_constant<int, 4>());
    else
        call(std::integral_constant<int, 16>());
}

// Lives as long as the program.
struct bench {
    gpu_timer timer;
    char *temporary;
    size_t temporary_bytes = size_t(256) << 20;
    int *key, *sorted_key, *place, *sorted_place, *unique_key, *sums;
    float *value, *sum, *table;
    std::vector<int> host_key;
    int bins = 0, exponent = -1, K = 0;
    bool sorted = false;

    bench() {
        gpu_timer_open(&timer);
        temporary = device_array<char>(temporary_bytes);
        for (int **array : {&key, &sorted_key, &sorted_place, &unique_key}) *array = device_array<int>(ADDS);
        std::vector<int> places(ADDS);
        std::iota(places.begin(), places.end(), 0);
        place = device_copy(places);
        sums = device_array<int>(1);
        value = device_array<float>(size_t(ADDS) * MOST_K);
        sum = device_array<float>(size_t(ADDS) * MOST_K);
        table = device_array<float>(size_t(MOST_ROWS) * MOST_K);
        static_assert(MOST_BINS <= MOST_ROWS * MOST_K, "the counts have room");
    }

    // Key of rank r (0 the most frequent): r times an odd number, modulo bins, a power of two.
    void make_inputs(const problem &p) {
        if (bins != p.bins || exponent != p.exponent || sorted != p.sorted) {
            bins = p.bins, exponent = p.exponent, sorted = p.sorted;
            std::vector<double> until(static_cast<size_t>(bins));
            double total = 0;
            for (int rank = 0; rank < bins; ++rank) until[rank] = total += pow(rank + 1, -exponent);
            random_stream random = {uint64_t(exponent)};
            host_key.resize(ADDS);
            for (int &one : host_key) {
                const auto found = std::upper_bound(until.begin(), until.end(), random_unit(&random) * total);
                const unsigned rank = unsigned(std::min<size_t>(found - until.begin(), bins - 1));
                one = int(rank * 0x9e3779b1u & unsigned(bins - 1));
            }
            if (sorted) std::sort(host_key.begin(), host_key.end());
            device_upload(key, host_key.data(), host_key.size() * sizeof(int));
        }
        if (K != p.K) {
            K = p.K;
            std::vector<float> made(size_t(ADDS) * K);
            for (size_t i = 0; i < made.size(); ++i) made[i] = value_of(i / K, int(i % K));
            device_upload(value, made.data(), made.size() * sizeof(float));
        }
    }

    template <int PartK>
    void reduce_by_key(const problem &p) {
        using record = row<PartK, float>;
        const int *keys = key, *places = place;
        size_t bytes = temporary_bytes;
        if (!p.sorted) {
            int bits = 0;
            while (1 << bits < bins) ++bits;
            DEVICE_CHECK(cub::DeviceRadixSort::SortPairs(temporary, bytes, key, sorted_key, place,
                                                         sorted_place, int(ADDS), 0, bits));
            keys = sorted_key, places = sorted_place;
        }
        const auto values =
            thrust::make_permutation_iterator(reinterpret_cast<const record *>(value), places);
        bytes = temporary_bytes;
        DEVICE_CHECK(cub::DeviceReduce::ReduceByKey(temporary, bytes, keys, unique_key, values,
                                                    reinterpret_cast<record *>(sum), sums, add_rows(),
                                                    int(ADDS)));
        DEVICE_CHECK(launch(nullptr, blocks_for(bins, BLOCK), BLOCK, add_sums<PartK>, unique_key,
                            reinterpret_cast<const record *>(sum), sums, reinterpret_cast<record *>(table)));
    }

    template <way W>
    void launch_way(const problem &p) {
        if (!p.histogram) {
            with_K(p.K, [&](auto known) {
                constexpr int PartK = decltype(known)::value;
                using record = row<PartK, float>;
                if constexpr (!has_vectors(W) || PartK % 4 == 0)
                    DEVICE_CHECK(launch(nullptr, BLOCKS, BLOCK, solve<W, PartK, float>, key,
                                        reinterpret_cast<const record *>(value),
                                        reinterpret_cast<record *>(table)));
            });
        } else if constexpr (!has_vectors(W)) {
            DEVICE_CHECK(launch(nullptr, BLOCKS, BLOCK, solve<W, 1, unsigned>, key, nullptr,
                                reinterpret_cast<row<1, unsigned> *>(table)));
        }
    }

    void sum_by_key(const problem &p) {
        distwar::key_sums<float> given;
        given.count = ADDS, given.width = p.K, given.keys = p.bins;
        given.index = key, given.source = value, given.out = table;
        given.way = p.how == fastest ? distwar::sums_way::fastest
                    : p.how == exact ? distwar::sums_way::exact
                                     : distwar::sums_way::deterministic;
        given.bound = p.how == bounded ? 7 : 0;
        given.workspace = temporary, given.workspace_bytes = temporary_bytes;
        DEVICE_CHECK(distwar::sums_by_key<distwar::key_sort>(given, nullptr));
    }

    void count(const problem &p) {
        unsigned *const of_bins = reinterpret_cast<unsigned *>(table);
        size_t bytes = temporary_bytes;
        if (p.how == cub_call) {
            DEVICE_CHECK(cub::DeviceHistogram::HistogramEven(temporary, bytes, key, of_bins, p.bins + 1, 0,
                                                             p.bins, int(ADDS)));
        } else {
            DEVICE_CHECK(cudaMemsetAsync(of_bins, 0, size_t(p.bins) * sizeof *of_bins, nullptr));
            DEVICE_CHECK(
                distwar::histogram(distwar::key_counts<int, unsigned>{ADDS, p.bins, key, of_bins}, nullptr));
        }
    }

    template <int... W>
    void launch_one_of(const problem &p, std::integer_sequence<int, W...>) {
        ((p.how == W ? launch_way<way(W)>(p) : void()), ...);
    }

    void run(const problem &p) {
        if (p.how < fastest) return launch_one_of(p, std::make_integer_sequence<int, fastest>());
        if (p.histogram)
            count(p);
        else if (is_of_sums_by_key(p.how))
            sum_by_key(p);
        else
            with_K(p.K, [&](auto known) { reduce_by_key<decltype(known)::value>(p); });
    }

    const char *wrong_sums(const problem &p) {
        make_inputs(p);
        const size_t size = size_t(p.bins) * p.K;
        device_clear(table, size * sizeof(float));
        run(p);
        std::vector<float> expected(size), found;
        for (size_t i = 0; i < ADDS; ++i)
            for (int k = 0; k < p.K; ++k)
                expected[size_t(host_key[i]) * p.K + k] += p.histogram ? 1 : value_of(i, k);
        if (p.histogram) {
            const std::vector<unsigned> of_bins = host_copy<unsigned>(table, size);
            found.assign(of_bins.begin(), of_bins.end()); // the right ones are exact in float
        } else {
            found = host_copy<float>(table, size);
        }
        return found == expected ? nullptr : "wrong sums";
    }
};

void add_run(bench &b, const problem &p) {
    const std::string name = std::string("whole/") + (p.histogram ? "histogram/" : "scatter/") +
                             way_name[p.how] + "/K:" + std::to_string(p.K) +
                             "/bins:" + std::to_string(p.bins) + "/exponent:" + std::to_string(p.exponent) +
                             "/sorted:" + std::to_string(p.sorted);
    register_run(
        name, REPETITIONS, [&b, p] { return b.wrong_sums(p); },
        [&b, p](benchmark::State &state) {
            b.make_inputs(p);
            measure_adds(state, b.timer, double(ADDS) * p.K, [&] { b.run(p); });
        });
}

void register_all() {
    static bench b;
    for (const int exponent : {0, 1, 2, 64}) {
        for (const int bins : {16, 256, 4096, 1 << 16, int(MOST_BINS)})
            for (int w = 0; w < ways; ++w)
                if (!has_vectors(w) && !is_of_sums_by_key(w))
                    add_run(b, {true, way(w), 1, bins, exponent, false});
        if (exponent == 64) continue;
        for (const bool sorted : {false, true})
            for (const int rows : {1024, int(MOST_ROWS)})
                for (const int K : {1, 4, 16})
                    for (int w = 0; w < ways; ++w)
                        if ((!has_vectors(w) || K > 1) && w != counts)
                            add_run(b, {false, way(w), K, rows, exponent, sorted});
    }
}

} // namespace

int main(int argc, char **argv) {
    return run_benchmarks(argc, argv, register_all);
}
