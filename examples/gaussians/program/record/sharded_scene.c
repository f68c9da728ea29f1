// SPDX-License-Identifier: MIT
#include "record/sharded_scene.h"
#include "arrays.h"
#include "device.h"
#include "scene.h"
#include "frames/device_gaussians.h"

enum { USUAL_PIECE = 1 << 16 };

typedef struct scene_sender {
    const training_state *state;
    ranks *group;
    int64_t piece;
    const scene_notes *notes;
    gs_gaussians device; // a piece, in one block that begins at `mean`
    gs_gaussians host;   // the same
} scene_sender;

// Copies rows of this rank to the block.
static void take_rows(const scene_sender *s, int64_t first, int64_t rows) {
    const gs_arrays from = gs_arrays_of(&s->state->gaussians), to = gs_arrays_of(&s->device);
    for (int a = 0; a < GS_ARRAYS; a++)
        DEVICE_CHECK(cudaMemcpyAsync(to.of[a], from.of[a] + first * from.width[a],
                                     (size_t)(rows * from.width[a]) * sizeof(float), cudaMemcpyDeviceToDevice,
                                     NULL));
}

// The block's rows that are finite, on the host.
static gs_gaussians read_block(scene_sender *s, int64_t rows) {
    const gs_arrays from = gs_arrays_of(&s->device), to = gs_arrays_of(&s->host);
    for (int a = 0; a < GS_ARRAYS; a++)
        device_download(to.of[a], from.of[a], (size_t)(rows * from.width[a]) * sizeof(float));
    gs_gaussians out = s->host;
    out.count = rows;
    gaussians_keep_finite(&out);
    return out;
}

// The number of finite Gaussians of all ranks.
static bool count_finite(scene_sender *s, int64_t *all) {
    const int64_t own = s->state->gaussians.count;
    int64_t finite = 0, of_all[RANKS_MAX];
    for (int64_t first = 0; first < own; first += s->piece) {
        const int64_t rows = own - first < s->piece ? own - first : s->piece;
        take_rows(s, first, rows);
        finite += read_block(s, rows).count;
    }
    if (!ranks_tell_all(s->group, finite, of_all, NULL)) return false;
    *all = 0;
    for (int r = 0; r < ranks_count(s->group); r++) *all += of_all[r];
    return true;
}

// Rank 0 gets the block of a rank; only that rank and rank 0 have work.
static bool send_block(scene_sender *s, int from) {
    const int own = ranks_own(s->group);
    const int64_t bytes = (int64_t)device_gaussians_bytes(s->piece, s->device.sh_degree);
    int64_t zeros[RANKS_MAX] = {0}, sent[RANKS_MAX] = {0}, received[RANKS_MAX] = {0};
    if (from == 0) return true;
    if (own == from) sent[0] = bytes;
    if (own == 0) received[from] = bytes;
    const ranks_exchange exchange = {own == from ? s->device.mean : NULL, zeros, sent,
                                     own == 0 ? s->device.mean : NULL,    zeros, received};
    return ranks_all_to_all(s->group, &exchange, NULL) && ranks_wait(s->group, NULL);
}

static bool send_all(scene_sender *s, scene_stream *stream) {
    const int own = ranks_own(s->group);
    const int64_t *const begin = s->state->begin;
    fault why;
    for (int from = 0; from < ranks_count(s->group); from++) {
        const int64_t count = begin[from + 1] - begin[from];
        for (int64_t first = 0; first < count; first += s->piece) {
            const int64_t rows = count - first < s->piece ? count - first : s->piece;
            if (own == from) take_rows(s, first, rows);
            if (!send_block(s, from)) return false;
            if (own != 0) continue;
            const gs_gaussians piece = read_block(s, rows);
            if (!scene_stream_put(stream, &piece, &why)) return ranks_fail_with(s->group, &why);
        }
    }
    return true;
}

static bool write_stream(scene_sender *s, const char *path, int64_t finite) {
    const bool writes = ranks_own(s->group) == 0;
    const gs_gaussians shape = {
        .count = finite, .sh_degree = s->device.sh_degree, .antialias = s->state->gaussians.antialias};
    scene_stream stream = {0};
    fault why;
    if (writes && !scene_stream_open(&stream, path, &shape, s->notes, &why))
        return ranks_fail_with(s->group, &why);
    bool done = send_all(s, &stream);
    if (done && writes) done = scene_stream_commit(&stream, &why) || ranks_fail_with(s->group, &why);
    if (!done && writes) scene_stream_discard(&stream);
    return done && ranks_barrier(s->group, NULL);
}

static bool write_pieces(scene_sender *s, const char *path, int64_t *written) {
    fault why;
    if (!scene_open(&s->host, s->piece, s->state->gaussians.sh_degree, &why))
        return ranks_fail_with(s->group, &why);
    s->device = device_gaussians_open(s->piece, s->state->gaussians.sh_degree);
    const bool done = count_finite(s, written) && write_stream(s, path, *written);
    device_gaussians_close(&s->device);
    scene_close(&s->host);
    return done;
}

bool sharded_scene_write(const char *path, const training_state *state, int64_t piece,
                         const scene_notes *notes, int64_t *written, int64_t *dropped, fault *why) {
    scene_sender s = {
        .state = state, .group = state->group, .piece = piece > 0 ? piece : USUAL_PIECE, .notes = notes};
    const int64_t all = training_state_count(state);
    if (s.piece > all) s.piece = all > 0 ? all : 1;
    const bool done = write_pieces(&s, path, written);
    *dropped = all - *written;
    return done || fail(why, "%s", ranks_error(state->group));
}
