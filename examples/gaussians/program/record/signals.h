// SPDX-License-Identifier: MIT
// The signals that the program handles: SIGINT and SIGTERM, which request it to stop, and SIGPIPE.
#pragma once

#include "c_linkage.h"
#include <signal.h>

C_LINKAGE_BEGIN

// From here to stop_request_end, the first SIGINT or SIGTERM only sets the flag below. A second one has its
// usual effect and ends the program at once. Not to be nested.
void stop_request_begin(void);
// Restores the handlers. Returns the signal that came, or 0.
int stop_request_end(void);
// The signal that came since stop_request_begin, or 0. The address is constant from
// stop_request_begin to stop_request_end: see training_observer.end.
const volatile sig_atomic_t *stop_request_flag(void);
// Requests a stop, as SIGINT does.
void stop_request_make(void);

// From here to broken_pipes_end, writing to a pipe without a reader fails with EPIPE instead of ending the
// program. Not to be nested.
void broken_pipes_begin(void);
void broken_pipes_end(void);

C_LINKAGE_END
