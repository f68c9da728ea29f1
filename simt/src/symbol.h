// SPDX-License-Identifier: MIT
// The readable name of a function, from its address.
#ifndef SIMT_SYMBOL_H
#define SIMT_SYMBOL_H

#include <string>

namespace simt {

// Demangled; works for static functions too. "at 0x..." if the program was stripped.
std::string symbol_name(const void *function);

} // namespace simt

#endif
