// SPDX-License-Identifier: MIT
// Scenes that were trained from the same start on the same photographs differ where the photographs say little. The mean
// of their pictures is nearer to the truth than any of them (an ensemble), and one scene can learn it (distillation:
// Hinton, Vinyals and Dean 2015). So where training ends early, more scenes are trained up to there from the same start, and
// then a last one, on photographs and on taught views: these show that mean, from places between two photographs'.
#include "trainer.h"
#include "distwar_gs.h"
#include "gpu/vector.h"
#include "random.h"
#include "scene.h"
#include <math.h>

// At most this part of the last scene's views are photographs, and this part of those that a teacher has seen.
static const double most_photographs = 0.5, photographs_again = 0.5;
enum { NEAREST = 4 }; // views that a taught one is drawn between

// The last scene grows no larger than the largest of the others: more Gaussians learn the photographs' noise again.
static void limit_growth(trainer *t) {
    int64_t most = 0;
    for (int32_t k = 0; k < t->state->place.scene; k++)
        if (t->state->distillation.teacher[k].count > most) most = t->state->distillation.teacher[k].count;
    if (most < t->fitted.density.most_gaussians) t->fitted.density.most_gaussians = most;
}

bool distillation_open(trainer *t) {
    training_state *const state = t->state;
    const bool may_end = t->settings->teachers >= 2 && t->source.trained_order.count > 0;
    if (may_end && state->place.views == 0) { // on the host: it is seldom needed
        gs_gaussians start, *const kept = &state->distillation.start;
        fault why;
        if (!training_state_copy(state, &start)) return false;
        const bool done = scene_open(kept, start.count, start.sh_degree, &why);
        if (done) device_gaussians_copy(kept, &start);
        kept->antialias = start.antialias;
        device_gaussians_close(&start);
        if (!done) return ranks_fail_with(state->group, &why);
    }
    if (place_role(&state->place) == SCENE_STUDENT) limit_growth(t);
    return distillation_next(t); // a complete run that has become longer
}

void distillation_close(trainer *t) {
    for (int k = 0; k < TEACHERS_MOST; k++) frame_close(&t->teacher_frame[k]);
    device_buffer_close(&t->teacher_pixels);
}

// One of the nearest other views; the view itself if it is alone.
static size_t draw_neighbour(const trainer *t, size_t index, random_stream *random) {
    const size_t others = t->source.count - 1;
    const gs_camera *const own = &t->source.views[index].camera;
    size_t found = index;
    double least = -1; // the distance of the one that was found, before the next is
    for (size_t k = others > 0 ? random_below(random, others < NEAREST ? others : NEAREST) + 1 : 0; k > 0;
         k--) {
        const size_t last = found;
        const double from = least;
        least = INFINITY;
        for (size_t i = 0; i < t->source.count; i++) {
            const gs_camera *const other = &t->source.views[i].camera;
            double d = pow(camera_separation(own, other) / t->settings->density.extent, 2);
            for (int c = 6; c < 9; c++) // of directions
                d += pow(other->rotation[c] - own->rotation[c], 2);
            const bool is_next = i != index && (d > from || (d == from && i > last));
            if (is_next && d < least) least = d, found = i;
        }
    }
    return found;
}

// Moves a camera by `part` of the way to another. The lens stays.
static void move_towards(gs_camera *camera, const gs_camera *other, double part) {
    double from[3], to[3], center[3], r[9];
    for (int i = 0; i < 9; i++)
        r[i] = (1 - part) * (double)camera->rotation[i] + part * (double)other->rotation[i];
    // Made orthonormal (Gram and Schmidt), unless rows are nearly parallel.
    for (int row = 0; row < 2; row++) {
        double *const at = r + 3 * row;
        const double along = row > 0 ? dot(at, r) : 0;
        for (int i = 0; i < 3; i++) at[i] -= along * r[i];
        const double length = dot(at, at);
        if (!(length > 0.1)) return;
        for (int i = 0; i < 3; i++) at[i] /= sqrt(length);
    }
    cross(r, r + 3, r + 6);
    camera_center(camera, from);
    camera_center(other, to);
    for (int i = 0; i < 3; i++) center[i] = (1 - part) * from[i] + part * to[i];
    for (int i = 0; i < 9; i++) camera->rotation[i] = (float)r[i];
    for (int row = 0; row < 3; row++) camera->translation[row] = (float)-dot(r + 3 * row, center);
}

void distillation_choose(trainer *t, step_views *of) {
    const run_place *const place = &t->state->place;
    if (place_role(place) != SCENE_STUDENT) return;
    const double early = (double)scheduled_early_views(place),
                 all = t->settings->budget > 0 ? pace_views_in_all(&t->pace, place->views, of->count)
                                               : (double)t->settings->iterations,
                 own = fmax(all - (double)place->began, early),
                 photographs = fmin(photographs_again * early / own, most_photographs);
    random_stream random =
        random_at((uint64_t)t->settings->seed, RANDOM_DISTILLATION, (uint64_t)of->first, 0);
    for (int32_t v = 0; v < of->count; v++) {
        of->taught[v] = random_unit(&random) >= photographs;
        if (!of->taught[v]) continue;
        of->exposure[v] = NULL; // teachers render without
        const size_t other = draw_neighbour(t, of->index[v], &random);
        move_towards(&of->camera[v], &t->source.views[other].camera, 0.5 * random_unit(&random));
    }
}

