// SPDX-License-Identifier: MIT
// How fast ranks exchange data: all-to-all, all-reduce, exchange of sizes and barrier of examples/gaussians/ranks.
// On GPUs that is NCCL's own rate: a process a GPU. All-to-all: bytes that a rank sends to the others, over the time.
// All-reduce: 2 (N - 1) / N times its bytes, over the time (what a ring sends). Times are the slowest rank's.
#include "cli/command_line.h"
#include "device.h"
#include "files/json_writer.h"
#include "cli/options.h"
#include "ranks.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include <time.h>

enum { SIZES = 8 };

typedef struct exchange_options {
    int64_t ranks, most_bytes, repeat;
    bool threads;
    const char *nccl, *output;
} exchange_options;

typedef struct rates {
    int ranks;
    const exchange_options *options;
    int64_t bytes[SIZES];
    double all_to_all_ms[SIZES], all_reduce_ms[SIZES];
    int sizes;
    double exchange_sizes_ms, barrier_ms;
} rates;

typedef struct bench {
    ranks *group;
    cudaStream_t stream;
    char *send, *receive;
    double *slowest; // device
} bench;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

// Replaces *value by the largest of all ranks.
static bool take_slowest(const bench *b, double *value) {
    device_upload(b->slowest, value, sizeof *value);
    const ranks_reduction largest = {b->slowest, 1, RANKS_DOUBLE, RANKS_MAX_OF};
    if (!ranks_all_reduce(b->group, &largest, b->stream) || !ranks_wait(b->group, b->stream)) return false;
    device_download(value, b->slowest, sizeof *value);
    return true;
}

typedef bool (*operation)(const bench *b, int64_t bytes);

static bool all_to_all(const bench *b, int64_t bytes) {
    int64_t begin[RANKS_MAX], each[RANKS_MAX];
    for (int r = 0; r < ranks_count(b->group); r++) begin[r] = r * bytes, each[r] = bytes;
    const ranks_exchange exchange = {b->send, begin, each, b->receive, begin, each};
    return ranks_all_to_all(b->group, &exchange, b->stream);
}

static bool all_reduce(const bench *b, int64_t bytes) {
    const ranks_reduction sum = {b->receive, bytes / (int64_t)sizeof(int64_t), RANKS_INT64, RANKS_SUM};
    return ranks_all_reduce(b->group, &sum, b->stream);
}

static bool exchange_sizes(const bench *b, int64_t bytes) {
    (void)bytes;
    int64_t sizes[RANKS_MAX] = {0}, others[RANKS_MAX];
    return ranks_exchange_sizes(b->group, 1, sizes, others, b->stream);
}

static bool barrier(const bench *b, int64_t bytes) {
    (void)bytes;
    return ranks_barrier(b->group, b->stream);
}

// Milliseconds of one call, of `calls` in a row after some that are not counted.
static bool measure(const bench *b, operation call, int64_t bytes, int64_t calls, double *ms) {
    for (int k = 0; k < 2; k++)
        if (!call(b, bytes)) return false;
    if (!ranks_barrier(b->group, b->stream)) return false;
    const double begin = now_ms();
    for (int64_t k = 0; k < calls; k++)
        if (!call(b, bytes)) return false;
    if (!ranks_wait(b->group, b->stream)) return false;
    *ms = (now_ms() - begin) / (double)calls;
    return take_slowest(b, ms);
}

