// SPDX-License-Identifier: MIT
// dsplat export: a scene as one HTML page that shows it; and what such a page shows, for other commands too.
#include "camera.h"
#include "commands/cameras.h"
#include "commands/command.h"
#include "commands/page_source.h"
#include "frame.h"
#include "measure/maps.h"
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
               .help =
                   "limit of Gaussians on the page; those that contribute least to its views are left out"),
        OPTION("log", &o->log, .help = "draw the curves of this file of 'dsplat train --log'"),
        OPTION("title", &o->title, .help = "the page's title; default: the name of the scene's file"),
        OPTION("background", &o->background,
               .help = "R,G,B behind the scene, each 0..1; default: that of the scene's file, or black"),
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

static int divisor_of(int width, int height) {
    const int longer = width > height ? width : height;
    return (longer + LONGEST_SIDE - 1) / LONGEST_SIDE;
}

static bool make_room(page_source *s, size_t count, fault *why) {
    s->views = calloc(count, sizeof *s->views);
    s->small = calloc(count, sizeof *s->small);
    return (s->views && s->small) || fail(why, "no memory for %zu views", count);
}

// picture: NULL: there is none.
static bool add_view(page_source *s, const page_view *view, const image *picture, fault *why) {
    page_view *const added = &s->views[s->view_count];
    gs_camera *const small = &s->small[s->view_count];
    *added = *view;
    *small = view->camera;
    s->view_count++;
    added->divisor = divisor_of(small->width, small->height);
    dataset_downscale_camera(small, added->divisor);
    return !picture || image_downscale(picture, added->divisor, &added->photograph, why);
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
    return true;
}

static void place_pivot(page_source *s, const target_view *views, size_t count) {
    camera_path path;
    fault ignored;
    const bool has_up = camera_path_open(&path, PATH_ORBIT, views, count, &ignored);
    for (int i = 0; i < 3; i++) {
        s->content.pivot[i] = path.focus[i];
        s->content.up[i] = has_up ? path.up[i] : -(double)s->small[0].rotation[3 + i];
    }
}

static bool place_pivot_of_data(page_source *s, fault *why) {
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

// ---- pictures

static bool draw_poster(page_source *s, fault *why) {
    image_close(&s->poster);
    gs_gaussians device = device_gaussians_from(&s->scene);
    const bool done = map_picture(&device, &s->small[0], s->content.background, &s->poster, why);
    device_gaussians_close(&device);
    return done;
}

// ---- the whole

static void list_parts(page_source *s) {
    s->content.view_count = s->view_count;
    s->content.views = s->views;
    s->content.poster = &s->poster;
    s->content.record = &s->record;
}

bool page_source_open(page_source *s, const page_options *o, const char *output, fault *why) {
    scene_notes notes;
    *s = (page_source){.content.title = o->title ? o->title : page_name_of(o->scene)};
    page_content *const c = &s->content;
    if (!scene_read_notes(o->scene, &notes, why)) return false;
    memcpy(c->background, notes.background, sizeof c->background); // zeros if the file has none
    if ((o->background && !parse_color(o->background, c->background, why)) ||
        (o->log && !run_record_read(&s->record, o->log, why)) ||
        !read_scene_to_measure(o->scene, &s->scene, why) ||
        !(o->cameras ? load_views(s, o, &notes, why) && place_pivot_of_data(s, why) : invent_view(s, why)) ||
        !dataset_spared(&s->data, output, why))
        return false;
    list_parts(s);
    return page_source_take_scene(s, o->most, why);
}

bool page_source_reread(page_source *s, const page_options *o, fault *why) {
    page_source next = {.content = s->content, .small = s->small, .view_count = s->view_count};
    const bool done = (!o->log || run_record_read(&next.record, o->log, why)) &&
                      read_scene_to_measure(o->scene, &next.scene, why) &&
                      page_source_take_scene(&next, o->most, why);
    page_source *const old = done ? s : &next;
    scene_close(&old->scene);
    run_record_close(&old->record);
    image_close(&old->poster);
    if (!done) return false;
    s->scene = next.scene, s->record = next.record, s->poster = next.poster;
    s->content.total = next.content.total;
    return true;
}

bool page_source_take_scene(page_source *s, int64_t most, fault *why) {
    s->content.total = s->scene.count;
    s->content.scene = &s->scene;
    return keep_contributing(&s->scene, NULL, most, s->small, s->view_count, why) && draw_poster(s, why);
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
    list_parts(s);
    return s->views[0].photograph.pixels ? image_downscale(&s->views[0].photograph, 1, &s->poster, why)
                                         : image_open(&s->poster, 1, 1, GS_CHANNELS, why);
}

void page_source_close(page_source *s) {
    for (size_t i = 0; i < s->view_count; i++) image_close(&s->views[i].photograph);
    image_close(&s->poster);
    free(s->views);
    free(s->small);
    run_record_close(&s->record);
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
            "It holds the scene, smaller photographs of some views, and the curves of the training. With\n"
            "300,000 Gaussians it has at most 10 MB, with more in proportion; for that the harmonics\n"
            "become coarser. The page says what is stored how.",
        .examples = "  dsplat export fern.ply -o fern.html --cameras data/fern\n"
                    "  dsplat export fern.ply -o fern.html --cameras data/fern --log fern.log --title Fern\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    if (!(output || fail(&why, "-o is missing: the page")) ||
        !are_two_files("--output", output, "the scene", options.scene, &why) ||
        !are_two_files("--output", output, "--log", options.log, &why))
        return report_misuse(&command, &why);
    return write_page(&options, output, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
