// SPDX-License-Identifier: MIT
#include "plan/resolutions.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Reads ":number" or "number".
static bool read_number(const char **text, bool after_colon, double least, double most, double *value) {
    if (after_colon && *(*text)++ != ':') return false;
    char *end;
    *value = strtod(*text, &end);
    const bool read = end != *text && *value >= least && *value <= most;
    *text = end;
    return read;
}

static bool read_phase(const char **text, double least, resolution_phase *phase) {
    double factor, batch = 0;
    if (!read_number(text, false, 1, GS_MAX_SIZE, &factor) ||
        !read_number(text, true, least, 100, &phase->percent) ||
        (**text == ':' && !read_number(text, true, 1, GS_MAX_VIEWS, &batch)))
        return false;
    phase->factor = (int)factor;
    phase->batch = (int)batch;
    return phase->factor == factor && phase->batch == batch;
}

bool resolution_schedule_read(const char *text, resolution_schedule *schedule, fault *why) {
    *schedule = (resolution_schedule){0};
    schedule->automatic = strcmp(text, "auto") == 0;
    if (schedule->automatic || strcmp(text, "none") == 0) return true;
    const char *at = text;
    double percent = 0;
    while (schedule->count < RESOLUTIONS_MOST) {
        resolution_phase *phase = &schedule->phase[schedule->count++];
        if (!read_phase(&at, percent, phase)) break;
        percent = phase->percent;
        if (*at == 0) return true;
        if (*at++ != ',') break;
    }
    return fail(
        why,
        "--resolutions %s: must be auto, none, or up to %d of FACTOR:PERCENT or FACTOR:PERCENT:VIEWS with rising "
        "PERCENT, such as 4:20,2:50",
        text, RESOLUTIONS_MOST);
}

int64_t resolution_phase_end(const resolution_schedule *schedule, int64_t iterations, int phase) {
    return phase < schedule->count ? (int64_t)floor((double)iterations * schedule->phase[phase].percent / 100)
                                   : iterations;
}

int resolution_phase_at(const resolution_schedule *schedule, int64_t iterations, int64_t step) {
    int phase = 0;
    while (phase < schedule->count && step > resolution_phase_end(schedule, iterations, phase)) phase++;
    return phase;
}

static int least_side(const target_view *views, size_t count) {
    int least = GS_MAX_SIZE;
    for (size_t i = 0; i < count; i++) {
        const gs_camera *camera = &views[i].camera;
        if (camera->width < least) least = camera->width;
        if (camera->height < least) least = camera->height;
    }
    return least;
}

int64_t resolution_most_views(const resolution_schedule *schedule, int64_t batch) {
    for (int phase = 0; phase < schedule->count; phase++)
        if (schedule->phase[phase].batch > batch) batch = schedule->phase[phase].batch;
    return batch;
}

static void largest_size(const target_view *views, size_t count, int *width, int *height) {
    *width = *height = 0;
    for (size_t i = 0; i < count; i++) {
        const gs_camera *camera = &views[i].camera;
        if (camera->width > *width) *width = camera->width;
        if (camera->height > *height) *height = camera->height;
    }
}

view_sizes view_sizes_of(const target_view *views, size_t count) {
    int width, height;
    largest_size(views, count, &width, &height);
    view_sizes sizes = {count, (int64_t)width * height, least_side(views, count), true};
    for (size_t i = 0; i < count; i++)
        sizes.one_size &= views[i].camera.width == width && views[i].camera.height == height;
    return sizes;
}

bool resolution_views_match(const target_view *views, size_t count, fault *why) {
    int width, height;
    largest_size(views, count, &width, &height);
    double pixels = 0;
    for (size_t i = 0; i < count; i++) {
        pixels += (double)views[i].camera.width * views[i].camera.height;
        if (views[i].camera.model != views[0].camera.model)
            return fail(why, "several views per step need cameras of one model");
    }
    return (double)width * height * (double)count <= 1.25 * pixels ||
           fail(why, "several views per step need pictures of about one size");
}

picture_form resolution_form(const resolution_schedule *schedule, const target_view *views, size_t count,
                             int64_t batch, int phase) {
    picture_form form = {.factor = 1};
    const view_sizes sizes = view_sizes_of(views, count);
    if (resolution_most_views(schedule, batch) > 1 && !sizes.one_size)
        largest_size(views, count, &form.width, &form.height);
    const int shortest = form.width == 0            ? sizes.least_side
                         : form.width < form.height ? form.width
                                                    : form.height;
    const int most = shortest / RESOLUTIONS_LEAST_SIDE;
    const int wanted = phase < schedule->count ? schedule->phase[phase].factor : 1;
    if (most > 1) form.factor = wanted < most ? wanted : most;
    return form;
}

static bool pad_views(resolution_views *all, const picture_form *form, fault *why) {
    all->padded = calloc(all->count, sizeof *all->padded);
    if (!all->padded) return fail(why, "no memory for %zu views", all->count);
    for (size_t i = 0; i < all->count; i++)
        if (!target_view_pad(&all->padded[i], &all->whole[i], form->width, form->height,
                             all->whole[i].alpha != NULL, why))
            return false;
    all->whole = all->padded;
    return true;
}

bool resolution_views_open(resolution_views *all, const resolution_schedule *schedule,
                           const target_view *views, size_t count, int64_t batch, fault *why) {
    *all = (resolution_views){.whole = views, .count = count};
    for (int phase = 0; phase <= schedule->count; phase++) {
        const picture_form form = resolution_form(schedule, views, count, batch, phase);
        if (form.width > 0 && !all->padded && !pad_views(all, &form, why)) return false;
        if (form.factor <= 1) continue;
        target_view *small = all->small[phase] = calloc(count, sizeof *small);
        if (!small) return fail(why, "no memory for %zu small views", count);
        for (size_t i = 0; i < count; i++) target_view_shrink(&small[i], &all->whole[i], form.factor);
    }
    return true;
}

const target_view *resolution_views_at(const resolution_views *all, int phase) {
    return phase < RESOLUTIONS_MOST && all->small[phase] ? all->small[phase] : all->whole;
}

void resolution_views_close(resolution_views *all) {
    for (int phase = 0; phase < RESOLUTIONS_MOST; phase++) {
        for (size_t i = 0; all->small[phase] && i < all->count; i++) target_view_close(&all->small[phase][i]);
        free(all->small[phase]);
    }
    for (size_t i = 0; all->padded && i < all->count; i++) target_view_close(&all->padded[i]);
    free(all->padded);
    *all = (resolution_views){0};
}
