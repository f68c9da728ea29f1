// SPDX-License-Identifier: MIT
// Each of several ranks has the whole scene and all pictures. A rank renders some of a step's views in one launch. The moments
// of all views then come to all ranks, which do the rest of the step alike: the same numbers go in, and no sum depends on an
// order. Sums that do depend on one, losses and scores, are shared.
#include "device.h"
#include "ways.h"
#include "trainer.h"
#include <stdlib.h>

typedef struct whole {
    gs_stream watch;       // waits for the exchange
    cudaEvent_t exchanged; // of the last step
} whole;

static void *open_whole(ranks *group) {
    whole *const w = calloc(1, sizeof *w);
    if (!w) {
        ranks_fail(group, "no memory for the state of ranks");
        return NULL;
    }
    DEVICE_CHECK(cudaStreamCreateWithFlags(&w->watch, cudaStreamNonBlocking));
    DEVICE_CHECK(cudaEventCreateWithFlags(&w->exchanged, cudaEventDisableTiming));
    return w;
}

static void close_whole(void *kept) {
    whole *const w = kept;
    cudaEventDestroy(w->exchanged);
    cudaStreamDestroy(w->watch);
    free(w);
}

// The rank's views are those from this one to the next rank's.
static int32_t first_view(const trainer *t, const step_views *of, int rank) {
    return of->count * rank / ranks_count(t->group);
}

// Each rank's gain sums and moments come to all ranks.
static bool exchange(trainer *t, const step_views *of, float *gain_sums) {
    const whole *const w = t->state->kept;
    gs_splat_grad *const moments = frame_moments(&t->rendered);
    const int64_t view = t->rendered.all.gaussians.count * (int64_t)sizeof *moments;
    const int count = ranks_count(t->group), own = ranks_own(t->group);
    ranks_bytes of_rank[RANKS_MAX];
    for (int r = 0; r < count; r++) {
        const int64_t first = first_view(t, of, r);
        of_rank[r] = (ranks_bytes){view * first, view * (first_view(t, of, r + 1) - first)};
    }
    for (stage s = STAGE_BIN; s <= STAGE_RENDER_BACKWARD && of_rank[own].count == 0; s++)
        stage_clock_mark(t->rendered.clock,
                         s); // of a rank without a view: the clock reads all marks of a step
    // Each view's sums are on one rank and zeros on the others, so that the sums are exact.
    const ranks_reduction sum = {gain_sums, of->count * (int64_t)GS_EXPOSURE_SUMS, RANKS_FLOAT, RANKS_SUM};
    if (t->state->exposures > 0 && !ranks_all_reduce(t->group, &sum, NULL)) return false;
    if (of->only_loss) return true;
    ranks_exchange exchange = {.send = moments, .receive = moments};
    for (int r = 0; r < count; r++)
        if (r != own) exchange.to[r] = of_rank[own], exchange.from[r] = of_rank[r];
    if (!ranks_all_to_all(t->group, &exchange, NULL)) return false;
    DEVICE_CHECK(cudaEventRecord(w->exchanged, NULL));
    DEVICE_CHECK(cudaStreamWaitEvent(w->watch, w->exchanged, 0));
    return true;
}

static bool gradient(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    const int rank = ranks_own(t->group);
    const int32_t first = first_view(t, of, rank);
    t->watch = ((const whole *)t->state->kept)->watch;
    return frame_gradient_of(t, of, first, first_view(t, of, rank + 1) - first, exchange, view, mean2d);
}

// Ranks score by some of the views each.
static bool scores(trainer *t, const scored_views *by, float *score) {
    const ranks_reduction largest = {score, t->state->all, RANKS_FLOAT, RANKS_MAX_OF};
    return trainer_scores(t, by, score) && ranks_all_reduce(t->group, &largest, NULL) &&
           ranks_wait(t->group, NULL);
}

static bool agree(trainer *t) {
    const gs_gaussians *const g = &t->state->gaussians;
    const size_t bytes = (size_t)g->count * sizeof(float);
    uint64_t hash = 14695981039346656037u; // FNV-1a, of words
    int64_t of_all[RANKS_MAX];
    uint32_t *const logits = malloc(bytes + 1);
    if (!logits) return ranks_fail(t->group, "no memory for %zu bytes", bytes);
    bool done = ranks_wait(t->group, NULL);
    if (done) device_download(logits, g->opacity_logit, bytes);
    for (int64_t i = 0; i < g->count && done; i++) hash = (hash ^ logits[i]) * 1099511628211u;
    free(logits);
    if (!done || !ranks_tell_all(t->group, (int64_t)hash, of_all, NULL)) return false;
    for (int r = 1; r < ranks_count(t->group); r++)
        if (of_all[r] != of_all[0])
            return ranks_fail(
                t->group,
                "the scenes of ranks 0 and %d differ after %lld views, which GPUs of one kind do "
                "not; take --reproducible, where each has a part of the scene",
                r, (long long)t->state->place.views);
    return true;
}

// The first exchange takes 0.5 s of two H200s and 1.4 s of four. Seconds beside one GPU's: 1.0 and 1.5 times for 4,000 views,
// 0.9 and 1.15 for 7,000, 0.8 and 0.7 for 12,000.
static const char *few_for_whole(const training_settings *settings, int ranks) {
    return settings->budget <= 0 && settings->iterations < 2500 * ranks ? "short for several GPUs" : NULL;
}

const training_way whole_way = {.about = "each has the whole scene and renders some of a step's views",
                                .frames = true,
                                .open = open_whole,
                                .close = close_whole,
                                .few = few_for_whole,
                                .gradient = gradient,
                                .scores = scores,
                                .agree = agree};

// ---- which of the two is faster

const training_way *way_of_ranks(const training_settings *settings, int64_t first, int ranks) {
    // With more Gaussians what all ranks do alike, and the moments of all views, take longer than parts do
    // (docs/notes/systems.md).
    const int64_t most_whole = 8000000 / ((int64_t)ranks * ranks), most = settings->density.most_gaussians;
    if (ranks <= 1) return NULL;
    return settings->policy.strategy != DISTWAR_FIXED && settings->batch >= ranks &&
                   (most > first ? most : first) <= most_whole
               ? &whole_way
               : &parts_way;
}
