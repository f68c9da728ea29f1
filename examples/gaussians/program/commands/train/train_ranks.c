// SPDX-License-Identifier: MIT
#include "train_ranks.h"
#include "train_summary.h"
#include "device.h"
#include "measure/sharded_viewer.h"
#include "record/report.h"
#include "record/sharded_checkpoint.h"
#include "record/sharded_scene.h"
#include "record/signals.h"
#include "sharded_trainer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_run {
    train_run *run;
    ranks *group;
    sharded_state state;
    sharded *shared;
    picture_cache pictures; // of all views
    sharded_viewer viewer;
    bool stopped;
} rank_run;

static bool is_first(const rank_run *r) {
    return ranks_own(r->group) == 0;
}

// ---- the start

static bool resume(rank_run *r) {
    train_run *const run = r->run;
    const train_options *const o = run->options;
    const checkpoint_key key = saver_key(&run->saver);
    if (!sharded_checkpoint_read(o->resume, &key, &r->state, r->group)) return false;
    const int64_t views = (int64_t)run->split.training;
    r->state.own.gaussians.antialias = o->antialias;
    // The checksum may be right and the counts forged.
    return (r->state.iteration < o->recipe.iterations + run->settings.batch &&
            r->state.own.gaussians.sh_degree == o->sh_degree &&
            r->state.exposures == (o->exposure ? views : 0)) ||
           ranks_fail(r->group, "%s: damaged: no run with these options has its counts", o->resume);
}

static bool open_state(rank_run *r, const gs_gaussians *start) {
    const train_options *const o = r->run->options;
    if (o->resume) return resume(r);
    sharded_state_open(&r->state, r->group, start);
    if (o->exposure) sharded_state_open_exposures(&r->state, (int64_t)r->run->split.training);
    return true;
}

// What run_log reads of a state.
static training_state outline_of(const rank_run *r) {
    return (training_state){.iteration = r->state.iteration,
                            .gaussians = {.count = sharded_state_count(&r->state, r->group),
                                          .sh_degree = r->state.own.gaussians.sh_degree}};
}

static bool measure(void *context, quality *mean, fault *why) {
    rank_run *const r = context;
    const view_split *const split = &r->run->split;
    return sharded_quality_measure(&r->viewer, split->training, split->held_out, mean, NULL) ||
           fail(why, "%s", ranks_error(r->group));
}

// All ranks keep the record, as all of them measure; the first one writes it.
static bool open_log(rank_run *r) {
    train_run *const run = r->run;
    fault why;
    run_log_options wanted = train_log_options(run);
    wanted.measure = measure;
    wanted.context = r;
    if (!is_first(r)) wanted.path = NULL;
    if (!run_log_open(&run->log, &wanted, &why)) return ranks_fail_with(r->group, &why);
    train_record_settings(&run->log.record, run);
    const training_state outline = outline_of(r);
    run_log_start(&run->log, &outline);
    return true;
}

static bool open_rank(rank_run *r, const gs_gaussians *start) {
    train_run *const run = r->run;
    const view_split *const split = &run->split;
    fault why;
    if (!open_state(r, start)) return false;
    r->shared = sharded_open(r->group);
    if (!r->shared) return false;
    if (!picture_cache_open(&r->pictures, split->views, split->training + split->held_out,
                            (size_t)(1e6 * run->options->memory), &why))
        return ranks_fail_with(r->group, &why);
    r->viewer = (sharded_viewer){.group = r->group,
                                 .shared = r->shared,
                                 .gaussians = &r->state.own.gaussians,
                                 .pictures = &r->pictures,
                                 .policy = run->settings.policy,
                                 .batch = run->settings.batch};
    memcpy(r->viewer.background, run->options->recipe.background, sizeof r->viewer.background);
    return open_log(r);
}

// ---- training

static bool observe(void *context, ranks *group, const sharded_state *state, const training_report *report,
                    bool stops) {
    rank_run *const r = context;
    train_run *const run = r->run;
    const training_state outline = outline_of(r);
    bool saved;
    fault why;
    r->stopped = stops;
    if (!run_log_observe(&run->log, &outline, report, &why)) return ranks_fail_with(group, &why);
    if (!sharded_saver_observe(&run->saver, group, state, report, stops, &saved)) return false;
    if (saved) run_log_checkpoint(&run->log, state->iteration, run->saver.path);
    return true;
}

