// SPDX-License-Identifier: MIT
// What the files of checkpoints have in common: they begin with a kind and a version and end with the CRC-32 of all
// before it, and are renamed when complete. Little-endian.
#pragma once

#include "files/input_file.h"
#include "files/output_file.h"
#include "state/checkpoint.h"

C_LINKAGE_BEGIN

enum {
    CHECKPOINT_BLOCK = 1 << 20,        // bytes that are copied at once
    CHECKPOINT_MAX_SETTINGS = 1 << 16, // bytes
    CHECKPOINT_MAX_VIEWS = 1 << 24
};

extern const char checkpoint_magic[8]; // the kind

typedef struct checkpoint_writer {
    output_file file; // without a path: to a sink
    uint32_t sum;
    void *block;
} checkpoint_writer;

// Also removes what killed programs have left of the file.
bool checkpoint_writer_open(checkpoint_writer *w, const char *path, fault *why);
bool checkpoint_writer_open_sink(checkpoint_writer *w, const checkpoint_sink *sink,
                                 fault *why); // outlives the writer
// memory: on the host or the device, for which it waits. Errors of the file come with the commit.
void checkpoint_put(checkpoint_writer *w, const void *memory, uint64_t bytes);
// Closes the writer also after a failure.
bool checkpoint_writer_commit(checkpoint_writer *w, fault *why);
void checkpoint_writer_discard(checkpoint_writer *w); // of a file

typedef struct checkpoint_reader {
    input_file file;
    void *block;
} checkpoint_reader;

bool checkpoint_reader_open(checkpoint_reader *r, const char *path, fault *why);
bool checkpoint_reader_open_memory(checkpoint_reader *r, const void *bytes, size_t count, fault *why);
void checkpoint_reader_close(checkpoint_reader *r);
// memory: on the host or the device.
bool checkpoint_get(checkpoint_reader *r, void *memory, uint64_t bytes, fault *why);
// Reads the whole file once, goes back to where it was, and compares the checksum with the one at the end.
bool checkpoint_check_sum(checkpoint_reader *r, fault *why);
// Refuses other kinds and versions, each with its own text.
bool checkpoint_check_kind(const char *path, const char magic[8], uint32_t version, uint32_t wanted_version,
                           fault *why);
bool checkpoint_check_size(const input_file *file, uint64_t bytes, fault *why);
// Reads the settings, and compares them and the fingerprint with those of the key.
bool checkpoint_check_key(checkpoint_reader *r, uint32_t settings_bytes, uint32_t data,
                          const checkpoint_key *key, fault *why);

C_LINKAGE_END
