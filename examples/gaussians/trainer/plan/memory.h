// SPDX-License-Identifier: MIT
// The device memory that a run will take on each GPU, known before it starts.
#pragma once

#include "recipe.h"

C_LINKAGE_BEGIN

typedef struct training_memory {
    double scene;    // bytes: Gaussians, moments, gradients, their mean
    double step;     // what the stages of a step write, by its views
    double pictures; // of all views; where fewer are kept, others are uploaded when a step needs them
} training_memory;

// start: Gaussians before the first step. ranks: share the scene. The length of the lists
// is guessed. CUDA itself takes some hundred MB more.
training_memory training_memory_of(const training_settings *settings, const training_data *data,
                                   int64_t start, int sh_degree, int ranks);
// The largest number of Gaussians whose scene and step fit into `bytes`; 0: none.
int64_t training_gaussians_that_fit(const training_settings *settings, const training_data *data,
                                    int64_t start, int sh_degree, int ranks, double bytes);

C_LINKAGE_END
