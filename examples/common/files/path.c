// SPDX-License-Identifier: MIT
#include "path.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool path_join(char out[PATH_ROOM], const char *folder, const char *name, fault *why) {
    const int length = snprintf(out, PATH_ROOM, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_ROOM) return fail(why, "%.200s...: the path is too long", folder);
    return true;
}

bool file_id_of(const char *path, file_id *out) {
    struct stat status;
    if (stat(path, &status) != 0) return false;
    *out = (file_id){status.st_dev, status.st_ino};
    return true;
}

bool file_id_is(const file_id *a, const file_id *b) {
    return a->device == b->device && a->number == b->number;
}

// The id of the file, and "" for *name; of one that does not exist that of its folder, and its name there.
static bool place_of(const char *path, file_id *out, const char **name) {
    const char *const slash = strrchr(path, '/');
    char folder[PATH_ROOM];
    *name = "";
    if (file_id_of(path, out)) return true;
    *name = slash ? slash + 1 : path;
    return snprintf(folder, PATH_ROOM, "%.*s.", (int)(*name - path), path) < PATH_ROOM &&
           file_id_of(folder, out);
}

bool are_two_files(const char *a_is, const char *a, const char *b_is, const char *b, fault *why) {
    file_id of_a, of_b;
    const char *name_a, *name_b;
    if (!a || !b) return true;
    const bool one = strcmp(a, b) == 0 || (place_of(a, &of_a, &name_a) && place_of(b, &of_b, &name_b) &&
                                           strcmp(name_a, name_b) == 0 && file_id_is(&of_a, &of_b));
    return !one || fail(why, "%s and %s name one file, %s", a_is, b_is, a);
}

bool file_remove(const char *path, bool *removed, fault *why) {
    *removed = unlink(path) == 0;
    return *removed || errno == ENOENT || fail(why, "%s: cannot remove: %s", path, strerror(errno));
}

bool folder_make(const char *path, fault *why) {
    struct stat status;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)))
        return true;
    return fail(why, "%s: cannot make the folder: %s", path, strerror(errno));
}

bool path_stays_inside(const char *name) {
    if (name[0] == '\0' || name[0] == '/') return false;
    for (const char *part = name; *part;) {
        const size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.') return false;
        part += length + (part[length] == '/');
    }
    return true;
}
