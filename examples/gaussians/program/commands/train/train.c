// SPDX-License-Identifier: MIT
// dsplat train: photographs with cameras -> a scene of Gaussians.
#include "commands/command.h"
#include "train_run.h"
#include "depth_maps.h"
#include "device.h"
#include "record/report.h"
#include "record/signals.h"
#include "cli/progress.h"
#include "ranks.h"
#include "scene.h"
#include "random_points.h"
#include "start.h"
#include "frames/camera.h"
#include "frames/blend_strategies.h"
#include "frames/target_view.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the data

static bool outputs_are_possible(const train_options *o, fault *why) {
    return scene_is_possible(o->output, why) && output_is_possible(o->checkpoint, why) &&
           (!o->write_cameras || output_is_possible(o->write_cameras, why)) &&
           (!o->report || report_is_possible(o->report, why));
}

static bool load_data(train_run *run, fault *why) {
    const train_options *o = run->options;
    const dataset_options loading = {
        .downscale = (int)o->downscale,
        .background = {o->recipe.background[0], o->recipe.background[1], o->recipe.background[2]},
        .keep_alpha = o->recipe.random_background || o->random > 0,
        .undistort = o->undistort,
        .mask_from_alpha = o->mask_from_alpha};
    if (!dataset_load(o->data, &loading, &run->data, why)) return false;
    dataset_hold_out(&run->data, (size_t)o->holdout);
    if (o->depth && run->data.point_count == 0)
        return fail(
            why,
            "%s: --depth needs points to fit the depth maps to: those of a COLMAP model, or points3D.txt "
            "or points3D.bin beside transforms.json",
            o->data);
    if (o->depth && !depth_maps_load(&run->data, o->depth, &loading, DEPTH_MAPS_TRAINING, why)) return false;
    if (!dataset_spared(&run->data, o->output, why) || !dataset_spared(&run->data, o->checkpoint, why) ||
        !dataset_spared(&run->data, o->log, why) || !dataset_spared(&run->data, o->write_cameras, why))
        return false;
    if (run->data.point_count == 0 && o->random == 0)
        return fail(why,
                    "%s: the data has no points to start from; --random 100000 starts from random points",
                    o->data);
    return o->ranks.gpus > 0
               ? view_split_list(&run->split, &run->data, o->data, why)
               : view_split_open(&run->split, &run->data, o->data, o->recipe.random_background, why);
}

// ---- settings

// Of budget_recipe.
static double reserve_for_finish(void *context, double steps) {
    train_run *const run = context;
    double reserved;
    run->finish_steps = lm_steps_that_fit(&run->options->lm, run->split.training, steps, &reserved);
    return reserved;
}

static bool prepare(train_run *run, fault *why) {
    const train_options *o = run->options;
    run->known = (training_data){.views = run->split.views,
                                 .count = run->split.training,
                                 .extent = scene_extent(run->split.views, run->split.training),
                                 .everywhere = o->random > 0 && !run->data.cut_out,
                                 .on_ranks = o->ranks.gpus > 1};
    if (!training_choices_suit(&o->recipe, &run->known, why)) return false;
    run->budget = (budget_recipe){
        .choices = &o->recipe, .data = &run->known, .reserve = reserve_for_finish, .context = run};
    run->settings = o->budget ? budget_recipe_start(&run->budget)
                              : training_settings_from(&o->recipe, &run->known, o->recipe.iterations);
    if (!train_poses_open(&run->poses, &run->split, run->known.extent, o->perturb_degrees, o->perturb_extents,
                          (uint64_t)o->recipe.seed, why))
        return false;
    const char *const depth_folders[2] = {o->data, o->depth};
    if (o->depth && !train_depth_open(&run->depth, &run->data, &run->split, depth_folders, why)) return false;
    run->finish_steps = o->budget ? 0 : o->lm.steps; // none if training ends before its pace is known
    run->key = checkpoint_settings(run->table);
    if (!run->key) return fail(why, "no memory for the options");
    run->saver = (saver){.path = o->checkpoint,
                         .interval = o->checkpoint_every,
                         .settings = run->key,
                         .views = run->split.views,
                         .view_count = run->split.training};
    return true;
}

// ---- the start

