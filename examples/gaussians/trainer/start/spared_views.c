// SPDX-License-Identifier: MIT
#include "start/spared_views.h"

enum { SPARED_EACH = 16, LEAST_VIEWS = 64 };

size_t spared_count(size_t views) {
    return views < LEAST_VIEWS ? 0 : (views + SPARED_EACH / 2) / SPARED_EACH;
}

void spared_views_last(const target_view *views, size_t count, target_view *out) {
    const size_t all = spared_count(count);
    size_t used = 0, spared = 0;
    for (size_t i = 0; i < count; i++) {
        const bool next = spared < all && i == (2 * spared + 1) * count / (2 * all);
        out[next ? count - all + spared++ : used++] = views[i];
    }
}
