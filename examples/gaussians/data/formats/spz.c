// SPDX-License-Identifier: MIT
// Scenes as SPZ files (github.com/nianticlabs/spz): six parts, an attribute each, in few bytes. Versions 2 and 3 are
// one gzip stream, version 4 has a zstd stream for each part. Axes: x right, y up, z back; ours have y and z reversed. Of
// degree 4, which only files have, the coefficients are dropped. Version 1, of before its publication, is refused.
#include "formats/formats.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { POSITIONS, ALPHAS, COLORS, SCALES, ROTATIONS, HARMONICS, PARTS };
enum { ANTIALIASED = 1, EXTENDED = 2 }; // flags
enum { MAGIC = 0x5053474e, FIRST_VERSION = 2, DEFAULT_VERSION = 3, LAST_VERSION = 4 };
enum { MOST_FRACTION_BITS = 16, FILE_DEGREES = 4 };

typedef struct spz_header {
    uint32_t magic, version, count;
    uint8_t degree, fraction_bits, flags;
    uint8_t streams; // of version 4; before it 0
} spz_header;
_Static_assert(sizeof(spz_header) == 16, "it is read and written as it lies in memory");

// The part after the header, in version 4.
typedef struct spz_place {
    uint32_t contents; // the byte at which the sizes of the streams begin
    uint32_t reserved[3];
} spz_place;

typedef struct stream_size {
    uint64_t compressed, bytes;
} stream_size;

// The parts, one after another in a block, behind room for the header.
typedef struct spz_parts {
    uint8_t *block, *part[PARTS];
    uint64_t each[PARTS], bytes[PARTS], total; // each: of a Gaussian
} spz_parts;

// Makes a block for the parts, of a file of `size` bytes that is read.
static bool open_parts(const char *path, uint64_t size, const spz_header *h, spz_parts *parts, fault *why) {
    *parts = (spz_parts){.each = {[POSITIONS] = 9,
                                  [ALPHAS] = 1,
                                  [COLORS] = 3,
                                  [SCALES] = 3,
                                  [ROTATIONS] = h->version < 3 ? 3 : 4,
                                  [HARMONICS] = 3 * (uint64_t)(coefficients(h->degree) - 1)}};
    for (int p = 0; p < PARTS; p++) parts->total += parts->bytes[p] = parts->each[p] * h->count;
    if (!is_plausible(path, size, parts->total, why)) return false;
    uint8_t *at = parts->block = malloc(sizeof *h + (size_t)parts->total);
    if (!at) return fail(why, "%s: no memory for %" PRIu64 " bytes", path, parts->total);
    at += sizeof *h;
    for (int p = 0; p < PARTS; at += parts->bytes[p++]) parts->part[p] = at;
    return true;
}

// The sign of each coefficient after the first where y and z are reversed.
static const int8_t sign_of_harmonic[15] = {-1, -1, 1, -1, 1, 1, -1, 1, -1, 1, -1, -1, 1, -1, 1};

// As many bytes as zlib takes at once.
static uInt least_of(uint64_t bytes) {
    return (uInt)(bytes < 1 << 30 ? bytes : 1 << 30);
}

// ---- reading

// A Gaussian's, to x, y, z, w.
static void read_rotation(const uint8_t *r, uint32_t version, float q[4]) {
    double three[3];
    uint32_t word;
    if (version < 3) {
        for (int k = 0; k < 3; k++) three[k] = r[k] / 127.5 - 1;
        quaternion_from_three(3, three, q);
        return;
    }
    memcpy(&word, r, sizeof word);
    for (int k = 0; k < 3; k++) {
        const uint32_t ten = word >> (20 - 10 * k) & 1023;
        three[k] = (ten & 511) * sqrt(0.5) / 511 * (ten & 512 ? -1 : 1);
    }
    quaternion_from_three((int)(word >> 30), three, q);
}

