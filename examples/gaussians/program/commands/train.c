// SPDX-License-Identifier: MIT
// dsplat train: photographs with cameras -> a scene of Gaussians.
#include "commands/train.h"
#include "cli/progress.h"
#include "device.h"
#include "frame.h"
#include "record/scene_pieces.h"
#include "record/signals.h"
#include "scene.h"
#include "trainer.h"
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- what is printed on stdout: before the first step, and at the end

static void print_memory(const train_run *run, int ranks) {
    const training_memory *const m = &run->memory;
    const double all = m->scene + m->step + m->pictures;
    const int64_t most = run->settings.density.most_gaussians, first = run->first.count;
    size_t unused, bytes;
    DEVICE_CHECK(cudaMemGetInfo(&unused, &bytes));
    printf(
        "memory     about %.0f MB of the device's %.0f: %.0f for %lld Gaussians, the most there will be, %.0f for "
        "a step, %.0f for photographs\n",
        1e-6 * all, 1e-6 * (double)bytes, 1e-6 * m->scene, (long long)(first > most ? first : most),
        1e-6 * m->step, 1e-6 * m->pictures);
    if (all <= (double)unused || run->options->memory > 0) return;
    printf("           more than the %.0f MB that are free: ", 1e-6 * (double)unused);
    if (m->scene + m->step <= 0.9 * (double)unused)
        printf("photographs are uploaded when a step needs them\n");
    else
        printf("--max-gaussians %lld would fit\n",
               (long long)training_gaussians_that_fit(&run->settings, &run->known, run->first.count,
                                                      (int)run->options->recipe.sh_degree, ranks,
                                                      0.9 * (double)unused));
}

// What a run takes on a CPU, and what takes less.
static void print_cpu_time(const train_run *run) {
    const training_settings *const s = &run->settings;
    const double wanted = 10, iterations = (double)s->iterations / 60; // minutes
    double pixels, minutes = iterations * train_cpu_seconds(run, run->first.count, &pixels);
    const double gaussians = minutes - iterations * pixels,
                 factor =
                     (double)run->options->downscale * ceil(sqrt(iterations * pixels / (wanted - gaussians)));
    if (s->budget > 0 || minutes < 1) return;
    printf("           no GPU: about %.0f min on %ld cores", minutes, sysconf(_SC_NPROCESSORS_ONLN));
    if (minutes > wanted && gaussians < wanted && factor <= 64)
        printf("; about %g min with --downscale %g", wanted, factor);
    if (minutes > wanted) printf("; --budget %gm fits everything to that time", wanted);
    printf("\n");
}

static void print_plan(const train_run *run, int ranks) {
    const training_settings *const s = &run->settings;
    const view_split *const split = &run->split;
    const image *const first = split->views[0].picture;
    const stereo_result *const stereo = &run->stereo;
    bool differ = false;
    for (size_t i = 0; i < split->training + split->held_out; i++)
        differ |= split->views[i].picture->width != first->width ||
                  split->views[i].picture->height != first->height;
    printf("data       %s: %zu view%s to train on, %zu held out, %d x %d%s\n", run->options->data,
           split->training, split->training == 1 ? "" : "s", split->held_out, first->width, first->height,
           differ ? " and other sizes" : "");
    printf("device     %d x %s\n", ranks, device_name());
    if (run->way && run->way->about) printf("           %s\n", run->way->about);
    const char *const few = run->way && run->way->few ? run->way->few(s, ranks) : NULL;
    if (few) printf("           %s: one GPU may be faster (docs/gpus.md)\n", few);
    print_memory(run, ranks);
    if (!run->options->resume && (run->random_start || stereo->views > 0)) {
        const bool needed = run->random_start && run->options->random == 0;
        printf("start      %zu %s%s", run->data.point_count,
               run->random_start ? "random points" : "points by stereo",
               needed ? ": the data has none (docs/photographs.md)" : "");
        if (stereo->views > 0)
            printf("; stereo found %zu in %zu views, %.2f s", stereo->found, stereo->views,
                   run->stereo_seconds);
        printf("\n");
    }
    if (s->budget > 0)
        printf("plan       %g s", s->budget);
    else
        printf("plan       %lld iteration%s", (long long)s->iterations, s->iterations == 1 ? "" : "s");
    printf(", %lld view%s per step, density control %s", (long long)s->batch, s->batch == 1 ? "" : "s",
           density_method_of(s->density.kind)->name);
    if (s->resolutions.percent > 0)
        printf(", 1/%d of the size until %g%%", s->resolutions.factor, s->resolutions.percent);
    printf("\n");
    if (strcmp(gs_backend(), "simt") == 0) print_cpu_time(run);
    fflush(stdout);
}

