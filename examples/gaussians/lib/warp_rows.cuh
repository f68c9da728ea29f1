// SPDX-License-Identifier: MIT
// Coalesced access to rows of floats, one row per lane. Neighbouring lanes move neighbouring floats between
// global and shared memory; each lane then reads its row from shared memory. If each lane read its own row
// from global memory, every instruction would touch 32 sectors.
#pragma once

#include "device_code.h"
#include <distwar/warp.cuh>
#if !defined(__SIMT__)
#include <cuda_pipeline_primitives.h>
#endif

namespace gs {

// Starts copying `floats` (1, 2 or 4) floats from global to shared memory, aligned to their size. finish_rows waits.
template <int floats>
GS_DEVICE void copy_async(float *to, const float *from) {
#if !defined(__SIMT__)
    __pipeline_memcpy_async(to, from, 4 * floats);
#else
    for (int k = 0; k < floats; k++) to[k] = from[k];
#endif
}

// Four floats at an address aligned to 16 bytes.
GS_DEVICE float4 &four_at(float *place) {
    return *reinterpret_cast<float4 *>(place);
}
GS_DEVICE const float4 &four_at(const float *place) {
    return *reinterpret_cast<const float4 *>(place);
}

// Reads 4 floats of a row of `length`: as one float4 if rows are 16-byte aligned, else the first `wanted`.
template <int length>
__device__ void read_four(const float *from, int wanted, float out[4]) {
    if (length % 4 == 0) {
        const float4 four = four_at(from);
        out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
    } else {
        for (int e = 0; e < 4; e++)
            if (e < wanted) out[e] = from[e];
    }
}

template <int length>
__device__ void write_four(const float in[4], int wanted, float *to) {
    if (length % 4 == 0) {
        four_at(to) = make_float4(in[0], in[1], in[2], in[3]);
    } else {
        for (int e = 0; e < 4; e++)
            if (e < wanted) to[e] = in[e];
    }
}

// The rows of a warp in shared memory, `length` floats each. row(lane) is 16-byte aligned if length is a
// multiple of 4. Lanes that access the same place of their rows (then 16 bytes of it) have no bank conflicts.
template <int length>
struct alignas(16) warp_rows {
    static constexpr int stride = length % 32 == 16 ? length + 4 : length;
    float value[32 * stride];

    __device__ float *row(int lane) { return value + lane * stride; }
};

// A lane moves `floats` floats at one column of every rows_a_turn-th row.
// Example: length 48: 12 columns of 4 floats, so 2 rows a turn (lanes 24 to 31 idle) and 16 turns.
template <int length>
struct lane_of_rows {
    static constexpr int floats = length % 4 == 0 ? 4 : 1, places = length / floats;
    static constexpr int rows_a_turn = 32 / places, turns = (32 + rows_a_turn - 1) / rows_a_turn;
    int first_row, column;

    __device__ lane_of_rows() {
        const int lane = int(distwar::lane_id());
        first_row = lane / places;
        column = lane % places * floats;
    }
    // set: a bit for each row of the warp. Result: bit turn * rows_a_turn is set if this lane moves a row of the set in
    // that turn.
    __device__ unsigned share_of(unsigned set) const {
        return first_row < rows_a_turn ? set >> first_row : 0;
    }
};

// Starts reading the first `used` floats (rounded up to 4) of every row in `wanted`, a bit each. memory: the
// warp's first row, 16-byte aligned if length is a multiple of 4. The rows are undefined until finish_rows.
// By all lanes of a warp.
template <int length>
GS_DEVICE void begin_rows(const float *memory, unsigned wanted, int used, warp_rows<length> *rows) {
    using mine = lane_of_rows<length>;
    const mine lane;
    const unsigned share = lane.column < used ? lane.share_of(wanted) : 0;
    const float *const from = memory + lane.first_row * length + lane.column;
    float *const to = rows->row(lane.first_row) + lane.column;
    DISTWAR_UNROLL
    for (int turn = 0; turn < mine::turns; turn++) {
        const int row = turn * mine::rows_a_turn;
        if (!(share >> row & 1)) continue;
        copy_async<mine::floats>(to + row * warp_rows<length>::stride, from + row * length);
    }
}

// Calls body(row, column, place) for each float of 32 rows of `length` in memory, by place; a lane takes every 32nd.
template <int length, typename Body>
GS_DEVICE void for_each_float(const Body &body) {
    int row = int(distwar::lane_id()) / length, column = int(distwar::lane_id()) % length;
    for (int place = int(distwar::lane_id()); place < 32 * length; place += 32) {
        body(row, column, place);
        row += 32 / length, column += 32 % length;
        if (column >= length) row++, column -= length;
    }
}

// begin_rows of rows whose first `head` floats are in one array and the others in another.
template <int head, int length>
GS_DEVICE void begin_split_rows(const float *heads, const float *rest, unsigned wanted, int used,
                                warp_rows<length> *rows) {
    for_each_float<head>([&](int row, int column, int place) {
        if (wanted >> row & 1) copy_async<1>(rows->row(row) + column, heads + place);
    });
    for_each_float<length - head>([&](int row, int column, int place) {
        if (wanted >> row & 1 && head + column < used)
            copy_async<1>(rows->row(row) + head + column, rest + place);
    });
}

// store_rows to rows whose first `head` floats are in one array and the others in another.
template <int head, int length>
GS_DEVICE void store_split_rows(warp_rows<length> *rows, unsigned existing, float *heads, float *rest) {
    for_each_float<head>([&](int row, int column, int place) {
        if (existing >> row & 1) heads[place] = rows->row(row)[column];
    });
    for_each_float<length - head>([&](int row, int column, int place) {
        if (existing >> row & 1) rest[place] = rows->row(row)[head + column];
    });
}

// Waits until what begin_rows or copy_async reads has arrived, for all lanes. By all lanes of a warp.
GS_DEVICE void finish_rows() {
#if !defined(__SIMT__)
    __pipeline_commit();
    __pipeline_wait_prior(0);
#endif
    __syncwarp();
}

// Writes whole rows, those in `existing`. Call __syncwarp after the lanes have written their rows.
template <int length>
GS_DEVICE void store_rows(warp_rows<length> *rows, unsigned existing, float *memory) {
    using mine = lane_of_rows<length>;
    const mine lane;
    const unsigned share = lane.share_of(existing);
    const float *const from = rows->row(lane.first_row) + lane.column;
    float *const to = memory + lane.first_row * length + lane.column;
    DISTWAR_UNROLL
    for (int turn = 0; turn < mine::turns; turn++) {
        const int row = turn * mine::rows_a_turn;
        if (!(share >> row & 1)) continue;
        if constexpr (mine::floats == 4)
            four_at(to + row * length) = four_at(from + row * warp_rows<length>::stride);
        else
            to[row * length] = from[row * warp_rows<length>::stride];
    }
}

} // namespace gs
