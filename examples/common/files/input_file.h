// SPDX-License-Identifier: MIT
// Reads a file of bytes or of lines. Error messages name the file, the place, and what was being read.
#pragma once

#include "fault.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

C_LINKAGE_BEGIN

typedef struct input_file {
    FILE *stream;
    char *path;
    uint64_t size;   // bytes in the file; regular files only
    uint64_t offset; // bytes read so far
    // Of a file that is read by lines:
    char *line; // the current one without its newline; NULL before the first line and after the last
    char *buffer;
    size_t room;     // of buffer: at most about twice the longest line
    uint64_t number; // of the current line, from 1
} input_file;

bool input_file_open(input_file *file, const char *path, fault *why);
void input_file_close(input_file *file);
// Reads exactly `bytes`, or fails: "PATH: truncated at byte N while reading WHAT".
bool input_file_read(input_file *file, void *destination, size_t bytes, const char *what, fault *why);
bool input_file_skip(input_file *file, uint64_t bytes, const char *what, fault *why);
// For readers that use the stream: fails if a read has failed in place of ending, "PATH: cannot read WHAT: REASON".
bool input_file_check(const input_file *file, const char *what, fault *why);
// Fails unless the rest of the file has room for `count` items of at least `bytes_each` (>= 1) bytes. Call it
// before allocating memory for a count from the file.
bool input_file_expect(input_file *file, uint64_t count, uint64_t bytes_each, const char *what, fault *why);

// Moves to the next line, which "\n", "\r\n" or the end of the file ends; at the end of the file `line` becomes NULL.
// Fails if the line holds a zero byte, "PATH: at line N: WHAT".
bool input_file_next_line(input_file *file, fault *why);

C_LINKAGE_END
