// SPDX-License-Identifier: MIT
// A run of `dsplat train` on each rank, from its start to its files, which rank 0 writes.
#include "train_run.h"
#include "train_start.h"
#include "train_summary.h"
#include "plan.h"
#include "commands/page_source.h"
#include "device.h"
#include "live/training_page.h"
#include "measure/viewer.h"
#include "trainer.h"
#include "live/report.h"
#include "record/scene_pieces.h"
#include "record/signals.h"
#include "cli/progress.h"
#include "scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_run {
    train_run *run;
    ranks *group;
    bool cached;            // pictures come when they are needed
    picture_cache pictures; // to train on, likewise
    picture_cache shown;    // of all views, whole, for the viewer
    viewer viewer;
    page_source source;  // of the page
    training_page *page; // --view; else NULL
} rank_run;

static bool is_first(const rank_run *r) {
    return ranks_own(r->group) == 0;
}

static bool is_alone(const rank_run *r) {
    return ranks_count(r->group) == 1;
}

// ---- the start

static void after_size(void *context, int level, const refined_pose *poses) {
    train_run *run = context;
    run_poses *record = &run->poses.record;
    record->levels[record->sizes] = level;
    record->settled[record->sizes++] = train_poses_difference(&run->poses, poses);
}

static bool start_poses(train_run *run, fault *why) {
    const view_split *split = &run->split;
    training_state *state = &run->state;
    const pose_levels levels = {.group = state->group,
                                .levels = pose_levels_of(split->views, split->training, POSE_LEVELS),
                                .finest = POSE_FINEST,
                                .steps = default_pose_steps(split->training, run->settings.iterations),
                                .rate = pose_level_rate,
                                .start = train_start_small,
                                .done = after_size,
                                .context = run};
    training_settings settings = run->settings;
    settings.rates = published_rates(run->known.extent, 1); // of scenes that are only means
    settings.name = "refining poses";
    const double began = seconds_now();
    const bool done = training_state_open_poses(state, (int64_t)split->training, why) &&
                      poses_start_in(state->pose, split->views, split->training, state, why) &&
                      pose_levels_refine(state->pose, split->views, split->training, &settings, &levels, why);
    run->poses.record.seconds = seconds_now() - began;
    return done;
}

static bool start(train_run *run, const training_place *place, const gs_gaussians *host, fault *why) {
    if (!training_state_open_on(&run->state, place, host)) return fail(why, "%s", ranks_error(place->group));
    if (run->options->exposure && default_exposures(run->split.training))
        training_state_open_exposures(&run->state, (int64_t)run->split.training);
    return !run->options->recipe.refine_poses || start_poses(run, why);
}

static bool resume(train_run *run, const training_place *place, fault *why) {
    const train_options *o = run->options;
    training_state *state = &run->state;
    const checkpoint_key key = saver_key(&run->saver);
    if (!checkpoint_read(o->resume, &key, place, state, why)) return false;
    training_state_antialias(state, o->antialias);
    // The checksum may be right and the counts forged; training reads an exposure and a pose for every view.
    const int64_t views = (int64_t)run->split.training;
    // A run that goes on for longer averages later.
    if (!o->budget && state->place.views <= average_from(&run->settings))
        parameter_average_close(&state->average);
    return ((o->budget ? place_is_possible(&state->place) : state->place.views <= o->recipe.iterations) &&
            state->gaussians.sh_degree == o->sh_degree &&
            (state->exposures == 0 || (o->exposure && state->exposures == views)) &&
            state->poses == (o->recipe.refine_poses ? views : 0)) ||
           fail(why, "%s: damaged: no run with these options has its counts", o->resume);
}

// The device's memory for photographs if it does not hold all: what --memory leaves; of one rank, which has the device for
// itself, what is free; of several a quarter of all. 0: it holds all.
static size_t picture_room(const rank_run *r) {
    const train_run *const run = r->run;
    const training_memory *const m = &run->memory;
    size_t unused, all;
    if (run->options->memory > 0) return (size_t)fmax(1e6 * run->options->memory - m->scene - m->step, 1);
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    if (!is_alone(r)) return m->pictures > 0.25 * (double)all ? all / 4 : 0;
    if (m->scene + m->step + m->pictures <= (double)unused) return 0;
    const double lessons = run->settings.teachers >= 2 ? 0.25 * (double)all : 0;
    return (size_t)fmax(0.9 * (double)unused - m->scene - m->step - lessons, 1);
}

