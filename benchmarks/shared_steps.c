// SPDX-License-Identifier: MIT
// The time of a step of training of a scene that several GPUs share: the gradient of a batch of views, and Adam. The
// scene is random and the same for any number of ranks: a ball of Gaussians, as large as the distance to the next.
// --plain: without ranks, view by view, as one GPU trains. --check: a sum over the bits of the gradients, which is the
// same for any number of ranks with --reduce fixed.
#include "cli/command_line.h"
#include "device.h"
#include "device_buffer.h"
#include "files/json_writer.h"
#include "cli/options.h"
#include "random.h"
#include "sharded.h"
#include "frames/camera.h"
#include "frames/device_gaussians.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SH_DEGREE = 3, ALIGNED = 4 }; // Gaussians of a rank: a multiple of ALIGNED
static const char *const reductions[] = {"tree", "fixed", NULL};

typedef struct step_options {
    int64_t ranks, gaussians, views, width, height, steps;
    bool threads, plain, check, timed;
    int reduce;
    const char *nccl, *output;
} step_options;

typedef struct step_bench {
    const step_options *options;
    ranks *group; // NULL: --plain
    gs_gaussians gaussians, gradients, first_moment, second_moment;
    gs_camera cameras[GS_MAX_VIEWS];
    uint8_t *picture; // of all views
    device_buffer workspace, block, d_color;
    double *loss;
    distwar_policy policy;
    int64_t step;
} step_bench;

typedef struct step_result {
    const step_options *options;
    double ms;             // a step, of the slowest rank
    double memory_gb;      // that rank 0 uses
    int64_t check;         // sum over the bits of the gradients
    sharded_report report; // of rank 0
} step_result;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void require_gs(gs_status status, const char *attempted) {
    if (status == GS_OK) return;
    fprintf(stderr, "shared_steps: %s: %s\n", attempted, gs_last_error());
    exit(EXIT_FAILURE);
}
#define REQUIRE_GS(call) require_gs((call), #call)

static void *require_memory(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "shared_steps: no memory\n");
    exit(EXIT_FAILURE);
}

// ---- the scene ----

enum { PATTERN = 1 << 16, ROW = 3 * (SH_DEGREE + 1) * (SH_DEGREE + 1) };

// Scales, rotations, opacities and colours: those of PATTERN Gaussians, over and over, so that a large scene is made in
// seconds.
static gs_gaussians make_pattern(const step_options *o) {
    const gs_gaussians out = device_gaussians_open(PATTERN, SH_DEGREE);
    float *const values = require_memory(malloc(PATTERN * (8 + ROW) * sizeof(float)));
    float *const scale = values, *const quaternion = scale + 3 * PATTERN,
                 *const opacity = quaternion + 4 * PATTERN, *const sh = opacity + PATTERN;
    const float size = logf(2.0f / cbrtf((float)o->gaussians));
    for (int64_t i = 0; i < PATTERN; i++) {
        random_stream random = random_at(1, 1, 0, (uint64_t)i);
        for (int k = 0; k < 3; k++) scale[3 * i + k] = size + 0.5f * (float)random_normal(&random);
        for (int k = 0; k < 4; k++) quaternion[4 * i + k] = (float)random_normal(&random);
        opacity[i] = (float)random_normal(&random) - 1;
        for (int k = 0; k < ROW; k++)
            sh[ROW * i + k] = (k < 3 ? 1 : 0.1f) * (float)(random_unit(&random) - 0.5);
    }
    device_upload(out.log_scale, scale, 3 * PATTERN * sizeof(float));
    device_upload(out.quaternion, quaternion, 4 * PATTERN * sizeof(float));
    device_upload(out.opacity_logit, opacity, PATTERN * sizeof(float));
    device_upload(out.sh, sh, ROW * PATTERN * sizeof(float));
    free(values);
    return out;
}

