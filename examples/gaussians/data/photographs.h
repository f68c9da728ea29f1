// SPDX-License-Identifier: MIT
// The photographs in a folder, by the suffix of their names.
#pragma once

#include <dirent.h>

// For scandir, whose array it takes: .jpg, .jpeg and .png, in any case.
int photograph_is(const struct dirent *entry);
// Frees what scandir has returned; count < 0: nothing.
void photographs_close(struct dirent **entries, int count);
