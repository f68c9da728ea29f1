// SPDX-License-Identifier: MIT
#include "json_writer.h"
#include "output_file.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_string(FILE *stream, const char *text) {
    putc('"', stream);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        const int length = utf8_length(c);
        if (length == 0)
            fputs("\\ufffd", stream);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(stream, "\\u%04x", *c);
        else {
            if (*c == '"' || *c == '\\') putc('\\', stream);
            fwrite(c, 1, (size_t)length, stream);
        }
        c += length ? length : 1;
    }
    putc('"', stream);
}

static void new_line(const json_writer *json) {
    if (!json->one_line) fprintf(json->stream, "\n%*s", 2 * json->depth, "");
}

// The separator and the key before a value.
static void begin_value(json_writer *json, const char *key) {
    if (!json->first) fputs(json->one_line ? ", " : ",", json->stream);
    if (json->depth > 0) new_line(json);
    json->first = false;
    if (!key) return;
    put_string(json->stream, key);
    fputs(": ", json->stream);
}

void json_begin(json_writer *json, const char *key, char bracket) {
    begin_value(json, key);
    putc(bracket, json->stream);
    json->depth++;
    json->first = true;
}

void json_end(json_writer *json, char bracket) {
    json->depth--;
    if (!json->first) new_line(json);
    json->first = false;
    putc(bracket, json->stream);
}

void json_put_text(json_writer *json, const char *key, const char *text) {
    begin_value(json, key);
    if (text)
        put_string(json->stream, text);
    else
        fputs("null", json->stream);
}

void json_put_integer(json_writer *json, const char *key, int64_t value) {
    begin_value(json, key);
    fprintf(json->stream, "%" PRId64, value);
}

void json_put_number(json_writer *json, const char *key, double value) {
    begin_value(json, key);
    if (isfinite(value))
        fprintf(json->stream, "%.15g", value);
    else
        fputs("null", json->stream);
}

void json_put_boolean(json_writer *json, const char *key, bool value) {
    begin_value(json, key);
    fputs(value ? "true" : "false", json->stream);
}

void json_put_numbers(json_writer *json, const char *key, const double *values, size_t count) {
    json_begin(json, key, '[');
    for (size_t i = 0; i < count; i++) json_put_number(json, NULL, values[i]);
    json_end(json, ']');
}

void json_put_floats(json_writer *json, const char *key, const float *values, size_t count) {
    json_begin(json, key, '[');
    for (size_t i = 0; i < count; i++) json_put_number(json, NULL, (double)values[i]);
    json_end(json, ']');
}

bool json_save(const char *path, void (*describe)(json_writer *json, const void *subject),
               const void *subject, fault *why) {
    const bool to_file = strcmp(path, "-") != 0;
    output_file file;
    if (to_file && !output_file_open(&file, path, why)) return false;
    json_writer json = {.stream = to_file ? file.stream : stdout, .first = true};
    json_begin(&json, NULL, '{');
    describe(&json, subject);
    json_end(&json, '}');
    putc('\n', json.stream);
    return !to_file || output_file_commit(&file, why);
}
