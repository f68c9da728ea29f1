// SPDX-License-Identifier: MIT
// The decoders behind image_read. Each reads `file` from its first byte, leaves it open, and on failure
// leaves *out empty.
#ifndef COMMON_IMAGE_CODEC_H
#define COMMON_IMAGE_CODEC_H

#include "image.h"
#include "input_file.h"

// Memory for what `file` announces, once it could hold that many pixels: they are so many units of the
// format, of which a byte holds `units_a_byte` at most. The text names the file.
bool image_open_for(const input_file *file, uint64_t units, uint64_t units_a_byte, int width, int height,
                    int channels, image *out, fault *why);

bool image_decode_png(input_file *file, image *out, fault *why);
bool image_decode_jpeg(input_file *file, image *out, fault *why);

#endif
