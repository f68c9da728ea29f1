// SPDX-License-Identifier: MIT
// A group of one rank, in the caller's thread and on its device: collectives have nobody to wait for.
#include "transport.h"
#include <stdlib.h>
#include <string.h>

static bool wait(ranks *group, gs_stream stream) {
    RANKS_CUDA(cudaStreamSynchronize(stream));
    return true;
}

static bool exchange_sizes(ranks *group, int values, const int64_t *send, int64_t *receive,
                           gs_stream stream) {
    (void)group, (void)stream;
    memcpy(receive, send, (size_t)values * sizeof *send);
    return true;
}

static bool all_to_all(ranks *group, const ranks_exchange *exchange, gs_stream stream) {
    const size_t bytes = (size_t)exchange->send_bytes[0];
    if (bytes > 0)
        RANKS_CUDA(cudaMemcpyAsync((char *)exchange->receive + exchange->receive_begin[0],
                                   (const char *)exchange->send + exchange->send_begin[0], bytes,
                                   cudaMemcpyDeviceToDevice, stream));
    return true;
}

static bool all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    (void)group, (void)reduction, (void)stream;
    return true;
}

typedef struct lone_rank {
    ranks group;
    board board;
} lone_rank;

ranks *ranks_alone_open(void) {
    static const transport calls = {exchange_sizes, all_to_all, all_reduce, wait, wait};
    lone_rank *const self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->board.alone = true;
    self->group =
        (ranks){.transport = &calls, .board = &self->board, .count = 1, .timeout_s = 40, .silence_s = 15};
    return &self->group;
}

void ranks_alone_close(ranks *group) {
    free(group); // the first member
}
