// SPDX-License-Identifier: MIT
// Fixed-point conversions in a program compiled with --use_fast_math or -ffast-math. Under simt the program
// runs and prints "same" if all results have the bits that IEEE 754 prescribes.
#include <distwar/fixed.cuh>

__global__ void convert(const float *from, float scale, long long *sums, unsigned *flags, float *to) {
    sums[threadIdx.x] = distwar::to_fixed(from[threadIdx.x], scale, flags[threadIdx.x]);
    to[threadIdx.x] = distwar::fixed_to_float(sums[threadIdx.x], scale);
}
__global__ void convert_double(const double *from, double scale, long long *sums, unsigned *flags,
                               double *to) {
    sums[threadIdx.x] = distwar::to_fixed(from[threadIdx.x], scale, flags[threadIdx.x]);
    to[threadIdx.x] = distwar::fixed_to_float(sums[threadIdx.x], scale);
}

#ifndef __CUDACC__
#include <stdio.h>

struct fixed_case {
    unsigned bits; // of the value
    float scale;
    long long units;
    unsigned flags;
    unsigned back; // bits of fixed_to_float(units, scale)
};

int main(int argc, char **) {
    const fixed_case cases[] = {
        {0x3f800000, 1048576.0f, 1048576, 0, 0x3f800000},                       // 1
        {0xc0490fdb, 3.0f, -9, 0, 0xc0400000},                                  // -pi in thirds
        {0x3f800000, 7.0f, 7, 0, 0x3f800000},                                   // 1 in sevenths
        {0x40a00000, 0.3f, 2, 0, 0x40d55555},                                   // 1.5 is rounded to 2
        {0x7fc00000, 1.0f, 0, distwar::fixed_nan, 0},                           // NaN
        {0xffc00001, 2.0f, 0, distwar::fixed_nan, 0},                           // NaN with a sign
        {0x7f800000, 1.0f, 1ll << 39, distwar::fixed_saturated, 0x53000000},    // infinity
        {0xff7fffff, 1.0f, -(1ll << 39), distwar::fixed_saturated, 0xd3000000}, // the lowest float
        {0x7f7fffff, 1073741824.0f, 1ll << 39, distwar::fixed_saturated,
         0x44000000}}; // overflows to infinity
    int wrong = 0;
    for (const fixed_case &each : cases) {
        volatile unsigned bits = argc > 0 ? each.bits : 0; // not known to the compiler
        unsigned flags = 0;
        const long long units = distwar::to_fixed(__uint_as_float(bits), each.scale, flags);
        const unsigned back = unsigned(__float_as_int(distwar::fixed_to_float(units, each.scale)));
        if (units == each.units && flags == each.flags && back == each.back) continue;
        printf("%#x at scale %g: %lld units, flags %u, back %#x\n", each.bits, double(each.scale), units,
               flags, back);
        wrong++;
    }
    for (int i = 1; i < 100000; i++) { // quotients that a reciprocal would round otherwise
        volatile double exact = double(i) / 3.0;
        const unsigned back = unsigned(__float_as_int(distwar::fixed_to_float((long long)i, 3.0f)));
        if (back != unsigned(__float_as_int(float(exact)))) wrong++;
    }
    printf(wrong == 0 ? "same\n" : "different\n");
    return wrong != 0;
}
#endif
