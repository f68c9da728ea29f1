// SPDX-License-Identifier: MIT
// The decoders behind image_read. Each reads `file` from its first byte, leaves it open, and on failure
// leaves *out empty.
#pragma once

#include "image.h"
#include "files/input_file.h"
#include "plane.h"

// Whether `file` can hold the picture that its header announces: coded in `units` units of the format, of which
// one byte codes at most `units_per_byte`. The message names the file.
bool picture_fits(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                  fault *why);
// Opens *out for such a picture.
bool image_open_for(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                    int channels, image *out, fault *why);

bool image_decode_png(input_file *file, image *out, fault *why);
bool image_decode_jpeg(input_file *file, image *out, fault *why);
// The decoders that plane_read calls, which empties *out on failure.
bool plane_decode_pfm(input_file *file, plane *out, fault *why);
bool plane_decode_png(input_file *file, plane *out, fault *why);
