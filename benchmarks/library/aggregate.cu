// SPDX-License-Identifier: MIT
// How fast warps add to records in global memory, over several axes.
//
// Before a run is timed, its sums are compared with those of plain atomics. A time is the time of one launch by CUDA
// events, after the L2 cache has been overwritten; the inputs alternate. Each warp makes enough calls for a
// launch of at least LONG_MS. Each run is repeated; the median, mean and deviation are reported. Arguments:
// those of Google Benchmark.
#include "bench.cuh"
#include "launch.cuh"
#include "random.h"
#include <algorithm>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/warp/warp_reduce.cuh>
#include <distwar/fixed.cuh>
#include <distwar/reduce.cuh>
#include <distwar/strategy.h>
#include <distwar/tune.h>
#include <memory>
#include <type_traits>
#include <utility>
#if CUB_VERSION >= 300400
#include <cub/warp/warp_reduce_batched.cuh>
#define HAS_WARP_REDUCE_BATCHED 1
#else
#define HAS_WARP_REDUCE_BATCHED 0
#endif

// The axes. A run's name is its value on every axis: aggregate/tree/active:32/keys:1/K:9/targets:1024/threshold:0
namespace axes {

// How values reach memory: the strategies of reduce<>, other calls of distwar, and rivals. "told": the call is told
// that the warp has one key.
enum method {
    atomic,
    serial,
    bfly,
    tree,         // reduce<strategy>
    tree_uniform, // reduce_tree with uniform_key; told
    fixed,        // reduce_fixed
    cub,          // cub::WarpReduce for each value, then atomics by one lane; told
    cub_batched,  // cub::WarpReduceBatched, then one atomic instruction; told
    cub_looking,  // one key, found as reduce_tree does: cub_batched; else atomics
    cg,           // cooperative_groups: labeled_partition, then reduce
    tuned,        // tree at the threshold that tune.h chooses
    methods
};
inline constexpr const char *method_name[methods] = {"atomic",       "serial", "bfly", "tree",
                                                     "tree_uniform", "fixed",  "cub",  "cub_batched",
                                                     "cub_looking",  "cg",     "tuned"};

enum { mixed = 0 }; // a value of `active`: the number differs from call to call, 1..32 equally often
inline constexpr int active[] = {mixed, 1, 2, 4, 8, 16, 32}; // lanes of a warp that add, at random places
inline constexpr int keys[] = {1, 2, 4, 8, 16, 32};      // distinct keys among them, with equally many lanes
inline constexpr int values[] = {1, 4, 9, 16};           // K, floats an add
inline constexpr int targets[] = {1, 32, 1024, 1 << 20}; // records that all warps add to
inline constexpr int thresholds[] = {0, 2, 3, 4, 6, 8, 12, 16, 24, 33}; // balance_threshold

// Floats from one record to the next: records begin at multiples of 16 bytes where K > 1.
constexpr int stride_of(int K) {
    return K == 1 ? 1 : (K + 3) / 4 * 4;
}
template <int K>
inline constexpr int record_stride = stride_of(K); // usable in device code

// The strategy of method M, one of atomic, serial, bfly and tree; usable in device code.
template <method M>
inline constexpr distwar::strategy strategy_of = M == atomic   ? distwar::strategy::atomic
                                                 : M == serial ? distwar::strategy::serial
                                                 : M == bfly   ? distwar::strategy::bfly
                                                               : distwar::strategy::tree;

// True if the run exists.
constexpr bool exists(method m, int active, int keys, int targets, int threshold) {
    const bool is_told = m == tree_uniform || m == cub || m == cub_batched;
    const bool has_threshold = m == serial || m == bfly || m == tree;
    return (m != tuned || active == mixed) && keys <= (active == mixed ? 1 : active) && keys <= targets &&
           (keys == 1 || !is_told) && (threshold == 0 || has_threshold);
}

// The runs without --benchmark_filter: threshold 0 at all values of the other axes; other thresholds.
inline constexpr const char *default_filter =
    "threshold:0/|"
    "tree/active:[0-9]+/keys:1/K:(1|4|9)/targets:(1024|1048576)/|"
    "tree/active:(16|32)/keys:[0-9]+/K:(4|9)/targets:(1024|1048576)/threshold:(2|4|8|16)/|"
    "(serial|bfly|tree)/active:0/keys:1/K:[0-9]+/";

} // namespace axes

