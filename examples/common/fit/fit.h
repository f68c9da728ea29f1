// SPDX-License-Identifier: MIT
// A program that fits something to pictures of itself from FIT_VIEWS sides, by the commands train and bench. All memory is
// device memory unless it is called host, work is queued on the default stream, a failure of the device ends the program.
#pragma once

#include "strategies/strategies.h"

C_LINKAGE_BEGIN

// ---- descent: the mean absolute difference with its gradient, and Adam's step

// loss: one number, opened with device_allocate(L1_LOSS_BYTES); read it by l1_loss_read.
// gradient[i] = sign(value[i] - target[i]) / count, 0 where they are equal; NULL: only the loss. count >= 1.
// value, target and gradient: [count]. The loss has the same bits in every run. Cost: reads 8 bytes and writes
// 4 bytes for each value.
enum { L1_LOSS_BYTES = 16 };
void l1_loss(const float *value, const float *target, int64_t count, void *loss, float *gradient);
// The loss of the last call, which had the same count. Waits for the device. NaN if a value was NaN, or if a
// difference was larger than 32768.
double l1_loss_read(const void *loss, int64_t count);

// Values that follow each other and have one learning rate.
typedef struct adam_group {
    int64_t count;
    float rate;
} adam_group;

// A step of adam.cuh at `rate` times the groups' rates. value, gradient: all groups, one after the other. moments:
// twice as many values, zeros before step 1.
void adam_groups_step(float *value, const float *gradient, float *moments, const adam_group *groups,
                      int group_count, float rate, int64_t step);

// ---- bench

// Times of a candidate.
typedef struct bench_cost {
    double milliseconds,
        noise; // the mean of the views' medians; the largest (slowest - fastest) / median of a view
} bench_cost;

// Adds the runs of one of `views`, whose times it sorts; count >= 1.
void bench_cost_add(bench_cost *all, int views, double *milliseconds, size_t count);

// ---- what is fitted

enum { FIT_VIEWS = 8, FIT_GROUPS = 4 };

// What is drawn and fitted.
typedef struct fit_scene {
    int channels;                  // of a picture; a picture that is written has the first three
    float *color, *color_gradient; // [channels][height][width]
    const sum_memory *sums;        // of the adjoint
    float *parameters;             // of all groups, one after the other
    adam_group groups[FIT_GROUPS]; // the rates at the start; the last ones may have no parameters
    char text[256];                // "302 spheres": what is drawn, for people
} fit_scene;

// A program's part; its state is its own.
typedef struct fit_workload {
    const char *program;        // "spheres"
    const char *summary;        // what train does, one clause
    const char *training;       // the same, in its help
    const char *examples;       // lines
    const option_spec *options; // that the program has of its own; they go into the JSON
    // Checks them, replaces zeros by the defaults, *width too. iterations: the default.
    bool (*complete)(int64_t *width, int64_t *iterations, fault *why);
    // Opens what the options say. Closed also after a failure.
    bool (*open)(int width, int height, fit_scene *out, fault *why);
    void (*close)(void);
    void (*draw)(int view);     // writes color; 0 <= view < FIT_VIEWS
    void (*start)(float *host); // from the scene's parameters to those that training starts from
    // From color_gradient, as l1_loss gives it, to sums. policy, lanes: as sum_values of commit.cuh has them.
    void (*backward)(distwar_policy policy, lane_histogram *lanes);
    void (*gather)(float *gradient); // from sums to the gradients of all parameters, device memory
} fit_workload;

// Returns the exit code of main.
int fit_main(const fit_workload *work, int argc, char **argv);

C_LINKAGE_END
