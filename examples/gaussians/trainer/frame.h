// SPDX-License-Identifier: MIT
#pragma once

#include "device.h"
#include "strategies/strategies.h"
#include "distwar_gs.h"
#include "views.h"
#include <cuda_runtime.h>

C_LINKAGE_BEGIN

// A call of libdistwar_gs that fails ends the program, with libdistwar_gs's reason, the call and its place.
#define GS_CHECK(call) gs_check((call), #call, __FILE__, __LINE__)

static inline void gs_check(gs_status status, const char *attempted, const char *file, int line) {
    if (status != GS_OK)
        device_give_up("%s (%s:%d: %s)%s", gs_last_error(), file, line, attempted, device_stage_text());
}

// ---- gs_gaussians in device memory

// All arrays in one allocation, which begins at `mean`, filled with zeros.
gs_gaussians device_gaussians_open(int64_t count, int sh_degree);
gs_gaussians device_gaussians_from(const gs_gaussians *host); // with its values
size_t device_gaussians_bytes(int64_t count, int sh_degree);  // of that allocation
void device_gaussians_close(gs_gaussians *device);
// The values of others, of equal count and sh_degree; either may be on the host.
void device_gaussians_copy(const gs_gaussians *to, const gs_gaussians *from);

// ---- GPU time of each stage of a training step: events are read two steps later, so nothing waits for them; nothing on the
// CPU

typedef enum stage {
    STAGE_PROJECT,
    STAGE_BIN,
    STAGE_RENDER,
    STAGE_LOSS,
    STAGE_RENDER_BACKWARD,
    STAGE_PROJECT_BACKWARD,
    STAGE_ADAM, // this and the following stages are part of training only
    STAGE_DENSITY,
    STAGES
} stage;

typedef struct stage_clock {
    bool measures; // false on the CPU
    int current;   // which of the two sets of events this step records
    bool complete[2];
    cudaEvent_t marks[2][STAGES + 1];
    double milliseconds[STAGES]; // sums over `steps`
    int64_t steps;
} stage_clock;

const char *stage_name(stage which);
void stage_clock_open(stage_clock *clock);
// Call before the first stage of a step.
void stage_clock_start(stage_clock *clock);
// Call after each stage is queued, in order. NULL is harmless.
void stage_clock_mark(stage_clock *clock, stage which);
// Waits for the last step and frees the events. The sums stay valid.
void stage_clock_close(stage_clock *clock);

// ---- the strategies that `dsplat` offers, and what its tuner chooses from

// The default of --threshold of every command: groups of any size are summed in the warp, as the tuner mostly chooses.
enum { BLEND_THRESHOLD = 0 };

#define BLEND_REDUCE_HELP "strategy by which the backward blend adds gradients"

extern const offered_strategy blend_strategies[]; // of gs_render_backward

// ---- frame: a gs_view and its gradient with memory that is kept from one picture to the next. Starts as {0}. The calls
// follow one another in the order below; a call reads what earlier calls left in the frame. A failure of the
// device ends the program.

// The screen-space gradient that a backward pass leaves.
typedef enum screen_gradient { SCREEN_NONE, SCREEN_SIGNED, SCREEN_ABSOLUTE } screen_gradient;

typedef struct frame {
    stage_clock *clock; // marked after each stage but the loss, whose calls are of one camera; may be NULL
    gs_view all;        // of the cameras that are projected: splats are all that it has
    gs_view view; // of those that were drawn last; its arrays are the buffers below, or lie in its memory
    gs_gradient gradient; // likewise
    device_buffer splats, color_gradient, splat_grad, mean2d, camera_gradient, depth, depth_gradient, picture;
    screen_gradient screen;          // set by the caller: what the backward pass leaves
    bool with_depth;                 // set by the caller: the image has inverse depth
    gs_camera cameras[GS_MAX_VIEWS]; // of `all`
    int64_t repeats;                 // pictures that frame_settle refused
} frame;

void frame_close(frame *f);
// Renders `gaussians` (device) as `camera` sees them into f->view.image. Waits for the device once.
void frame_render(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                  const float background[GS_CHANNELS]);
// Projects, without waiting, for several cameras of one size and model, 1..GS_MAX_VIEWS, in one launch; there is room for the
// moments of all. The gradient by the camera is of one camera only.
void frame_project(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *cameras,
                   int32_t count);
// Renders some of these views, without waiting, in one launch of each stage. frame_settle must follow.
void frame_draw(frame *f, int32_t first, int32_t count, const float background[GS_CHANNELS]);
// The colours of one of the views that were drawn last (device).
const float *frame_color(const frame *f, int32_t view);
// Before frame_render_backward: waits until the lists of frame_draw are counted, not for the work queued after them. False:
// there was no room, and the picture and what was computed from it are not valid; there is room when the calls from
// frame_draw on are repeated. The results have the bits of frame_render's.
bool frame_settle(frame *f);
// Compares the image of each camera, and with_depth its depth, with its targets, one after another in `images`, which say
// targets, mask, results, gains and the weight of depth; the rest is set here. No target: of depth alone; no depth_target: the
// gradient by depth, if there is one, is 0.
void frame_loss(frame *f, gs_loss_image *images, bool with_gradient);
// Replaces the loss: the backward blend starts from `gradient` (host, [GS_CHANNELS][height][width]).
void frame_set_gradient(frame *f, const float *gradient);
// Room for the moments of all that was projected (device).
gs_splat_grad *frame_moments(frame *f);
// The backward blend of what was drawn, from the gradients of frame_loss or frame_set_gradient.
void frame_render_backward(frame *f, distwar_policy policy);
// Of all that was projected. gradients: device, of the shape of the Gaussians. with_camera: also the gradient by the camera.
// adam: NULL, or: the step is done, and no gradient is written.
void frame_project_backward(frame *f, const gs_gaussians *gradients, bool with_camera,
                            const gs_adam_step *adam);
// Copies the image to the host, 8 bits per channel. Any time after frame_render. Waits for the device.
bool frame_picture(frame *f, image *out, fault *why);

// ---- the quality of a scene: PSNR and SSIM against pictures

typedef struct quality {
    double psnr; // dB, of pictures rounded to 8 bits; infinite if equal
    double ssim; // of pictures before rounding (docs/developers/math.md, section 5)
} quality;

C_LINKAGE_END