static void print_training(const train_run *run, int ranks) {
    const training_report *const report = &run->report;
    const distwar_policy *used = &report->strategy.policy;
    const long long done = report->iterations - report->first_iteration + 1, batch = run->settings.batch;
    printf("training   %lld iteration%s", done, done == 1 ? "" : "s");
    if (report->first_iteration > 1) printf(" (%lld in all)", (long long)report->iterations);
    printf(" in %.1f s on ", report->seconds);
    if (ranks > 1) printf("%d x ", ranks);
    printf("%s, %lld view%s per step, %s", device_name(), batch, batch == 1 ? "" : "s",
           distwar_strategy_name(used->strategy));
    if (offered_has_threshold(blend_strategies, used->strategy))
        printf(" at threshold %d", used->balance_threshold);
    printf(", seed %lld\n", (long long)run->settings.seed);
    if (run->settings.budget > 0 && done < 400) // docs/photographs.md, 3.
        printf("           few iterations: under 400 give blur; a longer --budget helps\n");
    if (run->state.place.first_seconds > 0 && run->state.place.ended > 0)
        printf("           a longer run was given up, by validation views (--validate 0 goes on)\n");
    else if (run->state.place.ended > 0)
        printf(
            "           ended early: from iteration %lld on, validation views gained under 0.15 of what training "
            "views did (--validate 0 goes on)\n",
            (long long)run->state.place.ended);
    const int teachers = run->state.place.scenes;
    if (teachers > 1)
        printf(
            "           %d scenes, each trained until there, taught the last one (--teachers 0: the first is all)\n",
            teachers);
}

// Prints how much the photographs' gains differ, unless they were given up (gradient.c).
static void print_gains(const training_state *state) {
    const size_t values = (size_t)state->exposures * GS_EXPOSURE_VALUES;
    float *const log_gains = malloc(values * sizeof *log_gains);
    double squares = 0;
    if (values > 0 && log_gains) {
        device_download(log_gains, state->exposure, values * sizeof *log_gains);
        for (size_t i = 0; i < values; i++) squares += (double)log_gains[i] * (double)log_gains[i];
        printf(
            "exposure   gains of the photographs differ by %.1f %%: corrected (--no-exposure leaves them)\n",
            100 * sqrt(squares / (double)values));
    }
    free(log_gains);
}

static void print_tuning(const training_report *report) {
    const tuner *tuned = &report->strategy.by;
    const double spent = report->clock.milliseconds[STAGE_RENDER_BACKWARD];
    printf(
        "tuning     %s; %lld launches measured, looked again %lld times, changed %lld times; cost %.1f ms, "
        "%.1f %% of the backward blend\n",
        tuned->known ? "chosen on this data" : "not finished: too few iterations", (long long)tuned->measured,
        (long long)tuned->examinations, (long long)tuned->changes, tuned->cost,
        spent > 0 ? 100 * tuned->cost / spent : 0);
}

static void print_poses(const run_poses *poses) {
    const pose_difference *before = &poses->before, *after = &poses->after;
    for (int i = 0; i < poses->sizes; i++)
        printf("%s 1/%d: %.4f degrees, %.5f extents", i ? "," : "sizes     ", 1 << poses->levels[i],
               poses->settled[i].mean_degrees, poses->settled[i].mean_distance);
    if (poses->sizes > 0) printf("; %.1f s\n", poses->seconds);
    printf(
        "poses      from those of the data %.4f -> %.4f degrees, %.5f -> %.5f extents (means); largest %.4f "
        "degrees, %.5f extents\n",
        before->mean_degrees, after->mean_degrees, before->mean_distance, after->mean_distance,
        after->largest_degrees, after->largest_distance);
}

