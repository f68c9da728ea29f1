// SPDX-License-Identifier: MIT
// Training views that are set aside, to be measured: training_settings.spared_from says from when on a scene is not
// trained on them.
#pragma once

#include "frames/target_view.h"

C_LINKAGE_BEGIN

// How many views are set aside: one in 16, or none of fewer than 64.
size_t spared_count(size_t views);
// Writes the views to out[count], those that are set aside last. They are evenly spread over all.
void spared_views_last(const target_view *views, size_t count, target_view *out);

C_LINKAGE_END
