// SPDX-License-Identifier: MIT
// ZIP archives. Their records lie in memory as in the file: little-endian, without padding.
#include "formats/formats.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50 }; // signatures
enum { MOST_COMMENT = 65535, STORED = 0, DEFLATED = 8, ENCRYPTED = 1 };

// What a file's local record and its entry in the directory share.
typedef struct __attribute__((packed)) zip_file {
    uint16_t version, flags, method, time, date;
    uint32_t checksum, packed, bytes;
    uint16_t name, extra; // bytes behind the record
} zip_file;

typedef struct __attribute__((packed)) local_record {
    uint32_t signature;
    zip_file file;
} local_record;

typedef struct __attribute__((packed)) zip_entry {
    uint32_t signature;
    uint16_t made_by;
    zip_file file;
    uint16_t comment, part, kind;
    uint32_t attributes, local; // local: the byte of the local record
} zip_entry;

typedef struct __attribute__((packed)) end_record {
    uint32_t signature;
    uint16_t part, part_of_directory, entries_of_part, entries;
    uint32_t bytes, directory; // of the directory; its first byte
    uint16_t comment;
} end_record;
_Static_assert(sizeof(local_record) == 30 && sizeof(zip_entry) == 46 && sizeof(end_record) == 22,
               "they are read and written as they lie in memory");

bool zip_open(zip_archive *zip, const char *path, const uint8_t *bytes, size_t size, fault *why) {
    end_record end;
    *zip = (zip_archive){.path = path, .bytes = bytes, .size = size};
    // The end record is the last in the file, but for a comment whose length it gives.
    for (size_t comment = 0; comment <= MOST_COMMENT && size >= sizeof end + comment; comment++) {
        zip->end = size - sizeof end - comment;
        memcpy(&end, bytes + zip->end, sizeof end);
        if (end.signature != END || end.comment != comment) continue;
        zip->entries = end.entries, zip->directory = end.directory;
        if (end.part != 0 || end.part_of_directory != 0 || zip->directory > zip->end) break;
        return true;
    }
    return fail(why, "%s: truncated or damaged: at byte %zu: no end of a ZIP archive of one part", path,
                size);
}

// False: there is no such file, or the directory is damaged before it.
static bool find_entry(const zip_archive *zip, const char *name, zip_entry *out) {
    size_t at = zip->directory;
    for (int i = 0; i < zip->entries && zip->end - at >= sizeof *out; i++) {
        const uint8_t *const own_name = zip->bytes + at + sizeof *out;
        memcpy(out, zip->bytes + at, sizeof *out);
        at += sizeof *out + out->file.name + out->file.extra + out->comment;
        if (out->signature != CENTRAL || at > zip->end) return false;
        if (out->file.name == strlen(name) && memcmp(own_name, name, out->file.name) == 0) return true;
    }
    return false;
}

// The bytes of a file as the archive has them; NULL: they do not lie before the directory.
static const uint8_t *packed_bytes(const zip_archive *zip, const zip_entry *entry) {
    local_record local;
    if (entry->local > zip->directory || zip->directory - entry->local < sizeof local) return NULL;
    memcpy(&local, zip->bytes + entry->local, sizeof local);
    const size_t begin = entry->local + sizeof local + local.file.name + local.file.extra;
    const bool inside = begin <= zip->directory && entry->file.packed <= zip->directory - begin;
    return local.signature == LOCAL && inside ? zip->bytes + begin : NULL;
}

static bool unpack(const zip_file *file, const uint8_t *from, uint8_t *to) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)from, // zlib does not write there
                  .avail_in = file->packed,
                  .next_out = to,
                  .avail_out = file->bytes};
    if (file->method == STORED) {
        if (file->packed == file->bytes) memcpy(to, from, file->bytes);
        return file->packed == file->bytes;
    }
    if (file->method != DEFLATED || inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    const int result = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return result == Z_STREAM_END && z.avail_out == 0;
}

bool zip_read(const zip_archive *zip, const char *name, size_t most, uint8_t **bytes, size_t *count,
              fault *why) {
    zip_entry entry;
    if (!find_entry(zip, name, &entry))
        return fail(why, "%s: the archive has no file '%.100s'", zip->path, name);
    const uint8_t *const from = packed_bytes(zip, &entry);
    *count = entry.file.bytes;
    if (!from || entry.file.flags & ENCRYPTED)
        return fail(why, "%s: '%.100s': not within the archive, or encrypted", zip->path, name);
    if (*count > most)
        return fail(why, "%s: '%.100s': has %zu bytes; at most %zu are read", zip->path, name, *count, most);
    *bytes = malloc(*count + 1);
    if (!*bytes) return fail(why, "%s: '%.100s': no memory for %zu bytes", zip->path, name, *count);
    if (unpack(&entry.file, from, *bytes) && crc32(0, *bytes, (uInt)*count) == entry.file.checksum)
        return true;
    free(*bytes);
    return fail(why, "%s: '%.100s': damaged: it does not unpack to %zu bytes of its checksum", zip->path,
                name, *count);
}

// ---- writing

static void put(zip_writer *zip, const void *bytes, size_t count) {
    fwrite(bytes, 1, count, zip->stream);
    zip->at += count;
}

bool zip_put(zip_writer *zip, const char *name, const void *bytes, size_t count) {
    enum { RECORDS = 1 << 16 }; // more than all records have
    const size_t length = strlen(name);
    if (zip->at + count > UINT32_MAX - RECORDS || zip->used + sizeof(zip_entry) + length > ZIP_DIRECTORY)
        return false;
    // Not compressed, of the first day of 1980.
    const zip_file file = {.version = 20,
                           .date = 1 << 5 | 1,
                           .checksum = (uint32_t)crc32(0, bytes, (uInt)count),
                           .packed = (uint32_t)count,
                           .bytes = (uint32_t)count,
                           .name = (uint16_t)length};
    const local_record local = {LOCAL, file};
    const zip_entry entry = {.signature = CENTRAL, .made_by = 20, .file = file, .local = (uint32_t)zip->at};
    put(zip, &local, sizeof local);
    put(zip, name, length);
    put(zip, bytes, count);
    memcpy(zip->directory + zip->used, &entry, sizeof entry);
    memcpy(zip->directory + zip->used + sizeof entry, name, length);
    zip->used += sizeof entry + length;
    zip->files++;
    return true;
}

void zip_end(zip_writer *zip) {
    const end_record end = {.signature = END,
                            .entries_of_part = zip->files,
                            .entries = zip->files,
                            .bytes = (uint32_t)zip->used,
                            .directory = (uint32_t)zip->at};
    put(zip, zip->directory, zip->used);
    put(zip, &end, sizeof end);
}
