// SPDX-License-Identifier: MIT
// Masks: which pixels of a photograph count. While a view is loaded its mask is a gray picture, 255 where it
// counts, so that functions for pictures apply to it.
#pragma once

#include "images/image.h"
#include "files/path.h"
#include <stdbool.h>

// The path of a picture's mask in a folder: NAME.png (a.jpg.png, as COLMAP has it), or NAME with the suffix
// .png (a.png). Fails if neither file exists.
bool mask_find(const char *folder, const char *name, char path[PATH_ROOM], fault *why);
// Reads the mask of a picture: black pixels do not count, all others do. Fails, naming the file, if it has
// another size than the picture or an alpha channel.
bool mask_read(const char *path, const image *picture, image *out, fault *why);
// Where the alpha of a picture (4 channels) is 0, the mask does not count. An empty mask is made first.
bool mask_by_alpha(const image *picture, image *mask, fault *why);
// As image_downscale, but a pixel counts only if its whole block does.
bool mask_downscale(image *mask, int factor, fault *why);
// Makes one byte per pixel, 255 or 0, of the mask, which is left empty. Pixels that are not 255, because
// undistortion mixed them, do not count. *counted: how many do.
uint8_t *mask_take(image *mask, size_t *counted);
