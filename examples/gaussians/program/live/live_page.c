// SPDX-License-Identifier: MIT
#include "live/live_page.h"
#include "files/json_writer.h"
#include "files/output_file.h"
#include "frame.h"
#include "record/signals.h"
#include "cli/progress.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Seconds: between copies; in which a page that is open asks.
static const double least_rest = 0.5, lately = 3;

// A scene that clients may still take while a newer one is there. The bytes follow the struct.
typedef struct shared_bytes {
    atomic_int holders;
    size_t count;
} shared_bytes;

struct live_page {
    live_page_options options;
    char *html;
    size_t html_bytes;
    page_server *server;
    pthread_t packer;
    bool packer_runs;
    atomic_bool asks;
    pthread_mutex_t lock; // for all below
    pthread_cond_t copied;
    bool paused, over, closing;
    bool packing;                 // `scene` and `record` are the packer's, otherwise the trainer's
    int64_t steps;                // that a paused training may make
    double looked, due;           // when a page last asked, when the next copy may be made
    int64_t version, taken;       // of the scene that there is, and that a page has last taken
    shared_bytes *packed;         // that scene, or NULL
    training_report report;       // its losses are not there
    int64_t iteration, gaussians; // of the last observation
    int64_t at;                   // iteration of `scene`
    gs_gaussians scene;           // of options.content, as the next is
    run_record record;            // its points at that iteration
};

static void release_bytes(void *bytes) {
    shared_bytes *const shared = (shared_bytes *)bytes - 1;
    if (atomic_fetch_sub(&shared->holders, 1) == 1) free(shared);
}

// ---- the answers, on the server's thread

static bool give_status(live_page *p, page_answer *out) {
    char *memory = NULL;
    size_t count;
    FILE *const stream = memory_stream_open(&memory, &count);
    if (!stream) return false;
    json_writer json = {.stream = stream, .first = true, .one_line = true};
    json_begin(&json, NULL, '{');
    json_put_integer(&json, "version", p->version);
    if (p->options.training) {
        json_put_integer(&json, "iteration", p->iteration);
        json_put_integer(&json, "iterations", p->options.iterations);
        json_put_integer(&json, "gaussians", p->gaussians);
        json_put_number(&json, "loss", p->report.last_loss);
        json_put_number(&json, "seconds", p->report.seconds);
        json_put_boolean(&json, "paused", p->paused);
        json_put_boolean(&json, "over", p->over);
    }
    json_end(&json, '}');
    const bool done = memory_stream_close(stream);
    if (done)
        *out = (page_answer){memory, count, "application/json", free};
    else
        free(memory);
    return done;
}

static bool give_scene(live_page *p, page_answer *out) {
    if (!p->packed) return false;
    atomic_fetch_add(&p->packed->holders, 1);
    p->taken = p->version;
    *out = (page_answer){p->packed + 1, p->packed->count, "application/octet-stream", release_bytes};
    return true;
}

static bool command(live_page *p, const char *name) {
    if (strcmp(name, "pause") == 0)
        p->paused = !p->over;
    else if (strcmp(name, "resume") == 0)
        p->paused = false;
    else if (strcmp(name, "step") == 0 && p->paused)
        p->steps = 1;
    else if (strcmp(name, "stop") == 0)
        stop_request_make();
    else
        return false;
    atomic_store(&p->asks, true);
    return true;
}

// For page_site.answer.
static bool answer(void *context, const char *name, bool post, page_answer *out) {
    live_page *const p = context;
    if (*name == '\0') {
        *out = (page_answer){.bytes = p->html, .count = p->html_bytes, .type = PAGE_TYPE};
        return !post;
    }
    pthread_mutex_lock(&p->lock);
    p->looked = seconds_now();
    if (!p->packing && p->looked >= p->due) atomic_store(&p->asks, true);
    const bool found = post ? p->options.training && command(p, name) && give_status(p, out)
                       : strcmp(name, "scene") == 0 ? give_scene(p, out)
                                                    : strcmp(name, "status") == 0 && give_status(p, out);
    pthread_mutex_unlock(&p->lock);
    return found;
}

// ---- the scene as browsers take it

// NULL: *why is set.
static shared_bytes *pack(const page_content *content, page_written *written, fault *why) {
    static const shared_bytes one = {1, 0};
    char *memory = NULL;
    size_t count;
    FILE *const stream = memory_stream_open(&memory, &count);
    if (stream) fwrite(&one, sizeof one, 1, stream);
    const bool printed = stream && page_print_scene(stream, content, written, why);
    if (stream && memory_stream_close(stream) && printed) {
        shared_bytes *const shared = (shared_bytes *)(void *)memory;
        shared->count = count - sizeof *shared;
        return shared;
    }
    if (!stream || printed) fail(why, "no memory for the page's scene");
    free(memory);
    return NULL;
}

// Called with the lock. next: may be NULL: the page keeps what it has.
static void offer(live_page *p, shared_bytes *next) {
    if (!next) return;
    if (p->packed) release_bytes(p->packed + 1);
    p->packed = next;
    p->version++;
}

bool live_page_show(live_page *p, const page_content *content, page_written *written, fault *why) {
    *written = (page_written){0};
    shared_bytes *const next = pack(content, written, why);
    written->bytes += p->html_bytes;
    pthread_mutex_lock(&p->lock);
    offer(p, next);
    pthread_mutex_unlock(&p->lock);
    return next != NULL;
}

