// SPDX-License-Identifier: MIT
#include "sharded_density.h"
#include "arrays.h"
#include "transport.h"

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void shard_begin(const ranks *group, int64_t count, int64_t *begin) {
    const int n = ranks_count(group);
    for (int r = 0; r <= n; r++) // count r / n without a product that could overflow
        begin[r] = count / n * r + count % n * r / n;
}

// Rows that two ranges have in common: where they begin in the first range, and how many.
static int64_t common(const int64_t *a, const int64_t *b, int64_t *begin) {
    const int64_t first = larger(a[0], b[0]), end = smaller(a[1], b[1]);
    *begin = end > first ? first - a[0] : 0;
    return end > first ? end - first : 0;
}

static bool move_array(ranks *group, const shard_move *move, const float *from, float *to, int width,
                       gs_stream stream) {
    int64_t send_begin[RANKS_MAX], send_bytes[RANKS_MAX], begin[RANKS_MAX], bytes[RANKS_MAX];
    const int64_t row = width * (int64_t)sizeof(float);
    const int own = ranks_own(group);
    for (int r = 0; r < ranks_count(group); r++) {
        send_bytes[r] = row * common(move->from_begin + own, move->to_begin + r, &send_begin[r]);
        bytes[r] = row * common(move->to_begin + own, move->from_begin + r, &begin[r]);
        send_begin[r] *= row;
        begin[r] *= row;
    }
    const ranks_exchange exchange = {from, send_begin, send_bytes, to, begin, bytes};
    return ranks_all_to_all(group, &exchange, stream);
}

bool shard_rebalance(ranks *group, const shard_move *move, gs_stream stream) {
    const gs_gaussians *const from[] = {&move->from.gaussians, &move->from.first_moment,
                                        &move->from.second_moment};
    const gs_gaussians *const to[] = {&move->to.gaussians, &move->to.first_moment, &move->to.second_moment};
    for (int v = 0; v < 3; v++) {
        const gs_arrays a = gs_arrays_of(from[v]), b = gs_arrays_of(to[v]);
        for (int k = 0; k < GS_ARRAYS; k++)
            if (!move_array(group, move, a.of[k], b.of[k], a.width[k], stream)) return false;
    }
    return !move->from_density || move_array(group, move, move->from_density, move->to_density, 2, stream);
}

bool shard_gather(ranks *group, const int64_t *begin, int64_t bytes, const void *own, void *to,
                  gs_stream stream) {
    const int64_t *const mine = begin + ranks_own(group);
    int64_t zeros[RANKS_MAX] = {0}, sent[RANKS_MAX], at[RANKS_MAX], received[RANKS_MAX];
    for (int k = 0; k < ranks_count(group); k++) {
        sent[k] = (mine[1] - mine[0]) * bytes;
        at[k] = begin[k] * bytes, received[k] = (begin[k + 1] - begin[k]) * bytes;
    }
    const ranks_exchange exchange = {own, zeros, sent, to, at, received};
    return ranks_all_to_all(group, &exchange, stream);
}

// ---- relocation ----

// Copies numbers of the device to the host.
static bool read_numbers(ranks *group, int64_t *to, const int64_t *from, int count, gs_stream stream) {
    RANKS_CUDA(cudaMemcpyAsync(to, from, (size_t)count * sizeof(int64_t), cudaMemcpyDeviceToHost, stream));
    return ranks_wait(group, stream);
}

// The sums of weights of the ranks before each.
static bool share_weights(ranks *group, const gs_gaussians *gaussians, const gs_shared_relocation *r,
                          int64_t *number, int64_t *weight_begin, gs_stream stream) {
    int64_t own = 0, of_all[RANKS_MAX];
    const int count = ranks_count(group);
    GS_OR_FAIL(group, gs_share_weigh(gaussians, r, number, stream));
    if (!read_numbers(group, &own, number, 1, stream)) return false;
    if (!ranks_tell_all(group, own, of_all, stream)) return false;
    weight_begin[0] = 0;
    for (int k = 0; k < count; k++) weight_begin[k + 1] = weight_begin[k] + of_all[k];
    return true;
}

// The rows that this rank draws from others, or others from this rank.
typedef struct draw_list {
    gs_draws draws;
    int64_t begin[RANKS_MAX + 1]; // of each rank's
} draw_list;