namespace {

enum { WARPS = 1 << 15, SLOTS = 4, BLOCK = 256, NO_SLOT = 0xff };

// The calls of a thread, one byte each, the highest byte first; they repeat after SLOTS calls. NO_SLOT: the
// thread is not active. Other values: the number of its key among the warp's keys.
typedef uint32_t slots;

// The first key of each call comes from a Weyl sequence with a start of its own for each warp. The other keys
// of a call follow the first, cyclically.
__device__ uint32_t first_draw(uint32_t warp) {
    uint32_t mixed = warp * 0x9e3779b1u;
    mixed ^= mixed >> 15;
    mixed *= 0x85ebca77u;
    return mixed ^ mixed >> 13;
}
__device__ uint32_t next_draw(uint32_t draw) {
    return draw + 0x9e3779b1u;
}
__device__ uint32_t first_key(uint32_t draw, uint32_t targets) {
    return __umulhi(draw, targets);
}
// Small whole numbers: sums of 2^19 of them are exact.
__device__ float value_of(uint32_t thread, int k) {
    return float((thread + 3 * k) % 8 + k);
}
// For reduce_fixed: units per 1.0, and the type of the sums.
constexpr float FIXED_SCALE = 0x1p20f;
template <axes::method M>
using sum_of = std::conditional_t<M == axes::fixed, long long, float>;

// The warp's active lanes add val to the records of their keys. All 32 lanes call it. shared_key: the key of
// all lanes, for methods that are told it. flag: of reduce_fixed.
template <axes::method M, int K>
DISTWAR_DEVICE void add(bool active, int key, int shared_key, const float (&val)[K], sum_of<M> *table,
                        int threshold, unsigned *flag) {
    constexpr int stride = axes::record_stride<K>;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const distwar::record<sum_of<M>> sink = {table, stride};
    if constexpr (M == axes::tree_uniform) {
        distwar::reduce_tree(distwar::all_lanes, active, distwar::uniform_key<int>{shared_key}, val, sink);
    } else if constexpr (M == axes::fixed) {
        distwar::fixed_format<K> format;
#pragma unroll
        for (int k = 0; k < K; ++k) format.scale[k] = FIXED_SCALE;
        format.flag = flag;
        distwar::reduce_fixed(distwar::all_lanes, active, key, val, sink, format);
    } else if constexpr (M == axes::cub) {
        using reduction = cub::WarpReduce<float>;
        __shared__ typename reduction::TempStorage storage[BLOCK / 32];
        float total[K];
#pragma unroll
        for (int k = 0; k < K; ++k) total[k] = reduction(storage[warp]).Sum(active ? val[k] : 0);
        if (lane == 0)
#pragma unroll
            for (int k = 0; k < K; ++k) atomicAdd(table + size_t(shared_key) * stride + k, total[k]);
#if HAS_WARP_REDUCE_BATCHED
    } else if constexpr (M == axes::cub_batched || M == axes::cub_looking) {
        using reduction = cub::WarpReduceBatched<float, K>;
        if constexpr (M == axes::cub_looking) {
            const unsigned active_lanes = __ballot_sync(distwar::all_lanes, active);
            if (active_lanes == 0) return;
            if (!distwar::detail::share_one_key(distwar::all_lanes, active_lanes, active, key, shared_key)) {
                if (active) sink.add(key, val);
                return;
            }
        }
        __shared__ typename reduction::TempStorage storage[BLOCK / 32];
        float summand[K];
#pragma unroll
        for (int k = 0; k < K; ++k) summand[k] = active ? val[k] : 0;
        const float total = reduction(storage[warp]).Sum(summand);
        if (lane < K) atomicAdd(table + size_t(shared_key) * stride + lane, total);
#endif
    } else if constexpr (M == axes::cg) {
        namespace groups = cooperative_groups;
        if (active) {
            const auto group = groups::labeled_partition(groups::coalesced_threads(), key);
#pragma unroll
            for (int k = 0; k < K; ++k) {
                const float total = groups::reduce(group, val[k], groups::plus<float>());
                if (group.thread_rank() == 0) atomicAdd(table + size_t(key) * stride + k, total);
            }
        }
    } else {
        distwar::reduce<axes::strategy_of<M>>(distwar::all_lanes, active, key, val, sink, threshold);
    }
}

// The measured kernel. Each warp makes a number of calls one after another, each to another record. The values stay in
// registers and a target costs two instructions, so the adding takes most of the time. All K values differ, because a
// compiler would sum equal values once. HasThreshold: `threshold` is known at run time; else the call is made without one,
// as the rivals are.
template <axes::method M, int K, bool HasThreshold = true>
__global__ void __launch_bounds__(BLOCK)
    aggregate(const slots *given, int calls, uint32_t targets, int threshold, void *table, unsigned *flag) {
    const uint32_t thread = blockIdx.x * BLOCK + threadIdx.x;
    slots rest = given[thread];
    uint32_t draw = first_draw(thread / 32);
    float val[K];
#pragma unroll
    for (int k = 0; k < K; ++k) val[k] = value_of(thread, k);
#pragma unroll 1
    for (; calls > 0; --calls) {
        const bool active = rest < uint32_t(NO_SLOT) << 24;
        const uint32_t first = first_key(draw, targets);
        uint32_t key = first + (rest >> 24);
        if (key >= targets) key -= targets;
#pragma unroll
        for (int k = 0; k < K; ++k)
            asm volatile("" : "+f"(val[k])); // keeps the compiler from summing before the loop
        add<M, K>(active, int(key), int(first), val, static_cast<sum_of<M> *>(table),
                  HasThreshold ? threshold : 0, flag);
        draw = next_draw(draw);
        rest = __funnelshift_l(rest, rest, 8);
    }
}

enum { REPETITIONS = 7, INPUTS = 3, MAX_STRIDE = 16, MOST_CALLS = 256 };
enum { CHECKED_WARPS = 256, CHECKED_CALLS = 16, CHECKED_TARGETS = 1 << 16 };
constexpr float LONG_MS = 0.25f; // a launch lasts that long, unless it makes the most calls

struct shape {
    axes::method method;
    int active, keys, K, targets, threshold;
    int calls = CHECKED_CALLS;
};

using kernel = void (*)(const slots *, int, uint32_t, int, void *, unsigned *);
// `tuned` runs the tree.
constexpr axes::method run_by(int m) {
    return m == axes::tuned ? axes::tree : axes::method(m);
}
template <int K, int... M>
kernel kernel_of(axes::method m, std::integer_sequence<int, M...>) {
    static const kernel all[] = {aggregate<run_by(M), K>...};
    return all[m];
}
// The kernel of a method; NULL if this version of CUB lacks what it calls.
template <int K>
kernel kernel_of(axes::method m, int threshold) {
    static_assert(axes::record_stride<K> <= MAX_STRIDE, "the table has room for less");
    if (!HAS_WARP_REDUCE_BATCHED && (m == axes::cub_batched || m == axes::cub_looking)) return nullptr;
    if (m == axes::tree && threshold == 0) return aggregate<axes::tree, K, false>;
    return kernel_of<K>(m, std::make_integer_sequence<int, axes::methods>());
}
kernel kernel_of(const shape &s) {
    return s.K == 1   ? kernel_of<1>(s.method, s.threshold)
           : s.K == 4 ? kernel_of<4>(s.method, s.threshold)
           : s.K == 9 ? kernel_of<9>(s.method, s.threshold)
                      : kernel_of<16>(s.method, s.threshold);
}

// Inputs, tables and the timer live as long as the program.
struct bench {
    gpu_timer timer;
    void *table;
    unsigned *flag; // of reduce_fixed
    slots *input[INPUTS];
    int active = -1, keys = -1; // of the inputs
    unsigned next_input = 0;

