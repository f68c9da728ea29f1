// SPDX-License-Identifier: MIT
// The views of a dataset with their pictures on the device, split into those to train on and those held out.
#ifndef SPLAT_VIEW_SPLIT_H
#define SPLAT_VIEW_SPLIT_H

#include "dataset.h"
#include "view/target_view.h"

C_LINKAGE_BEGIN

typedef struct view_split {
    target_view *views; // [training + held_out], those to train on first
    size_t training, held_out;
} view_split; // starts as {0}

// Uploads the pictures of all views, and their alpha if with_alpha. The dataset must outlive the split.
// Fails, naming `source`, if no view is left to train on. Closed also after a failure.
bool view_split_open(view_split *split, const dataset *data, const char *source, bool with_alpha, fault *why);
void view_split_close(view_split *split);

C_LINKAGE_END
#endif
