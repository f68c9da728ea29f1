// SPDX-License-Identifier: MIT
#include "formats/packing.h"
#include <inttypes.h>
#include <stdlib.h>

bool read_rest(input_file *file, uint8_t **bytes, size_t *count, fault *why) {
    *count = file->offset < file->size ? (size_t)(file->size - file->offset) : 0;
    *bytes = malloc(*count ? *count : 1);
    if (!*bytes) return fail(why, "%s: no memory for %zu bytes", file->path, *count);
    if (input_file_read(file, *bytes, *count, "the scene", why)) return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

bool is_plausible(const char *path, uint64_t size, uint64_t bytes, fault *why) {
    enum { MOST = 1024, SMALL = 1 << 16 };
    return bytes / MOST <= size + SMALL / MOST ||
           fail(why, "%s: truncated or damaged: %" PRIu64 " bytes announced, in a file of %" PRIu64 " bytes",
                path, bytes, size);
}

void quaternion_unit(const float q[4], double unit[4]) {
    double square = 0;
    for (int k = 0; k < 4; k++) square += (double)q[k] * q[k];
    for (int k = 0; k < 4; k++) unit[k] = square > 0 ? q[k] / sqrt(square) : k == 0;
}

uint8_t opacity_byte(const gs_gaussians *g, int64_t i) {
    const float *const q = g->quaternion + 4 * i;
    return q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 0
               ? 0
               : to_byte(255 * sigmoid((double)g->opacity_logit[i]));
}

int quaternion_to_three(const double q[4], double three[3]) {
    int largest = 0, next = 0;
    for (int k = 1; k < 4; k++)
        if (fabs(q[k]) > fabs(q[largest])) largest = k;
    for (int k = 0; k < 4; k++)
        if (k != largest) three[next++] = q[largest] < 0 ? -q[k] : q[k];
    return largest;
}

void quaternion_from_three(int largest, const double three[3], double q[4]) {
    double rest = 1;
    for (int k = 0, next = 0; k < 4; k++) {
        if (k == largest) continue;
        q[k] = three[next++];
        rest -= q[k] * q[k];
    }
    q[largest] = sqrt(fmax(rest, 0));
}
