// SPDX-License-Identifier: MIT
#include "dataset.h"
#include "colmap.h"
#include "mask.h"
#include "parallel.h"
#include "photographs.h"
#include "transforms.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void dataset_close(dataset *data) {
    for (size_t i = 0; i < data->view_count; i++) {
        free(data->views[i].name);
        picture_store_free(&data->store, data->views[i].picture.pixels);
        picture_store_free(&data->store, data->views[i].alpha);
        picture_store_free(&data->store, data->views[i].mask);
        picture_store_free(&data->store, data->views[i].depth);
        free(data->views[i].mask_path);
    }
    picture_store_close(&data->store);
    free(data->views);
    free(data->points);
    free(data->colors);
    free(data->files);
    *data = (dataset){0};
}

bool dataset_spared(const dataset *data, const char *path, fault *why) {
    file_id id;
    if (!path || !file_id_of(path, &id)) return true;
    for (size_t i = 0; i < data->file_count; i++)
        if (file_id_is(&id, &data->files[i]))
            return fail(why, "%s: cannot write: is one of the files of the data", path);
    return true;
}

void dataset_hold_out(dataset *data, size_t every) {
    for (size_t i = 0; i < data->view_count; i++)
        if (data->views[i].held_out) return;
    for (size_t i = 0; every > 0 && i < data->view_count; i += every) data->views[i].held_out = true;
}

// RGBA to RGB in place. Alpha is not premultiplied, as in PNG.
static void blend_with(const float background[3], image *picture) {
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    for (size_t i = 0; i < pixels; i++) {
        const float alpha = picture->pixels[4 * i + 3] / 255.0f;
        for (size_t c = 0; c < GS_CHANNELS; c++)
            picture->pixels[GS_CHANNELS * i + c] = (uint8_t)(picture->pixels[4 * i + c] * alpha +
                                                             255.0f * background[c] * (1.0f - alpha) + 0.5f);
    }
    picture->channels = GS_CHANNELS;
}

static void drop_alpha(image *picture) {
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    for (size_t i = 0; i < pixels; i++)
        memmove(picture->pixels + GS_CHANNELS * i, picture->pixels + 4 * i, GS_CHANNELS);
    picture->channels = GS_CHANNELS;
}

// The alpha channel as a gray picture, so that functions for pictures apply to it.
static bool alpha_of(const image *picture, image *out, fault *why) {
    if (!image_open(out, picture->width, picture->height, 3, why)) return false;
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    for (size_t i = 0; i < GS_CHANNELS * pixels; i++)
        out->pixels[i] = picture->pixels[4 * (i / GS_CHANNELS) + 3];
    return true;
}

// One channel, in the memory of the picture, which is left without.
static uint8_t *take_channel(image *gray) {
    uint8_t *channel = gray->pixels;
    const size_t pixels = (size_t)gray->width * (size_t)gray->height;
    for (size_t i = 0; i < pixels; i++) channel[i] = channel[GS_CHANNELS * i];
    gray->pixels = NULL;
    return channel;
}

static void replace(image *picture, const image *by) {
    image_close(picture);
    *picture = *by;
}

bool dataset_no_picture(size_t index, const char *name, const void *context) {
    (void)index, (void)name, (void)context;
    return false;
}

static bool downscale_picture(image *picture, int factor, fault *why) {
    image small;
    if (factor == 1 || !picture->pixels) return true;
    if (!image_downscale(picture, factor, &small, why)) return false;
    replace(picture, &small);
    return true;
}

// The camera of a picture that has this size. *optics: its complete lens.
static bool complete_camera(const reconstruction_view *source, bool undistort, const int size[2],
                            lens *optics, gs_camera *out, fault *why) {
    *optics = source->optics;
    lens_complete(optics, size[0], size[1]);
    if (!lens_check(optics, why)) return fail(why, "the camera has %s", why->text);
    *out = lens_camera(optics, undistort);
    memcpy(out->rotation, source->rotation, sizeof source->rotation);
    memcpy(out->translation, source->translation, sizeof source->translation);
    return true;
}

static bool undistort_picture(const lens *optics, image *picture, fault *why) {
    image straight;
    if (!picture->pixels) return true;
    if (!lens_undistort(optics, picture, &straight, why)) return false;
    replace(picture, &straight);
    return true;
}

// What belongs to a picture while it is loaded: gray pictures, empty if there are none.
typedef struct companions {
    image alpha, mask;
} companions;

static void close_companions(companions *with) {
    image_close(&with->alpha);
    image_close(&with->mask);
}

// Undistorts the camera, the picture and what belongs to it. A fisheye stays one unless `undistort`.
static bool undistort_view(const reconstruction_view *source, bool undistort, dataset_view *view,
                           companions *with, fault *why) {
    lens optics;
    const int size[2] = {view->picture.width, view->picture.height};
    if (!complete_camera(source, undistort, size, &optics, &view->camera, why)) return false;
    if (view->picture.width != optics.width || view->picture.height != optics.height)
        return fail(why, "the picture has %d x %d pixels, its camera %d x %d", view->picture.width,
                    view->picture.height, optics.width, optics.height);
    view->optics = optics;
    return view->camera.model != GS_PINHOLE || lens_is_ideal(&optics) ||
           (undistort_picture(&optics, &view->picture, why) &&
            undistort_picture(&optics, &with->alpha, why) && undistort_picture(&optics, &with->mask, why));
}

