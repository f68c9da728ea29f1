// SPDX-License-Identifier: MIT
// Points to start training from, found by stereo in the pictures, for data without points.
#pragma once

#include "frames/target_view.h"

C_LINKAGE_BEGIN

typedef struct stereo_result {
    size_t points; // written
    size_t found;  // by stereo, of which those written are a part, beside points where it has found nothing
    size_t views;  // that were swept
} stereo_result;

// Writes at most `wanted` points and their colours. Sweeps each view, or every n-th so that they are at most 150, at 320
// pixels or less on the longer side, against up to four others that see the same at an angle of about 10 degrees: from
// infinity to a quarter of the distance of what the cameras look at, in steps of about a pixel. What the views agree on
// becomes points (distwar_gs_stereo.h), any of them with the same chance if they are more than wanted. Pixels without a
// point get a few: at the depth that is known next in some direction, or at any where none is. Writes none if stereo
// finds fewer than 2,000 and than wanted: few views, one pose, no texture, cameras that are not pinholes. Views: their
// pictures are on the host; nothing stays on the device. The same views and seed give the same points. Fails if there is
// no memory.
bool stereo_points(const target_view *views, size_t count, size_t wanted, uint64_t seed, float (*points)[3],
                   uint8_t (*colors)[3], stereo_result *result);

C_LINKAGE_END
