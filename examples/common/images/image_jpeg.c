// SPDX-License-Identifier: MIT
// Reads and writes JPEG with libjpeg. Damage that libjpeg would conceal is an error, unless every row is whole.
#include "image_codec.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h> // jpeglib.h needs it
#include <stdlib.h>
#include <jpeglib.h>
#include <jerror.h>

// An upper bound for files with Huffman codes: the DC coefficient of a block of 8 x 8 samples takes at least
// one bit. The other 63 coefficients may come later or never. libjpeg keeps 128 bytes for every block of a
// progressive file, so at most 1,024 times the file's size. A block covers 64 pixels, or up to 128 if one
// component has a quarter of the columns and another a quarter of the rows.
enum { BLOCKS_PER_BYTE = 8 };

typedef struct jpeg_trap {
    struct jpeg_error_mgr base; // first: libjpeg hands its address back
    jmp_buf escape;
    input_file *file;
    fault *why;
    bool ended, mended; // the file ends without its marker; it is damaged where no row is
} jpeg_trap;

static void on_error(j_common_ptr common) {
    jpeg_trap *trap = (jpeg_trap *)common->err;
    char message[JMSG_LENGTH_MAX];
    trap->base.format_message(common, message);
    // ftello gives the end of libjpeg's buffer; the damage lies before it.
    fail(trap->why, "%s: damaged JPEG before byte %" PRId64 ": %s", trap->file->path,
         (int64_t)ftello(trap->file->stream), message);
    longjmp(trap->escape, 1);
}

static void on_message(j_common_ptr common, int level) {
    if (level >= 0) return; // a trace
    const int code = common->err->msg_code;
    if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR)
        return; // harmless
    // Some telephones give a scan with all coefficients the numbers of others, and put data of their own in place of the
    // end. If bits of a row are missing, libjpeg says so by another warning.
    jpeg_trap *const trap = (jpeg_trap *)common->err;
    trap->ended |= code == JWRN_JPEG_EOF;
    if (code != JWRN_JPEG_EOF && code != JWRN_NOT_SEQUENTIAL) on_error(common);
    trap->mended = true;
}

// Whether a file that ended early has all its scans. A sequential file of several scans does not say how many.
static bool has_all_scans(struct jpeg_decompress_struct *jpeg) {
    if (!jpeg->progressive_mode) return !jpeg_has_multiple_scans(jpeg);
    for (int c = 0; c < jpeg->num_components; c++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (jpeg->coef_bits[c][k] != 0) return false; // not known to its last bit
    return true;
}

// After the header has been read.
static uint64_t block_count(const struct jpeg_decompress_struct *jpeg) {
    uint64_t blocks = 0;
    for (int i = 0; i < jpeg->num_components; i++)
        blocks += (uint64_t)jpeg->comp_info[i].width_in_blocks * jpeg->comp_info[i].height_in_blocks;
    return blocks;
}

// A function of its own: after longjmp the clean-up must not read local variables of the function that called
// setjmp.
static bool decode(struct jpeg_decompress_struct *jpeg, jpeg_trap *trap, image *out) {
    if (setjmp(trap->escape)) return false;
    jpeg_create_decompress(jpeg);
    jpeg_stdio_src(jpeg, trap->file->stream);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        return fail(trap->why, "%s: a CMYK picture; only RGB and gray can be read", trap->file->path);
    jpeg->out_color_space = JCS_RGB;
    if (!image_open_for(trap->file, block_count(jpeg), BLOCKS_PER_BYTE, (int)jpeg->image_width,
                        (int)jpeg->image_height, 3, out, trap->why))
        return false;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = out->pixels + (size_t)jpeg->output_scanline * (size_t)out->width * 3;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    if (trap->ended && !has_all_scans(jpeg))
        return fail(trap->why, "%s: truncated at byte %" PRIu64 ": scans are missing", trap->file->path,
                    trap->file->size);
    jpeg_finish_decompress(jpeg);
    return true;
}

bool image_decode_jpeg(input_file *file, void *out, fault *why) {
    jpeg_trap trap = {.file = file, .why = why};
    struct jpeg_decompress_struct jpeg = {.err = jpeg_std_error(&trap.base)};
    trap.base.error_exit = on_error;
    trap.base.emit_message = on_message;
    const bool ok =
        decode(&jpeg, &trap, out) && input_file_check(file, "JPEG", why); // to libjpeg a fault is an end
    jpeg_destroy_decompress(&jpeg);
    ((image *)out)->mended = ok && trap.mended;
    return ok;
}

static void on_encoding_error(j_common_ptr common) {
    jpeg_trap *trap = (jpeg_trap *)common->err;
    char message[JMSG_LENGTH_MAX];
    trap->base.format_message(common, message);
    fail(trap->why, "cannot write a JPEG: %s", message);
    longjmp(trap->escape, 1);
}

// A function of its own, as decode is.
static bool encode(struct jpeg_compress_struct *jpeg, jpeg_trap *trap, const image *picture, int quality,
                   uint8_t **bytes, unsigned long *count) {
    if (setjmp(trap->escape)) return false;
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
    jpeg_trap trap = {.why = why};
    struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&trap.base)};
    trap.base.error_exit = on_encoding_error;
    unsigned long size = 0;
    const bool done = encode(&jpeg, &trap, picture, quality, bytes, &size);
    jpeg_destroy_compress(&jpeg);
    *count = size;
    if (done) return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}
