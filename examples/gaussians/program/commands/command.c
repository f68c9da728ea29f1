// SPDX-License-Identifier: MIT
#include "commands/command.h"
#include "files/path.h"
#include "frame.h"
#include "record/signals.h"
#include "scene.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool remove_numbered(const char *folder, const char *format, int64_t first, fault *why) {
    char name[64], path[PATH_ROOM];
    bool more = true;
    for (int64_t i = first; more; i++) {
        snprintf(name, sizeof name, format, (long long)i);
        if (!path_join(path, folder, name, why) || !file_remove(path, &more, why)) return false;
    }
    return true;
}

bool parse_numbers(const char *text, double *out, int count) {
    for (int k = 0; k < count; k++) {
        char *end;
        out[k] = strtod(text, &end);
        if (end == text || !isfinite(out[k]) || *end != (k < count - 1 ? ',' : '\0')) return false;
        text = end + 1;
    }
    return true;
}

bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why) {
    if (!scene_read(path, SCENE_FINITE, out, why)) return false;
    if (out->count > 0) return true;
    scene_close(out);
    return fail(why, "%s: holds no Gaussians, so there is nothing to measure", path);
}

// ---- ranks

static const uint64_t start_hash = 0xcbf29ce484222325;

// FNV-1a, with the 0 at the end of each.
static uint64_t hash_of(uint64_t hash, const char *text) {
    const size_t bytes = strlen(text) + 1;
    for (size_t k = 0; k < bytes; k++) hash = (hash ^ (unsigned char)text[k]) * 0x100000001b3;
    return hash;
}

bool rank_options_check(rank_options *options, int argc, char **argv, fault *why) {
    const ranks_found found = ranks_find_place(&options->place, why);
    if (found == RANKS_WRONG) return false;
    options->arguments = hash_of(start_hash, gs_version());
    for (int k = 0; k < argc; k++) options->arguments = hash_of(options->arguments, argv[k]);
    options->launched = found == RANKS_FOUND;
    if (!options->launched) return options->gpus > 0 || !options->nccl || fail(why, "--nccl needs --gpus");
    if (options->gpus > 0)
        return fail(why, "--gpus starts ranks of its own, and this is one of %d that a launcher has started",
                    options->place.count);
    options->gpus = options->place.count;
    return true;
}

static uint64_t hash_of_number(uint64_t hash, int64_t number) {
    return (hash ^ (uint64_t)number) * 0x100000001b3;
}

static uint64_t outline_of(const rank_work *work) {
    const dataset *const data = work->data;
    uint64_t hash = hash_of_number(hash_of_number(start_hash, (int64_t)data->view_count), work->scene->count);
    hash = hash_of_number(hash_of_number(hash, (int64_t)data->point_count), work->scene->sh_degree);
    for (size_t v = 0; v < data->view_count; v++) {
        const dataset_view *const view = &data->views[v];
        hash = hash_of_number(hash_of_number(hash_of(hash, view->name), view->camera.width),
                              view->camera.height);
    }
    return hash;
}

// Fails on the ranks whose data are not rank 0's.
static bool agree(const rank_work *work, ranks *group) {
    int64_t others[RANKS_MAX];
    const int64_t outline = (int64_t)outline_of(work);
    if (!ranks_tell_all(group, outline, others, NULL)) return false;
    return others[0] == outline ||
           ranks_fail(group, "has other data than rank 0: the number, names or sizes of views, "
                             "or the number of points or Gaussians");
}

static bool load_first(void *context, fault *why) {
    const rank_work *const work = context;
    return work->load(work->context, 0, why);
}

static bool run_loaded(ranks *group, void *context) {
    const rank_work *const work = context;
    return work->body(group, work->context);
}

static bool load_and_run(ranks *group, void *context) {
    const rank_work *const work = context;
    fault why;
    if (!work->load(work->context, ranks_own(group), &why)) return ranks_fail(group, "%s", why.text);
    return agree(work, group) && work->body(group, work->context);
}

// CUDA starts with its first call, which takes tenths of a second. Who needs the device sees whether it has failed.
static void *start_device(void *nothing) {
    cudaFree(NULL);
    return nothing;
}

// The device starts while the photographs are decoded.
static bool run_alone(rank_work *work, fault *why) {
    pthread_t starter;
    ranks *const group = ranks_alone_open();
    if (!group) return fail(why, "no memory for a group of one rank");
    const bool starts = pthread_create(&starter, NULL, start_device, NULL) == 0;
    bool done = work->load(work->context, 0, why);
    if (starts) pthread_join(starter, NULL);
    done = done && (work->body(group, work->context) || fail(why, "%s", ranks_error(group)));
    ranks_alone_close(group);
    return done;
}

bool run_on_ranks(const rank_options *options, rank_work *work, fault *why) {
    const bool on_cpu = strcmp(gs_backend(), "simt") == 0;
    if (options->gpus <= 1 && !options->launched && !options->nccl) return run_alone(work, why);
    const ranks_plan plan = {.count = (int)options->gpus,
                             .kind = options->launched          ? RANKS_LAUNCHED
                                     : on_cpu && !options->nccl ? RANKS_THREADS
                                                                : RANKS_GPUS,
                             .nccl = options->nccl,
                             .devices = on_cpu,
                             .place = &options->place,
                             .arguments = options->arguments,
                             .end = stop_request_flag(),
                             .prepare = options->launched ? NULL : load_first,
                             .program = "dsplat"};
    return ranks_run(&plan, options->launched ? load_and_run : run_loaded, work, why);
}
