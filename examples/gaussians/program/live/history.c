// SPDX-License-Identifier: MIT
#include "live/history.h"
#include "files/input_file.h"
#include "gpu/growing.h"
#include "json_field.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool history_add(history *out, const history_point *point, fault *why) {
    return append(&out->points, &out->count, &out->room, point, sizeof *point) ||
           fail(why, "no memory for a history of %zu points", out->count);
}

static history_point no_point(double iteration) {
    return (history_point){iteration, NAN, NAN, NAN, NAN, NAN, NAN};
}

static bool get_number(const json_place *place, const char *name, double *out, fault *why) {
    return json_is_null(json_object_get(place->object, name)) || json_get_real(place, name, out, why);
}

static bool add_line(history *out, const input_file *text, fault *why) {
    json_error_t error;
    json_t *line = json_loads(text->line, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!line || !json_is_object(line)) {
        json_decref(line);
        return fail(why, "%s: line %" PRIu64 ": %s", text->path, text->number,
                    line ? "not an object" : error.text);
    }
    const json_place place = {.path = text->path, .object = line};
    const char *event = "";
    history_point p = no_point(NAN);
    bool done = json_get_text(&place, "event", &event, why);
    const bool step = strcmp(event, "step") == 0, evaluation = strcmp(event, "evaluation") == 0,
               validation = strcmp(event, "validation") == 0;
    if (done && (step || evaluation || validation)) {
        done =
            json_get_real(&place, "iteration", &p.iteration, why) &&
            (!step ||
             (get_number(&place, "loss", &p.loss, why) &&
              json_get_real(&place, "gaussians", &p.gaussians, why) &&
              (!json_object_get(line, "step_ms") || get_number(&place, "step_ms", &p.milliseconds, why)))) &&
            (!evaluation || get_number(&place, "psnr", &p.psnr, why)) &&
            (!validation || (get_number(&place, "psnr", &p.validation, why) &&
                             get_number(&place, "training_psnr", &p.training, why))) &&
            (isfinite(p.iteration) ||
             fail(why, "%s: line %" PRIu64 ": no iteration", text->path, text->number));
        // A run that was resumed repeats the steps since its checkpoint.
        while (done && out->count > 0 && out->points[out->count - 1].iteration > p.iteration) out->count--;
        done = done && history_add(out, &p, why);
    }
    json_decref(line);
    return done;
}

bool history_read(history *out, const char *path, fault *why) {
    input_file text;
    if (!input_file_open(&text, path, why)) return false;
    bool done = true;
    while (done && (done = input_file_next_line(&text, why)) && text.line) done = add_line(out, &text, why);
    input_file_close(&text);
    return done;
}

bool history_of_run(history *out, const training_report *training, const run_record *record, fault *why) {
    enum { MOST = 400 };
    const int64_t count = training->iterations - training->first_iteration + 1, part = count / MOST + 1;
    bool done = true;
    for (int64_t i = 0; i < count && done; i += part) {
        const int64_t end = i + part < count ? i + part : count;
        history_point p = no_point((double)(training->first_iteration + end - 1));
        p.loss = 0;
        for (int64_t k = i; k < end; k++) p.loss += training->losses[k] / (double)(end - i);
        done = history_add(out, &p, why);
    }
    for (size_t i = 0; i < record->point_count && done; i++) {
        history_point p = no_point((double)record->points[i].iteration);
        p.gaussians = (double)record->points[i].gaussians;
        p.milliseconds = record->points[i].step_milliseconds;
        done = history_add(out, &p, why);
    }
    for (size_t i = 0; i < record->evaluation_count && done; i++) {
        history_point p = no_point((double)record->evaluations[i].iteration);
        p.psnr = record->evaluations[i].mean.psnr;
        done = history_add(out, &p, why);
    }
    for (size_t i = 0; i < record->validation_count && done; i++) {
        const run_validation *const v = &record->validations[i];
        history_point p = no_point((double)v->iteration);
        p.validation = v->aside.psnr, p.training = v->beside.psnr;
        done = history_add(out, &p, why);
    }
    return done;
}

void history_close(history *h) {
    free(h->points);
    *h = (history){0};
}