typedef struct loading {
    const char *folder; // of the pictures
    const char *data_folder;
    const char *masks; // their folder; NULL: the data has none
    const dataset_options *options;
    const reconstruction_view *sources;
    dataset *data;
    atomic_size_t with_alpha; // pictures
} loading;

static bool load_mask(const loading *work, const reconstruction_view *source, dataset_view *view, image *mask,
                      fault *why) {
    char path[PATH_ROOM];
    if (!source->mask && !work->masks) return true;
    if (source->mask ? !path_join(path, work->data_folder, source->mask, why)
                     : !mask_find(work->masks, view->name, path, why))
        return false;
    view->mask_path = strdup(path + strlen(work->data_folder) + 1);
    return view->mask_path ? mask_read(path, &view->picture, mask, why)
                           : fail(why, "%s: no memory for its name", path);
}

// Makes RGB of the picture. Its alpha becomes its mask, or is blended and, if wanted, kept.
static bool separate_alpha(loading *work, dataset_view *view, const char *path, bool wanted, companions *with,
                           fault *why) {
    const dataset_options *options = work->options;
    if (options->mask_from_alpha) {
        if (view->picture.channels != 4)
            return !wanted || fail(why, "%s: has no alpha channel to make a mask of", path);
        if (wanted && !mask_by_alpha(&view->picture, &with->mask, why)) return false;
        drop_alpha(&view->picture);
    } else if (view->picture.channels == 4) {
        atomic_fetch_add(&work->with_alpha, 1);
        if (options->keep_alpha && wanted && !alpha_of(&view->picture, &with->alpha, why)) return false;
        blend_with(options->background, &view->picture);
    }
    return true;
}

// Moves alpha and mask to the view.
static bool keep_companions(companions *with, dataset_view *view, fault *why) {
    size_t counted;
    if (with->alpha.pixels) view->alpha = take_channel(&with->alpha);
    if (!with->mask.pixels) return true;
    view->mask = mask_take(&with->mask, &counted);
    return counted > 0 || fail(why, "its mask leaves no pixel that counts");
}

static bool keep(picture_store *store, uint8_t **array, size_t bytes, fault *why) {
    uint8_t *const kept = *array ? picture_store_keep(store, *array, bytes, why) : NULL;
    if (*array && !kept) return false;
    *array = kept;
    return true;
}

static bool keep_arrays(picture_store *store, dataset_view *view, fault *why) {
    const size_t pixels = (size_t)view->picture.width * (size_t)view->picture.height;
    return keep(store, &view->picture.pixels, GS_CHANNELS * pixels, why) &&
           keep(store, &view->alpha, pixels, why) && keep(store, &view->mask, pixels, why);
}

static bool load_view(void *context, size_t i, fault *why) {
    loading *work = context;
    const dataset_options *options = work->options;
    const reconstruction_view *source = &work->sources[i];
    dataset_view *view = &work->data->views[i];
    const bool wanted = !options->wanted || options->wanted(i, view->name, options->context);
    if (!wanted && source->optics.width > 0 && source->optics.height > 0) {
        lens optics;
        const int size[2] = {source->optics.width, source->optics.height};
        if (!complete_camera(source, options->undistort, size, &optics, &view->camera, why))
            return fail(why, "%s: %s", view->name, why->text);
        view->optics = optics;
        dataset_downscale_camera(&view->camera, options->downscale);
        return true;
    }
    char path[PATH_ROOM];
    if (!path_join(path, work->folder, view->name, why) || !image_read(path, &view->picture, why))
        return false;
    companions with = {0};
    if (!(!wanted || load_mask(work, source, view, &with.mask, why)) ||
        !separate_alpha(work, view, path, wanted, &with, why)) {
        close_companions(&with);
        return false;
    }
    const int factor = options->downscale;
    if (!undistort_view(source, options->undistort, view, &with, why) ||
        !downscale_picture(&view->picture, factor, why) || !downscale_picture(&with.alpha, factor, why) ||
        !mask_downscale(&with.mask, factor, why) || !keep_companions(&with, view, why)) {
        close_companions(&with);
        return fail(why, "%s: %s", path, why->text);
    }
    dataset_downscale_camera(&view->camera, factor);
    if (!wanted) image_close(&view->picture);
    return keep_arrays(&work->data->store, view, why) || fail(why, "%s: %s", path, why->text);
}

// Moves names and points.
static bool move_to_dataset(reconstruction *source, dataset *out, fault *why) {
    out->views = calloc(source->view_count, sizeof *out->views);
    if (!out->views) return fail(why, "no memory for %zu views", source->view_count);
    out->view_count = source->view_count;
    for (size_t i = 0; i < out->view_count; i++) {
        out->views[i] = (dataset_view){.name = source->views[i].name, .held_out = source->views[i].held_out};
        source->views[i].name = NULL;
    }
    out->point_count = source->point_count;
    out->points = source->points;
    out->colors = source->colors;
    source->points = NULL;
    source->colors = NULL;
    return true;
}

