// SPDX-License-Identifier: MIT
//
// libdistwar_train: trains 3D Gaussians on pictures with known cameras, as `dsplat train` does. Needs no file, no CUDA
// header and no other library; writes nothing to stdout or stderr.
//
//   const char *const settings[] = {"iterations=3000", "sh-degree=2", NULL};
//   distwar_trainer *t = distwar_trainer_open(&data, settings);
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
// - Structs may grow at their end before 1.0: begin with {0}.
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

// Settings are texts "NAME=VALUE", the last one NULL; NULL: all defaults, which are those of `dsplat train`. Names and ranges are
// those of its options, without dashes; flags are 0 or 1:
//   iterations         views to see; 7000
//   budget             seconds to train in, in place of iterations; schedules are fitted to it
//   seed               of all random choices; 0
//   batch              views of a step; auto: as many as fill a GPU
//   max-gaussians      auto: 300000, and at most one for 100 pixels
//   density            split, mcmc, adaptive, none; auto: split, or mcmc if the data are `everywhere`
//   retire             see dsplat train; auto
//   sh-degree          0..3; of `scene` that of the scene; 3
//   background         R,G,B, each 0..1; 0,0,0
//   random-background  another for each step; no transparent part takes the colour of the background; 0
//   antialias          see dsplat train; 0
//   exposure           learn gains of the views, and keep them where they differ; 1
//   refine-poses       of the views, with the scene, where cameras are off by some pixels; 0
//   reproducible       the same bits on the same kind of GPU; slower; excludes budget; 0
//   validate           validation views, which cover the scene: until three quarters of the training they are measured and not
//                      trained on; where they gain under 0.15 of what training views do, training ends early. 0: none; auto: a
//                      sixteenth, 4 to 16, none of fewer than 40 views or with refine-poses. At most half of all; a number
//                      excludes refine-poses
//   teachers           where training ends early, so many scenes, 2..4, are trained until there while `iterations` or the budget
//                      have room for them and for a last one, which learns from their pictures too: a few tenths of a decibel.
//                      Less than 2: none; 4
//   depth-weight       of views with inverse_depth, at the first step

const char *distwar_train_error(void);

// Whether there are such settings and they are served together.
bool distwar_train_check(const char *const *settings);
// Uploads the pictures and makes the first Gaussians. Cost: the pictures on the device, and twice the Gaussians' growth.
distwar_trainer *distwar_trainer_open(const distwar_train_data *data, const char *const *settings);
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
// The camera of a view as it is now: with refine-poses it moves.
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
