// SPDX-License-Identifier: MIT
#include "plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- where a run is

bool training_passed(int64_t iteration, int64_t views, int64_t every) {
    return iteration / every > (iteration - views) / every;
}

int64_t scheduled_early_views(const run_place *place) {
    return place->ended + (place->ended + 2) / 3;
}

scene_role place_role(const run_place *place) {
    if (place->scenes == 0) return place->scene == 0 ? SCENE_FIRST : SCENE_LONGER;
    return place->scene < place->scenes ? SCENE_TEACHER : SCENE_STUDENT;
}

bool place_goes_by_views(const run_place *place) {
    const scene_role role = place_role(place);
    return role == SCENE_TEACHER || (role == SCENE_FIRST && place->first_run > 0);
}

void place_fit(const run_place *place, training_settings *settings) {
    const bool first = place->first_run > 0 && place_goes_by_views(place);
    settings->fit(settings->context, first ? (double)place->first_run : place->length, settings);
}

int64_t scheduled_teachers(const training_settings *settings, const run_place *place) {
    if (place->ended == 0 || (settings->budget > 0 && !(place->seconds > 0))) return 0;
    const double each = place->first_seconds > 0 ? place->first_seconds : place->seconds;
    const double lengths = settings->budget > 0
                               ? 1 + (settings->budget - place->seconds) / each
                               : (double)settings->iterations / (double)scheduled_early_views(place);
    const int64_t room = (int64_t)fmin(lengths, TEACHERS_MOST + 2) - 2,
                  teachers = settings->teachers < room ? settings->teachers : room;
    return teachers >= 2 ? teachers : 0;
}

int64_t scheduled_views(const training_settings *settings, const run_place *place) {
    return place->ended > 0 && place->scenes == 0 ? scheduled_early_views(place) : settings->iterations;
}

int64_t place_last_view(const training_settings *settings, const run_place *place, int64_t of_size) {
    if (place->ended == 0) return of_size;
    if (place_role(place) == SCENE_STUDENT) return settings->iterations;
    if (place->views - place->began >= place->ended) return place->began + scheduled_early_views(place);
    return place->began + (of_size < place->ended ? of_size : place->ended);
}

// Where the end of the schedule begins, 0..1, that follows once place->ended is known.
static double scheduled_end(const training_settings *s) {
    const bool grows = s->density.kind != DENSITY_NONE;
    return fmin(1, fmax(s->validation_until, grows ? progress_at(s, s->density.until) : 0));
}

// The step of the schedule after so many views, once training has ended before its time.
static int64_t step_at_end(const training_settings *settings, const run_place *place, int64_t views) {
    const int64_t own = views - place->began;
    const double last = (double)(settings->iterations - 1), from = scheduled_end(settings),
                 done = (double)(own - place->ended) / (double)(scheduled_early_views(place) - place->ended);
    if (place_role(place) == SCENE_STUDENT)
        return 1 + (int64_t)((double)own / (double)(settings->iterations - place->began) * last + 0.5);
    return own <= place->ended ? own : 1 + (int64_t)((from + (1 - from) * fmin(done, 1)) * last + 0.5);
}

void place_open(run_place *place, const training_settings *settings) {
    place->at = place->views, place->before = place->views - 1;
    place->length = place->progress = place->seconds = 0;
    if (place->ended > 0)
        place->at = step_at_end(settings, place, place->views), place->before = place->at - 1;
}

bool place_is_over(const run_place *place, const training_settings *settings, const pace *pace) {
    if (!(settings->budget > 0)) return place->views >= scheduled_views(settings, place);
    if (place_role(place) == SCENE_TEACHER || pace_is_over(pace)) return pace_is_over(pace);
    const bool early = place->ended > 0 && place_role(place) != SCENE_STUDENT;
    return place->progress >= 1 || (early && place->views >= scheduled_early_views(place)) ||
           (place_goes_by_views(place) && place->views >= place->first_run);
}

// Whether the length is to be set, for the first time, or anew where in the first half, in which Gaussians are added, there is
// much more or less time for steps than thought.
static bool wants_length(const run_place *place, const pace *pace, int32_t views) {
    const double now_worth = pace_views_in_all(pace, place->views, views), factor = 1.3;
    if (!pace_is_known(pace) || place->length == 0) return pace_is_known(pace);
    return place->progress < 0.5 && place->ended == 0 &&
           (now_worth > factor * place->length || now_worth < place->length / factor);
}

// A budget that is worth at least so many runs of the usual length begins with one: what follows is no worse.
static const double least_runs = 4;

