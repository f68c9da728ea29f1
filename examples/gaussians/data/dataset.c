// SPDX-License-Identifier: MIT
#include "dataset.h"
#include "images/image.h"
#include "transforms.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

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
    free(data->tracks);
    free(data->picture_folder);
    free(data->files);
    *data = (dataset){0};
}

bool dataset_may_write(const dataset *data, const char *path, fault *why) {
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

bool dataset_no_picture(size_t index, const char *name, const void *context) {
    (void)index, (void)name, (void)context;
    return false;
}

// ---- cameras

// The camera of a picture that has this size. view->optics: its complete lens.
static bool complete_camera(bool undistort, const int size[2], dataset_view *view, fault *why) {
    fault reason;
    lens_complete(&view->optics, size[0], size[1]);
    if (!lens_check(&view->optics, &reason)) return fail(why, "the camera has %s", reason.text);
    const lens of_file = view->optics;
    const bool turned = size[0] == of_file.height && size[1] == of_file.width;
    view->resized = of_file.width != size[0] || of_file.height != size[1];
    if (view->resized && !lens_resize(&view->optics, size[0], size[1]))
        return fail(why, "the picture has %d x %d pixels, its camera %d x %d%s", size[0], size[1],
                    of_file.width, of_file.height,
                    turned ? "; turn its pixels, as EXIF orientations are not applied" : "");
    view->camera = lens_camera(&view->optics, undistort);
    for (int k = 0; k < 9; k++) view->camera.rotation[k] = (float)view->rotation[k];
    for (int k = 0; k < 3; k++) view->camera.translation[k] = (float)view->translation[k];
    return true;
}

// ---- a picture, and its alpha and mask: pictures of one channel

enum { PICTURE, ALPHA, MASK, PARTS };

static size_t size_of(const image *picture) {
    return (size_t)picture->width * (size_t)picture->height;
}

static void replace(image *picture, const image *by) {
    image_close(picture);
    *picture = *by;
}

// RGB of RGBA in place: over the background, without one as it is. Alpha is not premultiplied, as in PNG.
static void blend_with(const float *background, image *picture) {
    for (size_t i = 0; i < size_of(picture); i++) {
        const float alpha = background ? picture->pixels[4 * i + 3] / 255.0f : 1;
        for (size_t c = 0; c < GS_CHANNELS; c++)
            picture->pixels[GS_CHANNELS * i + c] =
                (uint8_t)(picture->pixels[4 * i + c] * alpha +
                          255.0f * (background ? background[c] : 0) * (1.0f - alpha) + 0.5f);
    }
    picture->channels = GS_CHANNELS;
}

// The alpha channel.
static bool alpha_of(const image *picture, image *out, fault *why) {
    if (!image_open(out, picture->width, picture->height, 1, why)) return false;
    for (size_t i = 0; i < size_of(picture); i++) out->pixels[i] = picture->pixels[4 * i + 3];
    return true;
}

// Reads the mask of a picture: black pixels do not count, all others do. One of another size is stretched to the
// picture's, if both are of one shape.
static bool read_mask(const char *path, const image *picture, image *out, bool *resized, fault *why) {
    image mask;
    if (!image_read(path, &mask, why)) return false;
    lens shape = {.width = mask.width, .height = mask.height};
    *resized = mask.width != picture->width || mask.height != picture->height;
    bool done = mask.channels == GS_CHANNELS || fail(why, "%s: a mask must not have an alpha channel", path);
    if (done && *resized && !lens_resize(&shape, picture->width, picture->height))
        done = fail(why, "%s: the mask has %d x %d pixels, its picture %d x %d", path, mask.width,
                    mask.height, picture->width, picture->height);
    done = done && image_open(out, picture->width, picture->height, 1, why);
    for (size_t i = 0; done && i < size_of(out); i++) {
        const size_t x = i % (size_t)out->width * (size_t)mask.width / (size_t)out->width;
        const size_t y = i / (size_t)out->width * (size_t)mask.height / (size_t)out->height;
        const uint8_t *const pixel = mask.pixels + GS_CHANNELS * (y * (size_t)mask.width + x);
        out->pixels[i] = pixel[0] || pixel[1] || pixel[2] ? 255 : 0;
    }
    image_close(&mask);
    return done;
}

// Where the alpha of a picture (4 channels) is 0, the mask does not count. An empty mask is made first.
static bool mask_by_alpha(const image *picture, image *mask, fault *why) {
    if (!mask->pixels) {
        if (!image_open(mask, picture->width, picture->height, 1, why)) return false;
        memset(mask->pixels, 255, size_of(mask));
    }
    for (size_t i = 0; i < size_of(picture); i++)
        if (picture->pixels[4 * i + 3] == 0) mask->pixels[i] = 0;
    return true;
}

// As image_downscale, but a pixel counts only if its whole block does: pixels that are not 255, because undistortion
// mixed them, do not.
static bool downscale_mask(const image *mask, int factor, image *out, fault *why) {
    const int width = mask->width > factor ? mask->width / factor : 1;
    const int height = mask->height > factor ? mask->height / factor : 1;
    if (!image_open(out, width, height, 1, why)) return false;
    memset(out->pixels, 255, size_of(out));
    for (int y = 0; y < mask->height && y / factor < height; y++)
        for (int x = 0; x < mask->width && x / factor < width; x++) {
            const size_t from = (size_t)y * (size_t)mask->width + (size_t)x;
            const size_t to = (size_t)(y / factor) * (size_t)width + (size_t)(x / factor);
            if (mask->pixels[from] != 255) out->pixels[to] = 0;
        }
    return true;
}

// Undistorts and downscales what there is as the view's camera says. A fisheye stays one unless its camera is a pinhole.
static bool resample(const dataset_view *view, int factor, image part[PARTS], fault *why) {
    const bool straighten = view->camera.model == GS_PINHOLE && !lens_is_ideal(&view->optics);
    for (int p = 0; p < PARTS; p++) {
        image changed;
        if (!part[p].pixels) continue;
        if (straighten) {
            if (!lens_undistort(&view->optics, &part[p], &changed, why)) return false;
            replace(&part[p], &changed);
        }
        if (factor == 1) continue;
        if (!(p == MASK ? downscale_mask : image_downscale)(&part[p], factor, &changed, why)) return false;
        replace(&part[p], &changed);
    }
    return true;
}

static bool keep(picture_store *store, image *part, uint8_t **out, fault *why) {
    if (!part->pixels) return true;
    *out = picture_store_keep(store, part->pixels, (size_t)part->channels * size_of(part), why);
    if (*out) part->pixels = NULL;
    return *out;
}

// ---- many files at once

typedef struct reading {
    bool (*read)(void *context, size_t i, fault *why);
    void *context;
    size_t count;
    atomic_size_t next; // the one to read next
    pthread_mutex_t lock;
    size_t failed; // the first that failed; count: none
    fault why;
} reading;

static void *read_items(void *argument) {
    reading *work = argument;
    const size_t count = work->count;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < count;) {
        fault why;
        if (work->read(work->context, i, &why)) continue;
        atomic_store(&work->next, count); // all before this one are read or being read
        pthread_mutex_lock(&work->lock);
        if (i < work->failed) {
            work->failed = i;
            work->why = why;
        }
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

// Calls read(context, i, why) for i = 0..count - 1, on all CPU cores. Fails with the message of the first i, by number,
// that fails; later ones may then not have been read.
static bool read_in_parallel(size_t count, bool (*read)(void *context, size_t i, fault *why), void *context,
                             fault *why) {
    enum { MAX_HELPERS = 63 };
    pthread_t helpers[MAX_HELPERS];
    reading work = {
        .read = read, .context = context, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER, .failed = count};
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    while (started < MAX_HELPERS && started + 1 < cores && (size_t)started + 1 < count &&
           pthread_create(&helpers[started], NULL, read_items, &work) == 0)
        started++;
    read_items(&work); // on this thread too, so it works where no other starts
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    if (work.failed < count) *why = work.why;
    return work.failed == count;
}

// ---- loading

// What is said of pictures in one line for all.
enum { RESIZED, MASK_RESIZED, MENDED, REMARKS };

typedef struct loading {
    const char *folder; // of the data
    char pictures[PATH_ROOM];
    const dataset_options *options;
    dataset *data;
    atomic_size_t with_alpha; // pictures
} loading;

// Makes RGB of the picture. Its alpha becomes its mask, or is blended and, if wanted, kept.
static bool separate_alpha(loading *work, const char *path, image part[PARTS], fault *why) {
    const dataset_options *options = work->options;
    image *const picture = &part[PICTURE];
    if (picture->channels != 4)
        return !options->mask_from_alpha || fail(why, "%s: has no alpha channel to make a mask of", path);
    if (options->mask_from_alpha) {
        if (!mask_by_alpha(picture, &part[MASK], why)) return false;
    } else {
        atomic_fetch_add(&work->with_alpha, 1);
        if (options->keep_alpha && !alpha_of(picture, &part[ALPHA], why)) return false;
    }
    blend_with(options->mask_from_alpha ? NULL : options->background, picture);
    return true;
}

static bool load_parts(loading *work, dataset_view *view, const char *path, image part[PARTS], fault *why) {
    char mask[PATH_ROOM];
    picture_store *const store = &work->data->store;
    fault reason;
    if (!image_read(path, &part[PICTURE], why)) return false;
    view->mended = part[PICTURE].mended;
    if (view->mask_path && (!path_join(mask, work->folder, view->mask_path, why) ||
                            !read_mask(mask, &part[PICTURE], &part[MASK], &view->mask_resized, why)))
        return false;
    const int size[2] = {part[PICTURE].width, part[PICTURE].height}, factor = work->options->downscale;
    if (!separate_alpha(work, path, part, why)) return false;
    if (!complete_camera(work->options->undistort, size, view, &reason) ||
        !resample(view, factor, part, &reason))
        return fail(why, "%s: %s", path, reason.text);
    size_t counted = 0;
    const image *const kept = &part[MASK];
    for (size_t i = 0; kept->pixels && i < size_of(kept); i++) {
        kept->pixels[i] = kept->pixels[i] == 255 ? 255 : 0;
        counted += kept->pixels[i] != 0;
    }
    if (kept->pixels && counted == 0) return fail(why, "%s: its mask leaves no pixel that counts", path);
    const image picture = part[PICTURE];
    view->picture = (image){.width = picture.width, .height = picture.height, .channels = picture.channels};
    return (keep(store, &part[PICTURE], &view->picture.pixels, &reason) &&
            keep(store, &part[ALPHA], &view->alpha, &reason) &&
            keep(store, &part[MASK], &view->mask, &reason)) ||
           fail(why, "%s: %s", path, reason.text);
}

static bool load_view(void *context, size_t i, fault *why) {
    loading *work = context;
    const dataset_options *options = work->options;
    dataset_view *view = &work->data->views[i];
    int size[2] = {view->optics.width, view->optics.height};
    char path[PATH_ROOM];
    image part[PARTS] = {{0}};
    fault reason;
    bool done = path_join(path, work->pictures, view->name, why);
    if (!options->wanted || options->wanted(i, view->name, options->context)) {
        done = done && load_parts(work, view, path, part, why);
    } else {
        const bool open = size[0] == 0 || size[1] == 0; // the picture says the size
        done = done && (!open || image_read(path, &part[PICTURE], why));
        if (open) size[0] = part[PICTURE].width, size[1] = part[PICTURE].height;
        done = done && (complete_camera(options->undistort, size, view, &reason) ||
                        fail(why, "%s: %s", open ? path : view->name, reason.text));
    }
    if (done) dataset_downscale_camera(&view->camera, options->downscale);
    for (int p = 0; p < PARTS; p++) image_close(&part[p]);
    return done;
}

// Moves views and points.
static bool move_to_dataset(reconstruction *source, dataset *out, fault *why) {
    out->points = malloc((source->point_count + 1) * sizeof *out->points);
    out->colors = malloc((source->point_count + 1) * sizeof *out->colors);
    out->picture_folder = strdup(source->pictures);
    if (!out->points || !out->colors || !out->picture_folder)
        return fail(why, "no memory for %zu points", source->point_count);
    out->view_count = source->view_count, out->point_count = source->point_count;
    for (size_t i = 0; i < out->point_count; i++) {
        for (int k = 0; k < 3; k++) out->points[i][k] = (float)source->points[i].place[k];
        memcpy(out->colors[i], source->points[i].color, sizeof *out->colors);
    }
    out->views = source->views, out->tracks = source->tracks, out->track_count = source->track_count;
    source->views = NULL, source->view_count = 0, source->tracks = NULL;
    memcpy(out->offset, source->offset, sizeof out->offset);
    return true;
}

// Adds FOLDER/NAME, or FOLDER if the name is NULL, to the files of the data.
static void add_file(dataset *out, const char *folder, const char *name) {
    char path[PATH_ROOM];
    fault ignored; // a path that is too long is no file
    if (name && !path_join(path, folder, name, &ignored)) return;
    if (file_id_of(name ? path : folder, &out->files[out->file_count])) out->file_count++;
}

static bool add_files(dataset *out, const reconstruction *source, const char *folder, const char *pictures,
                      fault *why) {
    static const char *const names[] = {"cameras.bin",          "images.bin",      "cameras.txt",
                                        "images.txt",           "transforms.json", "transforms_train.json",
                                        "transforms_test.json", "points3D.bin",    "points3D.txt"};
    const size_t name_count = sizeof names / sizeof *names;
    char model[PATH_ROOM]; // the folder of the file that lists the views
    out->files = calloc(name_count + 1 + 2 * out->view_count, sizeof *out->files);
    if (!out->files) return fail(why, "no memory for %zu views", out->view_count);
    strcpy(model, source->file);
    *strrchr(model, '/') = '\0';
    for (size_t i = 0; i < name_count; i++) add_file(out, model, names[i]);
    if (source->points_file) add_file(out, source->points_file, NULL);
    for (size_t i = 0; i < out->view_count; i++) {
        add_file(out, pictures, out->views[i].name);
        if (out->views[i].mask_path) add_file(out, folder, out->views[i].mask_path);
    }
    return true;
}

// Says what there is instead of cameras.
static bool fail_without(const char *folder, fault *why) {
    char images[PATH_ROOM];
    size_t photographs = 0;
    tally heic = {0};
    fault ignored;
    if (!path_join(images, folder, "images", &ignored)) *images = '\0';
    for (int i = 0; i < 2; i++) {
        struct dirent **entries = NULL;
        const int count = scandir(i == 0 ? folder : images, &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            const char *const dot = strrchr(entries[k]->d_name, '.');
            photographs += (size_t)photograph_is(entries[k]);
            if (dot && (strcasecmp(dot, ".heic") == 0 || strcasecmp(dot, ".heif") == 0))
                tally_add(&heic, entries[k]->d_name);
        }
        photographs_close(entries, count);
    }
    if (heic.count > photographs)
        return fail(
            why,
            "%s: has %zu HEIC files (the first: '%s'), which cannot be read: make JPEGs of them, as by "
            "`magick mogrify -format jpg *.heic`, and find their cameras by `dsplat poses`",
            folder, heic.count, heic.first);
    if (photographs > 0)
        return fail(
            why,
            "%s: has photographs, but neither a COLMAP model nor a transforms.json; `dsplat poses %s -o DATA` "
            "finds their cameras",
            folder, folder);
    return fail(
        why,
        "%s: has neither a COLMAP model (cameras.bin or cameras.txt, in sparse/0 and the like, sparse, "
        "colmap/sparse/0, distorted/sparse/0 or the folder itself) nor transforms_train.json nor "
        "transforms.json",
        folder);
}

static bool find_and_read(const char *folder, const dataset_options *options, reconstruction *out,
                          fault *why) {
    struct stat status;
    char model[PATH_ROOM];
    *out = (reconstruction){0};
    if (stat(folder, &status) != 0) return fail(why, "%s: cannot open: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode)) return fail(why, "%s: not a folder", folder);
    if (colmap_find(folder, false, model)) return colmap_load(model, options->with_tracks, out, why);
    if (transforms_are_in(folder)) return transforms_load(folder, out, why);
    return colmap_find(folder, true, model) ? colmap_load(model, options->with_tracks, out, why)
                                            : fail_without(folder, why);
}

// One line for each kind.
static void say_remarks(const dataset *data, const char *folder) {
    tally remarks[REMARKS] = {{0}};
    static const char *const text[REMARKS] = {
        "pictures have another size than their camera, which is fitted to them",
        "masks have another size than their picture, and are stretched to it",
        "pictures are damaged, but their rows are whole"};
    for (size_t i = 0; i < data->view_count; i++) {
        const dataset_view *const view = &data->views[i];
        const bool has[REMARKS] = {view->picture.pixels && view->resized, view->mask_resized, view->mended};
        for (int r = 0; r < REMARKS; r++)
            if (has[r]) tally_add(&remarks[r], view->name);
    }
    for (int r = 0; r < REMARKS; r++) tally_say(&remarks[r], folder, data->view_count, text[r]);
}

bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why) {
    *out = (dataset){.store = {.most = options->memory}};
    reconstruction source;
    if (options->downscale < 1)
        return fail(why, "cannot divide the pictures' size by %d", options->downscale);
    loading work = {.folder = folder, .options = options, .data = out};
    bool loaded = find_and_read(folder, options, &source, why) &&
                  reconstruction_settle(&source, folder, options->wanted == dataset_no_picture, why);
    const char *const inside = source.pictures;
    if (loaded &&
        snprintf(work.pictures, PATH_ROOM, "%s%s%s", folder, *inside ? "/" : "", inside) >= PATH_ROOM)
        loaded = fail(why, "%.200s...: the path is too long", folder);
    loaded =
        loaded && move_to_dataset(&source, out, why) && add_files(out, &source, folder, work.pictures, why);
    if (loaded) {
        loaded = read_in_parallel(out->view_count, load_view, &work, why);
        if (loaded) dataset_set_near_planes(&out->views->camera, sizeof *out->views, out->view_count);
        if (loaded) say_remarks(out, folder);
        out->is_object = work.with_alpha == out->view_count;
    }
    reconstruction_close(&source);
    if (!loaded) dataset_close(out);
    return loaded;
}

// ---- depth maps

static const char *const depth_suffixes[] = {".png", ".PNG", ".pfm", ".PFM", NULL};

typedef struct map_loading {
    const char *folder;
    const dataset_options *options;
    depth_maps_of of;
    dataset *data;
} map_loading;

static bool is_asked(const dataset_view *view, depth_maps_of of) {
    return of == DEPTH_MAPS_ALL || view->held_out == (of == DEPTH_MAPS_HELD_OUT);
}

// Treats the map as the picture was treated: undistorts it unless its camera is a fisheye, then downscales it.
static bool resample_map(const dataset_view *view, int factor, plane *map, fault *why) {
    plane changed;
    if (view->camera.model == GS_PINHOLE && !lens_is_ideal(&view->optics)) {
        if (!lens_undistort_plane(&view->optics, map, &changed, why)) return false;
        plane_close(map);
        *map = changed;
    }
    if (factor > 1) {
        if (!plane_downscale(map, factor, &changed, why)) return false;
        plane_close(map);
        *map = changed;
    }
    return true;
}

static bool mark_unknown(plane *map, fault *why) {
    size_t known = 0;
    for (size_t i = 0; i < plane_size(map); i++) {
        if (isfinite(map->values[i]))
            known++;
        else
            map->values[i] = NAN;
    }
    return known > 0 || fail(why, "none of its values is finite");
}

static bool load_map(void *context, size_t i, fault *why) {
    const map_loading *work = context;
    dataset_view *view = &work->data->views[i];
    char path[PATH_ROOM];
    plane map = {0};
    if (!is_asked(view, work->of)) return true;
    if (!picture_file_find(work->folder, view->name, depth_suffixes, path)) {
        const char *const name = view->name, *const dot = strrchr(name, '.');
        const int stem = (int)(dot ? (size_t)(dot - name) : strlen(name));
        return fail(
            why,
            "%s: has no depth map of the picture %s, neither %s.png nor %.*s.png nor %s.pfm nor %.*s.pfm",
            work->folder, name, name, stem, name, name, stem, name);
    }
    if (!plane_read(path, &map, why)) return false;
    fault wrong;
    bool done = map.width == view->optics.width && map.height == view->optics.height;
    if (!done)
        fail(&wrong, "the depth map has %d x %d values, its picture %d x %d", map.width, map.height,
             view->optics.width, view->optics.height);
    done = done && mark_unknown(&map, &wrong) && resample_map(view, work->options->downscale, &map, &wrong) &&
           mark_unknown(&map, &wrong);
    const size_t bytes = done ? plane_size(&map) * sizeof(float) : 0;
    float *const kept = done ? picture_store_keep(&work->data->store, map.values, bytes, &wrong) : NULL;
    if (!kept) {
        plane_close(&map);
        return fail(why, "%s: %s", path, wrong.text);
    }
    picture_store_free(&work->data->store, view->depth);
    view->depth = kept;
    return true;
}

bool depth_maps_load(dataset *data, const char *folder, const dataset_options *options, depth_maps_of of,
                     fault *why) {
    map_loading work = {folder, options, of, data};
    file_id *files = realloc(data->files, (data->file_count + data->view_count) * sizeof *files);
    if (!files) return fail(why, "no memory for %zu views", data->view_count);
    data->files = files;
    for (size_t i = 0; i < data->view_count; i++) {
        char path[PATH_ROOM]; // loading says what is missing
        if (is_asked(&data->views[i], of) &&
            picture_file_find(folder, data->views[i].name, depth_suffixes, path))
            add_file(data, path, NULL);
    }
    return read_in_parallel(data->view_count, load_map, &work, why);
}

// ---- photographs

int photograph_is(const struct dirent *entry) {
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png"};
    const char *const dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; dot && dot > entry->d_name && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return 1;
    return 0;
}

void photographs_close(struct dirent **entries, int count) {
    if (count < 0) return;
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}