// PATTERN points, uniform in a ball.
static float *make_ball(void) {
    float *const out = require_memory(malloc(3 * PATTERN * sizeof *out));
    for (int64_t i = 0; i < PATTERN; i++) {
        random_stream random = random_at(1, 0, 0, (uint64_t)i);
        double direction[3], length = 0;
        for (int k = 0; k < 3; k++)
            direction[k] = random_normal(&random), length += direction[k] * direction[k];
        const double radius = 3 * cbrt(random_unit(&random)) / sqrt(length);
        for (int k = 0; k < 3; k++) out[3 * i + k] = (float)(direction[k] * radius);
    }
    return out;
}

// A random rotation for each repetition of the pattern.
static void make_turn(int64_t repetition, double out[3][3]) {
    random_stream random = random_at(1, 2, 0, (uint64_t)repetition);
    double q[4], length = 0;
    for (int k = 0; k < 4; k++) q[k] = random_normal(&random), length += q[k] * q[k];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int k = 3 - i - j; // the third axis, if i and j differ
            const double sign = (j - i + 3) % 3 == 1 ? -1 : 1;
            out[i][j] = i == j ? (2 * (q[0] * q[0] + q[i + 1] * q[i + 1]) / length - 1)
                               : 2 * (q[i + 1] * q[j + 1] + sign * q[0] * q[k + 1]) / length;
        }
}

static void copy_rows(float *to, int64_t at, const float *from, int64_t from_at, int64_t rows, int width) {
    DEVICE_CHECK(cudaMemcpy(to + at * width, from + from_at * width, (size_t)(rows * width) * sizeof *to,
                            cudaMemcpyDeviceToDevice));
}

// Gaussians first .. first + count - 1 of the whole.
static gs_gaussians make_gaussians(const step_options *o, int64_t first, int64_t count) {
    const gs_gaussians out = device_gaussians_open(count, SH_DEGREE);
    gs_gaussians pattern = make_pattern(o);
    float *const ball = make_ball(), *const mean = require_memory(malloc(3 * PATTERN * sizeof(float)));
    for (int64_t at = 0, n; at < count; at += n) {
        const int64_t from = (first + at) % PATTERN;
        n = count - at < PATTERN - from ? count - at : PATTERN - from;
        double turn[3][3];
        make_turn((first + at) / PATTERN, turn);
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 3; k++) {
                const float *const point = ball + 3 * (from + i);
                mean[3 * i + k] =
                    (float)(turn[k][0] * point[0] + turn[k][1] * point[1] + turn[k][2] * point[2]);
            }
        device_upload(out.mean + 3 * at, mean, 3 * (size_t)n * sizeof(float));
        copy_rows(out.log_scale, at, pattern.log_scale, from, n, 3);
        copy_rows(out.quaternion, at, pattern.quaternion, from, n, 4);
        copy_rows(out.opacity_logit, at, pattern.opacity_logit, from, n, 1);
        copy_rows(out.sh, at, pattern.sh, from, n, ROW);
    }
    free(mean);
    free(ball);
    device_gaussians_close(&pattern);
    return out;
}

static void open_bench(step_bench *b, const step_options *o, int64_t first, int64_t count) {
    b->options = o;
    b->policy.strategy = o->reduce == 0 ? DISTWAR_TREE : DISTWAR_FIXED;
    b->gaussians = make_gaussians(o, first, count);
    b->gradients = device_gaussians_open(count, SH_DEGREE);
    b->first_moment = device_gaussians_open(count, SH_DEGREE);
    b->second_moment = device_gaussians_open(count, SH_DEGREE);
    const double target[3] = {0, 0, 0}, up[3] = {0, 1, 0};
    for (int64_t v = 0; v < o->views; v++) {
        const double angle = 2.4 * (double)v, eye[3] = {7 * cos(angle), 1.5, 7 * sin(angle)};
        b->cameras[v] = camera_with_view_angle((int)o->width, (int)o->height, 0.8);
        camera_look_at(&b->cameras[v], eye, target, up);
    }
    const size_t bytes = (size_t)(GS_CHANNELS * o->width * o->height);
    uint8_t *const picture = require_memory(malloc(bytes));
    random_stream random = {2};
    for (size_t i = 0; i < bytes; i++) picture[i] = (uint8_t)(random_bits(&random) >> 57);
    b->picture = device_allocate(bytes);
    device_upload(b->picture, picture, bytes);
    free(picture);
    b->loss = device_allocate(3 * sizeof(double));
}

