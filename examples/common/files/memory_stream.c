// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // fopencookie
#include "memory_stream.h"
#include <stdlib.h>
#include <string.h>

typedef struct memory {
    char **text;
    size_t *size, room;
} memory;

// 0 marks the stream.
static ssize_t append(void *cookie, const char *bytes, size_t count) {
    memory *const to = cookie;
    if (count >= to->room - *to->size) {
        const size_t room = 2 * (*to->size + count) + 1;
        char *const larger = realloc(*to->text, room);
        if (!larger) return 0;
        *to->text = larger;
        to->room = room;
    }
    memcpy(*to->text + *to->size, bytes, count);
    *to->size += count;
    (*to->text)[*to->size] = '\0';
    return (ssize_t)count;
}

static int forget(void *cookie) {
    free(cookie);
    return 0;
}

FILE *memory_stream_open(char **text, size_t *size) {
    memory *const to = malloc(sizeof *to);
    FILE *stream = NULL;
    *size = 0;
    *text = calloc(1, 1);
    if (to && *text) {
        *to = (memory){text, size, 1};
        stream = fopencookie(to, "w", (cookie_io_functions_t){.write = append, .close = forget});
    }
    if (stream) return stream;
    free(to);
    free(*text);
    *text = NULL;
    return NULL;
}

bool memory_stream_close(FILE *stream) {
    const bool whole = fflush(stream) == 0 && !ferror(stream);
    return fclose(stream) == 0 && whole;
}
