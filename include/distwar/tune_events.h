// SPDX-License-Identifier: MIT
//
// Times launches for a tuner (tune.h) with CUDA events. It queries events and never waits for them. C11 or
// C++:
//
//     tune_events ring;
//     tune_events_open(&ring);
//     for each launch:
//         tune_launch next;
//         tune_events_begin(&ring, &t, stream, &next);
//         launch the kernel on stream, with next.strategy and next.threshold
//         tune_events_end(&ring, &t, stream, work);
//     tune_events_close(&ring);
//
// The time is the stream's time for the work queued between the two calls. If the stream runs empty in
// between, it includes the time the stream waits for the host. work: as in tune_report. Only launches that
// the tuner measures record events; between races there are none. While all TUNE_EVENTS pairs of events wait
// for the GPU, launches are not measured and use the best so far.
//
// Result:  cudaSuccess, or the first error of the runtime. The launch is chosen in both cases. An error that
// the
//          runtime held before the call stays there for the caller.
// Streams: several streams may use a ring in turn, but not while they are being captured.
// Threads: one at a time.
// Cost:    two event records and a few queries for a measured launch.
#ifndef DISTWAR_TUNE_EVENTS_H
#define DISTWAR_TUNE_EVENTS_H

#include "tune.h"
#include <cuda_runtime.h>

enum { TUNE_EVENTS = 64 };

typedef struct tune_events {
    struct {
        cudaEvent_t begin, end;
        int64_t ticket;
        double work;
    } slots[TUNE_EVENTS];
    int first, waiting; // index of the oldest waiting slot, number of waiting slots
    bool measuring;     // between begin and end: the slot after the waiting ones is in use
} tune_events;

// Destroys the events. Waiting times are not reported. Harmless on a zeroed ring.
static inline cudaError_t tune_events_close(tune_events *ring) {
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < TUNE_EVENTS; i++) {
        cudaEvent_t both[2] = {ring->slots[i].begin, ring->slots[i].end};
        for (int j = 0; j < 2; j++) {
            cudaError_t destroyed = both[j] ? cudaEventDestroy(both[j]) : cudaSuccess;
            if (status == cudaSuccess) status = destroyed;
        }
    }
    memset(ring, 0, sizeof *ring);
    return status;
}

// Creates the events on the current device; the ring is for streams of this device. After a failure it has
// none.
static inline cudaError_t tune_events_open(tune_events *ring) {
    memset(ring, 0, sizeof *ring);
    for (int i = 0; i < TUNE_EVENTS; i++) {
        cudaError_t status = cudaEventCreate(&ring->slots[i].begin);
        if (status == cudaSuccess) status = cudaEventCreate(&ring->slots[i].end);
        if (status != cudaSuccess) {
            tune_events_close(ring);
            return status;
        }
    }
    return cudaSuccess;
}

// Reports the times that are ready, oldest first. tune_events_begin does the same.
static inline cudaError_t tune_events_poll(tune_events *ring, tuner *t) {
    while (ring->waiting > 0) {
        // "Not ready" becomes the runtime's last error and must be cleared; an error of the caller's must
        // not.
        cudaError_t status = cudaPeekAtLastError();
        if (status != cudaSuccess) return status;
        int slot = ring->first;
        status = cudaEventQuery(ring->slots[slot].end);
        if (status == cudaErrorNotReady) {
            cudaGetLastError();
            return cudaSuccess;
        }
        float milliseconds = 0;
        if (status == cudaSuccess)
            status = cudaEventElapsedTime(&milliseconds, ring->slots[slot].begin, ring->slots[slot].end);
        ring->first = (slot + 1) % TUNE_EVENTS;
        ring->waiting--;
        tune_report(t, ring->slots[slot].ticket, status == cudaSuccess ? milliseconds : 0,
                    ring->slots[slot].work);
        if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
}

// Call it before the launch. *launch: the candidate to use.
static inline cudaError_t tune_events_begin(tune_events *ring, tuner *t, cudaStream_t stream,
                                            tune_launch *launch) {
    cudaError_t status = tune_events_poll(ring, t);
    ring->measuring = false;
    bool full = ring->waiting == TUNE_EVENTS;
    *launch = full || status != cudaSuccess ? tune_best(t) : tune_choose(t);
    if (launch->ticket < 0) return status;
    int slot = (ring->first + ring->waiting) % TUNE_EVENTS;
    ring->slots[slot].ticket = launch->ticket;
    status = cudaEventRecord(ring->slots[slot].begin, stream);
    ring->measuring = status == cudaSuccess;
    if (!ring->measuring) tune_report(t, launch->ticket, 0, 0);
    return status;
}

// Call it after the launch, on the same stream, once for each tune_events_begin. work: see tune_report.
static inline cudaError_t tune_events_end(tune_events *ring, tuner *t, cudaStream_t stream, double work) {
    if (!ring->measuring) return cudaSuccess;
    ring->measuring = false;
    int slot = (ring->first + ring->waiting) % TUNE_EVENTS;
    cudaError_t status = cudaEventRecord(ring->slots[slot].end, stream);
    ring->slots[slot].work = work;
    if (status == cudaSuccess)
        ring->waiting++;
    else
        tune_report(t, ring->slots[slot].ticket, 0, 0);
    return status;
}

#endif