// ---- the packer of a training, a thread of its own

static void *pack_copies(void *context) {
    live_page *const p = context;
    fault ignored;
    page_written written;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->packing && !p->closing) pthread_cond_wait(&p->copied, &p->lock);
        if (p->closing) break;
        pthread_mutex_unlock(&p->lock);
        gaussians_keep_finite(&p->scene);
        const bool shows = scene_keep_heaviest(&p->scene, p->options.most, &ignored) && p->scene.count > 0;
        shared_bytes *const next = shows ? pack(&p->options.content, &written, &ignored) : NULL;
        pthread_mutex_lock(&p->lock);
        offer(p, next);
        p->packing = false;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

// ---- the trainer's thread

// `scene` and `record` become those of now. Called and left with the lock, which it gives back meanwhile: nobody else
// changes what is copied.
static bool copy(live_page *p, const training_state *state, const run_record *record, fault *why) {
    const double began = seconds_now();
    const gs_gaussians *const now = &state->gaussians;
    pthread_mutex_unlock(&p->lock);
    scene_close(&p->scene);
    bool done = scene_open(&p->scene, now->count, now->sh_degree, why);
    if (done) device_gaussians_copy(&p->scene, now);
    p->scene.antialias = now->antialias;
    p->options.content.total = now->count;
    p->record.count = 0;
    for (size_t i = 0; i < record->count && done; i++)
        done = run_record_add(&p->record, &record->points[i], why);
    pthread_mutex_lock(&p->lock);
    const double end = seconds_now();
    p->due = end + fmax(least_rest, LIVE_PAGE_REST * (end - began));
    p->at = state->place.views;
    p->packing = done;
    pthread_cond_signal(&p->copied);
    return done;
}

static void look(live_page *p, const training_state *state, const training_report *report) {
    p->report = *report;
    p->report.losses = NULL;
    p->iteration = state->place.views;
    p->gaussians = state->gaussians.count;
}

static void rest(live_page *p) {
    const struct timespec soon = {.tv_nsec = 10000000};
    pthread_mutex_unlock(&p->lock);
    nanosleep(&soon, NULL);
    pthread_mutex_lock(&p->lock);
}

bool live_page_wants(live_page *p) {
    return atomic_load_explicit(&p->asks, memory_order_relaxed);
}

bool live_page_observe(live_page *p, const training_state *state, const training_report *report,
                       const run_record *record, const volatile sig_atomic_t *end, fault *why) {
    bool done = true;
    pthread_mutex_lock(&p->lock);
    look(p, state, report);
    while (done) {
        const bool asked = live_page_wants(p) && seconds_now() >= p->due;
        if (!p->packing && p->at != p->iteration && (p->paused || asked)) done = copy(p, state, record, why);
        if (seconds_now() - p->looked > p->options.patience) p->paused = false;
        if (!p->paused || p->steps > 0 || *end) break;
        rest(p);
    }
    if (p->steps > 0) p->steps--;
    atomic_store(&p->asks, p->paused);
    pthread_mutex_unlock(&p->lock);
    return done;
}

bool live_page_finish(live_page *p, const training_state *state, const training_report *report,
                      const run_record *record, fault *why) {
    bool done = true;
    pthread_mutex_lock(&p->lock);
    look(p, state, report);
    p->over = true;
    p->paused = false;
    if (seconds_now() - p->looked < lately) {
        while (p->packing) rest(p);
        done = copy(p, state, record, why);
    }
    pthread_mutex_unlock(&p->lock);
    return done;
}

// ---- start and stop

live_page *live_page_start(const live_page_options *options, fault *why) {
    live_page *const p = calloc(1, sizeof *p);
    if (!p) {
        fail(why, "no memory for the page");
        return NULL;
    }
    p->options = *options;
    p->at = -1;
    p->looked = -INFINITY;
    p->report.last_loss = NAN;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->copied, NULL);
    const page_site site = {answer, p};
    page_written ignored;
    FILE *const stream = memory_stream_open(&p->html, &p->html_bytes);
    bool done = stream && page_print(stream, &p->options.content, &ignored, why);
    done = (stream && memory_stream_close(stream) && done) || fail(why, "no memory for the page");
    p->options.content.scene = &p->scene;
    p->options.content.record = &p->record;
    if (done && options->training) {
        p->packer_runs = pthread_create(&p->packer, NULL, pack_copies, p) == 0;
        done = p->packer_runs || fail(why, "no thread for the page");
    }
    p->server = done ? page_server_start(&site, options->listen, why) : NULL;
    if (p->server) return p;
    live_page_stop(p);
    return NULL;
}

const page_server *live_page_server(const live_page *p) {
    return p->server;
}

void live_page_stop(live_page *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    const double end = seconds_now() + 3;
    while (p->over && seconds_now() - p->looked < lately && seconds_now() < end &&
           (p->packing || p->taken < p->version || (p->packed && atomic_load(&p->packed->holders) > 1)))
        rest(p);
    p->closing = true;
    pthread_cond_signal(&p->copied);
    pthread_mutex_unlock(&p->lock);
    if (p->packer_runs) pthread_join(p->packer, NULL);
    page_server_stop(p->server);
    if (p->packed) release_bytes(p->packed + 1);
    pthread_cond_destroy(&p->copied);
    pthread_mutex_destroy(&p->lock);
    scene_close(&p->scene);
    run_record_close(&p->record);
    free(p->html);
    free(p);
}
