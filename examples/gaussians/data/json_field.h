// SPDX-License-Identifier: MIT
// Reads fields of a JSON document. Each error message names the file and the field.
#pragma once

#include "files/fault.h"
#include <jansson.h>

// An object in a document.
typedef struct json_place {
    const char *path; // of the file
    char field[32];   // of the object, with a dot: "frames[3]."; empty: the document itself
    const json_t *object;
} json_place;

// Reads the whole document; freed by json_decref. Refuses, with line, column and byte: anything but one
// JSON object, duplicate keys, numbers that overflow, nesting deeper than 2048 (jansson's limit). All
// numbers are reals. Memory: a few tens of bytes for each byte of the file.
json_t *json_read(const char *path, fault *why);

// If the key is absent, *out is unchanged. Fails if the value has another type.
bool json_get_real(const json_place *place, const char *key, double *out, fault *why);
bool json_get_text(const json_place *place, const char *key, const char **out, fault *why);

// The value must be an array of `rows` arrays of `columns` finite numbers.
bool json_get_matrix(const json_place *place, const char *key, int rows, int columns, double *out,
                     fault *why);
