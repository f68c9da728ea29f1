// SPDX-License-Identifier: MIT
// Pictures in files: PNG with libpng, JPEG with libjpeg, PFM. Apart from image.c: what only needs pictures in memory links
// neither library.
#include "image.h"
#include "files/input_file.h"
#include "files/output_file.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h> // after stdio.h
#include <jerror.h>

// A file that is decoded into a picture or into a map. A library that finds damage jumps back to its setjmp, which stands in a
// function of its own: the clean-up behind the jump must not read local variables of the function that called setjmp.
typedef struct decoding {
    struct jpeg_error_mgr jpeg; // first: libjpeg hands its address back
    jmp_buf jpeg_escape;
    input_file file; // its path is NULL: a JPEG is written
    fault *why;
    image *picture; // NULL: a map. Of a picture what follows the rows may be damaged: it is mended then.
    plane *map;
    bool told, whole;   // of PNG: `why` holds the reason already; all rows are read
    bool ended, mended; // of JPEG: the file ends without its marker; it is damaged where no row is
} decoding;

// Opens what is decoded into. Fails if the file is too short for the picture that its header announces, which takes `units`
// units of the format, of which a byte codes at most `units_per_byte`.
static bool open_picture(const decoding *d, int width, int height, int channels, uint64_t units,
                         uint64_t units_per_byte) {
    if (units / units_per_byte > d->file.size)
        return fail(d->why, "%s: damaged: %d x %d pixels announced, which its %" PRIu64 " bytes cannot hold",
                    d->file.path, width, height, d->file.size);
    return (d->map ? plane_open(d->map, width, height, d->why)
                   : image_open(d->picture, width, height, channels, d->why)) ||
           fail(d->why, "%s: %s", d->file.path, d->why->text);
}

// ---- PNG

enum { DEFLATE_RATIO = 1032 }; // the highest that deflate reaches

static void on_png_error(png_structp png, png_const_charp message) {
    decoding *const d = png_get_error_ptr(png);
    if (!d->told)
        fail(d->why, "%s: damaged PNG at byte %" PRIu64 ": %s", d->file.path, d->file.offset, message);
    png_longjmp(png, 1);
}

static void on_png_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static void on_png_read(png_structp png, png_bytep destination, size_t bytes) {
    decoding *const d = png_get_io_ptr(png);
    if (input_file_read(&d->file, destination, bytes, "PNG data", d->why)) return;
    d->told = true;
    png_error(png, "read");
}

// After the header has been read. False after a message, or by png_longjmp.
static bool read_png_rows(png_structp png, png_infop info, const decoding *d) {
    plane *const map = d->map;
    const int width = (int)png_get_image_width(png, info), height = (int)png_get_image_height(png, info);
    const int bits = png_get_bit_depth(png, info), channels = png_get_channels(png, info);
    const uint64_t coded_bytes = (uint64_t)png_get_rowbytes(png, info) * (uint64_t)height;
    if (map && (bits != 16 || png_get_color_type(png, info) != PNG_COLOR_TYPE_GRAY))
        return fail(d->why, "%s: a PNG of %d channel%s of %d bits; it must be gray with 16 bits",
                    d->file.path, channels, channels == 1 ? "" : "s", bits);
    if (!map) {
        // The file's own values, without gamma correction. Palette and gray become RGB, low depths become 8 bits,
        // tRNS becomes alpha.
        png_set_expand(png);
        png_set_scale_16(png);
        png_set_gray_to_rgb(png);
    }
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (!open_picture(d, width, height, png_get_channels(png, info), coded_bytes, DEFLATE_RATIO))
        return false;
    // Of a map two bytes per value, in the second half of the memory: float i ends before pair i + 1 begins.
    uint8_t *const rows = map ? (uint8_t *)map->values + coded_bytes : d->picture->pixels;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_read_row(png, rows + (size_t)y * png_get_rowbytes(png, info), NULL);
    for (size_t i = 0; map && i < plane_size(map); i++)
        map->values[i] = (float)(256 * rows[2 * i] + rows[2 * i + 1]) / 65535.0f;
    return true;
}

static bool read_png(png_structp png, png_infop info, decoding *d) {
    if (setjmp(png_jmpbuf(png))) // what lies behind the rows is damaged or missing, but could be read
        return d->whole && d->picture && !ferror(d->file.stream) && (d->picture->mended = true);
    png_set_read_fn(png, d, on_png_read);
    png_set_user_limits(png, IMAGE_MAX_SIZE, IMAGE_MAX_SIZE);
    png_read_info(png, info);
    d->whole = read_png_rows(png, info, d);
    if (d->whole) png_read_end(png, NULL);
    return d->whole;
}

static bool decode_png(decoding *d) {
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_png_error, on_png_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const bool ok = info ? read_png(png, info, d) : fail(d->why, "%s: no memory to decode it", d->file.path);
    png_destroy_read_struct(&png, &info, NULL);
    return ok;
}

static png_image png_header(const image *picture) {
    return (png_image){.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)picture->width,
                       .height = (png_uint_32)picture->height,
                       .format = picture->channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB};
}