static gs_status queue_loss(step_bench *b, const gs_rows *rows, const float *color, float *d_color,
                            gs_stream stream) {
    const step_options *const o = b->options;
    const gs_comparison images = {(int32_t)o->width, (int32_t)o->height, color, b->picture, NULL};
    size_t bytes = 0;
    REQUIRE_GS(gs_loss_bytes(images.width, images.height, &bytes));
    void *const workspace = device_buffer_reserve(&b->workspace, bytes);
    return rows ? gs_share_loss(&images, *rows, workspace, bytes, b->loss, d_color, stream)
                : gs_loss(&images, workspace, bytes, b->loss, d_color, stream);
}

static bool loss_of_rank(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    return queue_loss(context, &image->rows, image->color, image->d_color, stream) == GS_OK ||
           ranks_fail(group, "%s", gs_last_error());
}

static void adam(step_bench *b, gs_stream stream) {
    const gs_adam_rates rates = {1e-5f, 1e-3f, 1e-3f, 1e-2f,
                                 1e-3f, 1e-4f, 0}; // the scene stays about as it is
    REQUIRE_GS(gs_adam(&b->gaussians, &b->gradients, &b->first_moment, &b->second_moment, &rates, ++b->step,
                       stream));
}

// ---- a step ----

static bool shared_step(step_bench *b, sharded *s, gs_stream stream) {
    const step_options *const o = b->options;
    int32_t pictures[GS_MAX_VIEWS];
    for (int32_t v = 0; v < o->views; v++) pictures[v] = v;
    const sharded_batch batch = {.gaussians = b->gaussians,
                                 .sh_degree_used = SH_DEGREE,
                                 .views = (int32_t)o->views,
                                 .cameras = b->cameras,
                                 .pictures = pictures,
                                 .policy = b->policy,
                                 .loss = loss_of_rank,
                                 .context = b,
                                 .timed = o->timed};
    const sharded_gradient gradient = {.gaussians = b->gradients};
    if (!sharded_backward(s, &batch, &gradient, stream)) return false;
    adam(b, stream);
    return true;
}

// View by view, each with a step of its own: what one GPU does now.
static void plain_step(step_bench *b, gs_stream stream) {
    const step_options *const o = b->options;
    static int64_t pair_capacity; // as the views before have needed
    const gs_view_parts parts = {.image = 1, .moments = 1, .strategy = b->policy.strategy};
    float *const d_color =
        device_buffer_reserve(&b->d_color, GS_CHANNELS * (size_t)(o->width * o->height) * sizeof(float));
    for (int64_t v = 0; v < o->views; v++) {
        gs_view view = {.gaussians = b->gaussians, .camera = b->cameras[v], .sh_degree_used = SH_DEGREE};
        gs_gradient gradient = {.color = d_color, .gaussians = b->gradients};
        for (gs_status status = GS_PAIRS_DO_NOT_FIT; status == GS_PAIRS_DO_NOT_FIT;) {
            size_t bytes = 0;
            view.pair_capacity = pair_capacity;
            REQUIRE_GS(gs_view_bytes(&view, &parts, &bytes));
            REQUIRE_GS(
                gs_view_place(&view, &gradient, &parts, device_buffer_reserve(&b->block, bytes), bytes));
            status = gs_forward(&view, stream);
            if (status == GS_PAIRS_DO_NOT_FIT)
                pair_capacity = view.pairs_needed + view.pairs_needed / 4;
            else
                REQUIRE_GS(status);
        }
        REQUIRE_GS(queue_loss(b, NULL, view.image.color, d_color, stream));
        REQUIRE_GS(gs_backward(&view, &gradient, b->policy, stream));
        adam(b, stream);
    }
}

// ---- results ----