    bench() {
        gpu_timer_open(&timer);
        table = device_array<long long>(size_t(1 << 20) * MAX_STRIDE);
        flag = device_array<unsigned>(1);
        device_clear(flag, sizeof *flag);
        for (slots *&one : input) one = device_array<slots>(size_t(WARPS) * 32);
    }

    // Each call of a warp takes its lanes in an order of its own; the first `active` of them add.
    void make_inputs(int wanted_active, int wanted_keys) {
        if (active == wanted_active && keys == wanted_keys) return;
        active = wanted_active, keys = wanted_keys;
        std::vector<slots> made(size_t(WARPS) * 32);
        for (int i = 0; i < INPUTS; ++i) {
            random_stream random = {uint64_t(i)};
            for (size_t warp = 0; warp < WARPS; ++warp) {
                slots *const given = &made[warp * 32];
                for (int call = 0; call < SLOTS; ++call) {
                    const uint64_t bits = random_bits(&random);
                    const unsigned odd = bits >> 8 | 1, offset = bits & 31;
                    const unsigned adds = active == axes::mixed ? 1 + (bits >> 40) % 32 : unsigned(active);
                    for (unsigned lane = 0; lane < 32; ++lane) {
                        const unsigned place = (lane * odd + offset) % 32;
                        given[lane] =
                            given[lane] << 8 | (place < adds ? place % unsigned(keys) : unsigned(NO_SLOT));
                    }
                }
            }
            device_upload(input[i], made.data(), made.size() * sizeof(slots));
        }
    }

