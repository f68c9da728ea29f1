// SPDX-License-Identifier: MIT
// A scene on the device, its rendered views, and the time of a call on a view. For benchmarks in C++; what
// they allocate lives as long as the program, and failures end it.
#pragma once

#include "device.h"
#include "distwar_gs.h"
#include <stdio.h>
#include <stdlib.h>

inline void check_gs(gs_status status, const char *what) {
    if (status == GS_OK) return;
    fprintf(stderr, "%s: %s\n", what, gs_last_error());
    exit(EXIT_FAILURE);
}

template <typename T>
T *device_array(size_t count) {
    return static_cast<T *>(device_allocate(count * sizeof(T)));
}

inline size_t pixels_of(const gs_camera &camera) {
    return size_t(camera.width) * size_t(camera.height);
}

inline gs_gaussians upload_gaussians(const gs_gaussians &host) {
    const size_t count = size_t(host.count);
    const auto copy = [](const float *from, size_t values) {
        float *to = device_array<float>(values);
        device_upload(to, from, values * sizeof(float));
        return to;
    };
    gs_gaussians device = host;
    device.mean = copy(host.mean, 3 * count);
    device.log_scale = copy(host.log_scale, 3 * count);
    device.quaternion = copy(host.quaternion, 4 * count);
    device.opacity_logit = copy(host.opacity_logit, count);
    device.sh = copy(host.sh, 3 * size_t((host.sh_degree + 1) * (host.sh_degree + 1)) * count);
    return device;
}

// A view after gs_forward, with memory of its own.
inline gs_view rendered_view(const gs_gaussians &gaussians, const gs_camera &camera) {
    gs_view view = {};
    view.gaussians = gaussians;
    view.sh_degree_used = gaussians.sh_degree;
    view.camera = camera;
    const gs_view_parts parts = {1, 0, DISTWAR_TREE, 0};
    void *block = nullptr;
    gs_status status;
    do {
        device_free(block);
        view.pair_capacity = view.pairs_needed;
        size_t bytes;
        check_gs(gs_view_bytes(&view, &parts, &bytes), "gs_view_bytes");
        block = device_allocate(bytes);
        check_gs(gs_view_place(&view, nullptr, &parts, block, bytes), "gs_view_place");
        status = gs_forward(&view, nullptr);
    } while (status == GS_PAIRS_DO_NOT_FIT);
    check_gs(status, "gs_forward");
    return view;
}

// Times what a call queues on the NULL stream, by CUDA events, after twice the L2 cache was overwritten.
class cold_timer {
  public:
    void open() {
        DEVICE_CHECK(cudaEventCreate(&begin_));
        DEVICE_CHECK(cudaEventCreate(&end_));
        cudaDeviceProp properties;
        DEVICE_CHECK(cudaGetDeviceProperties(&properties, 0));
        bytes_ = 2 * size_t(properties.l2CacheSize);
        scrubbed_ = device_allocate(bytes_);
    }
    template <typename Call>
    double milliseconds(const Call &call) const {
        DEVICE_CHECK(cudaMemsetAsync(scrubbed_, 0, bytes_, nullptr));
        DEVICE_CHECK(cudaEventRecord(begin_, nullptr));
        call();
        DEVICE_CHECK(cudaEventRecord(end_, nullptr));
        DEVICE_CHECK(cudaEventSynchronize(end_));
        float ms = 0;
        DEVICE_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
        return ms;
    }

  private:
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
    void *scrubbed_ = nullptr;
    size_t bytes_ = 0;
};
