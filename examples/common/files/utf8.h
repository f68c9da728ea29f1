// SPDX-License-Identifier: MIT
#pragma once

#include <stdint.h>

// Bytes of the UTF-8 character at `text`, which ends with a zero; 0 if there is none.
static inline int utf8_length(const unsigned char *text) {
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
