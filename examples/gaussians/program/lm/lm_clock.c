// SPDX-License-Identifier: MIT
#include "lm/lm_clock.h"
#include "device.h"
#include "distwar_gs.h"
#include <string.h>

const char *lm_part_name(lm_part part) {
    static const char *const names[LM_PARTS] = {"pictures",   "diagonal",     "Jp",
                                                "J^Tu blend", "J^Tu project", "solver"};
    return names[part];
}

void lm_clock_open(lm_clock *clock) {
    memset(clock, 0, sizeof *clock);
    clock->measures = strcmp(gs_backend(), "cuda") == 0;
    for (int i = 0; clock->measures && i < LM_CLOCK_MARKS; i++) DEVICE_CHECK(cudaEventCreate(&clock->at[i]));
}

void lm_clock_close(lm_clock *clock) {
    for (int i = 0; clock->measures && i < LM_CLOCK_MARKS; i++) DEVICE_CHECK(cudaEventDestroy(clock->at[i]));
    clock->measures = false;
}

void lm_clock_start(lm_clock *clock) {
    if (!clock->measures) return;
    clock->marks = 1;
    DEVICE_CHECK(cudaEventRecord(clock->at[0], NULL));
}

void lm_clock_mark(lm_clock *clock, lm_part part) {
    if (!clock->measures) return;
    if (clock->marks == LM_CLOCK_MARKS) {
        lm_clock_stop(clock);
        lm_clock_start(clock);
    }
    clock->part[clock->marks] = part;
    DEVICE_CHECK(cudaEventRecord(clock->at[clock->marks++], NULL));
}

void lm_clock_stop(lm_clock *clock) {
    if (!clock->measures || clock->marks == 0) return;
    DEVICE_CHECK(cudaEventSynchronize(clock->at[clock->marks - 1]));
    for (int i = 1; i < clock->marks; i++) {
        float elapsed;
        DEVICE_CHECK(cudaEventElapsedTime(&elapsed, clock->at[i - 1], clock->at[i]));
        clock->milliseconds[clock->part[i]] += elapsed;
    }
    clock->marks = 0;
}
