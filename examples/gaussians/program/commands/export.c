// SPDX-License-Identifier: MIT
// dsplat export: a scene as one HTML page that shows it. dsplat view: that page from a small HTTP server; it follows the
// scene's file. And what such a page shows, for dsplat train too.
#include "camera.h"
#include "commands/cameras.h"
#include "commands/command.h"
#include "live/live_page.h"
#include "record/signals.h"
#include "scene.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { LONGEST_SIDE = 640, WIDTH_BEFORE = 960, HEIGHT_BEFORE = 640 }; // of pictures; of a view without data

typedef struct page_options {
    const char *scene, *cameras, *background, *title;
    int64_t views, most, downscale;
} page_options;

// Sets the defaults and adds the rows to a table.
static void page_options_list(page_options *o, option_table *table) {
    o->views = PAGE_VIEWS;
    o->most = PAGE_MOST;
    o->downscale = 1;
    const option_spec rows[] = {
        OPTION("cameras", &o->cameras,
               .help = "the folder with the photographs and their cameras, which the page shows as pinholes"),
        OPTION("views", &o->views, .minimum = 1, .maximum = 1000,
               .help = "with --cameras: number of views on the page, evenly spread by name"),
        DOWNSCALE_OPTION(&o->downscale, "pictures"),
        OPTION("most", &o->most, .minimum = 1, .maximum = 4000000,
               .help = "limit of Gaussians on the page; those of least opacity and size are left out"),
        OPTION("title", &o->title, .help = "the page's title; default: the name of the scene's file"),
        SCENE_BACKGROUND_OPTION(&o->background),
        OPTIONS_END};
    option_table_add(table, rows);
}

// ---- the views

static bool make_room(page_source *s, size_t count, fault *why) {
    s->room = count;
    s->content.views = calloc(count, sizeof *s->content.views);
    return s->content.views || fail(why, "no memory for %zu views", count);
}

// As many as there is room for, evenly spread: of each part the first.
static bool is_chosen(const page_source *s, size_t index, size_t all) {
    return s->room >= all || index == 0 || index * s->room / all > (index - 1) * s->room / all;
}

// For dataset_options.wanted.
static bool is_wanted(size_t index, const char *name, const void *source) {
    (void)name;
    return is_chosen(source, index, ((const page_source *)source)->data.view_count);
}

// picture: NULL: there is none.
static bool add_view(page_source *s, page_view view, const image *picture, fault *why) {
    const int longer = view.camera.width > view.camera.height ? view.camera.width : view.camera.height;
    page_view *const added = &s->content.views[s->content.view_count++];
    *added = view;
    added->divisor = (longer + LONGEST_SIDE - 1) / LONGEST_SIDE;
    return !picture || image_downscale(picture, added->divisor, &added->photograph, why);
}

static void place_pivot(page_source *s, const target_view *views, size_t count) {
    camera_orbit orbit;
    fault ignored;
    const bool has_up = camera_orbit_open(&orbit, views, count, &ignored);
    for (int i = 0; i < 3; i++) {
        s->content.pivot[i] = orbit.focus[i];
        s->content.up[i] = has_up ? orbit.up[i] : -(double)s->content.views[0].camera.rotation[3 + i];
    }
}

static bool load_views(page_source *s, const page_options *o, const scene_notes *notes, fault *why) {
    dataset_options loading = {
        .downscale = (int)o->downscale, .undistort = true, .wanted = is_wanted, .context = s};
    memcpy(loading.background, s->content.background, sizeof loading.background);
    if (!make_room(s, (size_t)o->views, why) || !dataset_load(o->cameras, &loading, &s->data, why))
        return false;
    if (notes->known) dataset_hold_out(&s->data, (size_t)notes->holdout);
    for (size_t i = 0; i < s->data.view_count; i++) {
        const dataset_view *const from = &s->data.views[i];
        const page_view view = {.name = from->name, .camera = from->camera, .held_out = from->held_out};
        if (is_wanted(i, from->name, s) && !add_view(s, view, &from->picture, why)) return false;
    }
    target_view *const views = views_of_data(&s->data, why);
    if (views) place_pivot(s, views, s->data.view_count);
    free(views);
    return views != NULL;
}

// One view of the whole scene, without data.
static bool invent_view(page_source *s, fault *why) {
    page_view view = {.name = "the whole scene",
                      .camera = camera_with_view_angle(WIDTH_BEFORE, HEIGHT_BEFORE, 0.8)};
    s->content.up[1] = -1;
    return camera_around(&s->scene, (const double[3]){0, 0, 1}, &view.camera, s->content.pivot, why) &&
           make_room(s, 1, why) && add_view(s, view, NULL, why);
}

// ---- the whole

// Reads everything and takes the scene. output: no file of the data may be there; NULL: nothing is written. Closed also
// after a failure.
static bool page_source_open(page_source *s, const page_options *o, const char *output, fault *why) {
    scene_notes notes;
    *s = (page_source){.content.title = o->title ? o->title : page_name_of(o->scene)};
    page_content *const c = &s->content;
    if (!scene_read_notes(o->scene, &notes, why)) return false;
    memcpy(c->background, notes.background, sizeof c->background); // zeros if the file has none
    if ((o->background && !parse_color(o->background, c->background, why)) ||
        !read_scene_to_measure(o->scene, &s->scene, why) ||
        !(o->cameras ? load_views(s, o, &notes, why) : invent_view(s, why)) ||
        !dataset_may_write(&s->data, output, why))
        return false;
    return page_source_take_scene(s, o->most, why);
}

bool page_source_take_scene(page_source *s, int64_t most, fault *why) {
    s->content.total = s->scene.count;
    s->content.scene = &s->scene;
    return scene_keep_heaviest(&s->scene, most, why);
}

