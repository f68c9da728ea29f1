// SPDX-License-Identifier: MIT
#include "json_field.h"
#include "files/input_file.h"
#include <string.h>

json_t *json_read(const char *path, fault *why) {
    input_file file;
    if (!input_file_open(&file, path, why)) return NULL;
    json_error_t error;
    char mark[3]; // of UTF-8, as editors on Windows write it
    if (fread(mark, 1, sizeof mark, file.stream) != sizeof mark ||
        memcmp(mark, "\xef\xbb\xbf", sizeof mark) != 0)
        rewind(file.stream);
    json_t *document = json_loadf(file.stream, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!input_file_check(&file, "JSON", why)) {
        json_decref(document);
        document = NULL;
    } else if (!document) {
        fail(why, "%s: at line %d, column %d (byte %d): %s", path, error.line, error.column, error.position,
             error.text);
    } else if (!json_is_object(document)) {
        fail(why, "%s: at byte 0: not an object", path);
        json_decref(document);
        document = NULL;
    }
    input_file_close(&file);
    return document;
}

bool json_get_real(const json_place *place, const char *key, double *out, fault *why) {
    const json_t *value = json_object_get(place->object, key);
    if (!value) return true;
    if (!json_is_real(value)) return fail(why, "%s: %s%s: must be a number", place->path, place->field, key);
    *out = json_real_value(value);
    return true;
}

bool json_get_text(const json_place *place, const char *key, const char **out, fault *why) {
    const json_t *value = json_object_get(place->object, key);
    if (!value) return true;
    if (!json_is_string(value))
        return fail(why, "%s: %s%s: must be a string", place->path, place->field, key);
    *out = json_string_value(value);
    return true;
}

bool json_get_matrix(const json_place *place, const char *key, int rows, int columns, double *out,
                     fault *why) {
    const json_t *matrix = json_object_get(place->object, key);
    if (!json_is_array(matrix) || json_array_size(matrix) != (size_t)rows)
        return fail(why, "%s: %s%s: must be an array of %d rows", place->path, place->field, key, rows);
    for (int r = 0; r < rows; r++) {
        const json_t *row = json_array_get(matrix, (size_t)r);
        if (!json_is_array(row) || json_array_size(row) != (size_t)columns)
            return fail(why, "%s: %s%s[%d]: must be an array of %d numbers", place->path, place->field, key,
                        r, columns);
        for (int c = 0; c < columns; c++) {
            const json_t *value = json_array_get(row, (size_t)c);
            if (!json_is_real(value))
                return fail(why, "%s: %s%s[%d][%d]: must be a number", place->path, place->field, key, r, c);
            out[r * columns + c] = json_real_value(value);
        }
    }
    return true;
}
