// SPDX-License-Identifier: MIT
// libdistwar_gs for this program: a call that fails ends it, with libdistwar_gs's reason, the call and its place.
#pragma once

#include "device.h"
#include "distwar_gs.h"

#define GS_CHECK(call) gs_check((call), #call, __FILE__, __LINE__)

static inline void gs_check(gs_status status, const char *attempted, const char *file, int line) {
    if (status != GS_OK)
        device_give_up("%s (%s:%d: %s)%s", gs_last_error(), file, line, attempted, device_stage_text());
}
