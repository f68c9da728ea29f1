// SPDX-License-Identifier: MIT
// Reads and writes PNG with libpng.
#include "image_codec.h"
#include "output_file.h"
#include <errno.h>
#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { DEFLATE_RATIO = 1032 }; // the highest that deflate reaches

typedef struct png_source {
    input_file *file;
    fault *why;
    bool told; // `why` holds the reason already
} png_source;

static void on_error(png_structp png, png_const_charp message) {
    png_source *source = png_get_error_ptr(png);
    if (!source->told)
        fail(source->why, "%s: damaged PNG at byte %" PRIu64 ": %s", source->file->path, source->file->offset,
             message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static void on_read(png_structp png, png_bytep destination, size_t bytes) {
    png_source *source = png_get_io_ptr(png);
    if (input_file_read(source->file, destination, bytes, "PNG data", source->why)) return;
    source->told = true;
    png_error(png, "read");
}

// A function of its own: after longjmp the clean-up must not read local variables of the function that called
// setjmp.
static bool decode(png_structp png, png_infop info, png_source *source, image *out) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_read_fn(png, source, on_read);
    png_set_user_limits(png, IMAGE_MAX_SIZE, IMAGE_MAX_SIZE);
    png_read_info(png, info);
    const uint64_t coded_bytes = (uint64_t)png_get_rowbytes(png, info) * png_get_image_height(png, info);
    // The file's own values, without gamma correction. Palette and gray become RGB, low depths become 8 bits,
    // tRNS becomes alpha.
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (!image_open_for(source->file, coded_bytes, DEFLATE_RATIO, (int)png_get_image_width(png, info),
                        (int)png_get_image_height(png, info), png_get_channels(png, info), out, source->why))
        return false;
    const size_t row = (size_t)out->width * (size_t)out->channels;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < out->height; y++) png_read_row(png, out->pixels + (size_t)y * row, NULL);
    png_read_end(png, NULL);
    return true;
}

bool image_decode_png(input_file *file, image *out, fault *why) {
    *out = (image){0};
    png_source source = {file, why, false};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const bool ok =
        info ? decode(png, info, &source, out) : fail(why, "%s: no memory to decode it", file->path);
    png_destroy_read_struct(&png, &info, NULL);
    if (!ok) image_close(out);
    return ok;
}

static png_image header_of(const image *picture) {
    return (png_image){.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)picture->width,
                       .height = (png_uint_32)picture->height,
                       .format = picture->channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB};
}

bool image_write_png(const char *path, const image *picture, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    png_image header = header_of(picture);
    errno = 0;
    if (png_image_write_to_stdio(&header, file.stream, 0, picture->pixels, picture->width * picture->channels,
                                 NULL))
        return output_file_commit(&file, why);
    fail(why, "%s: cannot write: %s", path, errno ? strerror(errno) : header.message);
    output_file_discard(&file);
    return false;
}

bool image_encode_png(const image *picture, uint8_t **bytes, size_t *count, fault *why) {
    png_image header = header_of(picture);
    const int row = picture->width * picture->channels;
    png_alloc_size_t room = PNG_IMAGE_PNG_SIZE_MAX(header);
    *bytes = malloc(room);
    if (!*bytes) return fail(why, "no memory for a PNG of %d x %d pixels", picture->width, picture->height);
    if (png_image_write_to_memory(&header, *bytes, &room, 0, picture->pixels, row, NULL)) {
        *count = room;
        return true;
    }
    free(*bytes);
    *bytes = NULL;
    return fail(why, "cannot encode a picture: %s", header.message);
}
