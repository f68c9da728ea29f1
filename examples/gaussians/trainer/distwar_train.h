// SPDX-License-Identifier: MIT
//
// libdistwar_train: trains 3D Gaussians on pictures with known cameras, as `dsplat train` does. Needs no file, no CUDA
// header and no other library; writes nothing to stdout or stderr.
//
//   distwar_train_settings settings = distwar_train_defaults();
//   distwar_trainer *t = distwar_trainer_open(&data, &settings);
//   while (!distwar_trainer_is_over(t) && distwar_trainer_step(t)) ...
//   distwar_trainer_scene(t, &scene);
//   distwar_trainer_close(t);
//
// Rules of all calls:
// - Arrays are host memory. What distwar_trainer_open is given must stay until distwar_trainer_close.
// - Functions that return bool return false after an error, and those that return a pointer NULL.
//   distwar_train_error() then says why: the text of the last error of the calling thread.
// - After a failure of the device the trainer can only be closed; its memory on the device is lost.
// - One thread at a time uses a trainer. The trainer uses the device that is current when it is opened.
// - Structs may grow at their end before 1.0: begin with distwar_train_defaults() or {0}.
#ifndef DISTWAR_TRAIN_H
#define DISTWAR_TRAIN_H

#include "distwar_gs.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct distwar_trainer distwar_trainer;

// A picture to fit. [height][width] are those of its camera.
typedef struct distwar_train_view {
    gs_camera camera; // near_plane 0 in all views: chosen by where the cameras are, in any unit of length
    const uint8_t *pixels; // [height][width][3], RGB
    const uint8_t *mask;   // [height][width]: pixels with 0 do not count; NULL: all count
    const uint8_t
        *alpha; // [height][width]: of pixels that are already blended with the background; NULL: opaque
    const float *inverse_depth; // [height][width], NaN: unknown; NULL: none. All views have it or none
} distwar_train_view;

typedef struct distwar_train_data {
    const distwar_train_view *views; // [view_count], at least 1
    size_t view_count;
    // The start: points with colours, or Gaussians as they are (scene.count > 0).
    const float (*points)[3];
    const uint8_t (*colors)[3];
    size_t point_count;
    gs_gaussians scene;
    bool everywhere; // the points are random ones of a scene that is not a cut-out object
} distwar_train_data;

// The terms that are added to the loss of colours, the first "depth" (of views with inverse_depth); NULL: there are no
// more.
enum { DISTWAR_TRAIN_TERMS = 4 }; // at most
const char *distwar_train_term(int term);

typedef struct distwar_train_settings {
    int64_t iterations;    // views to see; 0: 7000
    double budget;         // seconds to train in, in place of iterations; schedules are fitted to it; 0: none
    int64_t seed;          // of all random choices
    int64_t batch;         // views of a step; 0: as many as fill a GPU
    int64_t max_gaussians; // 0: 300000, and at most one for 100 pixels
    const char *density;   // "split", "mcmc", "adaptive", "none"; NULL: split, or mcmc if `everywhere`
    int32_t sh_degree;     // 0..3; of `scene` that of the scene
    float background[3];
    bool random_background; // another for each step; no transparent part takes the colour of the background
    bool antialias;         // as of dsplat train
    bool exposure;          // learn gains of the views, and keep them where they differ; default true
    bool refine_poses;      // of the views, with the scene, where cameras are off by some pixels
    bool reproducible;      // the same bits on the same kind of GPU; slower; excludes budget
    // Validation views, which cover the scene: until three quarters of the training they are measured and not trained
    // on; where they gain under 0.15 of what training views do, training ends early. 0: none; -1: a sixteenth, 4 to 16,
    // none of fewer than 40 views or with refine_poses. At most half of all; a number excludes refine_poses.
    int64_t validate;
    double weights[DISTWAR_TRAIN_TERMS]; // of each term at the first step, above 0; 0: as dsplat train
    // Where training ends early, so many scenes, 2..4, are trained until there while `iterations` or the budget have room for
    // them and for a last one, which learns from their pictures too: a few tenths of a decibel. Less than 2: none.
    int64_t teachers;
} distwar_train_settings;

// What training has when nobody says otherwise: all defaults of `dsplat train`.
distwar_train_settings distwar_train_defaults(void);

const char *distwar_train_error(void);

// Uploads the pictures and makes the first Gaussians. Cost: the pictures on the device, and twice the Gaussians' growth.
distwar_trainer *distwar_trainer_open(const distwar_train_data *data, const distwar_train_settings *settings);
void distwar_trainer_close(distwar_trainer *t); // NULL is harmless

// One step of training, of one view or several. Does not wait for the device. Nothing once it is over.
bool distwar_trainer_step(distwar_trainer *t);
// Whether the iterations are done or the budget is used. The last step has then put the mean of the last steps' parameters
// in the place of the parameters.
bool distwar_trainer_is_over(const distwar_trainer *t);

typedef struct distwar_train_progress {
    int64_t views, views_in_all; // seen; under a budget the second is an estimate, 0 at first
    int64_t steps, gaussians;
    int32_t sh_degree;
    double seconds;       // of training
    double loss;          // mean of the last views, at most 100; NaN before the first step
    size_t loss_count;    // of all views seen since the trainer was opened
    const double *losses; // [loss_count]; valid until the next call
} distwar_train_progress;
// Waits for the device.
bool distwar_trainer_progress(distwar_trainer *t, distwar_train_progress *out);

typedef struct distwar_train_validation {
    size_t views;                      // 0: none, or they are trained on by now, and the rest is 0
    double psnr, ssim;                 // means over them
    double trained_psnr, trained_ssim; // means over as many views beside them that are trained on
} distwar_train_validation;
// Measures the validation views. `exposure` corrects neither. Waits for the device. Cost: renders 2 * views.
bool distwar_trainer_validate(distwar_trainer *t, distwar_train_validation *out);

// Copies the Gaussians as they are. out: arrays for `gaussians` Gaussians of `sh_degree` of distwar_train_progress; its
// count and sh_degree say for how many there is room, and become those of the scene. Waits for the device.
bool distwar_trainer_scene(distwar_trainer *t, gs_gaussians *out);
// The camera of a view as it is now: with refine_poses it moves.
bool distwar_trainer_camera(distwar_trainer *t, size_t view, gs_camera *out);
// Renders a picture of the scene as it is. rgb: [height][width][3]. Waits for the device.
bool distwar_trainer_picture(distwar_trainer *t, const gs_camera *camera, uint8_t *rgb);

// Gives the whole state of training to `write`, piece by piece. False from `write` ends it as a failure.
bool distwar_trainer_save(distwar_trainer *t, bool (*write)(void *context, const void *bytes, size_t count),
                          void *context);
// After distwar_trainer_open with the data and the settings of the trainer that was saved: goes on where it was, with
// `reproducible` with the same bits. On failure the trainer is as it was.
bool distwar_trainer_resume(distwar_trainer *t, const void *bytes, size_t count);

#ifdef __cplusplus
}
#endif
#endif
