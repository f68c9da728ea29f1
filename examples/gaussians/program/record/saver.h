// SPDX-License-Identifier: MIT
// Saves training while it runs: every N steps, and when SIGINT or SIGTERM asks the program to end. The signal
// ends training after the step at work; a second one ends the program at once, as if nobody had asked.
#ifndef SPLAT_SAVER_H
#define SPLAT_SAVER_H

#include "record/checkpoint.h"
#include "training/trainer.h"

typedef struct saver {
    const char *path;
    int64_t interval;         // steps between checkpoints; 0: only when asked to end
    const char *settings;     // of the key
    const target_view *views; // of the key: its sum takes time, and is not taken before it is needed
    size_t view_count;
    checkpoint_key key;
    bool key_known;
} saver;

checkpoint_key saver_key(saver *s);
// Watches for signals from here to saver_unwatch, which returns the signal that came, or 0. One at a time.
void saver_watch(void);
int saver_unwatch(void);
const volatile sig_atomic_t *saver_asked(void); // not 0 from the signal on; training_observer.end
// Writes a checkpoint if one is due after the state's last step. For training_observer.observe, which has to
// be called at least at every step that the interval divides, and after the last.
// *saved: whether it did.
bool saver_observe(saver *s, const training_state *state, bool *saved, fault *why);

#endif
