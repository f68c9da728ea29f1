// SPDX-License-Identifier: MIT
#include "record/run_log.h"
#include "device.h"
#include "files/growing.h"
#include "record/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

// ---- the record

static const char *const event_names[] = {"step", "evaluation", "validation"};

bool run_record_add(run_record *record, const run_point *point, fault *why) {
    return append(&record->points, &record->count, &record->room, point, sizeof *point) ||
           fail(why, "no memory for a record of %zu points", record->count);
}

const run_point *run_record_last(const run_record *record, run_event event) {
    for (size_t i = record->count; i > 0; i--)
        if (record->points[i - 1].event == event) return &record->points[i - 1];
    return NULL;
}

void run_record_close(run_record *record) {
    free(record->points);
    *record = (run_record){0};
}

// ---- the log

bool run_log_open(run_log *log, const run_log_options *options, fault *why) {
    *log = (run_log){.options = *options};
    if (!options->path) return true;
    // Without O_NONBLOCK, opening a pipe would wait for a reader.
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (options->append ? O_APPEND : O_TRUNC);
    const int file = open(options->path, flags, 0666);
    if (file >= 0 && fcntl(file, F_SETFL, flags & O_APPEND) == 0) log->stream = fdopen(file, "w");
    if (log->stream) {
        broken_pipes_begin();
        return true;
    }
    fail(why, "%s: cannot write: %s", options->path, strerror(errno));
    if (file >= 0) close(file);
    return false;
}

bool run_log_begin_line(const run_log *log, const char *event, json_writer *json) {
    if (!log->stream || log->error != 0) return false;
    *json = (json_writer){.stream = log->stream, .first = true, .one_line = true};
    json_begin(json, NULL, '{');
    json_put_text(json, "event", event);
    return true;
}

// Flushes, so that readers see whole lines while training runs.
void run_log_end_line(run_log *log, json_writer *json) {
    json_end(json, '}');
    putc('\n', log->stream);
    if (fflush(log->stream) != 0 || ferror(log->stream)) log->error = errno;
}

void run_log_start(run_log *log, const training_state *state, const run_setting *more,
                   const option_spec *table) {
    log->last.iterations = state->place.views;
    log->last_gaussians = training_state_count(state);
    json_writer json;
    if (!run_log_begin_line(log, "start", &json)) return;
    json_put_text(&json, "dsplat", gs_version());
    json_put_text(&json, "backend", gs_backend());
    json_put_text(&json, "gpu", device_name());
    json_put_integer(&json, "iteration", state->place.views);
    json_put_integer(&json, "gaussians", training_state_count(state));
    json_begin(&json, "settings", '{');
    for (; more->name; more++)
        if (more->text)
            json_put_text(&json, more->name, more->text);
        else
            json_put_number(&json, more->name, more->number);
    for (; table->kind != OPTION_END; table++)
        if (table->kind == OPTION_INT)
            json_put_number(&json, table->name, (double)*(const int64_t *)table->value);
        else if (table->kind == OPTION_REAL)
            json_put_number(&json, table->name, *(const double *)table->value);
        else if (option_text(table)) // a text option that was not given is left out
            json_put_text(&json, table->name, option_text(table));
    json_end(&json, '}');
    run_log_end_line(log, &json);
}

int64_t run_log_interval(const run_log *log) {
    return common_divisor(common_divisor(log->options.every, log->options.evaluate_every),
                          log->options.validate_every);
}

static void write_point(run_log *log, const run_point *point) {
    json_writer json;
    if (!run_log_begin_line(log, "step", &json)) return;
    json_put_integer(&json, "iteration", point->iteration);
    json_put_number(&json, "seconds", point->seconds);
    json_put_number(&json, "loss", point->loss);
    json_put_integer(&json, "gaussians", (int64_t)point->gaussians);
    json_put_number(&json, "iteration_ms", point->iteration_milliseconds);
    json_put_number(&json, "wait_ms", point->wait_milliseconds);
    if (point->measured) {
        json_begin(&json, "gpu_ms", '{');
        for (int i = 0; i < STAGES; i++) json_put_number(&json, stage_name((stage)i), point->milliseconds[i]);
        json_end(&json, '}');
    }
    json_put_text(&json, "reduce", distwar_strategy_name(point->policy.strategy));
    json_put_integer(&json, "threshold", point->policy.balance_threshold);
    run_log_end_line(log, &json);
}

static bool add_point(run_log *log, const training_state *state, const training_report *report, fault *why) {
    const training_report *const last = &log->last;
    const int64_t steps = report->iterations - last->iterations, count = training_state_count(state),
                  timed = report->clock.steps - last->clock.steps;
    json_writer json;
    run_point point = {.event = RUN_STEP,
                       .iteration = report->iterations,
                       .gaussians = (double)count,
                       .seconds = report->seconds,
                       .measured = timed > 0,
                       .policy = report->strategy.policy};
    if (steps == 0) return true;
    for (int64_t i = last->iterations + 1; i <= report->iterations; i++)
        point.loss += report->losses[i - report->first_iteration] / (double)steps;
    point.iteration_milliseconds = 1000 * (report->seconds - last->seconds) / (double)steps;
    point.wait_milliseconds = 1000 * (report->waited - last->waited) / (double)steps;
    for (int i = 0; i < STAGES && point.measured; i++)
        point.milliseconds[i] = (report->clock.milliseconds[i] - last->clock.milliseconds[i]) / (double)timed;
    if (count != log->last_gaussians && run_log_begin_line(log, "density", &json)) {
        json_put_integer(&json, "iteration", point.iteration);
        json_put_integer(&json, "gaussians_before", log->last_gaussians);
        json_put_integer(&json, "gaussians", count);
        run_log_end_line(log, &json);
    }
    write_point(log, &point);
    log->last = *report;
    log->last.losses = NULL;
    log->last_gaussians = count;
    return run_record_add(&log->record, &point, why);
}

