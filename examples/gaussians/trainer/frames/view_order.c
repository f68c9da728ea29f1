// SPDX-License-Identifier: MIT
#include "frames/view_order.h"
#include "random.h"
#include <stdlib.h>

bool view_order_open(view_order *order, size_t count, uint64_t seed, fault *why) {
    *order = (view_order){.count = count, .seed = seed, .round = -1};
    order->order = calloc(count, sizeof *order->order);
    return order->order || fail(why, "no memory for the order of %zu views", count);
}

// Fisher-Yates shuffle.
static void shuffle(view_order *order, int64_t round) {
    random_stream random = random_at(order->seed, RANDOM_VIEW_ORDER, (uint64_t)round, 0);
    for (size_t i = 0; i < order->count; i++) order->order[i] = i;
    for (size_t i = order->count - 1; i > 0; i--) {
        size_t j = random_below(&random, i + 1), kept = order->order[i];
        order->order[i] = order->order[j];
        order->order[j] = kept;
    }
    order->round = round;
}

size_t view_order_at(view_order *order, int64_t step) {
    const int64_t count = (int64_t)order->count, round = step / count;
    if (round != order->round) shuffle(order, round);
    return order->order[step % count];
}

void view_order_close(view_order *order) {
    free(order->order);
    *order = (view_order){0};
}
