// SPDX-License-Identifier: MIT
// A host in C11: it calls the CUDA runtime, and kernels.cu launches.
#include "kernels.h"
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, KEYS = 3 };

static void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "scatter: %s\n", cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}

int main(void) {
    int key_of[COUNT], *device_key_of;
    float value_of[COUNT], *device_value_of, sums[KEYS] = {0}, expected[KEYS] = {0}, *device_sums;
    for (int i = 0; i < COUNT; i++) {
        key_of[i] = i % 7 % KEYS;
        value_of[i] = (float)(i % 8);
        expected[key_of[i]] += value_of[i];
    }
    check(cudaMalloc((void **)&device_key_of, sizeof key_of));
    check(cudaMalloc((void **)&device_value_of, sizeof value_of));
    check(cudaMalloc((void **)&device_sums, sizeof sums));
    check(cudaMemcpy(device_key_of, key_of, sizeof key_of, cudaMemcpyHostToDevice));
    check(cudaMemcpy(device_value_of, value_of, sizeof value_of, cudaMemcpyHostToDevice));
    check(cudaMemset(device_sums, 0, sizeof sums));
    check(add_by_key(device_key_of, device_value_of, COUNT, device_sums));
    check(cudaMemcpy(sums, device_sums, sizeof sums, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int key = 0; key < KEYS; key++) wrong += sums[key] != expected[key];
    puts(wrong ? "WRONG" : "the sums are right");
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
