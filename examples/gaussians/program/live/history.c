// SPDX-License-Identifier: MIT
#include "live/history.h"
#include "files/text_file.h"
#include "json_field.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool add_point(history *out, const history_point *point, fault *why) {
    // A run that was resumed repeats the steps since its checkpoint.
    while (out->count > 0 && out->points[out->count - 1].iteration > point->iteration) out->count--;
    if (out->count == out->room) {
        const size_t room = 2 * out->room + 64;
        history_point *points = realloc(out->points, room * sizeof *points);
        if (!points) return fail(why, "no memory for a history of %zu points", room);
        out->points = points;
        out->room = room;
    }
    out->points[out->count++] = *point;
    return true;
}

static bool add_line(history *out, const text_file *text, fault *why) {
    json_error_t error;
    json_t *line = json_loads(text->line, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!line || !json_is_object(line)) {
        json_decref(line);
        return fail(why, "%s: line %" PRIu64 ": %s", text->file.path, text->number,
                    line ? "not an object" : error.text);
    }
    const json_place place = {.path = text->file.path, .object = line};
    const char *event = "";
    history_point p = {NAN, NAN, NAN, NAN};
    bool done = json_get_text(&place, "event", &event, why);
    const bool step = strcmp(event, "step") == 0, evaluation = strcmp(event, "evaluation") == 0;
    if (done && (step || evaluation)) {
        done = json_get_real(&place, "iteration", &p.iteration, why) &&
               (!step || json_is_null(json_object_get(line, "loss")) ||
                json_get_real(&place, "loss", &p.loss, why)) &&
               (!step || json_get_real(&place, "gaussians", &p.gaussians, why)) &&
               (!evaluation || json_is_null(json_object_get(line, "psnr")) ||
                json_get_real(&place, "psnr", &p.psnr, why)) &&
               (isfinite(p.iteration) ||
                fail(why, "%s: line %" PRIu64 ": no iteration", text->file.path, text->number)) &&
               add_point(out, &p, why);
    }
    json_decref(line);
    return done;
}

bool history_read(history *out, const char *path, fault *why) {
    text_file text;
    if (!text_file_open(&text, path, why)) return false;
    bool done = true;
    while (done && (done = text_file_next(&text, why)) && text.line) done = add_line(out, &text, why);
    text_file_close(&text);
    return done;
}

void history_close(history *h) {
    free(h->points);
    *h = (history){0};
}
