// SPDX-License-Identifier: MIT
// Reads a text file line by line.
#include "text_file.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool text_file_open(text_file *text, const char *path, fault *why) {
    *text = (text_file){0};
    return input_file_open(&text->file, path, why);
}

void text_file_close(text_file *text) {
    input_file_close(&text->file);
    free(text->buffer);
    *text = (text_file){0};
}

bool text_file_next(text_file *text, fault *why) {
    errno = 0;
    const ssize_t length = getline(&text->buffer, &text->room, text->file.stream);
    text->line = NULL;
    if (length < 0) {
        if (feof(text->file.stream) && !ferror(text->file.stream)) return true;
        return fail(why, "%s: cannot read after line %" PRIu64 ": %s", text->file.path, text->number,
                    strerror(errno));
    }
    text->number++;
    text->file.offset += (uint64_t)length;
    size_t last = (size_t)length;
    if (text->buffer[last - 1] == '\n') last--;
    if (last > 0 && text->buffer[last - 1] == '\r') last--;
    text->buffer[last] = '\0';
    if (strlen(text->buffer) != last)
        return fail(why, "%s: at line %" PRIu64 ": holds a zero byte", text->file.path, text->number);
    text->line = text->buffer;
    return true;
}