static bool iterate(rank_run *r) {
    train_run *const run = r->run;
    const sharded_observer observer = {.observe = observe,
                                       .context = r,
                                       .interval =
                                           common_divisor(run_log_interval(&run->log), run->saver.interval),
                                       .end = stop_request_flag()};
    const sharded_settings settings = {.pictures = &r->pictures,
                                       .view_count = run->split.training,
                                       .training = &run->settings,
                                       .batch = run->settings.batch,
                                       .shared = r->shared,
                                       .observer = &observer};
    if (!sharded_train(&r->state, r->group, &settings, &run->report)) return false;
    if (!r->stopped) return true;
    stop_request_follow();
    if (is_first(r)) train_say_stopped(run, r->state.iteration);
    return true;
}

// ---- the files

static bool render_gallery(rank_run *r, report_gallery *gallery, size_t first, size_t count) {
    fault why;
    *gallery = (report_gallery){.each = calloc(count, sizeof *gallery->each)};
    if (!gallery->each) return ranks_fail(r->group, "no memory for the report's %zu views", count);
    if (!sharded_quality_measure(&r->viewer, first, count, &gallery->mean, gallery->each)) return false;
    if (!report_gallery_choose(gallery, count, &why)) return ranks_fail_with(r->group, &why);
    for (size_t i = 0; i < gallery->shown; i++)
        if (!sharded_picture(&r->viewer, first + gallery->index[i], &gallery->picture[i])) return false;
    return true;
}

static bool write_report(rank_run *r) {
    const train_run *const run = r->run;
    const view_split *const split = &run->split;
    const bool held_out = split->held_out > 0;
    const size_t first = held_out ? split->training : 0;
    report_gallery gallery = {0};
    fault why;
    const run_report page = {.title = run->options->data,
                             .record = &run->log.record,
                             .training = &run->report,
                             .gaussians = sharded_state_count(&r->state, r->group),
                             .gallery = &gallery,
                             .views = split->views + first,
                             .view_count = held_out ? split->held_out : split->training,
                             .held_out = held_out};
    bool done = render_gallery(r, &gallery, first, page.view_count);
    if (done && is_first(r))
        done = report_write(run->options->report, &page, &why) || ranks_fail_with(r->group, &why);
    report_gallery_close(&gallery);
    return done;
}

static bool write_results(rank_run *r) {
    train_run *const run = r->run;
    const train_options *const o = run->options;
    const training_state outline = outline_of(r);
    int64_t written = 0, dropped = 0;
    fault why;
    if (!sharded_scene_write(o->output, &r->state, r->group, 0, &written, &dropped)) return false;
    if (is_first(r) && o->write_cameras &&
        !train_poses_write(&run->poses, &run->data, o->write_cameras, &why))
        return ranks_fail_with(r->group, &why);
    if (!run_log_finish(&run->log, &outline, &run->report, &why)) return ranks_fail_with(r->group, &why);
    if (o->report && !write_report(r)) return false;
    if (!is_first(r)) return true;
    const gs_gaussians shape = {.count = written, .sh_degree = outline.gaussians.sh_degree};
    if (dropped > 0)
        fprintf(stderr, "dsplat: dropped %lld Gaussians whose parameters overflowed\n", (long long)dropped);
    train_summary_print(o, &run->split, &shape, &run->report, run_record_last_quality(&run->log.record));
    return true;
}

bool train_as_rank(train_run *run, const gs_gaussians *start, ranks *group) {
    rank_run r = {.run = run, .group = group};
    fault why;
    bool done = open_rank(&r, start) && iterate(&r) && (r.stopped || write_results(&r));
    if (!run_log_close(&run->log, &why) && done) done = ranks_fail_with(group, &why);
    training_report_close(&run->report);
    picture_cache_close(&r.pictures);
    sharded_close(r.shared);
    sharded_state_close(&r.state);
    return done;
}
