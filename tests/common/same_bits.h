// SPDX-License-Identifier: MIT
// That REDUCE_FIXED gives the same bits in every run: on a GPU as blocks and warps happen to come, under simt
// as seeds draw it.
#ifndef TESTS_SAME_BITS_H
#define TESTS_SAME_BITS_H

#include "reduction.h"
#include <gtest/gtest.h>
#include <vector>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

// sums(which, threshold): what the adjoint leaves, a std::vector<float>. Also shows that it is the fixed sums
// that do it, where the schedule can be set: plain atomics differ.
template <typename Sums>
void expect_fixed_has_the_same_bits(const Sums &sums) {
    const std::vector<float> first = sums(REDUCE_FIXED, 0);
    for (unsigned run = 1; run <= 6; run++) {
#ifdef DISTWAR_SIMT
        simt_set_seed(run);
#endif
        EXPECT_EQ(sums(REDUCE_FIXED, run % 2 ? 0 : int(5 * run)), first) << run;
    }
#ifdef DISTWAR_SIMT
    std::vector<std::vector<float>> others;
    for (unsigned run = 1; run <= 4; run++) {
        simt_set_seed(run);
        others.push_back(sums(REDUCE_ATOMIC, 0));
    }
    simt_set_seed(0);
    EXPECT_FALSE(others[0] == others[1] && others[1] == others[2] && others[2] == others[3]);
#endif
}

#endif
