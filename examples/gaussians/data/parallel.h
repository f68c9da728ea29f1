// SPDX-License-Identifier: MIT
// Reads or writes many files at once.
#pragma once

#include "files/fault.h"
#include <stddef.h>

// Calls read(context, i, why) for i = 0..count - 1, on all CPU cores. Fails with the message of the first i, by
// number, that fails; later ones may then not have been read.
bool read_in_parallel(size_t count, bool (*read)(void *context, size_t i, fault *why), void *context,
                      fault *why);
