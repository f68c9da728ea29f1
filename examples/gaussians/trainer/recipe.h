// SPDX-License-Identifier: MIT
// From what a user chooses and what the data are like to the settings of training.
#pragma once

#include "density/density_options.h"
#include "trainer.h"

C_LINKAGE_BEGIN

typedef struct training_choices {
    int64_t iterations, seed, batch; // batch: 0: as defaults.h says
    int64_t validate;                // views to set aside; 0: none; -1: as defaults.h says
    int64_t teachers;                // of training_settings
    int64_t ranks;                   // GPUs to train on; 0: one
    double seconds, budget, average; // budget: seconds; 0: none
    double dropout;                  // < 0: as defaults.h says
    double sh_rate;                  // a multiple of the published rate; 0: as defaults.h says
    loss_weights weights;
    bool tune, random_background, refine_poses, check_finite;
    distwar_policy policy; // unless tune
    float background[3];
    resolution_schedule resolutions;
    density_options density;
} training_choices;

// What a user gets who chooses nothing.
training_choices training_choices_default(void);

typedef struct training_data {
    const target_view *views; // to train on; cameras and `counted` are read
    size_t count;
    double extent;
    bool everywhere; // see density_data
} training_data;

density_data training_density_data(const training_data *data, int64_t iterations);
// How many of `count` views are set aside.
size_t training_views_aside(const training_choices *choices, size_t count);
// Fails if the views cannot share a step as chosen.
bool training_choices_suit(const training_choices *choices, const training_data *data, fault *why);
training_settings training_settings_from(const training_choices *choices, const training_data *data,
                                         int64_t iterations);

// A recipe that is fitted to a budget of time.
typedef struct budget_recipe {
    const training_choices *choices;
    const training_data *data;
    training_budget budget; // of training_settings
} budget_recipe;
// The settings at the start of training, with recipe->budget, which must outlive them.
training_settings budget_recipe_start(budget_recipe *recipe);

C_LINKAGE_END
