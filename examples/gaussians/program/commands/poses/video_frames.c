// SPDX-License-Identifier: MIT
#include "structure.h"
#include "cli/child.h"
#include "images/image.h"
#include "parallel.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANDIDATES = 5 }; // frames of an interval that are compared

static const char install[] = "install ffmpeg (Debian and Ubuntu: apt install ffmpeg)";

typedef struct video {
    double rate, seconds; // frames per second; 0: unknown
} video;

static void read_fact(void *context, const char *line) {
    video *const v = context;
    double above, below;
    if (sscanf(line, "avg_frame_rate=%lf/%lf", &above, &below) == 2 && below > 0) v->rate = above / below;
    if (sscanf(line, "duration=%lf", &above) == 1) v->seconds = above;
}

static bool probe(const structure *s, const char *path, video *v, fault *why) {
    const char *const argv[] = {"ffprobe",
                                "-v",
                                "error",
                                "-select_streams",
                                "v:0",
                                "-show_entries",
                                "stream=avg_frame_rate:format=duration",
                                "-of",
                                "default=noprint_wrappers=1",
                                path,
                                NULL};
    const child_program program = {argv, install, read_fact, v, s->stop};
    *v = (video){0, 0};
    if (!child_run(&program, 0, why)) return fail(why, "%s: %s", path, why->text);
    return (v->rate > 0 && v->seconds > 0) ||
           fail(why, "%s: not a video of known length: %g frames a second, %g s", path, v->rate, v->seconds);
}

// The variance of the Laplacian of the gray picture: it is the larger, the more fine detail there is.
static double sharpness_of(const image *picture) {
    const size_t width = (size_t)picture->width, channels = (size_t)picture->channels;
    double sum = 0, squares = 0, count = 0;
    const uint8_t *const p = picture->pixels;
#define GRAY(x, y)                                                                                           \
    (p[channels * ((y)*width + (x))] + 2 * p[channels * ((y)*width + (x)) + 1] +                             \
     p[channels * ((y)*width + (x)) + 2])
    for (size_t y = 1; y + 1 < (size_t)picture->height; y++)
        for (size_t x = 1; x + 1 < width; x++) {
            const double value =
                GRAY(x - 1, y) + GRAY(x + 1, y) + GRAY(x, y - 1) + GRAY(x, y + 1) - 4 * GRAY(x, y);
            sum += value, squares += value * value, count++;
        }
#undef GRAY
    return count > 0 ? squares / count - (sum / count) * (sum / count) : 0;
}

typedef struct candidates {
    const char *folder;
    double *sharpness;
} candidates;

static bool candidate_path(const char *folder, size_t i, char path[PATH_ROOM], fault *why) {
    char name[32];
    snprintf(name, sizeof name, "%06zu.jpg", i + 1);
    return path_join(path, folder, name, why);
}

// Measures picture i, for read_in_parallel.
static bool measure(void *context, size_t i, fault *why) {
    const candidates *const c = context;
    char path[PATH_ROOM];
    image picture;
    if (!candidate_path(c->folder, i, path, why) || !image_read(path, &picture, why)) return false;
    c->sharpness[i] = sharpness_of(&picture);
    image_close(&picture);
    return true;
}

// Moves the sharpest of each of `wanted` intervals.
static bool choose(const candidates *from, size_t count, size_t wanted, const char *to, fault *why) {
    char path[PATH_ROOM], target[PATH_ROOM], name[32];
    for (size_t k = 0; k < wanted; k++) {
        size_t best = k * count / wanted;
        for (size_t i = best; i < (k + 1) * count / wanted; i++)
            if (from->sharpness[i] > from->sharpness[best]) best = i;
        snprintf(name, sizeof name, "frame_%05zu.jpg", k + 1);
        if (!candidate_path(from->folder, best, path, why) || !path_join(target, to, name, why)) return false;
        if (rename(path, target) != 0) return fail(why, "%s: cannot rename: %s", path, strerror(errno));
    }
    return true;
}

bool video_frames(const structure *s, const char *path, size_t wanted, const char *to, size_t *taken,
                  fault *why) {
    char folder[PATH_ROOM], pattern[PATH_ROOM], filter[64], next[PATH_ROOM];
    video v;
    if (!path_join(folder, s->folder, "frames", why) || !path_join(pattern, folder, "%06d.jpg", why) ||
        !folder_make(folder, why) || !probe(s, path, &v, why))
        return false;
    snprintf(filter, sizeof filter, "fps=%.6f", fmin(v.rate, CANDIDATES * (double)wanted / v.seconds));
    const char *const argv[] = {"ffmpeg", "-nostdin", "-v",        "error", "-i",    path,
                                "-vf",    filter,     "-qscale:v", "2",     pattern, NULL};
    const child_program program = {argv, install, NULL, NULL, s->stop};
    if (!child_run(&program, 0, why)) return fail(why, "%s: %s", path, why->text);
    size_t count = 0;
    while (candidate_path(folder, count, next, why) && access(next, R_OK) == 0) count++;
    if (count == 0) return fail(why, "%s: ffmpeg has found no frames in it", path);
    candidates all = {folder, calloc(count, sizeof *all.sharpness)};
    *taken = wanted < count ? wanted : count;
    const bool done = (all.sharpness || fail(why, "no memory for %zu frames", count)) &&
                      read_in_parallel(count, measure, &all, why) && choose(&all, count, *taken, to, why);
    free(all.sharpness);
    if (done) printf("frames     the sharpest %zu of %zu, from %.1f s of video\n", *taken, count, v.seconds);
    return done;
}
