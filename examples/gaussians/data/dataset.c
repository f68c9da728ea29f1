// SPDX-License-Identifier: MIT
#include "dataset.h"
#include "images/image.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
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

// Bits of a view's remarks: the lens was scaled to the picture's size; the mask was; the picture's file is damaged, but no
// row is lost; its alpha was blended.
enum { RESIZED, MASK_RESIZED, MENDED, TRANSPARENT };

// The camera of a picture that has this size. view->optics: its complete lens.
static bool complete_camera(bool undistort, const int size[2], dataset_view *view, fault *why) {
    lens_complete(&view->optics, size[0], size[1]);
    if (!lens_check(&view->optics, why)) return fail(why, "the camera has %s", why->text);
    const lens of_file = view->optics;
    const bool turned = size[0] == of_file.height && size[1] == of_file.width;
    const bool resized = of_file.width != size[0] || of_file.height != size[1];
    view->remarks |= (unsigned)resized << RESIZED;
    if (resized && !lens_resize(&view->optics, size[0], size[1]))
        return fail(why, "the picture has %d x %d pixels, its camera %d x %d%s", size[0], size[1],
                    of_file.width, of_file.height,
                    turned
                        ? ": swap the camera's sides, or turn the pixels (EXIF orientations are not applied)"
                        : "");
    view->camera = lens_camera(&view->optics, undistort);
    for (int k = 0; k < 9; k++) view->camera.rotation[k] = (float)view->rotation[k];
    for (int k = 0; k < 3; k++) view->camera.translation[k] = (float)view->translation[k];
    return true;
}

// ---- a picture, and maps of its pixels

enum { ALPHA, MASK, DEPTH, MAPS }; // alpha: 0..255; mask: NaN where a pixel does not count

typedef struct photograph {
    image picture;
    plane map[MAPS]; // without values if there is none
} photograph;

// Reads the mask of a picture: black pixels do not count, all others do. One of another size is stretched to the
// picture's, if both are of one shape.
static bool read_mask(const char *path, const image *picture, plane *out, unsigned *remarks, fault *why) {
    image mask;
    if (!image_read(path, &mask, why)) return false;
    lens shape = {.width = mask.width, .height = mask.height};
    const bool resized = mask.width != picture->width || mask.height != picture->height;
    *remarks |= (unsigned)resized << MASK_RESIZED;
    bool done = mask.channels == GS_CHANNELS || fail(why, "%s: a mask must not have an alpha channel", path);
    if (done && resized && !lens_resize(&shape, picture->width, picture->height))
        done = fail(why, "%s: the mask has %d x %d pixels, its picture %d x %d", path, mask.width,
                    mask.height, picture->width, picture->height);
    done = done && plane_open(out, picture->width, picture->height, why);
    for (size_t i = 0; done && i < plane_size(out); i++) {
        const size_t x = i % out->width * mask.width / out->width,
                     y = i / out->width * mask.height / out->height;
        const uint8_t *const pixel = mask.pixels + GS_CHANNELS * (y * mask.width + x);
        if (!pixel[0] && !pixel[1] && !pixel[2]) out->values[i] = NAN;
    }
    image_close(&mask);
    return done;
}

// Makes RGB of the picture, in place. Its alpha goes to its mask, or is blended over the background and, if wanted, kept. It
// is not premultiplied, as in PNG.
static bool separate_alpha(const dataset_options *options, photograph *p, fault *why) {
    const bool to_mask = options->mask_from_alpha, kept = to_mask || options->keep_alpha;
    plane *const to = &p->map[to_mask ? MASK : ALPHA];
    image *const picture = &p->picture;
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    if (kept && !to->values && !plane_open(to, picture->width, picture->height, why)) return false;
    for (size_t i = 0; i < pixels; i++) {
        const uint8_t *const rgba = picture->pixels + 4 * i;
        const float alpha = to_mask ? 1 : rgba[3] / 255.0f;
        if (to_mask ? rgba[3] == 0 : kept) to->values[i] = to_mask ? NAN : rgba[3];
        for (size_t c = 0; c < GS_CHANNELS; c++)
            picture->pixels[GS_CHANNELS * i + c] =
                (uint8_t)(rgba[c] * alpha + 255.0f * options->background[c] * (1.0f - alpha) + 0.5f);
    }
    picture->channels = GS_CHANNELS;
    return true;
}

static void photograph_close(photograph *p) {
    image_close(&p->picture);
    for (int m = 0; m < MAPS; m++) plane_close(&p->map[m]);
}

