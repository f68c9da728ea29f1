// SPDX-License-Identifier: MIT
// Fields of a JSON document, each complaint naming file and field.
#ifndef GAUSSIANS_JSON_FIELD_H
#define GAUSSIANS_JSON_FIELD_H

#include "fault.h"
#include <jansson.h>

// An object in a document.
typedef struct json_place {
    const char *path; // of the file
    char
        field[32]; // of the object in it, with the dot that follows: "frames[3]."; empty: the document itself
    const json_t *object;
} json_place;

// Reads the whole document, to be freed by json_decref. Refused with line, column and byte: anything but one
// JSON object, duplicate keys, numbers that overflow, nesting deeper than 2048 (jansson's limit). All numbers
// come as reals. Memory: some tens of bytes for each of the file.
json_t *json_read(const char *path, fault *why);

// Each leaves *out as it is where the key is absent, and fails where there is something else than it wants.
bool json_get_real(const json_place *place, const char *key, double *out, fault *why);
bool json_get_text(const json_place *place, const char *key, const char **out, fault *why);

// PLACE must be an array of `rows` arrays of `columns` finite numbers.
bool json_get_matrix(const json_place *place, const char *key, int rows, int columns, double *out,
                     fault *why);

#endif
