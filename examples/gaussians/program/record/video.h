// SPDX-License-Identifier: MIT
// A video file, by ffmpeg where it is installed.
#pragma once

#include "images/image.h"

C_LINKAGE_BEGIN

enum { VIDEO_RATE = 30 }; // frames per second

typedef struct video video;

bool video_is_name(const char *path); // ends with .mp4
// Starts ffmpeg. frames: all of width x height, RGB. NULL: *why says that it is missing, or what it says.
video *video_open(const char *path, int width, int height, fault *why);
// Waits while ffmpeg has no room. False: ffmpeg has ended; video_close says why.
bool video_put(video *v, const image *frame);
// whole: all frames are there: the file takes its name, else it goes. NULL is harmless.
bool video_close(video *v, bool whole, fault *why);

C_LINKAGE_END
