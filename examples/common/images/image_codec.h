// SPDX-License-Identifier: MIT
// The decoders behind image_read and plane_read. Each reads `file` from its first byte into an image or a plane, and
// leaves it open. What it has opened in *out on failure, the caller closes.
#pragma once

#include "image.h"
#include "files/input_file.h"

typedef bool picture_decoder(input_file *file, void *out, fault *why);

// Fails if the file is too short for the picture that its header announces. The picture takes `units` units of the format,
// and a byte codes at most `units_per_byte` of them.
bool picture_fits(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                  fault *why);
// Opens *out for such a picture.
bool image_open_for(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                    int channels, image *out, fault *why);

picture_decoder image_decode_png, image_decode_jpeg, plane_decode_png;
