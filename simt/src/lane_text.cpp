// SPDX-License-Identifier: MIT
#include "lane_text.h"

#include <cstdio>

namespace simt {

std::string lanes_text(unsigned mask) {
    std::string text = mask & (mask - 1) ? "lanes " : "lane ";
    const char *separator = "";
    for (unsigned first = 0; first < 32; first++) {
        if (!(mask >> first & 1)) continue;
        unsigned last = first;
        while (last < 31 && mask >> (last + 1) & 1) last++;
        text += separator + std::to_string(first);
        if (last > first) text += "-" + std::to_string(last);
        separator = ", ";
        first = last;
    }
    return text;
}

std::string hex_text(unsigned mask) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", mask);
    return text;
}

std::string kind_text(Kind kind) {
    static const char *const collectives[] = {"__syncwarp",          "__shfl_sync",       "__shfl_up_sync",
                                              "__shfl_down_sync",    "__shfl_xor_sync",   "__all_sync",
                                              "__any_sync",          "__ballot_sync",     "__match_any_sync",
                                              "__match_all_sync",    "__reduce_add_sync", "__reduce_min_sync",
                                              "__reduce_max_sync",   "__reduce_and_sync", "__reduce_or_sync",
                                              "__reduce_xor_sync",   "coalesced_threads", "__syncthreads",
                                              "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"};
    static const char *const types[] = {
        "", "(int)", "(unsigned)", "(long long)", "(unsigned long long)", "(float)", "(double)"};
    return std::string(collectives[unsigned(kind.collective)]) + types[unsigned(kind.type)];
}

} // namespace simt
