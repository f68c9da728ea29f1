// SPDX-License-Identifier: MIT
// The report's pictures: what the scene shows, the photograph, and where they differ.
#ifndef SPLAT_REPORT_VIEWS_H
#define SPLAT_REPORT_VIEWS_H

#include "measure/quality.h"
#include <stdio.h>

// From the worst of the views to the best by PSNR, five at most. gaussians: device; each: [count]; count >=
// 1.
bool report_views_write(FILE *page, const gs_gaussians *gaussians, const target_view *views,
                        const quality *each, size_t count, const float background[3], fault *why);

#endif