static void unpack(const spz_header *h, const spz_parts *from, gs_gaussians *out) {
    const int kept = coefficients(out->sh_degree), in_file = coefficients(h->degree) - 1;
    out->antialias = h->flags & ANTIALIASED;
    for (int64_t i = 0; i < out->count; i++) {
        float q[4];
        for (int k = 0; k < 3; k++) {
            const int64_t at = 3 * i + k;
            int32_t bits = 0; // a fixed point at the upper end
            memcpy((uint8_t *)&bits + 1, from->part[POSITIONS] + 3 * at, 3);
            const float x = (float)ldexp(bits / 256, -h->fraction_bits);
            out->mean[at] = k == 0 ? x : -x;
            out->log_scale[at] = (float)(from->part[SCALES][at] / 16.0 - 10);
            out->sh[i * kept * 3 + k] = (float)((from->part[COLORS][at] / 255.0 - 0.5) / 0.15);
        }
        out->opacity_logit[i] = byte_logit(from->part[ALPHAS][i]);
        read_rotation(from->part[ROTATIONS] + (uint64_t)i * from->each[ROTATIONS], h->version, q);
        for (int k = 0; k < 4; k++) out->quaternion[4 * i + k] = k < 2 ? q[(k + 3) % 4] : -q[k - 1];
        const uint8_t *const sh = from->part[HARMONICS] + i * in_file * 3;
        for (int k = 0; k < 3 * (kept - 1); k++)
            out->sh[i * kept * 3 + 3 + k] = (float)(sign_of_harmonic[k / 3] * (sh[k] - 128) / 128.0);
    }
}

static bool check_header(const input_file *file, const spz_header *h, bool gzip, fault *why) {
    if (h->magic != MAGIC) return fail(why, "%s: at byte 0: not an SPZ file", file->path);
    if (h->version < FIRST_VERSION || h->version > LAST_VERSION || (h->version < 4) != gzip)
        return fail(why, "%s: at byte 4: version %" PRIu32 " of SPZ, %s gzip; %d to %d can be read",
                    file->path, h->version, gzip ? "in" : "without", FIRST_VERSION, LAST_VERSION);
    if (h->count > INT32_MAX)
        return fail(why, "%s: at byte 8: %" PRIu32 " Gaussians are too many", file->path, h->count);
    if (h->degree > FILE_DEGREES || h->fraction_bits > 30)
        return fail(why, "%s: at byte 12: SH degree %d, %d fractional bits; at most %d and 30 can be read",
                    file->path, h->degree, h->fraction_bits, FILE_DEGREES);
    return true;
}

// Unpacks at most `bytes` bytes of gzip, which ends at `end`; *got: fewer only at the end of the stream. False: it is
// damaged or cut off.
static bool inflate_some(z_stream *z, const uint8_t *end, void *to, size_t bytes, size_t *got) {
    int result = Z_OK;
    for (*got = 0; result == Z_OK && *got < bytes;) {
        const uInt room = least_of(bytes - *got);
        z->avail_in = least_of((size_t)(end - z->next_in));
        z->next_out = (uint8_t *)to + *got;
        z->avail_out = room;
        result = inflate(z, Z_NO_FLUSH);
        *got += room - z->avail_out;
    }
    return result == Z_OK || result == Z_STREAM_END;
}

static bool inflate_parts(z_stream *z, const uint8_t *end, const spz_header *h, const spz_parts *parts) {
    uint8_t rest[4096];
    size_t got;
    if (!inflate_some(z, end, parts->part[0], (size_t)parts->total, &got) || got < parts->total) return false;
    do {
        if (!inflate_some(z, end, rest, sizeof rest, &got) || (got > 0 && !(h->flags & EXTENDED)))
            return false; // only extensions may follow
    } while (got == sizeof rest);
    return z->next_in == end;
}

static bool read_gzip(const input_file *file, const uint8_t *bytes, size_t size, spz_header *h,
                      spz_parts *parts, fault *why) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes}; // zlib does not write there
    const uint8_t *const end = bytes + size;
    char what[40] = "the header";
    size_t got;
    bool refused = false;
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return fail(why, "%s: no memory for zlib", file->path);
    bool done = inflate_some(&z, end, h, sizeof *h, &got) && got == sizeof *h;
    if (done) {
        snprintf(what, sizeof what, "%" PRIu32 " Gaussians", h->count);
        refused = !check_header(file, h, true, why) || !open_parts(file->path, file->size, h, parts, why);
        done = !refused && inflate_parts(&z, end, h, parts);
    }
    inflateEnd(&z);
    return done || (!refused && fail(why, "%s: truncated or damaged at byte %zu while unpacking %s",
                                     file->path, (size_t)(z.next_in - bytes), what));
}

