// SPDX-License-Identifier: MIT
// Fills a fault.
#include "fault.h"
#include "utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Names and words from damaged files may hold anything, and go to a terminal.
static void make_one_line(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c;) {
        const int length = utf8_length(c);
        const bool c1_control = length == 2 && c[0] == 0xc2 && c[1] < 0xa0;
        if (length == 0 || *c < 0x20 || *c == 0x7f || c1_control) memset(c, '?', length ? (size_t)length : 1);
        c += length ? length : 1;
    }
}

bool fail(fault *why, const char *format, ...) {
    char text[sizeof why->text]; // apart from `why`, so that an older text may be among the arguments
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_one_line(text);
    memcpy(why->text, text, sizeof text);
    return false;
}
