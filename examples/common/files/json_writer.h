// SPDX-License-Identifier: MIT
// Writes one JSON value, indented or on one line, to a file. A key is NULL inside an array and for the
// outermost value. Write errors stay in the stream.
#pragma once

#include "fault.h"
#include <stdint.h>
#include <stdio.h>

C_LINKAGE_BEGIN

typedef struct json_writer {
    FILE *stream;
    int depth;  // open objects and arrays
    bool first; // the innermost one has no value yet
    bool one_line;
} json_writer;

void json_begin(json_writer *json, const char *key, char bracket); // '{' or '['
void json_end(json_writer *json, char bracket);                    // '}' or ']'
// Bytes that are not UTF-8 become U+FFFD. NULL is written as null.
void json_put_text(json_writer *json, const char *key, const char *text);
void json_put_integer(json_writer *json, const char *key, int64_t value);
void json_put_number(json_writer *json, const char *key, double value); // null unless finite
void json_put_boolean(json_writer *json, const char *key, bool value);
// Arrays.
void json_put_numbers(json_writer *json, const char *key, const double *values, size_t count);
void json_put_floats(json_writer *json, const char *key, const float *values, size_t count);

// Writes an object to a file, completely or not at all; path "-": to stdout, whose errors program_run tells.
// describe(json, subject) puts its members.
bool json_save(const char *path, void (*describe)(json_writer *json, const void *subject),
               const void *subject, fault *why);

C_LINKAGE_END
