// SPDX-License-Identifier: MIT
// Reads and writes PNG with libpng.
#include "image_codec.h"
#include "files/output_file.h"
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
    bool told;    // `why` holds the reason already
    bool whole;   // all rows are read
    bool *mended; // set where what follows the rows is damaged; NULL: that is an error
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

// Reads a picture whose header has been read into *out. False after a message, or by png_longjmp.
typedef bool png_reader(png_structp png, png_infop info, png_source *source, void *out);

static bool read_image(png_structp png, png_infop info, png_source *source, void *to) {
    image *out = to;
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
    return true;
}

static bool read_plane(png_structp png, png_infop info, png_source *source, void *to) {
    plane *out = to;
    const int width = (int)png_get_image_width(png, info), height = (int)png_get_image_height(png, info);
    const int bits = png_get_bit_depth(png, info), channels = png_get_channels(png, info);
    if (bits != 16 || png_get_color_type(png, info) != PNG_COLOR_TYPE_GRAY)
        return fail(source->why, "%s: a PNG of %d channel%s of %d bits; it must be gray with 16 bits",
                    source->file->path, channels, channels == 1 ? "" : "s", bits);
    const uint64_t bytes = 2 * (uint64_t)width * (uint64_t)height;
    if (!picture_fits(source->file, bytes, DEFLATE_RATIO, width, height, source->why)) return false;
    if (!plane_open(out, width, height, source->why))
        return fail(source->why, "%s: %s", source->file->path, source->why->text);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    // Two bytes per value, in the second half of the memory: float i ends before pair i + 1 begins.
    uint8_t *const pairs = (uint8_t *)out->values + bytes;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++) png_read_row(png, pairs + 2 * (size_t)y * (size_t)width, NULL);
    for (size_t i = 0; i < plane_size(out); i++)
        out->values[i] = (float)(256 * pairs[2 * i] + pairs[2 * i + 1]) / 65535.0f;
    return true;
}

// A function of its own: after longjmp the clean-up must not read local variables of the function that called
// setjmp.
static bool decode(png_structp png, png_infop info, png_source *source, png_reader *read, void *out) {
    if (setjmp(png_jmpbuf(png))) // what lies behind the rows is damaged or missing, but could be read
        return source->whole && source->mended && !ferror(source->file->stream) && (*source->mended = true);
    png_set_read_fn(png, source, on_read);
    png_set_user_limits(png, IMAGE_MAX_SIZE, IMAGE_MAX_SIZE);
    png_read_info(png, info);
    source->whole = read(png, info, source, out);
    if (source->whole) png_read_end(png, NULL);
    return source->whole;
}

static bool decode_file(input_file *file, png_reader *read, void *out, bool *mended, fault *why) {
    png_source source = {.file = file, .why = why, .mended = mended};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const bool ok =
        info ? decode(png, info, &source, read, out) : fail(why, "%s: no memory to decode it", file->path);
    png_destroy_read_struct(&png, &info, NULL);
    return ok;
}

bool image_decode_png(input_file *file, void *out, fault *why) {
    return decode_file(file, read_image, out, &((image *)out)->mended, why);
}

bool plane_decode_png(input_file *file, void *out, fault *why) {
    return decode_file(file, read_plane, out, NULL, why);
}

static png_image header_of(const image *picture) {
    return (png_image){.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)picture->width,
                       .height = (png_uint_32)picture->height,
                       .format = picture->channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB};
}

static bool write_png(const char *path, png_image *header, const void *pixels, int row, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    errno = 0;
    if (png_image_write_to_stdio(header, file.stream, 0, pixels, row, NULL))
        return output_file_commit(&file, why);
    fail(why, "%s: cannot write: %s", path, errno ? strerror(errno) : header->message);
    output_file_discard(&file);
    return false;
}

bool image_write_png(const char *path, const image *picture, fault *why) {
    png_image header = header_of(picture);
    return write_png(path, &header, picture->pixels, picture->width * picture->channels, why);
}

bool image_write_beside(const char *path, const image *const *pictures, int count, int gap, fault *why) {
    int width = -gap; // image_open checks it
    for (int k = 0; k < count; k++) {
        if (pictures[k]->height != pictures[0]->height || pictures[k]->channels != pictures[0]->channels)
            return fail(why, "cannot put pictures of different height or channel count side by side");
        width += gap + pictures[k]->width;
    }
    image row;
    if (!image_open(&row, width, pictures[0]->height, pictures[0]->channels, why)) return false;
    const size_t channels = (size_t)row.channels, pixels = (size_t)row.width * (size_t)row.height;
    memset(row.pixels, 255, pixels * channels);
    uint8_t *to = row.pixels;
    for (int k = 0; k < count; to += (size_t)(pictures[k]->width + gap) * channels, k++) {
        const size_t bytes = (size_t)pictures[k]->width * channels;
        for (size_t y = 0; y < (size_t)row.height; y++)
            memcpy(to + y * (size_t)row.width * channels, pictures[k]->pixels + y * bytes, bytes);
    }
    const bool done = image_write_png(path, &row, why);
    image_close(&row);
    return done;
}

bool plane_write_png(const char *path, const plane *p, fault *why) {
    const size_t size = plane_size(p);
    uint16_t *values = malloc(size * sizeof *values);
    if (!values) return fail(why, "%s: no memory to write it", path);
    for (size_t i = 0; i < size; i++) {
        const float value = 65535 * p->values[i] + 0.5f;
        values[i] = value >= 65535 ? 65535 : value > 0 ? (uint16_t)value : 0;
    }
    png_image header = {.version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)p->width,
                        .height = (png_uint_32)p->height,
                        .format = PNG_FORMAT_LINEAR_Y};
    const bool written = write_png(path, &header, values, p->width, why);
    free(values);
    return written;
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
