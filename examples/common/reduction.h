// SPDX-License-Identifier: MIT
// How a kernel adds a warp's values to memory, as a choice on the command line: the strategies of
// distwar/policy.cuh and distwar/fixed.cuh. commit.cuh makes kernels of it.
#ifndef COMMON_REDUCTION_H
#define COMMON_REDUCTION_H

#include "thresholds.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum reduction {
    REDUCE_ATOMIC, // one atomic a value, nothing summed: the baseline
    REDUCE_VECTOR, // the same by vector atomics, four values each, where the GPU has them; so do the next
                   // three
    REDUCE_SERIAL,
    REDUCE_BFLY, // where lanes hold several keys, or not all are active: as REDUCE_VECTOR
    REDUCE_TREE,
    REDUCE_FIXED, // integers: the same sums to the last bit in every run
#ifndef DISTWAR_SIMT
    REDUCE_CUB, // cub::WarpReduce, for comparison
#endif
    REDUCTIONS // stands for all of them, or for the tuner
} reduction;

enum { DEFAULT_THRESHOLD = 0 };

#define REDUCE_HELP "how the adjoint adds gradients"
#define THRESHOLD_HELP                                                                                       \
    "sum a group of this many active lanes or more in the warp, else plain atomics; 33: never"

const char *reduction_name(reduction which); // NULL if out of range
// Whether a threshold changes what it does.
bool reduction_has_threshold(reduction which);
// For OPTION_CHOICE, NULL-ended: the names in their order and "all", or "auto", which is REDUCTIONS.
const char *const *reduction_names_and_all(void);
const char *const *reduction_names_and_auto(void);

#ifdef __cplusplus
}
#endif
#endif
