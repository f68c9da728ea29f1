// SPDX-License-Identifier: MIT
#include "plan.h"
#include "rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- learning rates

// A rate of SH above the constant, given as a multiple of the published one.
static float sh_rest_rate(double sh_rate) {
    return (float)(sh_rate * 2.5e-3 / 20);
}

gs_adam_rates published_rates(double extent, double sh_rate) {
    return (gs_adam_rates){.mean = (float)(1.6e-4 * extent),
                           .log_scale = 5e-3f,
                           .quaternion = 1e-3f,
                           .opacity_logit = 5e-2f,
                           .sh0 = 2.5e-3f,
                           .shN = sh_rest_rate(sh_rate)};
}

double default_sh_rate(size_t views) {
    return fmin(fmax((double)views / 25, 1), 8);
}

double default_last_sh_rate(double first, int64_t iterations) {
    return fmin(first, fmax(1, first * DEFAULT_ITERATIONS / (double)iterations));
}

double default_rate_part(size_t views, int64_t iterations) {
    const double few = fmin(1, fmax(0, 2 - (double)views / 20));
    return pow(fmax(0.3, fmin(1, DEFAULT_ITERATIONS / (double)iterations)), few);
}

double default_dropout(size_t views, int64_t iterations) {
    const double often = fmin((double)iterations, 30000) / ((double)views * (double)views);
    return 0.2 * fmin(1, fmax(0, (often - 4) / 12));
}

// ---- how many Gaussians

// More than one Gaussian per 100 pixels of the training views fit what is in one picture only (fern 25.05 dB with 130,000,
// 24.61 with 300,000).
static const double limit = 300000, pixels_a_gaussian = 100;

int64_t default_limit_of_budget(int64_t pixels, size_t views, double steps) {
    const double shorter = steps / 2500, longer = steps / 30000;
    const double most = fmin(1000000, limit + 6000 * fmax((double)views - 100, 0));
    const double wanted = limit * fmax(fmin(shorter, 1), longer);
    return (int64_t)fmax(fmin(fmin(wanted, most), (double)pixels / pixels_a_gaussian), 1);
}

double default_retired(size_t views) {
    return 0.16 * fmin(1, fmax(0, ((double)views - 20) / 20));
}

static int64_t retire_every(size_t views) {
    return views > 100 ? 10 * (int64_t)views : 1000;
}

// ---- exposures

bool default_exposures(size_t views) {
    return views >= 3;
}

// The rate of the gains' first steps. The rates of a view's steps in a run, which fall to a hundredth, add up to 1.5 however
// few rounds of the views the run has, or more: so, but for the prior, a view that all its pixels want darker can get darker
// by a factor of four. At most 0.3, which bounds the sum where there are fewer than 23 rounds.
static float exposure_rate(size_t views, int64_t iterations) {
    const double mean = 0.99 / log(100); // of rates that fall to a hundredth, in parts of the first
    return (float)fmin(fmax(1.5 / mean * (double)views / (double)iterations, 0.05), 0.3);
}

// ---- validation views

size_t default_validation(size_t views) {
    const size_t least = 4, most = 16, part = views / 16;
    if (views < 10 * least) return 0;
    return part < least ? least : part < most ? part : most;
}

// ---- views of a step

// Pictures of this many pixels that fill a GPU.
static int64_t pictures_at_once(int64_t pixels) {
    const int64_t pixels_at_once = 2500000;
    return (pixels_at_once + pixels / 2) / pixels;
}

static int64_t smaller_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t default_batch(const view_sizes *sizes, int64_t iterations, int64_t ranks) {
    const int64_t most = 4, steps_a_round = 4, steps = 3500;
    const int64_t each = smaller_of(pictures_at_once(sizes->pixels), most);
    int64_t batch = smaller_of(ranks * each, iterations / steps);
    if (batch < each) batch = each;
    if (batch < ranks) batch = ranks;
    batch = smaller_of(smaller_of(batch, (int64_t)sizes->count / steps_a_round), GS_MAX_VIEWS);
    return batch > 1 ? batch : 1;
}

