// SPDX-License-Identifier: MIT
// The plan of a run: defaults, the settings that follow from them, a user's choices and the data, and what these make of each
// step.
#pragma once

#include "cli/command_line.h"
#include "training_state.h"

C_LINKAGE_BEGIN

// ---- the terms that are added to the loss of colours. A new one takes a row here and its functions in gradient.c; settings,
// options, checkpoints and logs follow

// name: of its weight and result, and of the option --NAME-weight. first: its weight at the first step, in a scene of
// default_extent; in others times (extent / default_extent)^unit. part: of that, at the last step; exponential between. has, add:
// gradient.c's functions: whether a view has it, and what frame_loss compares for it.
#define LOSS_TERMS(X) X(depth, 1, 0.01, 1, has_depth, add_depth) /* Kerbl et al. 2024 */

enum {
#define LOSS_TERM(name, first, part, unit, has, add) TERM_##name,
    LOSS_TERMS(LOSS_TERM)
#undef LOSS_TERM
        LOSS_TERM_COUNT
};

// ---- density control adds, moves, removes and retires Gaussians while training runs. A method is a row of the table in
// density.c; the kernels are libdistwar_gs's

typedef enum density_kind {
    DENSITY_NONE,     // the number of Gaussians is constant
    DENSITY_ADAPTIVE, // by the screen-space gradient (Kerbl et al. 2023)
    DENSITY_MCMC,     // relocates, adds noise (Kheradmand et al. 2024)
    DENSITY_SPLIT,    // along the longest axis, drawn by the absolute gradient
    DENSITY_KINDS,
    DENSITY_AUTO = DENSITY_KINDS // of options: the data decides
} density_kind;

// Settings of one method each.
typedef struct density_adaptive_settings {
    double gradient_threshold; // see gs_density_rules
    double split_size;         // in scene extents
    int64_t reset_every;       // steps; only before `until`; 0: never
    double most_size;          // in scene extents; applied after the first reset; 0: never
    double reset_opacity;
    double split_factor; // see gs_density_rules
} density_adaptive_settings;

typedef struct density_mcmc_settings {
    double noise; // times the learning rate of means; an inverse area
    // Of the penalties, which free Gaussians to relocate, in steps before `until`. scale_weight is an inverse length.
    double opacity_weight, scale_weight;
} density_mcmc_settings;

typedef struct density_settings {
    int kind;                   // density_kind
    int64_t from, until, every; // acts after steps that are multiples of `every`, from < step < until
    int64_t most_gaussians;     // >= 1; a larger number at the start is kept
    double extent;              // of the scene, world units
    double least_opacity;       // below it a Gaussian is pruned or, by methods with a limit, moved
    double retired;             // of methods with a limit: gs_retire's part; 0: nothing is retired
    int64_t retire_every;       // in actions after steps that pass a multiple of this
    density_adaptive_settings adaptive;
    density_mcmc_settings mcmc;
} density_settings;

typedef struct density_method {
    const char *name; // of --density
    // It fills up to most_gaussians, dead rows too. As published it acts until 5/6 of the iterations, others until half of them,
    // and starts small and half opaque, see density_start.
    bool has_limit;
    screen_gradient sums; // what is summed in state->density in steps before `until`
    // In steps before `until`, between the backward pass and Adam, on all ranks alike. The gradient is a sum over `views` views.
    // NULL: nothing.
    void (*before_adam)(trainer *t, int views);
    // After Adam, on all ranks alike. due: by the schedule. NULL: nothing. May call collectives; false after ranks_fail.
    bool (*act)(trainer *t, bool due);
} density_method;

const density_method *density_method_of(int kind);
// What a step after `at` will take on average, in times of a step with the `existing` Gaussians.
double density_time_ahead(const density_settings *settings, int64_t iterations, int64_t existing, int64_t at);

