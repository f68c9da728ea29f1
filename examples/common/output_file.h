// SPDX-License-Identifier: MIT
// A file that appears whole or not at all: written under a temporary name in the same folder, renamed at the
// end.
#ifndef COMMON_OUTPUT_FILE_H
#define COMMON_OUTPUT_FILE_H

#include "fault.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct output_file {
    FILE *stream; // write here; errors may be left to output_file_commit
    char *path;
    char *temporary_path;
} output_file;

bool output_file_open(output_file *file, const char *path, fault *why);
// Flushes, checks every earlier write, syncs, renames. On failure the temporary file is removed and the old
// one stands.
bool output_file_commit(output_file *file, fault *why);
// Gives up: removes the temporary file. Harmless after a commit or a failed open.
void output_file_discard(output_file *file);
// Removes the temporary files of the same path that programs left when they were killed, and none that is
// still written. What cannot be removed stays: it harms nobody.
void output_file_remove_stale(const output_file *file);

#ifdef __cplusplus
}
#endif
#endif