// Undistorts and downscales all that there is, as the view's camera says: a fisheye stays one unless its camera is a
// pinhole.
static bool resample(const dataset_view *view, int factor, photograph *p, fault *why) {
    const lens *const optics = &view->optics;
    const bool bent = view->camera.model == GS_PINHOLE && !lens_is_ideal(optics);
    bool done = true;
    // First undistorted, then made smaller, so that the means of blocks are of straight pixels. The step before is freed
    // at once: photographs are large, and each core has one.
    for (int small = !bent; small < (factor > 1 ? 2 : 1) && done; small++) {
        photograph next = {.picture = {0}};
        if (p->picture.pixels)
            done = small ? image_downscale(&p->picture, factor, &next.picture, why)
                         : lens_undistort(optics, &p->picture, &next.picture, why);
        for (int m = 0; m < MAPS && done; m++)
            if (p->map[m].values)
                done = small ? plane_downscale(&p->map[m], factor, &next.map[m], why)
                             : lens_undistort_plane(optics, &p->map[m], &next.map[m], why);
        photograph_close(p);
        *p = next;
    }
    return done;
}

// Keeps a map as bytes: 0 for NaN, else `known`, or the value where `known` is 0.
static bool keep_map(picture_store *store, const plane *map, uint8_t known, uint8_t **out, fault *why) {
    const size_t size = map->values ? plane_size(map) : 0;
    if (size == 0) return true;
    uint8_t *const bytes = malloc(size);
    if (!bytes) return fail(why, "no memory for %zu pixels", size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = isnan(map->values[i]) ? 0 : known ? known : (uint8_t)(map->values[i] + 0.5f);
    *out = picture_store_keep(store, bytes, size, why);
    if (!*out) free(bytes);
    return *out;
}

// ---- many files at once

typedef struct loading {
    const char *folder, *pictures; // of the data, or of depth maps; of the pictures
    const dataset_options *options;
    depth_maps_of of;
    dataset *data;
    // Of read_all:
    bool (*read)(struct loading *work, size_t i, fault *why); // what belongs to view i
    pthread_mutex_t lock;
    size_t next, failed; // next: the one to read next; failed: the first that failed
    fault why;
} loading;

static void *read_some(void *argument) {
    loading *const work = argument;
    pthread_mutex_lock(&work->lock);
    while (work->next < work->data->view_count) {
        const size_t i = work->next++;
        fault why;
        pthread_mutex_unlock(&work->lock);
        const bool done = work->read(work, i, &why);
        pthread_mutex_lock(&work->lock);
        if (done) continue;
        work->next = work->data->view_count; // all before this one are read or being read
        if (i < work->failed) work->failed = i, work->why = why;
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

// Calls work->read for all views, on all CPU cores. Fails with the message of the first view, by number, that fails; later
// ones may then not have been read.
static bool read_all(loading *work, fault *why) {
    enum { MAX_HELPERS = 63 };
    pthread_t helpers[MAX_HELPERS];
    const size_t count = work->data->view_count;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    pthread_mutex_init(&work->lock, NULL);
    work->next = 0, work->failed = count;
    while (started < MAX_HELPERS && started + 1 < cores && (size_t)started + 1 < count &&
           pthread_create(&helpers[started], NULL, read_some, work) == 0)
        started++;
    read_some(work); // on this thread too, so it works where no other starts
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    if (work->failed < count) *why = work->why;
    return work->failed == count;
}

// ---- loading

// Makes of a picture and its mask what training takes: separates alpha, completes the camera by the picture's size,
// resamples all by that, and keeps what is left in the store, where it may lie in a file.
static bool take_parts(const loading *work, dataset_view *view, photograph *p, fault *why) {
    const dataset_options *const options = work->options;
    picture_store *const store = &work->data->store;
    image *const picture = &p->picture;
    const plane *const mask = &p->map[MASK];
    const int size[2] = {picture->width, picture->height};
    const bool has_alpha = picture->channels == 4, blended = has_alpha && !options->mask_from_alpha;
    view->remarks |= (unsigned)picture->mended << MENDED | (unsigned)blended << TRANSPARENT;
    if (!has_alpha && options->mask_from_alpha) return fail(why, "has no alpha channel to make a mask of");
    if ((has_alpha && !separate_alpha(options, p, why)) ||
        !complete_camera(options->undistort, size, view, why) || !resample(view, options->downscale, p, why))
        return false;
    bool counts = !mask->values;
    for (size_t i = 0; !counts && i < plane_size(mask); i++) counts = !isnan(mask->values[i]);
    if (!counts) return fail(why, "its mask leaves no pixel that counts");
    const size_t bytes = GS_CHANNELS * (size_t)picture->width * (size_t)picture->height;
    view->picture = *picture;
    view->picture.pixels = picture_store_keep(store, picture->pixels, bytes, why);
    if (!view->picture.pixels) return false;
    picture->pixels = NULL;
    return keep_map(store, &p->map[ALPHA], 0, &view->alpha, why) &&
           keep_map(store, mask, 255, &view->mask, why);
}

static bool load_view(loading *work, size_t i, fault *why) {
    const dataset_options *const options = work->options;
    dataset_view *const view = &work->data->views[i];
    const bool wanted = !options->wanted || options->wanted(i, view->name, options->context);
    int size[2] = {view->optics.width, view->optics.height};
    const bool open = size[0] == 0 || size[1] == 0; // the picture says the size
    char path[PATH_ROOM], mask[PATH_ROOM];
    photograph p = {.picture = {0}};
    bool done = path_join(path, work->pictures, view->name, why) &&
                (!(wanted || open) || image_read(path, &p.picture, why));
    if (done && wanted && view->mask_path)
        done = path_join(mask, work->folder, view->mask_path, why) &&
               read_mask(mask, &p.picture, &p.map[MASK], &view->remarks, why);
    if (open) size[0] = p.picture.width, size[1] = p.picture.height;
    done =
        done &&
        ((wanted ? take_parts(work, view, &p, why) : complete_camera(options->undistort, size, view, why)) ||
         fail(why, "%s: %s", path, why->text));
    if (done) dataset_downscale_camera(&view->camera, options->downscale);
    photograph_close(&p);
    return done;
}

// Adds FOLDER/NAME, or FOLDER if the name is NULL, to the files of the data.
static void add_file(dataset *out, const char *folder, const char *name) {
    char path[PATH_ROOM];
    fault ignored; // a path that is too long is no file
    if (name && !path_join(path, folder, name, &ignored)) return;
    if (file_id_of(name ? path : folder, &out->files[out->file_count])) out->file_count++;
}

// Moves views and points, and lists their files.
static bool move_to_dataset(reconstruction *source, const char *folder, dataset *out, fault *why) {
    static const char *const names[] = {"cameras.bin",          "images.bin",      "cameras.txt",
                                        "images.txt",           "transforms.json", "transforms_train.json",
                                        "transforms_test.json", "points3D.bin",    "points3D.txt"};
    const size_t name_count = sizeof names / sizeof *names;
    const char *const inside = source->pictures + strlen(folder);
    char model[PATH_ROOM]; // the folder of the file that lists the views
    out->points = malloc((source->point_count + 1) * sizeof *out->points);
    out->colors = malloc((source->point_count + 1) * sizeof *out->colors);
    out->picture_folder = strdup(*inside ? inside + 1 : inside);
    out->files = calloc(name_count + 1 + 2 * source->view_count, sizeof *out->files);
    if (!out->points || !out->colors || !out->picture_folder || !out->files)
        return fail(why, "no memory for %zu views and %zu points", source->view_count, source->point_count);
    for (size_t i = 0; i < source->point_count; i++) {
        for (int k = 0; k < 3; k++) out->points[i][k] = (float)source->points[i].place[k];
        memcpy(out->colors[i], source->points[i].color, sizeof *out->colors);
    }
    out->views = source->views, out->view_count = source->view_count, out->point_count = source->point_count;
    out->tracks = source->tracks, out->track_count = source->track_count;
    source->views = NULL, source->view_count = 0, source->tracks = NULL;
    memcpy(out->offset, source->offset, sizeof out->offset);
    strcpy(model, source->file);
    *strrchr(model, '/') = '\0';
    for (size_t i = 0; i < name_count; i++) add_file(out, model, names[i]);
    if (source->points_file) add_file(out, source->points_file, NULL);
    for (size_t i = 0; i < out->view_count; i++) {
        add_file(out, source->pictures, out->views[i].name);
        if (out->views[i].mask_path) add_file(out, folder, out->views[i].mask_path);
    }
    return true;
}

// Says what there is instead of cameras.
static bool fail_without(const char *folder, fault *why) {
    static const char *const places[] = {"", "/images"};
    size_t photographs = 0;
    tally heic = {0};
    for (int i = 0; i < 2; i++) {
        char path[PATH_ROOM + 8];
        struct dirent **entries = NULL;
        snprintf(path, sizeof path, "%s%s", folder, places[i]);
        const int count = scandir(path, &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            photographs += (size_t)photograph_is(entries[k]);
            if (picture_is_heic(entries[k]->d_name)) tally_add(&heic, entries[k]->d_name);
        }
        photographs_close(entries, count);
    }
    if (heic.count > photographs)
        return fail(why,
                    "%s: has %zu HEIC files (the first: '%s'), which cannot be read: make JPEGs of them, as "
                    "by `magick mogrify -format jpg *.heic`, and find their cameras by `dsplat poses`",
                    folder, heic.count, heic.first);
    if (photographs > 0)
        return fail(why,
                    "%s: has photographs, but neither a COLMAP model nor a transforms.json; `dsplat poses "
                    "%s -o DATA` finds their cameras",
                    folder, folder);
    return fail(why,
                "%s: has neither a COLMAP model (cameras.bin or cameras.txt, in sparse/0 and the like, "
                "sparse, colmap/sparse/0, distorted/sparse/0 or the folder itself) nor "
                "transforms_train.json nor transforms.json",
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

// Says what was done to pictures, one line for each kind. All with transparency: the data shows an object.
static void say_remarks(dataset *data, const char *folder) {
    static const char *const lines[] = {
        [RESIZED] = "pictures have another size than their camera, which is fitted to them",
        [MASK_RESIZED] = "masks have another size than their picture, and are stretched to it",
        [MENDED] = "pictures are damaged, but their rows are whole"};
    for (int bit = RESIZED; bit <= TRANSPARENT; bit++) {
        tally with = {0};
        for (size_t i = 0; i < data->view_count; i++)
            if (data->views[i].picture.pixels && data->views[i].remarks >> bit & 1)
                tally_add(&with, data->views[i].name);
        if (bit != TRANSPARENT) tally_say(&with, folder, data->view_count, lines[bit]);
        data->is_object = bit == TRANSPARENT && with.count == data->view_count;
    }
}

bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why) {
    *out = (dataset){.store = {.most = options->memory}};
    reconstruction source;
    if (options->downscale < 1)
        return fail(why, "cannot divide the pictures' size by %d", options->downscale);
    loading work = {folder, source.pictures, .options = options, .data = out, .read = load_view};
    bool loaded = find_and_read(folder, options, &source, why) &&
                  reconstruction_settle(&source, folder, options->wanted == dataset_no_picture, why);
    loaded = loaded && move_to_dataset(&source, folder, out, why) && read_all(&work, why);
    if (loaded) dataset_set_near_planes(&out->views->camera, sizeof *out->views, out->view_count);
    if (loaded) say_remarks(out, folder);
    reconstruction_close(&source);
    if (!loaded) dataset_close(out);
    return loaded;
}

// ---- depth maps

static const char *const depth_suffixes[] = {".png", ".PNG", ".pfm", ".PFM", NULL};

static bool is_asked(const dataset_view *view, depth_maps_of of) {
    return of == DEPTH_MAPS_ALL || view->held_out == (of == DEPTH_MAPS_HELD_OUT);
}

static bool mark_unknown(plane *map, fault *why) {
    size_t known = 0;
    for (size_t i = 0; i < plane_size(map); i++) {
        known += isfinite(map->values[i]) != 0;
        if (!isfinite(map->values[i])) map->values[i] = NAN;
    }
    return known > 0 || fail(why, "none of its values is finite");
}

static bool load_map(loading *work, size_t i, fault *why) {
    dataset_view *const view = &work->data->views[i];
    char path[PATH_ROOM];
    photograph p = {.picture = {0}};
    plane *const map = &p.map[DEPTH];
    if (!is_asked(view, work->of)) return true;
    if (!file_find(work->folder, view->name, depth_suffixes, path))
        return fail(why, "%s: has no depth map of the picture %s, a PNG or PFM named after it or its stem",
                    work->folder, view->name);
    if (!plane_read(path, map, why)) return false;
    float *kept = NULL;
    if (map->width != view->optics.width || map->height != view->optics.height)
        fail(why, "the depth map has %d x %d values, its picture %d x %d", map->width, map->height,
             view->optics.width, view->optics.height);
    else if (mark_unknown(map, why) && resample(view, work->options->downscale, &p, why) &&
             mark_unknown(map, why))
        kept = picture_store_keep(&work->data->store, map->values, plane_size(map) * sizeof *kept, why);
    if (kept) {
        picture_store_free(&work->data->store, view->depth);
        view->depth = kept;
        return true;
    }
    photograph_close(&p);
    return fail(why, "%s: %s", path, why->text);
}

bool depth_maps_load(dataset *data, const char *folder, const dataset_options *options, depth_maps_of of,
                     fault *why) {
    loading work = {.folder = folder, .options = options, .of = of, .data = data, .read = load_map};
    file_id *files = realloc(data->files, (data->file_count + data->view_count) * sizeof *files);
    if (!files) return fail(why, "no memory for %zu views", data->view_count);
    data->files = files;
    for (size_t i = 0; i < data->view_count; i++) {
        char path[PATH_ROOM]; // loading says what is missing
        if (is_asked(&data->views[i], of) && file_find(folder, data->views[i].name, depth_suffixes, path))
            add_file(data, path, NULL);
    }
    return read_all(&work, why);
}

// ---- photographs

int photograph_is(const struct dirent *entry) {
    const char *const dot = strrchr(entry->d_name, '.');
    return dot && dot > entry->d_name &&
           (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg") || !strcasecmp(dot, ".png"));
}

void photographs_close(struct dirent **entries, int count) {
    if (count < 0) return;
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}