// Whether density control acts between schedule steps `before` and `at`.
bool density_is_due(const density_settings *settings, int64_t before, int64_t at);
// The screen-space gradient that density_sum needs at a step of the schedule.
screen_gradient density_sums_at(const density_settings *settings, int64_t at);
// Whether density_before_adam changes the gradient in a step.
bool density_adds_to_gradient(const density_settings *settings, int64_t at);
// The trainer calls the next three in every step, after the backward pass, then after Adam. density_sum adds the step's
// gradients, of training_way.gradient. after_adam: false after ranks_fail.
void density_before_adam(trainer *t, int views);
void density_sum(const trainer *t, const gs_view *view, const float *mean2d);
bool density_after_adam(trainer *t);

// ---- retirement: Gaussians that contribute least to every view make room for splits and relocations

// Whether density control begins an action with a retirement, after a step as of density_is_due.
bool retirement_is_due(const density_settings *settings, int64_t before, int64_t at);
// How many are due after the step `at` of the schedule.
int64_t retirements_left(const density_settings *settings, int64_t at);
// How many of the views are asked: all below 100, every second one from there, up to every fourth from 200 on.
// Neighbours see the same.
size_t retirement_views(size_t count);
// The cameras that are asked from `first` on, spread evenly, with their poses: at most by->batch. Returns their number.
int32_t retirement_cameras(const training_state *state, const scored_views *by, size_t first,
                           gs_camera *camera);
// Makes those dead whose score is at most `part` times the upper quartile. score: of all Gaussians. A collective; false after
// ranks_fail.
bool retirement_end(trainer *t, const float *score, double part);

// Adds the rows of all methods to the options of `dsplat train`.
void density_options_list(density_settings *chosen, option_table *table);

// What the data are like.
typedef struct training_data {
    const target_view *views; // to train on; cameras are read
    size_t count;
    double extent;   // of the scene
    int64_t pixels;  // of the views, that count
    bool everywhere; // training starts from random points of a scene that is not a cut-out object
} training_data;

// Of a scene that is not random points everywhere. Of the views cameras and `counted` are read.
training_data training_data_of(const target_view *views, size_t count);

// The Gaussians that training starts from: their opacity, and their size in mean distances to their neighbours. The
// published start of MCMC (small and half opaque) leaves distant parts uncovered, so it is not used everywhere; nor if
// training ends before density control acts, as nothing would fill the gaps.
void density_start(const density_settings *chosen, const training_data *data, int64_t iterations,
                   double *opacity, double *size);
density_settings density_settings_from(const density_settings *chosen, const training_data *data,
                                       int64_t iterations);

// ---- defaults: pure functions of the numbers of views, pixels and iterations; none knows how many ranks there are. Each
// constant was measured: docs/notes/training.md has the row

enum {
    DEFAULT_ITERATIONS = 7000,
    DEFAULT_RANDOM = 100000, // points that data without points start from, but no more than growth may reach
    // A schedule of fewer steps is too coarse for density control; under a budget it goes through several at once.
    LEAST_SCHEDULE = 3500
};
// The extent of scenes for which the published weights of lengths are meant: of MCMC's noise and penalty, and of depth
// maps. Scenes of other extents have them converted, so that the unit of length does not matter.
static const double default_extent = 5;

