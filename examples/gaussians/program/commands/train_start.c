// SPDX-License-Identifier: MIT
// What `dsplat train` starts from: its data, settings, points, depth maps, poses and first Gaussians.
#include "commands/train.h"
#include "cli/progress.h"
#include "files/path.h"
#include "scene.h"
#include "ways.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- the data

static bool outputs_are_possible(const train_options *o, fault *why) {
    char page[PATH_ROOM];
    return scene_is_possible(o->output, why) && output_is_possible(o->checkpoint, why) &&
           (!o->write_cameras || output_is_possible(o->write_cameras, why)) &&
           (!o->report || (folder_make(o->report, why) && path_join(page, o->report, "index.html", why) &&
                           output_is_possible(page, why)));
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
    const char *const outputs[] = {o->output, o->checkpoint, o->log, o->write_cameras};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (!dataset_may_write(&run->data, outputs[i], why)) return false;
    run->random_start = !o->from && (o->random > 0 || run->data.point_count == 0);
    return view_split_list(&run->split, &run->data, o->data, why);
}

// ---- points, where the data has none, or where random ones are asked for

// Gives the data points of its own and clears random_start if stereo finds them. Stereo is tried unless random points are
// asked for or poses, too far off for it, are to be refined. A resumed run gets no random points.
static bool find_points(train_run *run, fault *why) {
    const train_options *o = run->options;
    const int64_t most =
        density_settings_from(&o->recipe.density, &run->known, o->recipe.iterations).most_gaussians;
    const size_t wanted = (size_t)(o->random > 0 ? o->random : most < DEFAULT_RANDOM ? most : DEFAULT_RANDOM);
    target_view *const views = malloc(run->split.training * sizeof *views);
    float(*const points)[3] = calloc(wanted, sizeof *points);
    uint8_t(*const colors)[3] = calloc(wanted, sizeof *colors);
    bool done = (views && points && colors) || fail(why, "no memory for %zu points", wanted);
    size_t count = 0; // of the views that training sees from its first step on
    for (size_t i = 0; done && i < run->split.training; i++)
        if (!run->split.views[i].validates) views[count++] = run->split.views[i];
    if (done && o->random == 0 && !o->recipe.refine_poses) {
        const double began = seconds_now();
        done = stereo_points(views, count, wanted, (uint64_t)o->recipe.seed, points, colors, &run->stereo) ||
               fail(why, "no memory to look for points by stereo in %zu views", count);
        run->stereo_seconds = seconds_now() - began;
    }
    run->random_start = run->stereo.points == 0;
    if (done && run->random_start && !o->resume)
        random_points(views, count, run->data.is_object, wanted, (uint64_t)o->recipe.seed, points, colors);
    free(views);
    if (!done || (run->random_start && o->resume)) {
        free(points);
        free(colors);
        return done;
    }
    free(run->data.points);
    free(run->data.colors);
    run->data.points = points, run->data.colors = colors;
    run->data.point_count = run->random_start ? wanted : run->stereo.points;
    return true;
}

// ---- depth maps

// The points that each view sees, by a counting sort of their tracks.
typedef struct view_tracks {
    size_t *begin;   // [views + 2]
    uint32_t *point; // [begin[views]]
} view_tracks;

static bool tracks_open(view_tracks *tracks, const dataset *data, fault *why) {
    const size_t views = data->view_count, count = data->track_count;
    tracks->begin = calloc(views + 2, sizeof *tracks->begin);
    tracks->point = calloc(count + 1, sizeof *tracks->point);
    if (!tracks->begin || !tracks->point) return fail(why, "no memory for %zu track entries", count);
    for (size_t i = 0; i < count; i++) tracks->begin[data->tracks[i].view + 2]++;
    for (size_t v = 0; v < views; v++) tracks->begin[v + 2] += tracks->begin[v + 1];
    for (size_t i = 0; i < count; i++)
        tracks->point[tracks->begin[data->tracks[i].view + 1]++] = data->tracks[i].point;
    return true;
}

static bool fit_map(const dataset_view *source, target_view *view, const depth_points *points, depth_fit *fit,
                    fault *why) {
    const depth_view seen = {&view->camera, source->depth, source->mask};
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    const size_t room = points->seen ? points->seen_count : points->count;
    depth_sample *samples = calloc(room + 1, sizeof *samples);
    if (!samples) return fail(why, "no memory for %zu points", room);
    size_t found;
    const bool done =
        depth_samples(&seen, points, samples, &found, why) && depth_fit_line(samples, found, fit, why);
    free(samples);
    if (!done) return false;
    depth_fit_apply(fit, source->depth, pixels);
    view->depth_on_host = source->depth;
    return true;
}

