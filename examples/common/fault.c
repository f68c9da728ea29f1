// SPDX-License-Identifier: MIT
// Fills a fault.
#include "fault.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fail(fault *why, const char *format, ...) {
    char text[sizeof why->text]; // apart from `why`, so that an older text may be among the arguments
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(why->text, text, sizeof text);
    return false;
}
