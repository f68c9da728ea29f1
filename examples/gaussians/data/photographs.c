// SPDX-License-Identifier: MIT
#include "photographs.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int photograph_is(const struct dirent *entry) {
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png"};
    const char *const dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; dot && dot > entry->d_name && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return 1;
    return 0;
}

void photographs_close(struct dirent **entries, int count) {
    if (count < 0) return;
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}
