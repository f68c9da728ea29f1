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

// The next word of the header, and the one white space after it.
static bool read_word(input_file *file, char word[32], fault *why) {
    static const char spaces[] = " \t\r\n";
    const uint64_t at = file->offset;
    int length = 0;
    for (;;) {
        char c;
        if (!input_file_read(file, &c, 1, "the PFM header", why)) return false;
        const bool space = c != '\0' && strchr(spaces, c);
        if (space && length == 0) continue;
        word[length] = '\0';
        if (space) return true;
        if (length == 31) return fail(why, "%s: at byte %" PRIu64 ": not a PFM header", file->path, at);
        word[length++] = c;
    }
}

static bool read_side(input_file *file, const char *what, int *out, fault *why) {
    char word[32], *end;
    const uint64_t at = file->offset;
    if (!read_word(file, word, why)) return false;
    const long value = strtol(word, &end, 10);
    if (*end != '\0' || value < 1 || value > IMAGE_MAX_SIZE)
        return fail(why, "%s: at byte %" PRIu64 ": %s '%s': must be a whole number, 1..%d", file->path, at,
                    what, word, IMAGE_MAX_SIZE);
    *out = (int)value;
    return true;
}

static float swapped(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = __builtin_bswap32(bits);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static bool decode_pfm(input_file *file, void *to, fault *why) {
    plane *out = to;
    char word[32], *end;
    int width = 0, height = 0;
    if (!read_word(file, word, why)) return false;
    if (strcmp(word, "Pf") != 0)
        return fail(why, "%s: a PFM of colours (%s); it must be gray (Pf)", file->path, word);
    if (!read_side(file, "width", &width, why) || !read_side(file, "height", &height, why)) return false;
    const uint64_t at = file->offset;
    if (!read_word(file, word, why)) return false;
    const double scale = strtod(word, &end);
    if (*end != '\0' || !(scale < 0 || scale > 0))
        return fail(why, "%s: at byte %" PRIu64 ": scale '%s': must be a number other than 0", file->path, at,
                    word);
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