static bool read_zstd(const input_file *file, const uint8_t *bytes, size_t size, spz_header *h,
                      spz_parts *parts, fault *why) {
    spz_place place;
    const size_t begin = sizeof *h + sizeof place;
    if (size < begin)
        return fail(why, "%s: truncated at byte %zu while reading the header", file->path, size);
    memcpy(h, bytes, sizeof *h);
    memcpy(&place, bytes + sizeof *h, sizeof place);
    if (!check_header(file, h, false, why)) return false;
    if (place.contents < begin || place.contents > size ||
        h->streams > (size - place.contents) / sizeof(stream_size))
        return fail(why, "%s: truncated or damaged: %d streams at byte %" PRIu32 " of %zu", file->path,
                    h->streams, place.contents, size);
    if (!open_parts(file->path, file->size, h, parts, why)) return false;
    size_t at = place.contents + h->streams * sizeof(stream_size);
    int stream = 0;
    for (int p = 0; p < PARTS; p++) {
        stream_size s = {0, 0};
        const bool more = stream < h->streams;
        if (more) memcpy(&s, bytes + place.contents + (size_t)stream * sizeof s, sizeof s);
        if (parts->bytes[p] == 0 && (!more || s.bytes > 0)) continue; // empty ones may be left out
        bool whole = more && s.bytes == parts->bytes[p] && s.compressed <= size - at;
        if (whole) {
            whole = ZSTD_decompress(parts->part[p], s.bytes, bytes + at, s.compressed) == s.bytes;
            at += s.compressed;
        }
        if (!whole)
            return fail(why,
                        "%s: truncated or damaged at byte %zu: stream %d does not hold %" PRIu64 " bytes",
                        file->path, at, p, parts->bytes[p]);
        stream++;
    }
    return (stream == h->streams && at == size) ||
           fail(why, "%s: %zu bytes follow the last stream, at byte %zu", file->path, size - at, at);
}

static bool spz_read(input_file *file, gs_gaussians *out, fault *why) {
    uint8_t *bytes;
    size_t size;
    spz_header h;
    spz_parts parts = {.total = 0};
    if (!read_rest(file, "the scene", &bytes, &size, why)) return false;
    const bool gzip = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
    bool done = (gzip ? read_gzip : read_zstd)(file, bytes, size, &h, &parts, why);
    free(bytes);
    done = done && scene_open(out, h.count, h.degree < GS_MAX_SH_DEGREE ? h.degree : GS_MAX_SH_DEGREE, why);
    if (done) unpack(&h, &parts, out);
    if (done && h.degree > GS_MAX_SH_DEGREE)
        fprintf(stderr, "dsplat: %s: SH degree %d is read to degree %d\n", file->path, h.degree,
                GS_MAX_SH_DEGREE);
    free(parts.block);
    return done;
}

// ---- writing

static void write_rotation(const float q[4], uint32_t version, uint8_t *to) {
    double unit[4], three[3];
    quaternion_unit(q, unit);
    const double theirs[4] = {unit[1], -unit[2], -unit[3], unit[0]};
    if (version < 3) {
        for (int k = 0; k < 3; k++) to[k] = to_byte(127.5 + 127.5 * (unit[0] < 0 ? -theirs[k] : theirs[k]));
        return;
    }
    uint32_t word = (uint32_t)quaternion_to_three(theirs, three);
    for (int k = 0; k < 3; k++)
        word = word << 10 | (three[k] < 0 ? 512u : 0) |
               (uint32_t)lrint(511 * fmin(fabs(three[k]) / sqrt(0.5), 1));
    memcpy(to, &word, sizeof word);
}

// The nearest of 0..255.
static uint8_t byte_of(double value, clamped *c, int kind) {
    clamped_note(c, kind, fmax(value - 255, -value) * clamped_steps[kind]);
    return to_byte(value);
}

static void pack(const spz_header *h, const gs_gaussians *g, const spz_parts *to, const char *path) {
    clamped outside[CLAMPED] = {{0}};
    const int kept = coefficients(g->sh_degree);
    for (int64_t i = 0; i < g->count; i++) {
        for (int k = 0; k < 3; k++) {
            const int64_t at = 3 * i + k;
            const double place = ldexp(k == 0 ? g->mean[at] : -g->mean[at], h->fraction_bits);
            const double color = g->sh[i * kept * 3 + k] * 0.15 + 0.5;
            const int32_t fixed = (int32_t)lrint(place);
            memcpy(to->part[POSITIONS] + 3 * at, &fixed, 3);
            to->part[SCALES][at] = byte_of((g->log_scale[at] + 10.0) * 16, outside, CLAMPED_SCALES);
            to->part[COLORS][at] = byte_of(color * 255, outside, CLAMPED_COLORS);
        }
        to->part[ALPHAS][i] = opacity_byte(g, i);
        write_rotation(g->quaternion + 4 * i, h->version,
                       to->part[ROTATIONS] + (uint64_t)i * to->each[ROTATIONS]);
        // Degree 1 in 5 bits, the others in 4: the format's usual precision, which compresses well.
        for (int k = 0; k < 3 * (kept - 1); k++) {
            const int step = k < 9 ? 8 : 16;
            const double value = sign_of_harmonic[k / 3] * g->sh[i * kept * 3 + 3 + k];
            to->part[HARMONICS][i * (kept - 1) * 3 + k] =
                byte_of(128 + step * rint(value * 128 / step), outside, CLAMPED_HARMONICS);
        }
    }
    clamped_say(outside, path, ".spz");
}

