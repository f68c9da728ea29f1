// SPDX-License-Identifier: MIT
// Reads an image, or a plane, with the decoder that its first bytes ask for.
#include "image_codec.h"
#include <string.h>

bool image_read(const char *path, image *out, fault *why) {
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[3] = {0xff, 0xd8, 0xff};
    *out = (image){0};
    input_file file;
    if (!input_file_open(&file, path, why)) return false;
    uint8_t signature[sizeof png];
    bool ok = input_file_read(&file, signature, sizeof signature, "the image's signature", why);
    if (ok) {
        rewind(file.stream);
        file.offset = 0;
        if (memcmp(signature, png, sizeof png) == 0) {
            ok = image_decode_png(&file, out, why);
        } else if (memcmp(signature, jpeg, sizeof jpeg) == 0) {
            ok = image_decode_jpeg(&file, out, why);
        } else {
            ok = fail(why, "%s: neither PNG nor JPEG (by its first bytes)", path);
        }
    }
    input_file_close(&file);
    return ok;
}

bool plane_read(const char *path, plane *out, fault *why) {
    *out = (plane){0};
    input_file file;
    if (!input_file_open(&file, path, why)) return false;
    char signature[2];
    bool done = input_file_read(&file, signature, sizeof signature, "the map's signature", why);
    if (done) {
        rewind(file.stream);
        file.offset = 0;
        if (signature[0] == 'P' && (signature[1] == 'f' || signature[1] == 'F'))
            done = plane_decode_pfm(&file, out, why);
        else if (memcmp(signature, "\x89P", 2) == 0)
            done = plane_decode_png(&file, out, why);
        else
            done = fail(why, "%s: neither PNG nor PFM (by its first bytes)", path);
    }
    input_file_close(&file);
    if (!done) plane_close(out);
    return done;
}
