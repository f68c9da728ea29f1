// SPDX-License-Identifier: MIT
#include "fault.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int utf8_length(const unsigned char *text) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800,
                                        0x10000}; // [length]: smaller codes have a shorter form
    if (text[0] < 0x80) return 1;
    const int length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc0 || text[0] >= 0xf8) return 0;
    uint32_t code = text[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0; // also stops at the final zero
        code = code << 6 | (text[i] & 0x3fu);
    }
    return code >= smallest[length] && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? length : 0;
}

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
