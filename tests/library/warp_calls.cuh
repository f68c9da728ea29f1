// SPDX-License-Identifier: MIT
// Random calls of one warp: a mask, active lanes, keys and a threshold. Keys of inactive lanes are garbage.
#ifndef WARP_CALLS_CUH
#define WARP_CALLS_CUH

#include "device_test.cuh"
#include <ostream>

struct warp_call {
    unsigned lanes, active; // active is a subset of lanes
    int threshold;          // -1..34
    int key[32];            // 0..31 in active lanes
};

inline std::ostream &operator<<(std::ostream &out, const warp_call &call) {
    out << "lanes " << std::hex << call.lanes << ", active " << call.active << std::dec << ", threshold "
        << call.threshold << ", keys";
    for (int lane = 0; lane < 32; ++lane)
        if (call.active >> lane & 1) out << ' ' << lane << ':' << call.key[lane];
    return out;
}

// Half of the calls are of a whole warp, a third have one key, and half have keys in runs of neighbours.
inline warp_call draw_warp_call(draw &random) {
    warp_call call = {};
    call.lanes = 0xffffffff;
    if (random.below(2)) call.lanes = random.below(4) ? random.bits_or_one() : 1u << random.below(32);
    switch (random.below(6)) {
    case 0:
        call.active = 0;
        break;
    case 1:
        call.active = call.lanes & 1u << random.below(32);
        break;
    case 2:
        call.active = call.lanes & random.bits();
        break;
    case 3:
        call.active = call.lanes & (random.bits() | random.bits());
        break;
    default:
        call.active = call.lanes;
    }
    call.threshold = random.below(2) ? 0 : int(random.below(36)) - 1;
    const unsigned keys = random.below(3) ? 1 + random.below(32) : 1;
    const bool in_runs = random.below(2);
    const unsigned length = 1 + random.below(12); // mean of a run
    int key = int(random.below(keys));
    for (int lane = 0; lane < 32; ++lane) {
        if (!in_runs || random.below(length) == 0) key = int(random.below(keys));
        call.key[lane] = call.active >> lane & 1 ? key : random.below(2) ? int(random.bits()) : key;
    }
    return call;
}

#endif
