// SPDX-License-Identifier: MIT
// Which view comes next: all of them in a random order, then all again in another.
#ifndef SPLAT_VIEW_ORDER_H
#define SPLAT_VIEW_ORDER_H

#include "fault.h"
#include "random.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct view_order {
    size_t count, used;
    size_t *order; // a permutation of 0..count-1
    random_stream random;
} view_order;

bool view_order_open(view_order *order, size_t count, uint64_t seed, fault *why); // count >= 1
size_t view_order_next(view_order *order);
void view_order_close(view_order *order);

#ifdef __cplusplus
}
#endif
#endif
