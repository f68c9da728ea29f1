// SPDX-License-Identifier: MIT
// Macros of the including program: the headers compile, and leave the macros as they were. CUB's headers in
// device/sorted_sums_by_key.cuh do not. Macros that would change a name are refused by name (CMakeLists.txt).
#define C 1
#define D 2
#define M 3
#define P 4
#define X 5
#define Y 6
#define clear_all() 0
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/device/histogram.cuh>
#if C + D + M + P + X + Y + clear_all() != 21
#error "a header of distwar changed a macro"
#endif
__global__ void use(int key, float *to) {
    const float val[M] = {1, 2, 3};
    distwar::reduce_tree(distwar::all_lanes, true, key, val, distwar::record<float>{to, M});
}
