// SPDX-License-Identifier: MIT
// State of the process that persists between launches: settings, counters, the last refusal. simt.h is its
// public interface.
#ifndef SIMT_CONTROLS_H
#define SIMT_CONTROLS_H

#include "launch_state.h"

namespace simt {

// The settings of a launch that begins now. `threads` is the actual number, never 0.
Settings settings();
// Adds the launch's counters to the totals. If it was refused, prints and keeps the message.
void record(Launch &launch);

} // namespace simt

#endif
