// SPDX-License-Identifier: MIT
// The loss of rows of an image reads pixels above and below them, which other ranks render.
#include "sharded_parts.h"

// The pixels that this rank and another exchange at a border between their parts of a view. Two ranks have one border
// in common at most: their shares are ranges of rows.
typedef struct border {
    int rank; // the other
    float *image;
    int32_t out, out_rows, in, in_rows; // of pixels
} border;

static int rank_of(const sharded *s, int p) {
    int r = 0;
    while (p >= s->out.begin[r + 1]) r++;
    return r;
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

// The borders of this rank's k-th part. Returns their number. A part has GS_TILE_SIZE rows of pixels or more, or is the
// last of its image, so that no part beyond the next is needed.
static int borders_of(const sharded *s, int k, border *out) {
    _Static_assert((int)GS_LOSS_HALO <= (int)GS_TILE_SIZE, "the halo lies in the next part");
    const own_part *const part = &s->own[k];
    const int32_t height = s->home.camera.height, first = part->part.rows.begin * GS_TILE_SIZE,
                  last = smaller(part->part.rows.end * GS_TILE_SIZE, height),
                  rows = smaller(last - first, GS_LOSS_HALO);
    int count = 0;
    if (first > 0)
        out[count++] = (border){rank_of(s, part->number - 1),
                                part->view.image.color,
                                first,
                                rows,
                                first - GS_LOSS_HALO,
                                GS_LOSS_HALO};
    if (last < height)
        out[count++] =
            (border){rank_of(s, part->number + 1),        part->view.image.color, last - rows, rows, last,
                     smaller(GS_LOSS_HALO, height - last)};
    return count;
}

static int64_t row_bytes(const sharded *s) {
    return s->home.camera.width * (int64_t)sizeof(float);
}

// Moves rows between an image and memory where the rows of its channels follow one another.
static bool copy_rows(sharded *s, float *image, int32_t row, int32_t rows, char *packed, bool packs) {
    const int64_t width = s->home.camera.width, plane = width * s->home.camera.height,
                  bytes = rows * row_bytes(s);
    ranks *const group = s->group;
    for (int c = 0; c < GS_CHANNELS; c++) {
        float *const at = image + c * plane + row * width;
        char *const place = packed + c * bytes;
        RANKS_CUDA(cudaMemcpyAsync(packs ? (void *)place : at, packs ? (const void *)at : place,
                                   (size_t)bytes, cudaMemcpyDeviceToDevice, s->stream));
    }
    return true;
}

// All ranks call it if any view is cut.
bool exchange_pixels(sharded *s) {
    border borders[2 * MOST_CUT];
    int count = 0;
    for (int k = 0; k < s->own_count && !s->own[k].whole; k++) count += borders_of(s, k, borders + count);
    const int64_t most = GS_CHANNELS * GS_LOSS_HALO * row_bytes(s); // of a border
    char *const sent = reserve(s, &s->pixels_sent, (size_t)(2 * MOST_CUT * most));
    char *const got = reserve(s, &s->pixels_received, (size_t)(2 * MOST_CUT * most));
    if (!sent || !got) return false;
    int64_t send_begin[RANKS_MAX] = {0}, send_bytes[RANKS_MAX] = {0}, begin[RANKS_MAX] = {0},
            bytes[RANKS_MAX] = {0};
    for (int k = 0; k < count; k++) {
        const border *const b = &borders[k];
        send_begin[b->rank] = begin[b->rank] = k * most;
        send_bytes[b->rank] = GS_CHANNELS * b->out_rows * row_bytes(s);
        bytes[b->rank] = GS_CHANNELS * b->in_rows * row_bytes(s);
        s->report.bytes_sent += send_bytes[b->rank];
        if (!copy_rows(s, b->image, b->out, b->out_rows, sent + k * most, true)) return false;
    }
    const ranks_exchange exchange = {sent, send_begin, send_bytes, got, begin, bytes};
    if (!begin_travel(s) || !ranks_all_to_all(s->group, &exchange, s->travel) || !await_travel(s))
        return false;
    for (int k = 0; k < count; k++) {
        const border *const b = &borders[k];
        if (!copy_rows(s, b->image, b->in, b->in_rows, got + k * most, false)) return false;
    }
    return true;
}
