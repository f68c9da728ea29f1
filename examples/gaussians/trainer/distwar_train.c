// SPDX-License-Identifier: MIT
// The trainer behind distwar_train.h: one rank, with all that a caller would otherwise have to own.
#include "distwar_train.h"
#include "scene.h"
#include "start.h"
#include "checkpoint.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct distwar_trainer {
    char *key, *default_key; // of checkpoints
    ranks *group;
    size_t view_count;
    image *pictures;    // [view_count], of the caller's pixels
    target_view *views; // [view_count]
    validation_views validation;
    training_settings choices;
    training_data known;
    training_settings settings;
    training_state state;
    trainer *trainer;
    bool failed;
};

// ---- errors

static _Thread_local fault last;
static _Thread_local jmp_buf *on_failure; // of the call that is under way

const char *distwar_train_error(void) {
    return last.text;
}

// For device_on_failure, whose caller would end the program.
static void leave(const char *text) {
    if (!on_failure) return;
    fail(&last, "%s", text);
    longjmp(*on_failure, 1);
}

// here: where a failure of the device goes until the call returns, which then returns false.
static bool guard_begin(distwar_trainer *t, jmp_buf *here) {
    if (!t || t->failed) return fail(&last, "the trainer has failed, or there is none");
    device_on_failure(leave);
    on_failure = here;
    return true;
}

static void guard_end(jmp_buf *here) {
    (void)here;
    on_failure = NULL;
}

#define GUARD(t)                                                                                             \
    jmp_buf here_ __attribute__((cleanup(guard_end)));                                                       \
    if (!guard_begin(t, &here_)) return false;                                                               \
    if (setjmp(here_) != 0) return (t)->failed = true, false

// ---- open and close

// What is chosen, and the options by which it is.
typedef struct chosen {
    training_settings of;
    const char *background;
    option_table table;
} chosen;

static bool set(const option_table *table, const char *setting) {
    const size_t length = strcspn(setting, "=");
    const char *const text = setting + length + 1;
    const option_spec *row = table->rows;
    while (row->kind != OPTION_END && (strncmp(row->name, setting, length) != 0 || row->name[length])) row++;
    if (row->kind == OPTION_END || !setting[length]) return fail(&last, "there is no setting '%s'", setting);
    if (row->kind != OPTION_FLAG) return option_set(row, text, &last);
    *(bool *)row->value = strcmp(text, "1") == 0;
    return strcmp(text, "0") == 0 || *(bool *)row->value ||
           fail(&last, "%s must be 0 or 1, not '%s'", row->name, text);
}

// The table of training_settings gives names and ranges, and what a checkpoint says.
static bool choose(chosen *to, const char *const *given) {
    static const distwar_policy fixed = {DISTWAR_FIXED, 0};
    training_settings *const settings = &to->of;
    *to = (chosen){.of = training_settings_default(), .background = "0,0,0"};
    const option_spec rows[] = {
        QUALITY_OPTIONS(settings),
        CAMERA_OPTIONS(settings),
        STEP_OPTIONS(settings),
        LOSS_OPTIONS(settings),
        LOSS_TERMS(WEIGHT_OPTION) OPTION("budget", &settings->budget, .maximum = INFINITY),
        OPTION("validate", &settings->validate, .minimum = -1, .maximum = INFINITY, .automatic = true),
        OPTION("background", &to->background),
        OPTIONS_END};
    option_table_add(&to->table, rows);
    density_options_list(&settings->density, &to->table);
    for (int i = 0; i < to->table.count; i++) to->table.rows[i].free_on_resume = false;
    for (; given && *given; given++)
        if (!set(&to->table, *given)) return false;
    if (!parse_color(to->background, settings->background, &last) ||
        !training_settings_combine(settings, &last))
        return false;
    if (settings->iterations == 0 && settings->budget == 0) settings->iterations = DEFAULT_ITERATIONS;
    if (settings->reproducible) settings->tune = false, settings->policy = fixed;
    return true;
}

bool distwar_train_check(const char *const *settings) {
    chosen unused;
    return choose(&unused, settings);
}

static bool read_settings(distwar_trainer *t, const char *const *given) {
    chosen wanted, usual;
    if (!choose(&wanted, given) || !choose(&usual, NULL)) return false;
    t->choices = wanted.of;
    t->key = checkpoint_settings("", wanted.table.rows, usual.table.rows);
    t->default_key = checkpoint_settings("", usual.table.rows, NULL);
    return (t->key && t->default_key) || fail(&last, "no memory for the settings");
}

