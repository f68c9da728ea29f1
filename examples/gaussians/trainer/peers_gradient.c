// SPDX-License-Identifier: MIT
// The gradient of a step where each of several ranks has the whole scene and all pictures. A rank renders some of the
// views, all in one launch. The moments of all views then come to all ranks, which do the rest of the step alike: the same
// numbers go in, and no sum in there depends on an order. What a rank decides from sums that do is shared: losses, scores.
#include "trainer_parts.h"
#include "device.h"
#include "frames/gs_check.h"
#include <stdlib.h>

// The most Gaussians with which what all ranks do alike, and the moments of all views, take no longer than parts do
// (docs/notes/systems.md).
static int64_t most_of_peers(int64_t ranks) {
    return 8000000 / (ranks * ranks);
}

bool trainer_suits_peers(const training_settings *settings, int64_t first, int ranks) {
    const int64_t most = settings->density.most_gaussians;
    return ranks > 1 && settings->policy.strategy != DISTWAR_FIXED && settings->batch >= ranks &&
           (most > first ? most : first) <= most_of_peers(ranks);
}

void peers_gradient_open(trainer *t) {
    peers_gradient *const p = &t->peers;
    if (!trainer_has_peers(t)) return;
    DEVICE_CHECK(cudaStreamCreateWithFlags(&p->watch, cudaStreamNonBlocking));
    DEVICE_CHECK(cudaEventCreateWithFlags(&p->exchanged, cudaEventDisableTiming));
}

void peers_gradient_close(trainer *t) {
    peers_gradient *const p = &t->peers;
    if (p->exchanged) cudaEventDestroy(p->exchanged);
    if (p->watch) cudaStreamDestroy(p->watch);
}

// The rank's views are those from this one to the next rank's.
static int32_t first_view(const trainer *t, const step_views *of, int rank) {
    return of->count * rank / ranks_count(t->all);
}

static bool render_own(trainer *t, const step_views *own, float *sums) {
    const int64_t before = own->before * t->one.all.gaussians.count;
    frame *const f = &t->one.f;
    f->projected = t->one.all.splats + before;
    f->given_moments = (gs_moments *)t->one.moments.memory + before;
    if (own->count == 0) { // the clock reads all marks of a step
        for (stage s = STAGE_BIN; s <= STAGE_RENDER_BACKWARD; s++) stage_clock_mark(f->clock, s);
        return true;
    }
    if (!frame_queue_loss(t, own, &t->one.all.gaussians)) return false;
    frame_expose_views(t, own, sums + own->before * GS_EXPOSURE_SUMS);
    if (!own->only_loss) frame_queue_backward(t, own);
    return true;
}

// Each rank's moments come to all ranks.
static bool exchange_moments(trainer *t, const step_views *of) {
    peers_gradient *const p = &t->peers;
    const int64_t view = t->one.all.gaussians.count * (int64_t)sizeof(gs_moments);
    const int ranks = ranks_count(t->all), own = ranks_own(t->all);
    int64_t begin[RANKS_MAX + 1], bytes[RANKS_MAX], sent_begin[RANKS_MAX], sent[RANKS_MAX];
    for (int r = 0; r <= ranks; r++) begin[r] = view * first_view(t, of, r);
    for (int r = 0; r < ranks; r++) {
        sent_begin[r] = begin[own];
        sent[r] = r == own ? 0 : begin[own + 1] - begin[own];
        bytes[r] = r == own ? 0 : begin[r + 1] - begin[r];
    }
    void *const moments = t->one.moments.memory;
    const ranks_exchange exchange = {moments, sent_begin, sent, moments, begin, bytes};
    if (!ranks_all_to_all(t->all, &exchange, NULL)) return false;
    DEVICE_CHECK(cudaEventRecord(p->exchanged, NULL));
    DEVICE_CHECK(cudaStreamWaitEvent(p->watch, p->exchanged, 0));
    return true;
}

// Each view's sums are on one rank and zeros on the others, so that the sums are exact.
static bool step_peer_exposures(trainer *t, const step_views *of, float *sums) {
    const ranks_reduction sum = {sums, of->count * (int64_t)GS_EXPOSURE_SUMS, RANKS_FLOAT, RANKS_SUM};
    if (t->state->exposures == 0) return true;
    if (!ranks_all_reduce(t->all, &sum, NULL)) return false;
    frame_step_exposures(t, of, sums);
    return true;
}

bool peers_gradient_of(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    const int rank = ranks_own(t->all);
    const step_views own = step_views_of(of, first_view(t, of, rank), first_view(t, of, rank + 1));
    const gs_gaussians gaussians = trainer_gaussians(t, of);
    float *const sums = frame_exposure_sums(t);
    t->one.f.with_depth = trainer_weigh(t, of);
    if (t->state->exposures > 0) DEVICE_CHECK(cudaMemsetAsync(sums, 0, t->one.exposure_sums.bytes, NULL));
    frame_project_all(t, of, &gaussians);
    if (!render_own(t, &own, sums) || !step_peer_exposures(t, of, sums)) return false;
    if (of->only_loss) return true;
    if (!exchange_moments(t, of)) return false;
    frame_project_all_backward(t, of, view, mean2d);
    return true;
}

bool trainer_check_peers(trainer *t) {
    const gs_gaussians *const g = &t->state->gaussians;
    const size_t bytes = (size_t)g->count * sizeof(float);
    uint64_t hash = 14695981039346656037u; // FNV-1a, of words
    int64_t of_all[RANKS_MAX];
    if (!trainer_has_peers(t)) return true;
    uint32_t *const logits = malloc(bytes + 1);
    if (!logits) return ranks_fail(t->all, "no memory for %zu bytes", bytes);
    bool done = ranks_wait(t->all, NULL);
    if (done) device_download(logits, g->opacity_logit, bytes);
    for (int64_t i = 0; i < g->count && done; i++) hash = (hash ^ logits[i]) * 1099511628211u;
    free(logits);
    if (!done || !ranks_tell_all(t->all, (int64_t)hash, of_all, NULL)) return false;
    for (int r = 1; r < ranks_count(t->all); r++)
        if (of_all[r] != of_all[0])
            return ranks_fail(
                t->all,
                "the scenes of ranks 0 and %d differ after %lld views, which GPUs of one kind do "
                "not; take --reproducible, where each has a part of the scene",
                r, (long long)t->state->iteration);
    return true;
}