// The published rates (Kerbl et al. 2023); that of means is for a scene of extent 1, and ends at a hundredth of it.
gs_adam_rates published_rates(double extent, double sh_rate);
// Rates of SH above the constant as multiples of the published one: at the first step, and at the last. Highlights are
// learned best at four to eight times the published rate, which costs bonsai 0.83 dB. Few views say little about
// highlights, and a fast rate then learns what is true of one view alone; a long run learns them at any rate.
double default_sh_rate(size_t views);
double default_last_sh_rate(double first, int64_t iterations);
// The factor of all rates, 0.3 to 1, from 40 views on 1. In a long run few views come to fit what is true of them alone:
// relief23 has 18.95 dB after 30,000 iterations, 17.98 without the factor; fern pays 0.2 dB.
double default_rate_part(size_t views, int64_t iterations);
// The part of the Gaussians that the last step leaves out, so that they do not fit single views: 0 up to 4 views^2 iterations,
// 0.2 from 16 views^2 on (fern gains 0.16 dB). Iterations beyond 30,000 do not count: a hundred views are better without it.
double default_dropout(size_t views, int64_t iterations);
// The limit of Gaussians under a budget of time that is worth `steps` steps at its start: fewer if there is no time to train
// them; more, up to a million, if there is time and there are over 100 views, which determine them (bonsai's 220 gained with
// 519,526; knot's 100 fell from 44.39 to 43.37 dB with 640,000).
int64_t default_limit_of_budget(int64_t pixels, size_t views, double steps);
// density_settings.retired: gains 0.29 dB on knot, 0.10 on bonsai. 0 below 20 views, which a scene overfits.
double default_retired(size_t views);
// Whether photographs are given gains (gradient.c): two photographs would halve any difference.
bool default_exposures(size_t views);
// How many views --validate auto sets apart: a sixteenth, at most 16, as each measurement renders them, at least 4, of
// which fewer say little; none of fewer than 40 views, which would miss them. With at most 8 one of two runs of bonsai
// ended at a third of its way, 0.7 dB below the other.
size_t default_validation(size_t views);

// Views of a step: as many as fill a GPU with 2.5 million pixels, at most 4 and a quarter of all. Steps of 4 cost fern's 17
// views 0.06 dB and knot's 100 views 0.21 dB; bonsai takes 3.07 s, and 4.24 s with one view a step. `ranks` GPUs take as many
// each where 3,500 steps are left, and one each at least: bonsai by two H200, 30,000: 9.6 s with 8 views, 11.4 s with 4,
// 34.01 dB with both.
int64_t default_batch(const view_sizes *sizes, int64_t iterations, int64_t ranks);
// Pictures of half the size for the first half of training where these have a pixel for a Gaussian; with fewer, lists
// of splats are long and small pictures save no time. Until 90% where one whole picture fills a GPU, and so takes four
// times as long as a small one. Whole pictures from the start cost fern 0.05 dB. most_gaussians: the limit of growth.
// iterations, ranks: as of default_batch; no ranks: views cannot share a step.
resolution_schedule default_resolutions(const view_sizes *sizes, int64_t most_gaussians, int64_t iterations,
                                        int64_t ranks);

// Poses are refined on pictures 2^POSE_LEVELS, ..., 2^POSE_FINEST times smaller, as far as sides have 64 pixels, at a rate in
// pixels of that size; then, more slowly, with the scene. fern's poses, 0.902 degrees off, are 0.044 degrees off after the
// sizes.
enum { POSE_LEVELS = 4, POSE_FINEST = 1 };
static const double pose_level_rate = 0.5;
// Steps on each size: enough for a scene to take shape and for every view to move often, but no more than training has.
int64_t default_pose_steps(size_t views, int64_t iterations);

// ---- the pace: training in a given time: how far the schedules of rates, harmonics and density control move with each step.
// Pure functions of times that the caller measures

enum { PACE_WINDOW = 32 };

// The time of a step is the median of the last PACE_WINDOW steps: a step that takes a second, because memory grows or
// another program runs, moves no schedule.
typedef struct pace {
    double budget; // seconds of training
    double last;   // seconds spent at the last pace_note
    double recent[PACE_WINDOW];
    int64_t steps; // noted
    // What is done between steps now and then: seconds, the last time, and how often it is still to come. Counted with
    // up to half of the time left.
    double between;
    int64_t between_left;
    double ahead; // the mean time of the steps that are left, in times of a step now; 0 counts as 1
} pace;           // starts as {.budget = ...}

