// SPDX-License-Identifier: MIT
// An error message. A function that can fail takes a fault; it fills it and returns false.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>

C_LINKAGE_BEGIN

typedef struct fault {
    char text[1024];
} fault;

// Writes the text, cut to fit, and returns false, for `return fail(why, ...)`. The text is one line of UTF-8:
// control characters and bytes that are not UTF-8 become '?'.
bool fail(fault *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Bytes of the UTF-8 character at `text`, which ends with a zero; 0 if there is none.
int utf8_length(const unsigned char *text);

C_LINKAGE_END
