// SPDX-License-Identifier: MIT
// What every kind of rank does at its start, and at a failure.
#include "device.h"
#include "transport.h"

bool ranks_set_device(ranks *group, int local, int devices) {
    int present = 0;
    RANKS_CUDA(cudaGetDeviceCount(&present));
    const int device = devices > 0 ? local % devices : local;
    if (device >= present)
        return ranks_fail(group, "%d ranks need %d GPUs, this host has %d", group->count,
                          devices > 0 ? devices : group->count, present);
    RANKS_CUDA(cudaSetDevice(device));
    return true;
}

bool ranks_run_body(ranks *group, ranks_body body, void *context) {
    const bool good = body(group, context);
    if (good) return true;
    if (!board_has_failed(group->board)) ranks_fail(group, "its work has failed");
    return false;
}

static ranks *of_process;
static void (*end_process)(void);

static void tell_and_end(const char *text) {
    ranks_fail(of_process, "%s", text);
    end_process();
}

void ranks_own_process(ranks *group, void (*end)(void)) {
    of_process = group;
    end_process = end;
    device_on_failure(group ? tell_and_end : NULL);
}
