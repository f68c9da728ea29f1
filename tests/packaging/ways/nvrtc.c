// SPDX-License-Identifier: MIT
// Compiles kernel.cu to PTX by NVRTC. nvrtc_way.h holds the lines of docs/reference.md.
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(nvrtcResult result) {
    if (result == NVRTC_SUCCESS) return;
    fprintf(stderr, "nvrtc: %s\n", nvrtcGetErrorString(result));
    exit(EXIT_FAILURE);
}

int main(void) {
    static char source[1 << 16], ptx[1 << 20];
    FILE *file = fopen("kernel.cu", "r");
    if (!file || fread(source, 1, sizeof source - 1, file) == 0) return EXIT_FAILURE;
    fclose(file);
    nvrtcProgram program;
    size_t bytes;
    check(nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL));
#include "nvrtc_way.h"
    check(nvrtcGetPTXSize(program, &bytes));
    if (bytes > sizeof ptx) return EXIT_FAILURE;
    check(nvrtcGetPTX(program, ptx));
    check(nvrtcDestroyProgram(&program));
    const char *const expected[] = {"add_rows_serial", "add_rows_bfly", "add_rows_tree",
                                    "keep_largest",    "shfl.sync",     ".cas."};
    int right = 1;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) right = right && strstr(ptx, expected[i]);
    puts(right ? "the sums are right" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