resolution_schedule default_resolutions(const view_sizes *sizes, int64_t most_gaussians, int64_t iterations,
                                        int64_t ranks) {
    const int factor = 2;
    view_sizes small = *sizes;
    small.pixels /= factor * factor;
    if (small.pixels < most_gaussians || sizes->least_side < factor * RESOLUTIONS_LEAST_SIDE)
        return (resolution_schedule){0};
    return (resolution_schedule){.factor = factor,
                                 .batch = ranks > 0 ? (int)default_batch(&small, iterations, ranks) : 1,
                                 .percent = pictures_at_once(sizes->pixels) > 1 ? 50 : 90};
}

// ---- poses

int64_t default_pose_steps(size_t views, int64_t iterations) {
    const int64_t least = 1500, each = 40 * (int64_t)views, wanted = each > least ? each : least;
    return wanted < iterations ? wanted : iterations;
}

// ---- density control

void density_options_list(density_settings *s, option_table *table) {
    static const char *kinds[DENSITY_KINDS + 2] = {[DENSITY_AUTO] = "auto"}; // NULL-ended
    for (int kind = 0; kind < DENSITY_KINDS; kind++) kinds[kind] = density_method_of(kind)->name;
    const option_spec rows[] = {
        OPTION(
            "density", &s->kind, .choices = kinds,
            .help =
                "how Gaussians are added and removed; auto: mcmc from random points in open scenes, else split"),
        OPTION(
            "retire", &s->retired, .minimum = -1, .maximum = 1, .automatic = true,
            .help =
                "split, mcmc: remove Gaussians that contribute less than this fraction of the upper quartile to "
                "every view; 0: none; auto: 0.16, less with few views"),
        OPTIONS_END};
    option_table_add_group(table, "density control", rows);
}

// Noise finds the geometry of an unbounded scene that starts anywhere; splits alone do not.
static int kind_of(const density_settings *s, const training_data *data) {
    const int kind = s->kind;
    return kind != DENSITY_AUTO ? kind : data->everywhere ? DENSITY_MCMC : DENSITY_SPLIT;
}

static int64_t until(const density_settings *s, const training_data *data, int64_t iterations) {
    const bool has_limit = density_method_of(kind_of(s, data))->has_limit;
    return s->until > 0 ? s->until : has_limit ? iterations * 5 / 6 : iterations / 2;
}

void density_start(const density_settings *s, const training_data *data, int64_t iterations, double *opacity,
                   double *size) {
    const bool acts = (until(s, data, iterations) - 1) / s->every > s->from / s->every;
    const bool small = density_method_of(kind_of(s, data))->has_limit && acts && !data->everywhere;
    *opacity = small ? 0.5 : 0.1;
    *size = small ? 0.1 : 1;
}

density_settings density_settings_from(const density_settings *s, const training_data *data,
                                       int64_t iterations) {
    density_settings settings = *s;
    settings.kind = kind_of(s, data);
    settings.until = until(s, data, iterations);
    settings.extent = data->extent;
    // Sizes are lengths; the noise is the covariance times the rate of means, a length to the third power.
    const double unit = data->extent / default_extent;
    settings.mcmc.scale_weight /= unit;
    settings.mcmc.noise /= unit * unit;
    if (settings.most_gaussians == 0)
        settings.most_gaussians =
            (int64_t)fmax(fmin(limit, floor((double)data->pixels / pixels_a_gaussian)), 1);
    if (settings.retire_every == 0) settings.retire_every = retire_every(data->count);
    if (settings.retired < 0)
        settings.retired = density_method_of(settings.kind)->has_limit ? default_retired(data->count) : 0;
    return settings;
}

// ---- from choices to settings

