// SPDX-License-Identifier: MIT
#include "ways.cuh"

cudaError_t ix_add_float32(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
    return plan.vector_bytes == 16  ? ways<float, 4, float>::add(rows, plan, stream)
           : plan.vector_bytes == 8 ? ways<float, 2, float>::add(rows, plan, stream)
                                    : ways<float, 1, float>::add(rows, plan, stream);
}

cudaError_t ix_way_bytes(const ix_rows &rows, ix_way way, size_t *bytes) {
    *bytes = 0;
    if (way == IX_FIXED) {
        fixed_sums fixed;
        place_fixed(rows, nullptr, &fixed, bytes);
    } else if (way == IX_SORTED || way == IX_SORTED_FIXED) {
        sorted_arrays arrays;
        return place_sorted(rows, way == IX_SORTED_FIXED, nullptr, &arrays, bytes);
    }
    return cudaSuccess;
}
