// SPDX-License-Identifier: MIT
#include "ways.cuh"

template <typename Out>
static cudaError_t add(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
    return plan.vector_bytes == 16  ? ways<__half, 8, Out>::add(rows, plan, stream)
           : plan.vector_bytes == 8 ? ways<__half, 4, Out>::add(rows, plan, stream)
           : plan.vector_bytes == 4 ? ways<__half, 2, Out>::add(rows, plan, stream)
                                    : ways<__half, 1, Out>::add(rows, plan, stream);
}

cudaError_t ix_add_float16(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
    return rows.float_sums ? add<float>(rows, plan, stream) : add<__half>(rows, plan, stream);
}