static void describe(json_writer *json, const void *subject) {
    const rates *const r = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "device", device_name());
    json_put_integer(json, "ranks", r->ranks);
    json_put_text(json, "kind", r->options->threads ? "threads" : "processes");
    json_put_number(json, "exchange_sizes_ms", r->exchange_sizes_ms);
    json_put_number(json, "barrier_ms", r->barrier_ms);
    json_begin(json, "sizes", '[');
    for (int k = 0; k < r->sizes; k++) {
        const double bytes = (double)r->bytes[k], others = r->ranks - 1;
        json_begin(json, NULL, '{');
        json_put_integer(json, "bytes", r->bytes[k]);
        json_put_number(json, "all_to_all_ms", r->all_to_all_ms[k]);
        json_put_number(json, "all_to_all_gb_s", bytes * others / r->all_to_all_ms[k] * 1e-6);
        json_put_number(json, "all_reduce_ms", r->all_reduce_ms[k]);
        json_put_number(json, "all_reduce_gb_s", 2 * bytes * others / r->ranks / r->all_reduce_ms[k] * 1e-6);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

// That an all-to-all brings each rank's bytes to their place.
static bool check(const bench *b) {
    const int count = ranks_count(b->group), own = ranks_own(b->group);
    char sent[RANKS_MAX], got[RANKS_MAX];
    for (int r = 0; r < count; r++) sent[r] = (char)(16 * own + r);
    device_upload(b->send, sent, (size_t)count);
    if (!all_to_all(b, 1) || !ranks_wait(b->group, b->stream)) return false;
    device_download(got, b->receive, (size_t)count);
    for (int r = 0; r < count; r++)
        if (got[r] != (char)(16 * r + own))
            return ranks_fail(b->group, "has received something else than rank %d has sent", r);
    return true;
}

static bool run(ranks *group, void *context) {
    const exchange_options *const o = context;
    const size_t room = (size_t)(ranks_count(group) * o->most_bytes);
    bench b = {group, NULL, device_allocate(room), device_allocate(room), device_allocate(sizeof(double))};
    rates found = {.ranks = ranks_count(group), .options = o};
    device_clear(b.send, room);
    device_clear(b.receive, room); // sums of zeros
    DEVICE_CHECK(cudaStreamCreate(&b.stream));
    bool good = check(&b) && measure(&b, exchange_sizes, 0, o->repeat, &found.exchange_sizes_ms) &&
                measure(&b, barrier, 0, o->repeat, &found.barrier_ms);
    for (int64_t bytes = 1 << 12; good && bytes <= o->most_bytes && found.sizes < SIZES; bytes *= 8) {
        const int k = found.sizes++;
        found.bytes[k] = bytes;
        good = measure(&b, all_to_all, bytes, o->repeat, &found.all_to_all_ms[k]) &&
               measure(&b, all_reduce, bytes, o->repeat, &found.all_reduce_ms[k]);
    }
    fault why;
    if (good && ranks_own(group) == 0 && !json_save(o->output, describe, &found, &why))
        good = ranks_fail(group, "%s", why.text);
    device_free(b.send);
    device_free(b.receive);
    device_free(b.slowest);
    DEVICE_CHECK(cudaStreamDestroy(b.stream));
    return good;
}

int main(int argc, char **argv) {
    exchange_options o = {.ranks = 2, .most_bytes = 1 << 27, .repeat = 20, .output = "-"};
    const option_spec options[] = {
        OPTION("ranks", &o.ranks, .minimum = 1, .maximum = RANKS_MAX, .help = "GPUs, or threads"),
        OPTION("threads", &o.threads, .help = "threads of one process on one GPU, without NCCL"),
        OPTION("nccl", &o.nccl, .help = "path of libnccl.so.2"),
        OPTION("most-bytes", &o.most_bytes, .minimum = 1 << 12, .maximum = 1 << 30,
               .help = "from rank to rank"),
        OPTION("repeat", &o.repeat, .minimum = 1, .maximum = 1000, .help = "calls of each kind"),
        OUTPUT_OPTION(&o.output, .help = "JSON"),
        OPTIONS_END};
    const command_spec command = {.name = "exchange",
                                  .arguments = "[options]",
                                  .summary = "Measures how fast ranks exchange data.",
                                  .options = options};
    int exit_code;
    if (!read_command_line(&command, argc, argv, NULL, &exit_code)) return exit_code;
    const ranks_plan plan = {
        .count = (int)o.ranks, .kind = o.threads ? RANKS_THREADS : RANKS_PROCESSES, .nccl = o.nccl};
    fault why;
    return ranks_run(&plan, run, &o, &why) ? EXIT_SUCCESS : report_failure("exchange", &why);
}
