// SPDX-License-Identifier: MIT
// NCCL, loaded at run time: libnccl.so.2, version 2.18 or later. The declarations are those of its manual that are used
// here, so that neither its header nor the library is needed to build.
#pragma once

#include <cuda_runtime.h>

enum { NCCL_OLDEST = 21800 }; // 10,000 major + 100 minor + patch

typedef enum nccl_result { // others are failures, too
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7
} nccl_result;
typedef enum nccl_type { NCCL_INT8 = 0, NCCL_INT64 = 4, NCCL_FLOAT = 7, NCCL_DOUBLE = 8 } nccl_type;
typedef enum nccl_operation { NCCL_SUM = 0, NCCL_MAX = 2 } nccl_operation;
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
typedef struct nccl_comm nccl_comm;

// ncclConfig_t of version 2.18: NCCL reads `size` bytes and takes its own values for what came later.
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
} nccl_config;

typedef struct nccl_library {
    void *handle;
    nccl_result (*get_version)(int *version);
    const char *(*get_error_string)(nccl_result result);
    nccl_result (*get_unique_id)(nccl_id *id);
    nccl_result (*comm_init_rank_config)(nccl_comm **comm, int count, nccl_id id, int rank,
                                         nccl_config *config);
    nccl_result (*comm_get_async_error)(nccl_comm *comm, nccl_result *error);
    nccl_result (*comm_finalize)(nccl_comm *comm);
    nccl_result (*comm_destroy)(nccl_comm *comm);
    nccl_result (*comm_abort)(nccl_comm *comm);
    nccl_result (*group_start)(void);
    nccl_result (*group_end)(void);
    nccl_result (*send)(const void *data, size_t count, nccl_type type, int to, nccl_comm *comm,
                        cudaStream_t stream);
    nccl_result (*recv)(void *data, size_t count, nccl_type type, int from, nccl_comm *comm,
                        cudaStream_t stream);
    nccl_result (*all_reduce)(const void *send, void *receive, size_t count, nccl_type type,
                              nccl_operation operation, nccl_comm *comm, cudaStream_t stream);
} nccl_library;
