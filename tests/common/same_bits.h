// SPDX-License-Identifier: MIT
// DISTWAR_FIXED gives the same bits in every run. The order of blocks and warps varies by itself on a GPU,
// and by the seed under simt.
#ifndef TESTS_SAME_BITS_H
#define TESTS_SAME_BITS_H

#include <distwar/strategy.h>
#include <gtest/gtest.h>
#include <vector>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

// sums(policy): what the adjoint leaves, a std::vector<float>. Under simt this also shows that plain atomics
// do differ.
template <typename Sums>
void expect_fixed_has_the_same_bits(const Sums &sums) {
    const std::vector<float> first = sums(distwar_policy{DISTWAR_FIXED, 0});
    for (unsigned run = 1; run <= 6; run++) {
#ifdef DISTWAR_SIMT
        simt_set_seed(run);
#endif
        EXPECT_EQ(sums(distwar_policy{DISTWAR_FIXED, run % 2 ? 0 : int(5 * run)}), first) << run;
    }
#ifdef DISTWAR_SIMT
    std::vector<std::vector<float>> others;
    for (unsigned run = 1; run <= 4; run++) {
        simt_set_seed(run);
        others.push_back(sums(distwar_policy{DISTWAR_ATOMIC, 0}));
    }
    simt_set_seed(0);
    EXPECT_FALSE(others[0] == others[1] && others[1] == others[2] && others[2] == others[3]);
#endif
}

#endif
