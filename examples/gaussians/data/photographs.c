// SPDX-License-Identifier: MIT
#include "photographs.h"
#include "gpu/growing.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_photograph(const char *name) {
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png"};
    const char *const dot = strrchr(name, '.');
    for (size_t i = 0; dot && dot > name && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return true;
    return false;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool photographs_in(const char *folder, photograph_list *out, fault *why) {
    *out = (photograph_list){0};
    DIR *const list = opendir(folder);
    if (!list) return fail(why, "%s: cannot open: %s", folder, strerror(errno));
    bool good = true;
    for (const struct dirent *entry; good && (entry = readdir(list));) {
        if (!is_photograph(entry->d_name)) continue;
        char *const name = strdup(entry->d_name);
        good = (name && append(&out->names, &out->count, &out->room, &name, sizeof name)) ||
               fail(why, "%s: no memory for its photographs", folder);
        if (!good) free(name);
    }
    closedir(list);
    if (!good)
        photographs_close(out);
    else if (out->count > 0)
        qsort(out->names, out->count, sizeof *out->names, compare);
    return good;
}

void photographs_close(photograph_list *list) {
    for (size_t i = 0; i < list->count; i++) free(list->names[i]);
    free(list->names);
    *list = (photograph_list){0};
}
