// SPDX-License-Identifier: MIT
// A part of an image, from its splats to their moments.
#include "sharded_parts.h"
#include <string.h>

static bool place_image(sharded *s, own_part *part) {
    gs_view *const view = &part->view;
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    float *const image = reserve(s, &part->in->image,
                                 (size_t)(GS_CHANNELS + 2 + s->batch->with_depth) * pixels * sizeof(float));
    if (!image) return false;
    view->image = (gs_image){.color = image,
                             .transmittance = image + GS_CHANNELS * pixels,
                             .n_contrib = (uint32_t *)(image + (GS_CHANNELS + 1) * pixels),
                             .depth = s->batch->with_depth ? image + (GS_CHANNELS + 2) * pixels : NULL};
    view->inverse_depth = s->batch->with_depth;
    return true;
}

static bool place_lists(sharded *s, own_part *part) {
    gs_view *const view = &part->view;
    view->pair_capacity = part->in->pair_capacity;
    GS_OR_FAIL(s->group, gs_bin_bytes(view, &view->workspace_bytes));
    view->workspace = reserve_for_step(s, &part->in->workspace, view->workspace_bytes);
    return view->workspace != NULL;
}

// Makes the lists with more room until they fit. Waits.
static bool bin_waiting(sharded *s, own_part *part) {
    gs_view *const view = &part->view;
    view->report = NULL;
    for (;;) {
        if (!place_lists(s, part) || !ranks_wait(s->group, s->watch)) return false;
        const gs_status status = gs_bin(view, s->stream);
        if (status == GS_OK) return true;
        if (status != GS_PAIRS_DO_NOT_FIT) return ranks_fail(s->group, "%s", gs_last_error());
        part->in->pair_capacity = view->pairs_needed + view->pairs_needed / 4;
    }
}

static bool bin(sharded *s, own_part *part) {
    gs_view *const view = &part->view;
    device_begin_stage("bin");
    if (part->in->pair_capacity == 0) return bin_waiting(s, part);
    view->report = part->in->report;
    view->lists = part->in->division;
    if (!place_lists(s, part)) return false;
    GS_OR_FAIL(s->group, gs_bin(view, s->stream));
    return true;
}

static bool render(sharded *s, own_part *part) {
    device_begin_stage("render");
    GS_OR_FAIL(s->group, gs_render(&part->view, s->stream));
    return true;
}

// Lists and image. The number of pairs is not known yet: settle_lists.
bool queue_forward(sharded *s, own_part *part) {
    gs_view *const view = &part->view;
    const int32_t v = part->part.view;
    const int64_t count = s->alone ? s->batch->gaussians.count : view->gaussians.count;
    *view = (gs_view){.gaussians = {.count = count}, .camera = s->batch->cameras[v], .rows = part->part.rows};
    memcpy(view->background, s->batch->background, sizeof view->background);
    view->splats = s->alone ? s->home.splats + v * count : part->splats.memory;
    if (!s->alone && !await_event(s, part->received)) return false;
    return place_image(s, part) && bin(s, part) && render(s, part);
}

// Waits until the lists have been counted; repeats what had no room. The GPU still renders.
bool settle_lists(sharded *s, own_part *part) {
    gs_view *const view = &part->view;
    gs_status status = GS_OK;
    if (view->report) {
        if (!ranks_wait(s->group, s->watch)) return false; // from here on no other rank holds the stream up
        status = gs_bin_wait(view, s->stream);
        if (status != GS_OK && status != GS_PAIRS_DO_NOT_FIT)
            return ranks_fail(s->group, "%s", gs_last_error());
        const int64_t needed = view->pairs_needed;
        // Grows before there is no room left: to repeat an image costs more than memory.
        if (needed + needed / 8 > part->in->pair_capacity) part->in->pair_capacity = needed + needed / 4;
    }
    if (status == GS_PAIRS_DO_NOT_FIT && !(bin_waiting(s, part) && render(s, part))) return false;
    part->in->division = view->lists;
    return true;
}

static bool read_lengths(sharded *s, own_part *part) {
    gs_list_lengths *const lengths = reserve(s, &part->in->lengths, sizeof *lengths);
    if (!lengths) return false;
    GS_OR_FAIL(s->group, gs_share_lengths(&part->view, lengths, s->stream));
    ranks *const group = s->group;
    RANKS_CUDA(cudaMemcpyAsync(part->in->known_lengths, lengths, sizeof *lengths, cudaMemcpyDeviceToHost,
                               s->stream));
    return true;
}

