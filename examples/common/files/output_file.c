// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // fopencookie
#include "output_file.h"
#include "files/growing.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- exit() removes the temporary files that threads are writing: a failure of the device ends the program anywhere

static pthread_mutex_t creation = PTHREAD_MUTEX_INITIALIZER;
static output_file *open_files;
static bool removes; // remove_temporaries is registered
static pid_t owner;  // a process that was forked has none of the files

static void remove_temporaries(void) {
    if (owner != getpid()) return;
    pthread_mutex_lock(&creation); // for good: no thread creates another
    for (const output_file *file = open_files; file; file = file->next) unlink(file->temporary_path);
}

static void forget(output_file *file) {
    pthread_mutex_lock(&creation);
    output_file **at = &open_files;
    while (*at && *at != file) at = &(*at)->next;
    if (*at) *at = file->next;
    pthread_mutex_unlock(&creation);
    free(file->temporary_path);
    free(file->path);
    *file = (output_file){0};
}

// True if the name still belongs to the open file.
static bool has_name(int descriptor, int folder, const char *name) {
    struct stat of_file, of_name;
    return fstat(descriptor, &of_file) == 0 && fstatat(folder, name, &of_name, AT_SYMLINK_NOFOLLOW) == 0 &&
           of_file.st_dev == of_name.st_dev && of_file.st_ino == of_name.st_ino;
}

// A program holds a lock on its temporary file until the file is renamed or removed. So a file that can be
// locked was left by a process that was killed. On a file system without locks no lock succeeds, and nothing
// is removed.
static bool lock(int descriptor) {
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

// Gives a new file owner, group and mode of the one that it replaces. Where it may not have the group, the group gets
// what others have; where a file system has no modes, the owner alone may read it, as create_temporary made it.
static void take_rights(int descriptor, const char *replaced) {
    struct stat old;
    if (stat(replaced, &old) != 0) return;
    mode_t mode = old.st_mode & 0777;
    if (fchown(descriptor, old.st_uid, old.st_gid) != 0 && fchown(descriptor, (uid_t)-1, old.st_gid) != 0)
        mode = (mode & ~(mode_t)070) | (mode & 007) << 3;
    fchmod(descriptor, mode);
}

// Creates PATH.part-PROCESS-N under the first N that is free. Not by mkstemp: open() applies the umask, which a program
// with threads cannot read without changing it.
static int create_temporary(output_file *file, mode_t mode) {
    const size_t room = strlen(file->path) + 48;
    char *const path = file->temporary_path = malloc(room);
    if (!path) return -1;
    pthread_mutex_lock(&creation);
    if (owner != getpid()) {
        open_files = NULL, owner = getpid();
        if (!removes) removes = atexit(remove_temporaries) == 0;
    }
    int descriptor = -1;
    for (int n = 0; descriptor < 0 && n < 10000; n++) {
        snprintf(path, room, "%s.part-%ld-%d", file->path, (long)getpid(), n);
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor < 0 && errno != EEXIST) break;
        // Before the lock another process may have found the file, and may have removed it.
        if (descriptor < 0 ||
            ((lock(descriptor) || errno != EWOULDBLOCK) && has_name(descriptor, AT_FDCWD, path)))
            continue;
        close(descriptor);
        descriptor = -1;
    }
    if (descriptor >= 0) file->next = open_files, open_files = file;
    pthread_mutex_unlock(&creation);
    return descriptor;
}

// The path behind symbolic links, whether or not a file is there; malloc'ed. NULL: errno says why.
static char *follow_links(const char *path) {
    enum { MOST_LINKS = 40 }; // as Linux has it
    char target[PATH_MAX], *at = strdup(path), *next;
    for (int n = 0; at && n < MOST_LINKS; n++) {
        const ssize_t length = readlink(at, target, sizeof target);
        if (length < 0) return at; // no link
        // A target that is not absolute begins at the link's folder.
        const char *const slash = target[0] == '/' ? NULL : strrchr(at, '/');
        const int folder = slash ? (int)(slash + 1 - at) : 0;
        if (asprintf(&next, "%.*s%.*s", folder, at, (int)length, target) < 0) next = NULL;
        free(at);
        at = next;
    }
    if (at) errno = ELOOP;
    free(at);
    return NULL;
}