// At the start of each step. spent: seconds of training so far, which do not fall.
void pace_note(pace *p, double spent);
// Whether steps are timed well enough for pace_steps_left: after 50 steps; after a twentieth of the budget if that had
// 8 steps, the first being slow; after a quarter of it in any case.
bool pace_is_known(const pace *p);
// The steps that the time left is worth at the present time of a step, times `ahead`; at most SCHEDULE_MOST.
double pace_steps_left(const pace *p);
// The views that the whole budget is worth: those done, and those of the steps left, of `views` each; at most SCHEDULE_MOST.
double pace_views_in_all(const pace *p, int64_t done, int32_t views);
// Returns the progress of the step that begins now, 0..1, after one of `progress`: the remaining progress divided by the
// steps that the time left is worth. It reaches 1 with the last step however wrong the estimates were: 1 when stopping
// after this step lands closer to the budget than one more step would.
double pace_next(const pace *p, double progress);
// Whether the time is over before the step that would begin now.
bool pace_is_over(const pace *p);

// ---- the settings of a training run

typedef struct pose_schedule {
    double rate;  // the learning rate of poses at the first step, pixels
    double end;   // part of it at the last step; exponential between
    int64_t from; // steps in which poses stay and the scene takes shape, rounded up to a round of the views
} pose_schedule;

// What a user chooses, which training_settings_from completes, and all that follows from it and the data. Plain numbers, but for
// the name and the functions of a budget. Two runs with equal settings, views and start are equal, without a budget.
typedef struct training_settings {
    const char *name; // of the progress bar; NULL: none
    // 1. What is chosen; as the comment says, the default of some is automatic until training_settings_from.
    int64_t iterations; // >= 1, counts views; learning rates follow it. 0: chosen with a budget
    // Seconds of training, as training_report.seconds; 0: `iterations` are done, one step of the schedule each. The schedules are
    // fitted to the time while training runs (place.c): the step of a schedule is not the number of the iteration, but moves
    // with the time that is used.
    double budget;
    int64_t seed;      // of all random choices
    int64_t batch;     // views of a step, whose square root multiplies learning rates; 0: automatic, then 1
    int64_t ranks;     // GPUs to train on; 0: one
    int64_t validate;  // validation views; 0: none; -1: automatic
    int64_t teachers;  // at most TEACHERS_MOST, see scheduled_teachers; below 2: none
    int64_t sh_degree; // of the Gaussians
    bool antialias;    // as gs_gaussians.antialias
    bool exposure;     // photographs have gains, which they keep where these differ (gradient.c)
    bool tune;         // a tuner chooses the policy while training runs
    distwar_policy policy;  // of gs_render_backward, unless there is a tuner
    float background[3];    // of the pictures
    bool random_background; // another for each step; views without alpha keep their picture
    bool refine_poses;
    bool check_finite; // each step looks at all that it made, and fails where a number is not finite; slow
    bool reproducible, from, random, depth, view; // whether these options are given
    double average_part; // of the iterations, the last ones, whose parameters are averaged; 0: none
    double dropout;      // share of the Gaussians that the last step leaves out; grows from 0; < 0: automatic
    double weights[LOSS_TERM_COUNT]; // at the first step; 0: none
    double weights_left;             // at the last step, in place of the parts of LOSS_TERMS; 0: these
    resolution_schedule resolutions;
    density_settings density;
    // 2. What follows.
    double validation_until; // 0..1, of the schedule: from there on validation views are trained on
    int64_t validate_every;  // steps between looks at whether they say that training is over; 0: none
    gs_adam_rates rates;     // at the first step; rates.mean in world units
    float final_mean_rate;   // at the last step; exponential between
    float final_sh_rest;     // rates.shN at the last step; exponential between; 0: it is constant
    pose_schedule pose;      // of the poses, if they are refined
    float exposure_rate; // of the gains that correct colours, if there are any; a hundredth of it at the end
    int sh_interval; // steps before the SH degree in use rises by one; 0: all degrees from the first step on
    // 3. Of a budget. fit is called after a few steps, or at once if the state had been trained under a budget, and again in the
    // first half of the time if steps become much faster or slower: it sets what depends on the length of the schedule,
    // settings->iterations among it. steps: how many the whole time is worth.
    void (*fit)(void *context, double steps, struct training_settings *settings);
    double (*now)(void *context);            // the clock, in seconds; NULL: seconds_now
    void *context;                           // of both
    const struct training_settings *choices; // that fit completes
} training_settings;

