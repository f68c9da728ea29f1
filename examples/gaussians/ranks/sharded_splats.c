// SPDX-License-Identifier: MIT
// Splats: from the homes of their Gaussians to the parts of images that need them.
#include "sharded_parts.h"
#include <string.h>

static gs_part part_without_rows(gs_part part) {
    part.rows = (gs_rows){0, 0};
    return part;
}

static void *place_selection(sharded *s) {
    const size_t begin_bytes = ((GS_MAX_PARTS + 1) * sizeof(int64_t) + 255) / 256 * 256;
    char *const memory = reserve(s, &s->selection, begin_bytes + s->share.workspace_bytes);
    if (!memory) return NULL;
    s->share.part_begin = (int64_t *)memory;
    s->share.workspace = memory + begin_bytes;
    return memory;
}

// The entries of other ranks' parts.
static bool gather_for_others(sharded *s) {
    const int *const begin = s->out.begin, own = ranks_own(s->group);
    gs_share *const share = &s->share;
    share->index = reserve(s, &s->index, (size_t)s->index_room * sizeof(uint32_t));
    share->splats = reserve_for_step(s, &s->entries, (size_t)s->entries_room * sizeof(gs_splat));
    if (!share->index || !share->splats) return false;
    share->room = s->index_room, share->splats_room = s->entries_room;
    share->first = 0, share->end = begin[own], share->skip = share->skip_end = 0;
    GS_OR_FAIL(s->group, gs_share_gather(&s->home, share, s->stream));
    share->first = share->skip_end = begin[own + 1], share->end = share->count, share->skip = begin[own];
    GS_OR_FAIL(s->group, gs_share_gather(&s->home, share, s->stream));
    return true;
}

// View by view where only images are wanted, which shall have the bytes of one GPU: the kernel for several cameras
// rounds some values otherwise than that for one.
static bool project(sharded *s) {
    const gs_view *const home = &s->home;
    if (!s->only_images) {
        GS_OR_FAIL(s->group, gs_project(home, s->stream));
        return true;
    }
    gs_view one = *home;
    one.views = (gs_views){0};
    for (int32_t v = 0; v < home->views.count; v++) {
        one.camera = home->views.cameras[v];
        one.splats = home->splats + v * home->gaussians.count;
        GS_OR_FAIL(s->group, gs_project(&one, s->stream));
    }
    return true;
}

// This rank's splats for all cameras, and how many of them each part needs. Queues; the sizes are on their way.
bool project_home(sharded *s) {
    const sharded_batch *const batch = s->batch;
    const size_t splats = (size_t)batch->views * (size_t)batch->gaussians.count;
    gs_view *const home = &s->home;
    *home = (gs_view){.gaussians = batch->gaussians,
                      .camera = batch->cameras[0],
                      .sh_degree_used = batch->sh_degree_used,
                      .views = {batch->views, batch->cameras},
                      .splats = reserve(s, &s->splats, splats * sizeof(gs_splat))};
    device_begin_stage("project");
    if (!home->splats || !project(s)) return false;
    s->share = (gs_share){.parts = s->shared, .count = s->out.begin[ranks_count(s->group)]};
    memcpy(s->shared, s->out.parts, sizeof s->shared);
    for (int j = 0; j < s->own_count; j++)
        if (s->own[j].whole) s->shared[s->own[j].number] = part_without_rows(s->own[j].part);
    GS_OR_FAIL(s->group, gs_share_bytes(home, s->share.count, &s->share.workspace_bytes));
    if (!place_selection(s)) return false;
    GS_OR_FAIL(s->group, gs_share_count(home, &s->share, s->stream));
    return begin_travel(s) && share_numbers(s, s->share.part_begin, s->share.count + 1) &&
           gather_for_others(s);
}

// Reads what share_numbers has brought: how many splats come from where.
static bool take_sizes(sharded *s) {
    const int count = ranks_count(s->group), own = ranks_own(s->group), values = s->share.count + 1;
    if (!ranks_wait(s->group, s->travel)) return false;
    for (int r = 0; r < count; r++)
        memcpy(s->begin[r], s->table + (size_t)r * (size_t)values, (size_t)values * sizeof(int64_t));
    for (int j = 0; j < s->own_count; j++) {
        own_part *const part = &s->own[j];
        int64_t all = 0;
        for (int r = 0; r < count; r++) {
            const bool every = r == own && part->whole; // a copy of all, culled ones too
            part->from[r] = every ? s->batch->gaussians.count : entries_of(s, r, part->number);
            part->at[r] = all;
            all += part->from[r];
        }
        if (all >= INT32_MAX)
            return ranks_fail(
                s->group,
                "a rank's part of the views has %lld splats; %d is too many: take a smaller --batch",
                (long long)all, INT32_MAX);
        part->view.gaussians.count = all;
        if (!reserve_for_step(s, &part->splats, (size_t)all * sizeof(gs_splat))) return false;
        s->report.splats_received += all;
        s->report.splats_sent += part->whole ? part->from[own] : 0;
    }
    s->report.splats_sent += s->begin[own][s->share.count];
    return true;
}

