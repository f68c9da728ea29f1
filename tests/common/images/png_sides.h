// SPDX-License-Identifier: MIT
// PNG files whose headers announce other sizes than they have.
#ifndef PNG_SIDES_H
#define PNG_SIDES_H

#include <stdint.h>
#include <string>
#include <zlib.h>

// Of width and height `side`, with the checksum of that.
inline std::string with_sides(std::string png, uint32_t side) {
    for (size_t i = 0; i < 8; i++) png[16 + i] = char(side >> (24 - 8 * (i % 4)));
    const uLong sum = crc32(0, reinterpret_cast<const Bytef *>(png.data()) + 12, 17);
    for (size_t i = 0; i < 4; i++) png[29 + i] = char(sum >> (24 - 8 * i));
    return png;
}

#endif