// A sum of a mixture of each value's bits and its place in the whole: the same however the values are shared out.
static int64_t sum_of_bits(const step_bench *b, int64_t first) {
    const float *const arrays[] = {b->gradients.mean, b->gradients.log_scale, b->gradients.quaternion,
                                   b->gradients.opacity_logit, b->gradients.sh};
    const int widths[] = {3, 3, 4, 1, ROW};
    uint64_t sum = 0;
    for (int a = 0; a < 5; a++) {
        const size_t count = (size_t)(b->gradients.count * widths[a]);
        uint32_t *const bits = require_memory(malloc(count * sizeof *bits + 1));
        device_download(bits, arrays[a], count * sizeof *bits);
        for (size_t i = 0; i < count; i++) {
            random_stream mix = {((uint64_t)(first * widths[a]) + i) * 8 + (uint64_t)a};
            mix.state = random_bits(&mix) ^ bits[i];
            sum += random_bits(&mix);
        }
        free(bits);
    }
    return (int64_t)sum;
}

static void describe(json_writer *json, const void *subject) {
    static const char *const stages[] = {"project",  "exchange", "render", "pixels",
                                         "backward", "return",   "home"};
    const step_result *const r = subject;
    const step_options *const o = r->options;
    json_begin(json, NULL, '{');
    json_put_text(json, "device", device_name());
    json_put_text(json, "kind", o->plain ? "plain" : o->threads ? "threads" : "processes");
    json_put_text(json, "reduce", reductions[o->reduce]);
    json_put_integer(json, "ranks", o->ranks);
    json_put_integer(json, "gaussians", o->gaussians);
    json_put_integer(json, "views", o->views);
    json_put_integer(json, "width", o->width);
    json_put_integer(json, "height", o->height);
    json_put_number(json, "step_ms", r->ms);
    json_put_number(json, "views_a_second", 1e3 * (double)o->views / r->ms);
    json_put_number(json, "memory_gb", r->memory_gb);
    if (o->check) {
        char text[32];
        snprintf(text, sizeof text, "%016llx", (unsigned long long)r->check);
        json_put_text(json, "gradient_bits", text);
    }
    if (!o->plain) {
        json_put_integer(json, "splats_sent", r->report.splats_sent);
        json_put_integer(json, "splats_received", r->report.splats_received);
        json_put_integer(json, "bytes_sent", r->report.bytes_sent);
        json_put_integer(json, "pairs", r->report.pairs);
        json_put_integer(json, "rows", r->report.rows);
    }
    for (int k = 0; o->timed && !o->plain && k < SHARDED_STAGES; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s_ms", stages[k]);
        json_put_number(json, name, r->report.ms[k]);
    }
    json_end(json, '}');
}

static double memory_used(void) {
    size_t free_bytes = 0, all = 0;
    DEVICE_CHECK(cudaMemGetInfo(&free_bytes, &all));
    return 1e-9 * (double)(all - free_bytes);
}

static bool save(const step_result *found, fault *why) {
    return json_save(found->options->output, describe, found, why);
}

static int run_plain(const step_options *o) {
    step_bench b = {0};
    step_result found = {.options = o};
    open_bench(&b, o, 0, o->gaussians);
    for (int k = 0; k < 2; k++) plain_step(&b, NULL);
    DEVICE_CHECK(cudaDeviceSynchronize());
    const double begin = now_ms();
    for (int64_t k = 0; k < o->steps; k++) plain_step(&b, NULL);
    DEVICE_CHECK(cudaDeviceSynchronize());
    found.ms = (now_ms() - begin) / (double)o->steps;
    found.memory_gb = memory_used();
    if (o->check) found.check = sum_of_bits(&b, 0);
    fault why;
    return save(&found, &why) ? EXIT_SUCCESS : report_failure("shared_steps", &why);
}

