// SPDX-License-Identifier: MIT
// Preloaded into a program on a GPU (LD_PRELOAD): TRAP_MS milliseconds after its start another thread launches a kernel
// that traps. The program loses its context.
#include "launch.cuh"
#include <chrono>
#include <cstdlib>
#include <thread>

static __global__ void trap_kernel() {
    __trap();
}

__attribute__((constructor)) static void begin() {
    const char *const text = std::getenv("TRAP_MS");
    if (!text) return;
    const int milliseconds = std::atoi(text);
    std::thread([milliseconds] {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        (void)launch(nullptr, 1, 1, trap_kernel);
        (void)cudaDeviceSynchronize();
    }).detach();
}
