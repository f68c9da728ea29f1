// SPDX-License-Identifier: MIT
#include "view_order.h"
#include <stdlib.h>

bool view_order_open(view_order *order, size_t count, uint64_t seed, fault *why) {
    *order = (view_order){.count = count, .used = count, .random = {seed}};
    order->order = calloc(count, sizeof *order->order);
    if (!order->order) return fail(why, "no memory for the order of %zu views", count);
    for (size_t i = 0; i < count; i++) order->order[i] = i;
    return true;
}

size_t view_order_next(view_order *order) {
    if (order->used == order->count) { // Fisher and Yates
        for (size_t i = order->count - 1; i > 0; i--) {
            size_t j = random_below(&order->random, i + 1), kept = order->order[i];
            order->order[i] = order->order[j];
            order->order[j] = kept;
        }
        order->used = 0;
    }
    return order->order[order->used++];
}

void view_order_close(view_order *order) {
    free(order->order);
    *order = (view_order){0};
}
