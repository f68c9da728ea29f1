// SPDX-License-Identifier: MIT
// The decoders behind image_read. Each reads `file` from its first byte, leaves it open, and on failure
// leaves *out empty.
#ifndef COMMON_IMAGE_CODEC_H
#define COMMON_IMAGE_CODEC_H

#include "image.h"
#include "input_file.h"

bool image_decode_png(input_file *file, image *out, fault *why);
bool image_decode_jpeg(input_file *file, image *out, fault *why);

#endif