// The part of the iterations, at the end, whose parameters are averaged: without, bonsai loses 0.73 dB, knot 0.90, fern 0.04.
static const double default_average = 0.1;
// Validation views are trained on from this part of the schedule on: the last views cost fox 1.1 dB where they never
// were. Density control acts until 5/6, so what only these views show still gets Gaussians.
static const double default_validation_until = 0.75;

training_settings training_settings_default(void) {
    return (training_settings){
        .validate = -1,
        .teachers = TEACHERS_MOST,
        .sh_degree = GS_MAX_SH_DEGREE,
        .exposure = true,
        .average_part = default_average,
        .dropout = -1,
#define AT_FIRST(name, first, ...) first,
        .weights = {LOSS_TERMS(AT_FIRST)},
#undef AT_FIRST
        .tune = true,
        .policy = {DISTWAR_TREE, BLEND_THRESHOLD},
        .resolutions = {.automatic = true},
        // As published, without extent; until and most_gaussians follow from the data.
        .density = {.kind = DENSITY_AUTO,
                    .from = 500,
                    .every = 100,
                    .least_opacity = 0.005,
                    .retired = -1,
                    .adaptive = {.gradient_threshold = 2e-4,
                                 .split_size = 0.01,
                                 .most_size = 0.1,
                                 .reset_every = 3000,
                                 .reset_opacity = 0.01,
                                 .split_factor = 1.6},
                    .mcmc = {.noise = 5e5, .opacity_weight = 0.01, .scale_weight = 0.01}}};
}

bool training_schedule_read(const char *text, training_settings *c, fault *why) {
    density_settings *const d = &c->density;
    const option_spec fields[] = {OPTION("from", &d->from, .maximum = SCHEDULE_MOST),
                                  OPTION("until", &d->until, .maximum = SCHEDULE_MOST),
                                  OPTION("every", &d->every, .minimum = 1, .maximum = SCHEDULE_MOST),
                                  OPTION("retire", &d->retire_every, .maximum = SCHEDULE_MOST),
                                  OPTION("average", &c->average_part, .maximum = 1),
                                  OPTION("dropout", &c->dropout, .maximum = 0.9),
                                  OPTION("weights", &c->weights_left, .minimum = 1e-6, .maximum = 1e6),
                                  OPTIONS_END};
    char copy[256], *rest = strcmp(text, "auto") == 0 ? NULL : copy;
    fault unused;
    snprintf(copy, sizeof copy, "%s", text);
    while (rest) {
        const char *const item = strsep(&rest, ",");
        const size_t length = strcspn(item, "=");
        const option_spec *to = fields;
        while (to->kind != OPTION_END && (strncmp(to->name, item, length) != 0 || to->name[length])) to++;
        if (to->kind == OPTION_END || !item[length] || strlen(text) >= sizeof copy ||
            !option_set(to, item + length + 1, &unused))
            return fail(
                why,
                "--schedule %s: must be auto or a list of NAME=NUMBER, such as from=500,every=100: from, until, "
                "every, retire in iterations, average up to 1, dropout up to 0.9, weights above 0",
                text);
    }
    return true;
}

training_data training_data_of(const target_view *views, size_t count) {
    training_data out = {.views = views, .count = count, .extent = scene_extent(views, count)};
    for (size_t i = 0; i < count; i++) out.pixels += views[i].counted;
    return out;
}

size_t training_validation_count(const training_settings *choices, size_t count) {
    if (choices->validate >= 0) return (size_t)choices->validate;
    return choices->refine_poses ? 0 : default_validation(count);
}

