// SPDX-License-Identifier: MIT
#include "live/page.h"
#include "device.h"
#include "files/json_writer.h"
#include "files/output_file.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, PHOTOGRAPH_QUALITY = 80, MOST_POINTS = 400 };

extern const char live_page_html[]; // live/page.html, ends with 0

const char *page_name_of(const char *path) {
    size_t at = strlen(path);
    while (at > 0 && path[at - 1] == '/') at--;
    while (at > 0 && path[at - 1] != '/') at--;
    return path + at;
}

// ---- parts of HTML

static void put_base64(FILE *page, const uint8_t *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        const uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)(i + 1 < count ? bytes[i + 1] : 0) << 8 |
                               (uint32_t)(i + 2 < count ? bytes[i + 2] : 0);
        putc(digits[group >> 18], page);
        putc(digits[group >> 12 & 63], page);
        putc(i + 1 < count ? digits[group >> 6 & 63] : '=', page);
        putc(i + 2 < count ? digits[group & 63] : '=', page);
    }
}

// A picture as a data URI; jpeg: not PNG. null: it has no pixels.
static bool put_picture(json_writer *json, const char *key, const image *picture, bool jpeg, fault *why) {
    uint8_t *bytes;
    size_t count, length;
    char *text = NULL;
    if (!picture->pixels) {
        json_put_text(json, key, NULL);
        return true;
    }
    if (!(jpeg ? image_encode_jpeg(picture, PHOTOGRAPH_QUALITY, &bytes, &count, why)
               : image_encode_png(picture, &bytes, &count, why)))
        return false;
    FILE *const stream = memory_stream_open(&text, &length);
    if (stream) {
        fputs(jpeg ? "data:image/jpeg;base64," : "data:image/png;base64,", stream);
        put_base64(stream, bytes, count);
    }
    const bool done =
        (stream && memory_stream_close(stream)) || fail(why, "no memory for a picture of %zu bytes", count);
    if (done) json_put_text(json, key, text);
    free(text);
    free(bytes);
    return done;
}

// ---- the facts: of the views

static bool describe_view(json_writer *json, const page_view *view, fault *why) {
    const gs_camera *const camera = &view->camera;
    json_begin(json, NULL, '{');
    json_put_text(json, "name", view->name);
    json_put_integer(json, "width", camera->width);
    json_put_integer(json, "height", camera->height);
    json_put_number(json, "fx", (double)camera->fx);
    json_put_number(json, "fy", (double)camera->fy);
    json_put_number(json, "cx", (double)camera->cx);
    json_put_number(json, "cy", (double)camera->cy);
    json_put_floats(json, "rotation", camera->rotation, 9);
    json_put_floats(json, "translation", camera->translation, 3);
    json_put_number(json, "near", (double)camera->near_plane);
    json_put_boolean(json, "held_out", view->held_out);
    json_put_integer(json, "photo_width", view->photograph.width * view->divisor);
    json_put_integer(json, "photo_height", view->photograph.height * view->divisor);
    const bool done = put_picture(json, "photo", &view->photograph, true, why);
    json_end(json, '}');
    return done;
}

// ---- of training: curves

typedef struct series {
    const char *name;
    run_event event;
    size_t at; // of the value, a double, in a point of that event
} series;

static const struct {
    const char *title;
    bool logarithmic;
    series series[3]; // unused ones have no name
} curves[] = {
    {"Loss in training", true, {{"loss", RUN_STEP, offsetof(run_point, loss)}}},
    {"PSNR, dB",
     false,
     {{"training", RUN_VALIDATION, offsetof(run_point, training.psnr)},
      {"validation", RUN_VALIDATION, offsetof(run_point, mean.psnr)},
      {"held out", RUN_EVALUATION, offsetof(run_point, mean.psnr)}}},
    {"Gaussians", false, {{"Gaussians", RUN_STEP, offsetof(run_point, gaussians)}}},
    {"Time of an iteration, ms", false, {{"time", RUN_STEP, offsetof(run_point, iteration_milliseconds)}}},
};

// NaN: the point has none.
static double value_of(const series *s, const run_point *point) {
    double value;
    memcpy(&value, (const char *)point + s->at, sizeof value);
    return point->event == s->event ? value : NAN;
}

static size_t points_of(const run_record *record, const series *s) {
    size_t count = 0;
    for (size_t i = 0; i < record->count; i++) count += isfinite(value_of(s, &record->points[i]));
    return count;
}

// Writes the points that have the value, at most about MOST_POINTS of them: of so many the last.
static void describe_series(json_writer *json, const run_record *record, const series *s) {
    const size_t count = points_of(record, s), every = (count + MOST_POINTS - 1) / MOST_POINTS;
    double x[MOST_POINTS + 1], y[MOST_POINTS + 1];
    size_t kept = 0, seen = 0;
    for (size_t i = 0; i < record->count; i++) {
        const double value = value_of(s, &record->points[i]);
        if (!isfinite(value) || (++seen % every != 0 && seen != count)) continue;
        x[kept] = (double)record->points[i].iteration;
        y[kept++] = value;
    }
    json_begin(json, NULL, '{');
    json_put_text(json, "name", s->name);
    json_put_numbers(json, "x", x, kept);
    json_put_numbers(json, "y", y, kept);
    json_end(json, '}');
}

