// SPDX-License-Identifier: MIT
// A schedule of resolutions: training begins on small pictures, which cost less time and have no detail that the first
// Gaussians could follow, and ends on the pictures themselves.
#pragma once

#include "files/fault.h"
#include "frames/picture_cache.h"
#include "frames/target_view.h"

C_LINKAGE_BEGIN

enum { RESOLUTIONS_MOST = 8, RESOLUTIONS_LEAST_SIDE = 64 }; // phases; pixels

typedef struct resolution_phase {
    int factor;     // of the pictures' size: 1, 2, ...
    int batch;      // views per step; 0: as after the last phase
    double percent; // of the iterations, at which the phase ends
} resolution_phase;

// Phases in order of `percent`; after the last: the pictures themselves.
typedef struct resolution_schedule {
    bool automatic; // "auto" was read: usual_resolutions says the phases
    int count;
    resolution_phase phase[RESOLUTIONS_MOST];
} resolution_schedule;

// "4:20,2:50": a quarter of the size until 20% of the iterations, a half until 50%. "4:20:2": two views per step.
// "none": no phases. "auto": none yet.
bool resolution_schedule_read(const char *text, resolution_schedule *schedule, fault *why);
// The number of the phase of a step = 1, 2, ...; `count`: none.
int resolution_phase_at(const resolution_schedule *schedule, int64_t iterations, int64_t step);
// The last step of the phase.
int64_t resolution_phase_end(const resolution_schedule *schedule, int64_t iterations, int phase);

// Sizes of views.
typedef struct view_sizes {
    size_t count;
    int64_t pixels; // of the widest times the highest
    int least_side; // of any picture
    bool one_size;
} view_sizes;
view_sizes view_sizes_of(const target_view *views, size_t count);

// The most views of a step.
int64_t resolution_most_views(const resolution_schedule *schedule, int64_t batch);
// Fails unless the views can share a step: cameras of one model, and pictures that, all made as large as the widest
// and the highest, have at most a quarter more pixels.
bool resolution_views_match(const target_view *views, size_t count, fault *why);

// What the pictures are in a phase. The factor is lowered where a side would be shorter than RESOLUTIONS_LEAST_SIDE.
// batch: views per step after the last phase. Where steps have several, views of different sizes become as large as the
// largest.
picture_form resolution_form(const resolution_schedule *schedule, const target_view *views, size_t count,
                             int64_t batch, int phase);

// The views of all phases. Starts as {0}.
typedef struct resolution_views {
    const target_view *whole; // not owned, or `padded`
    target_view *padded;      // the views at one size; NULL: they have one
    size_t count;
    target_view *small[RESOLUTIONS_MOST]; // NULL: `whole`
} resolution_views;

// Each in the form of its phase.
bool resolution_views_open(resolution_views *all, const resolution_schedule *schedule,
                           const target_view *views, size_t count, int64_t batch, fault *why);
const target_view *resolution_views_at(const resolution_views *all, int phase); // [count]
void resolution_views_close(resolution_views *all);

C_LINKAGE_END
