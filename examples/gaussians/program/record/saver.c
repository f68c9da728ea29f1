// SPDX-License-Identifier: MIT
#include "record/saver.h"

static volatile sig_atomic_t asked; // the signal
static struct sigaction before[2];
static const int watched[2] = {SIGINT, SIGTERM};

static void ask(int number) {
    asked = number;
}

void saver_watch(void) {
    asked = 0;
    struct sigaction action = {.sa_handler = ask, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++) sigaction(watched[i], &action, &before[i]);
}

int saver_unwatch(void) {
    for (int i = 0; i < 2; i++) sigaction(watched[i], &before[i], NULL);
    return asked;
}

checkpoint_key saver_key(saver *s) {
    if (!s->key_known)
        s->key = (checkpoint_key){s->settings, checkpoint_fingerprint(s->views, s->view_count)};
    s->key_known = true;
    return s->key;
}

bool saver_observe(saver *s, const training_state *state, bool *saved, fault *why) {
    *saved = asked || (s->interval > 0 && state->iteration % s->interval == 0);
    if (!*saved) return true;
    const checkpoint_key key = saver_key(s);
    return checkpoint_write(s->path, &key, state, why);
}

const volatile sig_atomic_t *saver_asked(void) {
    return &asked;
}