// The table of what is chosen, by the groups of `dsplat train --help`; density_options_list adds the rest. Rows make its options, the
// settings of libdistwar_train and the keys of checkpoints.
#define QUALITY_OPTIONS(settings)                                                                            \
    OPTION("iterations", &(settings)->iterations, .maximum = 10000000, .free_on_resume = true,               \
           .automatic = true, .group = "quality and time",                                                   \
           .help = "iterations to train for, each on one view; auto: 7000, or what --budget has time for"),  \
        OPTION("max-gaussians", &(settings)->density.most_gaussians, .maximum = 500000000,                   \
               .automatic = true, .help = "limit of growth; auto: 300000, or fewer for small pictures"),     \
        OPTION("sh-degree", &(settings)->sh_degree, .maximum = GS_MAX_SH_DEGREE,                             \
               .help = "degree of the spherical harmonics by which a colour depends on the direction"),      \
        OPTION("antialias", &(settings)->antialias,                                                          \
               .help = "render small Gaussians without aliasing; the scene file says so"),                   \
        OPTION("exposure", &(settings)->exposure,                                                            \
               .help = "do not correct gains of red, green and blue that differ between training views"),    \
        OPTION("reproducible", &(settings)->reproducible,                                                    \
               .help = "write the same bytes in every run on one kind of GPU; slower")
#define CAMERA_OPTIONS(settings)                                                                             \
    OPTION("refine-poses", &(settings)->refine_poses, .group = "cameras",                                    \
           .help = "refine the poses of the training views")
#define STEP_OPTIONS(settings)                                                                               \
    OPTION("batch", &(settings)->batch, .maximum = GS_MAX_VIEWS, .automatic = true, .group = "the steps",    \
           .help = "views per step; auto: as many as fill a GPU, at most 4"),                                \
        OPTION("teachers", &(settings)->teachers, .maximum = TEACHERS_MOST,                                  \
               .help = "scenes whose pictures teach a last one, where training ends early; 0: none"),        \
        OPTION("seed", &(settings)->seed, .maximum = INFINITY, .help = "seed of all random numbers")
#define LOSS_OPTIONS(settings)                                                                               \
    OPTION("random-background", &(settings)->random_background, .group = "losses and poses",                 \
           .help = "use a random background in each step, for scenes with transparent parts")
