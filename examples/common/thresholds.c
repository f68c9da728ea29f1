// SPDX-License-Identifier: MIT
#include "thresholds.h"
#include <errno.h>
#include <stdlib.h>

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
