// SPDX-License-Identifier: MIT
// sums_by_key: out[index[i]][k] += source[i][k], as one call from the host. With the same bits in every run, on every
// GPU and for every order of the rows; or as fast as can be.
//
// Example (device memory: index = {2, 0, 2}, source = {1, 10, 2, 20, 3, 30}, six zeros in out):
//     distwar::key_sums<float> sums;
//     sums.count = 3, sums.width = 2, sums.keys = 3;
//     sums.index = index, sums.source = source, sums.out = out;
//     cudaError_t error = distwar::sums_by_key_bytes(sums, &sums.workspace_bytes);
//     if (error == cudaSuccess) error = cudaMalloc(&sums.workspace, sums.workspace_bytes);
//     if (error == cudaSuccess) error = distwar::sums_by_key(sums, stream);
//     // out: 2, 20, 0, 0, 4, 40
//
// Index: int or long long. T, Out: float, double, __half or __nv_bfloat16. Out is T; with the ways that are not
// deterministic also float where T has 16 bits, so that no sum is rounded to 16 bits on its way.
//
// way            sums in                what it does
// -------------  ---------------------  --------------------------------------------------------------------------
// deterministic  fixed point            `fixed`; `sorted_fixed` for wide rows and large tables, with a sort
// fastest        float (double: double) `adaptive`; `sorted` for many wide rows, with a sort
// exact          two words of 64 bits   as `fixed`
// fixed          one word (double: two) integer atomics; blocks whose keys repeat sum by key first
// sorted_fixed   one word               sorts by key, sums runs; not for double
// adaptive       float                  each block takes one of the two ways below, by how often its keys repeat
// atomic         float                  an atomic for each vector of a row
// grouped        float                  a block groups its rows by key and adds each group once
// sorted         float                  sorts by key, sums runs
//
// The ways that sort are those of sums_by_key<key_sort>, from sorted_sums_by_key.cuh, which includes CUB. This header
// does not.
//
// What one word holds. A sum counts units of 2^-44 of the power of two above the largest |value| of source, for up to
// 2^18 rows; twice as much for twice the rows. Each value is rounded to nearest once. sorted_fixed takes the largest of
// the values of one sum in place of those of source.
// What two words hold. 2^b is the power of two above the largest |value|, n = ceil(log2(count)): bits from 2^(b - 1)
// down to 2^(b - 126 + 2 n). For a million rows 86 bits: with a largest value of 1, floats down to 2^-63 are exact, so
// is every float once 2^-86 is not above its last bit. The sum is exact and rounded to T once, to nearest even, then
// added to `out`. A value with bits below is rounded to a unit, and byte 1 of `report` tells.
//
// Infinities and NaN are added to their place of `out`, and change no other.
#ifndef DISTWAR_SUMS_BY_KEY_CUH
#define DISTWAR_SUMS_BY_KEY_CUH

#include "push_macros.h"

#include "add_rows.cuh"
#include "host_launch.cuh"