static void print_summary(const train_run *run, int ranks, int64_t written) {
    const train_options *const options = run->options;
    const training_report *const report = &run->report;
    const stage_clock *const clock = &report->clock;
    const run_point *const held_out = run_record_last(&run->log.record, RUN_EVALUATION),
                           *const aside = run_record_last(&run->log.record, RUN_VALIDATION);
    printf("scene      %lld Gaussians, SH degree %d, in %s\n", (long long)written,
           run->state.gaussians.sh_degree, options->output);
    print_training(run, ranks);
    print_gains(&run->state);
    if (report->strategy.tuned) print_tuning(report);
    if (report->loss_window > 0) // 0: resumed after its last iteration
        printf("loss       %.5f -> %.5f (means over %lld view%s)\n", report->first_loss, report->last_loss,
               (long long)report->loss_window, report->loss_window > 1 ? "s" : "");
    if (options->report) printf("report     %s/index.html\n", options->report);
    if (held_out) printf("held out   PSNR %.2f dB, SSIM %.4f\n", held_out->mean.psnr, held_out->mean.ssim);
    if (aside)
        printf(
            "validation after iteration %lld: PSNR %.2f dB, SSIM %.4f on %zu validation views, not trained on until "
            "then; %.2f dB, %.4f on %zu training views\n",
            (long long)aside->iteration, aside->mean.psnr, aside->mean.ssim, run->validation.count,
            aside->training.psnr, aside->training.ssim, run->validation.count);
    for (int i = 0; i < STAGES && clock->steps > 0; i++)
        printf("%s %s %.4f%s", i ? "," : "GPU        ms per step:", stage_name((stage)i),
               clock->milliseconds[i] / (double)clock->steps, i < STAGES - 1 ? "" : "\n");
    if (options->depth)
        printf("depth      %zu of %zu maps fitted, to %.0f points each with an error of %.2f %% (means)\n",
               run->depth.fitted, run->depth.maps, run->depth.mean_points, 100 * run->depth.mean_error);
    if (options->recipe.refine_poses || options->perturb_poses) print_poses(&run->poses);
}

// ---- a rank

enum { SELDOM = 1000000000 }; // iterations

static bool is_first(const train_run *run) {
    return ranks_own(run->group) == 0;
}

static bool is_alone(const train_run *run) {
    return ranks_count(run->group) == 1;
}

// ---- the start

static void after_size(void *context, int level, const refined_pose *poses) {
    train_run *run = context;
    run_poses *record = &run->poses;
    record->levels[record->sizes] = level;
    record->settled[record->sizes++] = train_poses_difference(run, poses);
}

