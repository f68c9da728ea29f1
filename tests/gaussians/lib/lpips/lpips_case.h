// SPDX-License-Identifier: MIT
// Weights and pictures for tests of LPIPS, invented: functions of a place in an array, which lpips_activations.py
// repeats.
#ifndef TESTS_LPIPS_CASE_H
#define TESTS_LPIPS_CASE_H

#include "distwar_gs_lpips.h"
#include <cmath>
#include <vector>

// 24 bits.
inline uint32_t lpips_hash(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return (x ^ (x >> 16)) >> 8;
}

// As gs_lpips takes them: weights of convolutions are uniform in -s..s, s a power of 2 near sqrt(6 / window), biases in
// -1/8..1/8, weights of channels in 0..1.
inline std::vector<float> invented_weights(gs_lpips_network network) {
    const gs_lpips_architecture *const of = gs_lpips_architecture_of(network);
    std::vector<float> out;
    out.reserve(gs_lpips_weight_count(network));
    const auto append = [&](int count, double least, double scale) {
        for (int i = 0; i < count; i++)
            out.push_back(float((double(lpips_hash(uint32_t(out.size()))) * 0x1p-23 + least) * scale));
    };
    for (int i = 0; i < of->convolutions; i++) {
        const gs_lpips_convolution &c = of->convolution[i];
        const int window = c.inputs * c.size * c.size;
        append(c.outputs * window, -1, std::exp2(std::floor(std::log2(std::sqrt(6.0 / window)))));
        append(c.outputs, -1, 0.125);
    }
    for (int i = 0; i < of->convolutions; i++)
        if (of->convolution[i].level > 0) append(of->convolution[i].outputs, 0, 0.5);
    return out;
}

// [2][height][width][3]: waves with noise.
inline std::vector<uint8_t> invented_pictures(int width, int height) {
    std::vector<uint8_t> out;
    for (int k = 0; k < 2; k++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int c = 0; c < 3; c++) {
                    const int wave = k == 0 ? 5 * x + 3 * y + 40 * c : 5 * x + 2 * y + 50 * c;
                    out.push_back(
                        uint8_t(wave % 192 + int(lpips_hash(0x80000000u + uint32_t(out.size())) >> 18)));
                }
    return out;
}

#endif
