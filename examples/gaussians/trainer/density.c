// SPDX-License-Identifier: MIT
#include "trainer.h"
#include <assert.h>
#include <math.h>

static void clear_sums(const training_state *state) {
    DEVICE_CHECK(
        cudaMemsetAsync(state->density, 0, training_state_density_bytes(state->gaussians.count), NULL));
}

// Slowly: where views do not agree, the validation views end training at a few times the first Gaussians.
static int64_t limit_reached(const density_settings *settings) {
    return settings->from + 3 * (settings->until - settings->from) / 4;
}

// The part of the Gaussians that a method with a limit adds each time, as published (Kheradmand et al. 2024).
static const float growth = 0.05f;

// Returns the number of Gaussians after a step in which a method with a limit acts: more by that part, or by the factor that
// reaches the limit after three quarters, whichever is larger. So a run from few points has time for detail.
static int64_t density_grown_count(const density_settings *settings, int64_t existing, int64_t step) {
    const double most = (double)settings->most_gaussians, now = (double)existing;
    if (existing == 0 || existing >= settings->most_gaussians) return existing;
    const int64_t reached = limit_reached(settings);
    const double times = step < reached ? (double)((reached - step) / settings->every + 1) : 1;
    const double by_part = now * (1 + (double)growth);
    const double to_limit = step < reached ? now * pow(most / now, 1 / times) : 0;
    return (int64_t)fmin(fmax(by_part, to_limit), most);
}

// ---- adaptive: by the screen-space gradient, clones, splits, prunes, resets opacities (Kerbl et al. 2023)

static bool adaptive_act(trainer *t, bool due) {
    const density_settings *const settings = &t->settings->density;
    const density_adaptive_settings *const s = &settings->adaptive;
    training_state *const state = t->state;
    const run_place *const place = &state->place;
    const int64_t every = s->reset_every;
    if (place->at >= settings->until) return true;
    if (due) {
        // Single precision times double, as the thresholds are single and the extent is double.
        const gs_density_rules rules = {
            .gradient_threshold = (float)s->gradient_threshold,
            .split_size = (float)((float)s->split_size * settings->extent),
            .split_factor = (float)s->split_factor,
            .least_opacity = (float)settings->least_opacity,
            .most_size = every > 0 && place->at > every ? (float)((float)s->most_size * settings->extent) : 0,
            .most_gaussians = settings->most_gaussians,
            .seed = (uint64_t)t->settings->seed,
            .iteration = (uint64_t)place->views};
        gs_density_plan plan;
        GS_CHECK(gs_density_plan_step(&state->gaussians, state->density, &rules, &plan, NULL));
        gs_gaussians *const sets[] = {&state->gaussians, &state->first_moment, &state->second_moment};
        device_gaussians_close(&state->gradients); // first: the most memory is needed here
        for (int i = 0; i < 3; i++) {
            gs_gaussians moved = device_gaussians_open(plan.count_after, sets[i]->sh_degree);
            moved.antialias = sets[i]->antialias;
            GS_CHECK(gs_density_move(&plan, &rules, i > 0, sets[i], &moved, NULL));
            device_gaussians_close(sets[i]);
            *sets[i] = moved;
        }
        state->gradients = device_gaussians_open(plan.count_after, state->gaussians.sh_degree);
        device_free(state->density);
        state->density = device_allocate(training_state_density_bytes(plan.count_after));
        state->capacity = plan.count_after;
        training_state_set_count(state, plan.count_after);
        clear_sums(state);
    }
    if (every > 0 && place->at / every > place->before / every)
        GS_CHECK(gs_opacity_reset(&state->gaussians, &state->first_moment, &state->second_moment,
                                  (float)s->reset_opacity, NULL));
    return true;
}

// Fills dead and new rows: by splits with `density`, else by relocation.
static bool refill(trainer *t, int64_t existing, const float *density) {
    training_state *const state = t->state;
    const gs_refill_rules rules = {.existing = existing,
                                   .least_opacity = (float)t->settings->density.least_opacity,
                                   .seed = (uint64_t)t->settings->seed,
                                   .iteration = (uint64_t)state->place.views,
                                   .density = density};
    if (state->way->refill) return state->way->refill(state, &rules);
    GS_CHECK(gs_refill(&state->gaussians, &state->first_moment, &state->second_moment, &rules, NULL));
    return true;
}

