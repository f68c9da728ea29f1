// SPDX-License-Identifier: MIT
// The signals that the program handles: SIGINT and SIGTERM, which request it to stop, and SIGPIPE.
#pragma once

#include "c_linkage.h"
#include <signal.h>
#include <stdbool.h>

C_LINKAGE_BEGIN

// From here to stop_request_end, the first SIGINT or SIGTERM only sets the flag below. A second one has its
// usual effect and ends the program at once. Not to be nested.
void stop_request_begin(void);
// Call before that, and before processes are forked that share the request: a signal to one of them then counts for
// all. Until stop_request_end. False: there is no memory.
bool stop_request_share(void);
// Restores the handlers. Returns the signal that came, or 0.
int stop_request_end(void);
// The signal that came since stop_request_begin, or 0. The address is constant from
// stop_request_begin to stop_request_end: see training_observer.end.
const volatile sig_atomic_t *stop_request_flag(void);
// Requests a stop, as SIGINT does.
void stop_request_make(void);
// A process that shares the request says that it has stopped because of it; another one asks whether one has. For those
// that a signal reaches when all work is done.
void stop_request_follow(void);
bool stop_request_was_followed(void);

// From here to broken_pipes_end, writing to a pipe without a reader fails with EPIPE instead of ending the
// program. May be nested.
void broken_pipes_begin(void);
void broken_pipes_end(void);

C_LINKAGE_END
