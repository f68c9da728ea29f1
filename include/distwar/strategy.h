/* SPDX-License-Identifier: MIT */
/* The list of strategies: how the lanes of a warp add their values to memory. Plain C, for hosts and kernels.
 * A program that lets its user choose a strategy takes names and properties from here. To add a strategy, add
 * a line to the list, then its branch in reduce<> (reduce.cuh) or in the kernels that offer it. */
#ifndef DISTWAR_STRATEGY_H
#define DISTWAR_STRATEGY_H

#ifndef __CUDACC_RTC__
#include <string.h>
#endif

/* X(name, NAME, has_threshold): has_threshold is 1 if a balance_threshold changes what the strategy does.
 *
 * atomic  one atomic a value and lane; the baseline                              reduce_atomic
 * vector  the same by vector atomics of up to 4 values, where the GPU has them   aligned_record
 * serial  the first lane of each group reads the others one by one               reduce_serial
 * bfly    a butterfly of shuffles a value, for one key and a full warp           reduce_bfly
 * tree    one tree of shuffles for all values                                    reduce_tree
 * block   a tree over a thread block in shared memory                            block_sum
 * fixed   a tree, then 64-bit integers: the same bits in every run               reduce_fixed
 * cub     cub::WarpReduce, for comparison
 */
#define DISTWAR_STRATEGIES(X)                                                                                \
    X(atomic, ATOMIC, 0)                                                                                     \
    X(vector, VECTOR, 0)                                                                                     \
    X(serial, SERIAL, 1)                                                                                     \
    X(bfly, BFLY, 1)                                                                                         \
    X(tree, TREE, 1)                                                                                         \
    X(block, BLOCK, 0)                                                                                       \
    X(fixed, FIXED, 1)                                                                                       \
    X(cub, CUB, 0)

/* DISTWAR_ATOMIC, DISTWAR_VECTOR, ... in the order of the list. */
typedef enum distwar_strategy {
#define DISTWAR_ENUMERATOR(name, NAME, has_threshold) DISTWAR_##NAME,
    DISTWAR_STRATEGIES(DISTWAR_ENUMERATOR)
#undef DISTWAR_ENUMERATOR
        DISTWAR_STRATEGY_COUNT
} distwar_strategy;

/* A strategy and its threshold: groups of at least balance_threshold (0..33) active lanes are summed in the
 * warp, smaller ones send plain atomics. See reduce.cuh. */
typedef struct distwar_policy {
    distwar_strategy strategy;
    int balance_threshold;
} distwar_policy;

#ifndef __CUDACC_RTC__
/* "atomic", "vector", ...; NULL if out of range. */
static inline const char *distwar_strategy_name(distwar_strategy strategy) {
    switch ((int)strategy) {
#define DISTWAR_NAME_OF(name, NAME, has_threshold)                                                           \
    case DISTWAR_##NAME:                                                                                     \
        return #name;
        DISTWAR_STRATEGIES(DISTWAR_NAME_OF)
#undef DISTWAR_NAME_OF
    default:
        return NULL;
    }
}

/* The strategy of that name; -1 if there is none. */
static inline int distwar_strategy_from_name(const char *name) {
#define DISTWAR_COMPARE(candidate, NAME, has_threshold)                                                      \
    if (strcmp(name, #candidate) == 0) return DISTWAR_##NAME;
    DISTWAR_STRATEGIES(DISTWAR_COMPARE)
#undef DISTWAR_COMPARE
    return -1;
}

/* 1 if a balance_threshold changes what the strategy does, else 0. */
static inline int distwar_strategy_has_threshold(distwar_strategy strategy) {
    switch ((int)strategy) {
#define DISTWAR_THRESHOLD_OF(name, NAME, has_threshold)                                                      \
    case DISTWAR_##NAME:                                                                                     \
        return has_threshold;
        DISTWAR_STRATEGIES(DISTWAR_THRESHOLD_OF)
#undef DISTWAR_THRESHOLD_OF
    default:
        return 0;
    }
}
#endif

#endif
