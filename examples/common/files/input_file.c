// SPDX-License-Identifier: MIT
#include "input_file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool input_file_open(input_file *file, const char *path, fault *why) {
    struct stat status;
    *file = (input_file){0};
    const int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // O_NONBLOCK: opening a pipe must not wait
    if (descriptor < 0) return fail(why, "%s: cannot open: %s", path, strerror(errno));
    const bool known = fstat(descriptor, &status) == 0;
    if (known && !S_ISREG(status.st_mode)) {
        fail(why, "%s: not a regular file", path);
    } else if (known && (file->path = strdup(path)) && (file->stream = fdopen(descriptor, "rb"))) {
        file->size = (uint64_t)status.st_size;
        return true;
    } else {
        fail(why, "%s: cannot open: %s", path, strerror(errno));
    }
    close(descriptor);
    input_file_close(file);
    return false;
}

void input_file_close(input_file *file) {
    if (file->stream) fclose(file->stream);
    free(file->path);
    free(file->buffer);
    *file = (input_file){0};
}

static bool ended(const input_file *file, const char *what, fault *why) {
    if (ferror(file->stream))
        return fail(why, "%s: cannot read at byte %" PRIu64 " (%s): %s", file->path, file->offset, what,
                    strerror(errno));
    return fail(why, "%s: truncated at byte %" PRIu64 " while reading %s", file->path, file->offset, what);
}

bool input_file_read(input_file *file, void *destination, size_t bytes, const char *what, fault *why) {
    const size_t got = fread(destination, 1, bytes, file->stream);
    file->offset += got;
    return got == bytes || ended(file, what, why);
}

bool input_file_check(const input_file *file, const char *what, fault *why) {
    return !ferror(file->stream) || fail(why, "%s: cannot read %s: %s", file->path, what, strerror(errno));
}

bool input_file_skip(input_file *file, uint64_t bytes, const char *what, fault *why) {
    char discarded[4096]; // seeking discards the stream's buffer, so short distances are read
    if (bytes <= sizeof discarded) return input_file_read(file, discarded, (size_t)bytes, what, why);
    if (file->offset > file->size || bytes > file->size - file->offset) {
        file->offset = file->size;
        return ended(file, what, why);
    }
    if (fseeko(file->stream, (off_t)bytes, SEEK_CUR) != 0)
        return fail(why, "%s: cannot seek at byte %" PRIu64 " (%s): %s", file->path, file->offset, what,
                    strerror(errno));
    file->offset += bytes;
    return true;
}

bool input_file_expect(input_file *file, uint64_t count, uint64_t bytes_each, const char *what, fault *why) {
    const uint64_t left = file->offset < file->size ? file->size - file->offset : 0;
    if (count <= left / bytes_each) return true;
    return fail(why,
                "%s: truncated or damaged: %" PRIu64 " %s announced, but only %" PRIu64
                " bytes follow byte %" PRIu64,
                file->path, count, what, left, file->offset);
}

bool input_file_next_line(input_file *file, fault *why) {
    errno = 0;
    const ssize_t length = getline(&file->buffer, &file->room, file->stream);
    file->line = NULL;
    if (length < 0) {
        if (feof(file->stream) && !ferror(file->stream)) return true;
        return fail(why, "%s: cannot read after line %" PRIu64 ": %s", file->path, file->number,
                    strerror(errno));
    }
    file->number++;
    file->offset += (uint64_t)length;
    size_t last = (size_t)length;
    if (file->buffer[last - 1] == '\n') last--;
    if (last > 0 && file->buffer[last - 1] == '\r') last--;
    file->buffer[last] = '\0';
    if (strlen(file->buffer) != last)
        return fail(why, "%s: at line %" PRIu64 ": holds a zero byte", file->path, file->number);
    file->line = file->buffer;
    return true;
}