// What files may not hold, views may not either.
static bool check_camera(const gs_camera *camera, size_t view) {
    const lens optics = {.width = camera->width,
                         .height = camera->height,
                         .fx = (double)camera->fx,
                         .fy = (double)camera->fy,
                         .cx = (double)camera->cx,
                         .cy = (double)camera->cy};
    double rotation[9], scale;
    fault reason;
    if (camera->width < 1 || camera->height < 1) return fail(&last, "view %zu has no pixels", view);
    if (optics.fx == 0 || optics.fy == 0 || isnan(optics.cx) || isnan(optics.cy))
        return fail(&last, "view %zu has fx, fy, cx, cy = %g, %g, %g, %g", view, optics.fx, optics.fy,
                    optics.cx, optics.cy);
    if (!lens_check(&optics, &reason)) return fail(&last, "view %zu has %s", view, reason.text);
    for (int k = 0; k < 9; k++) rotation[k] = (double)camera->rotation[k];
    if (!rotation_of(rotation, &scale, &reason)) return fail(&last, "view %zu: %s", view, reason.text);
    if (scale != 1) return fail(&last, "view %zu has a rotation times %g", view, scale);
    const double at[3] = {(double)camera->translation[0], (double)camera->translation[1],
                          (double)camera->translation[2]};
    return place_is_near(at) ||
           fail(&last, "view %zu has the translation %g, %g, %g", view, at[0], at[1], at[2]);
}

static bool open_views(distwar_trainer *t, const distwar_train_data *data) {
    t->view_count = data->view_count;
    if (data->view_count < 1) return fail(&last, "there is no view");
    t->pictures = calloc(data->view_count, sizeof *t->pictures);
    t->views = calloc(data->view_count, sizeof *t->views);
    if (!t->pictures || !t->views) return fail(&last, "no memory for %zu views", data->view_count);
    for (size_t i = 0; i < data->view_count; i++) {
        const distwar_train_view *const from = &data->views[i];
        target_view *const view = &t->views[i];
        if (!from->pixels) return fail(&last, "view %zu has no pixels", i);
        if (!check_camera(&from->camera, i)) return false;
        t->pictures[i] = (image){.width = from->camera.width, .height = from->camera.height, .channels = 3};
        t->pictures[i].pixels = (uint8_t *)(uintptr_t)from->pixels; // read only
        if (!target_view_open(view, &from->camera, &t->pictures[i], &last)) return false;
        target_view_set_mask(view, from->mask);
        view->outline = from->alpha, view->depth_on_host = from->inverse_depth;
        target_view_upload(view, t->choices.random_background);
        if ((from->inverse_depth != NULL) != (data->views->inverse_depth != NULL))
            return fail(&last, "some views have depth, others have none");
        if ((from->camera.near_plane == 0) != (data->views->camera.near_plane == 0))
            return fail(&last, "some cameras have a near plane, others have none");
    }
    if (data->views->camera.near_plane == 0)
        dataset_set_near_planes(&t->views->camera, sizeof *t->views, t->view_count);
    t->known = training_data_of(t->views, t->view_count);
    t->known.everywhere = data->everywhere;
    return training_settings_suit(&t->choices, &t->known, &last) &&
           validation_views_choose(t->views, t->view_count,
                                   training_validation_count(&t->choices, t->view_count), &t->validation,
                                   &last);
}

static bool open_all(distwar_trainer *t, const distwar_train_data *data, const char *const *settings) {
    GUARD(t);
    if (!read_settings(t, settings) || !open_views(t, data)) return false;
    t->settings = training_settings_start(&t->choices, &t->known);
    start_settings start = {.sh_degree = (int)t->choices.sh_degree, .extent = t->known.extent};
    gs_gaussians host = data->scene;
    const bool from_points = host.count == 0;
    const int64_t views = (int64_t)t->view_count;
    density_start(&t->choices.density, &t->known, t->settings.iterations, &start.opacity, &start.size);
    if (from_points && data->point_count == 0)
        return fail(&last, "there are neither points nor Gaussians to start from");
    for (size_t i = 0; from_points && i < data->point_count; i++) {
        const float *const p = data->points[i];
        if (!place_is_near((const double[3]){(double)p[0], (double)p[1], (double)p[2]}))
            return fail(&last, "point %zu is not finite, or farther than 1e18 from the origin", i);
    }
    if (from_points &&
        !gaussians_from_points(data->points, data->colors, data->point_count, &start, &host, &last))
        return false;
    host.antialias = t->choices.antialias;
    training_state_open(&t->state, t->group, &host);
    if (from_points) scene_close(&host);
    if (t->choices.exposure && default_exposures(t->view_count))
        training_state_open_exposures(&t->state, views);
    if (t->choices.refine_poses &&
        !(training_state_open_poses(&t->state, views, &last) &&
          poses_start_in(t->state.pose, t->views, t->view_count, &t->state, &last)))
        return false;
    t->trainer = trainer_open(NULL, &t->state, t->views, t->view_count, &t->settings, &last);
    return t->trainer != NULL;
}

distwar_trainer *distwar_trainer_open(const distwar_train_data *data, const char *const *settings) {
    distwar_trainer *const t = calloc(1, sizeof *t);
    if (t) t->group = ranks_alone_open();
    if (!t || !t->group || !data)
        fail(&last, "%s", data ? "no memory for a trainer" : "data must be given");
    else if (open_all(t, data, settings))
        return t;
    distwar_trainer_close(t);
    return NULL;
}

