// SPDX-License-Identifier: MIT
#include "live/page.h"
#include "files/json_writer.h"
#include "files/output_file.h"
#include "record/html.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, PHOTOGRAPH_QUALITY = 80, MOST_POINTS = 400 };

extern const char live_page_html[]; // live/page.html, ends with 0

// A picture as the text of a data URI, for the caller to free().
static char *data_uri(const image *picture, fault *why) {
    uint8_t *bytes;
    size_t count, length;
    char *text = NULL;
    if (!image_encode_jpeg(picture, PHOTOGRAPH_QUALITY, &bytes, &count, why)) return NULL;
    FILE *stream = memory_stream_open(&text, &length);
    if (stream) {
        fputs("data:image/jpeg;base64,", stream);
        html_base64(stream, bytes, count);
        if (!memory_stream_close(stream)) {
            free(text);
            text = NULL;
        }
    }
    free(bytes);
    if (!text) fail(why, "no memory for a picture of %zu bytes", count);
    return text;
}

// ---- the facts

static bool describe_view(json_writer *json, const page_view *view, fault *why) {
    const gs_camera *const camera = &view->camera;
    char *photograph = NULL;
    if (view->photograph.pixels && !(photograph = data_uri(&view->photograph, why))) return false;
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
    json_put_text(json, "photo", photograph);
    json_put_integer(json, "photo_width", view->photograph.width * view->divisor);
    json_put_integer(json, "photo_height", view->photograph.height * view->divisor);
    json_end(json, '}');
    free(photograph);
    return true;
}

typedef struct curve {
    const char *title;
    bool logarithmic;
    struct {
        const char *name;
        size_t value; // of a history_point
    } series[3];      // unused ones have no name
} curve;

static const curve curves[] = {
    {"Loss in training", true, {{"loss", 1}}},
    {"PSNR, dB", false, {{"training", 5}, {"validation", 4}, {"held out", 3}}},
    {"Gaussians", false, {{"Gaussians", 2}}},
    {"Time of a step, ms", false, {{"time", 6}}},
};

static size_t points_of(const history *run, size_t value) {
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) count += isfinite((&run->points[i].iteration)[value]);
    return count;
}

// Writes the points that have the value, at most about MOST_POINTS of them.
static void describe_series(json_writer *json, const history *run, const char *name, size_t value) {
    const size_t count = points_of(run, value), every = (count + MOST_POINTS - 1) / MOST_POINTS;
    json_begin(json, NULL, '{');
    json_put_text(json, "name", name);
    for (int axis = 0; axis < 2; axis++) {
        json_begin(json, axis ? "y" : "x", '[');
        size_t seen = 0;
        for (size_t i = 0; i < run->count; i++) {
            const double *const point = &run->points[i].iteration;
            if (!isfinite(point[value])) continue;
            if (++seen % every == 0 || seen == count) json_put_number(json, NULL, point[axis ? value : 0]);
        }
        json_end(json, ']');
    }
    json_end(json, '}');
}

