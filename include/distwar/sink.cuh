// SPDX-License-Identifier: MIT
// Sinks: where the K values of a key are added in memory.
//
//     sink             value k is added to                 type in memory       atomics, if one lane adds K
//     ---------------  ----------------------------------  -------------------  ---------------------------
//     pointers         *address[k] of the lane             T                    K
//     record           base[key * stride + k]              T                    K
//     planes           base[k * stride + key]              T                    K
//     fields           record i of the key, in array i     T                    K
//     aligned_record   base[key * stride + k]              float, half2, ...    ceil(K / 4)
//     record_of_pairs  base[key * stride + k / 2], a half  half2, bfloat162     ceil(K / 2) (half.cuh)
//     record_of_halves base[key * stride + k]              half, bfloat16       K (half.cuh)
//
// T is float, double or an integer of 4 or 8 bytes; with half.cuh also half, bfloat16, half2 or bfloat162. Sums of unsigned
// integers wrap; those of signed ones must fit. The values have the type in memory, but float for half and bfloat16; sinks of
// double take float values, too. Addresses are aligned to their type, in global or shared memory. base and stride are the
// same in all lanes, inactive ones included; a stride is any integer, key >= 0.
//
// pointers, record and planes take an operator in place of the sum after T, and a scope after that (atomic.cuh):
// minimum and maximum, bit_and, bit_or, bit_xor (of integers), or multiply, which costs a compare-and-swap for each
// value, as do minimum and maximum of 16-bit types. NaN values change no minimum or maximum; in memory there must be none.
//
// A sink of your own is any type with
//     add(key, values) const        adds each of the K values atomically; called by one lane
//     add_one(key, k, value) const  optional: adds value k alone; called by the lane that owns value k
//     from(first) const             optional, for calls in chunks (values.cuh): the sink of the values from `first` on, a
//                                   multiple of 4, so that one lane adds a whole chunk by add(), not by add_one
//     using memory = int            optional, for `require`: it adds to integers of this type alone
// With add_one it is addressed by key: the same in all lanes of the call, because a lane may commit a value of a group
// that it does not belong to. reduce_tree then commits all K values with one atomic instruction, else with K more
// shuffles and K atomic instructions. add_one takes its address from a base and a stride that depend on k: branches
// would split the one instruction into several (docs/kernel.md). reduce does not look where a sink of your own lies:
// in_shared(sink) says it.
#ifndef DISTWAR_SINK_CUH
#define DISTWAR_SINK_CUH

#include "atomic.cuh"

