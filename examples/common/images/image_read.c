// SPDX-License-Identifier: MIT
// Reads pictures with the decoder that their first bytes ask for. Reads and writes PFM.
#include "image_codec.h"
#include "files/output_file.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- PFM

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "floats are copied as a little-endian file has them");

static float swapped(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = __builtin_bswap32(bits);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static bool decode_pfm(input_file *file, void *to, fault *why) {
    enum { MAGIC, WIDTH, HEIGHT, SCALE, WORDS };
    static const char *const sides[] = {[WIDTH] = "width", [HEIGHT] = "height"};
    plane *out = to;
    char word[WORDS][32], *after, space;
    int end[WORDS] = {0}, size[WORDS] = {0};
    // Where words are missing the file ends, and there is no white space to be read.
    const int words = fscanf(file->stream, "%31s%n%31s%n%31s%n%31s%n", word[MAGIC], &end[MAGIC], word[WIDTH],
                             &end[WIDTH], word[HEIGHT], &end[HEIGHT], word[SCALE], &end[SCALE]);
    if (words >= 1 && strcmp(word[MAGIC], "Pf") != 0)
        return fail(why, "%s: a PFM of colours (%s); it must be gray (Pf)", file->path, word[MAGIC]);
    for (int i = WIDTH; i < words; i++)
        if (strlen(word[i]) == sizeof word[i] - 1)
            return fail(why, "%s: at byte %d: not a PFM header", file->path, end[i - 1] + 1);
    for (int i = WIDTH; i <= HEIGHT && i < words; i++) {
        const long side = strtol(word[i], &after, 10);
        if (*after != '\0' || side < 1 || side > IMAGE_MAX_SIZE)
            return fail(why, "%s: at byte %d: %s '%s': must be a whole number, 1..%d", file->path,
                        end[i - 1] + 1, sides[i], word[i], IMAGE_MAX_SIZE);
        size[i] = (int)side;
    }
    const double scale = words == WORDS ? strtod(word[SCALE], &after) : 1;
    if (words == WORDS && (*after != '\0' || !(scale < 0 || scale > 0)))
        return fail(why, "%s: at byte %d: scale '%s': must be a number other than 0", file->path,
                    end[HEIGHT] + 1, word[SCALE]);
    file->offset = (uint64_t)ftello(file->stream);
    if (!input_file_read(file, &space, 1, "the PFM header", why)) return false;
    const int width = size[WIDTH], height = size[HEIGHT];
    const uint64_t bytes = (uint64_t)width * (uint64_t)height * sizeof(float),
                   rest = file->size - file->offset;
    if (rest != bytes)
        return fail(why,
                    "%s: truncated or damaged: %d x %d values announced, which take %" PRIu64
                    " bytes; %" PRIu64 " follow byte %" PRIu64,
                    file->path, width, height, bytes, rest, file->offset);
    if (!plane_open(out, width, height, why)) return fail(why, "%s: %s", file->path, why->text);
    for (int y = height - 1; y >= 0; y--)
        if (!input_file_read(file, out->values + (size_t)y * (size_t)width, (size_t)width * sizeof(float),
                             "PFM values", why))
            return false;
    for (size_t i = 0; scale > 0 && i < plane_size(out); i++) out->values[i] = swapped(out->values[i]);
    return true;
}

bool plane_write_pfm(const char *path, const plane *p, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    fprintf(file.stream, "Pf\n%d %d\n-1\n", p->width, p->height);
    for (int y = p->height - 1; y >= 0; y--) // errors stay in the stream
        fwrite(p->values + (size_t)y * (size_t)p->width, sizeof(float), (size_t)p->width, file.stream);
    return output_file_commit(&file, why);
}

// ---- any format

typedef struct picture_format {
    const char *signature;
    size_t length; // of the signature
    picture_decoder *decode;
} picture_format;

// Reads a file with the decoder that its first bytes ask for. They are as many as the first format has in its
// signature. neither: the names of the formats, for the message.
static bool picture_read(const char *path, const picture_format *formats, int count, const char *what,
                         const char *neither, void *out, fault *why) {
    input_file file;
    if (!input_file_open(&file, path, why)) return false;
    char signature[8];
    bool done = input_file_read(&file, signature, strlen(formats[0].signature), what, why);
    if (done) {
        int i = 0;
        while (i < count && memcmp(signature, formats[i].signature, formats[i].length) != 0) i++;
        rewind(file.stream);
        file.offset = 0;
        done = i < count ? formats[i].decode(&file, out, why)
                         : fail(why, "%s: neither %s (by its first bytes)", path, neither);
    }
    input_file_close(&file);
    return done;
}

bool image_read(const char *path, image *out, fault *why) {
    static const picture_format formats[] = {{"\x89PNG\r\n\x1a\n", 8, image_decode_png},
                                             {"\xff\xd8\xff", 3, image_decode_jpeg}};
    *out = (image){0};
    const bool done = picture_read(path, formats, 2, "the image's signature", "PNG nor JPEG", out, why);
    if (!done) image_close(out);
    return done;
}

bool plane_read(const char *path, plane *out, fault *why) {
    static const picture_format formats[] = {
        {"Pf", 2, decode_pfm}, {"PF", 2, decode_pfm}, {"\x89P", 2, plane_decode_png}};
    *out = (plane){0};
    const bool done = picture_read(path, formats, 3, "the map's signature", "PNG nor PFM", out, why);
    if (!done) plane_close(out);
    return done;
}