// Copies the splats that this rank would send to itself.
static bool take_own(sharded *s, own_part *part) {
    const int own = ranks_own(s->group), p = part->number;
    gs_splat *const to = (gs_splat *)part->splats.memory + part->at[own];
    if (!part->whole) {
        gs_share share = s->share;
        share.splats = to, share.splats_room = part->from[own];
        share.first = p, share.end = p + 1, share.skip = 0, share.skip_end = p;
        GS_OR_FAIL(s->group, gs_share_gather(&s->home, &share, s->stream));
        return true;
    }
    const int64_t count = s->batch->gaussians.count;
    ranks *const group = s->group;
    RANKS_CUDA(cudaMemcpyAsync(to, s->home.splats + part->part.view * count, (size_t)count * sizeof *to,
                               cudaMemcpyDeviceToDevice, s->stream));
    return true;
}

// Entries of this rank's own parts: they follow those of the parts before, and have no place in share.splats.
static int64_t own_entries(const sharded *s) {
    const int own = ranks_own(s->group);
    return s->begin[own][s->out.begin[own + 1]] - s->begin[own][s->out.begin[own]];
}

// The splats of the k-th parts of all ranks.
static bool send_round(sharded *s, int k) {
    const int64_t bytes = sizeof(gs_splat);
    const int own = ranks_own(s->group);
    own_part *const part = k < s->own_count ? &s->own[k] : NULL;
    int64_t send_begin[RANKS_MAX], send_bytes[RANKS_MAX], begin[RANKS_MAX], received[RANKS_MAX];
    for (int r = 0; r < ranks_count(s->group); r++) {
        const int p = r == own ? -1 : part_at(s, r, k);
        send_begin[r] = p < 0 ? 0 : (s->begin[own][p] - (r > own ? own_entries(s) : 0)) * bytes;
        send_bytes[r] = p < 0 ? 0 : entries_of(s, own, p) * bytes;
        begin[r] = part ? part->at[r] * bytes : 0;
        received[r] = part && r != own ? part->from[r] * bytes : 0;
        s->report.bytes_sent += send_bytes[r];
    }
    const ranks_exchange exchange = {
        s->share.splats, send_begin, send_bytes, part ? part->splats.memory : NULL, begin, received};
    if (!ranks_all_to_all(s->group, &exchange, s->travel)) return false;
    ranks *const group = s->group;
    if (part) RANKS_CUDA(cudaEventRecord(part->received, s->travel));
    return true;
}

bool send_splats(sharded *s) {
    if (!take_sizes(s)) return false;
    const int own = ranks_own(s->group);
    const int64_t all = s->begin[own][s->share.count], to_others = all - own_entries(s);
    if (all > s->index_room || to_others > s->entries_room) { // what was gathered is incomplete
        s->index_room = all + all / 8, s->entries_room = to_others + to_others / 8;
        if (!gather_for_others(s)) return false;
    }
    if (!begin_travel(s)) return false;
    for (int k = 0; k < s->out.most; k++)
        if (!send_round(s, k)) return false;
    for (int j = 0; j < s->own_count; j++)
        if (!take_own(s, &s->own[j])) return false;
    return true;
}

// The largest colours and depths of all splats, for the scales of integer sums.
bool find_largest(sharded *s) {
    if (!s->fixed) return true;
    gs_largest_values *const largest = reserve(s, &s->largest, (size_t)s->batch->views * sizeof *largest);
    if (!largest) return false;
    GS_OR_FAIL(s->group, gs_largest(&s->home, largest, s->stream));
    const ranks_reduction take = {largest, s->batch->views * (int64_t)(sizeof *largest / sizeof(float)),
                                  RANKS_FLOAT, RANKS_MAX_OF};
    return begin_travel(s) && ranks_all_reduce(s->group, &take, s->travel) && await_travel(s);
}