namespace distwar {

// When a sum has the same bits, in CCCL's words: never for sure, in every run on one GPU, on every GPU.
enum class determinism { not_guaranteed, run_to_run, gpu_to_gpu };

namespace detail {

// Whether a sink is addressed by key, that is, has add_one(key, k, value).
template <typename Sink, typename Key, typename T, typename = void>
inline constexpr bool is_addressed_by_key = false;
template <typename Sink, typename Key, typename T>
inline constexpr bool is_addressed_by_key<
    Sink, Key, T, void_type<decltype(declared<const Sink &>().add_one(declared<Key>(), 0, declared<T>()))>> =
    true;

// The operator of a sink: its member type `op`, else add.
template <typename Sink>
__device__ typename Sink::op operator_of(int);
template <typename Sink>
__device__ distwar::add operator_of(long);
template <typename Sink>
using sink_operator = decltype(detail::operator_of<Sink>(0));

// Whether a sink says by its member type `memory` that it adds to integers: then no order changes what they hold.
template <typename Sink, typename = void>
inline constexpr bool is_order_free = false;
template <typename Sink>
inline constexpr bool is_order_free<Sink, void_type<typename Sink::memory>> =
    is_integer<typename Sink::memory>;

// What the library knows of its own sinks: how many values they take, if that is fixed; whether they can tell if `count`
// values of a key find room, by their strides; whether `base` tells where they lie.
template <typename Sink, typename = void>
inline constexpr int values_of_sink = 0;
template <typename Sink>
inline constexpr int values_of_sink<Sink, void_type<decltype(Sink::values_of_key)>> = Sink::values_of_key;
template <typename Sink, typename = void>
inline constexpr bool knows_room = false;
template <typename Sink>
inline constexpr bool knows_room<Sink, void_type<decltype(declared<Sink>().has_room(0))>> = true;
struct stride_type;
template <typename Sink, typename = void>
inline constexpr bool has_one_base = false;
template <typename Sink>
inline constexpr bool has_one_base<Sink, void_type<decltype(Sink::stride)>> =
    is_same<decltype(Sink::stride), stride_type>;
template <typename Sink>
inline constexpr bool is_pointers = false;
template <typename Sink>
inline constexpr bool is_in_shared = false; // as promised

template <typename Sink>
inline constexpr bool is_pointer = false;
template <typename T>
inline constexpr bool is_pointer<T *> = true;
template <typename T, int K>
inline constexpr bool is_pointer<T[K]> = true;

// What every call asks of its key, its sink and its number of values, before its first collective. Under simt also
// what lanes must pass alike.
template <typename Key, typename Sink>
DISTWAR_DEVICE void check_call([[maybe_unused]] bool active, [[maybe_unused]] Key key,
                               [[maybe_unused]] const Sink &sink, [[maybe_unused]] int count) {
    static_assert(!is_pointer<Sink>, "distwar: a sink is no pointer: write record<float>{pointer, stride}");
    detail::check_key(key);
#if !DISTWAR_PTX
    if constexpr (knows_room<Sink>)
        if (!sink.has_room(count)) simt::refuse("the stride of a sink is below its number of values");
    if constexpr (is_pointers<Sink>)
        detail::promise(active ? "lanes with one key pass different addresses in pointers" : nullptr,
                        (unsigned long long)(detail::plain_key(key)), active ? simt::digest(sink) : 0, true);
    else if constexpr (is_addressed_by_key<Sink, int, float> && __has_unique_object_representations(Sink))
        detail::promise(
            "a sink that is addressed by key differs between lanes of a call, in its base or stride", 0,
            simt::digest(sink), false);
#endif
}

// A stride, in values: made from any integer, so that an int need not be converted by the caller.
struct stride_type {
    size_t number;
    stride_type() = default;
    template <typename Integer>
    __host__ DISTWAR_DEVICE constexpr stride_type(Integer given) : number(size_t(given)) {
        static_assert(Integer(1) / 2 == 0, "distwar: a stride is an integer");
    }
    __host__ DISTWAR_DEVICE constexpr operator size_t() const { return number; }
};

// One array of `fields`: value i of a key lies at base[key * stride + i], for 0 <= i < Count.
template <typename T, int Count>
struct field {
    static_assert(Count > 0, "distwar: a field has at least one value");
    T *base;
    stride_type stride; // in T, >= Count
};

// What a sink asks of its template arguments.
template <typename T, scope S>
struct sink_of {
    static_assert(is_destination<T>,
                  "distwar: a sink takes float, double or integers of 4 or 8 bytes; with half.cuh "
                  "also __half, __nv_bfloat16, __half2 and __nv_bfloat162");
    using memory = T;
};

// What a lane contributes: its value, or what changes nothing if the lane is inactive. For a minimum or a maximum also
// if the value is NaN. Op may be the caller's, with neutral<T>().
template <typename T, typename Op>
DISTWAR_DEVICE T operand(bool active, T given, Op op) {
    const T neutral = Op::template neutral<T>();
    if constexpr (is_same<Op, minimum> || is_same<Op, maximum>)
        return active ? op(neutral, given) : neutral;
    else
        return active ? given : neutral;
}

} // namespace detail

// The sink with the promise that it lies in shared memory: reduce then sends plain atomics, and needs no other lanes.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ int bins[4];
//     if (lane < 4) bins[lane] = 0;
//     __syncthreads();
//     distwar::reduce(distwar::all_lanes, true, lane % 4, 1, distwar::in_shared(distwar::record<int>{bins, 1}));
//     __syncthreads();
//     if (lane < 4) counts[lane] = bins[lane];
//     // counts: 8, 8, 8, 8
template <typename Sink>
struct in_shared : Sink {
    DISTWAR_DEVICE explicit in_shared(const Sink &sink) : Sink(sink) {}
};

// K addresses of the lane itself, ignored in inactive lanes. The key only forms groups: lanes with equal keys hold equal
// addresses, those with different keys any.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::pointers sink{&counts[lane / 16], &sums[lane / 16]};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1, lane), sink);
//     // counts: 16, 16; sums: 120, 376
template <int K, typename T, typename Op = add, scope S = scope::device>
struct pointers {
    using op = Op;
    static_assert(K >= 1, "distwar: a sink takes at least one value");
    using memory = typename detail::sink_of<T, S>::memory;
    T *address[K];