// Of LOSS_TERMS, where `settings` is a variable.
#define WEIGHT_OPTION(name, ...)                                                                             \
    OPTION(#name "-weight", &settings->weights[TERM_##name], .minimum = 1e-6, .maximum = 1e6,                \
           .help = "weight of --" #name " in the loss at the start; a fixed part of it at the end"),

// ---- place: where a run is, and what it does there. Pure functions

// Whether the step that ended at `iteration` and had `views` views reached or passed a multiple of `every` >= 1.
bool training_passed(int64_t iteration, int64_t views, int64_t every);
// At the start of a run without a budget: by the views seen.
void place_open(run_place *place, const training_settings *settings);
// The one function that moves the place to the next step: by its views; once training has ended early towards the end of the
// schedule; under a budget by the time that is left, to which it fits the settings once the pace is known. gaussians: before the
// step; seconds: of training so far; may_begin_again: whether a longer scene may follow the first.
void place_advance(run_place *place, pace *pace, training_settings *settings, int32_t views,
                   int64_t gaussians, double seconds, bool may_begin_again);
// What the scene that is trained now is. A budget that is worth several runs of the usual length begins with one, as without
// a budget; a longer one follows, and is given up unless its validation views become better than those of the first.
typedef enum scene_role { SCENE_FIRST, SCENE_LONGER, SCENE_TEACHER, SCENE_STUDENT } scene_role;
scene_role place_role(const run_place *place);
// Whether time does not move the schedule. There is time for the views of each teacher.
bool place_goes_by_views(const run_place *place);
// Fits the settings to the length that is known, or to that of the first run.
void place_fit(const run_place *place, training_settings *settings);

// Whether the step that was done last is the last of all. pace: with the time now.
bool place_is_over(const run_place *place, const training_settings *settings, const pace *pace);
// The last view that the next step may have. of_size: the last one whose pictures have its size.
int64_t place_last_view(const training_settings *settings, const run_place *place, int64_t of_size);
// All views that training sees from its start to its end, as far as is known.
int64_t scheduled_views(const training_settings *settings, const run_place *place);
// The views that a scene sees whose training ends early, as place->ended > 0 says.
int64_t scheduled_early_views(const run_place *place);
// Where training ends so early that the views left suffice, or the time of a budget: how many scenes are trained until
// there, one after another, to teach a last one that has at least twice as many views, or twice the time. 0: the first is all.
int64_t scheduled_teachers(const training_settings *settings, const run_place *place);
// 0 at the first step, 1 at the last.
double progress_at(const training_settings *settings, int64_t step);
// The SH degree in use at a step = 1, 2, ...
int scheduled_sh_degree(const training_settings *settings, int sh_degree, int64_t step);
void scale_rates(gs_adam_rates *rates, float factor);
// The rates of a step of `views` views, whose square root multiplies them. degree: of SH in use.
gs_adam_rates scheduled_rates(const training_settings *settings, int64_t step, int degree, int64_t views);
// The last step before those whose parameters are averaged. Rows must keep their Gaussians from then on, so it is not
// before the end of density control.
int64_t average_from(const training_settings *settings);
// Whether the step that takes the schedule from `before` to `at` gives a sample of the average.
bool average_is_due(const training_settings *settings, int64_t before, int64_t at);
// A weight at that step: its logarithm is linear in the step. part: of the first, at the last step.
double scheduled_weight(const training_settings *settings, double first, double part, int64_t step);

// ---- from what a user chooses and what the data are like to the settings of training

// What a user gets who chooses nothing.
training_settings training_settings_default(void);
// Reads --schedule: "auto", or a list such as "from=1,every=4,average=0" for experiments and tests; the rest stays.
bool training_schedule_read(const char *text, training_settings *choices, fault *why);
// How many of `count` views validate.
size_t training_validation_count(const training_settings *choices, size_t count);
// Fails with a sentence if choices are not served together: the one place that says so.
bool training_settings_combine(const training_settings *choices, fault *why);
// Fails if the views cannot share a step as chosen.
bool training_settings_suit(const training_settings *choices, const training_data *data, fault *why);
// Completes choices for so many iterations.
training_settings training_settings_from(const training_settings *choices, const training_data *data,
                                         int64_t iterations);
// The settings at the start of training. Under a budget choices and data must outlive them.
training_settings training_settings_start(const training_settings *choices, const training_data *data);

// ---- the device memory that a run will take on each GPU, known before it starts

typedef struct training_memory {
    double scene;    // bytes: Gaussians, moments, gradients, their mean
    double step;     // what the stages of a step write, by its views
    double pictures; // of all views; where fewer are kept, others are uploaded when a step needs them
} training_memory;

// start: Gaussians before the first step. ranks: share the scene. The length of the lists is guessed. CUDA itself takes some
// hundred MB more.
training_memory training_memory_of(const training_settings *settings, const training_data *data,
                                   int64_t start, int sh_degree, int ranks);
// The largest number of Gaussians whose scene and step fit into `bytes`; 0: none.
int64_t training_gaussians_that_fit(const training_settings *settings, const training_data *data,
                                    int64_t start, int sh_degree, int ranks, double bytes);

C_LINKAGE_END
