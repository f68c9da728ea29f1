// SPDX-License-Identifier: MIT
// LPIPS of a scene against pictures.
#pragma once

#include "lpips_weights.h"
#include "frames/frame.h"
#include "frames/target_view.h"

// Whether the pictures of all views are large enough; the failure names one that is not.
bool lpips_is_possible(const target_view *views, size_t count, fault *why);

typedef struct lpips_meter {
    const lpips_weights *weights; // must outlive it
    float *on_device;
    double *result; // device
    device_buffer workspace;
} lpips_meter; // starts as {0}
void lpips_meter_open(lpips_meter *meter, const lpips_weights *weights);
void lpips_meter_close(lpips_meter *meter); // harmless on {0}

// Compares the image of a frame with the view's picture (distwar_gs_lpips.h). lpips_is_possible. Waits for the device.
double lpips_of_frame(lpips_meter *meter, const frame *f, const target_view *view);
