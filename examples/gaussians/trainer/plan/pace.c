// SPDX-License-Identifier: MIT
#include "plan/pace.h"
#include "state/training_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KNOWN_STEPS = 50, LEAST_STEPS = 8, KNOWN_SHARE = 20, LAST_SHARE = 4 };

void pace_note(pace *p, double spent) {
    if (p->steps > 0) p->recent[(p->steps - 1) % PACE_WINDOW] = fmax(spent - p->last, 0);
    p->last = spent;
    p->steps++;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// 0 before two calls of pace_note.
static double pace_step_seconds(const pace *p) {
    double sorted[PACE_WINDOW];
    const int64_t timed = p->steps - 1, count = timed < PACE_WINDOW ? timed : PACE_WINDOW;
    if (count < 1) return 0;
    memcpy(sorted, p->recent, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return sorted[(count - 1) / 2];
}

bool pace_is_known(const pace *p) {
    return p->steps > KNOWN_STEPS || (p->steps > LEAST_STEPS && p->last * KNOWN_SHARE >= p->budget) ||
           (p->steps > 1 && p->last * LAST_SHARE >= p->budget);
}

double pace_steps_left(const pace *p) {
    const double left = p->budget - p->last;
    const double one = pace_step_seconds(p) * (p->ahead > 0 ? p->ahead : 1),
                 time = fmax(left - p->between * (double)p->between_left, left / 2);
    return one * SCHEDULE_MOST > time ? time / one : SCHEDULE_MOST;
}

double pace_views_in_all(const pace *p, int64_t done, int32_t views) {
    return fmin((double)done + views * pace_steps_left(p), SCHEDULE_MOST);
}

double pace_next(const pace *p, double progress) {
    const double steps = pace_steps_left(p);
    return steps <= 1.5 ? 1 : progress + (1 - progress) / steps;
}

bool pace_is_over(const pace *p) {
    return p->steps > 1 && pace_steps_left(p) < 0.5;
}
