// SPDX-License-Identifier: MIT
#include "recipe.h"
#include "plan/defaults.h"
#include "frames/blend_strategies.h"
#include <math.h>
#include <string.h>

training_choices training_choices_default(void) {
    return (training_choices){.validate = -1,
                              .teachers = TEACHERS_MOST,
                              .average = usual_average,
                              .dropout = -1,
                              .weights = loss_weights_default(),
                              .tune = true,
                              .policy = {DISTWAR_TREE, BLEND_THRESHOLD},
                              .resolutions = {.automatic = true},
                              .density = density_options_default()};
}

density_data training_density_data(const training_data *data, int64_t iterations) {
    density_data out = {.iterations = iterations,
                        .extent = data->extent,
                        .everywhere = data->everywhere,
                        .views = data->count};
    for (size_t i = 0; i < data->count; i++) out.pixels += data->views[i].counted;
    return out;
}

size_t training_views_aside(const training_choices *choices, size_t count) {
    if (choices->validate >= 0) return (size_t)choices->validate;
    return choices->refine_poses ? 0 : usual_validation(count);
}

bool training_choices_suit(const training_choices *choices, const training_data *data, fault *why) {
    if (choices->refine_poses && choices->validate > 0)
        return fail(
            why, "--validate excludes --refine-poses: poses of views that are set aside would stay behind");
    if (resolution_most_views(&choices->resolutions, choices->batch) <= 1)
        return true; // auto does what is possible
    if (choices->refine_poses) return fail(why, "--refine-poses takes one view per step");
    return resolution_views_match(data->views, data->count, why);
}

static void multiply_rates(training_settings *settings, float part) {
    gs_adam_rates *rates = &settings->rates;
    rates->mean *= part, rates->log_scale *= part, rates->quaternion *= part, rates->opacity_logit *= part;
    rates->sh_constant *= part, rates->sh_rest *= part;
    settings->final_mean_rate *= part, settings->final_sh_rest *= part;
}

training_settings training_settings_from(const training_choices *c, const training_data *data,
                                         int64_t iterations) {
    const density_data gaussians = training_density_data(data, iterations);
    const density_settings density = density_settings_from(&c->density, &gaussians);
    const view_sizes sizes = view_sizes_of(data->views, data->count);
    const double sh_rate = c->sh_rate > 0 ? c->sh_rate : usual_sh_rate(data->count);
    fault why;
    const bool several = !c->refine_poses && resolution_views_match(data->views, data->count, &why);
    const run_size run = {iterations, c->ranks > 1 && c->policy.strategy != DISTWAR_FIXED ? c->ranks : 1};
    training_settings settings = {.iterations = iterations,
                                  .seconds = c->seconds,
                                  .set_aside_until = validation_until,
                                  .validate_every = usual_validate_every(data->count),
                                  .teachers = c->teachers,
                                  .seed = (uint64_t)c->seed,
                                  .tune = c->tune,
                                  .policy = c->policy,
                                  .random_background = c->random_background,
                                  .check_finite = c->check_finite,
                                  .rates = usual_rates(data->extent, sh_rate),
                                  .final_mean_rate = (float)published_last_mean_rate(data->extent),
                                  .final_sh_rest = sh_rest_rate(usual_last_sh_rate(sh_rate, iterations)),
                                  .average_part = c->average,
                                  .dropout =
                                      c->dropout >= 0 ? c->dropout : usual_dropout(data->count, iterations),
                                  .pose = {.rate = fine_pose_rate, .end = 0.01, .from = POSES_FROM},
                                  .weights = c->weights,
                                  .exposure_rate = usual_exposure_rate(data->count, iterations),
                                  .sh_interval = 1000,
                                  .density = density,
                                  .batch = c->batch > 0 ? c->batch
                                           : several    ? usual_batch(&sizes, &run)
                                                        : 1,
                                  .resolutions = c->resolutions};
    if (c->resolutions.automatic)
        settings.resolutions = c->refine_poses ? (resolution_schedule){0}
                                               : usual_resolutions(&sizes, density.most_gaussians,
                                                                   c->batch != 1 && several ? &run : NULL);
    multiply_rates(&settings, (float)usual_rate_part(data->count, iterations));
    const double unit = data->extent / usual_extent; // differences of inverse depths are inverse lengths
    settings.weights.depth.first *= unit, settings.weights.depth.last *= unit;
    memcpy(settings.background, c->background, sizeof settings.background);
    return settings;
}

// ---- a budget of time

// The `fit` of training_budget.
static void fit(void *context, double steps, training_settings *settings) {
    budget_recipe *const recipe = context;
    const training_choices *const choices = recipe->choices;
    const training_data *const data = recipe->data;
    const double left = fmin(fmax(steps, LEAST_SCHEDULE), 1e8);
    *settings = training_settings_from(choices, data, (int64_t)left);
    settings->budget = &recipe->budget;
    if (choices->density.settings.most_gaussians == 0)
        settings->density.most_gaussians = usual_limit_of_budget(
            training_density_data(data, settings->iterations).pixels, data->count, steps);
}

training_settings budget_recipe_start(budget_recipe *recipe) {
    training_settings settings = training_settings_from(recipe->choices, recipe->data, USUAL_ITERATIONS);
    recipe->budget = (training_budget){.seconds = recipe->choices->budget, .fit = fit, .context = recipe};
    settings.budget = &recipe->budget;
    return settings;
}