static void place_draws(draw_list *list, int ranks_number, int64_t record, device_buffer *memory) {
    const size_t count = (size_t)list->begin[ranks_number];
    list->draws.count = list->begin[ranks_number];
    list->draws.at = device_buffer_reserve(memory, count * ((size_t)record * sizeof(float) + 12) + 16);
    list->draws.values = (float *)(list->draws.at + count);
    list->draws.row = (uint32_t *)(list->draws.values + count * (size_t)record);
}

// Records of `bytes` bytes from each list to the other.
static bool exchange_draws(ranks *group, const void *send, const draw_list *from, void *receive,
                           const draw_list *to, int64_t bytes, gs_stream stream) {
    int64_t send_begin[RANKS_MAX], send_bytes[RANKS_MAX], begin[RANKS_MAX], received[RANKS_MAX];
    for (int r = 0; r < ranks_count(group); r++) {
        send_begin[r] = from->begin[r] * bytes, send_bytes[r] = (from->begin[r + 1] - from->begin[r]) * bytes;
        begin[r] = to->begin[r] * bytes, received[r] = (to->begin[r + 1] - to->begin[r]) * bytes;
    }
    const ranks_exchange exchange = {send, send_begin, send_bytes, receive, begin, received};
    return ranks_all_to_all(group, &exchange, stream);
}

// All Gaussians are here.
static bool relocate_alone(ranks *group, const shard_relocation *what, shard_workspace *workspace,
                           gs_stream stream) {
    const gs_shared_vectors *const v = &what->vectors;
    size_t bytes;
    GS_OR_FAIL(group, gs_relocate_bytes(v->gaussians.count, &bytes));
    GS_OR_FAIL(group, gs_relocate(&v->gaussians, &v->first_moment, &v->second_moment, &what->relocation,
                                  device_buffer_reserve(&workspace->relocation, bytes), bytes, stream));
    return true;
}

bool shard_relocate(ranks *group, const shard_relocation *what, shard_workspace *workspace,
                    gs_stream stream) {
    if (ranks_count(group) == 1) return relocate_alone(group, what, workspace, stream);
    const int count = ranks_count(group);
    const gs_gaussians *const gaussians = &what->vectors.gaussians;
    const int64_t record = gs_share_record(gaussians), existing = what->relocation.existing - what->first;
    int64_t weight_begin[RANKS_MAX + 1], sizes[RANKS_MAX], of_others[RANKS_MAX];
    int64_t *const numbers = device_buffer_reserve(&workspace->numbers, (RANKS_MAX + 1) * sizeof(int64_t));
    gs_shared_relocation r = {
        .relocation = what->relocation, .first = what->first, .gpus = count, .weight_begin = weight_begin};
    r.relocation.existing = smaller(larger(existing, 0), gaussians->count);
    GS_OR_FAIL(group, gs_share_relocate_bytes(gaussians->count, count, &r.workspace_bytes));
    r.workspace = device_buffer_reserve(&workspace->relocation, r.workspace_bytes);
    if (!share_weights(group, gaussians, &r, numbers, weight_begin, stream)) return false;

    draw_list own = {0}, others = {0};
    GS_OR_FAIL(group, gs_share_count_draws(gaussians, &r, numbers, stream));
    if (!read_numbers(group, own.begin, numbers, count + 1, stream)) return false;
    for (int k = 0; k < count; k++) sizes[k] = own.begin[k + 1] - own.begin[k];
    if (!ranks_exchange_sizes(group, 1, sizes, of_others, stream)) return false;
    for (int k = 0; k < count; k++) others.begin[k + 1] = others.begin[k] + of_others[k];
    place_draws(&own, count, record, &workspace->own);
    place_draws(&others, count, record, &workspace->others);

    const int64_t record_bytes = record * (int64_t)sizeof(float);
    GS_OR_FAIL(group, gs_share_draw(gaussians, &r, &own.draws, stream));
    if (!exchange_draws(group, own.draws.at, &own, others.draws.at, &others, sizeof(int64_t), stream))
        return false;
    GS_OR_FAIL(group, gs_share_answer(&what->vectors, &r, &others.draws, stream));
    if (!exchange_draws(group, others.draws.values, &others, own.draws.values, &own, record_bytes, stream))
        return false;
    GS_OR_FAIL(group, gs_share_take(&what->vectors, &r, &own.draws, stream));
    return true;
}

void shard_workspace_close(shard_workspace *workspace) {
    device_buffer_close(&workspace->relocation);
    device_buffer_close(&workspace->own);
    device_buffer_close(&workspace->others);
    device_buffer_close(&workspace->numbers);
}