    void run(const shape &s, const slots *given, int warps) {
        DEVICE_CHECK(launch(nullptr, warps * 32 / BLOCK, BLOCK, kernel_of(s), given, s.calls,
                            uint32_t(s.targets), s.threshold, table, flag));
    }
    void run_next(const shape &s) { run(s, input[next_input++ % INPUTS], WARPS); }
    double time(const shape &s) {
        return time_of(timer, [&] { run_next(s); });
    }
};

// The sums of the first warps are those of plain atomics: exact, as all values are small whole numbers.
bool is_right(bench &b, shape s) {
    s.targets = std::min(s.targets, int(CHECKED_TARGETS));
    const size_t size = size_t(s.targets) * axes::stride_of(s.K);
    const auto sums_of = [&](const shape &of) {
        const bool fixed = of.method == axes::fixed;
        device_clear(b.table, size * (fixed ? sizeof(long long) : sizeof(float)));
        b.run(of, b.input[0], CHECKED_WARPS);
        if (!fixed) return host_copy<float>(b.table, size);
        std::vector<float> found;
        for (const long long sum : host_copy<long long>(b.table, size))
            found.push_back(float(double(sum) / FIXED_SCALE));
        return found;
    };
    shape plain = s;
    plain.method = axes::atomic, plain.threshold = 0;
    return sums_of(s) == sums_of(plain);
}

// Lets the tuner choose among all thresholds while the kernel runs. Returns the one that it settles on, -1: none.
int tuned_threshold(bench &b, shape s) {
    std::vector<tune_candidate> candidates;
    for (const int threshold : axes::thresholds) candidates.push_back({axes::tree, threshold});
    tuner t;
    if (!tune_init(&t, candidates.data(), int(candidates.size()))) return -1;
    for (int launches = 0; launches < 5000 && !t.known; ++launches) {
        const tune_launch next = tune_choose(&t);
        s.threshold = next.threshold;
        const double ms = b.time(s);
        if (next.ticket >= 0) tune_report(&t, next.ticket, float(ms), 1);
    }
    return t.known ? t.candidates[t.best].threshold : -1;
}

// Checks the sums and sets the number of calls of a launch.
const char *prepare(bench &b, shape &s) {
    b.make_inputs(s.active, s.keys);
    if (!is_right(b, s)) return "wrong sums";
    s.calls = 1;                 // one call of all warps to one target lasts over 20 ms
    b.run(s, b.input[0], WARPS); // the first launch takes longer
    while (s.calls < MOST_CALLS && b.time(s) < LONG_MS) s.calls *= 2;
    if (s.method == axes::tuned) s.threshold = tuned_threshold(b, s);
    return s.threshold < 0 ? "the tuner came to no end" : nullptr;
}

void measure(benchmark::State &state, bench &b, const shape &s) {
    b.make_inputs(s.active, s.keys);
    const double adds_a_call = (s.active == axes::mixed ? 16.5 : s.active) * s.K;
    measure_adds(state, b.timer, adds_a_call * s.calls * WARPS, [&] { b.run_next(s); });
    if (s.method == axes::tuned) state.counters["chosen_threshold"] = s.threshold;
}

// Adds shapes with the same inputs one after another, so that inputs are made once.
void register_all() {
    if (!HAS_WARP_REDUCE_BATCHED)
        benchmark::AddCustomContext("cub_batched", "absent: cub::WarpReduceBatched came with CUB 3.4");
    static bench b;
    for (const int active : axes::active)
        for (const int keys : axes::keys)
            for (const int K : axes::values)
                for (const int targets : axes::targets)
                    for (int m = 0; m < axes::methods; ++m)
                        for (const int threshold : axes::thresholds) {
                            const shape s = {axes::method(m), active, keys, K, targets, threshold};
                            if (!axes::exists(s.method, active, keys, targets, threshold) || !kernel_of(s))
                                continue;
                            const std::string name =
                                std::string("aggregate/") + axes::method_name[m] +
                                "/active:" + std::to_string(active) + "/keys:" + std::to_string(keys) +
                                "/K:" + std::to_string(K) + "/targets:" + std::to_string(targets) +
                                "/threshold:" + std::to_string(threshold);
                            const auto run = std::make_shared<shape>(s); // its check sets the calls of a launch
                            register_run(
                                name, REPETITIONS, [run] { return prepare(b, *run); },
                                [run](benchmark::State &state) { measure(state, b, *run); });
                        }
}

} // namespace

int main(int argc, char **argv) {
    std::string filter = std::string("--benchmark_filter=") + axes::default_filter; // a later option replaces it
    std::vector<char *> arguments = {argv[0], &filter[0]};
    arguments.insert(arguments.end(), argv + 1, argv + argc + 1); // with the NULL at their end
    return run_benchmarks(argc + 1, arguments.data(), register_all);
}
