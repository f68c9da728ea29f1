// SPDX-License-Identifier: MIT
// The kernel of an external project, which the packaging tests compile.
#include <distwar/reduce.cuh>

static_assert(DISTWAR_VERSION[0] == '0' + DISTWAR_VERSION_MAJOR &&
                  DISTWAR_VERSION[2] == '0' + DISTWAR_VERSION_MINOR &&
                  DISTWAR_VERSION[4] == '0' + DISTWAR_VERSION_PATCH,
              "the version is known to the preprocessor, and is that of the text");

template <distwar::strategy Strategy>
__device__ void add_rows(const int *row_of, const float *value, int adds, float *table) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < adds;
    float row[4] = {};
    for (int k = 0; active && k < 4; ++k) row[k] = value[4 * i + k];
    distwar::reduce<Strategy>(distwar::all_lanes, active, active ? row_of[i] : 0, row,
                              distwar::record<float>{table, 4}, 8);
}

__global__ void add_rows_serial(const int *row_of, const float *value, int adds, float *table) {
    add_rows<distwar::strategy::serial>(row_of, value, adds, table);
}
__global__ void add_rows_bfly(const int *row_of, const float *value, int adds, float *table) {
    add_rows<distwar::strategy::bfly>(row_of, value, adds, table);
}
__global__ void add_rows_tree(const int *row_of, const float *value, int adds, float *table) {
    add_rows<distwar::strategy::tree>(row_of, value, adds, table);
}
__global__ void keep_largest(const float *value, int count, double *largest) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) distwar::atomic_update(largest, double(value[i]), distwar::maximum{});
}
