// SPDX-License-Identifier: MIT
// The decoders behind image_read. Each reads `file` from its first byte, leaves it open, and on failure
// leaves *out empty.
#ifndef COMMON_IMAGE_CODEC_H
#define COMMON_IMAGE_CODEC_H

#include "image.h"
#include "input_file.h"

// Memory for what `file` announces, once it could hold that many pixels: `coded_bytes` is what they take
// before the format's compression, at most `ratio` : 1. The text names the file.
bool image_allocate_for(const input_file *file, uint64_t coded_bytes, uint64_t ratio, int width, int height,
                        int channels, image *out, fault *why);

bool image_decode_png(input_file *file, image *out, fault *why);
bool image_decode_jpeg(input_file *file, image *out, fault *why);

#endif