static bool start_at_random(const train_run *run, size_t count, const start_settings *settings,
                            gs_gaussians *host, fault *why) {
    float(*points)[3] = calloc(count, sizeof *points);
    uint8_t(*colors)[3] = calloc(count, sizeof *colors);
    bool done = points && colors;
    if (done) {
        random_points(run->split.views, run->split.training, run->data.cut_out, count,
                      (uint64_t)run->options->recipe.seed, points, colors);
        done = gaussians_from_points((const float(*)[3])points, (const uint8_t(*)[3])colors, count, settings,
                                     host, why);
    } else {
        fail(why, "no memory for %zu random points", count);
    }
    free(points);
    free(colors);
    return done;
}

// At most `most` of the data's points, evenly from all of them.
static bool start_at_points(const dataset *data, size_t most, const start_settings *settings,
                            gs_gaussians *host, fault *why) {
    const size_t stride = (data->point_count + most - 1) / most, count = (data->point_count - 1) / stride + 1;
    float(*points)[3] = calloc(count, sizeof *points);
    uint8_t(*colors)[3] = calloc(count, sizeof *colors);
    bool done = points && colors;
    for (size_t i = 0; i < count && done; i++) {
        memcpy(points[i], data->points[i * stride], sizeof *points);
        memcpy(colors[i], data->colors[i * stride], sizeof *colors);
    }
    done = done ? gaussians_from_points((const float(*)[3])points, (const uint8_t(*)[3])colors, count,
                                        settings, host, why)
                : fail(why, "no memory for %zu points", count);
    free(points);
    free(colors);
    return done;
}

static bool start_host(const train_run *run, gs_gaussians *host, fault *why) {
    const train_options *o = run->options;
    const dataset *data = &run->data;
    const density_data density = training_density_data(&run->known, run->settings.iterations);
    start_settings settings = {.sh_degree = (int)o->sh_degree, .extent = run->known.extent};
    density_start(&o->recipe.density, &density, &settings.opacity, &settings.size);
    if (o->random > 0) return start_at_random(run, (size_t)o->random, &settings, host, why);
    return gaussians_from_points((const float(*)[3])data->points, (const uint8_t(*)[3])data->colors,
                                 data->point_count, &settings, host, why);
}

bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why) {
    const train_run *run = context;
    const size_t wanted = (size_t)run->options->random;
    const start_settings settings = {.extent = run->known.extent, .opacity = 0.1, .size = 1};
    const bool started = wanted > 0
                             ? start_at_random(run, wanted < most ? wanted : most, &settings, host, why)
                             : start_at_points(&run->data, most, &settings, host, why);
    if (started) host->antialias = run->options->antialias;
    return started;
}

// ---- the log

// By default 200 lines in a run, but one every 100 steps at least.
static int64_t log_interval(const train_options *o) {
    if (o->log_every > 0) return o->log_every;
    const int64_t part = o->recipe.iterations / 200;
    return o->budget ? 100 : part < 1 ? 1 : part > 100 ? 100 : part;
}

void train_record_settings(run_record *record, const train_run *run) {
    const view_split *split = &run->split;
    run_record_text(record, "data", run->options->data);
    run_record_number(record, "views", (double)split->training);
    run_record_number(record, "held_out", (double)split->held_out);
    run_record_number(record, "width", split->views[0].camera.width);
    run_record_number(record, "height", split->views[0].camera.height);
    run_record_options(record, run->table);
}

enum { SELDOM = 1000000000 }; // iterations

run_log_options train_log_options(const train_run *run) {
    const train_options *o = run->options;
    const bool kept = o->log || o->report; // otherwise training need not wait for values
    run_log_options wanted = {.path = o->log,
                              .append = o->resume != NULL,
                              .every = kept        ? log_interval(o)
                                       : o->budget ? SELDOM
                                                   : o->recipe.iterations,
                              .evaluate_every = kept ? o->eval_every : 0,
                              .held_out = run->split.views + run->split.training,
                              .held_out_count = run->split.held_out};
    memcpy(wanted.background, run->options->recipe.background, sizeof wanted.background);
    return wanted;
}

// ---- the ranks

typedef struct shared_start {
    train_run *run;
    gs_gaussians gaussians; // host
    bool takes_signals;
} shared_start;

