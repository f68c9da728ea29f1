// SPDX-License-Identifier: MIT
// The text of the last failure; the names of lists, backend and version.
#include "check.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[512];

gs_status libgs_fail(gs_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

gs_status libgs_require(const char *function, bool condition, const char *text) {
    return condition ? GS_OK : libgs_fail(GS_INVALID_ARGUMENT, "%s: %s", function, text);
}

gs_status libgs_status(cudaError_t error, const char *call, const char *file, int line) {
    if (error == cudaSuccess) return GS_OK;
    const char *slash = strrchr(file, '/');
    return libgs_fail(GS_DEVICE_ERROR, "%s:%d: %s: %s", slash ? slash + 1 : file, line,
                      cudaGetErrorString(error), call);
}

const char *gs_last_error(void) {
    return last_error;
}

const char *gs_backend(void) {
    return GS_BACKEND;
}

const char *gs_version(void) {
#define GS_DOTTED(major, minor, patch) #major "." #minor "." #patch
#define GS_VALUES_DOTTED(major, minor, patch) GS_DOTTED(major, minor, patch)
    return GS_VALUES_DOTTED(GS_VERSION_MAJOR, GS_VERSION_MINOR, GS_VERSION_PATCH);
}

const char *gs_name(gs_names list, int32_t number) {
#define GS_CAMERA_NAME(name, NAME) #name,
    static const char *const cameras[] = {GS_CAMERA_LIST(GS_CAMERA_NAME)};
    if (number < 0) return NULL;
    if (list == GS_NAMES_STRATEGIES) return distwar_strategy_name((distwar_strategy)number);
    return list == GS_NAMES_CAMERAS && number < GS_CAMERA_MODELS ? cameras[number] : NULL;
}
