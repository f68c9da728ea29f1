// SPDX-License-Identifier: MIT
#include "commands/page_source.h"
#include "commands/cameras.h"
#include "commands/command.h"
#include "camera.h"
#include "frame.h"
#include "live/contribution.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SIDE = 640, WIDTH_BEFORE = 960, HEIGHT_BEFORE = 640 }; // of pictures; of a view without data

void page_options_list(page_options *o, option_table *table) {
    o->views = 16;
    o->most = 1000000;
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
    s->cameras = calloc(count, sizeof *s->cameras);
    s->small = calloc(count, sizeof *s->small);
    return (s->views && s->cameras && s->small) || fail(why, "no memory for %zu views", count);
}

// picture: NULL: there is none.
static bool add_view(page_source *s, const page_view *view, const image *picture, fault *why) {
    page_view *const added = &s->views[s->view_count];
    gs_camera *const small = &s->small[s->view_count];
    *added = *view;
    *small = s->cameras[s->view_count++] = view->camera;
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
        s->content.up[i] = has_up ? path.up[i] : -(double)s->cameras[0].rotation[3 + i];
    }
}

static bool place_pivot_of_data(page_source *s, fault *why) {
    target_view *views = calloc(s->data.view_count, sizeof *views);
    if (!views) return fail(why, "no memory for %zu cameras", s->data.view_count);
    for (size_t i = 0; i < s->data.view_count; i++) views[i].camera = s->data.views[i].camera;
    place_pivot(s, views, s->data.view_count);
    free(views);
    return true;
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
    frame f = {0};
    frame_render(&f, &device, GS_MAX_SH_DEGREE, &s->small[0], s->content.background);
    const bool done = frame_picture(&f, &s->poster, why);
    frame_close(&f);
    device_gaussians_close(&device);
    return done;
}

// ---- the whole

static void list_parts(page_source *s) {
    s->content.view_count = s->view_count;
    s->content.views = s->views;
    s->content.poster = &s->poster;
    s->content.run = &s->training;
}

bool page_source_open(page_source *s, const page_options *o, const char *output, fault *why) {
    scene_notes notes;
    const char *slash = strrchr(o->scene, '/');
    *s = (page_source){.content.title = o->title ? o->title : slash ? slash + 1 : o->scene};
    page_content *const c = &s->content;
    if (!scene_read_notes(o->scene, &notes, why)) return false;
    memcpy(c->background, notes.background, sizeof c->background); // zeros if the file has none
    if ((o->background && !parse_color(o->background, c->background, why)) ||
        (o->log && !history_read(&s->training, o->log, why)) ||
        !read_scene_to_measure(o->scene, &s->scene, why) ||
        !(o->cameras ? load_views(s, o, &notes, why) && place_pivot_of_data(s, why) : invent_view(s, why)) ||
        !dataset_spared(&s->data, output, why))
        return false;
    list_parts(s);
    return page_source_take_scene(s, o->most, why);
}

bool page_source_take_scene(page_source *s, int64_t most, fault *why) {
    s->content.total = s->scene.count;
    s->content.scene = &s->scene;
    return keep_contributing(&s->scene, NULL, most, s->small, s->view_count, why) && draw_poster(s, why);
}

bool page_source_of_run(page_source *s, const view_split *split, size_t wanted, fault *why) {
    const size_t all = split->training + split->held_out;
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
    free(s->cameras);
    free(s->small);
    history_close(&s->training);
    dataset_close(&s->data);
    scene_close(&s->scene);
}

void page_source_print(const page_source *s, const char *page, const page_written *written) {
    printf("%s: %lld Gaussians", page, (long long)s->scene.count);
    if (s->content.total > s->scene.count) printf(" of %lld", (long long)s->content.total);
    if (written->sh_degree > 0)
        printf(", harmonics of degree %d in steps of %.2g", written->sh_degree, written->step);
    else if (written->whole_degree > 0)
        printf(", without harmonics");
    printf(", %zu view%s, %.1f MB\n", s->view_count, s->view_count == 1 ? "" : "s",
           (double)written->bytes / 1e6);
}