// With DISTWAR_FIXED: gs_bin has divided the work of a view's rows by their lists. Another number of ranks would round
// sums otherwise, so all ranks of the view choose by the lists of the whole.
bool divide_as_whole(sharded *s) {
    enum { VALUES = 2 * MOST_CUT };
    const int count = ranks_count(s->group);
    int cut = 0;
    if (!s->fixed || !s->any_cut) return true;
    for (; cut < s->own_count && !s->own[cut].whole; cut++)
        if (!read_lengths(s, &s->own[cut])) return false;
    if (!ranks_wait(s->group, s->stream)) return false;
    int64_t sent[RANKS_MAX * VALUES] = {0}, all[RANKS_MAX * VALUES];
    for (int r = 0; r < count; r++)
        for (int k = 0; k < cut; k++) {
            sent[r * VALUES + 2 * k] = s->own[k].in->known_lengths->pairs;
            sent[r * VALUES + 2 * k + 1] = s->own[k].in->known_lengths->longest;
        }
    if (!ranks_exchange_sizes(s->group, VALUES, sent, all, s->travel)) return false;
    for (int k = 0; k < cut; k++) {
        int64_t pairs = 0, longest = 0;
        for (int r = 0; r < count; r++)
            for (int j = 0; j < MOST_CUT; j++) {
                const int p = part_at(s, r, j);
                if (p < 0 || s->out.parts[p].view != s->own[k].part.view) continue;
                const int64_t *const theirs = all + r * VALUES + 2 * j;
                pairs += theirs[0], longest = theirs[1] > longest ? theirs[1] : longest;
            }
        GS_OR_FAIL(s->group, gs_share_divide(&s->own[k].view, s->own[k].in->known_lengths, pairs, longest));
    }
    return true;
}

// [rows of tiles][GS_ROW_SUMS]
static double *row_sums_of(const sharded *s, int32_t view) {
    return (double *)s->row_sums.memory + (int64_t)view * tile_rows(s) * GS_ROW_SUMS;
}

bool queue_loss(sharded *s, own_part *part) {
    const gs_view *const view = &part->view;
    const int32_t width = view->camera.width, height = view->camera.height;
    const size_t pixels = (size_t)width * (size_t)height;
    const bool with_depth = s->batch->with_depth;
    float *const d_color =
        reserve(s, &part->in->d_color, (size_t)(GS_CHANNELS + with_depth) * pixels * sizeof(float));
    if (!d_color) return false;
    float *const d_depth = with_depth ? d_color + GS_CHANNELS * pixels : NULL;
    part->gradient =
        (gs_gradient){.color = d_color, .depth = d_depth, .abs_mean2d = s->absolute}; // not written here
    const sharded_image image = {.view = part->part.view,
                                 .width = width,
                                 .height = height,
                                 .rows = part->part.rows,
                                 .color = view->image.color,
                                 .d_color = d_color,
                                 .depth = view->image.depth,
                                 .d_depth = d_depth};
    device_begin_stage("loss");
    if (!s->batch->loss(s->group, s->batch->context, &image, s->stream)) return false;
    if (s->fixed)
        GS_OR_FAIL(s->group, gs_share_row_sums(view, part->part.rows, &part->gradient,
                                               row_sums_of(s, part->part.view), s->stream));
    return true;
}

// A rank alone has its moments where they are needed, unless integers stand between those of two views.
static bool place_moments(sharded *s, own_part *part) {
    gs_gradient *const gradient = &part->gradient;
    const int64_t count = part->view.gaussians.count;
    GS_OR_FAIL(s->group, gs_moments_bytes(count, 0, s->batch->policy.strategy, &gradient->moments_bytes));
    if (s->alone && !s->fixed)
        gradient->moments = (gs_moments *)s->moments.memory + part->part.view * count;
    else
        gradient->moments = reserve_for_step(s, &part->in->moments, gradient->moments_bytes);
    return gradient->moments != NULL;
}

bool queue_backward(sharded *s, own_part *part) {
    const gs_view *const view = &part->view;
    const int32_t v = part->part.view;
    device_begin_stage("render backward");
    if (!place_moments(s, part)) return false;
    if (s->fixed) {
        gs_largest_values *const largest = (gs_largest_values *)s->largest.memory + v;
        GS_OR_FAIL(s->group, gs_share_bound(view, row_sums_of(s, v), largest, s->stream));
        part->gradient.largest = largest;
    }
    GS_OR_FAIL(s->group, gs_render_backward(view, &part->gradient, s->batch->policy, s->stream));
    if (s->fixed && !s->alone)
        GS_OR_FAIL(s->group, gs_fixed_sums(view, &part->gradient, &part->sums,
                                           (gs_fixed_units *)s->units.memory + v, s->stream));
    return true;
}
