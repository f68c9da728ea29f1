/* SPDX-License-Identifier: MIT */
#ifndef DISTWAR_VERSION_H
#define DISTWAR_VERSION_H

/* The version of the library, for C, C++11 and the preprocessor. CMake and pkg-config take it from here. */
#define DISTWAR_VERSION_MAJOR 1
#define DISTWAR_VERSION_MINOR 0
#define DISTWAR_VERSION_PATCH 0

/* The same as a string. */
#define DISTWAR_VERSION "1.0.0"

#endif
