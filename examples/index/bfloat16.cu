// SPDX-License-Identifier: MIT
#include "ways.cuh"

cudaError_t ix_add_bfloat16(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
    return plan.vector_bytes == 16  ? ways<__nv_bfloat16, 8>::add(rows, plan, stream)
           : plan.vector_bytes == 8 ? ways<__nv_bfloat16, 4>::add(rows, plan, stream)
           : plan.vector_bytes == 4 ? ways<__nv_bfloat16, 2>::add(rows, plan, stream)
                                    : ways<__nv_bfloat16, 1>::add(rows, plan, stream);
}
