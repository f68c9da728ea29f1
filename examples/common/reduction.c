// SPDX-License-Identifier: MIT
#include "reduction.h"
#include <errno.h>
#include <stdlib.h>

static const char *const names[REDUCTIONS] = {
    [REDUCE_ATOMIC] = "atomic", [REDUCE_VECTOR] = "vector", [REDUCE_SERIAL] = "serial",
    [REDUCE_BFLY] = "bfly",     [REDUCE_TREE] = "tree",     [REDUCE_FIXED] = "fixed"};

const char *reduction_name(reduction which) {
    return (unsigned)which < REDUCTIONS ? names[which] : NULL;
}

bool reduction_has_threshold(reduction which) {
    return which != REDUCE_ATOMIC && which != REDUCE_VECTOR;
}

static const char *const *names_and(const char *last, const char **list) {
    for (int i = 0; i < REDUCTIONS; i++) list[i] = names[i];
    list[REDUCTIONS] = last;
    return list;
}

const char *const *reduction_names_and_all(void) {
    static const char *list[REDUCTIONS + 2];
    return names_and("all", list);
}

const char *const *reduction_names_and_auto(void) {
    static const char *list[REDUCTIONS + 2];
    return names_and("auto", list);
}

bool parse_thresholds(const char *text, int out[MAX_THRESHOLDS], size_t *count, fault *why) {
    const char *rest = text;
    for (*count = 0; *count < MAX_THRESHOLDS;) {
        char *end;
        errno = 0;
        long value = strtol(rest, &end, 10);
        bool digits = rest[0] >= '0' && rest[0] <= '9' && errno == 0;
        if (!digits || value > MAX_THRESHOLD || (*end != ',' && *end != '\0')) break;
        out[(*count)++] = (int)value;
        if (*end == '\0') return true;
        rest = end + 1;
    }
    return fail(why, "--thresholds needs numbers from 0 to %d with commas between, at most %d, not '%s'",
                MAX_THRESHOLD, MAX_THRESHOLDS, text);
}
