// SPDX-License-Identifier: MIT
// Kernels of other code bases: the plain kernel, ours by `reduce` and by calls with names, cooperative groups, in one binary, with
// sums compared with sums in double. Each row has time, speedup over `plain`, error, registers, bytes of stack and of machine
// code. The options are those of Google Benchmark.
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
