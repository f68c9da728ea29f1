// SPDX-License-Identifier: MIT
// Saves training while it runs: every N steps, and when a stop is requested (signals.h).
#ifndef SPLAT_SAVER_H
#define SPLAT_SAVER_H

#include "record/checkpoint.h"
#include "training/trainer.h"

typedef struct saver {
    const char *path;
    int64_t interval;     // steps between checkpoints; 0: only when a stop is requested
    const char *settings; // of the key
    // Of the key. Their fingerprint takes time, so it is computed when it is first needed.
    const target_view *views;
    size_t view_count;
    checkpoint_key key;
    bool key_known;
} saver;

checkpoint_key saver_key(saver *s);
// Writes a checkpoint if one is due after the state's last step. Call it as training_observer.observe at
// every step that is a multiple of the interval, and after the last step. *saved: whether a checkpoint was
// written.
bool saver_observe(saver *s, const training_state *state, bool *saved, fault *why);

#endif