static void describe_curves(json_writer *json, const run_record *record) {
    json_begin(json, "curves", '[');
    for (size_t c = 0; record && c < sizeof curves / sizeof *curves; c++) {
        bool begun = false;
        for (const series *s = curves[c].series; s < curves[c].series + 3 && s->name; s++) {
            if (points_of(record, s) < 2) continue;
            if (!begun) {
                json_begin(json, NULL, '{');
                json_put_text(json, "title", curves[c].title);
                json_put_boolean(json, "logarithmic", curves[c].logarithmic);
                json_begin(json, "series", '[');
                begun = true;
            }
            describe_series(json, record, s);
        }
        if (!begun) continue;
        json_end(json, ']');
        json_end(json, '}');
    }
    json_end(json, ']');
}

// ---- of a run

static bool describe_pictures(json_writer *json, const page_run *run, fault *why) {
    static const char *const kinds[] = {"rendered", "photograph", "error"};
    bool done = true;
    json_begin(json, "pictures", '[');
    for (size_t i = 0; i < run->shown && done; i++) {
        const page_picture *const p = &run->pictures[i];
        json_begin(json, NULL, '{');
        json_put_text(json, "name", p->name);
        json_put_integer(json, "width", p->width);
        json_put_integer(json, "height", p->height);
        json_put_number(json, "psnr", p->measured.psnr);
        json_put_number(json, "ssim", p->measured.ssim);
        for (int k = 0; k < 3 && done; k++) done = put_picture(json, kinds[k], &p->trio[k], false, why);
        json_end(json, '}');
    }
    json_end(json, ']');
    return done;
}

static bool describe_run(json_writer *json, const page_content *c, fault *why) {
    const page_run *const run = c->run;
    const training_report *const training = run->training;
    char about[160];
    snprintf(about, sizeof about, "trained on %s by dsplat %s (%s)", device_name(), gs_version(),
             gs_backend());
    json_begin(json, "run", '{');
    json_put_text(json, "about", about);
    json_put_boolean(json, "held_out", run->held_out);
    json_put_integer(json, "views", (int64_t)run->views);
    json_put_number(json, "psnr", run->mean.psnr);
    json_put_number(json, "ssim", run->mean.ssim);
    json_put_integer(json, "gaussians", run->gaussians);
    json_put_integer(json, "first_iteration", training->first_iteration);
    json_put_integer(json, "iterations", training->iterations);
    json_put_integer(json, "views_per_step", run->batch);
    json_put_number(json, "seconds", training->seconds);
    const bool done = describe_pictures(json, run, why);
    json_end(json, '}');
    return done;
}

// ---- of the scene

// The facts that change while a scene is trained.
static void describe_scene(json_writer *json, const page_content *c, const packed_scene *packed) {
    json_put_integer(json, "count", packed->count);
    json_put_integer(json, "total", c->total);
    json_put_integer(json, "degree", packed->sh_degree);
    json_put_integer(json, "whole_degree", packed->whole_degree);
    json_put_number(json, "step", packed->sh_degree ? packed->step : 0);
    json_put_boolean(json, "antialias", packed->antialias);
    describe_curves(json, c->record);
}

static bool describe(json_writer *json, const page_content *c, const packed_scene *packed, fault *why) {
    json_begin(json, NULL, '{');
    json_put_integer(json, "format", FORMAT);
    json_put_text(json, "title", c->title);
    json_put_boolean(json, "live", !c->scene);
    json_put_integer(json, "chunk", PACKED_CHUNK);
    json_put_floats(json, "background", c->background, GS_CHANNELS);
    json_put_numbers(json, "pivot", c->pivot, 3);
    json_put_numbers(json, "up", c->up, 3);
    json_begin(json, "views", '[');
    for (size_t i = 0; i < c->view_count; i++)
        if (!describe_view(json, &c->views[i], why)) return false;
    json_end(json, ']');
    if (c->scene) describe_scene(json, c, packed);
    const bool done = !c->run || describe_run(json, c, why);
    json_end(json, '}');
    return done;
}

// ---- the page

// In a <script> no text may end it or begin a comment: '<' is \u003c. In JSON it stands in strings alone.
static bool put_facts(FILE *page, const page_content *content, const packed_scene *packed, fault *why) {
    char *text = NULL;
    size_t length;
    FILE *stream = memory_stream_open(&text, &length);
    json_writer json = {.stream = stream, .first = true, .one_line = true};
    bool done = stream && describe(&json, content, packed, why);
    if (!stream || !memory_stream_close(stream))
        done = fail(why, "no memory for the page's facts: %s", strerror(errno));
    if (done) fputs("<script type=\"application/json\" id=\"facts\">", page);
    for (const char *c = text; done && *c; c++)
        if (*c == '<')
            fputs("\\u003c", page);
        else
            putc(*c, page);
    if (done) fputs("</script>\n", page);
    free(text);
    return done;
}

