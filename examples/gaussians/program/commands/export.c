// SPDX-License-Identifier: MIT
// dsplat export: a scene as one HTML page that shows it; and what such a page shows, for other commands too.
#include "camera.h"
#include "commands/cameras.h"
#include "commands/command.h"
#include "commands/page_source.h"
#include "scene.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SIDE = 640, WIDTH_BEFORE = 960, HEIGHT_BEFORE = 640 }; // of pictures; of a view without data

void page_options_list(page_options *o, option_table *table) {
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

// Evenly spread: index is the first of its part.
static bool is_first_of_part(size_t index, size_t wanted, size_t all) {
    return wanted >= all || index == 0 || index * wanted / all > (index - 1) * wanted / all;
}

typedef struct chosen_views {
    const dataset *data;
    size_t wanted;
} chosen_views;

static bool is_chosen(size_t index, const char *name, const void *context) {
    (void)name;
    const chosen_views *const c = context;
    return is_first_of_part(index, c->wanted, c->data->view_count);
}

static bool make_room(page_source *s, size_t count, fault *why) {
    s->views = calloc(count, sizeof *s->views);
    return s->views || fail(why, "no memory for %zu views", count);
}

// picture: NULL: there is none.
static bool add_view(page_source *s, const page_view *view, const image *picture, fault *why) {
    page_view *const added = &s->views[s->content.view_count++];
    *added = *view;
    const int longer = view->camera.width > view->camera.height ? view->camera.width : view->camera.height;
    added->divisor = (longer + LONGEST_SIDE - 1) / LONGEST_SIDE;
    return !picture || image_downscale(picture, added->divisor, &added->photograph, why);
}

static void place_pivot(page_source *s, const target_view *views, size_t count) {
    camera_orbit orbit;
    fault ignored;
    const bool has_up = camera_orbit_open(&orbit, views, count, &ignored);
    for (int i = 0; i < 3; i++) {
        s->content.pivot[i] = orbit.focus[i];
        s->content.up[i] = has_up ? orbit.up[i] : -(double)s->views[0].camera.rotation[3 + i];
    }
}

static bool load_views(page_source *s, const page_options *o, const scene_notes *notes, fault *why) {
    const chosen_views chosen = {&s->data, (size_t)o->views};
    dataset_options loading = {
        .downscale = (int)o->downscale, .undistort = true, .wanted = is_chosen, .context = &chosen};
    memcpy(loading.background, s->content.background, sizeof loading.background);
    if (!dataset_load(o->cameras, &loading, &s->data, why)) return false;
    if (notes->known) dataset_hold_out(&s->data, (size_t)notes->holdout);
    if (!make_room(s, chosen.wanted, why)) return false;
    for (size_t i = 0; i < s->data.view_count; i++) {
        const dataset_view *const from = &s->data.views[i];
        const page_view view = {.name = from->name, .camera = from->camera, .held_out = from->held_out};
        if (is_chosen(i, from->name, &chosen) && !add_view(s, &view, &from->picture, why)) return false;
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
           make_room(s, 1, why) && add_view(s, &view, NULL, why);
}

// ---- the whole

bool page_source_open(page_source *s, const page_options *o, const char *output, fault *why) {
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

bool page_source_reread(page_source *s, const page_options *o, fault *why) {
    gs_gaussians next;
    if (!read_scene_to_measure(o->scene, &next, why)) return false;
    scene_close(&s->scene);
    s->scene = next;
    return page_source_take_scene(s, o->most, why);
}

bool page_source_take_scene(page_source *s, int64_t most, fault *why) {
    s->content.total = s->scene.count;
    s->content.scene = &s->scene;
    s->content.views = s->views;
    return scene_keep_heaviest(&s->scene, most, why);
}

bool page_source_of_run(page_source *s, const view_split *split, fault *why) {
    const size_t all = split->training + split->held_out, wanted = PAGE_VIEWS;
    if (!make_room(s, wanted < all ? wanted : all, why)) return false;
    for (size_t i = 0; i < all; i++) {
        const target_view *const from = &split->views[i];
        const page_view view = {.name = from->name, .camera = from->camera, .held_out = i >= split->training};
        if (is_first_of_part(i, wanted, all) &&
            !add_view(s, &view, from->camera.model == GS_PINHOLE ? from->picture : NULL, why))
            return false;
    }
    place_pivot(s, split->views, all);
    s->content.views = s->views;
    return true;
}

void page_source_close(page_source *s) {
    for (size_t i = 0; i < s->content.view_count; i++) image_close(&s->views[i].photograph);
    free(s->views);
    dataset_close(&s->data);
    scene_close(&s->scene);
}

// ---- the command

static bool write_page(const page_options *options, const char *output, fault *why) {
    page_source source = {0};
    page_written written;
    const bool done = output_is_possible(output, why) && page_source_open(&source, options, output, why) &&
                      page_write(output, &source.content, &written, why);
    if (done) page_tell(output, &written);
    page_source_close(&source);
    return done;
}

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
    return write_page(&options, output, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