    template <typename Key, int Count, typename V>
    DISTWAR_DEVICE void add(Key, const V (&values)[Count]) const {
        static_assert(Count == K, "distwar: the sink has another number of addresses than there are values");
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) detail::update_in_memory<S>(address[k], values[k], Op{});
    }
};
template <typename T, typename... More>
__host__ __device__ pointers(T *, More *...)->pointers<1 + int(sizeof...(More)), T>;

// Adds value k to base[key * stride + k], stride >= K.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::record<float, distwar::maximum> sink = {highest, 1};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), sink);
//     // highest: 15, 31
template <typename T, typename Op = add, scope S = scope::device>
struct record {
    using op = Op;
    using memory = typename detail::sink_of<T, S>::memory;
    T *base;
    detail::stride_type stride;

    template <typename Key, int K, typename V>
    DISTWAR_DEVICE void add(Key key, const V (&values)[K]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) add_one(key, k, values[k]);
    }
    template <typename Key, typename V>
    DISTWAR_DEVICE void add_one(Key key, int k, V given) const {
        detail::update_in_memory<S>(base + size_t(key) * stride + k, given, Op{});
    }
    __device__ bool has_room(int count) const { return stride >= size_t(count); }
};
template <typename T, typename Stride>
__host__ __device__ record(T *, Stride)->record<T>;

// Adds value k to base[k * stride + key]. Two pairs of key and k < K must not name one place, which key < stride ensures.
// Blocks of planes: value k of cell c in block b at base[(b * K + k) * 64 + c] has the stride 64 and the key b * K * 64 + c.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::planes<float> sink = {sums, 3};
//     distwar::reduce(distwar::all_lanes, lane < 2, lane, distwar::values(1.0f, 2.0f), sink);
//     // sums: 1, 1, 0, 2, 2, 0
template <typename T, typename Op = add, scope S = scope::device>
struct planes {
    using op = Op;
    using memory = typename detail::sink_of<T, S>::memory;
    T *base;
    detail::stride_type stride;

    template <typename Key, int K, typename V>
    DISTWAR_DEVICE void add(Key key, const V (&values)[K]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) add_one(key, k, values[k]);
    }
    template <typename Key, typename V>
    DISTWAR_DEVICE void add_one(Key key, int k, V given) const {
        detail::update_in_memory<S>(base + size_t(k) * stride + size_t(key), given, Op{});
    }
};
template <typename T, typename Stride>
__host__ __device__ planes(T *, Stride)->planes<T>;

// A record added by vector atomics of 4 and 2 values: value k to base[key * stride + k].
//   T       float, or with half.cuh a pair, __half2 or __nv_bfloat162
//   base    in global or shared memory, aligned to 16 bytes; for K = 2 to the size of two values
//   stride  >= K, a multiple of 4; for K = 2 of 2
// Cost, if one lane adds all values in global memory from compute capability 9.0 and CUDA 12.1 on: an atomic for each
// vector, 3 for K = 9. Else, and if each lane adds one value (reduce_tree): as record.
// Each value is added atomically, the record as a whole is not. If K mod 4 = 3 the last vector of floats is 3 values and a
// zero: the float behind value K - 1, which stride reserves, does not change, but a subnormal number may become 0.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::aligned_record sink = {sums, 2};
//     distwar::reduce(distwar::all_lanes, lane < 4, lane % 2, distwar::values(1.0f, float(lane)), sink);
//     // sums: 2, 2, 2, 4
template <typename T = float, scope S = scope::device>
struct aligned_record {
    static_assert(detail::is_same<T, float> || detail::is_packed<T>,
                  "distwar: aligned_record takes float; with half.cuh also __half2 and __nv_bfloat162");
    using memory = typename detail::sink_of<T, S>::memory;
    T *base;
    detail::stride_type stride;
    static constexpr int values_of_a_request = DISTWAR_HAS_VECTOR_RED ? 4 : 1; // see tree.cuh