// Rows follow each other without a gap.
static bool write_png(const char *path, png_image header, const void *pixels, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    errno = 0;
    if (png_image_write_to_stdio(&header, file.stream, 0, pixels, 0, NULL))
        return output_file_commit(&file, why);
    fail(why, "%s: cannot write: %s", path, errno ? strerror(errno) : header.message);
    output_file_discard(&file);
    return false;
}

bool image_write_png(const char *path, const image *picture, fault *why) {
    return write_png(path, png_header(picture), picture->pixels, why);
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
    png_image header = png_header(&(image){.width = p->width, .height = p->height});
    header.format = PNG_FORMAT_LINEAR_Y;
    const bool written = write_png(path, header, values, why);
    free(values);
    return written;
}

bool image_encode_png(const image *picture, uint8_t **bytes, size_t *count, fault *why) {
    png_image header = png_header(picture);
    png_alloc_size_t room = PNG_IMAGE_PNG_SIZE_MAX(header);
    *bytes = malloc(room);
    if (!*bytes) return fail(why, "no memory for a PNG of %d x %d pixels", picture->width, picture->height);
    const bool done = png_image_write_to_memory(&header, *bytes, &room, 0, picture->pixels, 0, NULL);
    *count = room;
    if (done) return true;
    free(*bytes);
    *bytes = NULL;
    return fail(why, "cannot encode a picture: %s", header.message);
}

// ---- JPEG. Damage that libjpeg would conceal is an error, unless every row is whole.

// An upper bound for files with Huffman codes: the DC coefficient of a block of 8 x 8 samples takes at least
// one bit. The other 63 coefficients may come later or never. libjpeg keeps 128 bytes for every block of a
// progressive file, so at most 1,024 times the file's size. A block covers 64 pixels, or up to 128 if one
// component has a quarter of the columns and another a quarter of the rows.
enum { BLOCKS_PER_BYTE = 8 };

static void on_jpeg_error(j_common_ptr common) {
    decoding *const d = (decoding *)common->err;
    char message[JMSG_LENGTH_MAX];
    common->err->format_message(common, message);
    if (d->file.path) // ftello gives the end of libjpeg's buffer; the damage lies before it
        fail(d->why, "%s: damaged JPEG before byte %" PRId64 ": %s", d->file.path,
             (int64_t)ftello(d->file.stream), message);
    else
        fail(d->why, "cannot write a JPEG: %s", message);
    longjmp(d->jpeg_escape, 1);
}

static void on_jpeg_message(j_common_ptr common, int level) {
    if (level >= 0) return; // a trace
    const int code = common->err->msg_code;
    if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR)
        return; // harmless
    // Some telephones give a scan with all coefficients the numbers of others, and put data of their own in place of the
    // end. If bits of a row are missing, libjpeg says so by another warning.
    decoding *const d = (decoding *)common->err;
    d->ended |= code == JWRN_JPEG_EOF;
    if (code != JWRN_JPEG_EOF && code != JWRN_NOT_SEQUENTIAL) on_jpeg_error(common);
    d->mended = true;
}

// Whether a file that ended early has all its scans. A sequential file of several scans does not say how many.
static bool has_all_scans(struct jpeg_decompress_struct *jpeg) {
    bool all = jpeg->progressive_mode || !jpeg_has_multiple_scans(jpeg);
    for (int c = 0; c < jpeg->num_components && jpeg->progressive_mode; c++)
        for (int k = 0; k < DCTSIZE2; k++) all &= jpeg->coef_bits[c][k] == 0; // known to its last bit
    return all;
}

static bool read_jpeg(struct jpeg_decompress_struct *jpeg, decoding *d) {
    if (setjmp(d->jpeg_escape)) return false;
    jpeg_create_decompress(jpeg);
    jpeg_stdio_src(jpeg, d->file.stream);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        return fail(d->why, "%s: a CMYK picture; only RGB and gray can be read", d->file.path);
    jpeg->out_color_space = JCS_RGB;
    uint64_t blocks = 0;
    for (int i = 0; i < jpeg->num_components; i++)
        blocks += (uint64_t)jpeg->comp_info[i].width_in_blocks * jpeg->comp_info[i].height_in_blocks;
    if (!open_picture(d, (int)jpeg->image_width, (int)jpeg->image_height, 3, blocks, BLOCKS_PER_BYTE))
        return false;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = d->picture->pixels + (size_t)jpeg->output_scanline * (size_t)d->picture->width * 3;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    if (d->ended && !has_all_scans(jpeg))
        return fail(d->why, "%s: truncated at byte %" PRIu64 ": scans are missing", d->file.path,
                    d->file.size);
    jpeg_finish_decompress(jpeg);
    return true;
}

static bool decode_jpeg(decoding *d) {
    struct jpeg_decompress_struct jpeg = {.err = jpeg_std_error(&d->jpeg)};
    d->jpeg.error_exit = on_jpeg_error;
    d->jpeg.emit_message = on_jpeg_message;
    const bool ok =
        read_jpeg(&jpeg, d) && input_file_check(&d->file, "JPEG", d->why); // to libjpeg a fault is an end
    jpeg_destroy_decompress(&jpeg);
    d->picture->mended = ok && d->mended;
    return ok;
}

