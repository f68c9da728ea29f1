// SPDX-License-Identifier: MIT
// The decoders behind image_read. Each reads `file` from its first byte, leaves it open, and on failure
// leaves *out empty.
#pragma once

#include "image.h"
#include "input_file.h"

// Opens *out for the picture that the header of `file` announces. Fails if the file is too small for it: the
// picture is coded in `units` units of the format, and one byte codes at most `units_per_byte` of them. The
// message names the file.
bool image_open_for(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                    int channels, image *out, fault *why);

bool image_decode_png(input_file *file, image *out, fault *why);
bool image_decode_jpeg(input_file *file, image *out, fault *why);
