// SPDX-License-Identifier: MIT
// A file that appears whole or not at all.
#include "output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(output_file *file) {
    free(file->path);
    free(file->temporary_path);
    *file = (output_file){0};
}

// Creates PATH.part-PROCESS-N under the first N that is free. Not mkstemp: open() applies the umask by
// itself, which a program with threads cannot read without changing it.
static int create_temporary(output_file *file) {
    const size_t room = strlen(file->path) + 48;
    file->temporary_path = malloc(room);
    if (!file->temporary_path) return -1;
    for (int n = 0; n < 10000; n++) {
        snprintf(file->temporary_path, room, "%s.part-%ld-%d", file->path, (long)getpid(), n);
        const int descriptor = open(file->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

bool output_file_open(output_file *file, const char *path, fault *why) {
    *file = (output_file){0};
    // The rename would replace whatever stands there: never a device, a pipe or a folder, and not a link to
    // the file but the file.
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return fail(why, "%s: cannot write: exists and is not a regular file", path);
    file->path = realpath(path, NULL);
    if (!file->path) file->path = strdup(path);
    const int descriptor = file->path ? create_temporary(file) : -1;
    if (descriptor < 0) {
        fail(why, "%s: cannot write: %s", path, strerror(errno));
        forget(file);
        return false;
    }
    file->stream = fdopen(descriptor, "wb");
    if (!file->stream) {
        fail(why, "%s: cannot write: %s", path, strerror(errno));
        close(descriptor);
        unlink(file->temporary_path);
        forget(file);
        return false;
    }
    return true;
}

bool output_file_commit(output_file *file, fault *why) {
    const char *reason = NULL;
    if (ferror(file->stream)) {
        reason = "a write failed; is the disk full?";
    } else if (fflush(file->stream) != 0 || fsync(fileno(file->stream)) != 0) {
        reason = strerror(errno);
    }
    if (fclose(file->stream) != 0 && !reason) reason = strerror(errno);
    file->stream = NULL;
    if (!reason && rename(file->temporary_path, file->path) != 0) reason = strerror(errno);
    if (reason) {
        fail(why, "%s: cannot write: %s", file->path, reason);
        unlink(file->temporary_path);
    }
    forget(file);
    return !reason;
}

void output_file_discard(output_file *file) {
    if (!file->stream) return;
    fclose(file->stream);
    unlink(file->temporary_path);
    forget(file);
}