// ---- mcmc: relocation and noise, 3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024)

static void mcmc_before_adam(trainer *t, int views) {
    const density_mcmc_settings *const s = &t->settings->density.mcmc;
    GS_CHECK(gs_density_penalty(&t->state->gaussians, training_state_count(t->state),
                                (float)(views * s->opacity_weight), (float)(views * s->scale_weight),
                                &t->state->gradients, NULL));
}

static bool mcmc_act(trainer *t, bool due) {
    const density_settings *const s = &t->settings->density;
    training_state *const state = t->state;
    const int64_t existing = training_state_count(state);
    if (due &&
        !(training_state_grow(state, density_grown_count(s, existing, state->place.at), s->most_gaussians) &&
          refill(t, existing, NULL)))
        return false;
    GS_CHECK(gs_density_noise(&state->gaussians, state->first, (float)s->mcmc.noise * t->mean_rate,
                              (uint64_t)t->settings->seed, (uint64_t)state->place.views, NULL));
    return true;
}

// ---- split: up to a limit, Gaussians that are drawn by their absolute screen-space gradient are split along the longest
// axis; the halves also take the rows of those that became transparent

static bool split_act(trainer *t, bool due) {
    const density_settings *const s = &t->settings->density;
    training_state *const state = t->state;
    const int64_t existing = training_state_count(state),
                  limited = density_grown_count(s, existing, state->place.at);
    if (!due) return true;
    if (!training_state_grow(state, limited < 2 * existing ? limited : 2 * existing, // each is split once
                             s->most_gaussians) ||
        !refill(t, existing, state->density))
        return false;
    clear_sums(state);
    return true;
}

// ---- all methods

static const density_method methods[] = {
    {.name = "none"},
    {.name = "adaptive", .sums = SCREEN_SIGNED, .act = adaptive_act},
    {.name = "mcmc", .has_limit = true, .before_adam = mcmc_before_adam, .act = mcmc_act},
    {.name = "split", .has_limit = true, .sums = SCREEN_ABSOLUTE, .act = split_act}};
static_assert(sizeof methods / sizeof *methods == DENSITY_KINDS,
              "each kind has a row, in the order of density_kind");

const density_method *density_method_of(int kind) {
    return &methods[kind];
}

bool density_is_due(const density_settings *settings, int64_t before, int64_t at) {
    const int64_t first = before > settings->from ? before : settings->from;
    const int64_t last = at < settings->until ? at : settings->until - 1;
    return first < last && first / settings->every < last / settings->every;
}

// A step with r times the Gaussians takes about r^0.6 times as long. They grow by equal factors until then.
double density_time_ahead(const density_settings *settings, int64_t iterations, int64_t existing,
                          int64_t at) {
    if (!methods[settings->kind].has_limit || existing < 1 || existing >= settings->most_gaussians ||
        at >= settings->until || at >= iterations)
        return 1;
    const double full = pow((double)settings->most_gaussians / (double)existing, 0.6);
    const double left = (double)(iterations - at),
                 growing = fmin(fmax((double)(limit_reached(settings) - at), 0), left);
    return (growing * (full - 1) / log(full) + (left - growing) * full) / left;
}

screen_gradient density_sums_at(const density_settings *settings, int64_t at) {
    return at < settings->until ? methods[settings->kind].sums : SCREEN_NONE;
}

bool density_adds_to_gradient(const density_settings *settings, int64_t at) {
    return at < settings->until && methods[settings->kind].before_adam;
}

void density_before_adam(trainer *t, int views) {
    const density_settings *const settings = &t->settings->density;
    if (density_adds_to_gradient(settings, schedule_step(&t->state->place)))
        methods[settings->kind].before_adam(t, views);
}

void density_sum(const trainer *t, const gs_view *view, const float *mean2d) {
    if (mean2d) GS_CHECK(gs_density_accumulate(view, mean2d, t->state->density, NULL));
}

bool density_after_adam(trainer *t) {
    const density_settings *const settings = &t->settings->density;
    const run_place *const place = &t->state->place;
    const density_method *const method = &methods[settings->kind];
    return !method->act || method->act(t, density_is_due(settings, place->before, place->at));
}

