// SPDX-License-Identifier: MIT
// Kernels of strangers: the plain kernel, ours by `reduce` and by calls with
// names, cooperative groups and CUB, in one binary, with sums compared with
// sums in double. Each row has time, speedup over `plain`, error, registers,
// bytes of stack and of machine code.
//
//     strangers [--benchmark_filter=REGEX] [--benchmark_out=FILE
//     --benchmark_out_format=json]
#include "hash_grid.cuh"
#include "histograms.cuh"
#include "scatters.cuh"
#include "splats.cuh"
#include "stencils.cuh"

int main(int count, char **arguments) {
    return run_benchmarks(count, arguments, [] {
        splats::add_all();
        hash_grid::add_all();
        histograms::add_all();
        scatters::add_all();
        stencils::add_all();
    });
}
