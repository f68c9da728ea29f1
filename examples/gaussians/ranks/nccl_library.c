// SPDX-License-Identifier: MIT
#include "nccl_library.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t place;
} functions[] = {{"ncclGetVersion", offsetof(nccl_library, get_version)},
                 {"ncclGetErrorString", offsetof(nccl_library, get_error_string)},
                 {"ncclGetUniqueId", offsetof(nccl_library, get_unique_id)},
                 {"ncclCommInitRankConfig", offsetof(nccl_library, comm_init_rank_config)},
                 {"ncclCommGetAsyncError", offsetof(nccl_library, comm_get_async_error)},
                 {"ncclCommFinalize", offsetof(nccl_library, comm_finalize)},
                 {"ncclCommDestroy", offsetof(nccl_library, comm_destroy)},
                 {"ncclCommAbort", offsetof(nccl_library, comm_abort)},
                 {"ncclGroupStart", offsetof(nccl_library, group_start)},
                 {"ncclGroupEnd", offsetof(nccl_library, group_end)},
                 {"ncclSend", offsetof(nccl_library, send)},
                 {"ncclRecv", offsetof(nccl_library, recv)},
                 {"ncclAllReduce", offsetof(nccl_library, all_reduce)}};

bool nccl_load(nccl_library *out, const char *path, fault *why) {
    if (!path) path = "libnccl.so.2";
    *out = (nccl_library){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!out->handle)
        return fail(
            why,
            "several GPUs need NCCL 2.18 or later: %s. Install it (the package libnccl2, or pip install "
            "nvidia-nccl-cu13) and name its libnccl.so.2 by --nccl",
            dlerror());
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        void *const found = dlsym(out->handle, functions[k].name);
        if (!found)
            return fail(why, "%s has no %s: several GPUs need NCCL 2.18 or later", path, functions[k].name);
        memcpy((char *)out + functions[k].place, &found, sizeof found);
    }
    int version = 0;
    if (out->get_version(&version) != NCCL_SUCCESS || version < NCCL_OLDEST || version >= 30000)
        return fail(why, "%s is NCCL %d.%d.%d: several GPUs need NCCL 2.18 or later, below 3", path,
                    version / 10000, version / 100 % 100, version % 100);
    return true;
}
