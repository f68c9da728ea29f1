// SPDX-License-Identifier: MIT
// Pictures and quality of a scene in parts while it is trained. The ranks that render rows of a view measure these.
#include "device.h"
#include "parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The first pixel row of a part, and how many there are.
static int pixel_rows(const part_image *part, int *first) {
    const int end = part->rows.end * GS_TILE_SIZE;
    *first = part->rows.begin * GS_TILE_SIZE;
    return (end < part->height ? end : part->height) - *first;
}

// The part's rows as a picture.
static bool download_rows(ranks *group, const part_image *part, gs_stream stream, image *out) {
    int first;
    const int rows = pixel_rows(part, &first);
    const size_t width = (size_t)part->width, plane = width * (size_t)rows,
                 whole = width * (size_t)part->height;
    float *const color = malloc(GS_CHANNELS * plane * sizeof *color);
    fault why;
    if (!color) return ranks_fail(group, "no memory for a picture of %d x %d", part->width, rows);
    bool done = ranks_wait(group, stream);
    for (size_t c = 0; done && c < GS_CHANNELS; c++)
        device_download(color + c * plane, part->color + c * whole + (size_t)first * width,
                        plane * sizeof *color);
    done =
        done && (image_from_planes(color, part->width, rows, out, &why) || ranks_fail(group, "%s", why.text));
    free(color);
    return done;
}

// One view, which all ranks render together.
static bool render(const training_state *state, const shown_views *shown, size_t index,
                   bool (*look)(ranks *, void *, const part_image *, gs_stream), void *context) {
    part_batch batch = {.gaussians = state->gaussians,
                        .sh_degree_used = state->gaussians.sh_degree,
                        .views = 1,
                        .cameras = &shown->views[index].camera,
                        .policy = shown->policy,
                        .loss = look,
                        .context = context};
    memcpy(batch.background, shown->background, sizeof batch.background);
    return parts_render(state->kept, &batch, NULL);
}

// ---- quality

// Of the rows of a view that this rank renders: the share of SSIM, squared differences, values that count.
enum { VALUES = 3 };
typedef struct measurement {
    picture_cache *pictures;
    size_t index;
    double *values;          // [VALUES]
    device_buffer workspace; // of libgs_loss_rows, after its 3 results
} measurement;

static bool measure_rows(ranks *group, void *context, const part_image *part, gs_stream stream) {
    enum { RESULT_ROOM = 256 };
    measurement *const m = context;
    if (!picture_cache_has(m->pictures, m->index) && !ranks_wait(group, stream)) return false;
    const target_view *const view = picture_cache_view(m->pictures, m->index);
    const gs_comparison images = {part->width, part->height, part->color, view->pixels, view->mask};
    double result[3]; // loss, mean absolute difference, SSIM
    size_t bytes = 0;
    GS_OR_FAIL(group, gs_loss_bytes(part->width, part->height, &bytes));
    char *const memory = device_buffer_reserve(&m->workspace, RESULT_ROOM + bytes);
    GS_OR_FAIL(group, libgs_loss_rows(&images, part->rows, memory + RESULT_ROOM, bytes,
                                      (double *)(void *)memory, NULL, stream));
    image seen;
    if (!download_rows(group, part, stream, &seen)) return false;
    device_download(result, memory, sizeof result);
    int first;
    image wanted = *view->picture;
    wanted.height = pixel_rows(part, &first);
    wanted.pixels += (size_t)first * (size_t)wanted.width * (size_t)wanted.channels;
    const uint8_t *const mask = view->mask_on_host;
    uint64_t sum, counted;
    image_squared_error(&seen, &wanted, mask ? mask + (size_t)first * (size_t)part->width : NULL, &sum,
                        &counted);
    m->values[0] += isnan(result[2]) ? NAN : result[2]; // of colours that overflow: NaN without a sign
    m->values[1] += (double)sum;
    m->values[2] += (double)counted;
    image_close(&seen);
    return true;
}

// PSNR does not depend on the number of ranks, SSIM but for rounding of doubles.
bool parts_measure(const training_state *state, const shown_views *shown, size_t first, size_t count,
                   quality *mean, quality *each) {
    double *const values = calloc(VALUES * count + 1, sizeof(double));
    measurement m = {.pictures = shown->pictures};
    bool done = values || ranks_fail(state->group, "no memory for the quality of %zu views", count);
    for (size_t i = 0; i < count && done; i++) {
        m.index = first + i, m.values = values + VALUES * i;
        picture_cache_next_step(shown->pictures);
        done = render(state, shown, m.index, measure_rows, &m);
    }
    done = done && ranks_sum(state->group, values, VALUES * count);
    quality sum = {0, 0};
    for (size_t i = 0; i < count && done; i++) {
        const double *const of = values + VALUES * i;
        const quality one = {image_psnr_of(of[1], of[2]), of[0]};
        if (each) each[i] = one;
        sum.psnr += one.psnr, sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    device_buffer_close(&m.workspace);
    free(values);
    return done;
}

// ---- pictures

// The picture's bytes of this rank's part; zeros elsewhere.
static bool keep_part(ranks *group, void *context, const part_image *part, gs_stream stream) {
    const image *const out = context;
    image seen;
    int first;
    if (!download_rows(group, part, stream, &seen)) return false;
    const size_t row = 3 * (size_t)part->width;
    const int rows = pixel_rows(part, &first);
    memcpy(out->pixels + (size_t)first * row, seen.pixels, (size_t)rows * row);
    image_close(&seen);
    return true;
}

// Each byte is 0 on all ranks but one, so that integers of eight bytes add up without a carry.
static bool combine_bytes(ranks *group, image *picture) {
    const size_t count = 3 * (size_t)picture->width * (size_t)picture->height, words = (count + 7) / 8;
    char *const memory = device_allocate(8 * words);
    device_clear(memory, 8 * words);
    device_upload(memory, picture->pixels, count);
    const ranks_reduction sum = {memory, (int64_t)words, RANKS_INT64, RANKS_SUM};
    const bool done = ranks_all_reduce(group, &sum, NULL) && ranks_wait(group, NULL);
    if (done) device_download(picture->pixels, memory, count);
    device_free(memory);
    return done;
}

bool parts_picture(const training_state *state, const shown_views *shown, size_t index, image *out) {
    const gs_camera *const camera = &shown->views[index].camera;
    fault why;
    *out = (image){0};
    if (!image_open(out, camera->width, camera->height, 3, &why)) return ranks_fail_with(state->group, &why);
    memset(out->pixels, 0, 3 * (size_t)camera->width * (size_t)camera->height);
    if (render(state, shown, index, keep_part, out) && combine_bytes(state->group, out)) return true;
    image_close(out);
    return false;
}
