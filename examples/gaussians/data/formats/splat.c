// SPDX-License-Identifier: MIT
// Scenes as .splat files (github.com/antimatter15/splat): 32 bytes per Gaussian and nothing else. Axes as in PLY; no
// harmonics after the first. They are only read.
#include "formats/formats.h"
#include <inttypes.h>

typedef struct splat_row {
    float mean[3], scale[3]; // scale: standard deviations
    uint8_t color[3], opacity, rotation[4];
} splat_row;
_Static_assert(sizeof(splat_row) == 32, "it is read as it lies in memory");

static bool splat_read(input_file *file, gs_gaussians *out, fault *why) {
    splat_row row;
    if (file->size % sizeof row != 0)
        return fail(why, "%s: truncated at byte %" PRIu64 ": not a multiple of 32, the bytes of a Gaussian",
                    file->path, file->size);
    if (file->size / sizeof row > INT32_MAX || !scene_open(out, (int64_t)(file->size / sizeof row), 0, why))
        return fail(why, "%s: no memory for %" PRIu64 " Gaussians", file->path, file->size / sizeof row);
    for (int64_t i = 0; i < out->count; i++) {
        if (!input_file_read(file, &row, sizeof row, "a Gaussian", why)) return false;
        for (int k = 0; k < 3; k++) {
            out->mean[3 * i + k] = row.mean[k];
            out->log_scale[3 * i + k] = logf(row.scale[k]); // NaN of a negative one
            out->sh[3 * i + k] = (float)scene_sh_constant(row.color[k] / 255.0);
        }
        for (int k = 0; k < 4; k++) out->quaternion[4 * i + k] = (float)(row.rotation[k] - 128) / 128;
        out->opacity_logit[i] = byte_logit(row.opacity);
    }
    return true;
}

const scene_format splat_format = {.suffix = ".splat", .read = splat_read};