void distwar_trainer_close(distwar_trainer *t) {
    if (!t) return;
    if (!t->failed) { // else what lies on the device cannot be freed
        trainer_close(t->trainer);
        training_state_close(&t->state);
        for (size_t i = 0; t->views && i < t->view_count; i++) target_view_close(&t->views[i]);
    }
    validation_views_close(&t->validation);
    free(t->views);
    free(t->pictures);
    free(t->key);
    free(t->default_key);
    ranks_alone_close(t->group);
    free(t);
}

// ---- steps

bool distwar_trainer_step(distwar_trainer *t) {
    GUARD(t);
    return t->trainer->over || trainer_step(t->trainer) || fail(&last, "%s", ranks_error(t->group));
}

bool distwar_trainer_is_over(const distwar_trainer *t) {
    return !t || t->failed || t->trainer->over;
}

bool distwar_trainer_progress(distwar_trainer *t, distwar_train_progress *out) {
    GUARD(t);
    const training_report *const r = trainer_report(t->trainer);
    if (!r) return fail(&last, "%s", ranks_error(t->group));
    const bool budget = t->choices.budget > 0;
    *out = (distwar_train_progress){.views = t->state.place.views,
                                    .views_in_all = budget ? (int64_t)t->state.place.length
                                                           : scheduled_views(&t->settings, &t->state.place),
                                    .steps = t->state.place.steps,
                                    .gaussians = t->state.gaussians.count,
                                    .sh_degree = t->state.gaussians.sh_degree,
                                    .seconds = r->seconds,
                                    .loss = r->last_loss,
                                    .loss_count = (size_t)(r->iterations - r->first_iteration + 1),
                                    .losses = r->losses};
    return true;
}

bool distwar_trainer_validate(distwar_trainer *t, distwar_train_validation *out) {
    GUARD(t);
    const training_report *const r = trainer_report(t->trainer);
    *out = (distwar_train_validation){0};
    if (!r) return fail(&last, "%s", ranks_error(t->group));
    if (!r->validating) return true;
    const validation_views *const v = &t->validation;
    const shown_views shown = {.views = t->views, .background = t->choices.background};
    quality of, trained;
    if (!quality_measure(&t->state, &shown, v->views, 0, v->count, &of, NULL, &last) ||
        !quality_measure(&t->state, &shown, v->trained, 0, v->count, &trained, NULL, &last))
        return false;
    *out = (distwar_train_validation){v->count, of.psnr, of.ssim, trained.psnr, trained.ssim};
    return true;
}

// ---- what there is

bool distwar_trainer_scene(distwar_trainer *t, gs_gaussians *out) {
    GUARD(t);
    const gs_gaussians *const now = &t->state.gaussians;
    if (out->count < now->count || out->sh_degree != now->sh_degree)
        return fail(&last,
                    "there is room for %lld Gaussians of SH degree %d, the scene has %lld of degree %d",
                    (long long)out->count, out->sh_degree, (long long)now->count, now->sh_degree);
    out->count = now->count;
    out->antialias = now->antialias;
    device_gaussians_copy(out, now);
    return true;
}

bool distwar_trainer_camera(distwar_trainer *t, size_t view, gs_camera *out) {
    if (!t || t->failed || view >= t->view_count)
        return fail(&last, "there is no view %zu, or the trainer has failed", view);
    *out = t->views[view].camera;
    if (t->state.poses > 0) pose_to_camera(&t->state.pose[view].now, out);
    return true;
}

bool distwar_trainer_picture(distwar_trainer *t, const gs_camera *camera, uint8_t *rgb) {
    GUARD(t);
    image picture;
    frame f = {0};
    frame_render(&f, &t->state.gaussians, t->state.gaussians.sh_degree, camera, t->choices.background);
    const bool done = frame_picture(&f, &picture, &last);
    frame_close(&f);
    if (!done) return false;
    memcpy(rgb, picture.pixels, 3 * (size_t)picture.width * (size_t)picture.height);
    image_close(&picture);
    return true;
}

// ---- save and resume

static checkpoint_key key_of(const distwar_trainer *t) {
    return (checkpoint_key){t->key, checkpoint_fingerprint(t->views, t->view_count), t->default_key};
}

bool distwar_trainer_save(distwar_trainer *t, bool (*write)(void *context, const void *bytes, size_t count),
                          void *context) {
    GUARD(t);
    const checkpoint_key key = key_of(t);
    if (!trainer_report(t->trainer)) return fail(&last, "%s", ranks_error(t->group)); // the time that is used
    return checkpoint_write_to(&(checkpoint_sink){write, context}, &key, &t->state, &last);
}

bool distwar_trainer_resume(distwar_trainer *t, const void *bytes, size_t count) {
    GUARD(t);
    const checkpoint_key key = key_of(t);
    training_state state;
    if (!checkpoint_read_from(bytes, count, &key, t->group, &state, &last)) return false;
    trainer_close(t->trainer);
    training_state_close(&t->state);
    t->state = state;
    training_state_antialias(&t->state, t->choices.antialias);
    t->trainer = trainer_open(NULL, &t->state, t->views, t->view_count, &t->settings, &last);
    t->failed = !t->trainer;
    return t->trainer != NULL;
}
