// SPDX-License-Identifier: MIT
// Macros of the including program with names that the library uses. The headers must compile, and the macros
// must be the same after them.
#define A 1
#define B 2
#define K 3
#define N 4
#define S 5
#define T 6
#define V 7
#define X 8
#define add(a, b) ((a) + (b))
#define clear() 0
#define largest(a, b) max(a, b)
#define load(a) a
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define record 9
#define select(a, b, c) ((a) ? (b) : (c))
#define value 10
#include "every_header.h"
#if A + B + K + N + S + T + V + X + add(1, 2) + clear() + load(3) + record + value + min(1, 2) +             \
        max(1, 2) !=                                                                                         \
    64
#error "a header of distwar changed a macro"
#endif
#undef add
#undef record
__global__ void use(int key, float *to) {
    const float val[K] = {1, 2, 3};
    distwar::reduce_tree(distwar::all_lanes, true, key, val, distwar::record<float>{to, K});
    distwar::atomic_update(to, val[0], distwar::add{});
}
