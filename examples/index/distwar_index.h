// SPDX-License-Identifier: MIT
//
// Adds rows to the rows of a table that an index array names: the sums behind index_add, the backward pass of
// an embedding, bincount. C11 and C++11, no CUDA header.
//
//     for i < count, k < width: out[index[i]][k] += source[i][k]
//
// Rules for every call:
// - Pointers to arrays are device pointers (backend "simt": host pointers), owned by the caller. Arrays are
//   contiguous and aligned to their type. Vector loads and atomics need rows and arrays that are multiples of
//   16 bytes.
// - A call queues its work on `stream` (a cudaStream_t, or NULL) and returns without waiting. It can be
//   captured into a CUDA graph. No call allocates memory.
// - The result is IX_OK or the kind of failure; ix_last_error() returns the text. Nothing is queued if an
//   argument is invalid.
// - Structs may grow at their end. Begin each as {0}.
// - Calls are thread-safe if they share no outputs and no workspaces.
#ifndef DISTWAR_INDEX_H
#define DISTWAR_INDEX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
typedef struct CUstream_st *ix_stream; // the same type as cudaStream_t

typedef enum ix_status {
    IX_OK = 0,
    IX_INVALID_ARGUMENT = 1,
    IX_DEVICE_ERROR = 2 // the CUDA runtime or a kernel failed
} ix_status;

// Text of this thread's last failure, "function: reason". "" before the first failure.
const char *ix_last_error(void);
// "cuda" or "simt".
const char *ix_backend(void);
// sizeof(ix_rows), for callers in languages that repeat the struct.
size_t ix_rows_bytes(void);

typedef enum ix_type { IX_FLOAT32 = 0, IX_FLOAT16 = 1, IX_BFLOAT16 = 2, IX_FLOAT64 = 3, IX_TYPES } ix_type;

// How the sums are made. All ways give the same sums, up to the order of additions.
typedef enum ix_way {
    IX_CHOSEN = 0,   // by the sizes
    IX_ATOMIC,       // an atomic for each vector of a row
    IX_GROUPED,      // a block groups its rows by index and adds each group once
    IX_ADAPTIVE,     // each block takes one of the two, by how often its indices repeat
    IX_SORTED,       // rows sorted by index, sums of runs
    IX_FIXED,        // deterministic: fixed point, atomics of integers
    IX_SORTED_FIXED, // deterministic: rows sorted by index, fixed point
    IX_EXACT,        // deterministic: fixed point of two words, see include/distwar/device/sums_by_key.cuh
    IX_WAYS
} ix_way;

typedef struct ix_rows {
    int64_t count;       // rows of source, entries of index
    int64_t width;       // values of a row
    int64_t rows;        // of out
    const void *index;   // [count], each 0..rows - 1
    int32_t index_bytes; // 4 or 8: integers with a sign
    ix_type type;        // of source and out
    const void *source;  // [count][width]
    void *out;           // [rows][width]
    // Rows of source with this index are left out, as those of padding. -1: none.
    int64_t skipped;
    // Not 0: the same bits in every run on one kind of GPU, and for every order of the rows of source.
    int32_t deterministic;
    ix_way way; // IX_CHOSEN but for comparisons
    // One word, device memory or pinned host memory, or NULL. A row of source whose index is out of range is
    // left out, and 1 is written to its first byte; IX_EXACT writes 1 to its second byte if a value was rounded.
    uint32_t *report;
    void *workspace; // device memory, aligned to 256 bytes, of the bytes that ix_add_bytes returns
    size_t workspace_bytes;
    // Not 0: out is float32, also where source has 16 bits: no sum is rounded to 16 bits on its way. Such sums
    // are not deterministic: fixed point is refused.
    int32_t float_sums;
} ix_rows;

// The bytes of the workspace of ix_add for these sizes; it may be 0.
ix_status ix_add_bytes(const ix_rows *rows, size_t *bytes);

// out[index[i]] += source[i] for all i, in any order.
// Result: float32 sums are rounded at each addition in memory; the rows of a block are summed in float32 first. 16-bit types
// likewise, with sums in float32 and 16 bits in memory. What fixed point holds, and where infinities and NaN go:
// include/distwar/device/sums_by_key.cuh, by the way of that name. float64 is exact where it is deterministic.
// On a GPU an atomic of float32 takes a subnormal number for 0: the values added, the sums in out and results. Deterministic
// sums keep them, but a subnormal number that stood in out may become 0 where a larger one is added.
// Undefined: arrays that overlap; an index or a source that changes meanwhile.
// Errors: IX_INVALID_ARGUMENT for counts out of range, arrays that are missing or not aligned to their type, a
// workspace that is too small, and more than 2^31 - 2 rows for the ways that sort. An index out of range is no
// error of the call, see `report`.
// Cost: one launch, index and source are read once. IX_SORTED 8 and IX_SORTED_FIXED 12 launches, 16 bytes of
// workspace a row of source. IX_FIXED 3 launches, source is read twice, 8 bytes of workspace a value of out.
// IX_EXACT and float64 16.
ix_status ix_add(const ix_rows *rows, ix_stream stream);

typedef struct ix_keys {
    int64_t count, bins; // keys; fewer than 2^31 bins
    const void *key;     // [count], each 0..bins - 1
    int32_t key_bytes;   // 4 or 8: integers with a sign
    uint64_t *counts;    // [bins]
    uint32_t *report;    // as in ix_rows
} ix_keys;

// counts[key[i]] += 1 for i < count.
// Undefined: arrays that overlap or change meanwhile; 2^32 keys or more of one bin.
// Errors: IX_INVALID_ARGUMENT for counts out of range and missing arrays.
// Cost: one launch, no workspace; key is read at most eight times.
ix_status ix_histogram(const ix_keys *keys, ix_stream stream);

#ifdef __cplusplus
}
#endif

#endif
