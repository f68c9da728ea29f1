// SPDX-License-Identifier: MIT
// Density control by splits: up to a limit, Gaussians that are drawn by a weight, unless told otherwise their absolute
// screen-space gradient, are split along the longest axis; the halves also take the rows of those that became transparent.
#include "device.h"
#include "density_control.h"
#include <math.h>

static void list_options(density_settings *settings, option_table *table) {
    static const char *const places[] = {"gradient", "opacity", "score", "agreement", NULL};
    static const char *const ways[] = {"split", "relocate", NULL};
    const option_spec rows[] = {
        OPTION(
            "grow-where", &settings->split.where, .choices = places,
            .help =
                "experimental: split: what draws Gaussians; score: views agree that they lack detail; agreement: "
                "only so many as agree beyond chance"),
        OPTION("grow-how", &settings->split.relocates, .choices = ways,
               .help = "experimental: split: a drawn Gaussian becomes two halves, or two in one place"),
        OPTIONS_END};
    option_table_add(table, rows);
}

// Turns the sums of views into weights. *most: Gaussians whose views agree; by agreement less those of which chance would
// say so and twice the deviation of the difference.
static bool weigh(const density_step *step, int64_t *most) {
    const training_state *const state = step->state;
    int64_t counts[2];
    int64_t *const sums = device_buffer_reserve(&step->control->workspace, sizeof counts);
    const ranks_reduction of_all = {sums, 2, RANKS_INT64, RANKS_SUM};
    const gs_agreement_rules rules = {.first = training_state_first(state),
                                      .existing = state->gaussians.count,
                                      .least_opacity = (float)step->settings->least_opacity,
                                      .errors = 1,
                                      .seed = step->seed,
                                      .iteration = (uint64_t)state->iteration};
    DEVICE_CHECK(cudaMemsetAsync(sums, 0, sizeof counts, NULL));
    GS_OR_FAIL(state->group, gs_agreement_weigh(&state->gaussians, &rules, state->density, sums, NULL));
    if (!ranks_all_reduce(state->group, &of_all, NULL) || !ranks_wait(state->group, NULL)) return false;
    device_download(counts, sums, sizeof counts);
    *most = counts[0];
    if (step->settings->split.where == GROW_BY_AGREEMENT)
        *most -= counts[1] + (int64_t)(2 * sqrt((double)(counts[0] + counts[1])));
    return true;
}

static bool split(const density_step *step) {
    const density_split_settings *const s = &step->settings->split;
    training_state *state = step->state;
    const int64_t existing = training_state_count(state);
    int64_t limited = density_grown_count(step->settings, existing, state->schedule.at), most = existing;
    if (s->where >= GROW_BY_SCORE && !weigh(step, &most)) return false;
    if (limited > existing + most) limited = existing + most; // each is split once
    if (limited >= existing) {
        if (!training_state_grow(state, limited)) return false;
        const shard_split_rules what = {
            .vectors = training_state_vectors(state),
            .first = training_state_first(state),
            .rules = {.existing = existing,
                      .least_opacity = (float)step->settings->least_opacity,
                      .density = s->where == GROW_BY_OPACITY ? NULL : state->density,
                      .row = state->density_row,
                      .together = s->relocates,
                      .seed = step->seed,
                      .iteration = (uint64_t)state->iteration}};
        if (!shard_split(state->group, &what, &step->control->shared, NULL)) return false;
    }
    training_state_clear_density(state);
    return true;
}

bool density_split_act(const density_step *step) {
    return !step->due || split(step);
}

const density_method density_split = {.name = "split",
                                      .until_share = {5, 6},
                                      .starts_small = true,
                                      .has_limit = true,
                                      .sums = true,
                                      .absolute = true,
                                      .list_options = list_options};
