// SPDX-License-Identifier: MIT
// The terms that are added to the loss of colours. A new one takes a row here and a file like loss_depth.c; settings,
// options, checkpoints and logs follow.
#pragma once

// name: of its weight and results, and of the options --NAME-weight and --NAME-weight-end. results: doubles that a view
// leaves on the device, the term first. first, last: its weight at the first step and at the last. The functions are
// those of trainer_parts.h: whether a view has it, and how it is queued.
#define LOSS_TERMS(X) X(depth, 1, 1, 0.01, has_depth, queue_depth) /* gs_depth_loss; Kerbl et al. 2024 */

typedef struct loss_weight {
    double first, last; // at the first step and at the last; exponential between. 0 at first: none
} loss_weight;

typedef struct loss_weights {
#define LOSS_WEIGHT(name, results, first, last, has, queue) loss_weight name;
    LOSS_TERMS(LOSS_WEIGHT)
#undef LOSS_WEIGHT
} loss_weights;

static inline loss_weights loss_weights_default(void) {
#define LOSS_WEIGHT(name, results, first, last, has, queue) {first, last},
    const loss_weights out = {LOSS_TERMS(LOSS_WEIGHT)};
#undef LOSS_WEIGHT
    return out;
}
