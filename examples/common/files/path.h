// SPDX-License-Identifier: MIT
// Paths of files in folders.
#pragma once

#include "fault.h"
#include <stdint.h>

C_LINKAGE_BEGIN

enum { PATH_ROOM = 4096 }; // bytes, the final zero included

// "folder/name". Fails if it does not fit.
bool path_join(char out[PATH_ROOM], const char *folder, const char *name, fault *why);
// Identifies a file, whatever path leads to it.
typedef struct file_id {
    uint64_t device, number;
} file_id;
// False if there is no such file.
bool file_id_of(const char *path, file_id *out);
bool file_id_is(const file_id *a, const file_id *b);
// Fails if both paths name one file, also one that does not exist yet: one output would overwrite the other. a, b: NULL for
// no path. a_is, b_is: names for the message.
bool are_two_files(const char *a_is, const char *a, const char *b_is, const char *b, fault *why);
// Removes the file if it exists; *removed says whether it did.
bool file_remove(const char *path, bool *removed, fault *why);
// Makes the folder unless it exists. Its parent folder must exist.
bool folder_make(const char *path, fault *why);
// True if `name`, from an untrusted file, stays inside the folder it is joined to: it is not empty, not
// absolute, and has no ".." among its parts.
bool path_stays_inside(const char *name);

C_LINKAGE_END
