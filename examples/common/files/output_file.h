// SPDX-License-Identifier: MIT
// Writes a file completely or not at all: under a temporary name in the same folder, renamed at the end. exit() removes the
// temporary files that are still written.
#pragma once

#include "fault.h"
#include <stdio.h>

C_LINKAGE_BEGIN

// Stays where it is while it is open.
typedef struct output_file {
    FILE *stream; // write here; output_file_commit checks for errors
    char *path, *temporary_path;
    struct output_file *next; // of the process's open ones
} output_file;

bool output_file_open(output_file *file, const char *path, fault *why);
// Flushes, checks all earlier writes, syncs, renames. On failure it removes the temporary file and leaves an
// old file as it was.
bool output_file_commit(output_file *file, fault *why);
// Removes the temporary file. Harmless after a commit or a failed open.
void output_file_discard(output_file *file);
// Removes the temporary files that killed programs left for the same path, but none that a program is
// writing. Ignores files that cannot be removed.
void output_file_remove_stale(const output_file *file);

// Opens a stream that writes to memory. open_memstream of glibc 2.36 does not report that the last write had no memory.
// After a flush *text has what was written, *size bytes and a '\0'; the caller frees it. NULL: no memory, and *text is NULL.
FILE *memory_stream_open(char **text, size_t *size);
// False: there was no memory for all that was written.
bool memory_stream_close(FILE *stream);

C_LINKAGE_END
