// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // pipe2
#include "record/video.h"
#include "cli/child.h"
#include "files/output_file.h"
#include "record/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct video {
    output_file file;
    char size[32], rate[16];
    int input, output; // of the pipe to ffmpeg
    pthread_t thread;  // runs it
    bool runs, done;
    fault why;
};

bool video_is_name(const char *path) {
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".mp4") == 0;
}

static void *run(void *context) {
    video *const v = context;
    // clang-format off
    const char *const argv[] = {"ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", v->size,
                                "-r", v->rate, "-i", "-", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", // of 4:2:0
                                "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4",
                                v->file.temporary_path, NULL};
    // clang-format on
    const child_program program = {.argv = argv,
                                   .install = "install ffmpeg (Debian and Ubuntu: apt install ffmpeg), or "
                                              "name a folder, for pictures"};
    v->done = child_run(&program, v->input, &v->why);
    close(v->input); // so that video_put fails
    return NULL;
}

static bool start(video *v, fault *why) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return fail(why, "no pipe: %s", strerror(errno));
    v->input = ends[0], v->output = ends[1];
    const int number = pthread_create(&v->thread, NULL, run, v);
    v->runs = number == 0;
    if (v->runs) return true;
    close(ends[0]);
    close(ends[1]);
    return fail(why, "no thread for a video: %s", strerror(number));
}

video *video_open(const char *path, int width, int height, fault *why) {
    video *const v = calloc(1, sizeof *v);
    if (!v) {
        fail(why, "no memory for a video");
        return NULL;
    }
    snprintf(v->size, sizeof v->size, "%dx%d", width, height);
    snprintf(v->rate, sizeof v->rate, "%d", VIDEO_RATE);
    broken_pipes_begin();
    if (output_file_open(&v->file, path, why) && start(v, why)) return v;
    fault ignored;
    video_close(v, false, &ignored);
    return NULL;
}

bool video_put(video *v, const image *frame) {
    const uint8_t *at = frame->pixels, *const end = at + 3 * (size_t)frame->width * (size_t)frame->height;
    while (at < end) {
        const ssize_t written = write(v->output, at, (size_t)(end - at));
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) at += written;
    }
    return true;
}

bool video_close(video *v, bool whole, fault *why) {
    if (!v) return true;
    bool done = whole;
    if (v->runs) {
        close(v->output);
        pthread_join(v->thread, NULL);
        if (!v->done) *why = v->why;
        done = whole && v->done;
    }
    broken_pipes_end();
    done = done && output_file_commit(&v->file, why);
    if (!done) output_file_discard(&v->file);
    free(v);
    return done;
}