// The folders of the data, of the model or transforms, of the pictures and of the masks ("": none).
typedef struct data_folders {
    char data[PATH_ROOM], model[PATH_ROOM], pictures[PATH_ROOM], masks[PATH_ROOM];
} data_folders;

static void add_file(dataset *out, const char *folder, const char *name) {
    char path[PATH_ROOM];
    fault ignored; // a path that is too long is no file
    if (path_join(path, folder, name, &ignored) && file_id_of(path, &out->files[out->file_count]))
        out->file_count++;
}

static bool add_files(dataset *out, const reconstruction *source, const data_folders *in, fault *why) {
    static const char *const names[] = {
        "cameras.bin",  "images.bin",      "points3D.bin",          "cameras.txt",         "images.txt",
        "points3D.txt", "transforms.json", "transforms_train.json", "transforms_test.json"};
    const size_t name_count = sizeof names / sizeof *names;
    out->files = calloc(name_count + 1 + 2 * out->view_count, sizeof *out->files);
    if (!out->files) return fail(why, "no memory for %zu views", out->view_count);
    for (size_t i = 0; i < name_count; i++) add_file(out, in->model, names[i]);
    if (source->points_file) add_file(out, in->data, source->points_file);
    for (size_t i = 0; i < out->view_count; i++) {
        char mask[PATH_ROOM];
        fault ignored; // loading says what is missing
        add_file(out, in->pictures, out->views[i].name);
        if (source->views[i].mask)
            add_file(out, in->data, source->views[i].mask);
        else if (in->masks[0] && mask_find(in->masks, out->views[i].name, mask, &ignored) &&
                 file_id_of(mask, &out->files[out->file_count]))
            out->file_count++;
    }
    return true;
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

// The folder holds photographs, itself or in images/.
static bool has_photographs(const char *folder) {
    char images[PATH_ROOM];
    fault ignored;
    int count[2] = {-1, -1};
    struct dirent **entries[2] = {NULL, NULL};
    count[0] = scandir(folder, &entries[0], photograph_is, NULL);
    if (path_join(images, folder, "images", &ignored))
        count[1] = scandir(images, &entries[1], photograph_is, NULL);
    for (int i = 0; i < 2; i++) photographs_close(entries[i], count[i]);
    return count[0] > 0 || count[1] > 0;
}

static bool find_and_read(const char *folder, data_folders *in, reconstruction *out, fault *why) {
    struct stat status;
    *out = (reconstruction){0};
    if (stat(folder, &status) != 0) return fail(why, "%s: cannot open: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode)) return fail(why, "%s: not a folder", folder);
    snprintf(in->data, sizeof in->data, "%s", folder);
    in->masks[0] = '\0';
    if (colmap_find(folder, in->model)) {
        if (!path_join(in->pictures, folder, "images", why) || !path_join(in->masks, folder, "masks", why))
            return false;
        if (!is_folder(in->masks)) in->masks[0] = '\0';
        return colmap_load(in->model, out, why);
    }
    if (transforms_are_in(folder)) { // it fits: a folder whose path is too long has no transforms
        strcpy(in->model, folder);
        strcpy(in->pictures, folder);
        if (!transforms_load(folder, out, why)) return false;
        const bool read = out->points_file || colmap_load_points(folder, out, why);
        if (!read) reconstruction_close(out);
        return read;
    }
    if (has_photographs(folder))
        return fail(
            why,
            "%s: has photographs, but neither a COLMAP model nor a transforms.json; `dsplat poses %s -o DATA` "
            "finds their cameras",
            folder, folder);
    return fail(
        why,
        "%s: has neither a COLMAP model (cameras.bin or cameras.txt, in sparse/0, sparse or the folder "
        "itself) nor transforms_train.json nor transforms.json",
        folder);
}

bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why) {
    *out = (dataset){.store = {.most = options->memory}};
    data_folders in;
    reconstruction source;
    if (options->downscale < 1)
        return fail(why, "cannot divide the pictures' size by %d", options->downscale);
    if (!find_and_read(folder, &in, &source, why)) return false;
    bool loaded = move_to_dataset(&source, out, why) && add_files(out, &source, &in, why);
    if (loaded) {
        loading work = {.folder = in.pictures,
                        .data_folder = in.data,
                        .masks = in.masks[0] ? in.masks : NULL,
                        .options = options,
                        .sources = source.views,
                        .data = out};
        loaded = read_in_parallel(out->view_count, load_view, &work, why);
        if (loaded) dataset_set_near_planes(&out->views->camera, sizeof *out->views, out->view_count);
        out->cut_out = work.with_alpha == out->view_count;
        out->picture_folder = strcmp(in.model, in.pictures) == 0 ? "" : "images";
    }
    reconstruction_close(&source);
    if (!loaded) dataset_close(out);
    return loaded;
}