// Pictures are all on the device, or come when they are needed: where it does not hold all, or no rank needs all.
static bool open_pictures(rank_run *r, fault *why) {
    const train_run *const run = r->run;
    const view_split *const split = &run->split;
    const size_t all = split->training + split->held_out, most = picture_room(r);
    const bool with_alpha = run->options->recipe.random_background;
    r->cached = most > 0 || (run->way && !run->way->frames);
    for (size_t i = 0; !r->cached && i < all; i++) target_view_upload(&split->views[i], with_alpha);
    if (!r->cached) return true;
    return picture_cache_open(&r->pictures, split->views, split->training, with_alpha, most, why) &&
           picture_cache_open(&r->shown, split->views, all, false, 1,
                              why); // no more than are measured at once
}

static bool measure(void *context, quality *mean, fault *why) {
    const rank_run *const r = context;
    const view_split *const split = &r->run->split;
    return viewer_measure(&r->viewer, split->training, split->held_out, mean, NULL, why);
}

// The mean over some views, one after another: they are not neighbours.
static bool measure_each(const rank_run *r, const size_t *index, size_t count, quality *mean, fault *why) {
    quality sum = {0, 0}, one;
    for (size_t i = 0; i < count; i++) {
        if (!viewer_measure(&r->viewer, index[i], 1, &one, NULL, why)) return false;
        sum.psnr += one.psnr, sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    return true;
}

// The `validate` of run_log_options.
static bool validate(void *context, quality *aside, quality *beside, fault *why) {
    const rank_run *const r = context;
    const validation_views *const spared = &r->run->validation;
    return measure_each(r, spared->views, spared->count, aside, why) &&
           measure_each(r, spared->trained, spared->count, beside, why);
}

// ---- the log

// By default 200 lines in a run, but one every 100 steps at least.
static int64_t log_interval(const train_options *o) {
    if (o->log_every > 0) return o->log_every;
    const int64_t part = o->recipe.iterations / 200;
    return o->budget ? 100 : part < 1 ? 1 : part > 100 ? 100 : part;
}

// A twentieth of the iterations, an eighth where nobody sees the curve, and a multiple of the interval of log lines.
static int64_t validation_interval(const train_options *o, int64_t every, bool seen) {
    const int64_t part = (o->budget ? 10000 : o->recipe.iterations) / (seen ? 20 : 8) / every;
    return every * (part < 1 ? 1 : part);
}

static void record_settings(run_record *record, const train_run *run) {
    const view_split *split = &run->split;
    run_record_text(record, "data", run->options->data);
    run_record_number(record, "views", (double)split->training);
    run_record_number(record, "held_out", (double)split->held_out);
    if (run->validation.count > 0) run_record_number(record, "set_aside", (double)run->validation.count);
    run_record_number(record, "width", split->views[0].camera.width);
    run_record_number(record, "height", split->views[0].camera.height);
    run_record_options(record, run->table, run->changed);
}

enum { SELDOM = 1000000000 }; // iterations

static run_log_options log_options(const train_run *run) {
    const train_options *o = run->options;
    const bool kept = o->log || o->report; // otherwise training need not wait for values
    run_log_options wanted = {.path = o->log,
                              .append = o->resume != NULL,
                              .every = kept        ? log_interval(o)
                                       : o->budget ? SELDOM
                                                   : o->recipe.iterations,
                              .evaluate_every = kept || o->view ? o->eval_every : 0,
                              .held_out = run->split.views + run->split.training,
                              .held_out_count = run->split.held_out};
    // Multiples of SELDOM, so that nobody looks on in between.
    if (!kept && wanted.evaluate_every > 0) wanted.every = SELDOM * wanted.evaluate_every;
    if (run->validation.count > 0) {
        wanted.validate_every = validation_interval(o, kept ? wanted.every : 1, kept || o->view);
        wanted.set_aside = run->validation.count;
        if (!kept) wanted.every = SELDOM * wanted.validate_every;
    }
    memcpy(wanted.background, run->options->recipe.background, sizeof wanted.background);
    return wanted;
}

// All ranks keep the record, as all of them measure; the first one writes it.
static bool open_log(rank_run *r, fault *why) {
    train_run *const run = r->run;
    run_log_options wanted = log_options(run);
    wanted.measure = measure;
    wanted.validate = validate;
    wanted.context = r;
    if (!is_first(r)) wanted.path = NULL;
    if (!run_log_open(&run->log, &wanted, why)) return false;
    record_settings(&run->log.record, run);
    run_log_start(&run->log, &run->state);
    return true;
}

enum { PAGE_VIEWS = 16, PAGE_MOST = 1000000 }; // as dsplat view has by default

// The `wants` of training_observer.
static bool page_wants(void *context) {
    const rank_run *const r = context;
    return training_page_wants(r->page);
}

static bool open_page(rank_run *r, fault *why) {
    const train_run *const run = r->run;
    const train_options *const o = run->options;
    if (!o->view) return true;
    if (!page_source_of_run(&r->source, &run->split, PAGE_VIEWS, why)) return false;
    r->source.content.title = o->data;
    memcpy(r->source.content.background, o->recipe.background, sizeof o->recipe.background);
    const training_page_options options = {.listen = o->listen,
                                           .content = r->source.content,
                                           .cameras = r->source.small,
                                           .most = PAGE_MOST,
                                           .iterations = o->budget ? 0 : o->recipe.iterations,
                                           .patience = TRAINING_PAGE_PATIENCE};
    r->page = training_page_start(&options, why);
    if (r->page) page_server_print(training_page_server(r->page));
    return r->page != NULL;
}

static bool open_rank(rank_run *r, const gs_gaussians *host, fault *why) {
    train_run *const run = r->run;
    if (!open_pictures(r, why)) return false;
    const training_place place = {r->group, run->way};
    r->viewer = (viewer){.state = &run->state,
                         .shown = {.views = run->split.views,
                                   .pictures = r->cached ? &r->shown : NULL,
                                   .policy = run->settings.policy,
                                   .batch = run->settings.batch}};
    memcpy(r->viewer.shown.background, run->options->recipe.background, sizeof r->viewer.shown.background);
    return (run->options->resume ? resume(run, &place, why) : start(run, &place, host, why)) &&
           open_log(r, why) && open_page(r, why);
}

// ---- training

static bool observe(void *context, const training_state *state, const training_report *report, fault *why) {
    rank_run *const r = context;
    train_run *const run = r->run;
    bool saved;
    train_poses_place_held_out(&run->poses, state);
    if (!run_log_observe(&run->log, state, report, why) ||
        !saver_observe(&run->saver, state, report, &saved, why))
        return false;
    if (saved) run_log_checkpoint(&run->log, state->place.views, run->saver.path);
    return !r->page ||
           training_page_observe(r->page, state, report, &run->log.record, stop_request_flag(), why);
}

// The `warn` of training_observer.
static void warn(void *context, const char *text) {
    if (is_first(context)) fprintf(stderr, "dsplat: warning: %s\n", text);
}

// Trains until the end, or until a signal requests a stop.
static bool iterate(rank_run *r, fault *why) {
    train_run *const run = r->run;
    const training_observer observer = {.observe = observe,
                                        .context = r,
                                        .interval =
                                            common_divisor(run_log_interval(&run->log), run->saver.interval),
                                        .wants = r->page ? page_wants : NULL,
                                        .end = stop_request_flag(),
                                        .warn = warn};
    run->settings.name = "training";
    if (is_first(r)) train_summary_begin(run, ranks_count(r->group));
    if (is_alone(r)) stop_request_begin(); // otherwise train.c has, before the ranks
    const bool done = train_on(r->cached ? &r->pictures : NULL, &run->state, run->split.views,
                               run->split.training, &run->settings, &observer, &run->report, why);
    const int signal = is_alone(r) ? stop_request_end() : 0;
    if (!done ||
        (r->page && !training_page_finish(r->page, &run->state, &run->report, &run->log.record, why)))
        return false;
    train_poses_adopt(&run->poses, &run->state);
    run->poses.record.after = train_poses_difference(&run->poses, NULL);
    if (!run->report.stopped) return true;
    run->stopped_by = signal;
    if (is_first(r))
        fprintf(
            stderr,
            "dsplat: stopped by a signal after iteration %lld, which is saved; to continue, add --resume %s\n",
            (long long)run->state.place.views, run->saver.path);
    return true;
}

// The scene has moved against the data's poses, and differently from place to place.
static bool align_held_out(rank_run *r, fault *why) {
    train_run *const run = r->run;
    view_split *split = &run->split;
    target_view *const views = split->views + split->training;
    const int64_t steps = run->options->align_steps;
    const size_t most = r->pictures.most_bytes;
    if (!run->options->recipe.refine_poses || steps == 0 || split->held_out == 0) return true;
    run->log.moved = true;
    picture_cache_close(&r->pictures); // those to train on are not needed any more
    return (!r->cached || picture_cache_open(&r->pictures, views, split->held_out, false, most, why)) &&
           align_views(r->cached ? &r->pictures : NULL, &run->state, views, split->held_out, &run->settings,
                       steps, why);
}

// ---- the files

static bool render_gallery(const rank_run *r, report_gallery *gallery, size_t first, size_t count,
                           fault *why) {
    *gallery = (report_gallery){.each = calloc(count, sizeof *gallery->each)};
    if (!gallery->each) return fail(why, "no memory for the report's %zu views", count);
    if (!viewer_measure(&r->viewer, first, count, &gallery->mean, gallery->each, why) ||
        !report_gallery_choose(gallery, count, why))
        return false;
    for (size_t i = 0; i < gallery->shown; i++)
        if (!viewer_picture(&r->viewer, first + gallery->index[i], &gallery->picture[i], why)) return false;
    return true;
}

// Shows the scene's file, as each of several ranks has only a part of the scene. The file may be empty.
static bool open_report_page(const train_run *run, page_source *source, fault *why) {
    if (!scene_read(run->options->output, SCENE_FINITE, &source->scene, why)) return false;
    if (source->scene.count == 0) return true;
    source->content.title = run->options->data;
    memcpy(source->content.background, run->options->recipe.background, sizeof source->content.background);
    return page_source_of_run(source, &run->split, PAGE_VIEWS, why) &&
           history_of_run(&source->training, &run->report, &run->log.record, why) &&
           page_source_take_scene(source, PAGE_MOST, why);
}

static bool write_report(const rank_run *r, fault *why) {
    const train_run *const run = r->run;
    const view_split *const split = &run->split;
    const bool held_out = split->held_out > 0;
    const size_t first = held_out ? split->training : 0;
    report_gallery gallery = {0};
    run_report page = {.title = run->options->data,
                       .record = &run->log.record,
                       .training = &run->report,
                       .gaussians = training_state_count(&run->state),
                       .gallery = &gallery,
                       .views = split->views + first,
                       .view_count = held_out ? split->held_out : split->training,
                       .held_out = held_out};
    bool done = render_gallery(r, &gallery, first, page.view_count, why);
    page_source source = {0};
    if (done && is_first(r)) {
        done = open_report_page(run, &source, why);
        if (source.content.scene) page.page = &source.content;
        done = done && report_write(run->options->report, &page, why);
    }
    page_source_close(&source);
    report_gallery_close(&gallery);
    return done;
}

static void print_summary(const rank_run *r, int64_t written, int64_t dropped) {
    const train_run *const run = r->run;
    const train_options *const o = run->options;
    const gs_gaussians shape = {.count = written, .sh_degree = run->state.gaussians.sh_degree};
    if (dropped > 0)
        fprintf(stderr, "dsplat: dropped %lld Gaussians whose parameters overflowed\n", (long long)dropped);
    train_summary_print(run, ranks_count(r->group), &shape);
    if (o->depth) train_summary_print_depth(&run->depth);
    if (o->recipe.refine_poses || o->perturb_poses) train_summary_print_poses(&run->poses.record);
}

static bool write_results(rank_run *r, fault *why) {
    train_run *const run = r->run;
    const train_options *const o = run->options;
    int64_t written = 0, dropped = 0;
    // The first complete scene in place of one that has only begun; the checkpoint, which is written, goes on with that.
    const bool whole =
        o->budget ? run->state.place.progress >= 1 : run->state.place.views >= run->settings.iterations;
    if (run->state.place.scene > 0 && !whole)
        training_state_restart(&run->state, &run->state.distillation.teacher[0]);
    scene_notes notes = {.known = true, .holdout = run->split.held_out > 0 ? o->holdout : 0};
    memcpy(notes.background, o->recipe.background, sizeof notes.background);
    memcpy(notes.offset, run->data.offset, sizeof notes.offset);
    if (is_first(r) && (o->recipe.refine_poses || o->perturb_poses))
        run_log_poses(&run->log, run->report.iterations, &run->poses.record);
    if (!align_held_out(r, why) ||
        !scene_pieces_write(o->output, &run->state, 0, &notes, &written, &dropped, why))
        return false;
    if (is_first(r) && o->write_cameras && !train_poses_write(&run->poses, &run->data, o->write_cameras, why))
        return false;
    if (!run_log_finish(&run->log, &run->state, &run->report, why) || (o->report && !write_report(r, why)))
        return false;
    if (is_first(r)) print_summary(r, written, dropped);
    return true;
}

bool train_as_rank(train_run *run, const gs_gaussians *host, ranks *group) {
    rank_run r = {.run = run, .group = group};
    fault why, unwritten;
    bool done = open_rank(&r, host, &why) && iterate(&r, &why) && write_results(&r, &why);
    if (!run_log_close(&run->log, &unwritten) && done) {
        why = unwritten;
        done = false;
    }
    training_page_stop(r.page);
    page_source_close(&r.source);
    training_report_close(&run->report);
    picture_cache_close(&r.pictures);
    picture_cache_close(&r.shown);
    training_state_close(&run->state);
    for (size_t i = 0; !r.cached && ranks_count(group) > 1 && i < run->split.training + run->split.held_out;
         i++)
        target_view_release(&run->split.views[i]);
    return done || ranks_fail_with(group, &why);
}