void distillation_render(trainer *t, step_views *of) {
    const gs_gaussians *const teacher = t->state->distillation.teacher;
    const int32_t teachers = t->state->place.scene;
    gs_camera cameras[GS_MAX_VIEWS];
    int32_t at[GS_MAX_VIEWS], count = 0;
    for (int32_t v = 0; v < of->count; v++)
        if (of->taught[v]) at[count] = v, cameras[count++] = of->camera[v];
    if (count == 0) return;
    for (int32_t k = 0; k < teachers; k++) {
        frame *const f = &t->teacher_frame[k];
        frame_project(f, &teacher[k], teacher[k].sh_degree, cameras, count);
        do frame_draw(f, 0, count, of->background);
        while (!frame_settle(f));
    }
    gs_shrinking whole = {cameras[0].width, cameras[0].height, 1, GS_SHRINK_PLANES, .count = teachers};
    const size_t bytes = GS_CHANNELS * (size_t)whole.width * (size_t)whole.height;
    uint8_t *const pixels = device_buffer_reserve(&t->teacher_pixels, (size_t)count * bytes);
    for (int32_t i = 0; i < count; i++) {
        target_view *const view = &t->taught[at[i]];
        *view = (target_view){.camera = cameras[i], .pixels = pixels + (size_t)i * bytes};
        for (int32_t k = 0; k < teachers; k++) whole.from[k] = frame_color(&t->teacher_frame[k], i);
        whole.small = view->pixels;
        GS_CHECK(gs_shrink(&whole, NULL));
        of->view[at[i]] = view;
    }
}

// Whether so many teachers take at most a quarter of the memory of every rank's device, so that a run which would have
// ended well does not fail for a few tenths of a decibel: the same on one kind of GPU, whatever else it does. A collective.
static bool have_room(const trainer *t, int64_t teachers, bool *room) {
    const int64_t lists = 400000000, each_pixel = 40; // the least that a frame takes, and its planes
    const gs_gaussians *const now = &t->state->gaussians;
    const int64_t pixels = view_sizes_of(t->source.views, t->source.count).pixels;
    int64_t of_all[RANKS_MAX];
    size_t unused, all;
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    const size_t scene = device_gaussians_bytes(training_state_count(t->state), now->sh_degree);
    const int64_t each = (int64_t)scene + lists + trainer_batch(t->settings, false) * each_pixel * pixels;
    if (!ranks_tell_all(t->group, teachers * each <= (int64_t)(all / 4), of_all, NULL)) return false;
    *room = true;
    for (int r = 0; r < ranks_count(t->group); r++) *room = *room && of_all[r] != 0;
    return true;
}

bool distillation_next(trainer *t) {
    training_state *const state = t->state;
    run_place *const place = &state->place;
    const scene_role role = place_role(place);
    const bool early = place->ended > 0;
    if (role == SCENE_STUDENT || (role == SCENE_LONGER && !early)) return true;
    if (role != SCENE_LONGER && (early ? place->views < place->began + scheduled_early_views(place)
                                       : place->first_run == 0 || place->views < place->first_run))
        return true;
    if (role != SCENE_TEACHER) {
        int64_t teachers = early ? scheduled_teachers(t->settings, place) : 1;
        if (state->distillation.start.count == 0) teachers = 0;
        if (!early) { // the first run of a long budget: a longer one has the time that is left, if that is as much
            place->first_seconds = place->seconds;
            if (t->settings->budget < 2 * place->seconds) teachers = 0;
        }
        // Teachers are as long as the first run.
        if (role == SCENE_LONGER) place->ended = place->first_run - place->first_run / 4;
        bool room = teachers > 0;
        if (room && !have_room(t, teachers, &room)) return false;
        if (role == SCENE_LONGER && !room) { // the first run is the result
            place->scenes = 1, place->progress = 1;
            training_state_restart(state, &state->distillation.teacher[0]);
        }
        if (!room) return true;
        if (early)
            place->scenes = (int32_t)teachers;
        else
            place->length = 0, state->learning = (learning_curve){0}; // they are to be known anew
    }
    if (role != SCENE_LONGER) { // one that was given up is no teacher
        parameter_average_take(&state->average, &state->gaussians);
        if (!training_state_copy(state, &state->distillation.teacher[place->scene++])) return false;
    }
    // The next one begins from the start.
    training_state_restart(state, &state->distillation.start);
    place->began = place->views;
    place->at = 0, place->before = -1, place->progress = 0;
    t->pace = (pace){.budget = t->pace.budget, .last = t->pace.last, .between = t->pace.between};
    // A longer run has the settings of the first until its length is known.
    if (place->first_run > 0 && place_role(place) != SCENE_LONGER) place_fit(place, &t->fitted);
    if (place_role(place) == SCENE_STUDENT) limit_growth(t);
    return true;
}
