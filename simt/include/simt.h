// SPDX-License-Identifier: MIT
// Controls of simt: schedules, counters, refusals. C and C++.
//
// simt runs each CUDA thread as a fiber and 32 fibers as a warp. Each OS thread runs one block at a time.
// simt refuses what CUDA leaves undefined. A refused launch ends with cudaErrorLaunchFailure. The reason is
// printed on stderr, with kernel, block, warp, lanes, file and line, and kept for simt_refusal(). Later
// launches run as usual. simt refuses
//   - a lane that is not in the mask it passes, and a mask with lanes that the block does not have;
//   - lanes that wait for each other with different masks or at different collectives;
//   - a shuffle, a reduction or a library call whose mask contains a lane that has exited. Votes, matches, __syncwarp() and
//     barriers wait for lanes that have not exited, as CUDA defines them;
//   - a shuffle that reads a lane outside the mask, a width that is not a power of two up to 32, and
//     different widths in one shuffle;
//   - a barrier that some lanes of the block never reach, or that they reach as another kind of barrier;
//   - a deadlock, and a block that exceeds its step limit (a livelock);
//   - an atomic on a misaligned address, and __trap();
//   - lanes of one library call that break a promise (simt/lanes.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A setting applies to launches that begin after the call, in all threads of the process.

// The schedule. 0 (the default): lanes run in order until they must wait; this is the fastest. Any other
// seed: at every collective, barrier and atomic the next lane is chosen at random, and coalesced_threads()
// divides the lanes that arrive at random. The choices depend on the seed and the block's index, not on the
// number of threads.
void simt_set_seed(uint64_t seed);
// The number of OS threads that run blocks. 0 (the default): one for each core. 1: blocks run in order of
// their index.
void simt_set_threads(int threads);
int simt_threads(void);
// The number of steps (collectives, barriers, atomics, fences) that one block may make before it is refused
// as a livelock. 0: no limit. The default is 2^32, far above any real kernel.
void simt_set_step_limit(uint64_t steps);
// Bytes of stack for each lane, rounded up to pages, with a guard page below. 0: the default, 64 KiB (512 KiB
// under AddressSanitizer).
void simt_set_stack_size(size_t bytes);
// Whether launches count (on by default).
void simt_set_counting(bool on);

// What launches did since the last reset. Exact, and the same for every seed and number of threads if the
// control flow of the kernels is (that after coalesced_threads() is not). A collective counts once for all
// lanes of its mask.
typedef struct simt_counters {
    uint64_t shuffles;
    uint64_t votes;      // all, any, ballot, coalesced_threads, and the matches and reductions below
    uint64_t matches;    // __match_*_sync
    uint64_t reductions; // __reduce_*_sync
    uint64_t warp_syncs;
    uint64_t barriers;            // one for all threads of a block
    uint64_t atomic_requests;     // one for each lane
    uint64_t atomic_instructions; // one for the lanes of a warp that execute the same source line for the
                                  // n-th time since their last common collective or barrier
    uint64_t atomic_bytes;        // operand bytes of the requests
} simt_counters;

simt_counters simt_counters_read(void);
void simt_counters_reset(void);

// The message of the last refusal, "" if there is none. Valid until the next refusal or clear.
const char *simt_refusal(void);
int simt_refusals(void); // the number of refusals since the last clear
void simt_refusal_clear(void);

#ifdef __cplusplus
}
#endif