static void describe_curves(json_writer *json, const history *run) {
    json_begin(json, "curves", '[');
    for (size_t c = 0; c < sizeof curves / sizeof *curves; c++) {
        bool begun = false;
        for (size_t s = 0; s < 3 && curves[c].series[s].name; s++) {
            if (points_of(run, curves[c].series[s].value) < 2) continue;
            if (!begun) {
                json_begin(json, NULL, '{');
                json_put_text(json, "title", curves[c].title);
                json_put_boolean(json, "logarithmic", curves[c].logarithmic);
                json_begin(json, "series", '[');
                begun = true;
            }
            describe_series(json, run, curves[c].series[s].name, curves[c].series[s].value);
        }
        if (!begun) continue;
        json_end(json, ']');
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void describe_notes(json_writer *json, const page_content *c, const packed_scene *packed) {
    char text[192];
    json_begin(json, "notes", '[');
    if (c->total > c->scene->count) {
        snprintf(text, sizeof text, "The %lld Gaussians that contribute least to the views were left out.",
                 (long long)(c->total - c->scene->count));
        json_put_text(json, NULL, text);
    }
    const int used =
        snprintf(text, sizeof text, "Coordinates are stored with 16 bits, other values with 8 to 10");
    if (packed->sh_degree > 0)
        snprintf(text + used, sizeof text - (size_t)used, ", harmonics in steps of %.2g.", packed->step);
    else
        snprintf(text + used, sizeof text - (size_t)used, "%s",
                 packed->whole_degree > 0 ? "; harmonics are left out." : ".");
    json_put_text(json, NULL, text);
    json_end(json, ']');
}

// The facts that change while a scene is trained.
static void describe_scene(json_writer *json, const page_content *c, const packed_scene *packed) {
    json_put_integer(json, "count", packed->count);
    json_put_integer(json, "total", c->total);
    json_put_integer(json, "degree", packed->sh_degree);
    json_put_number(json, "step", packed->sh_degree ? packed->step : 0);
    json_put_boolean(json, "antialias", packed->antialias);
    describe_curves(json, c->run);
    describe_notes(json, c, packed);
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
    json_end(json, '}');
    return true;
}

// In a <script> no text may end it or begin a comment: '<' is \u003c. In JSON it stands in strings alone.
static void put_script_text(FILE *page, const char *json) {
    for (; *json; json++)
        if (*json == '<')
            fputs("\\u003c", page);
        else
            putc(*json, page);
}

static bool put_facts(FILE *page, const page_content *content, const packed_scene *packed, fault *why) {
    char *text = NULL;
    size_t length;
    FILE *stream = memory_stream_open(&text, &length);
    json_writer json = {.stream = stream, .first = true, .one_line = true};
    bool done = stream && describe(&json, content, packed, why);
    if (!stream || !memory_stream_close(stream))
        done = fail(why, "no memory for the page's facts: %s", strerror(errno));
    if (done) {
        fputs("<script type=\"application/json\" id=\"facts\">", page);
        put_script_text(page, text);
        fputs("</script>\n", page);
    }
    free(text);
    return done;
}

// ---- the page

static void put_stream(FILE *page, const char *id, const packed_stream *stream) {
    fprintf(page, "<script type=\"text/plain\" id=\"%s\">", id);
    html_base64(page, stream->bytes, stream->count);
    fputs("</script>\n", page);
}

// The file with content in place of its marks.
static bool put_page(FILE *page, const page_content *content, const packed_scene *packed, const char *poster,
                     fault *why) {
    static const char *const marks[] = {"@TITLE@", "@POSTER@", "@DATA@"};
    const char *at = live_page_html;
    for (;;) {
        const char *next = NULL;
        int found = 0;
        for (int m = 0; m < 3; m++) {
            const char *place = strstr(at, marks[m]);
            if (!place || (next && place > next)) continue;
            next = place;
            found = m;
        }
        if (!next) break;
        fwrite(at, 1, (size_t)(next - at), page);
        at = next + strlen(marks[found]);
        if (found == 0)
            html_text(page, content->title);
        else if (found == 1)
            fputs(poster, page);
        else if (!put_facts(page, content, packed, why))
            return false;
        else if (content->scene) {
            put_stream(page, "gaussians", &packed->gaussians);
            put_stream(page, "harmonics", &packed->harmonics);
        }
    }
    fputs(at, page);
    return true;
}

// Bytes that are left for the scene, before base64, beside everything else.
static size_t room_beside(const page_content *content, size_t rest) {
    const double larger = fmax(1, (double)content->scene->count / PAGE_GAUSSIANS);
    const double left = (PAGE_BYTES * larger - (double)rest - 1000) * 3 / 4;
    return left > 0 ? (size_t)left : 0;
}

static bool room_for_scene(const page_content *content, const char *poster, size_t *room, fault *why) {
    char *text = NULL;
    size_t rest = 0;
    FILE *trial = memory_stream_open(&text, &rest);
    const packed_scene nothing = {.count = content->scene->count};
    bool done = trial && put_page(trial, content, &nothing, poster, why);
    if (!trial || !memory_stream_close(trial))
        done = fail(why, "no memory for the page: %s", strerror(errno));
    free(text);
    *room = done ? room_beside(content, rest) : 0;
    return done;
}

bool page_print(FILE *page, const page_content *content, page_written *written, fault *why) {
    packed_scene packed = {0};
    size_t room;
    char *poster = data_uri(content->poster, why);
    const bool done = poster &&
                      (!content->scene || (room_for_scene(content, poster, &room, why) &&
                                           packed_scene_open(&packed, content->scene, room, why))) &&
                      put_page(page, content, &packed, poster, why);
    *written = (page_written){packed.sh_degree, packed.whole_degree, packed.step, (size_t)ftello(page)};
    packed_scene_close(&packed);
    free(poster);
    return done;
}

static void put_length(FILE *stream, size_t count) {
    for (int byte = 0; byte < 4; byte++) putc((int)(count >> 8 * byte & 255), stream);
}

bool page_print_scene(FILE *stream, const page_content *content, fault *why) {
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
    }
    free(facts);
    packed_scene_close(&packed);
    return done;
}

bool page_write(const char *path, const page_content *content, page_written *written, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    if (page_print(file.stream, content, written, why)) return output_file_commit(&file, why);
    output_file_discard(&file);
    return false;
}
