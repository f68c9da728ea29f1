// SPDX-License-Identifier: MIT
// Pictures of a scene whose Gaussians lie on several ranks. All calls but the last are collectives; they return false
// after ranks_fail. A failure of the device ends the program.
#pragma once

#include "ranks.h"
#include "sharded.h"
#include "frames/frame.h"

C_LINKAGE_BEGIN

// Rows of an image that this rank has rendered.
typedef struct frame_strip {
    int32_t view;
    gs_rows rows;
    device_buffer pixels; // [GS_CHANNELS][rows][width]
} frame_strip;

enum { MOST_STRIPS = GS_MAX_VIEWS + 1 };

typedef struct sharded_frames {
    ranks *group;
    sharded *shared;
    gs_gaussians gaussians; // this rank's
    int sh_degree_used;
    float background[GS_CHANNELS];
    // Of the last call:
    gs_camera cameras[GS_MAX_VIEWS];
    frame_strip strips[MOST_STRIPS];
    int strip_count;
    device_buffer received, images; // of rank 0: strips of one round; [views][GS_CHANNELS][height][width]
} sharded_frames;

// host: the whole scene, the same on all ranks, of which each uploads its rows. Closed also after a failure.
bool sharded_frames_open(sharded_frames *f, ranks *group, const gs_gaussians *host, int sh_degree_used,
                         const float background[GS_CHANNELS]);
void sharded_frames_close(sharded_frames *f);

// How many views one call renders best: a view a rank.
int sharded_frames_at_once(const ranks *group);
// Of cameras[count], the number from the first on, at most `most`, that one call can render: of one size and model.
int sharded_frames_alike(const gs_camera *cameras, size_t count, int most);
// Renders 1..GS_MAX_VIEWS views of one size and model. Each is rendered by a rank alone, unless there are more ranks
// than GS_MAX_VIEWS: then ranks share views. Rank 0 has the images, with the bits of frame_render. Waits.
bool sharded_frames_render(sharded_frames *f, const gs_camera *cameras, int views);

// On rank 0: makes `out` the frame of the image, for frame_loss and frame_picture; it still owns only what it did.
void sharded_frames_look(const sharded_frames *f, int view, frame *out);

C_LINKAGE_END
