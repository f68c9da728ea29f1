// SPDX-License-Identifier: MIT
// Paths of files in folders.
#include "path.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool path_join(char out[PATH_ROOM], const char *folder, const char *name, fault *why) {
    const int length = snprintf(out, PATH_ROOM, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_ROOM) return fail(why, "%.200s...: the path is too long", folder);
    return true;
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
