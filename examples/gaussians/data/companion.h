// SPDX-License-Identifier: MIT
// Files that belong to pictures, by their names: masks, depth maps.
#pragma once

#include "files/path.h"
#include <stdbool.h>

// The path of a picture's companion in a folder: NAME and the suffix (a.jpg.png, as COLMAP has it), or NAME with
// the suffix in place of its own (a.png), for each suffix in turn; `suffixes` ends with NULL. Fails if no such
// file exists. what: "mask", for the message.
bool companion_find(const char *folder, const char *name, const char *const *suffixes, const char *what,
                    char path[PATH_ROOM], fault *why);
