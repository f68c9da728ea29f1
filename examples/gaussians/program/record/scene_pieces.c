// SPDX-License-Identifier: MIT
#include "record/scene_pieces.h"
#include "arrays.h"
#include "device.h"
#include "scene.h"

enum { WHOLE_PIECE = 1 << 16 };

typedef struct piece_reader {
    const training_state *state;
    gs_gaussians host;   // [piece]
    device_buffer block; // what comes from other ranks
} piece_reader;

// The rows that are finite, on the host of rank 0; none on others.
static bool read_piece(piece_reader *r, row_range rows, gs_gaussians *out) {
    const gs_arrays from = gs_arrays_of(&r->state->gaussians), to = gs_arrays_of(&r->host);
    const bool reads = ranks_own(r->state->group) == 0;
    for (int a = 0; a < GS_ARRAYS; a++) {
        const int64_t bytes = from.width[a] * (int64_t)sizeof(float);
        const void *const block = training_state_rows(r->state, from.of[a], bytes, rows, &r->block);
        if (!block) return false;
        if (reads) device_download(to.of[a], block, (size_t)(rows.count * bytes));
    }
    *out = r->host;
    out->count = reads ? rows.count : 0;
    gaussians_keep_finite(out);
    return true;
}

// To the stream, or counts them without one.
static bool read_all(piece_reader *r, int64_t piece, scene_stream *stream, int64_t *finite) {
    const int64_t all = training_state_count(r->state);
    fault why;
    *finite = 0;
    for (int64_t first = 0; first < all; first += piece) {
        gs_gaussians rows;
        if (!read_piece(r, (row_range){first, all - first < piece ? all - first : piece}, &rows))
            return false;
        *finite += rows.count;
        if (stream && !scene_stream_put(stream, &rows, &why)) return ranks_fail_with(r->state->group, &why);
    }
    return true;
}

static bool write_pieces(piece_reader *r, const char *path, int64_t piece, const scene_notes *notes,
                         int64_t *written) {
    ranks *const group = r->state->group;
    const bool writes = ranks_own(group) == 0;
    int64_t again;
    scene_stream stream = {0};
    fault why;
    if (!read_all(r, piece, NULL, written)) return false;
    const gs_gaussians shape = {
        .count = *written, .sh_degree = r->host.sh_degree, .antialias = r->state->gaussians.antialias};
    if (writes && !scene_stream_open(&stream, path, &shape, notes, &why)) return ranks_fail_with(group, &why);
    bool done = read_all(r, piece, writes ? &stream : NULL, &again);
    if (done && writes) done = scene_stream_commit(&stream, &why) || ranks_fail_with(group, &why);
    if (!done && writes) scene_stream_discard(&stream);
    return done && ranks_barrier(group, NULL);
}

bool scene_pieces_write(const char *path, const training_state *state, int64_t piece,
                        const scene_notes *notes, int64_t *written, int64_t *dropped, fault *why) {
    const int64_t all = training_state_count(state), most = piece > 0 ? piece : WHOLE_PIECE,
                  rows = all < 1      ? 1
                         : all < most ? all
                                      : most;
    piece_reader r = {.state = state};
    const bool done =
        (scene_open(&r.host, rows, state->gaussians.sh_degree, why) || ranks_fail_with(state->group, why)) &&
        write_pieces(&r, path, rows, notes, written);
    *dropped = all - *written;
    device_buffer_close(&r.block);
    scene_close(&r.host);
    return done || fail(why, "%s", ranks_error(state->group));
}
