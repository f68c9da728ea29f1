// SPDX-License-Identifier: MIT
// The pixels that the ranks of a view need of each other.
#include "sharded_parts.h"

// Pixels of a part: [GS_CHANNELS][rows][width].
typedef struct strip {
    int64_t first, bytes; // of one channel's rows in the image: pixels before them, bytes
} strip;

static strip strip_of(const sharded *s, const gs_part *part) {
    const int64_t width = s->home.camera.width, height = s->home.camera.height;
    const int64_t begin = part->rows.begin * GS_TILE_SIZE, end = part->rows.end * GS_TILE_SIZE;
    return (strip){begin * width, ((end < height ? end : height) - begin) * width * (int64_t)sizeof(float)};
}

// Moves a strip between an image and memory where its channels follow one another.
static bool copy_strip(sharded *s, const strip *of, float *image, char *packed, bool packs) {
    const int64_t plane = (int64_t)s->home.camera.width * s->home.camera.height;
    ranks *const group = s->group;
    for (int c = 0; c < GS_CHANNELS; c++) {
        float *const rows = image + c * plane + of->first;
        char *const place = packed + c * of->bytes;
        RANKS_CUDA(cudaMemcpyAsync(packs ? (void *)place : rows, packs ? (const void *)rows : place,
                                   (size_t)of->bytes, cudaMemcpyDeviceToDevice, s->stream));
    }
    return true;
}

// The part of a view that a rank renders; -1: none. There is one at most.
static int part_in_view(const sharded *s, int rank, int view) {
    for (int p = s->out.begin[rank]; p < s->out.begin[rank + 1]; p++)
        if (s->out.parts[p].view == view) return p;
    return -1;
}

// The part of this rank and the one of another rank that are of one view; false: there is none. Two ranks have one view
// in common at most: their shares are ranges of rows.
static bool common_view(const sharded *s, int rank, int *own_part, int *their_part) {
    for (int j = 0; j < s->own_count; j++) {
        if (s->own[j].whole) continue;
        *own_part = j;
        *their_part = part_in_view(s, rank, s->own[j].part.view);
        if (*their_part >= 0) return true;
    }
    return false;
}

// The ranks of a view bring its image together.
bool exchange_pixels(sharded *s) {
    const int count = ranks_count(s->group), own = ranks_own(s->group);
    int64_t send_begin[RANKS_MAX] = {0}, send_bytes[RANKS_MAX] = {0}, begin[RANKS_MAX] = {0},
            bytes[RANKS_MAX] = {0};
    int64_t part_begin[MOST_OWN + 1] = {0}, received = 0;
    for (int j = 0; j < s->own_count; j++)
        part_begin[j + 1] =
            part_begin[j] + (s->own[j].whole ? 0 : GS_CHANNELS * strip_of(s, &s->own[j].part).bytes);
    int own_part, their_part;
    for (int r = 0; r < count; r++) {
        if (r == own || !common_view(s, r, &own_part, &their_part)) continue;
        send_begin[r] = part_begin[own_part];
        send_bytes[r] = part_begin[own_part + 1] - part_begin[own_part];
        begin[r] = received;
        bytes[r] = GS_CHANNELS * strip_of(s, &s->out.parts[their_part]).bytes;
        received += bytes[r];
        s->report.bytes_sent += send_bytes[r];
    }
    char *const sent = reserve(s, &s->pixels_sent, (size_t)part_begin[s->own_count]);
    char *const got = reserve(s, &s->pixels_received, (size_t)received);
    if (!sent || !got) return false;
    for (int r = 0; r < count; r++) {
        if (send_bytes[r] == 0 || !common_view(s, r, &own_part, &their_part)) continue;
        const strip of = strip_of(s, &s->own[own_part].part); // packed again for each rank: they are few
        if (!copy_strip(s, &of, s->own[own_part].view.image.color, sent + send_begin[r], true)) return false;
    }
    const ranks_exchange exchange = {sent, send_begin, send_bytes, got, begin, bytes};
    if (!begin_travel(s) || !ranks_all_to_all(s->group, &exchange, s->travel) || !await_travel(s))
        return false;
    for (int r = 0; r < count; r++) {
        if (bytes[r] == 0 || !common_view(s, r, &own_part, &their_part)) continue;
        const strip of = strip_of(s, &s->out.parts[their_part]);
        if (!copy_strip(s, &of, s->own[own_part].view.image.color, got + begin[r], false)) return false;
    }
    return true;
}
