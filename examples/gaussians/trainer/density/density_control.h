// SPDX-License-Identifier: MIT
// Density control: when Gaussians are added, moved and removed while training runs, and how the result
// reaches the training state. Each method has a file of its own, which defines one density_method. The
// kernels are libdistwar_gs's, see distwar_gs.h. The list of methods is in density_control.c.
#pragma once

#include "device_buffer.h"
#include "cli/options.h"
#include "training_state.h"
#include "frames/frame.h"
#include <stdbool.h>

C_LINKAGE_BEGIN

typedef enum density_kind {
    DENSITY_NONE,     // the number of Gaussians is constant
    DENSITY_ADAPTIVE, // clones, splits and prunes by the screen-space gradient (Kerbl et al. 2023)
    DENSITY_MCMC,     // relocates and adds noise (Kheradmand et al. 2024)
    DENSITY_SPLIT, // splits along the longest axis up to a limit, drawn by the absolute screen-space gradient
    DENSITY_KINDS
} density_kind;

// Settings of one method each. Types are those of options.
typedef struct density_adaptive_settings {
    double gradient_threshold; // see gs_density_rules
    double split_size;         // in scene extents
    int64_t reset_every;       // steps; only before `until`; 0: never
    // Constants of the method, not options.
    double most_size; // in scene extents; applied after the first reset; 0: never
    double reset_opacity;
    double split_factor; // see gs_density_rules
} density_adaptive_settings;

typedef struct density_mcmc_settings {
    double noise; // times the learning rate of means
    double opacity_weight,
        scale_weight; // of the penalties, in steps before `until`; they free Gaussians to relocate
} density_mcmc_settings;

typedef struct density_settings {
    int kind;                   // density_kind
    int64_t from, until, every; // acts after steps that are multiples of `every`, from < step < until
    int64_t most_gaussians;     // >= 1; a larger number at the start is kept
    double extent;              // of the scene, world units
    double least_opacity;       // below it a Gaussian is pruned or, by methods with a limit, moved
    double growth;        // of methods with a limit: the part of the number that is added each time; more if
                          // most_gaussians would not be reached half-way between `from` and `until`
    double retired;       // of methods with a limit: gs_retire's part; 0: nothing is retired
    int64_t retire_every; // in actions after steps that pass a multiple of this
    density_adaptive_settings adaptive;
    density_mcmc_settings mcmc;
} density_settings;

typedef struct density_control {
    device_buffer workspace;
} density_control; // starts as {0}

// What a method is given after a step.
typedef struct density_step {
    const density_settings *settings;
    uint64_t seed;
    float mean_rate;   // the learning rate of means in this step
    bool due;          // whether the schedule lets it act after this step
    const frame *view; // the step's frame, after the backward pass through the projection
    training_state *state;
    device_buffer *workspace;
} density_step;

typedef struct density_method {
    const char *name;   // of --density
    int until_share[2]; // the default of `until`: iterations * until_share[0] / until_share[1]
    bool starts_small;  // its published start is small and half opaque, see density_start
    bool has_limit;     // it fills up to most_gaussians, dead rows too
    void (*defaults)(density_settings *settings);
    void (*list_options)(density_settings *settings, option_table *table);
    // Between the backward pass and Adam. The gradient is a sum over `views` views. NULL: nothing.
    void (*before_adam)(const density_settings *settings, training_state *state, int views);
    // After Adam, when state->iteration counts the step. NULL: nothing.
    void (*after_adam)(const density_step *step);
} density_method;

extern const density_method density_adaptive, density_mcmc, density_split;

const density_method *density_method_of(int kind);
// The number of Gaussians after a step in which a method with a limit acts.
int64_t density_grown_count(const density_settings *settings, int64_t existing, int64_t step);
// What a step after `at` will take on average, in times of a step with the `existing` Gaussians: more where a method
// with a limit will add some.
double density_time_ahead(const density_settings *settings, int64_t iterations, int64_t existing, int64_t at);

// Whether the schedule lets the method act after a step of training, which went from step `before` of the schedule to
// step `at`: before + 1 == at for a step of one view without a budget of time.
bool density_is_due(const density_settings *settings, int64_t before, int64_t at);
// gs_density_accumulate for all views of the step.
void density_accumulate(const density_step *step);
// Whether the step's frame must have absolute gradients.
bool density_reads_absolute(const density_settings *settings);
// The sums of that frame by the splats' means.
static inline const float *density_gradient(const frame *f) {
    return f->absolute ? f->gradient.abs_mean2d : f->gradient.mean2d;
}
// The trainer calls these two in every step, as density_method says. f: the step's frame.
void density_before_adam(const density_settings *settings, training_state *state, int views);
void density_after_adam(density_control *control, const density_settings *settings, uint64_t seed,
                        float mean_rate, const frame *f, training_state *state);
void density_control_close(density_control *control);

C_LINKAGE_END
