// SPDX-License-Identifier: MIT
#include "image_codec.h"
#include <inttypes.h>

bool image_open_for(const input_file *file, uint64_t units, uint64_t units_per_byte, int width, int height,
                    int channels, image *out, fault *why) {
    if (units / units_per_byte > file->size)
        return fail(why, "%s: damaged: %d x %d pixels announced, which its %" PRIu64 " bytes cannot hold",
                    file->path, width, height, file->size);
    return image_open(out, width, height, channels, why) || fail(why, "%s: %s", file->path, why->text);
}