// ---- retirement

bool retirement_is_due(const density_settings *settings, int64_t before, int64_t at) {
    return settings->retired > 0 && density_is_due(settings, before, at) &&
           before / settings->retire_every < at / settings->retire_every;
}

int64_t retirements_left(const density_settings *settings, int64_t at) {
    const int64_t every = settings->retire_every, first = at > settings->from ? at : settings->from;
    return settings->retired > 0 && first < settings->until ? (settings->until - 1) / every - first / every
                                                            : 0;
}

size_t retirement_views(size_t count) {
    const size_t every = count / 50;
    return every < 2 ? count : count / (every < 4 ? every : 4);
}

int32_t retirement_cameras(const training_state *state, const scored_views *by, size_t first,
                           gs_camera *camera) {
    const size_t count = retirement_views(by->count), batch = (size_t)by->batch;
    const int32_t together = (int32_t)(count - first < batch ? count - first : batch);
    for (int32_t v = 0; v < together; v++) {
        const size_t k = (first + (size_t)v) * by->count / count, index = by->index ? by->index[k] : k;
        camera[v] = by->views[index].camera;
        if (state->poses > 0) pose_to_camera(&state->pose[index].now, &camera[v]);
    }
    return together;
}

bool trainer_scores(trainer *t, const scored_views *by, float *score) {
    const training_state *const state = t->state;
    frame *const f = &t->rendered;
    const gs_gaussians *const gaussians = &state->gaussians;
    const size_t batch = (size_t)by->batch, begin = (size_t)ranks_own(state->group) * batch,
                 stride = (size_t)ranks_count(state->group) * batch;
    const float black[GS_CHANNELS] = {0};
    stage_clock *const clock = f->clock; // it has the stages of steps alone
    f->clock = NULL;
    f->with_depth = false; // its gradient is of the step's pictures
    for (size_t first = begin; first < retirement_views(by->count); first += stride) {
        gs_camera camera[GS_MAX_VIEWS];
        const int32_t views = retirement_cameras(state, by, first, camera),
                      together = t->one_by_one ? 1 : views;
        const size_t bytes = (size_t)views * GS_CHANNELS * camera_pixels(camera) * sizeof(float);
        // Scores are compared with each other, so any positive number does, in every pixel: the bytes of 0.747.
        if (first == begin || batch == 1) // several have one size
            DEVICE_CHECK(
                cudaMemsetAsync(device_buffer_reserve(&f->color_gradient, bytes), 0x3f, bytes, NULL));
        frame_project(f, gaussians, 0, camera, views); // alpha does not depend on colours
        for (int32_t from = 0; from < views; from += together) {
            do { // again while the lists have no room
                frame_draw(f, from, together, black);
            } while (!frame_settle(f));
            frame_render_backward(f, t->tuner.policy);
            for (int32_t v = 0; v < together; v++)
                GS_CHECK(gs_score_add(f->gradient.splat_grad + v * gaussians->count, gaussians->count, score,
                                      NULL));
        }
    }
    f->clock = clock;
    return true;
}

bool retirement_end(trainer *t, const float *score, double part) {
    const training_state *const state = t->state;
    gs_gaussians everyone = state->gaussians; // gs_retire reads and writes nothing but opacities
    float *const own = state->gaussians.opacity_logit;
    everyone.count = training_state_count(state);
    const size_t bytes = (size_t)everyone.count * sizeof *own;
    const bool gathers = state->way && state->way->gather;
    if (gathers) {
        everyone.opacity_logit = device_buffer_reserve(&t->retirement.logits, bytes);
        if (!state->way->gather(state, own, sizeof *own, (row_range){0, everyone.count}, true,
                                everyone.opacity_logit))
            return false;
    }
    GS_CHECK(gs_retire(&everyone, score, (float)part, NULL));
    if (gathers)
        DEVICE_CHECK(cudaMemcpyAsync(own, everyone.opacity_logit + state->first,
                                     (size_t)state->gaussians.count * sizeof *own, cudaMemcpyDeviceToDevice,
                                     NULL));
    return true;
}
