// SPDX-License-Identifier: MIT
// Few values, or few vectors, that stand for many.
#pragma once

#include "files/fault.h"
#include <stdint.h>

C_LINKAGE_BEGIN

enum { CODES = 256 };

// Chooses CODES values, ascending, for `count` finite values, so that the sum of squares of the distances to the
// nearest is small (Lloyd 1982). It sorts `values`. False: no memory.
bool codebook_of(float *values, int64_t count, float codebook[CODES]);
// The index of the nearest.
uint8_t code_of(const float codebook[CODES], float value);

// Divides `count` vectors of `width` floats into at most `most` groups: the group with the largest sum of squares about
// its mean is divided along its widest direction, again and again. labels: [count]; means: room for [most][width].
// Returns the number of groups; 0 if count is 0; -1: no memory. Cost: O(count width log(most)).
int64_t palette_of(const float *vectors, int64_t count, int width, int64_t most, int32_t *labels,
                   float *means);

C_LINKAGE_END
