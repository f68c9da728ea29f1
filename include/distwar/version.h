/* SPDX-License-Identifier: MIT */
#ifndef DISTWAR_VERSION_H
#define DISTWAR_VERSION_H

/* The version of the library, for C, C++11 and the preprocessor. CMake and pkg-config take it from here. */
#define DISTWAR_VERSION_MAJOR 0
#define DISTWAR_VERSION_MINOR 3
#define DISTWAR_VERSION_PATCH 0

/* The version as a string: "0.3.0". */
#define DISTWAR_DOTTED(major, minor, patch) #major "." #minor "." #patch
#define DISTWAR_DOTTED_VALUES(major, minor, patch) DISTWAR_DOTTED(major, minor, patch)
#define DISTWAR_VERSION                                                                                      \
    DISTWAR_DOTTED_VALUES(DISTWAR_VERSION_MAJOR, DISTWAR_VERSION_MINOR, DISTWAR_VERSION_PATCH)

#endif
