// SPDX-License-Identifier: MIT
// Everything between the parameters and one camera's picture: the stages of libgs with their workspaces, kept
// from one picture to the next. Starts as {0}. Calls follow one another in the order below; what a call needs
// from earlier ones it finds in the frame. Failures of the device end the program.
#ifndef SPLAT_FRAME_H
#define SPLAT_FRAME_H

#include "device_buffer.h"
#include "image.h"
#include "view/stage_clock.h"
#include "gs.h"
#include <distwar/strategy.h>

typedef struct frame {
    stage_clock *clock; // marked after each stage; may be NULL
    // of the last frame_render
    gs_gaussians gaussians;
    int sh_degree_used;
    gs_camera camera;
    float background[3];
    gs_lists lists;
    gs_image image;
    int64_t pair_capacity;
    device_buffer splats, bin, color, transmittance, consumed, loss, color_gradient, moments, mean2d_gradient,
        corrected, exposure;
    const float *compared; // device: what frame_loss reads
} frame;

void frame_free(frame *f);
// Renders `gaussians` (device) as `camera` sees them into f->image. Waits for the device once, in the middle.
void frame_render(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                  const float background[3]);
// Compares with target (device, [height][width][3]); result: 3 doubles on the device, see gs_loss.
void frame_loss(frame *f, const uint8_t *target, double *result, bool with_gradient);
// Corrects the picture's colours by a matrix (device, see gs_exposure) for frame_loss; f->image stays as it
// is.
void frame_expose(frame *f, const float *matrix);
// After frame_loss: its gradient, which is by the corrected colours, becomes that by the picture's.
// matrix_gradient: device, [GS_EXPOSURE_VALUES].
void frame_expose_backward(frame *f, const float *matrix, float *matrix_gradient);
// Instead of a loss: gradient (host, [3][height][width]) becomes the one that the backward blend starts from.
void frame_set_gradient(frame *f, const float *gradient);
// The backward blend, from the gradient that one of the two calls above left.
void frame_render_backward(frame *f, distwar_policy policy);
// gradients: device, in the shape of the Gaussians.
void frame_project_backward(frame *f, const gs_gaussians *gradients);
// Copies the picture to the host as 8 bits a channel. Any time after frame_render; waits for the device.
bool frame_picture(const frame *f, image *out, fault *why);
// Device memory that the frame holds for a stage to write to, with its workspace.
size_t frame_bytes(const frame *f, stage which);

#endif
