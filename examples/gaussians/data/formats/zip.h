// SPDX-License-Identifier: MIT
// ZIP archives in memory (PKWARE's APPNOTE.TXT), of less than 4 GiB: not ZIP64, not encrypted, one part.
#pragma once

#include "files/input_file.h"

C_LINKAGE_BEGIN

// An archive that is read; its bytes stay the caller's.
typedef struct zip_archive {
    const char *path; // for messages
    const uint8_t *bytes;
    size_t size;
    size_t directory, end; // bytes of the central directory
    int entries;
} zip_archive;

bool zip_open(zip_archive *zip, const char *path, const uint8_t *bytes, size_t size, fault *why);
// A file of the archive, stored or deflated, for the caller to free(). Fails if there is none of that name, if its
// checksum is wrong, or if it has more than `most` bytes.
bool zip_read(const zip_archive *zip, const char *name, size_t most, uint8_t **bytes, size_t *count,
              fault *why);

enum { ZIP_FILES = 16 };

// An archive that is written, without compression.
typedef struct zip_writer {
    FILE *stream;
    uint64_t at; // bytes written
    int files;
    struct {
        const char *name; // of the caller
        uint32_t checksum, size, at;
    } file[ZIP_FILES];
} zip_writer;

// Write errors stay in the stream. At most ZIP_FILES. False: the archive has 4 GiB or more.
bool zip_put(zip_writer *zip, const char *name, const void *bytes, size_t count);
void zip_end(zip_writer *zip);

C_LINKAGE_END
