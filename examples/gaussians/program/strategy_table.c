// SPDX-License-Identifier: MIT
#include "strategy_table.h"
#include "device.h"
#include "frame.h"
#include "kernel_counts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct strategy {
    gs_reduction reduction;
    int threshold;
} strategy;

static const strategy strategies[] = {{GS_ATOMIC, 0},  {GS_SERIAL, 0},  {GS_SERIAL, 8},
                                      {GS_SERIAL, 16}, {GS_SERIAL, 24}, {GS_BFLY, 0},
                                      {GS_BFLY, 8},    {GS_BFLY, 16},   {GS_BFLY, 24}};
enum { STRATEGIES = sizeof strategies / sizeof *strategies, WARM_UPS = 3, REPEATS = 11 };

static void print_strategy(const strategy *s) {
    char threshold[8] = "-"; // atomic has none
    if (s->reduction != GS_ATOMIC) snprintf(threshold, sizeof threshold, "%d", s->threshold);
    printf("%-8s %9s", gs_reduction_name(s->reduction), threshold);
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median_milliseconds(frame *f, const strategy *s) {
    float times[REPEATS];
    cudaEvent_t begin, end;
    DEVICE_CHECK(cudaEventCreate(&begin));
    DEVICE_CHECK(cudaEventCreate(&end));
    for (int i = -WARM_UPS; i < REPEATS; i++) {
        DEVICE_CHECK(cudaEventRecord(begin, NULL));
        frame_render_backward(f, s->reduction, s->threshold);
        DEVICE_CHECK(cudaEventRecord(end, NULL));
        DEVICE_CHECK(cudaEventSynchronize(end));
        if (i >= 0) DEVICE_CHECK(cudaEventElapsedTime(&times[i], begin, end));
    }
    DEVICE_CHECK(cudaEventDestroy(begin));
    DEVICE_CHECK(cudaEventDestroy(end));
    qsort(times, REPEATS, sizeof *times, compare_floats);
    return times[REPEATS / 2];
}

static void add_counts(frame *f, const strategy *s, kernel_counts *sum) {
    kernel_counts before, after;
    kernel_counts_now(&before);
    frame_render_backward(f, s->reduction, s->threshold);
    kernel_counts_now(&after);
    sum->shuffles += after.shuffles - before.shuffles;
    sum->votes += after.votes - before.votes;
    sum->atomic_instructions += after.atomic_instructions - before.atomic_instructions;
    sum->atomic_requests += after.atomic_requests - before.atomic_requests;
}

void strategy_table_print(const gs_gaussians *gaussians, const target_view *views, size_t count,
                          const float background[3]) {
    kernel_counts sums[STRATEGIES] = {{0}};
    double milliseconds[STRATEGIES] = {0};
    const bool counted = kernel_counts_now(&sums[0]);
    sums[0] = (kernel_counts){0};

    frame f = {0};
    double *result = device_allocate(3 * sizeof *result);
    for (size_t v = 0; v < count; v++) {
        frame_render(&f, gaussians, gaussians->sh_degree, &views[v].camera, background);
        frame_loss(&f, views[v].pixels, result, true);
        for (int s = 0; s < STRATEGIES; s++) {
            if (counted)
                add_counts(&f, &strategies[s], &sums[s]);
            else
                milliseconds[s] += median_milliseconds(&f, &strategies[s]);
        }
    }
    device_free(result);
    frame_free(&f);

    if (counted)
        printf("strategy threshold     shuffles        votes      atomics   (lanes)   one backward blend, "
               "mean of %zu views\n",
               count);
    else
        printf("strategy threshold   ms   one backward blend, mean of %zu views' medians of %d\n", count,
               REPEATS);
    for (int s = 0; s < STRATEGIES; s++) {
        print_strategy(&strategies[s]);
        if (counted)
            printf(" %12.0f %12.0f %12.0f %12.0f\n", (double)sums[s].shuffles / (double)count,
                   (double)sums[s].votes / (double)count, (double)sums[s].atomic_instructions / (double)count,
                   (double)sums[s].atomic_requests / (double)count);
        else
            printf(" %8.4f\n", milliseconds[s] / (double)count);
    }
}