// Fits the map of each training view to the points that it sees, where its camera now is. Points of a COLMAP model are seen
// as their tracks say, if the view is in any; others as depth_samples finds. A map that cannot be fitted is left out; one
// line on stderr counts these and names the first. Fails, naming the folder of the maps, if none is left.
static bool fit_maps(train_run *run, fault *why) {
    const dataset *const data = &run->data;
    const char *const folder = run->options->depth;
    train_depth *const d = &run->depth;
    view_tracks tracks = {0};
    fault first = {0}, reason;
    *d = (train_depth){.maps = run->split.training};
    const bool done = tracks_open(&tracks, data, why);
    size_t next = 0; // the split has the views to train on first, in the order of the data
    for (size_t i = 0; done && i < data->view_count; i++) {
        if (data->views[i].held_out) continue;
        const size_t seen = tracks.begin[i + 1] - tracks.begin[i];
        const depth_points points = {(const float(*)[3])data->points, data->point_count,
                                     seen > 0 ? tracks.point + tracks.begin[i] : NULL, seen};
        depth_fit fit;
        if (fit_map(&data->views[i], &run->split.views[next++], &points, &fit, &reason)) {
            d->mean_points += (double)fit.used;
            d->mean_error += fit.error;
            d->fitted++;
        } else if (next - d->fitted == 1) {
            fail(&first, "%s: %s", data->views[i].name, reason.text);
        }
    }
    free(tracks.begin);
    free(tracks.point);
    if (!done) return false;
    if (d->fitted == 0) return fail(why, "%s: no depth map can be fitted; %s", folder, first.text);
    d->mean_points /= (double)d->fitted;
    d->mean_error /= (double)d->fitted;
    if (d->fitted < d->maps)
        fprintf(stderr, "dsplat: %s: %zu of %zu depth maps are left out (the first: %s)\n", folder,
                d->maps - d->fitted, d->maps, first.text);
    return true;
}

// ---- poses: as the data has them, perturbed, refined, compared, written

// Remembers the poses of the views, then perturbs those of the training views, where that is asked for.
static bool remember_poses(train_run *run, fault *why) {
    const train_options *const o = run->options;
    const view_split *const split = &run->split;
    const size_t count = split->training + split->held_out;
    run->given = malloc(count * sizeof *run->given);
    run->now = malloc(count * sizeof *run->now);
    if (!run->given || !run->now) return fail(why, "no memory for the poses of %zu views", count);
    for (size_t i = 0; i < count; i++) run->given[i] = pose_of(&split->views[i].camera);
    if (o->perturb_degrees > 0 || o->perturb_extents > 0)
        perturb_poses(split->views, split->training, o->perturb_degrees,
                      o->perturb_extents * run->known.extent, (uint64_t)o->recipe.seed);
    run->poses.views = split->training;
    run->poses.before = train_poses_difference(run, NULL);
    return true;
}

// Copies the poses of the training views to run->now, in double precision where they are refined.
static void read_training_poses(train_run *run, const refined_pose *poses) {
    for (size_t i = 0; i < run->split.training; i++)
        run->now[i] = poses ? poses[i].now : pose_of(&run->split.views[i].camera);
}

void train_poses_place_held_out(train_run *run) {
    const size_t training = run->split.training;
    if (run->state.poses == 0) return;
    read_training_poses(run, run->state.pose);
    const similarity moved = similarity_between(run->given, run->now, training);
    for (size_t i = training; i < training + run->split.held_out; i++) {
        run->now[i] = run->given[i];
        similarity_apply(&moved, &run->now[i]);
        pose_to_camera(&run->now[i], &run->split.views[i].camera);
    }
}

void train_poses_adopt(train_run *run) {
    if (run->state.poses == 0) return;
    train_poses_place_held_out(run);
    for (size_t i = 0; i < run->split.training; i++)
        pose_to_camera(&run->now[i], &run->split.views[i].camera);
}

pose_difference train_poses_difference(train_run *run, const refined_pose *poses) {
    read_training_poses(run, poses);
    pose_difference d = pose_difference_between(run->now, run->given, run->split.training);
    d.mean_distance /= run->known.extent;
    d.largest_distance /= run->known.extent;
    return d;
}

bool train_poses_write(const train_run *run, fault *why) {
    const dataset *const data = &run->data;
    const char *const path = run->options->write_cameras;
    dataset_view *frames = calloc(data->view_count, sizeof *frames);
    if (!frames) return fail(why, "%s: no memory to write it", path);
    size_t next[2] = {0, run->split.training}; // the split has the views to train on first
    for (size_t i = 0; i < data->view_count; i++) {
        const dataset_view *view = &data->views[i];
        const pose now = pose_of(&run->split.views[next[view->held_out]++].camera);
        frames[i] = (dataset_view){.name = view->name, .mask_path = view->mask_path, .optics = view->optics};
        memcpy(frames[i].rotation, now.rotation, sizeof now.rotation);
        memcpy(frames[i].translation, now.translation, sizeof now.translation);
        for (int k = 0; k < 9; k++) // in the data's coordinates again
            frames[i].translation[k / 3] -= now.rotation[k] * data->offset[k % 3];
    }
    const bool written = transforms_save(path, data->picture_folder, frames, data->view_count, why);
    free(frames);
    return written;
}