static bool encode(struct jpeg_compress_struct *jpeg, decoding *d, const image *picture, int quality,
                   uint8_t **bytes, unsigned long *count) {
    if (setjmp(d->jpeg_escape)) return false;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, bytes, count);
    jpeg->image_width = (JDIMENSION)picture->width;
    jpeg->image_height = (JDIMENSION)picture->height;
    jpeg->input_components = picture->channels;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = picture->pixels + (size_t)jpeg->next_scanline * (size_t)picture->width * 3;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    return true;
}

bool image_encode_jpeg(const image *picture, int quality, uint8_t **bytes, size_t *count, fault *why) {
    *bytes = NULL;
    *count = 0;
    if (picture->channels != 3) return fail(why, "a JPEG of %d channels: there must be 3", picture->channels);
    decoding d = {.why = why};
    struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&d.jpeg)};
    d.jpeg.error_exit = on_jpeg_error;
    unsigned long size = 0;
    const bool done = encode(&jpeg, &d, picture, quality, bytes, &size);
    jpeg_destroy_compress(&jpeg);
    *count = size;
    if (!done) free(*bytes), *bytes = NULL;
    return done;
}

// ---- PFM

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "floats are copied as a little-endian file has them");

static bool decode_pfm(decoding *d) {
    input_file *const file = &d->file;
    const plane *const out = d->map;
    int width, height;
    double scale;
    char behind[3]; // each number; a number of more digits than IMAGE_MAX_SIZE has one of them there
    const int read = fscanf(file->stream, "%*2c%5d%c%5d%c%lf%c", &width, &behind[0], &height, &behind[1],
                            &scale, &behind[2]);
    file->offset = (uint64_t)ftello(file->stream);
    if (read < 6 && (feof(file->stream) || ferror(file->stream)))
        return input_file_check(file, "the PFM header", d->why) &&
               input_file_read(file, behind, 1, "the PFM header", d->why); // fails, as the file has ended
    if (read < 6 || !isspace((unsigned char)behind[0]) || !isspace((unsigned char)behind[1]) ||
        !(scale < 0 || scale > 0))
        return fail(d->why,
                    "%s: before byte %" PRIu64
                    ": not a PFM header, which is Pf, whole width and height, and a "
                    "scale other than 0",
                    file->path, file->offset);
    const uint64_t bytes = (uint64_t)width * (uint64_t)height * sizeof(float),
                   rest = file->size - file->offset;
    if (!open_picture(d, width, height, 1, bytes, 1)) return false;
    if (rest != bytes)
        return fail(d->why,
                    "%s: truncated or damaged: %d x %d values announced, which take %" PRIu64
                    " bytes; %" PRIu64 " follow byte %" PRIu64,
                    file->path, width, height, bytes, rest, file->offset);
    for (int y = height - 1; y >= 0; y--)
        if (!input_file_read(file, out->values + (size_t)y * (size_t)width, (size_t)width * sizeof(float),
                             "PFM values", d->why))
            return false;
    for (size_t i = 0; scale > 0 && i < plane_size(out); i++) { // big-endian
        uint32_t bits;
        memcpy(&bits, &out->values[i], sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(&out->values[i], &bits, sizeof bits);
    }
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

// Reads a file with the decoder that its first bytes ask for, into the one that is not NULL and was {0}.
static bool read_any(const char *path, image *picture, plane *map, fault *why) {
    decoding d = {.why = why, .picture = picture, .map = map};
    char first[8];
    const size_t count = map ? 2 : sizeof first;
    if (!input_file_open(&d.file, path, why)) return false;
    bool done =
        input_file_read(&d.file, first, count, map ? "the map's signature" : "the image's signature", why);
    if (done) {
        rewind(d.file.stream);
        d.file.offset = 0;
        if (memcmp(first, "\x89PNG\r\n\x1a\n", count) == 0)
            done = decode_png(&d);
        else if (picture && memcmp(first, "\xff\xd8\xff", 3) == 0)
            done = decode_jpeg(&d);
        else if (map && memcmp(first, "Pf", 2) == 0)
            done = decode_pfm(&d);
        else if (map && memcmp(first, "PF", 2) == 0)
            done = fail(why, "%s: a PFM of colours (PF); it must be gray (Pf)", path);
        else
            done = fail(why, "%s: neither PNG nor %s (by its first bytes)", path, map ? "PFM" : "JPEG");
    }
    input_file_close(&d.file);
    if (!done && picture) image_close(picture);
    if (!done && map) plane_close(map);
    return done;
}

bool image_read(const char *path, image *out, fault *why) {
    *out = (image){0};
    return read_any(path, out, NULL, why);
}

bool plane_read(const char *path, plane *out, fault *why) {
    *out = (plane){0};
    return read_any(path, NULL, out, why);
}
