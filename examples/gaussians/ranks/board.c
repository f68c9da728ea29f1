// SPDX-License-Identifier: MIT
#include "board.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

void board_fail(board *shared, int rank, const char *text) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&shared->failure, &none, 1)) return;
    shared->rank = rank;
    snprintf(shared->text, sizeof shared->text, "%s", text);
    atomic_store(&shared->failure, 2);
}

bool board_has_failed(const board *shared) {
    return atomic_load(&shared->failure) != 0;
}

void board_describe(const board *shared, fault *why) {
    const struct timespec pause = {0, 1000000};
    for (int k = 0; k < 200 && atomic_load(&shared->failure) == 1; k++) nanosleep(&pause, NULL);
    if (shared->alone)
        fail(why, "%s", shared->text);
    else if (atomic_load(&shared->failure) == 2)
        fail(why, "rank %d: %s", shared->rank, shared->text);
    else
        fail(why, "a rank has failed");
}

void board_set_id(board *shared, const void *id) {
    memcpy(shared->id, id, BOARD_ID_BYTES);
    atomic_store(&shared->has_id, 1);
}
