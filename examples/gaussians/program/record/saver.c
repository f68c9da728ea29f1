// SPDX-License-Identifier: MIT
#include "record/saver.h"
#include "record/signals.h"

checkpoint_key saver_key(saver *s) {
    if (!s->key_known)
        s->key = (checkpoint_key){.settings = s->settings,
                                  .data = checkpoint_fingerprint(s->views, s->view_count)};
    s->key_known = true;
    return s->key;
}

bool saver_observe(saver *s, const training_state *state, bool *saved, fault *why) {
    *saved = *stop_request_flag() || (s->interval > 0 && state->iteration % s->interval == 0);
    if (!*saved) return true;
    const checkpoint_key key = saver_key(s);
    return checkpoint_write(s->path, &key, state, why);
}