static bool start_poses(train_run *run, picture_cache *pictures, fault *why) {
    const view_split *split = &run->split;
    training_state *state = &run->state;
    const pose_levels levels = {.group = state->group,
                                .pictures = pictures,
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
    run->poses.seconds = seconds_now() - began;
    return done;
}

static bool start(train_run *run, const training_place *place, fault *why) {
    if (!training_state_open_on(&run->state, place, &run->first))
        return fail(why, "%s", ranks_error(place->group));
    if (run->options->recipe.exposure && default_exposures(run->split.training))
        training_state_open_exposures(&run->state, (int64_t)run->split.training);
    return !run->options->recipe.refine_poses || start_poses(run, run->cached ? &run->pictures : NULL, why);
}

static bool resume(train_run *run, const training_place *place, fault *why) {
    const train_options *o = run->options;
    training_state *state = &run->state;
    const checkpoint_key key = saver_key(&run->checkpoint);
    if (!checkpoint_read(o->resume, &key, place, state, why)) return false;
    training_state_antialias(state, o->recipe.antialias);
    // The checksum may be right and the counts forged; training reads an exposure and a pose for every view.
    const int64_t views = (int64_t)run->split.training;
    // A run that goes on for longer averages later.
    if (!o->budget && state->place.views <= average_from(&run->settings))
        parameter_average_close(&state->average);
    return ((o->budget ? place_is_possible(&state->place) : state->place.views <= o->recipe.iterations) &&
            state->gaussians.sh_degree == o->recipe.sh_degree &&
            (state->exposures == 0 || (o->recipe.exposure && state->exposures == views)) &&
            state->poses == (o->recipe.refine_poses ? views : 0)) ||
           fail(why, "%s: damaged: no run with these options has its counts", o->resume);
}

// The device's memory for photographs if it does not hold all: what --memory leaves; of one rank, which has the device for
// itself, what is free; of several a quarter of all. 0: it holds all.
static size_t picture_room(const train_run *run) {
    const training_memory *const m = &run->memory;
    size_t unused, all;
    if (run->options->memory > 0) return (size_t)fmax(1e6 * run->options->memory - m->scene - m->step, 1);
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    if (!is_alone(run)) return m->pictures > 0.25 * (double)all ? all / 4 : 0;
    if (m->scene + m->step + m->pictures <= (double)unused) return 0;
    const double distilled = run->settings.teachers >= 2 ? 0.25 * (double)all : 0;
    return (size_t)fmax(0.9 * (double)unused - m->scene - m->step - distilled, 1);
}

// The device has all pictures. Where it does not hold them, or where no rank needs all, they come when they are needed.
static bool open_pictures(train_run *run, fault *why) {
    const view_split *const split = &run->split;
    const size_t all = split->training + split->held_out, most = picture_room(run);
    const bool with_alpha = run->options->recipe.random_background;
    run->cached = most > 0 || (run->way && !run->way->frames);
    for (size_t i = 0; !run->cached && i < all; i++) target_view_upload(&split->views[i], with_alpha);
    if (!run->cached) return true;
    return picture_cache_open(&run->pictures, split->views, split->training, with_alpha, most, why) &&
           picture_cache_open(&run->cache, split->views, all, false, 1, why); // those measured at once
}

// All ranks keep the record, as all of them measure; the first one writes it.
static bool open_log(train_run *run, fault *why) {
    const train_options *const o = run->options;
    const view_split *const split = &run->split;
    const size_t aside = run->validation.count;
    const bool kept = o->log || o->report || o->view; // otherwise training need not wait for values
    const int64_t few = o->recipe.iterations / 200;   // 200 lines in a run, but one every 100 steps at least
    run_log_options wanted = {.path = is_first(run) ? o->log : NULL,
                              .append = o->resume != NULL,
                              .every = !kept                    ? (o->budget ? SELDOM : o->recipe.iterations)
                                       : o->budget || few > 100 ? 100
                                       : few < 1                ? 1
                                                                : few,
                              .evaluate_every = kept ? o->eval_every : 0,
                              .shown = run->shown,
                              .first = split->training,
                              .held_out = split->held_out,
                              .validation = &run->validation};
    if (aside > 0) {
        // A twentieth of the iterations, an eighth where nobody sees the curve, and a multiple of the interval of log lines.
        const int64_t interval = kept ? wanted.every : 1,
                      part = (o->budget ? 10000 : o->recipe.iterations) / (kept ? 20 : 8) / interval;
        wanted.validate_every = interval * (part < 1 ? 1 : part);
        if (!kept) wanted.every = SELDOM * wanted.validate_every; // so that nobody looks on in between
    }
    if (!run_log_open(&run->log, &wanted, why)) return false;
    const run_setting more[] = {{"data", o->data, 0},
                                {"views", NULL, (double)split->training},
                                {"held_out", NULL, (double)split->held_out},
                                {"width", NULL, split->views[0].camera.width},
                                {"height", NULL, split->views[0].camera.height},
                                {aside > 0 ? "validation" : NULL, NULL, (double)aside},
                                {0}};
    run_log_start(&run->log, &run->state, more, run->table);
    return true;
}

// The `wants` of training_observer.
static bool page_wants(void *context) {
    return live_page_wants(((const train_run *)context)->page);
}

static bool open_page(train_run *run, fault *why) {
    const train_options *const o = run->options;
    if (!o->view) return true;
    if (!page_source_of_run(&run->source, &run->split, o->title, o->recipe.background, why)) return false;
    const live_page_options options = {.listen = o->listen,
                                       .content = run->source.content,
                                       .training = true,
                                       .most = PAGE_MOST,
                                       .iterations = o->budget ? 0 : o->recipe.iterations,
                                       .patience = LIVE_PAGE_PATIENCE};
    run->page = live_page_start(&options, why);
    if (run->page) page_server_print(live_page_server(run->page));
    return run->page != NULL;
}

static bool open_rank(train_run *run, fault *why) {
    if (!open_pictures(run, why)) return false;
    const training_place place = {run->group, run->way};
    run->shown = (shown_views){.views = run->split.views,
                               .pictures = run->cached ? &run->cache : NULL,
                               .background = run->options->recipe.background};
    return (run->options->resume ? resume(run, &place, why) : start(run, &place, why)) &&
           open_log(run, why) && open_page(run, why);
}

// ---- training

static bool observe(void *context, const training_state *state, const training_report *report, fault *why) {
    train_run *const run = context;
    bool saved;
    train_poses_place_held_out(run);
    if (!run_log_observe(&run->log, state, report, why) ||
        !saver_observe(&run->checkpoint, state, report, &saved, why))
        return false;
    if (saved) run_log_checkpoint(&run->log, state->place.views, run->checkpoint.path);
    return !run->page ||
           live_page_observe(run->page, state, report, &run->log.record, stop_request_flag(), why);
}

// Trains until the end, or until a signal requests a stop.
static bool iterate(train_run *run, fault *why) {
    const training_observer observer = {
        .observe = observe,
        .context = run,
        .interval = common_divisor(run_log_interval(&run->log), run->checkpoint.interval),
        .wants = run->page ? page_wants : NULL,
        .end = stop_request_flag()};
    run->settings.name = "training";
    if (is_first(run)) print_plan(run, ranks_count(run->group));
    if (is_alone(run)) stop_request_begin(); // otherwise train.c has, before the ranks
    const bool done = train_on(run->cached ? &run->pictures : NULL, &run->state, run->split.views,
                               run->split.training, &run->settings, &observer, &run->report, why);
    const int signal = is_alone(run) ? stop_request_end() : 0;
    if (!done ||
        (run->page && !live_page_finish(run->page, &run->state, &run->report, &run->log.record, why)))
        return false;
    train_poses_adopt(run);
    run->poses.after = train_poses_difference(run, NULL);
    if (!run->report.stopped) return true;
    run->stopped_by = signal;
    if (is_first(run))
        fprintf(
            stderr,
            "dsplat: stopped by a signal after iteration %lld, which is saved; to continue, add --resume %s\n",
            (long long)run->state.place.views, run->checkpoint.path);
    return true;
}

// Aligns held-out views with the scene, which has moved against the data's poses, in each place by another motion.
static bool align_held_out(train_run *run, fault *why) {
    view_split *split = &run->split;
    target_view *const views = split->views + split->training;
    const int64_t steps = run->options->align_steps;
    const size_t most = run->pictures.most_bytes;
    if (!run->options->recipe.refine_poses || steps == 0 || split->held_out == 0) return true;
    run->log.moved = true;
    picture_cache_close(&run->pictures); // those to train on are not needed any more
    return (!run->cached || picture_cache_open(&run->pictures, views, split->held_out, false, most, why)) &&
           align_views(run->cached ? &run->pictures : NULL, &run->state, views, split->held_out,
                       &run->settings, steps, why);
}

// ---- the files

typedef struct ranked {
    size_t index;
    quality quality;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return (x->quality.psnr > y->quality.psnr) - (x->quality.psnr < y->quality.psnr);
}

// A view rendered, its photograph and their difference, small.
static bool take_pictures(const train_run *run, const ranked *of, page_picture *out, fault *why) {
    const target_view *const view = &run->split.views[of->index];
    const int divisor = (view->camera.width + PAGE_WIDEST - 1) / PAGE_WIDEST;
    *out = (page_picture){.name = view->name ? view->name : "",
                          .width = view->camera.width,
                          .height = view->camera.height,
                          .measured = of->quality};
    frame f = {0};
    image whole = {0};
    const bool done = training_state_render(&run->state, &run->shown, of->index, &f, why) &&
                      frame_picture(&f, &whole, why) &&
                      image_downscale(&whole, divisor, &out->trio[0], why) &&
                      image_downscale(view->picture, divisor, &out->trio[1], why) &&
                      map_errors(&whole, view->picture, divisor, &out->trio[2], why);
    frame_close(&f);
    image_close(&whole);
    return done;
}

// Measures the held-out views, or those trained on if there are none, and shows some from the worst to the best. A collective.
static bool measure_run(const train_run *run, page_run *out, fault *why) {
    const view_split *const split = &run->split;
    const bool held_out = split->held_out > 0;
    const size_t first = held_out ? split->training : 0, count = held_out ? split->held_out : split->training;
    const size_t shown = count < PAGE_SHOWN ? count : PAGE_SHOWN;
    *out = (page_run){.training = &run->report,
                      .gaussians = training_state_count(&run->state),
                      .batch = run->settings.batch,
                      .held_out = held_out,
                      .views = count};
    quality *const each = calloc(count, sizeof *each);
    ranked *const order = calloc(count, sizeof *order);
    bool done = ((each && order) || fail(why, "no memory for the report's %zu views", count)) &&
                quality_measure(&run->state, &run->shown, NULL, first, count, &out->mean, each, why);
    for (size_t i = 0; done && i < count; i++) order[i] = (ranked){first + i, each[i]};
    if (done) qsort(order, count, sizeof *order, compare_ranked);
    for (; done && out->shown < shown; out->shown++)
        done = take_pictures(run, &order[shown > 1 ? out->shown * (count - 1) / (shown - 1) : 0],
                             &out->pictures[out->shown], why);
    free(each);
    free(order);
    return done;
}

// The page of the scene's file, as each of several ranks has only a part of the scene. A collective; rank 0 writes.
static bool write_report(const train_run *run, fault *why) {
    const train_options *const o = run->options;
    char path[PATH_ROOM];
    page_run more = {0};
    page_source source = {.content.record = &run->log.record, .content.run = &more};
    page_written ignored;
    bool done = measure_run(run, &more, why);
    if (done && is_first(run)) {
        done = path_join(path, o->report, "index.html", why) && folder_make(o->report, why) &&
               scene_read(o->output, SCENE_FINITE, &source.scene, why);
        if (done && source.scene.count == 0)
            fprintf(stderr, "dsplat: the scene holds no Gaussians, so there is no %s\n", path);
        else
            done = done && page_source_of_run(&source, &run->split, o->title, o->recipe.background, why) &&
                   page_source_take_scene(&source, PAGE_MOST, why) &&
                   page_write(path, &source.content, &ignored, why);
        page_source_close(&source);
    }
    for (int i = 0; i < 3 * PAGE_SHOWN; i++) image_close(&more.pictures[i / 3].trio[i % 3]);
    return done;
}

// The scene's file, which a thread writes while held-out views are measured.
typedef struct scene_writing {
    const train_run *run;
    scene_notes notes;
    int64_t written, dropped;
    bool done;
    fault why;
} scene_writing;

static void *write_scene(void *context) {
    scene_writing *const w = context;
    w->done = scene_pieces_write(w->run->options->output, &w->run->state, 0, &w->notes, &w->written,
                                 &w->dropped, &w->why);
    return NULL;
}

static bool write_results(train_run *run, fault *why) {
    const train_options *const o = run->options;
    // The first complete scene in place of one that has only begun; the checkpoint, which is written, goes on with that.
    const bool whole =
        o->budget ? run->state.place.progress >= 1 : run->state.place.views >= run->settings.iterations;
    if (run->state.place.scene > 0 && !whole)
        training_state_restart(&run->state, &run->state.distillation.teacher[0]);
    scene_writing scene = {.run = run,
                           .notes = {.known = true, .holdout = run->split.held_out > 0 ? o->holdout : 0}};
    memcpy(scene.notes.background, o->recipe.background, sizeof scene.notes.background);
    memcpy(scene.notes.offset, run->data.offset, sizeof scene.notes.offset);
    if (is_first(run) && (o->recipe.refine_poses || o->perturb_poses))
        run_log_poses(&run->log, run->report.iterations, &run->poses);
    if (!align_held_out(run, why)) return false;
    pthread_t writer;
    // Several ranks write together: their exchanges are in order.
    const bool beside = is_alone(run) && pthread_create(&writer, NULL, write_scene, &scene) == 0;
    if (!beside) write_scene(&scene);
    bool done = (beside || scene.done) &&
                (!is_first(run) || !o->write_cameras || train_poses_write(run, why)) &&
                run_log_finish(&run->log, &run->state, &run->report, why);
    if (beside) pthread_join(writer, NULL);
    if (!scene.done) *why = scene.why;
    done = done && scene.done && (!o->report || write_report(run, why));
    if (!done) return false;
    if (is_first(run) && scene.dropped > 0)
        fprintf(stderr, "dsplat: dropped %lld Gaussians whose parameters overflowed\n",
                (long long)scene.dropped);
    if (is_first(run)) print_summary(run, ranks_count(run->group), scene.written);
    return true;
}

// From the start to the files, which rank 0 writes. Each rank has its own copy of the run, whose views are on the host only.
// False after ranks_fail.
static bool train_as_rank(train_run *run, ranks *group) {
    fault why, unwritten;
    run->group = group;
    bool done = open_rank(run, &why) && iterate(run, &why) && write_results(run, &why);
    if (!run_log_close(&run->log, &unwritten) && done) {
        why = unwritten;
        done = false;
    }
    live_page_stop(run->page);
    page_source_close(&run->source);
    training_report_close(&run->report);
    picture_cache_close(&run->pictures);
    picture_cache_close(&run->cache);
    training_state_close(&run->state);
    for (size_t i = 0;
         !run->cached && ranks_count(group) > 1 && i < run->split.training + run->split.held_out; i++)
        target_view_close(&run->split.views[i]);
    return done || ranks_fail_with(group, &why);
}

// ---- the ranks

typedef struct shared_start {
    train_run *run;
    bool takes_signals;
    atomic_bool stopped; // training, by a signal
} shared_start;

// What needs no device, such as reading files. Called once while ranks are started, which share it, or in each rank that a
// launcher has started. Rank 0 writes.
static bool load_shared(shared_start *start, int own, fault *why) {
    if (!train_prepare(start->run, own == 0, why)) return false;
    if (start->run->options->gpus <= 1) return true;
    stop_request_begin();
    start->takes_signals = true;
    return true;
}

static bool load_for_all(void *context, fault *why) {
    return load_shared(context, 0, why);
}

// Fails on the ranks whose data are not rank 0's: other views, names or sizes of them, points or Gaussians.
static bool agree(const shared_start *start, ranks *group) {
    const dataset *const data = &start->run->data;
    const gs_gaussians *const first = &start->run->first;
    const int64_t counts[] = {(int64_t)data->view_count, first->count, (int64_t)data->point_count,
                              first->sh_degree};
    uint64_t hash = train_hash(TRAIN_HASH_START, counts, sizeof counts);
    for (size_t v = 0; v < data->view_count; v++) {
        const dataset_view *const view = &data->views[v];
        const int size[] = {view->camera.width, view->camera.height};
        hash = train_hash(train_hash(hash, view->name, strlen(view->name) + 1), size, sizeof size);
    }
    int64_t outlines[RANKS_MAX];
    return ranks_tell_all(group, (int64_t)hash, outlines, NULL) &&
           (outlines[0] == (int64_t)hash ||
            ranks_fail(group, "has other data than rank 0: the number, names or sizes of views, "
                              "or the number of points or Gaussians"));
}

// Each rank has its own of what changes: views, whose cameras move with refined poses.
static bool rank_body(ranks *group, void *context) {
    shared_start *const start = context;
    fault why;
    if (start->run->options->launched) {
        if (!load_shared(start, ranks_own(group), &why)) return ranks_fail_with(group, &why);
        if (!agree(start, group)) return false;
    }
    if (ranks_count(group) == 1) return train_as_rank(start->run, group);
    train_run run = *start->run;
    const size_t views = run.split.training + run.split.held_out;
    run.split.views = malloc(views * sizeof *run.split.views);
    run.now = malloc(views * sizeof *run.now);
    bool done = run.split.views && run.now;
    if (done) memcpy(run.split.views, start->run->split.views, views * sizeof *run.split.views);
    done = done ? train_as_rank(&run, group) : ranks_fail(group, "no memory for %zu views", views);
    if (run.report.stopped) atomic_store(&start->stopped, true);
    free(run.split.views);
    free(run.now);
    return done;
}

// CUDA starts with its first call, which takes tenths of a second. Who needs the device sees whether it has failed.
static void *start_device(void *nothing) {
    cudaFree(NULL);
    return nothing;
}

// One rank. The device starts while the photographs are decoded.
static bool run_alone(shared_start *start, fault *why) {
    pthread_t starter;
    ranks *const group = ranks_alone_open();
    if (!group) return fail(why, "no memory for a group of one rank");
    const bool starts = pthread_create(&starter, NULL, start_device, NULL) == 0;
    bool done = load_shared(start, 0, why);
    if (starts) pthread_join(starter, NULL);
    done = done && (rank_body(group, start) || fail(why, "%s", ranks_error(group)));
    ranks_alone_close(group);
    return done;
}

// On a CPU ranks are threads, unless a stand-in for NCCL is named.
static bool run_all(train_run *run, fault *why) {
    const train_options *const o = run->options;
    const bool on_cpu = strcmp(gs_backend(), "simt") == 0;
    const ranks_plan plan = {.count = (int)o->gpus,
                             .kind = o->launched          ? RANKS_LAUNCHED
                                     : on_cpu && !o->nccl ? RANKS_THREADS
                                                          : RANKS_GPUS,
                             .nccl = o->nccl,
                             .devices = on_cpu,
                             .place = &o->place,
                             .arguments = o->arguments,
                             .end = stop_request_flag(),
                             .prepare = o->launched ? NULL : load_for_all,
                             .program = "dsplat"};
    shared_start start = {.run = run};
    const bool done = o->gpus <= 1 && !o->launched && !o->nccl ? run_alone(&start, why)
                                                               : ranks_run(&plan, rank_body, &start, why);
    if (start.takes_signals) {
        const int number = stop_request_end();
        run->stopped_by = atomic_load(&start.stopped) ? number : 0; // a signal may come when all work is done
    }
    train_close(run);
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
            "transforms_train.json or transforms.json. 'dsplat poses' makes such a folder of photographs. "
            "docs/photographs.md has the steps and what is automatic.",
        .examples = "  dsplat train data/fern -o fern.ply --downscale 4 --report page\n"
                    "  dsplat train data/fern -o fern.ply --budget 30s\n"
                    "  dsplat train data/fern -o fern.ply --holdout 0 --antialias\n"
                    "  dsplat train data/lego -o lego.ply --random 100000 --background 1,1,1\n"
                    "  dsplat train data/fern -o fern.ply --depth data/fern/depth\n"
                    "  dsplat train data/fern -o fern.ply --resume fern.ply.checkpoint\n"
                    "  dsplat train data/fox -o fox.ply --gpus 2\n",
        .options = table.rows,
        .positional = 1,
        .groups = TRAIN_GROUPS};
    int code;
    if (!read_command_line(&command, argc, argv, &options.data, &code)) return code;
    fault why;
    char path[PATH_MAX], real[PATH_MAX];
    // A page is named after the folder, also where that is called "." or ends with a slash.
    options.title = page_name_of(options.data);
    if (options.title[strspn(options.title, ".")] == '\0' || strchr(options.title, '/'))
        options.title = page_name_of(realpath(options.data, real) ? real : options.data);
    if (options.output) {
        snprintf(path, sizeof path, "%s.checkpoint", options.output);
        options.checkpoint = path;
    }
    train_options usual = train_options_default();
    option_table default_table = {0};
    train_options_list(&usual, &default_table);
    train_run run = {.options = &options, .table = table.rows, .usual = default_table.rows};
    if (!train_options_check(&options, argc, argv, &why)) return report_misuse(&command, &why);
    if (!run_all(&run, &why)) return report_failure("dsplat", &why);
    return run.stopped_by ? 128 + run.stopped_by : EXIT_SUCCESS;
}
