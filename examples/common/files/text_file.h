// SPDX-License-Identifier: MIT
// Reads a text file line by line and counts the lines.
#pragma once

#include "input_file.h"

C_LINKAGE_BEGIN

typedef struct text_file {
    input_file file;
    char *line; // the current line without its newline; NULL before the first line and after the last
    char *buffer;
    size_t room;     // of buffer: at most about twice the longest line
    uint64_t number; // of the current line, from 1
} text_file;

bool text_file_open(text_file *text, const char *path, fault *why);
void text_file_close(text_file *text);
// Moves to the next line, which "\n", "\r\n" or the end of the file ends; at the end of the file `line` becomes NULL.
// Fails if the line holds a zero byte.
bool text_file_next(text_file *text, fault *why);

C_LINKAGE_END