bool training_settings_combine(const training_settings *c, fault *why) {
    const bool several = c->ranks > 1;
    const struct {
        bool met;
        const char *sentence;
    } refused[] = {
        {c->reproducible && c->budget > 0,
         "--reproducible excludes --budget, whose steps depend on the clock"},
        {c->budget > 0 && c->iterations > 0,
         "--budget excludes --iterations: their number follows from the time"},
        {c->budget > 0 && c->refine_poses, "--budget excludes --refine-poses: poses take iterations before"},
        {c->validate > 0 && c->refine_poses,
         "--validate excludes --refine-poses: poses of validation views would stay behind"},
        {c->refine_poses && resolution_most_views(&c->resolutions, c->batch) > 1,
         "--refine-poses takes one view per step"},
        {c->from && c->random, "--from excludes --random: training starts from one of them"},
        {several && c->view, "--gpus excludes --view: the page shows the Gaussians of one GPU"},
        {several && c->depth, "--gpus excludes --depth: maps are compared with the depth of whole views"},
        {several && c->refine_poses,
         "--gpus excludes --refine-poses: refined poses take one view per step, by all Gaussians"},
        {several && c->density.kind == DENSITY_ADAPTIVE,
         "--gpus excludes --density adaptive: its clones and prunes change the number on each GPU; take "
         "split or mcmc"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].met) return fail(why, "%s", refused[i].sentence);
    return true;
}

bool training_settings_suit(const training_settings *choices, const training_data *data, fault *why) {
    return resolution_most_views(&choices->resolutions, choices->batch) <= 1 || // auto does what is possible
           resolution_views_match(data->views, data->count, why);
}

