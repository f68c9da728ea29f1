// SPDX-License-Identifier: MIT
#ifndef DISTWAR_VERSION_H
#define DISTWAR_VERSION_H

#define DISTWAR_VERSION "0.1.0"
#define DISTWAR_VERSION_MAJOR 0
#define DISTWAR_VERSION_MINOR 1
#define DISTWAR_VERSION_PATCH 0

// C++17 for deduction guides, if constexpr and inline variables. MSVC keeps __cplusplus at 199711 and has
// _MSVC_LANG.
#if defined(__cplusplus) && __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "distwar needs C++17: compile with -std=c++17 or later"
#endif

#endif