// An evaluation or a validation, of so many views.
static bool add_quality(run_log *log, const run_point *p, size_t views, fault *why) {
    json_writer json;
    if (run_log_begin_line(log, event_names[p->event], &json)) {
        json_put_integer(&json, "iteration", p->iteration);
        json_put_number(&json, "seconds", p->seconds);
        json_put_integer(&json, "views", (int64_t)views);
        json_put_number(&json, "psnr", p->mean.psnr);
        json_put_number(&json, "ssim", p->mean.ssim);
        if (p->event == RUN_VALIDATION) {
            json_put_number(&json, "training_psnr", p->training.psnr);
            json_put_number(&json, "training_ssim", p->training.ssim);
        }
        run_log_end_line(log, &json);
    }
    return run_record_add(&log->record, p, why);
}

bool run_log_evaluation(run_log *log, const run_point *evaluation, fault *why) {
    run_point p = *evaluation;
    p.event = RUN_EVALUATION;
    return add_quality(log, &p, log->options.held_out, why);
}

static bool evaluate(run_log *log, const training_state *state, const training_report *report, fault *why) {
    const run_log_options *const o = &log->options;
    run_point p = {.iteration = report->iterations, .seconds = report->seconds};
    return quality_measure(state, &o->shown, NULL, o->first, o->held_out, &p.mean, NULL, why) &&
           run_log_evaluation(log, &p, why);
}

static bool validate(run_log *log, const training_state *state, const training_report *report, fault *why) {
    const run_log_options *const o = &log->options;
    const validation_views *const v = o->validation;
    run_point p = {.event = RUN_VALIDATION, .iteration = report->iterations, .seconds = report->seconds};
    return quality_measure(state, &o->shown, v->views, 0, v->count, &p.mean, NULL, why) &&
           quality_measure(state, &o->shown, v->trained, 0, v->count, &p.training, NULL, why) &&
           add_quality(log, &p, v->count, why);
}

bool run_log_observe(run_log *log, const training_state *state, const training_report *report, fault *why) {
    const int64_t step = report->iterations, views = report->step_views, often = log->options.evaluate_every;
    if (training_passed(step, views, log->options.every) && !add_point(log, state, report, why)) return false;
    if (report->validating && training_passed(step, views, log->options.validate_every) &&
        !validate(log, state, report, why))
        return false;
    if (often == 0 || !training_passed(step, views, often) || log->options.held_out == 0) return true;
    return evaluate(log, state, report, why);
}

bool run_log_finish(run_log *log, const training_state *state, const training_report *report, fault *why) {
    const run_point *const last = run_record_last(&log->record, RUN_EVALUATION);
    const bool evaluated = !log->moved && last && last->iteration == report->iterations;
    if (!add_point(log, state, report, why)) return false;
    if (!evaluated && log->options.held_out > 0 && !evaluate(log, state, report, why)) return false;
    json_writer json;
    if (!run_log_begin_line(log, "end", &json)) return true;
    json_put_integer(&json, "iteration", report->iterations);
    json_put_number(&json, "seconds", report->seconds);
    json_put_integer(&json, "gaussians", training_state_count(state));
    if (report->strategy.tuned) json_put_number(&json, "tuning_ms", report->strategy.by.cost);
    run_log_end_line(log, &json);
    return true;
}

static void put_difference(json_writer *json, const pose_difference *d) {
    json_put_number(json, "mean_degrees", d->mean_degrees);
    json_put_number(json, "largest_degrees", d->largest_degrees);
    json_put_number(json, "mean_extents", d->mean_distance);
    json_put_number(json, "largest_extents", d->largest_distance);
    json_end(json, '}');
}

void run_log_poses(run_log *log, int64_t iteration, const run_poses *poses) {
    json_writer json;
    if (!run_log_begin_line(log, "poses", &json)) return;
    json_put_integer(&json, "iteration", iteration);
    json_put_integer(&json, "views", (int64_t)poses->views);
    json_put_number(&json, "seconds", poses->seconds);
    json_begin(&json, "before", '{');
    put_difference(&json, &poses->before);
    json_begin(&json, "sizes", '[');
    for (int i = 0; i < poses->sizes; i++) {
        json_begin(&json, NULL, '{');
        json_put_integer(&json, "divided_by", 1 << poses->levels[i]);
        put_difference(&json, &poses->settled[i]);
    }
    json_end(&json, ']');
    json_begin(&json, "after", '{');
    put_difference(&json, &poses->after);
    run_log_end_line(log, &json);
}

void run_log_checkpoint(run_log *log, int64_t iteration, const char *file) {
    json_writer json;
    if (!run_log_begin_line(log, "checkpoint", &json)) return;
    json_put_integer(&json, "iteration", iteration);
    json_put_text(&json, "file", file);
    run_log_end_line(log, &json);
}

bool run_log_close(run_log *log, fault *why) {
    if (log->stream) {
        if (fclose(log->stream) != 0 && log->error == 0) log->error = errno;
        broken_pipes_end();
    }
    const bool whole = log->error == 0;
    if (!whole) fail(why, "%s: incomplete: %s", log->options.path, strerror(log->error));
    run_record_close(&log->record);
    *log = (run_log){0};
    return whole;
}
