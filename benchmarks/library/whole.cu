// SPDX-License-Identifier: MIT
// Whole problems, from arrays in global memory to sums in global memory, beside the calls of CUB that solve
// them:
//
//     whole/scatter/tree/K:4/bins:65536/exponent:1
//     whole/histogram/hot_slots/K:1/bins:256/exponent:0
//
// scatter    table[key[i]][k] += value[i][k] for ADDS keys and K floats per key
// histogram  count[key[i]] += 1, unsigned
// exponent   of Zipf's law of the keys; 0 is uniform, 64 one key. Neighbouring ranks are not neighbouring keys.
//
// Before a run is timed, its sums are compared with those of plain atomics. A time is that of all kernels of one solution
// by CUDA events, after the L2 cache has been overwritten. Temporary memory is allocated before. Arguments:
// those of Google Benchmark.
#include "bench.cuh"
#include "launch.cuh"
#include "random.h"
#include <algorithm>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
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
    // scatter: DeviceRadixSort::SortPairs of keys and places, then DeviceReduce::ReduceByKey.
    // histogram: DeviceHistogram::HistogramEven
    cub_call,
    ways
};
constexpr const char *way_name[ways] = {"atomic",      "vector",    "serial",   "tree",
                                        "tree_vector", "hot_slots", "hot_tree", "cub"};
__host__ __device__ constexpr bool has_vectors(int w) {
    return w == vector || w == tree_vector;
}
template <way W>
inline constexpr distwar::strategy strategy_of =
    W == serial                                      ? distwar::strategy::serial
    : W == tree || W == tree_vector || W == hot_tree ? distwar::strategy::tree
                                                     : distwar::strategy::atomic;

struct problem {
    bool histogram;
    way how;
    int K, bins, exponent;
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
    constexpr bool is_hot = W == hot_slots || W == hot_tree;
    const distwar::record<T> table_of_records = {table->of, K};
    __shared__ distwar::hot_slots<is_hot ? int(SLOTS) : 1, K, T> hot;
    if constexpr (is_hot) hot.clear();
    const auto sink = [&] {
        if constexpr (is_hot)
            return hot.sink(table_of_records);
        else if constexpr (has_vectors(W))
            return distwar::aligned_record{reinterpret_cast<float *>(table), K};
        else
            return table_of_records;
    }();
    for (int i = int(blockIdx.x * BLOCK + threadIdx.x); i < ADDS; i += int(gridDim.x) * BLOCK) {
        row<K, T> mine;
        if (value)
            mine = value[i];
        else
            mine.of[0] = 1;
        distwar::reduce<strategy_of<W>>(distwar::all_lanes, true, key[i], mine.of, sink);
    }
    if constexpr (is_hot) hot.flush(table_of_records);
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
    int bins = 0, exponent = -1, K = 0;

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
        if (bins != p.bins || exponent != p.exponent) {
            bins = p.bins, exponent = p.exponent;
            std::vector<double> until(static_cast<size_t>(bins));
            double total = 0;
            for (int rank = 0; rank < bins; ++rank) until[rank] = total += pow(rank + 1, -exponent);
            random_stream random = {uint64_t(exponent)};
            std::vector<int> keys(ADDS);
            for (int &one : keys) {
                const auto found = std::upper_bound(until.begin(), until.end(), random_unit(&random) * total);
                const unsigned rank = unsigned(std::min<size_t>(found - until.begin(), bins - 1));
                one = int(rank * 0x9e3779b1u & unsigned(bins - 1));
            }
            device_upload(key, keys.data(), keys.size() * sizeof(int));
        }
        if (K != p.K) {
            K = p.K;
            std::vector<float> made(size_t(ADDS) * K);
            for (size_t i = 0; i < made.size(); ++i) made[i] = float((i / K * 5 + i % K) % 7);
            device_upload(value, made.data(), made.size() * sizeof(float));
        }
    }

    template <int PartK>
    void reduce_by_key() {
        using record = row<PartK, float>;
        size_t bytes = temporary_bytes;
        int bits = 0;
        while (1 << bits < bins) ++bits;
        DEVICE_CHECK(cub::DeviceRadixSort::SortPairs(temporary, bytes, key, sorted_key, place, sorted_place,
                                                     int(ADDS), 0, bits));
        const auto values =
            thrust::make_permutation_iterator(reinterpret_cast<const record *>(value), sorted_place);
        bytes = temporary_bytes;
        DEVICE_CHECK(cub::DeviceReduce::ReduceByKey(temporary, bytes, sorted_key, unique_key, values,
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

    template <int... W>
    void launch_one_of(const problem &p, std::integer_sequence<int, W...>) {
        ((p.how == W ? launch_way<way(W)>(p) : void()), ...);
    }

    void run(const problem &p) {
        size_t bytes = temporary_bytes;
        if (p.how != cub_call)
            launch_one_of(p, std::make_integer_sequence<int, cub_call>());
        else if (p.histogram)
            DEVICE_CHECK(cub::DeviceHistogram::HistogramEven(temporary, bytes, key,
                                                             reinterpret_cast<unsigned *>(table), p.bins + 1,
                                                             0, p.bins, int(ADDS)));
        else
            with_K(p.K, [&](auto known) { reduce_by_key<decltype(known)::value>(); });
    }

    // The sums are those of plain atomics: exact, as all values are small whole numbers.
    const char *wrong_sums(const problem &p) {
        make_inputs(p);
        const size_t size = size_t(p.bins) * p.K;
        const auto sums_by = [&](way how) {
            problem same = p;
            same.how = how;
            device_clear(table, size * sizeof(float));
            run(same);
            return host_copy<unsigned>(table, size); // the bits, of counts too
        };
        return sums_by(p.how) == sums_by(atomic) ? nullptr : "wrong sums";
    }
};

void add_run(bench &b, const problem &p) {
    const std::string name = std::string("whole/") + (p.histogram ? "histogram/" : "scatter/") +
                             way_name[p.how] + "/K:" + std::to_string(p.K) +
                             "/bins:" + std::to_string(p.bins) + "/exponent:" + std::to_string(p.exponent);
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
                // CUB refuses bins whose square has over 32 bits.
                if (!has_vectors(w) && (w != cub_call || bins < MOST_BINS))
                    add_run(b, {true, way(w), 1, bins, exponent});
        if (exponent == 64) continue;
        for (const int rows : {1024, int(MOST_ROWS)})
            for (const int K : {1, 4, 16})
                for (int w = 0; w < ways; ++w)
                    if (!has_vectors(w) || K > 1) add_run(b, {false, way(w), K, rows, exponent});
    }
}

} // namespace

int main(int argc, char **argv) {
    return run_benchmarks(argc, argv, register_all);
}
