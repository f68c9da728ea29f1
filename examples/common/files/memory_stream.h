// SPDX-License-Identifier: MIT
// Streams that write to memory. As open_memstream, which does not say, at least in glibc 2.36, that it had no memory for what
// was written last.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

C_LINKAGE_BEGIN

// After a flush *text has what was written, *size bytes and a '\0'; the caller frees it. NULL: no memory, and *text is NULL.
FILE *memory_stream_open(char **text, size_t *size);
// False: *text has not all that was written, for want of memory.
bool memory_stream_close(FILE *stream);

C_LINKAGE_END
