// SPDX-License-Identifier: MIT
#include "companion.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool companion_find(const char *folder, const char *name, const char *const *suffixes, const char *what,
                    char path[PATH_ROOM], fault *why) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    const size_t whole = strlen(name), lengths[2] = {whole, dot ? (size_t)(dot - name) : whole};
    char tried[600] = "";
    size_t end = 0;
    for (; *suffixes; suffixes++)
        for (int i = 0; i < 2; i++) {
            char file[PATH_ROOM];
            if (snprintf(file, sizeof file, "%.*s%s", (int)lengths[i], name, *suffixes) >= (int)sizeof file)
                continue;
            if (!path_join(path, folder, file, why)) return false;
            if (access(path, F_OK) == 0) return true;
            if (end < sizeof tried)
                end += (size_t)snprintf(tried + end, sizeof tried - end, "%s%s", end ? " nor " : "", file);
        }
    return fail(why, "%s: has no %s of the picture %s, neither %s", folder, what, name, tried);
}