void place_advance(run_place *place, pace *pace, training_settings *settings, int32_t views,
                   int64_t gaussians, double seconds, bool may_begin_again) {
    const density_settings *const density = &settings->density;
    place->before = place->at;
    place->at = place->ended > 0 ? step_at_end(settings, place, place->views + views) : place->at + views;
    if (settings->budget <= 0) return;
    place->seconds = seconds;
    pace_note(pace, place->seconds);
    if (place_goes_by_views(place)) return;
    pace->ahead = density_time_ahead(density, settings->iterations, gaussians, place->before);
    if (wants_length(place, pace, views)) {
        const bool first = place->length == 0;
        place->length = pace_views_in_all(pace, place->views, views);
        if (first && place_role(place) == SCENE_FIRST && may_begin_again &&
            place->length >= least_runs * (double)settings->iterations) {
            place->first_run = settings->iterations, pace->between_left = 0;
            return;
        }
        place_fit(place, settings);
        if (first) place->progress = fmin(1, progress_at(settings, place->at));
    }
    pace->between_left = retirements_left(density, place->before); // with this step's
    const bool ends = place->ended > 0 && place_role(place) != SCENE_STUDENT;
    const int64_t by_views = place->at;
    if (ends) place->progress = fmax(place->progress, scheduled_end(settings));
    if (place->length > 0) {
        place->progress = pace_next(pace, place->progress);
        place->at = 1 + (int64_t)(place->progress * (double)(settings->iterations - 1) + 0.5);
    }
    if (ends && place->at < by_views) place->at = by_views;
    if (place->at < place->before) place->at = place->before;
}

// ---- what a step has

// Iterations between samples of the average: neighbouring steps say the same.
enum { AVERAGE_EVERY = 5 };

int scheduled_sh_degree(const training_settings *settings, int sh_degree, int64_t step) {
    int64_t degree = settings->sh_interval > 0 ? (step - 1) / settings->sh_interval : sh_degree;
    return degree < sh_degree ? (int)degree : sh_degree;
}

double progress_at(const training_settings *settings, int64_t step) {
    return settings->iterations > 1 ? (double)(step - 1) / (double)(settings->iterations - 1) : 0;
}

double scheduled_weight(const training_settings *settings, double first, double part, int64_t step) {
    return first * pow(part, progress_at(settings, step));
}

void scale_rates(gs_adam_rates *rates, float factor) {
    rates->mean *= factor, rates->log_scale *= factor, rates->quaternion *= factor;
    rates->opacity_logit *= factor, rates->sh0 *= factor, rates->shN *= factor;
}

gs_adam_rates scheduled_rates(const training_settings *s, int64_t step, int degree, int64_t views) {
    const double progress = progress_at(s, step), sh_first = s->rates.shN, sh_last = s->final_sh_rest;
    gs_adam_rates rates = s->rates;
    if (rates.mean != 0) rates.mean = (float)(rates.mean * pow(s->final_mean_rate / rates.mean, progress));
    if (sh_first != 0 && sh_last != 0) rates.shN = (float)(sh_first * pow(sh_last / sh_first, progress));
    scale_rates(&rates, sqrtf((float)views));
    rates.sh_coefficients = (degree + 1) * (degree + 1);
    return rates;
}

int64_t average_from(const training_settings *s) {
    const int64_t from = s->iterations - (int64_t)(s->average_part * (double)s->iterations);
    const bool acts = s->density.kind != DENSITY_NONE && s->average_part > 0;
    return acts && s->density.until > from ? s->density.until : from;
}

bool average_is_due(const training_settings *settings, int64_t before, int64_t at) {
    return at > average_from(settings) && training_passed(at, at - before, AVERAGE_EVERY);
}

// ---- the pace of a budget

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

bool pace_is_known(const pace *p) {
    return p->steps > KNOWN_STEPS || (p->steps > LEAST_STEPS && p->last * KNOWN_SHARE >= p->budget) ||
           (p->steps > 1 && p->last * LAST_SHARE >= p->budget);
}

double pace_steps_left(const pace *p) {
    const double left = p->budget - p->last;
    const int64_t timed = p->steps - 1, count = timed < PACE_WINDOW ? timed : PACE_WINDOW;
    double sorted[PACE_WINDOW] = {0};
    if (count > 0) {
        memcpy(sorted, p->recent, (size_t)count * sizeof *sorted);
        qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    }
    const double median = count > 0 ? sorted[(count - 1) / 2] : 0;
    const double one = median * (p->ahead > 0 ? p->ahead : 1),
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
