// SPDX-License-Identifier: MIT
// How libdistwar_gs reports a failure: a gs_status to the caller, the text in this thread's gs_last_error(). Internal
// to libdistwar_gs. The macros return from the enclosing function, which must return gs_status.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include <cuda_runtime.h>
#include <stdbool.h>

C_LINKAGE_BEGIN

// Sets this thread's text (truncated to fit) and returns status.
gs_status libgs_fail(gs_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
// GS_OK, or GS_DEVICE_ERROR with the text "file:line: text of the error: call".
gs_status libgs_status(cudaError_t error, const char *call, const char *file, int line);

// GS_OK if the condition holds, else GS_INVALID_ARGUMENT with the text "function: text".
gs_status libgs_require(const char *function, bool condition, const char *text);

C_LINKAGE_END

// Returns the status of the call unless it is GS_OK.
#define GS_TRY(call)                                                                                         \
    do {                                                                                                     \
        const gs_status gs_status_ = (call);                                                                 \
        if (gs_status_ != GS_OK) return gs_status_;                                                          \
    } while (0)

// The status of a runtime call, or of launch().
#define GS_STATUS(call) libgs_status((call), #call, __FILE__, __LINE__)
// Returns that status unless it is GS_OK.
#define GS_CUDA(call) GS_TRY(GS_STATUS(call))

// Returns unless the condition holds. Write it so that NaN fails.
#define GS_REQUIRE(condition, text) GS_REQUIRE_OF(__func__, condition, text)
// The same inside a function that checks the arguments of another one, `function`.
#define GS_REQUIRE_OF(function, condition, text) GS_TRY(libgs_require(function, condition, text))
