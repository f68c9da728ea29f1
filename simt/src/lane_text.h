// SPDX-License-Identifier: MIT
// Text for messages: lane masks and collectives.
#ifndef SIMT_LANE_TEXT_H
#define SIMT_LANE_TEXT_H

#include "simt/lanes.h"
#include <string>

namespace simt {

std::string lanes_text(unsigned mask); // "lane 3", "lanes 0-3, 8, 30-31"
std::string hex_text(unsigned mask);   // "0x0000ffff"
std::string kind_text(Kind kind);      // "__shfl_down_sync(float)"

} // namespace simt

#endif