training_settings training_settings_from(const training_settings *c, const training_data *data,
                                         int64_t iterations) {
    const view_sizes sizes = view_sizes_of(data->views, data->count);
    const double sh_rate = default_sh_rate(data->count);
    fault why;
    const bool several = !c->refine_poses && resolution_views_match(data->views, data->count, &why);
    const int64_t ranks = c->ranks > 1 && c->policy.strategy != DISTWAR_FIXED ? c->ranks : 1;
    training_settings settings = *c;
    settings.iterations = iterations;
    settings.validation_until = default_validation_until;
    settings.validate_every = retire_every(data->count) / 2;
    settings.rates = published_rates(data->extent, sh_rate);
    settings.final_mean_rate = (float)(1.6e-6 * data->extent);
    settings.final_sh_rest = sh_rest_rate(default_last_sh_rate(sh_rate, iterations));
    if (c->dropout < 0) settings.dropout = default_dropout(data->count, iterations);
    // A scene without geometry would mislead poses before.
    settings.pose = (pose_schedule){.rate = 0.2, .end = 0.01, .from = 2000};
    settings.exposure_rate = exposure_rate(data->count, iterations);
    settings.sh_interval = 1000;
    settings.density = density_settings_from(&c->density, data, iterations);
    if (c->batch == 0) settings.batch = several ? default_batch(&sizes, iterations, ranks) : 1;
    if (c->resolutions.automatic)
        settings.resolutions = c->refine_poses
                                   ? (resolution_schedule){0}
                                   : default_resolutions(&sizes, settings.density.most_gaussians, iterations,
                                                         c->batch != 1 && several ? ranks : 0);
    // Faster for shapes, slower for opacities than published, with the average at the end: bonsai 32.9 dB, 32.15 with shapes
    // as published, 32.17 with opacities twice as fast.
    gs_adam_rates *const rates = &settings.rates;
    const float part = (float)default_rate_part(data->count, iterations);
    rates->log_scale *= 2, rates->quaternion *= 2, rates->opacity_logit /= 2;
    scale_rates(rates, part);
    settings.final_mean_rate *= part, settings.final_sh_rest *= part;
#define CONVERT(name, first, part, unit, ...)                                                                \
    settings.weights[TERM_##name] *= pow(data->extent / default_extent, unit);
    LOSS_TERMS(CONVERT)
#undef CONVERT
    return settings;
}

static void fit(void *context, double steps, training_settings *settings) {
    const training_data *const data = context;
    const training_settings *const choices = settings->choices;
    const double left = fmin(fmax(steps, LEAST_SCHEDULE), 1e8);
    *settings = training_settings_from(choices, data, (int64_t)left);
    settings->fit = fit, settings->context = context, settings->choices = choices;
    if (choices->density.most_gaussians == 0)
        settings->density.most_gaussians = default_limit_of_budget(data->pixels, data->count, steps);
}

training_settings training_settings_start(const training_settings *choices, const training_data *data) {
    const int64_t iterations = choices->budget > 0 ? DEFAULT_ITERATIONS : choices->iterations;
    training_settings settings = training_settings_from(choices, data, iterations);
    settings.fit = fit, settings.context = (void *)(uintptr_t)data, settings.choices = choices;
    return settings;
}

// ---- memory

// An allocator that only counts: nothing looks at the memory.
static void *count_bytes(void *user, size_t bytes, gs_stream stream) {
    (void)stream;
    *(double *)user += (double)bytes;
    return user;
}

static void give_back(void *user, void *memory, gs_stream stream) {
    (void)user, (void)memory, (void)stream;
}

// What libdistwar_gs takes for the step, and for the viewer, which measures one view; and what is the trainer's own.
static double step_bytes(const training_settings *s, const target_view *of, double most, int32_t views) {
    double counted = 0;
    gs_context *context;
    gs_camera cameras[GS_MAX_VIEWS];
    const double splats = views * most, pixels = (double)of->camera.width * of->camera.height;
    GS_CHECK(gs_context_create(&(gs_allocator){count_bytes, give_back, &counted}, NULL, &context));
    for (int32_t v = 0; v < views; v++) cameras[v] = of->camera;
    for (int32_t n = views;; n = 1) {
        gs_view view = {.gaussians = {.count = (int64_t)most}, .camera = of->camera, .views = {n, cameras}};
        // Above the pairs of the trained scenes of docs/benchmarks/rasteriser.md with the quarter of room that lists get.
        GS_CHECK(gs_reserve(&view, s->policy.strategy, (int64_t)(n * (1.5 * most + 0.75 * pixels)), context));
        if (n == 1) break;
    }
    gs_context_destroy(context);
    // Gradients, colours corrected by gains, and depth.
    const double planes = 2 * GS_CHANNELS + (of->depth_on_host ? 2 : 0);
    counted += counted / 8 + 40 * most; // what grows takes an eighth more at most; density control sorts rows
    return counted + (splats + most) * sizeof(gs_splat) + splats * sizeof(gs_splat_grad) +
           views * pixels * planes * sizeof(float) + splats * 2 * sizeof(float);
}

training_memory training_memory_of(const training_settings *settings, const training_data *data,
                                   int64_t start, int sh_degree, int ranks) {
    const double largest = fmax((double)settings->density.most_gaussians, (double)start);
    const int32_t views = (int32_t)resolution_most_views(&settings->resolutions, settings->batch);
    const double floats = 11 + 3.0 * (sh_degree + 1) * (sh_degree + 1),
                 sets = settings->average_part > 0 ? 5 : 4;
    training_memory memory = {.scene = 4 * (largest / ranks) * (sets * floats + 2)};
    for (size_t i = 0; i < data->count; i++) {
        const target_view *const view = &data->views[i];
        memory.step = fmax(memory.step, step_bytes(settings, view, largest / ranks, views));
        const double bytes = GS_CHANNELS + (view->mask_on_host != NULL) +
                             (settings->random_background && view->outline) +
                             (view->depth_on_host ? sizeof(float) : 0);
        memory.pictures += bytes * view->camera.width * view->camera.height;
    }
    return memory;
}

int64_t training_gaussians_that_fit(const training_settings *settings, const training_data *data,
                                    int64_t start, int sh_degree, int ranks, double bytes) {
    training_settings few = *settings;
    few.density.most_gaussians = ranks;
    const double most = fmax((double)settings->density.most_gaussians, (double)start);
    const training_memory all = training_memory_of(settings, data, start, sh_degree, ranks),
                          least = training_memory_of(&few, data, 0, sh_degree, ranks);
    const double fixed = least.scene + least.step, each = (all.scene + all.step - fixed) / most;
    const int64_t fits = (int64_t)(0.99 * (bytes - fixed) / each);
    return fits < start || fits < 0 ? 0 : fits;
}
