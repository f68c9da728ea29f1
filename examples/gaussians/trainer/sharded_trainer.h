// SPDX-License-Identifier: MIT
// The training loop on several ranks: a batch of views a step, Gaussians shared out among the ranks (sharded.h). The
// number of ranks does not change the result if the policy is DISTWAR_FIXED.
#pragma once

#include "sharded.h"
#include "sharded_state.h"
#include "trainer.h"
#include "frames/picture_cache.h"

C_LINKAGE_BEGIN

// Looks on while training runs, on all ranks alike.
typedef struct sharded_observer {
    // Called after every step in which the number of views seen reaches or passes a multiple of `interval`, and after
    // the last step; may call collectives. False, after ranks_fail: ends training. stops: training ends here because
    // of `end`.
    bool (*observe)(void *context, ranks *group, const sharded_state *state, const training_report *report,
                    bool stops);
    void *context;
    int64_t interval;                 // >= 1; each call waits for the losses
    const volatile sig_atomic_t *end; // NULL, or: not 0 on some rank ends training on all of them, soon
} sharded_observer;

typedef struct sharded_settings {
    picture_cache *pictures;           // of the views, those to train on first
    size_t view_count;                 // to train on; the same on all ranks
    const training_settings *training; // iterations count views; density: a kind that density_ranks_has
    int64_t batch; // views a step, 1..GS_MAX_VIEWS; with more than 1 all views have one size
    sharded *shared;
    const sharded_observer *observer; // NULL: nobody
} sharded_settings;

// Trains from where the state is. A step on B views has sqrt(B) times the learning rates, and the sum of the views'
// gradients. *report: as that of train, with a loss for each view; closed by training_report_close, also after a
// failure.
bool sharded_train(sharded_state *state, ranks *group, const sharded_settings *settings,
                   training_report *report);

C_LINKAGE_END
