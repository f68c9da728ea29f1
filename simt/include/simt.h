// SPDX-License-Identifier: MIT
// simt's own controls: how kernels are scheduled, what was counted, what was refused. C and C++.
//
// simt runs each CUDA thread as a fiber, 32 of them a warp, one block at a time on each OS thread. It refuses
// what CUDA leaves undefined: the launch ends with cudaErrorLaunchFailure, the reason is printed on stderr
// with kernel, block, warp, lanes, file and line, and kept for simt_refusal(); later launches run as usual.
// Refused are
//   - a lane outside the mask it passes, and a mask that names lanes the block does not have;
//   - lanes that wait for each other with different masks or at different collectives;
//   - a collective whose mask names a lane that has exited;
//   - a shuffle that reads a lane outside the mask, a width that is no power of two, lanes of one shuffle
//     that differ in width;
//   - a barrier that some lanes of the block never reach, or reach as another kind of barrier;
//   - a deadlock, and a block that passes its step limit (a livelock);
//   - an atomic on a misaligned address, and __trap().
// Stricter than some hardware: a lane that has exited counts as absent, it does not count as arrived.
#ifndef SIMT_H
#define SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Settings hold for launches that begin after the call. They are the process's, not the calling thread's.

// 0 (the start value): lanes run in order until they must wait; the fastest. Any other seed: which lane goes
// on is drawn anew at every collective, barrier and atomic, from the seed and the block's index alone,
// whatever the number of threads.
void simt_set_seed(uint64_t seed);
// OS threads that run blocks; 0 (the start value) is one a core. With 1 the blocks run in order of their
// index.
void simt_set_threads(int threads);
int simt_threads(void);
// How many scheduling points (collectives, barriers, atomics, fences) a single block may pass before it is
// refused as a livelock. 0 is no limit; the start value is 2^32, far above any real kernel.
void simt_set_step_limit(uint64_t steps);
// Bytes of stack for each lane, rounded up to pages, each with a guard page below. The start value is 64 KiB
// (512 KiB under AddressSanitizer); 0 restores it.
void simt_set_stack_size(size_t bytes);
// Whether launches count (on by default).
void simt_set_counting(bool on);

// What launches did since the last reset. Exact, and the same for every seed and number of threads as long as
// the program's own control flow is. A collective counts once for the lanes of its mask together.
typedef struct simt_counters {
    uint64_t shuffles;
    uint64_t votes;      // all, any, ballot, and the matches and reductions below
    uint64_t matches;    // __match_*_sync
    uint64_t reductions; // __reduce_*_sync
    uint64_t warp_syncs;
    uint64_t barriers;            // one for a whole block
    uint64_t atomic_requests;     // by single lanes
    uint64_t atomic_instructions; // lanes of a warp that last met at the same collective or barrier, at one
                                  // source line, each for the n-th time since, are one instruction
    uint64_t atomic_bytes;        // operand bytes of the requests
} simt_counters;

simt_counters simt_counters_read(void);
void simt_counters_reset(void);

// The message of the last refusal, "" if there is none. Valid until the next refusal or clear.
const char *simt_refusal(void);
int simt_refusals(void); // how many since the last clear
void simt_refusal_clear(void);

#ifdef __cplusplus
}
#endif

#endif