// The data and the start, with several ranks without a call to a device: processes that are forked from here share their
// memory.
static bool prepare_all(train_run *run, bool writes, gs_gaussians *host, fault *why) {
    const train_options *o = run->options;
    if ((writes && !outputs_are_possible(o, why)) || !load_data(run, why) || !prepare(run, why)) return false;
    if (o->resume) saver_key(&run->saver);
    if (o->resume || !start_host(run, host, why)) return o->resume != NULL;
    host->antialias = o->antialias;
    return true;
}

static void close_shared(train_run *run, gs_gaussians *host) {
    scene_close(host);
    train_poses_close(&run->poses);
    view_split_close(&run->split);
    dataset_close(&run->data);
    free(run->key);
}

// Of rank_work. Rank 0 writes.
static bool load_shared(void *context, int own, fault *why) {
    shared_start *const start = context;
    if (!prepare_all(start->run, own == 0, &start->gaussians, why)) return false;
    if (start->run->options->ranks.gpus <= 1) return true;
    if (!stop_request_share()) return fail(why, "no memory that ranks share");
    stop_request_begin();
    start->takes_signals = true;
    return true;
}

static bool rank_body(ranks *group, void *context) {
    const shared_start *const start = context;
    if (ranks_count(group) == 1) return train_as_rank(start->run, &start->gaussians, group);
    train_run run = *start->run; // each rank has its own
    return train_as_rank(&run, &start->gaussians, group);
}

static bool run_all(train_run *run, fault *why) {
    shared_start start = {.run = run};
    rank_work work = {load_shared, rank_body, &start, &run->data, &start.gaussians};
    const bool done = run_on_ranks(&run->options->ranks, &work, why);
    if (start.takes_signals) {
        const bool stopped = stop_request_was_followed();
        const int number = stop_request_end();
        run->stopped_by = stopped ? number : 0;
    }
    close_shared(run, &start.gaussians);
    return done;
}

int train_command(int argc, char **argv) {
    train_options options = train_options_default();
    option_table table = {0};
    train_options_list(&options, &table);
    const command_spec command = {
        .name = "dsplat train",
        .arguments = "DATA -o OUT.ply [options]",
        .summary =
            "Trains a scene on the photographs in the folder DATA. It holds images/ and a COLMAP model\n"
            "(binary or text, in sparse/0, sparse or DATA itself), or transforms_train.json, or\n"
            "transforms.json. Lens distortion is removed.\n\n"
            "Training starts with one Gaussian for each point of the model, or with --random. After step\n"
            "500 (--density-from) density control moves Gaussians that are not needed and adds others, up\n"
            "to --max-gaussians. With --density none their number is constant.",
        .examples =
            "  dsplat train data/fern -o fern.ply --downscale 4\n"
            "  dsplat train data/fox -o fox.ply --random 100000\n"
            "  dsplat train data/lego -o lego.ply --random 100000 --background 1,1,1\n"
            "  dsplat train data/fern -o fern.ply --budget 30s\n"
            "  dsplat train data/fern -o fern.ply --depth data/fern/depth\n"
            "  dsplat train data/fern -o fern.ply --eval-every 500 --log fern.jsonl --report fern-report\n"
            "  dsplat train data/fern -o fern.ply --checkpoint-every 1000\n"
            "  dsplat train data/fern -o fern.ply --checkpoint-every 1000 --resume fern.ply.checkpoint\n"
            "  dsplat train data/fox -o fox.ply --random 100000 --gpus 2 --batch 2\n"
            "  dsplat train data/fern -o fern.ply --downscale 8 --iterations 30 --reduce atomic\n",
        .options = table.rows,
        .min_positional = 1,
        .max_positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.data, &code)) return code;
    fault why;
    char beside[PATH_MAX];
    if (options.output && !options.checkpoint) {
        snprintf(beside, sizeof beside, "%s.checkpoint", options.output);
        options.checkpoint = beside;
    }
    train_run run = {.options = &options, .table = table.rows};
    if (!rank_options_check(&options.ranks, argc, argv, &why) || !train_options_check(&options, &why))
        return report_misuse(&command, &why);
    if (!run_all(&run, &why)) return report_failure("dsplat", &why);
    return run.stopped_by ? 128 + run.stopped_by : EXIT_SUCCESS;
}