// What the ranks find together: the slowest time, the sum of the checks.
static bool combine(ranks *group, step_result *found, gs_stream stream) {
    double *const ms = device_allocate(sizeof found->ms);
    int64_t *const check = device_allocate(sizeof found->check);
    device_upload(ms, &found->ms, sizeof found->ms);
    device_upload(check, &found->check, sizeof found->check);
    const ranks_reduction slowest = {ms, 1, RANKS_DOUBLE, RANKS_MAX_OF},
                          sum = {check, 1, RANKS_INT64, RANKS_SUM};
    const bool good = ranks_all_reduce(group, &slowest, stream) && ranks_all_reduce(group, &sum, stream) &&
                      ranks_wait(group, stream);
    if (good) device_download(&found->ms, ms, sizeof found->ms);
    if (good) device_download(&found->check, check, sizeof found->check);
    device_free(ms);
    device_free(check);
    return good;
}

static bool run_rank(ranks *group, void *context) {
    const step_options *const o = context;
    const int64_t own = ranks_own(group), each = o->gaussians / o->ranks / ALIGNED * ALIGNED,
                  first = own * each;
    step_bench b = {.group = group};
    step_result found = {.options = o};
    gs_stream stream = NULL;
    DEVICE_CHECK(cudaStreamCreate(&stream));
    open_bench(&b, o, first, own + 1 < o->ranks ? each : o->gaussians - first);
    sharded *const s = sharded_open(group);
    bool good = s != NULL;
    for (int k = 0; k < 2 && good; k++) good = shared_step(&b, s, stream);
    good = good && ranks_barrier(group, stream);
    const double begin = now_ms();
    for (int64_t k = 0; k < o->steps && good; k++) good = shared_step(&b, s, stream);
    good = good && ranks_wait(group, stream);
    if (!good) return false;
    found.ms = (now_ms() - begin) / (double)o->steps;
    found.memory_gb = memory_used();
    if (o->check) found.check = sum_of_bits(&b, first);
    found.report = sharded_last(s);
    if (!combine(group, &found, stream)) return false;
    fault why;
    if (own == 0 && !save(&found, &why)) return ranks_fail(group, "%s", why.text);
    sharded_close(s);
    return true;
}

int main(int argc, char **argv) {
    step_options o = {.ranks = 1,
                      .gaussians = 1000000,
                      .views = 1,
                      .width = 1920,
                      .height = 1080,
                      .steps = 20,
                      .output = "-"};
    const option_spec options[] = {
        OPTION("ranks", &o.ranks, .minimum = 1, .maximum = RANKS_MAX, .help = "GPUs, or threads"),
        OPTION("threads", &o.threads, .help = "threads of one process on one GPU, without NCCL"),
        OPTION("plain", &o.plain, .help = "without ranks"),
        OPTION("gaussians", &o.gaussians, .minimum = 1000, .maximum = 1e9, .help = "of all ranks"),
        OPTION("views", &o.views, .minimum = 1, .maximum = GS_MAX_VIEWS, .help = "of a step"),
        OPTION("width", &o.width, .minimum = 16, .maximum = GS_MAX_SIZE, .help = "pixels"),
        OPTION("height", &o.height, .minimum = 16, .maximum = GS_MAX_SIZE, .help = "pixels"),
        OPTION("steps", &o.steps, .minimum = 1, .maximum = 10000, .help = "that are measured"),
        OPTION("reduce", &o.reduce, .choices = reductions, .help = "how moments are summed"),
        OPTION("check", &o.check, .help = "add the sum of the gradients' bits"),
        OPTION("timed", &o.timed, .help = "add the time of each stage, which slows the step"),
        OPTION("nccl", &o.nccl, .help = "path of libnccl.so.2"),
        OUTPUT_OPTION(&o.output, .help = "JSON"),
        OPTIONS_END};
    const command_spec command = {.name = "shared_steps",
                                  .arguments = "[options]",
                                  .summary = "Measures training steps of a scene that several GPUs share.",
                                  .options = options};
    int exit_code;
    if (!read_command_line(&command, argc, argv, NULL, &exit_code)) return exit_code;
    if (o.plain) return run_plain(&o);
    const ranks_plan plan = {
        .count = (int)o.ranks, .kind = o.threads ? RANKS_THREADS : RANKS_PROCESSES, .nccl = o.nccl};
    fault why;
    return ranks_run(&plan, run_rank, &o, &why) ? EXIT_SUCCESS : report_failure("shared_steps", &why);
}
