// SPDX-License-Identifier: MIT
// The depth of a view beside its map, as a term of the loss.
#include "trainer_parts.h"

bool has_depth(const target_view *view) {
    return view->depth || view->depth_on_host;
}

void queue_depth(trainer *t, const step_views *of, int32_t v) {
    const target_view *const view = of->view[v];
    const int64_t place = t->waiting + of->before + v;
    if (t->one.f.with_depth)
        frame_depth_loss(&t->one.f, view->depth, view->mask, (float)t->weights[place].depth,
                         t->results[place].depth, true);
}
