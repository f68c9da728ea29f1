// SPDX-License-Identifier: MIT
// Kernels of other code bases in one binary: the plain kernel, the same by `reduce` and by distwar's other calls, and
// by cooperative groups. Their sums are compared with sums in double. Each row has time, speedup over `plain`, error,
// registers and bytes of stack. The options are those of Google Benchmark.
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
