// SPDX-License-Identifier: MIT
// The declarations of nccl_library.h are those of NCCL's header, where it is installed.
#if __has_include(<nccl.h>)
#include "nccl_library.h"
#include <nccl.h>
#include <cstddef>

namespace {

static_assert(int(NCCL_SUCCESS) == int(ncclSuccess) && int(NCCL_IN_PROGRESS) == int(ncclInProgress) &&
              int(NCCL_CUDA_ERROR) == int(ncclUnhandledCudaError) &&
              int(NCCL_SYSTEM_ERROR) == int(ncclSystemError) &&
              int(NCCL_REMOTE_ERROR) == int(ncclRemoteError));
static_assert(int(NCCL_INT8) == int(ncclInt8) && int(NCCL_INT64) == int(ncclInt64) &&
              int(NCCL_FLOAT) == int(ncclFloat32) && int(NCCL_DOUBLE) == int(ncclFloat64));
static_assert(int(NCCL_SUM) == int(ncclSum) && int(NCCL_MAX) == int(ncclMax));
static_assert(sizeof(nccl_result) == sizeof(ncclResult_t) && sizeof(nccl_type) == sizeof(ncclDataType_t) &&
              sizeof(nccl_operation) == sizeof(ncclRedOp_t) && sizeof(nccl_id) == sizeof(ncclUniqueId));

#define SAME_MEMBER(ours, theirs)                                                                            \
    static_assert(offsetof(nccl_config, ours) == offsetof(ncclConfig_t, theirs) &&                           \
                  sizeof(nccl_config::ours) == sizeof(ncclConfig_t::theirs))
SAME_MEMBER(size, size);
SAME_MEMBER(magic, magic);
SAME_MEMBER(version, version);
SAME_MEMBER(blocking, blocking);
SAME_MEMBER(cga_cluster_size, cgaClusterSize);
SAME_MEMBER(min_ctas, minCTAs);
SAME_MEMBER(max_ctas, maxCTAs);
SAME_MEMBER(net_name, netName);
SAME_MEMBER(split_share, splitShare);

} // namespace
#endif