// ---- the first Gaussians

double train_cpu_seconds(const train_run *run, int64_t first, double *pixels) {
    // Of one core for a pixel of a view and for a Gaussian: of knot at 64 to 256 pixels with 2,000 and 20,000 Gaussians.
    static const double of_pixel = 1.5e-5, of_gaussian = 6e-5;
    const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN),
                 most = (double)run->settings.density.most_gaussians;
    *pixels = of_pixel * (double)run->known.pixels / (double)run->split.training / cores;
    return *pixels + of_gaussian * fmax(most, (double)first) / cores;
}

static bool start(train_run *run, fault *why) {
    const train_options *o = run->options;
    gs_gaussians *const host = &run->first;
    const dataset *data = &run->data;
    start_settings settings = {.sh_degree = (int)o->recipe.sh_degree, .extent = run->known.extent};
    if (o->from)
        return scene_read(o->from, SCENE_FINITE, host, why) &&
               (host->sh_degree == o->recipe.sh_degree || fail(why, "%s has SH degree %d: add --sh-degree %d",
                                                               o->from, host->sh_degree, host->sh_degree));
    // A CPU's budget may end before density control has filled the gaps of small Gaussians, whatever its schedule.
    double pixels, iterations = (double)run->settings.iterations;
    if (ON_CPU && o->recipe.budget > 0)
        iterations = fmin(iterations,
                          o->recipe.budget / 2 / train_cpu_seconds(run, (int64_t)data->point_count, &pixels));
    density_start(&o->recipe.density, &run->known, (int64_t)iterations, &settings.opacity, &settings.size);
    return gaussians_from_points((const float(*)[3])data->points, (const uint8_t(*)[3])data->colors,
                                 data->point_count, &settings, host, why);
}

// At most `most` of the data's points, evenly from all of them.
bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why) {
    const train_run *run = context;
    const dataset *const data = &run->data;
    const start_settings settings = {.extent = run->known.extent, .opacity = 0.1, .size = 1};
    const size_t stride = (data->point_count + most - 1) / most, count = (data->point_count - 1) / stride + 1;
    float(*points)[3] = calloc(count, sizeof *points);
    uint8_t(*colors)[3] = calloc(count, sizeof *colors);
    bool done = points && colors;
    for (size_t i = 0; i < count && done; i++) {
        memcpy(points[i], data->points[i * stride], sizeof *points);
        memcpy(colors[i], data->colors[i * stride], sizeof *colors);
    }
    done = done ? gaussians_from_points((const float(*)[3])points, (const uint8_t(*)[3])colors, count,
                                        &settings, host, why)
                : fail(why, "no memory for %zu points", count);
    free(points);
    free(colors);
    if (done) host->antialias = run->options->recipe.antialias;
    return done;
}

// ---- the whole

// Without --memory the device decides.
static bool memory_suffices(train_run *run, fault *why) {
    const train_options *o = run->options;
    const int64_t first = run->first.count;
    const int all = o->gpus > 1 ? (int)o->gpus : 1, degree = (int)o->recipe.sh_degree;
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

bool train_prepare(train_run *run, bool writes, fault *why) {
    const train_options *o = run->options;
    if ((writes && !outputs_are_possible(o, why)) || !load_data(run, why)) return false;
    run->known = training_data_of(run->split.views, run->split.training);
    const size_t aside = training_validation_count(&o->recipe, run->split.training);
    if (!training_settings_suit(&o->recipe, &run->known, why) ||
        !validation_views_choose(run->split.views, run->split.training, aside, &run->validation, why) ||
        !remember_poses(run, why) || (o->depth && !fit_maps(run, why)) ||
        (run->random_start && !find_points(run, why))) // the settings depend on random_start
        return false;
    run->known.everywhere = run->random_start && !run->data.is_object;
    run->settings = training_settings_start(&o->recipe, &run->known);
    if (o->memory > 0) run->settings.teachers = 0;
    run->key = checkpoint_settings("--", run->table, run->usual);
    run->default_key = checkpoint_settings("--", run->usual, NULL);
    if (!run->key || !run->default_key) return fail(why, "no memory for the options");
    run->checkpoint = (saver){.path = o->checkpoint,
                              .interval = o->checkpoint_every,
                              .key = {.settings = run->key, .usual = run->default_key},
                              .views = run->split.views,
                              .view_count = run->split.training};
    if (o->resume) {
        saver_key(&run->checkpoint);
    } else {
        if (!start(run, why)) return false;
        run->first.antialias = o->recipe.antialias;
    }
    return memory_suffices(run, why);
}

void train_close(train_run *run) {
    scene_close(&run->first);
    free(run->given);
    free(run->now);
    validation_views_close(&run->validation);
    view_split_close(&run->split);
    dataset_close(&run->data);
    free(run->key);
    free(run->default_key);
}
