// SPDX-License-Identifier: MIT
#include "stage_clock.h"
#include "device.h"
#include "distwar_gs.h"
#include <string.h>

const char *stage_name(stage which) {
    static const char *const names[STAGES] = {"project",          "bin",  "render", "loss", "render backward",
                                              "project backward", "adam", "density"};
    return names[which];
}

void stage_clock_open(stage_clock *clock) {
    *clock = (stage_clock){.measures = strcmp(gs_backend(), "cuda") == 0};
    if (!clock->measures) return;
    for (int set = 0; set < 2; set++)
        for (int i = 0; i <= STAGES; i++) DEVICE_CHECK(cudaEventCreate(&clock->marks[set][i]));
}

static void collect(stage_clock *clock, int set) {
    if (!clock->complete[set]) return;
    DEVICE_CHECK(cudaEventSynchronize(clock->marks[set][STAGES]));
    for (int i = 0; i < STAGES; i++) {
        float elapsed;
        DEVICE_CHECK(cudaEventElapsedTime(&elapsed, clock->marks[set][i], clock->marks[set][i + 1]));
        clock->milliseconds[i] += elapsed;
    }
    clock->steps++;
    clock->complete[set] = false;
}

void stage_clock_start(stage_clock *clock) {
    if (!clock->measures) return;
    clock->current = !clock->current;
    collect(clock, clock->current);
    DEVICE_CHECK(cudaEventRecord(clock->marks[clock->current][0], NULL));
}

void stage_clock_mark(stage_clock *clock, stage which) {
    device_begin_stage(stage_name((which + 1) % STAGES));
    if (!clock || !clock->measures) return;
    DEVICE_CHECK(cudaEventRecord(clock->marks[clock->current][which + 1], NULL));
    clock->complete[clock->current] = which == STAGES - 1;
}

void stage_clock_close(stage_clock *clock) {
    if (!clock->measures) return;
    for (int set = 0; set < 2; set++) {
        collect(clock, set);
        for (int i = 0; i <= STAGES; i++) DEVICE_CHECK(cudaEventDestroy(clock->marks[set][i]));
    }
    clock->measures = false;
}