bool output_file_open(output_file *file, const char *path, fault *why) {
    *file = (output_file){0};
    // A rename replaces whatever has this name. Refuses devices, pipes and folders; a link is resolved first,
    // so that its file is replaced.
    struct stat status;
    const bool replaces = stat(path, &status) == 0;
    if (replaces && !S_ISREG(status.st_mode))
        return fail(why, "%s: cannot write: exists and is not a regular file", path);
    file->path = follow_links(path);
    const int descriptor = file->path ? create_temporary(file, replaces ? 0600 : 0666) : -1;
    if (descriptor >= 0 && (file->stream = fdopen(descriptor, "wb"))) return true;
    fail(why, "%s: cannot write: %s", path, strerror(errno));
    if (descriptor >= 0) {
        unlink(file->temporary_path);
        close(descriptor);
    }
    forget(file);
    return false;
}

bool output_file_commit(output_file *file, fault *why) {
    const char *reason = NULL;
    if (ferror(file->stream)) {
        reason = "a write failed; is the disk full?";
    } else {
        take_rights(fileno(file->stream), file->path);
        if (fflush(file->stream) != 0 || fsync(fileno(file->stream)) != 0 ||
            rename(file->temporary_path, file->path) != 0)
            reason = strerror(errno);
    }
    if (reason) {
        fail(why, "%s: cannot write: %s", file->path, reason);
        unlink(file->temporary_path);
    }
    fclose(file->stream); // last: it releases the lock; everything has been written
    forget(file);
    return !reason;
}

void output_file_discard(output_file *file) {
    if (!file->stream) return;
    unlink(file->temporary_path);
    fclose(file->stream);
    forget(file);
}

// True if `entry` is NAME.part-PROCESS-N.
static bool is_temporary(const char *entry, const char *name) {
    const size_t length = strlen(name);
    int end = -1;
    if (strncmp(entry, name, length) != 0) return false;
    sscanf(entry + length, ".part-%*[0-9]-%*[0-9]%n", &end);
    return end > 0 && entry[length + (size_t)end] == '\0';
}

static void remove_if_stale(int folder, const char *name) {
    const int descriptor = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0) return;
    const bool stale = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && lock(descriptor);
    // The file may have been renamed or removed since it was opened, and another may have its name.
    if (stale && has_name(descriptor, folder, name)) unlinkat(folder, name, 0);
    close(descriptor);
}

void output_file_remove_stale(const output_file *file) {
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    char *folder = slash ? strndup(file->path, (size_t)(name - file->path)) : strdup(".");
    DIR *entries = folder ? opendir(folder) : NULL; // may fail: the folder may be writable but not readable
    if (entries) {
        for (const struct dirent *entry; (entry = readdir(entries));)
            if (is_temporary(entry->d_name, name)) remove_if_stale(dirfd(entries), entry->d_name);
        closedir(entries);
    }
    free(folder);
}

// ---- in memory

typedef struct memory {
    char **text;
    size_t *size, room;
} memory;

// 0 marks the stream.
static ssize_t append_bytes(void *cookie, const char *bytes, size_t count) {
    memory *const to = cookie;
    if (!make_room(to->text, &to->room, *to->size + count + 1, 1)) return 0;
    memcpy(*to->text + *to->size, bytes, count);
    *to->size += count;
    (*to->text)[*to->size] = '\0';
    return (ssize_t)count;
}

static int forget_memory(void *cookie) {
    free(cookie);
    return 0;
}

FILE *memory_stream_open(char **text, size_t *size) {
    memory *const to = malloc(sizeof *to);
    *size = 0;
    *text = calloc(1, 1);
    if (to && *text) {
        *to = (memory){text, size, 1};
        FILE *const stream =
            fopencookie(to, "w", (cookie_io_functions_t){.write = append_bytes, .close = forget_memory});
        if (stream) return stream;
    }
    free(to);
    free(*text);
    *text = NULL;
    return NULL;
}

bool memory_stream_close(FILE *stream) {
    const bool whole = fflush(stream) == 0 && !ferror(stream);
    return fclose(stream) == 0 && whole;
}
