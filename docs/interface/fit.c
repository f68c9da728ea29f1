// SPDX-License-Identifier: MIT
// libdistwar_gs from C: fits 64 Gaussians to a picture, with distwar_gs.h and a way to allocate device memory. With
// the CPU library device memory is host memory. Build with -DUSE_CUDA for the CUDA library.
#include "distwar_gs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef USE_CUDA
#include <cuda_runtime_api.h>
#endif

enum { SIDE = 8, COUNT = SIDE * SIDE, SIZE = 32, PIXELS = SIZE * SIZE, STEPS = 60 };

static void stop_if(int failed, const char *what, const char *why) {
    if (!failed) return;
    fprintf(stderr, "fit: %s: %s\n", what, why);
    exit(1);
}

#define GS(call) stop_if((call) != GS_OK, #call, gs_last_error())

// ---- device memory, zeroed ----

#ifdef USE_CUDA
static void cuda(cudaError_t error, const char *what) {
    stop_if(error != cudaSuccess, what, cudaGetErrorString(error));
}
static void *device_new(size_t bytes) {
    void *memory = NULL;
    cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
    cuda(cudaMemset(memory, 0, bytes), "cudaMemset");
    return memory;
}
static void device_delete(void *memory) {
    cuda(cudaFree(memory), "cudaFree");
}
static void upload(void *device, const void *host, size_t bytes) {
    cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "upload");
}
static void download(void *host, const void *device, size_t bytes) { // waits for all work
    cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "download");
}
#else
static void *device_new(size_t bytes) {
    void *memory = calloc(1, bytes); // aligned to 16 bytes, as distwar_gs.h asks
    stop_if(!memory, "calloc", "out of memory");
    return memory;
}
static void device_delete(void *memory) {
    free(memory);
}
static void upload(void *device, const void *host, size_t bytes) {
    memcpy(device, host, bytes);
}
static void download(void *host, const void *device, size_t bytes) {
    memcpy(host, device, bytes);
}
#endif

// ---- the problem ----

enum { VALUES = 14 * COUNT }; // floats of all parameters

// Gaussians, gradients or moments of SH degree 0 in one block. COUNT is a multiple of 4, so every array in it
// is aligned to 16 bytes.
static gs_gaussians gaussians_in(float *block) {
    return (gs_gaussians){.count = COUNT,
                          .sh_degree = 0,
                          .mean = block,
                          .log_scale = block + 3 * COUNT,
                          .quaternion = block + 6 * COUNT,
                          .opacity_logit = block + 10 * COUNT,
                          .sh = block + 11 * COUNT};
}

// A grid of round grey Gaussians that fills the picture of a camera four units away.
static void set_start(float *block) {
    const gs_gaussians g = gaussians_in(block);
    for (int i = 0; i < COUNT; i++) {
        g.mean[3 * i] = ((float)(i % SIDE) + 0.5f) * 4 / SIDE - 2;
        g.mean[3 * i + 1] = ((float)(i / SIDE) + 0.5f) * 4 / SIDE - 2;
        g.mean[3 * i + 2] = 0.01f * (float)i;
        for (int k = 0; k < 3; k++) g.log_scale[3 * i + k] = logf(0.2f);
        g.quaternion[4 * i] = 1;
    }
}

// A sunset, 8 bits per channel.
static void set_target(uint8_t *target) {
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++, target += 3) {
            const int sun = (x - 20) * (x - 20) + (y - 13) * (y - 13)<30, sea = y> 20;
            target[0] = (uint8_t)(sun ? 250 : sea ? 30 : 230 - 4 * y);
            target[1] = (uint8_t)(sun ? 220 : sea ? 60 + x : 90 + y);
            target[2] = (uint8_t)(sun ? 120 : sea ? 110 : 60 + 5 * y);
        }
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void) {
    float start[VALUES] = {0};
    uint8_t target[3 * PIXELS];
    set_start(start);
    set_target(target);

    // Parameters, gradients and Adam's two moments have one shape.
    float *blocks[4];
    gs_gaussians shape[4];
    for (int k = 0; k < 4; k++) {
        blocks[k] = device_new(VALUES * sizeof(float));
        shape[k] = gaussians_in(blocks[k]);
    }
    upload(blocks[0], start, sizeof start);
    uint8_t *device_target = device_new(sizeof target);
    upload(device_target, target, sizeof target);
    float *color_gradient = device_new(3 * PIXELS * sizeof(float));
    gs_splat_grad *splat_grad = device_new(COUNT * sizeof(gs_splat_grad));
    double *result = device_new(3 * sizeof(double));

    gs_view view = {
        .gaussians = shape[0],
        .camera = {.width = SIZE,
                   .height = SIZE,
                   .fx = SIZE,
                   .fy = SIZE,
                   .cx = SIZE / 2.0f,
                   .cy = SIZE / 2.0f,
                   .rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                   .translation = {0, 0, 4},
                   .near_plane = 0.2f},
    };
    const gs_gradient gradient = {.color = color_gradient, .splat_grad = splat_grad, .gaussians = shape[1]};
    const gs_adam_rates rates = {
        .mean = 0.02f, .log_scale = 0.04f, .quaternion = 0.02f, .opacity_logit = 0.1f, .sh0 = 0.1f, .shN = 0};

    double before[3], after[3];
    const double begin = seconds();
    for (int step = 1; step <= STEPS; step++) {
        GS(gs_forward(&view, NULL));
        const gs_loss_image image = {
            {SIZE, SIZE, view.image.color, device_target, NULL}, result, color_gradient};
        GS(gs_loss(&image, 1, NULL));
        if (step == 1) download(before, result, sizeof before);
        GS(gs_backward(&view, &gradient, (distwar_policy){DISTWAR_BFLY, 0}, NULL));
        GS(gs_adam(&shape[0], &shape[1], &shape[2], &shape[3], &rates, step, NULL));
    }
    download(after, result, sizeof after);

    printf("libdistwar_gs %s, %s: %d Gaussians, %d x %d pixels, %d steps in %.2f s\n", gs_version(),
           gs_backend(), COUNT, SIZE, SIZE, STEPS, seconds() - begin);
    printf("loss %.4f -> %.4f, mean error %.4f -> %.4f, SSIM %.3f -> %.3f\n", before[0], after[0], before[1],
           after[1], before[2], after[2]);

    for (int k = 0; k < 4; k++) device_delete(blocks[k]);
    device_delete(device_target);
    device_delete(color_gradient);
    device_delete(result);
    device_delete(splat_grad);
    gs_view_free(&view, NULL);
    stop_if(!(after[0] < before[0] / 4), "the loss", "did not fall to a quarter");
    return 0;
}
