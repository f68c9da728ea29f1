// SPDX-License-Identifier: MIT
// A step of Adam by the gradients of a warp's Gaussians, which it has in registers and in shared memory.
#pragma once

#include "arrays.h"
#include "warp_rows.cuh"
#include <gpu/adam.cuh>

namespace gs {

// As adam_array; whole rows.
struct stepped_array {
    float *value, *first_moment, *second_moment;
    float rate;
};

struct stepped_gaussians {
    stepped_array mean, log_scale, quaternion, opacity_logit, sh; // sh.rate: of the constant term
    float sh_rest;
    int used; // floats of a row of sh that are stepped; the others have gradients and moments of 0
    adam_correction correction;
};

// `width` values from i on, aligned to 4 bytes. All are read before the first is written, as the compiler cannot know
// that arrays do not overlap and would wait for one after the other.
template <int width>
struct stepped_values {
    float value[width], first_moment[width], second_moment[width];

    __device__ void read(const stepped_array &from, int64_t i) {
        for (int k = 0; k < width; k++) {
            value[k] = from.value[i + k];
            first_moment[k] = from.first_moment[i + k], second_moment[k] = from.second_moment[i + k];
        }
    }
    __device__ void step_and_write(const float *gradient, adam_correction correction, int64_t i,
                                   const stepped_array &to) {
        for (int k = 0; k < width; k++) {
            value[k] -= adam_decrease(gradient[k], &first_moment[k], &second_moment[k], to.rate, correction);
            to.value[i + k] = value[k];
            to.first_moment[i + k] = first_moment[k], to.second_moment[i + k] = second_moment[k];
        }
    }
};

// Steps the sh of the first `count` of a warp's Gaussians from `first` on, a multiple of 32. d_rows: their gradients.
// By all lanes of a warp, after __syncwarp.
template <int length>
__device__ __forceinline__ void step_sh(warp_rows<length> *d_rows, int count, int64_t first,
                                        const stepped_gaussians &to) {
    constexpr int turns = (32 * length + 127) / 128, together = 4; // a lane takes four floats a turn
    const int lane = int(distwar::lane_id()), values = count * length, whole = values / 4 * 4;
    const int64_t begin = first * length;
    const auto gradient_at = [&](int place) {
        return d_rows->value + place + place / length * (warp_rows<length>::stride - length);
    };
    const auto rate_at = [&](int place) { return place % length < GS_CHANNELS ? to.sh.rate : to.sh_rest; };
    const auto is_stepped = [&](int place) {
        bool used = false;
        for (int k = 0; k < 4; k++) used |= (place + k) % length < to.used;
        return used && place < whole;
    };
    for (int turn = 0; turn < turns; turn += together) {
        float4 x[together], m[together], v[together]; // read before the first is written, as above
        DISTWAR_UNROLL
        for (int t = 0; t < together; t++) {
            const int place = 4 * (32 * (turn + t) + lane);
            if (!is_stepped(place)) continue;
            x[t] = *reinterpret_cast<const float4 *>(to.sh.value + begin + place);
            m[t] = *reinterpret_cast<const float4 *>(to.sh.first_moment + begin + place);
            v[t] = *reinterpret_cast<const float4 *>(to.sh.second_moment + begin + place);
        }
        DISTWAR_UNROLL
        for (int t = 0; t < together; t++) {
            const int place = 4 * (32 * (turn + t) + lane);
            if (!is_stepped(place)) continue;
            const float4 g = *reinterpret_cast<const float4 *>(gradient_at(place));
            const float rate[4] = {rate_at(place), rate_at(place + 1), rate_at(place + 2),
                                   rate_at(place + 3)};
            adam_step_four(g, rate, to.correction, &x[t], &m[t], &v[t]);
            *reinterpret_cast<float4 *>(to.sh.value + begin + place) = x[t];
            *reinterpret_cast<float4 *>(to.sh.first_moment + begin + place) = m[t];
            *reinterpret_cast<float4 *>(to.sh.second_moment + begin + place) = v[t];
        }
    }
    const int place = whole + lane;
    const int64_t i = begin + place;
    if (place < values)
        to.sh.value[i] -= adam_decrease(*gradient_at(place), to.sh.first_moment + i, to.sh.second_moment + i,
                                        rate_at(place), to.correction);
}

} // namespace gs
