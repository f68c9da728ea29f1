// SPDX-License-Identifier: MIT
// What outlives launches: settings, counters, the last refusal. simt.h is its face to users.
#ifndef SIMT_CONTROLS_H
#define SIMT_CONTROLS_H

#include "launch_state.h"

namespace simt {

// For a launch that begins now; `threads` is the true number.
Settings settings();
// Keeps what the launch has counted and why it was refused, and prints the latter.
void record(Launch &launch);

} // namespace simt

#endif