    template <typename Key, int K, typename V>
    DISTWAR_DEVICE void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, T>, "distwar: the values have another type than the sink");
        T *const first = base + size_t(key) * stride;
        constexpr int fours = K / 4 * 4;
        DISTWAR_UNROLL
        for (int k = 0; k < fours; k += 4) detail::add_vector<S, 4>(first + k, values + k);
        if constexpr (K % 4 == 3 && detail::is_same<T, float>) {
            const T four[] = {values[fours], values[fours + 1], values[fours + 2], 0};
            if (detail::destination<T>::template add_vector<S, 4>(first + fours, four)) return;
        }
        if constexpr (K % 4 >= 2) detail::add_vector<S, 2>(first + fours, values + fours);
        if constexpr (K % 2 == 1) distwar::atomic_add<S>(first + K - 1, values[K - 1]);
    }
    template <typename Key, typename V>
    DISTWAR_DEVICE void add_one(Key key, int k, V given) const {
        static_assert(detail::is_same<V, T>, "distwar: the values have another type than the sink");
        distwar::atomic_add<S>(base + size_t(key) * stride + k, given);
    }
    DISTWAR_DEVICE aligned_record from(int first) const { return {base + first, stride}; }
    __device__ bool has_room(int count) const { return stride >= size_t(count); }
};
template <typename T, typename Stride>
__host__ __device__ aligned_record(T *, Stride)->aligned_record<T>;

// A sink whose K values lie in several arrays, each with its own stride. It replaces `pointers` where the addresses
// follow from the key.
//   Op, S    operator and scope, as for record; `fields` has add and device
//   Counts   the number of values of each array, in their order; K is their sum
//   arrays   {base, stride} each, in global or shared memory; several may lie in one buffer
// Cost of add, by one lane: K atomics. Of the tree's commit: ceil(K / 32) atomic instructions, and 3 selects for every
// array after the first, which compilers move out of loops.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::fields<float, 3, 1> sink = {{color, 3}, {opacity, 1}};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(float3{1, 2, 3}, 0.5f), sink);
//     // color: 16, 32, 48, 16, 32, 48; opacity: 8, 8
template <typename Op, scope S, typename T, int... Counts>
struct fields_with {
    using op = Op;
    static_assert(sizeof...(Counts) >= 1, "distwar: fields need at least one part");
    using memory = typename detail::sink_of<T, S>::memory;
    static constexpr int parts = sizeof...(Counts);
    static constexpr int values_of_key = (0 + ... + Counts);

    T *base[parts];
    size_t stride[parts];

    __host__ DISTWAR_DEVICE fields_with(detail::field<T, Counts>... part)
        : base{part.base...}, stride{part.stride...} {}

    template <typename Key, int K, typename V>
    DISTWAR_DEVICE void add(Key key, const V (&val)[K]) const {
        static_assert(K == values_of_key, "distwar: the fields hold another number of values than there are");
        // By add_one: a loop over the parts leaves `val` with an index that nvcc does not resolve, in local memory.
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) add_one(key, k, val[k]);
    }

    // 0 <= k < values_of_key. Selects and one atomic: with branches around atomics it would be one instruction for each array.
    template <typename Key, typename V>
    DISTWAR_DEVICE void add_one(Key key, int k, V given) const {
        constexpr int count[] = {Counts...};
        T *chosen = base[0];
        size_t chosen_stride = stride[0];
        int first = 0, within = k;
        DISTWAR_UNROLL
        for (int part = 1; part < parts; ++part) {
            first += count[part - 1];
            const bool reached = k >= first;
            chosen = reached ? base[part] : chosen;
            chosen_stride = reached ? stride[part] : chosen_stride;
            within = reached ? k - first : within;
        }
        detail::update_in_memory<S>(chosen + size_t(key) * chosen_stride + within, given, Op{});
    }
    __device__ bool has_room(int) const {
        const size_t *each = stride;
        return ((*each++ >= size_t(Counts)) && ...);
    }
};
template <typename T, int... Counts>
using fields = fields_with<add, scope::device, T, Counts...>;

namespace detail {
template <typename Sink>
inline constexpr bool is_in_shared<in_shared<Sink>> = true;
template <int K, typename T, typename Op, scope S>
inline constexpr bool is_pointers<pointers<K, T, Op, S>> = true;
} // namespace detail

// The sink, if what it holds in the end has the same bits as often as Level says, whatever call adds to it. Integers do: no
// order changes their sums, minima, bits or products. Another sink does not compile; reduce_fixed adds floats to integers.
// Cost: none.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto sink = distwar::require<distwar::determinism::gpu_to_gpu>(distwar::record<int>{sums, 1});
//     distwar::reduce(distwar::all_lanes, true, lane / 16, lane, sink);
//     // sums: 120, 376
template <determinism Level, typename Sink>
DISTWAR_DEVICE Sink require(const Sink &sink) {
    static_assert(Level == determinism::not_guaranteed || detail::is_order_free<Sink>,
                  "distwar: only sinks of integers hold a level; reduce_fixed adds floats to them");
    return sink;
}

} // namespace distwar

#endif
