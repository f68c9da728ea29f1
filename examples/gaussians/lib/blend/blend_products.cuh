// SPDX-License-Identifier: MIT
// The sums of the backward blend over a warp's patch as products of matrices, on the matrix units.
//
// With the weight w and h of docs/math.md, section 3, at the 128 pixels of a patch, every moment of a splat is a
// sum of w times the gradient of a channel, or of h times 1, x, y, x^2, x y or y^2, x and y in the patch. The
// factors are the same for all splats. So the sums of 8 splats are products of a matrix of factors, rows by pixels,
// and matrices of w and h, pixels by splats. A warp writes w and h of a splat into its slot; when all slots are full
// it multiplies, and lane n commits the moments of slot n.
//
// A float is the sum of two bfloat16 within 2^-17 of its value; x, y and their products are exact in one. A slot
// holds both halves of w and h, beside each other; both are multiplied with both halves of a gradient.
#pragma once

#include "blend.cuh"
#include "moments.cuh"
#include <string.h>

namespace gs {

namespace products {

constexpr int slots = GS_BLEND_SLOTS, pixels = 4; // pixels: of a thread
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

// Factors of the gradients (color) and of the moments (shape) at the pixels of a patch. A row of color is the upper or
// the lower half of a channel's gradient; a row of shape is 1, x, y, x^2, x y or y^2. A quad is the A operand of a lane
// for the pixels 2 i and 2 i + 1 of two lanes of the image: {color, shape} of the first, {color, shape} of the second.
struct alignas(16) factor_quad {
    unsigned at[4];
};
struct factor_table {
    factor_quad of[16][most_rows][2]; // two lanes of the image, row, i
};

// The values of a slot, and once they are multiplied its sums: rows of color, then rows of shape.
// Eight slots: w of lane l is value[l], h value[32 + l]. Four slots: row s is w of slot s, row 4 + s its h.
struct alignas(16) value_row {
    union {
        halves value[(slots == 8 ? 2 : 1) * 32 + 1]; // the last is empty: rows begin in different banks
        float sum[color_rows + shape_rows];
    };
};
struct warp_memory {
    value_row row[8];
    factor_table factors;
};

template <bool Used, int Warps>
struct memory {
    warp_memory warp[Warps];
};
template <int Warps>
struct memory<false, Warps> {};

// By all lanes of a warp. The gradients are 0 outside the image.
__device__ inline void fill_factors(factor_table &table, const color3 (&gradient)[pixels]) {
    const int lane = int(threadIdx.x % 32);
    const float x = float(lane % patch_width);
    const auto set = [&](int row, int kind, const unsigned (&pair)[2]) {
        for (int i = 0; i < 2; i++) table.of[lane / 2][row][i].at[lane % 2 * 2 + kind] = pair[i];
    };
    DISTWAR_UNROLL
    for (int c = 0; c < GS_CHANNELS; c++) {
        const float value[pixels] = {gradient[0].at[c], gradient[1].at[c], gradient[2].at[c], gradient[3].at[c]};
        const halves both = halves_of(value);
        set(c, 0, both.upper);
        set(GS_CHANNELS + c, 0, both.lower);
    }
    DISTWAR_UNROLL
    for (int row = 0; row < shape_rows; row++) {
        float value[pixels];
        DISTWAR_UNROLL
        for (int p = 0; p < pixels; p++) {
            const float y = float(lane / patch_width + row_step * p);
            value[p] = row == 0 ? 1 : row == 1 ? x : row == 2 ? y : row == 3 ? x * x : row == 4 ? x * y : y * y;
        }
        set(row, 1, halves_of(value).upper);
    }
    __syncwarp();
}

// Writes w and h of the caller's pixels into a slot. to: its value[lane].
__device__ __forceinline__ void put(halves *to, const float (&weight)[pixels], const float (&h)[pixels]) {
    to[0] = halves_of(weight);
    to[slots == 8 ? 32 : 4 * int(sizeof(value_row) / sizeof(halves))] = halves_of(h);
}
// From a slot to the next one.
constexpr int to_next_slot = sizeof(value_row) / sizeof(halves);

// D of mma.m16n8k16: in lane 4 g + t rows g and g + 8 of columns 2 t and 2 t + 1.
struct product {
    float low[2], high[2];
};

#if defined(__SIMT__)
// The same sums, from the same places.
__device__ inline product multiplied(const warp_memory &mine, int first) {
    const int lane = int(threadIdx.x % 32), row = min(lane / 4, most_rows - 1);
    product out = {};
    for (int n = 0; n < 2; n++)
        for (int l = 0; l < 32; l++) {
            const halves &value = mine.row[lane % 4 * 2 + n].value[first + l];
            for (int i = 0; i < 2; i++) {
                const float a = first_of(value.upper[i]) + first_of(value.lower[i]);
                const float b = second_of(value.upper[i]) + second_of(value.lower[i]);
                const unsigned *factor = mine.factors.of[l / 2][row][i].at + l % 2 * 2;
                out.low[n] += first_of(factor[0]) * a + second_of(factor[0]) * b;
                out.high[n] += first_of(factor[1]) * a + second_of(factor[1]) * b;
            }
        }
    return out;
}
#else
// The factors times value[first] .. value[first + 31] of all rows.
// Lane 8 j + n gives ldmatrix the address of row n for matrix j. In the result lane 4 g + t has elements 2 t and
// 2 t + 1 of row g: of upper for t < 2, of lower for the others, whose factors are the same.
__device__ __forceinline__ product multiplied(const warp_memory &mine, int first) {
    const int lane = int(threadIdx.x % 32), row = min(lane / 4, most_rows - 1);
    const unsigned from = unsigned(__cvta_generic_to_shared(&mine.row[lane % 8].value[first + lane / 8]));
    const uint4 *const factor = reinterpret_cast<const uint4 *>(&mine.factors.of[0][row][lane % 2]);
    constexpr int step = int(sizeof mine.factors.of[0] / sizeof(uint4));
    float even[4] = {}, odd[4] = {};
    const auto add = [](float(&to)[4], const uint4 &a, unsigned b0, unsigned b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
    };
    DISTWAR_UNROLL
    for (int c = 0; c < 8; c++) {
        unsigned b[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(from + c * unsigned(4 * sizeof(halves)))
                     : "memory");
        add(even, factor[2 * c * step], b[0], b[1]);
        add(odd, factor[(2 * c + 1) * step], b[2], b[3]);
    }
    return {{even[0] + odd[0], even[1] + odd[1]}, {even[2] + odd[2], even[3] + odd[3]}};
}
#endif

// The moments of a splat from the sums of its slot. origin: centre of the patch's first pixel.
__device__ __forceinline__ void moments_of(const float *sum, const gs_splat &splat, const rectangle &origin,
                                           float (&value)[GS_MOMENTS]) {
    for_channels([&](int c) { value[MOMENT_COLOR + c] = sum[c] + sum[GS_CHANNELS + c]; });
    const float *const of_h = sum + color_rows;
    const float h = of_h[0], x = of_h[1], y = of_h[2], xx = of_h[3], xy = of_h[4], yy = of_h[5];
    const float w0 = splat.whiten[0], w1 = splat.whiten[1], w2 = splat.whiten[2];
    const float dx = origin.left - splat.mean[0], dy = origin.top - splat.mean[1];
    // e = (e0 + w0 x + w1 y, e1 + w2 y)
    const float e0 = fmaf(w1, dy, w0 * dx), e1 = w2 * dy;
    const float h_e0 = fmaf(e0, h, fmaf(w0, x, w1 * y)), h_e1 = fmaf(e1, h, w2 * y);
    const float x_e0 = fmaf(e0, x, fmaf(w0, xx, w1 * xy)), y_e0 = fmaf(e0, y, fmaf(w0, xy, w1 * yy));
    value[MOMENT_H] = h;
    value[MOMENT_H_E0] = h_e0;
    value[MOMENT_H_E1] = h_e1;
    value[MOMENT_H_E0E0] = fmaf(e0, h_e0, fmaf(w0, x_e0, w1 * y_e0));
    value[MOMENT_H_E0E1] = fmaf(e1, h_e0, w2 * y_e0);
    value[MOMENT_H_E1E1] = fmaf(e1, h_e1, w2 * fmaf(e1, y, w2 * yy));
}

// Commits the first `used` slots; index: in lane n, of the splat in slot n. By all lanes of a warp.
template <typename Commit>
__device__ __forceinline__ void commit_slots(const Commit &commit, const gs_splat *splats, const rectangle &origin,
                                             uint32_t index, int used, warp_memory &mine) {
    const int lane = int(threadIdx.x % 32), row = lane / 4, column = lane % 4 * 2;
    __syncwarp();
    product of_w = multiplied(mine, 0), of_h;
    if (slots == 8) of_h = multiplied(mine, 32);
    __syncwarp();
    if (row < most_rows) {
        DISTWAR_UNROLL
        for (int n = 0; n < 2; n++) {
            if (slots == 8) {
                mine.row[column + n].sum[row] = of_w.low[n];
                mine.row[column + n].sum[color_rows + row] = of_h.high[n];
            } else {
                const bool is_h = column >= 4;
                mine.row[column % 4 + n].sum[is_h ? color_rows + row : row] = is_h ? of_w.high[n] : of_w.low[n];
            }
        }
    }
    __syncwarp();
    if (lane < used) {
        const gs_splat splat = splats[index];
        float value[GS_MOMENTS];
        moments_of(mine.row[lane].sum, splat, origin, value);
        commit.add_sums(index, value);
    }
    __syncwarp();
}

} // namespace products

} // namespace gs