bool page_source_of_run(page_source *s, const view_split *split, const char *title,
                        const float background[GS_CHANNELS], fault *why) {
    const size_t all = split->training + split->held_out;
    s->content.title = title;
    memcpy(s->content.background, background, sizeof s->content.background);
    if (!make_room(s, PAGE_VIEWS, why)) return false;
    for (size_t i = 0; i < all; i++) {
        const target_view *const from = &split->views[i];
        const page_view view = {.name = from->name, .camera = from->camera, .held_out = i >= split->training};
        if (is_chosen(s, i, all) &&
            !add_view(s, view, from->camera.model == GS_PINHOLE ? from->picture : NULL, why))
            return false;
    }
    place_pivot(s, split->views, all);
    return true;
}

void page_source_close(page_source *s) {
    for (size_t i = 0; i < s->content.view_count; i++) image_close(&s->content.views[i].photograph);
    free(s->content.views);
    dataset_close(&s->data);
    scene_close(&s->scene);
}

// ---- dsplat export

int export_command(int argc, char **argv) {
    page_options options = {0};
    const char *output = NULL;
    option_table table = {0};
    const option_spec rows[] = {
        OUTPUT_OPTION(&output, .help = "the page to write, such as page.html; required"), OPTIONS_END};
    option_table_add(&table, rows);
    page_options_list(&options, &table);
    const command_spec command = {
        .name = "dsplat export",
        .arguments = "SCENE.ply -o PAGE.html [options]",
        .summary =
            "Writes a page that shows a scene in a browser with WebGL 2. The page is one file: it needs no\n"
            "network and no other file, and opens with a double click.\n\n"
            "It holds the scene and smaller photographs of some views. With 300,000 Gaussians it has at\n"
            "most 10 MB, with more in proportion; for that the harmonics become coarser. The page says\n"
            "what is stored how. That of 'dsplat train --report' has the curves of training too.",
        .examples = "  dsplat export fern.ply -o fern.html --cameras data/fern\n"
                    "  dsplat export fern.ply -o fern.html --cameras data/fern --title Fern\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    if (!(output || fail(&why, "-o is missing: the page")) ||
        !are_two_files("--output", output, "the scene", options.scene, &why))
        return report_misuse(&command, &why);
    page_source source = {0};
    page_written written;
    const bool done = output_is_possible(output, &why) && page_source_open(&source, &options, output, &why) &&
                      page_write(output, &source.content, &written, &why);
    if (done) page_tell(output, &written);
    page_source_close(&source);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}

// ---- dsplat view

// Whether a file has been written again since *known, which becomes what it is now.
static bool has_changed(const char *path, struct stat *known) {
    const struct stat before = *known;
    if (stat(path, known) != 0) return false; // it is being replaced
    return known->st_mtim.tv_sec != before.st_mtim.tv_sec ||
           known->st_mtim.tv_nsec != before.st_mtim.tv_nsec || known->st_size != before.st_size;
}

static bool show(live_page *page, const page_source *source, const char *name, fault *why) {
    page_written written;
    if (!live_page_show(page, &source->content, &written, why)) return false;
    page_tell(name, &written);
    fflush(stdout);
    return true;
}

// Reads the scene's file again. After a failure the source has what it had.
static bool page_source_reread(page_source *s, const page_options *o, fault *why) {
    gs_gaussians next;
    if (!read_scene_to_measure(o->scene, &next, why)) return false;
    scene_close(&s->scene);
    s->scene = next;
    return page_source_take_scene(s, o->most, why);
}

// Until a signal comes.
static void follow(live_page *page, page_source *source, const page_options *o, struct stat known) {
    const struct timespec while_nothing_happens = {.tv_nsec = 100000000};
    while (*stop_request_flag() == 0) {
        fault why;
        nanosleep(&while_nothing_happens, NULL);
        if (has_changed(o->scene, &known) &&
            !(page_source_reread(source, o, &why) && show(page, source, o->scene, &why)))
            fprintf(stderr, "dsplat: %s; the page keeps what it had\n", why.text);
    }
}

static bool serve(const page_options *o, const char *listen, fault *why) {
    page_source source = {0};
    live_page *page = NULL;
    struct stat known = {0};
    has_changed(o->scene, &known);
    bool done = page_source_open(&source, o, NULL, why);
    stop_request_begin(); // before the thread of the server, which inherits nothing that ends the program
    if (done) {
        live_page_options options = {.listen = listen, .content = source.content};
        options.content.scene = NULL; // which the page asks for
        page = live_page_start(&options, why);
        done = page && show(page, &source, o->scene, why);
    }
    if (done) {
        page_server_print(live_page_server(page));
        printf("Control-C ends it.\n");
        fflush(stdout);
        follow(page, &source, o, known);
    }
    live_page_stop(page);
    stop_request_end();
    page_source_close(&source);
    return done;
}

int view_command(int argc, char **argv) {
    page_options options = {0};
    const char *listen = LISTEN_DEFAULT;
    option_table table = {0};
    page_options_list(&options, &table);
    const option_spec rows[] = {LISTEN_OPTION(&listen), OPTIONS_END};
    option_table_add(&table, rows);
    const command_spec command = {
        .name = "dsplat view",
        .arguments = "SCENE.ply [options]",
        .summary =
            "Serves the page of 'dsplat export' and prints its address, which holds a random token: who does\n"
            "not know it sees nothing. Open pages follow the scene's file. Ends by Control-C.",
        .examples = "  dsplat view fern.ply --cameras data/fern\n"
                    "  dsplat view fern.ply --listen 127.0.0.1:8080\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    return serve(&options, listen, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