namespace distwar {

enum class sums_way : int {
    fastest = 0,
    atomic,
    grouped,
    adaptive,
    sorted,
    fixed,
    sorted_fixed,
    exact,
    deterministic
};

template <typename T, typename Index = int, typename Out = T>
struct key_sums {
    int64_t count = 0, width = 1, keys = 0; // rows of source; values of a row; rows of out
    const Index *index = nullptr;           // [count], each 0..keys - 1
    const T *source = nullptr;              // [count][width]
    Out *out = nullptr;                     // [keys][width]
    int64_t skipped = -1; // rows with this index are left out, as those of padding; -1: none
    sums_way way = sums_way::deterministic;
    // > 0: the caller knows that every finite |value| is below the power of two above `bound`; saves the pass that
    // looks for the largest one (fixed, exact). A value that is not makes its sum NaN.
    double bound = 0;
    // One word, device memory or pinned host memory, or nullptr. Byte 0 becomes 1 if a row was left out because its
    // index is out of range, byte 1 if two words did not hold a value.
    uint32_t *report = nullptr;
    void *workspace = nullptr; // device memory, aligned to 256 bytes
    size_t workspace_bytes = 0;
};

// The sort of calls of sums_by_key that do not sort.
struct no_sort {
    static constexpr bool sorts = false;
};

namespace detail {

// key_sums without its types.
struct key_call {
    row_request rows; // but for `vectors`
    int64_t width;
    void *out;
    sums_way way;
    double bound;
    char *workspace;
    size_t workspace_bytes;
    int value_bytes, out_bytes; // of T and Out
    int vector_bytes;           // of a load and an atomic: 16, 8, 4 or 2
    int multiprocessors;
};

// The ways that sort: sorted_sums_by_key.cuh.
template <typename Sort>
struct sorted_places;
template <typename Sort, typename T, int V, typename Out>
struct sorted_rows_call;

template <typename T, typename Index, typename Out>
key_call call_of(const key_sums<T, Index, Out> &in) {
    static_assert(sizeof(Index) == 4 || sizeof(Index) == 8,
                  "distwar: the index has integers of 4 or 8 bytes");
    static_assert(is_same<T, Out> || (is_same<Out, float> && sizeof(T) == 2),
                  "distwar: sums have the type of the values, or are float for 16-bit values");
    key_call call = {};
    call.rows = {in.index, in.source, in.count, in.keys, in.skipped, 1, sizeof(Index) == 8, in.report};
    call.width = in.width, call.out = in.out, call.way = in.way, call.bound = in.bound;
    call.workspace = static_cast<char *>(in.workspace), call.workspace_bytes = in.workspace_bytes;
    call.value_bytes = int(sizeof(T)), call.out_bytes = int(sizeof(Out)), call.vector_bytes = int(sizeof(T));
    return call;
}

inline bool sorts(sums_way way) {
    return way == sums_way::sorted || way == sums_way::sorted_fixed;
}
inline bool is_deterministic(sums_way way) {
    return way == sums_way::fixed || way >= sums_way::sorted_fixed;
}

inline sums_way chosen_way(const key_call &call, bool can_sort) {
    const int64_t count = call.rows.count, keys = call.rows.rows, bytes = call.width * call.value_bytes;
    const bool may_sort = can_sort && count < INT32_MAX && keys < INT32_MAX;
    if (call.way == sums_way::deterministic) { // sums of 8 bytes in the workspace, or a sort
        if (call.value_bytes == 8) return sums_way::fixed;
        const bool fixed = call.width <= 32 && keys <= 4 * count && keys * call.width <= 16 * count;
        return may_sort && !fixed ? sums_way::sorted_fixed : sums_way::fixed;
    }
    if (call.way != sums_way::fastest) return call.way;
    // A sort costs about as much as reading rows of 256 bytes.
    const bool wide = (bytes >= 512 && count >= 400000) || (bytes >= 256 && count >= 4000000);
    return may_sort && wide && call.value_bytes < 8 ? sums_way::sorted : sums_way::adaptive;
}

inline int words_of(const key_call &call, sums_way way) {
    return way == sums_way::exact || call.value_bytes == 8 ? 2 : 1;
}

inline bool is_aligned(const void *address, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % uint64_t(bytes) == 0;
}

// What is wrong with the sizes of a call; nullptr: nothing.
inline const char *fault_of_sizes(const key_call &call, bool can_sort) {
    if (call.rows.count < 0 || call.rows.rows < 0) return "count and the rows of out must not be negative";
    if (call.width < 1 || call.width > INT32_MAX) return "width must be in 1..2^31 - 1";
    const int64_t most = INT64_MAX / 64 / call.width;
    if (call.rows.count > most || call.rows.rows > most)
        return "count or the rows of out times width is too large";
    if (call.rows.count > int64_t{1} << 36) return "count is too large: more than 2^36";
    if (call.way < sums_way::fastest || call.way > sums_way::deterministic) return "there is no such way";
    if (call.out_bytes != call.value_bytes && detail::is_deterministic(call.way))
        return "float_sums of 16-bit rows are not deterministic";
    if (!(call.bound >= 0 && call.bound <= 1.7976931348623157e308))
        return "bound must be finite and not negative";
    if (detail::sorts(call.way)) {
        if (!can_sort) return "this call cannot sort: sums_by_key<key_sort> can";
        if (call.value_bytes == 8) return "rows of double are not sorted";
        if (call.rows.count >= INT32_MAX || call.rows.rows >= INT32_MAX)
            return "rows are sorted if there are fewer than 2^31 - 1";
    }
    return nullptr;
}
// What is wrong with the arrays of a call, or nullptr; bytes: of the workspace that the call needs.
inline const char *fault_of_arrays(const key_call &call, size_t bytes) {
    if (!call.rows.index || !call.rows.source) return "index and source must be given";
    if (!call.out && call.rows.rows > 0) return "out must be given";
    if (!detail::is_aligned(call.rows.index, call.rows.wide ? 8 : 4) ||
        !detail::is_aligned(call.rows.source, call.value_bytes) ||
        !detail::is_aligned(call.out, call.out_bytes))
        return "index, source and out must be aligned to their types";
    if (bytes > 0 && (!call.workspace || call.workspace_bytes < bytes))
        return "the workspace is NULL or smaller than its query says";
    return detail::is_aligned(call.workspace, 256) ? nullptr : "the workspace must be aligned to 256 bytes";
}

inline int ceil_log2(int64_t n) {
    int bits = 0;
    while (bits < 62 && int64_t{1} << bits < n) bits++;
    return bits;
}

// The sums of a call in fixed point: their places in the workspace, which may be nullptr, and its bytes.
inline size_t place_fixed(const key_call &call, sums_way way, fixed_sums *out) {
    const size_t values = size_t(call.rows.rows) * size_t(call.width) * size_t(detail::words_of(call, way));
    const size_t parts = MOST_PARTS * sizeof(unsigned);
    unsigned bound;
    if (call.value_bytes == 8) {
        unsigned long long bits;
        ::memcpy(&bits, &call.bound, 8);
        bound = unsigned(bits >> 32) | 0xfffffu;
    } else {
        const float most = 3.4028234663852886e38f, least = 1e-45f;
        const float value = call.bound > double(most)    ? most
                            : call.bound < double(least) ? least
                                                         : float(call.bound);
        ::memcpy(&bound, &value, 4);
        bound |= 0x7fffffu;
    }
    *out = {call.workspace ? reinterpret_cast<long long *>(call.workspace + parts) : nullptr,
            reinterpret_cast<unsigned *>(call.workspace),
            0,
            bound,
            detail::ceil_log2(call.rows.count),
            call.rows.report};
    return parts + (values * 8 + 255) / 256 * 256;
}

inline unsigned grid_of(int64_t threads, const key_call &call, int blocks_each) {
    const int64_t blocks = (threads + ROWS_BLOCK - 1) / ROWS_BLOCK,
                  most = int64_t(call.multiprocessors) * blocks_each;
    return unsigned(blocks < most ? blocks : most);
}

template <typename T, int V, typename Adder>
cudaError_t launch_add_rows(const key_call &call, const fixed_sums &fixed, cudaStream_t stream) {
    row_request in = call.rows;
    in.vectors = int32_t(call.width / V);
    // As few rounds of blocks as can be, all of them full.
    const int64_t blocks = int64_t(call.multiprocessors) * ROWS_BLOCKS;
    const int64_t waves = (in.count + blocks * MOST_TILE_ROWS - 1) / (blocks * MOST_TILE_ROWS);
    const int64_t each = (in.count + blocks * waves - 1) / (blocks * waves);
    const int64_t least = in.vectors < 8 ? ROWS_BLOCK / in.vectors : 32, step = in.vectors < 32 ? 32 : 1;
    row_tile tile = {int32_t(each < least && in.vectors < 32 ? least : (each + step - 1) / step * step),
                     2 * ROWS_BLOCK};
    while (tile.places < 2 * tile.rows) tile.places *= 2;
    // Groups have rows of 32 bits. In a small table atomics meet.
    const bool groups = call.way == sums_way::grouped || in.rows <= 2048;
    const adding how = in.rows > INT32_MAX || call.way == sums_way::atomic ? ADD_SINGLY
                       : groups                                            ? ADD_GROUPS
                                                                           : ADD_LOOK;
    return detail::launch_kernel<Adder::after_kernel>(
        stream, unsigned((in.count + tile.rows - 1) / tile.rows), ROWS_BLOCK, 0, add_rows<T, V, Adder>, in,
        call.out, fixed, how, tile);
}

template <typename T, int Words>
cudaError_t add_fixed(const key_call &call, cudaStream_t stream) {
    fixed_sums fixed;
    detail::place_fixed(call, call.way, &fixed);
    const int64_t values = call.rows.rows * call.width;
    // find_largest looks at `all` values, and sets the sums to 0.
    const int64_t all = call.bound > 0 ? 0 : call.rows.count * call.width;
    constexpr int V = 16 / int(sizeof(T));
    const bool vectors = detail::is_aligned(call.rows.source, 16);
    const int64_t pairs = (values * Words + 1) / 2, work = all / (vectors ? V : 1) / 2 + pairs;
    const int64_t most = (work + LARGEST_BLOCK - 1) / LARGEST_BLOCK;
    const unsigned blocks = unsigned(most < 1 ? 1 : most < MOST_PARTS ? most : int64_t(MOST_PARTS));
    if (call.bound == 0) fixed.parts = int(blocks);
    cudaError_t error = detail::launch_kernel(stream, blocks, unsigned(LARGEST_BLOCK), 0,
                                              vectors ? find_largest<T, V> : find_largest<T, 1>,
                                              call.rows.source, all, const_cast<unsigned *>(fixed.largest),
                                              reinterpret_cast<ulonglong2 *>(fixed.sum), pairs);
    if (error == cudaSuccess)
        error = detail::launch_add_rows<T, 1, fixed_adder<T, Words>>(call, fixed, stream);
    if (error != cudaSuccess) return error;
    return detail::launch_kernel<true>(stream, detail::grid_of((values + 3) / 4, call, 8), ROWS_BLOCK, 0,
                                       add_fixed_sums<T, Words>, fixed, static_cast<T *>(call.out), values);
}

template <typename Sort, typename T, int V, typename Out>
cudaError_t add_vectors(const key_call &call, cudaStream_t stream) {
    if constexpr (Sort::sorts && sizeof(T) < 8)
        if (detail::sorts(call.way)) return sorted_rows_call<Sort, T, V, Out>::add(call, stream);
    return detail::launch_add_rows<T, V, float_adder<T, V, Out>>(call, {}, stream);
}

template <typename Sort, typename T, typename Out>
cudaError_t add_call(const key_call &call, cudaStream_t stream) {
    if constexpr (sizeof(T) == sizeof(Out)) {
        if constexpr (sizeof(T) < 8)
            if (call.way == sums_way::fixed) return detail::add_fixed<T, 1>(call, stream);
        if (call.way == sums_way::fixed || call.way == sums_way::exact)
            return detail::add_fixed<T, 2>(call, stream);
    }
    const int V = call.vector_bytes / int(sizeof(T));
    if constexpr (sizeof(T) == 2)
        if (V == 8) return detail::add_vectors<Sort, T, 8, Out>(call, stream);
    if constexpr (sizeof(T) < 8)
        if (V == 4) return detail::add_vectors<Sort, T, 4, Out>(call, stream);
    return V == 2 ? detail::add_vectors<Sort, T, 2, Out>(call, stream)
                  : detail::add_vectors<Sort, T, 1, Out>(call, stream);
}

template <typename Sort>
cudaError_t bytes_of_way(const key_call &call, sums_way way, size_t *bytes) {
    *bytes = 0;
    fixed_sums fixed;
    if (way == sums_way::fixed || way == sums_way::exact) *bytes = detail::place_fixed(call, way, &fixed);
    if constexpr (Sort::sorts)
        if (detail::sorts(way)) return sorted_places<Sort>::of(call, way, bytes);
    return cudaSuccess;
}

} // namespace detail

// The reason for which sums_by_key would return cudaErrorInvalidValue; nullptr: there is none. The text is static.
//   arrays  whether index, source, out and the workspace are looked at too
template <typename Sort = no_sort, typename T, typename Index, typename Out>
const char *key_sums_fault(const key_sums<T, Index, Out> &sums, bool arrays) {
    const detail::key_call call = detail::call_of(sums);
    const char *const fault = detail::fault_of_sizes(call, Sort::sorts);
    if (fault || !arrays || sums.count == 0) return fault;
    size_t bytes;
    if (detail::bytes_of_way<Sort>(call, detail::chosen_way(call, Sort::sorts), &bytes) != cudaSuccess)
        return nullptr; // a failure of the device, which the call reports
    return detail::fault_of_arrays(call, bytes);
}

// *bytes = those of the workspace of sums_by_key; it may be 0. Arrays need not be given. Errors: as sums_by_key.
template <typename Sort = no_sort, typename T, typename Index, typename Out>
cudaError_t sums_by_key_bytes(const key_sums<T, Index, Out> &sums, size_t *bytes) {
    *bytes = 0;
    if (distwar::key_sums_fault<Sort>(sums, false)) return cudaErrorInvalidValue;
    const detail::key_call call = detail::call_of(sums);
    return detail::bytes_of_way<Sort>(call, detail::chosen_way(call, Sort::sorts), bytes);
}

// out[index[i]][k] += source[i][k] for i < count and k < width.
//   who calls  the host, any thread. Work is queued on `stream`; nothing is allocated; it can be captured in a graph
//   arrays     device memory, aligned to their types; 16 bytes let vectors load and add
// Afterwards, when the stream has come there: out holds the sums (top of this page). The bits of the deterministic
// ways do not depend on the GPU, the order of the rows, the sizes of blocks and grids, or the version of CUDA; those
// of two calls that add to one `out` do, as all float additions.
// Undefined: arrays that overlap; arrays that change meanwhile.
// Errors: cudaErrorInvalidValue (key_sums_fault says why), with nothing queued; those of a launch.
// Cost, launches: 1 without a sort; fixed and exact 3, which overlap. Index and source are read once, by fixed and exact
// source twice unless `bound` is given. Workspace: 1 KB and 8 bytes per value of out (two words: 16) for fixed and exact.
// On a GPU an atomic of float32 takes a subnormal number for 0; deterministic ways keep them.
template <typename Sort = no_sort, typename T, typename Index, typename Out>
cudaError_t sums_by_key(const key_sums<T, Index, Out> &sums, cudaStream_t stream) {
    if (distwar::key_sums_fault<Sort>(sums, true)) return cudaErrorInvalidValue;
    if (sums.count == 0) return cudaSuccess;
    detail::key_call call = detail::call_of(sums);
    call.way = detail::chosen_way(call, Sort::sorts);
    for (int bytes = 4; bytes <= 16; bytes *= 2) {
        const int64_t out = int64_t(bytes) * call.out_bytes / call.value_bytes;
        if (bytes > call.value_bytes && call.width * call.value_bytes % bytes == 0 &&
            detail::is_aligned(sums.source, bytes) && detail::is_aligned(sums.out, out < 16 ? out : 16))
            call.vector_bytes = bytes;
    }
    const cudaError_t error = detail::count_multiprocessors(&call.multiprocessors);
    return error == cudaSuccess ? detail::add_call<Sort, T, Out>(call, stream) : error;
}

} // namespace distwar

#include "pop_macros.h"

#endif
