// SPDX-License-Identifier: MIT
#include "image_codec.h"
#include <inttypes.h>

bool picture_fits(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                  fault *why) {
    return units / units_per_byte <= file->size ||
           fail(why, "%s: damaged: %d x %d pixels announced, which its %" PRIu64 " bytes cannot hold",
                file->path, width, height, file->size);
}

bool image_open_for(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                    int channels, image *out, fault *why) {
    if (!picture_fits(file, units, units_per_byte, width, height, why)) return false;
    return image_open(out, width, height, channels, why) || fail(why, "%s: %s", file->path, why->text);
}