static bool write_gzip(const output_file *file, const spz_header *h, const spz_parts *parts, fault *why) {
    z_stream z = {.next_in = NULL};
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return fail(why, "%s: no memory for zlib", file->path);
    const uint8_t *from = memcpy(parts->block, h, sizeof *h);
    uint8_t out[1 << 14];
    for (uint64_t left = sizeof *h + parts->total; left > 0;) {
        z.next_in = (Bytef *)(uintptr_t)from; // zlib does not write there
        z.avail_in = least_of(left);
        from += z.avail_in;
        left -= z.avail_in;
        do {
            z.next_out = out;
            z.avail_out = sizeof out;
            deflate(&z, left == 0 ? Z_FINISH : Z_NO_FLUSH);
            fwrite(out, 1, sizeof out - z.avail_out, file->stream); // the stream remembers errors
        } while (z.avail_out == 0);
    }
    deflateEnd(&z);
    return true;
}

static bool write_zstd(const output_file *file, const spz_header *h, const spz_parts *parts, fault *why) {
    enum { LEVEL = 12 };
    const spz_place place = {.contents = sizeof *h + sizeof place};
    spz_header counted = *h;
    stream_size sizes[PARTS];
    size_t room = 0, used = 0;
    for (int p = 0; p < PARTS; p++) room += ZSTD_compressBound((size_t)parts->bytes[p]);
    uint8_t *const packed = malloc(room);
    bool done = packed != NULL;
    for (int p = 0; p < PARTS && done; p++) {
        const size_t bytes = (size_t)parts->bytes[p];
        if (bytes == 0) continue;
        const size_t got = ZSTD_compress(packed + used, room - used, parts->part[p], bytes, LEVEL);
        done = !ZSTD_isError(got);
        sizes[counted.streams++] = (stream_size){got, bytes};
        used += done ? got : 0;
    }
    if (done) { // the stream remembers errors
        fwrite(&counted, sizeof counted, 1, file->stream);
        fwrite(&place, sizeof place, 1, file->stream);
        fwrite(sizes, sizeof *sizes, counted.streams, file->stream);
        fwrite(packed, 1, used, file->stream);
    }
    free(packed);
    return done || fail(why, "%s: no memory for zstd", file->path);
}

static bool spz_write(const output_file *file, const gs_gaussians *scene, int variant, fault *why) {
    double farthest = 0;
    for (int64_t i = 0; i < 3 * scene->count; i++) farthest = fmax(farthest, fabs((double)scene->mean[i]));
    int bits =
        MOST_FRACTION_BITS; // of the 24 of a coordinate those behind the point: the most with which it fits
    while (bits >= 0 && ldexp(farthest, bits) > (1 << 23) - 1) bits--;
    if (bits < 0) return fail(why, "%s: not written: a mean is beyond 2^23, too far for SPZ", file->path);
    const spz_header h = {.magic = MAGIC,
                          .version = variant ? (uint32_t)variant : DEFAULT_VERSION,
                          .count = (uint32_t)scene->count,
                          .degree = (uint8_t)scene->sh_degree,
                          .fraction_bits = (uint8_t)bits,
                          .flags = scene->antialias ? ANTIALIASED : 0};
    spz_parts parts;
    if (!open_parts(file->path, INT64_MAX, &h, &parts, why)) return false;
    pack(&h, scene, &parts, file->path);
    const bool done = (h.version < 4 ? write_gzip : write_zstd)(file, &h, &parts, why);
    free(parts.block);
    return done;
}

const scene_format spz_format = {
    .suffix = ".spz", .marks = {"\x1f\x8b", "NGSP"}, .read = spz_read, .write = spz_write};
