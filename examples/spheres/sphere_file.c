// SPDX-License-Identifier: MIT
#include "sphere_file.h"
#include "files/output_file.h"
#include "files/text_file.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "spheres 1";

static bool complain(const text_file *text, const char *what, fault *why) {
    return fail(why, "%s: at line %" PRIu64 ": %s", text->file.path, text->number, what);
}

// Moves to the next line; fails at the end of the file.
static bool next_line(text_file *text, const char *what, fault *why) {
    if (!text_file_next(text, why)) return false;
    return text->line || fail(why, "%s: truncated at byte %" PRIu64 ": %s is missing", text->file.path,
                              text->file.offset, what);
}

static bool read_numbers(text_file *text, float *const *out, const int *counts, int groups, fault *why) {
    const char *rest = text->line;
    for (int group = 0; group < groups; group++)
        for (int i = 0; i < counts[group]; i++) {
            char *end;
            out[group][i] = strtof(rest, &end);
            if (end == rest) return complain(text, "has fewer numbers than a sphere", why);
            if (!isfinite(out[group][i])) return complain(text, "has a number that is not finite", why);
            rest = end;
        }
    return rest[strspn(rest, " ")] == '\0' || complain(text, "has more numbers than a sphere", why);
}

static bool read_header(text_file *text, int64_t *count, int *channels, fault *why) {
    if (!next_line(text, "the first line", why)) return false;
    if (strcmp(text->line, first_line) != 0) return complain(text, "is not 'spheres 1'", why);
    if (!next_line(text, "the line with count and channels", why)) return false;
    char *end;
    const long long announced = strtoll(text->line, &end, 10);
    const long width = strtol(end, &end, 10);
    if (*end != '\0' || announced < 1 || announced >= INT32_MAX)
        return complain(text, "is not a count of spheres, from 1 on, and their channels", why);
    if (width != 3 && width != 8 && width != 16 && width != 32)
        return complain(text, "announces features that have not 3, 8, 16 or 32 channels", why);
    *count = announced;
    *channels = (int)width;
    // A number takes at least two bytes: refuses counts for which the file is too short.
    return input_file_expect(&text->file, (uint64_t)announced, 2 * (5 + (uint64_t)width), "spheres", why);
}

static bool read_all(text_file *text, sphere_set *out, fault *why) {
    int64_t count = 0;
    int channels = 0;
    if (!read_header(text, &count, &channels, why) || !sphere_set_open(out, count, channels, why))
        return false;
    for (int64_t i = 0; i < count; i++) {
        float *const parts[] = {out->center + 3 * i, out->log_radius + i, out->opacity_logit + i,
                                out->feature + channels * i};
        if (!next_line(text, "a sphere", why) ||
            !read_numbers(text, parts, (int[]){3, 1, 1, channels}, 4, why))
            return false;
    }
    if (!text_file_next(text, why)) return false;
    return !text->line || complain(text, "comes after the last sphere", why);
}

bool sphere_file_read(const char *path, sphere_set *out, fault *why) {
    text_file text;
    *out = (sphere_set){0};
    if (!text_file_open(&text, path, why)) return false;
    bool done = read_all(&text, out, why);
    text_file_close(&text);
    if (!done) sphere_set_close(out);
    return done;
}

bool sphere_file_write(const char *path, const sphere_set *host, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    fprintf(file.stream, "%s\n%" PRId64 " %d\n", first_line, host->count, host->channels);
    for (int64_t i = 0; i < host->count; i++) {
        const float *x = host->center + 3 * i;
        fprintf(file.stream, "%.9g %.9g %.9g %.9g %.9g", x[0], x[1], x[2], host->log_radius[i],
                host->opacity_logit[i]);
        for (int k = 0; k < host->channels; k++)
            fprintf(file.stream, " %.9g", host->feature[host->channels * i + k]);
        fputc('\n', file.stream);
    }
    return output_file_commit(&file, why);
}
