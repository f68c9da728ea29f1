// SPDX-License-Identifier: MIT
// The report's pictures: the rendered view, the photograph, and their difference.
#ifndef SPLAT_REPORT_VIEWS_H
#define SPLAT_REPORT_VIEWS_H

#include "measure/quality.h"
#include <stdio.h>

// Writes at most five views, from the worst to the best by PSNR. gaussians: device. each: [count]. count >=
// 1.
bool report_views_write(FILE *page, const gs_gaussians *gaussians, const target_view *views,
                        const quality *each, size_t count, const float background[3], fault *why);

#endif
