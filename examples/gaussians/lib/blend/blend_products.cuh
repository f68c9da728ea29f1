// SPDX-License-Identifier: MIT
// The sums of the backward blend over a warp's patch as products of matrices, on the matrix units.
//
// With the weight w and h of docs/math.md, section 3, at the 128 pixels of a patch, every moment of a splat is a
// sum of w times the gradient of a channel, or of h times 1, x, y, x^2, x y or y^2, x and y in the patch. The
// factors are the same for all splats. So the sums of 8 splats are two products of a matrix of factors, rows by
// pixels, and one of w or h, pixels by splats. A warp writes w and h of a splat into its slot; when 8 slots are
// full it multiplies, and lane n commits the moments of slot n.
//
// A float is the sum of two bfloat16 within 2^-17 of its value; x, y and their products are exact in one. A slot
// holds both halves of w and h, beside each other; both are multiplied with both halves of a gradient.
#pragma once

#include "blend.cuh"
#include "moments.cuh"
#include <string.h>

namespace gs {

namespace products {

constexpr int slots = 8, pixels = 4; // pixels: of a thread
constexpr int color_rows = 2 * GS_CHANNELS, shape_rows = 6, most_rows = 6;
static_assert(color_rows <= most_rows && shape_rows <= most_rows, "a table has room for both kinds");

// Two values as bfloat16, `first` in the low half, to nearest.
__device__ __forceinline__ unsigned packed(float first, float second) {
#if defined(__SIMT__)
    const auto rounded = [](float value) {
        unsigned bits;
        memcpy(&bits, &value, sizeof bits);
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    };
    return rounded(first) | rounded(second) << 16;
#else
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
#endif
}
__device__ __forceinline__ float first_of(unsigned pair) {
    return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float second_of(unsigned pair) {
    return __uint_as_float(pair & 0xffff0000u);
}

// A thread's four values: the upper halves of all, then the lower ones.
struct alignas(16) halves {
    unsigned upper[2], lower[2];
};
__device__ __forceinline__ halves halves_of(const float (&value)[pixels]) {
    halves out;
    DISTWAR_UNROLL
    for (int i = 0; i < 2; i++) {
        const float a = value[2 * i], b = value[2 * i + 1];
        out.upper[i] = packed(a, b);
        out.lower[i] = packed(a - first_of(out.upper[i]), b - second_of(out.upper[i]));
    }
    return out;
}

// Factors: of row r at the pixels 2 i and 2 i + 1 of lane 4 c + k: at[c][r][i][k].
struct alignas(16) factors {
    unsigned at[8][most_rows][2][4];
};

// What lane 0 says of a slot: e at its first pixel, whiten, the splat.
struct alignas(16) slot_of_splat {
    float e0, e1, whiten[3];
    uint32_t index;
    float unused[2];
};

struct alignas(16) warp_memory {
    halves value[slots][2 * 32 + 1]; // of lane l: w at l, h at 32 + l. The last is empty: rows in different banks
    factors color;                   // rows: upper halves of the gradients, then the lower ones
    slot_of_splat slot[slots];
};
// The sums of a slot: those of color_rows, then those of shape_rows. They lie where its values were.
struct alignas(16) slot_sums {
    float at[color_rows + shape_rows];
};

template <bool Used, int Warps>
struct memory {
    warp_memory warp[Warps];
    factors shape;
};
template <int Warps>
struct memory<false, Warps> {};

// By the threads of a block, followed by __syncthreads.
__device__ inline void fill_shape(factors &shape) {
    for (int i = int(threadIdx.x); i < 32 * shape_rows * 2; i += int(blockDim.x)) {
        const int lane = i % 32, row = i / 32 % shape_rows, pair = i / (32 * shape_rows);
        const float x = float(lane % patch_width);
        float value[2];
        for (int k = 0; k < 2; k++) {
            const float y = float(lane / patch_width + row_step * (2 * pair + k));
            value[k] = row == 0 ? 1 : row == 1 ? x : row == 2 ? y : row == 3 ? x * x : row == 4 ? x * y : y * y;
        }
        shape.at[lane / 4][row][pair][lane % 4] = packed(value[0], value[1]);
    }
}
// By all lanes of a warp, followed by __syncwarp.
__device__ __forceinline__ void fill_color(factors &color, const color3 (&gradient)[pixels]) {
    const int lane = int(threadIdx.x % 32);
    DISTWAR_UNROLL
    for (int c = 0; c < GS_CHANNELS; c++) {
        const float value[pixels] = {gradient[0].at[c], gradient[1].at[c], gradient[2].at[c], gradient[3].at[c]};
        const halves both = halves_of(value);
        DISTWAR_UNROLL
        for (int pair = 0; pair < 2; pair++) {
            color.at[lane / 4][c][pair][lane % 4] = both.upper[pair];
            color.at[lane / 4][GS_CHANNELS + c][pair][lane % 4] = both.lower[pair];
        }
    }
}

// sum += of the table's rows times the values of the slots over the lanes of one kind (0: w, 1: h).
// Lane 4 g + t gets row g (undefined from most_rows on) of slots 2 t and 2 t + 1.
__device__ __forceinline__ void multiply(const factors &table, const warp_memory &mine, int kind, float (&sum)[2]) {
    const int lane = int(threadIdx.x % 32), row = min(lane / 4, most_rows - 1);
#if defined(__SIMT__)
    for (int n = 0; n < 2; n++) {
        sum[n] = 0;
        for (int l = 0; l < 32; l++) {
            const halves &value = mine.value[lane % 4 * 2 + n][32 * kind + l];
            for (int pair = 0; pair < 2; pair++) {
                const unsigned factor = table.at[l / 4][row][pair][l % 4];
                sum[n] += first_of(factor) * (first_of(value.upper[pair]) + first_of(value.lower[pair]));
                sum[n] += second_of(factor) * (second_of(value.upper[pair]) + second_of(value.lower[pair]));
            }
        }
    }
#else
    // Lane 8 j + n gives the address of slot n, lane 4 c + j, for matrix j. In the result lane 4 g + t has elements
    // 2 t and 2 t + 1 of slot g: the upper half of pair t, or the lower one of pair t - 2.
    unsigned from = unsigned(__cvta_generic_to_shared(&mine.value[lane % 8][32 * kind + lane / 8]));
    const uint4 *factor = reinterpret_cast<const uint4 *>(table.at[0][row][lane % 2]);
    float even[4] = {}, odd[4] = {};
    const auto add = [](float(&to)[4], unsigned a0, unsigned a2, unsigned b0, unsigned b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
            : "r"(a0), "r"(0), "r"(a2), "r"(0), "r"(b0), "r"(b1));
    };
    DISTWAR_UNROLL
    for (int c = 0; c < 8; c++) {
        unsigned b[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(from + c * unsigned(4 * sizeof(halves)))
                     : "memory");
        const uint4 a = factor[c * int(sizeof table.at[0] / sizeof(uint4))];
        add(even, a.x, a.y, b[0], b[1]);
        add(odd, a.z, a.w, b[2], b[3]);
    }
    for (int n = 0; n < 2; n++) sum[n] = even[n] + odd[n];
#endif
}

// The moments of a slot, h about the splat's mean.
__device__ __forceinline__ void moments_of(const slot_sums &sums, const slot_of_splat &slot,
                                           float (&value)[GS_MOMENTS]) {
    for_channels([&](int c) { value[MOMENT_COLOR + c] = sums.at[c] + sums.at[GS_CHANNELS + c]; });
    const float *const of_h = sums.at + color_rows;
    const float h = of_h[0], x = of_h[1], y = of_h[2], xx = of_h[3], xy = of_h[4], yy = of_h[5];
    const float w0 = slot.whiten[0], w1 = slot.whiten[1], w2 = slot.whiten[2], e0 = slot.e0, e1 = slot.e1;
    // e = (e0 + w0 x + w1 y, e1 + w2 y)
    const float h_e0 = fmaf(e0, h, fmaf(w0, x, w1 * y)), h_e1 = fmaf(e1, h, w2 * y);
    const float x_e0 = fmaf(e0, x, fmaf(w0, xx, w1 * xy)), y_e0 = fmaf(e0, y, fmaf(w0, xy, w1 * yy));
    value[MOMENT_H] = h;
    value[MOMENT_H_E0] = h_e0;
    value[MOMENT_H_E1] = h_e1;
    value[MOMENT_H_E0E0] = fmaf(e0, h_e0, fmaf(w0, x_e0, w1 * y_e0));
    value[MOMENT_H_E0E1] = fmaf(e1, h_e0, w2 * y_e0);
    value[MOMENT_H_E1E1] = fmaf(e1, h_e1, w2 * fmaf(e1, y, w2 * yy));
}

// Commits the first `used` slots. By all lanes of a warp.
template <typename Commit>
__device__ __forceinline__ void commit_slots(const Commit &commit, const factors &shape, warp_memory &mine,
                                             int used) {
    const int lane = int(threadIdx.x % 32), row = lane / 4;
    __syncwarp();
    float color[2], of_h[2];
    multiply(mine.color, mine, 0, color);
    multiply(shape, mine, 1, of_h);
    __syncwarp();
    if (row < most_rows) {
        DISTWAR_UNROLL
        for (int n = 0; n < 2; n++) {
            slot_sums &sums = *reinterpret_cast<slot_sums *>(mine.value[lane % 4 * 2 + n]);
            sums.at[row] = color[n];
            sums.at[color_rows + row] = of_h[n];
        }
    }
    __syncwarp();
    if (lane < used) {
        const slot_of_splat slot = mine.slot[lane];
        const slot_sums sums = *reinterpret_cast<const slot_sums *>(mine.value[lane]);
        float value[GS_MOMENTS];
        moments_of(sums, slot, value);
        commit.add_sums(slot.index, value);
    }
    __syncwarp();
}

} // namespace products

} // namespace gs
