// SPDX-License-Identifier: MIT
// What a trainer starts from.
#include "dataset.h"
#include "colmap.h"
#include "path.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void dataset_free(dataset *data) {
    for (size_t i = 0; i < data->view_count; i++) {
        free(data->views[i].name);
        image_free(&data->views[i].picture);
    }
    free(data->views);
    free(data->points);
    free(data->colors);
    *data = (dataset){0};
}

void dataset_hold_out(dataset *data, size_t every) {
    for (size_t i = 0; i < data->view_count; i++)
        if (data->views[i].held_out) return;
    for (size_t i = 0; every > 0 && i < data->view_count; i += every) data->views[i].held_out = true;
}

// RGBA to RGB, in place. Alpha is straight, as PNG has it.
static void put_on(const float background[3], image *picture) {
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    for (size_t i = 0; i < pixels; i++) {
        const float alpha = picture->pixels[4 * i + 3] / 255.0f;
        for (size_t c = 0; c < 3; c++)
            picture->pixels[3 * i + c] = (uint8_t)(picture->pixels[4 * i + c] * alpha +
                                                   255.0f * background[c] * (1.0f - alpha) + 0.5f);
    }
    picture->channels = 3;
}

static bool downscale_view(dataset_view *view, int factor, fault *why) {
    image small;
    if (!image_downscale(&view->picture, factor, &small, why)) return false;
    gs_camera *camera = &view->camera;
    // A pixel is now a block; what was cut off at the right and below moves nothing.
    const float block_x = (float)(factor < camera->width ? factor : camera->width);
    const float block_y = (float)(factor < camera->height ? factor : camera->height);
    camera->fx /= block_x;
    camera->cx /= block_x;
    camera->fy /= block_y;
    camera->cy /= block_y;
    camera->width = small.width;
    camera->height = small.height;
    image_free(&view->picture);
    view->picture = small;
    return true;
}

static bool load_picture(const char *folder, const dataset_options *options, dataset_view *view, fault *why) {
    char path[PATH_ROOM];
    if (!path_join(path, folder, view->name, why) || !image_read(path, &view->picture, why)) return false;
    if (view->picture.width != view->camera.width || view->picture.height != view->camera.height)
        return fail(why, "%s: the picture has %d x %d pixels, its camera %d x %d", path, view->picture.width,
                    view->picture.height, view->camera.width, view->camera.height);
    if (view->picture.channels == 4) put_on(options->background, &view->picture);
    if (options->downscale > 1 && !downscale_view(view, options->downscale, why))
        return fail(why, "%s: %s", path, why->text);
    return true;
}

typedef struct loading {
    const char *folder;
    const dataset_options *options;
    dataset *data;
    atomic_size_t next; // view to take
    pthread_mutex_t lock;
    size_t failed; // the first view that failed, by order of views; view_count: none
    fault why;
} loading;

static void *load_pictures(void *argument) {
    loading *work = argument;
    const size_t count = work->data->view_count;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < count;) {
        fault why;
        if (load_picture(work->folder, work->options, &work->data->views[i], &why)) continue;
        atomic_store(&work->next, count); // views before this one are all taken and will be finished
        pthread_mutex_lock(&work->lock);
        if (i < work->failed) {
            work->failed = i;
            work->why = why;
        }
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why) {
    *out = (dataset){0};
    char model[PATH_ROOM], images[PATH_ROOM];
    if (options->downscale < 1)
        return fail(why, "cannot divide the pictures' size by %d", options->downscale);
    if (!path_join(model, folder, "sparse/0", why) || !path_join(images, folder, "images", why) ||
        !colmap_load(model, out, why))
        return false;
    loading work = {.folder = images,
                    .options = options,
                    .data = out,
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .failed = out->view_count};
    enum { MAX_HELPERS = 15 };
    pthread_t helpers[MAX_HELPERS];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    while (started < MAX_HELPERS && started + 1 < cores && (size_t)started + 1 < out->view_count &&
           pthread_create(&helpers[started], NULL, load_pictures, &work) == 0)
        started++;
    load_pictures(&work); // this thread too, so it also works where no other can be started
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    if (out->view_count == 0) {
        fail(why, "%s/images.bin: has no images", model);
    } else if (work.failed == out->view_count) {
        return true;
    } else {
        *why = work.why;
    }
    dataset_free(out);
    return false;
}
