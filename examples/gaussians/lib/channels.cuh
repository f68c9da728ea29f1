// SPDX-License-Identifier: MIT
// A loop over colour channels.
#pragma once

#include "distwar_gs.h"
#include <cuda_runtime.h>
#include <utility>

namespace gs {

#ifndef __SIMT__
template <typename Body, int... C>
__device__ __forceinline__ void for_channels(const Body &body, std::integer_sequence<int, C...>) {
    (body(C), ...);
}
#endif

// Calls body(c) for every channel c. Unrolled in the source: nvcc does not unroll a loop by itself if it
// contains another loop, even one that it unrolls fully. Under simt it is a loop, which compiles in half the time.
template <int Channels = GS_CHANNELS, typename Body>
__device__ __forceinline__ void for_channels(const Body &body) {
#ifdef __SIMT__
    for (int c = 0; c < Channels; c++) body(c);
#else
    for_channels(body, std::make_integer_sequence<int, Channels>{});
#endif
}

} // namespace gs
