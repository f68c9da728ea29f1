// SPDX-License-Identifier: MIT
// dsplat train: photographs with cameras -> a scene of Gaussians.
#include "commands/command.h"
#include "train_run.h"
#include "train_points.h"
#include "train_start.h"
#include "live/report.h"
#include "record/signals.h"
#include "ways.h"
#include "scene.h"
#include "camera.h"
#include "views.h"
#include <limits.h>
#include <stdatomic.h>
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
        .keep_alpha = true, // random points, which data without points start from, keep out of what it hides
        .undistort = o->undistort,
        .mask_from_alpha = o->mask_from_alpha,
        .with_tracks = o->depth != NULL};
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
    run->at_random = !o->from && (o->random > 0 || run->data.point_count == 0);
    return view_split_list(&run->split, &run->data, o->data, why);
}

// ---- settings

static bool prepare(train_run *run, fault *why) {
    const train_options *o = run->options;
    run->known = training_data_of(run->split.views, run->split.training);
    const size_t aside = training_validation_count(&o->recipe, run->split.training);
    if (!training_choices_suit(&o->recipe, &run->known, why) ||
        !validation_views_choose(run->split.views, run->split.training, aside, &run->validation, why))
        return false;
    if (!train_poses_open(&run->poses, &run->split, run->known.extent, o->perturb_degrees, o->perturb_extents,
                          (uint64_t)o->recipe.seed, why))
        return false;
    if (o->depth && !train_depth_open(&run->depth, &run->data, &run->split, o->depth, why)) return false;
    if (!train_points_find(run, why)) return false;
    run->known.everywhere = run->at_random && !run->data.cut_out;
    run->budget = (budget_recipe){.choices = &o->recipe, .data = &run->known};
    run->settings = o->budget ? budget_recipe_start(&run->budget)
                              : training_settings_from(&o->recipe, &run->known, o->recipe.iterations);
    if (o->memory > 0) run->settings.teachers = 0;
    run->key = checkpoint_settings(run->table);
    if (!run->key) return fail(why, "no memory for the options");
    run->saver = (saver){.path = o->checkpoint,
                         .interval = o->checkpoint_every,
                         .settings = run->key,
                         .views = run->split.views,
                         .view_count = run->split.training};
    return true;
}

// ---- the ranks

typedef struct shared_start {
    train_run *run;
    gs_gaussians gaussians; // host
    bool takes_signals;
    atomic_bool stopped; // training, by a signal
} shared_start;

// Without --memory the device decides.
static bool memory_suffices(train_run *run, int64_t first, fault *why) {
    const train_options *o = run->options;
    const int all = o->ranks.gpus > 1 ? (int)o->ranks.gpus : 1, degree = (int)o->sh_degree;
    run->first_gaussians = first;
    run->way = way_of_ranks(&run->settings, first, all);
    const int ranks = run->way && run->way->range ? all : 1; // that have rows of their own
    run->memory = training_memory_of(&run->settings, &run->known, first, degree, ranks);
    const double least = 1e-6 * (run->memory.scene + run->memory.step);
    if (o->memory == 0 || o->memory > least) return true;
    return fail(
        why,
        "--memory %g: %lld Gaussians take %.3f MB beside the photographs; --max-gaussians %lld would fit",
        o->memory, (long long)run->settings.density.most_gaussians, least,
        (long long)training_gaussians_that_fit(&run->settings, &run->known, first, degree, ranks,
                                               0.95e6 * o->memory));
}

// The data and the start, which the ranks of this process share.
static bool prepare_all(train_run *run, bool writes, gs_gaussians *host, fault *why) {
    const train_options *o = run->options;
    if ((writes && !outputs_are_possible(o, why)) || !load_data(run, why) || !prepare(run, why)) return false;
    if (o->resume) saver_key(&run->saver);
    if (!o->resume && !train_start(run, host, why)) return false;
    if (!o->resume) host->antialias = o->antialias;
    return memory_suffices(run, o->resume ? 0 : host->count, why);
}

static void close_shared(train_run *run, gs_gaussians *host) {
    scene_close(host);
    train_poses_close(&run->poses);
    validation_views_close(&run->validation);
    view_split_close(&run->split);
    dataset_close(&run->data);
    free(run->key);
}

// The `load` of rank_work. Rank 0 writes.
static bool load_shared(void *context, int own, fault *why) {
    shared_start *const start = context;
    if (!prepare_all(start->run, own == 0, &start->gaussians, why)) return false;
    if (start->run->options->ranks.gpus <= 1) return true;
    stop_request_begin();
    start->takes_signals = true;
    return true;
}

// Each rank has its own of what changes: views, whose cameras move with refined poses.
static bool rank_body(ranks *group, void *context) {
    shared_start *const start = context;
    if (ranks_count(group) == 1) return train_as_rank(start->run, &start->gaussians, group);
    train_run run = *start->run;
    const size_t views = run.split.training + run.split.held_out;
    run.split.views = malloc(views * sizeof *run.split.views);
    run.poses.split = &run.split;
    run.poses.now = malloc(views * sizeof *run.poses.now);
    bool done = run.split.views && run.poses.now;
    if (done) memcpy(run.split.views, start->run->split.views, views * sizeof *run.split.views);
    done = done ? train_as_rank(&run, &start->gaussians, group)
                : ranks_fail(group, "no memory for %zu views", views);
    if (run.report.stopped) atomic_store(&start->stopped, true);
    free(run.split.views);
    free(run.poses.now);
    return done;
}

static bool run_all(train_run *run, fault *why) {
    shared_start start = {.run = run};
    rank_work work = {load_shared, rank_body, &start, &run->data, &start.gaussians};
    const bool done = run_on_ranks(&run->options->ranks, &work, why);
    if (start.takes_signals) {
        const int number = stop_request_end();
        run->stopped_by = atomic_load(&start.stopped) ? number : 0; // a signal may come when all work is done
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
            "Trains a scene on the photographs in the folder DATA, which holds images/ and a COLMAP model, "
            "transforms_train.json or transforms.json. 'dsplat poses' makes such a folder of photographs or of a "
            "video. docs/photographs.md has the steps and what is automatic.",
        .examples =
            "  dsplat train data/fern -o fern.ply --downscale 4 --report page\n"
            "  dsplat train data/fern -o fern.ply --budget 30s\n"
            "  dsplat train data/fern -o fern.ply --holdout 0 --antialias\n"
            "  dsplat train data/lego -o lego.ply --random 100000 --background 1,1,1\n"
            "  dsplat train data/fern -o fern.ply --depth data/fern/depth\n"
            "  dsplat train data/fern -o fern.ply --checkpoint-every 1000 --resume fern.ply.checkpoint\n"
            "  dsplat train data/fox -o fox.ply --gpus 2\n",
        .options = table.rows,
        .positional = 1,
        .groups = TRAIN_GROUPS};
    int code;
    if (!read_command_line(&command, argc, argv, &options.data, &code)) return code;
    fault why;
    char beside[PATH_MAX];
    if (options.output && !options.checkpoint) {
        snprintf(beside, sizeof beside, "%s.checkpoint", options.output);
        options.checkpoint = beside;
    }
    bool changed[OPTION_ROOM];
    train_options_changed(&table, changed);
    train_run run = {.options = &options, .table = table.rows, .changed = changed};
    if (!rank_options_check(&options.ranks, argc, argv, &why) || !train_options_check(&options, &why))
        return report_misuse(&command, &why);
    if (!run_all(&run, &why)) return report_failure("dsplat", &why);
    return run.stopped_by ? 128 + run.stopped_by : EXIT_SUCCESS;
}
