// SPDX-License-Identifier: MIT
// What the steps of a batch share.
#include "sharded_parts.h"

int32_t tile_rows(const sharded *s) {
    return (s->batch->cameras[0].height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
}

bool is_whole(const sharded *s, int p) {
    const gs_rows rows = s->out.parts[p].rows;
    return rows.begin == 0 && rows.end == tile_rows(s);
}

int part_at(const sharded *s, int rank, int k) {
    const int begin = s->out.begin[rank], end = s->out.begin[rank + 1];
    for (int whole = 0; whole < 2; whole++)
        for (int p = begin; p < end; p++)
            if (is_whole(s, p) == (whole != 0) && k-- == 0) return p;
    return -1;
}

bool begin_travel(sharded *s) {
    ranks *const group = s->group;
    RANKS_CUDA(cudaEventRecord(s->queued, s->stream));
    RANKS_CUDA(cudaStreamWaitEvent(s->travel, s->queued, 0));
    return true;
}

bool await_event(sharded *s, cudaEvent_t event) {
    ranks *const group = s->group;
    RANKS_CUDA(cudaStreamWaitEvent(s->stream, event, 0));
    RANKS_CUDA(cudaStreamWaitEvent(s->watch, event, 0));
    return true;
}

bool await_travel(sharded *s) {
    ranks *const group = s->group;
    RANKS_CUDA(cudaEventRecord(s->arrived, s->travel));
    return await_event(s, s->arrived);
}

void *reserve(sharded *s, device_buffer *buffer, size_t bytes) {
    const bool may_wait = buffer->memory && buffer->bytes < bytes; // memory is freed
    if (may_wait && !(ranks_wait(s->group, s->travel) && ranks_wait(s->group, s->stream))) return NULL;
    return device_buffer_reserve(buffer, bytes);
}

void *reserve_for_step(sharded *s, step_buffer *buffer, size_t bytes) {
    if (buffer->memory && buffer->bytes >= bytes) return buffer->memory;
    const size_t used = (bytes + 255) / 256 * 256;
    if (s->scratch && used <= s->scratch_bytes) {
        buffer->memory = s->scratch;
        s->scratch += used, s->scratch_bytes -= used;
    } else {
        buffer->memory = reserve(s, &buffer->own, bytes);
    }
    buffer->bytes = bytes;
    return buffer->memory;
}

bool share_numbers(sharded *s, const int64_t *own, int values) {
    ranks *const group = s->group;
    const int count = ranks_count(group);
    const int64_t bytes = values * (int64_t)sizeof *own;
    int64_t zeros[RANKS_MAX] = {0}, begin[RANKS_MAX], each[RANKS_MAX];
    for (int r = 0; r < count; r++) begin[r] = r * bytes, each[r] = bytes;
    void *const all = reserve(s, &s->numbers, (size_t)(count * bytes));
    if (!all) return false;
    const ranks_exchange exchange = {own, zeros, each, all, begin, each};
    if (!ranks_all_to_all(group, &exchange, s->travel)) return false;
    RANKS_CUDA(cudaMemcpyAsync(s->table, all, (size_t)(count * bytes), cudaMemcpyDeviceToHost, s->travel));
    return true;
}
