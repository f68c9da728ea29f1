// SPDX-License-Identifier: MIT
// Training views that are set aside, to be measured until training_settings.set_aside_until, and groups of neighbours.
#pragma once

#include "frames/target_view.h"

C_LINKAGE_BEGIN

typedef struct spared_views {
    size_t count;
    size_t *aside;  // [count], rising
    size_t *beside; // [count]: for each the nearest view that is trained on; all differ
} spared_views;     // starts as {0}

// Chooses `wanted` of the views, sets their `set_aside`, and finds as many others to compare them with. The rule is a
// cover of the cameras' positions, in units of their spread, and directions: centres, each the view that is farthest
// from those before; from the views nearest to each centre the one nearest to their mean. So a choice is spread over
// the scene and not made of its outermost views. Deterministic; reads only cameras. Fails if more than half of the
// views are wanted. Cost: count * wanted distances.
bool spared_views_choose(target_view *views, size_t count, size_t wanted, spared_views *out, fault *why);
void spared_views_close(spared_views *views); // harmless on {0}

// Where a view is in the order of neighbours_choose.
typedef struct neighbours {
    int64_t first, count; // the views of its group are order[first..first + count - 1]
    int64_t place;        // its own is order[first + place]
} neighbours;

// Divides the views by the positions and directions of their cameras, in the units above, into pairs and threes that are
// near each other: halves, again and again, across the axis of the largest spread. in_order: as they are given, instead,
// as in a video. Views that are set aside are alone, the last of the order. order, of: [count]. Deterministic; reads only
// cameras. Fails if there is no memory.
bool neighbours_choose(const target_view *views, size_t count, bool in_order, int32_t *order, neighbours *of,
                       fault *why);

C_LINKAGE_END
