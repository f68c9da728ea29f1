// SPDX-License-Identifier: MIT
#include "formats/zip.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50 }; // signatures
enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, MOST_COMMENT = 65535 };
enum { STORED = 0, DEFLATED = 8, ENCRYPTED = 1 };

static uint32_t number(const uint8_t *at, int bytes) {
    uint32_t value = 0;
    for (int b = bytes; b-- > 0;) value = value << 8 | at[b];
    return value;
}

bool zip_open(zip_archive *zip, const char *path, const uint8_t *bytes, size_t size, fault *why) {
    *zip = (zip_archive){.path = path, .bytes = bytes, .size = size};
    // The end record is the last in the file, but for a comment whose length it gives.
    for (size_t comment = 0; comment <= MOST_COMMENT && size >= END_BYTES + comment; comment++) {
        const uint8_t *const end = bytes + size - END_BYTES - comment;
        if (number(end, 4) != END || number(end + 20, 2) != comment) continue;
        zip->entries = (int)number(end + 10, 2);
        zip->directory = number(end + 16, 4);
        zip->end = (size_t)(end - bytes);
        if (number(end + 4, 4) != 0 || zip->directory > zip->end) break;
        return true;
    }
    return fail(why, "%s: truncated or damaged: at byte %zu: no end of a ZIP archive of one part", path,
                size);
}

// The bytes of a file as the archive has them.
static const uint8_t *packed_bytes(const zip_archive *zip, const uint8_t *entry) {
    const size_t local = number(entry + 42, 4), packed = number(entry + 20, 4);
    if (local > zip->directory || zip->directory - local < LOCAL_BYTES ||
        number(zip->bytes + local, 4) != LOCAL)
        return NULL;
    const size_t begin =
        local + LOCAL_BYTES + number(zip->bytes + local + 26, 2) + number(zip->bytes + local + 28, 2);
    return begin <= zip->directory && packed <= zip->directory - begin ? zip->bytes + begin : NULL;
}

// NULL: there is no such file, or the directory is damaged before it.
static const uint8_t *find_entry(const zip_archive *zip, const char *name) {
    size_t at = zip->directory;
    for (int i = 0; i < zip->entries; i++) {
        const uint8_t *const entry = zip->bytes + at;
        if (zip->end - at < CENTRAL_BYTES || number(entry, 4) != CENTRAL) return NULL;
        const size_t length = number(entry + 28, 2);
        const size_t bytes = CENTRAL_BYTES + length + number(entry + 30, 2) + number(entry + 32, 2);
        if (bytes > zip->end - at) return NULL;
        if (length == strlen(name) && memcmp(entry + CENTRAL_BYTES, name, length) == 0) return entry;
        at += bytes;
    }
    return NULL;
}

static bool unpack(const uint8_t *from, size_t packed, int method, uint8_t *to, size_t count) {
    if (method == STORED) {
        if (packed != count) return false;
        memcpy(to, from, count);
        return true;
    }
    z_stream z = {.next_in = (Bytef *)(uintptr_t)from, // zlib does not write there
                  .avail_in = (uInt)packed,
                  .next_out = to,
                  .avail_out = (uInt)count};
    if (method != DEFLATED || inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    const int result = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return result == Z_STREAM_END && z.avail_out == 0;
}

bool zip_read(const zip_archive *zip, const char *name, size_t most, uint8_t **bytes, size_t *count,
              fault *why) {
    const uint8_t *const entry = find_entry(zip, name);
    if (!entry) return fail(why, "%s: the archive has no file '%.100s'", zip->path, name);
    const uint8_t *const from = packed_bytes(zip, entry);
    *count = number(entry + 24, 4);
    if (!from || number(entry + 8, 2) & ENCRYPTED)
        return fail(why, "%s: '%.100s': not within the archive, or encrypted", zip->path, name);
    if (*count > most)
        return fail(why, "%s: '%.100s': has %zu bytes; at most %zu are read", zip->path, name, *count, most);
    *bytes = malloc(*count + 1);
    if (!*bytes) return fail(why, "%s: '%.100s': no memory for %zu bytes", zip->path, name, *count);
    if (unpack(from, number(entry + 20, 4), (int)number(entry + 10, 2), *bytes, *count) &&
        crc32(0, *bytes, (uInt)*count) == number(entry + 16, 4))
        return true;
    free(*bytes);
    return fail(why, "%s: '%.100s': damaged: it does not unpack to %zu bytes of its checksum", zip->path,
                name, *count);
}

// ---- writing

static void put(zip_writer *zip, uint32_t value, int bytes) {
    for (int b = 0; b < bytes; b++) putc((int)(value >> 8 * b & 255), zip->stream);
    zip->at += (uint64_t)bytes;
}

// Writes the fields of both records from the version on: no flags, no compression, the first day of 1980.
static void put_description(zip_writer *zip, int file) {
    put(zip, 20, 2);
    put(zip, 0, 4);
    put(zip, 0, 2);
    put(zip, 1 << 5 | 1, 2);
    put(zip, zip->file[file].checksum, 4);
    put(zip, zip->file[file].size, 4);
    put(zip, zip->file[file].size, 4);
    put(zip, (uint32_t)strlen(zip->file[file].name), 2);
    put(zip, 0, 2);
}

static void put_bytes(zip_writer *zip, const void *bytes, size_t count) {
    fwrite(bytes, 1, count, zip->stream);
    zip->at += count;
}

bool zip_put(zip_writer *zip, const char *name, const void *bytes, size_t count) {
    enum { RECORDS = 1 << 16 }; // more than all records have
    const int file = zip->files++;
    if (zip->at + count > UINT32_MAX - RECORDS) return false;
    zip->file[file].name = name;
    zip->file[file].checksum = (uint32_t)crc32(0, bytes, (uInt)count);
    zip->file[file].size = (uint32_t)count;
    zip->file[file].at = (uint32_t)zip->at;
    put(zip, LOCAL, 4);
    put_description(zip, file);
    put_bytes(zip, name, strlen(name));
    put_bytes(zip, bytes, count);
    return true;
}

void zip_end(zip_writer *zip) {
    const uint32_t directory = (uint32_t)zip->at;
    for (int file = 0; file < zip->files; file++) {
        put(zip, CENTRAL, 4);
        put(zip, 20, 2);
        put_description(zip, file);
        put(zip, 0, 4); // no comment, the first part
        put(zip, 0, 2);
        put(zip, 0, 4);
        put(zip, zip->file[file].at, 4);
        put_bytes(zip, zip->file[file].name, strlen(zip->file[file].name));
    }
    const uint32_t size = (uint32_t)zip->at - directory;
    put(zip, END, 4);
    put(zip, 0, 4);
    put(zip, (uint32_t)zip->files, 2);
    put(zip, (uint32_t)zip->files, 2);
    put(zip, size, 4);
    put(zip, directory, 4);
    put(zip, 0, 2);
}