static void put_stream(FILE *page, const char *id, const packed_stream *stream) {
    fprintf(page, "<script type=\"text/plain\" id=\"%s\">", id);
    put_base64(page, stream->bytes, stream->count);
    fputs("</script>\n", page);
}

// The file with data in place of its mark.
static bool put_page(FILE *page, const page_content *content, const packed_scene *packed, fault *why) {
    static const char mark[] = "@DATA@";
    const char *const at = strstr(live_page_html, mark);
    fwrite(live_page_html, 1, (size_t)(at - live_page_html), page);
    if (!put_facts(page, content, packed, why)) return false;
    if (content->scene) {
        put_stream(page, "gaussians", &packed->gaussians);
        put_stream(page, "harmonics", &packed->harmonics);
    }
    fputs(at + strlen(mark), page);
    return true;
}

// Bytes that are left for the scene, before base64, beside everything else.
static size_t room_beside(const page_content *content, size_t rest) {
    const double larger = fmax(1, (double)content->scene->count / PAGE_GAUSSIANS);
    const double left = (PAGE_BYTES * larger - (double)rest - 1000) * 3 / 4;
    return left > 0 ? (size_t)left : 0;
}

static page_written written_of(const page_content *c, const packed_scene *packed, size_t bytes) {
    return (page_written){.gaussians = packed->count,
                          .total = c->total,
                          .sh_degree = packed->sh_degree,
                          .whole_degree = packed->whole_degree,
                          .step = packed->step,
                          .views = c->view_count,
                          .bytes = bytes};
}

// The page without its scene is made in memory first: it says how much room is left.
bool page_print(FILE *page, const page_content *content, page_written *written, fault *why) {
    packed_scene packed = {.count = content->scene ? content->scene->count : 0};
    char *text = NULL;
    size_t rest = 0;
    FILE *const trial = memory_stream_open(&text, &rest);
    bool done = trial && put_page(trial, content, &packed, why);
    if (!trial || !memory_stream_close(trial))
        done = fail(why, "no memory for the page: %s", strerror(errno));
    free(text);
    done = done &&
           (!content->scene || packed_scene_open(&packed, content->scene, room_beside(content, rest), why)) &&
           put_page(page, content, &packed, why);
    const size_t streams = (packed.gaussians.count + 2) / 3 * 4 + (packed.harmonics.count + 2) / 3 * 4;
    *written = written_of(content, &packed, rest + streams);
    packed_scene_close(&packed);
    return done;
}

static void put_length(FILE *stream, size_t count) {
    for (int byte = 0; byte < 4; byte++) putc((int)(count >> 8 * byte & 255), stream);
}

bool page_print_scene(FILE *stream, const page_content *content, page_written *written, fault *why) {
    packed_scene packed = {0};
    if (!packed_scene_open(&packed, content->scene, room_beside(content, 0), why)) return false;
    char *facts = NULL;
    size_t length;
    FILE *text = memory_stream_open(&facts, &length);
    json_writer json = {.stream = text, .first = true, .one_line = true};
    if (text) {
        json_begin(&json, NULL, '{');
        describe_scene(&json, content, &packed);
        json_end(&json, '}');
    }
    const bool done = (text && memory_stream_close(text)) || fail(why, "no memory for a scene's facts");
    if (done) {
        put_length(stream, length);
        put_length(stream, packed.gaussians.count);
        fwrite(facts, 1, length, stream);
        fwrite(packed.gaussians.bytes, 1, packed.gaussians.count, stream);
        fwrite(packed.harmonics.bytes, 1, packed.harmonics.count, stream);
        *written = written_of(content, &packed, length + packed.gaussians.count + packed.harmonics.count);
    }
    free(facts);
    packed_scene_close(&packed);
    return done;
}

bool page_write(const char *path, const page_content *content, page_written *written, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    if (page_print(file.stream, content, written, why)) {
        written->bytes = (size_t)ftello(file.stream);
        return output_file_commit(&file, why);
    }
    output_file_discard(&file);
    return false;
}

void page_tell(const char *name, const page_written *w) {
    printf("%s: %lld Gaussians", name, (long long)w->gaussians);
    if (w->total > w->gaussians) printf(" of %lld", (long long)w->total);
    if (w->sh_degree > 0)
        printf(", harmonics of degree %d in steps of %.2g", w->sh_degree, w->step);
    else if (w->whole_degree > 0)
        printf(", without harmonics");
    printf(", %zu view%s, %.1f MB\n", w->views, w->views == 1 ? "" : "s", (double)w->bytes / 1e6);
}
