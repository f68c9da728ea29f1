// SPDX-License-Identifier: MIT
#include "strategy_table.h"
#include "device.h"
#include "frame.h"
#include "kernel_counts.h"
#include <inttypes.h>
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

// Renders a view and leaves the gradient that a backward blend starts from.
static void prepare(frame *f, const gs_gaussians *gaussians, const target_view *view,
                    const float background[3], double *result) {
    frame_render(f, gaussians, gaussians->sh_degree, &view->camera, background);
    frame_loss(f, view->pixels, result, true);
}

static void print_counts(frame *f) {
    printf("The backward blend of one view, counted; instructions, shuffles and votes are of warps:\n"
           "strategy threshold  atomic adds atomic instrs     shuffles        votes\n");
    for (int s = 0; s < STRATEGIES; s++) {
        kernel_counts before, after;
        kernel_counts_now(&before);
        frame_render_backward(f, strategies[s].reduction, strategies[s].threshold);
        kernel_counts_now(&after);
        print_strategy(&strategies[s]);
        printf(" %12" PRIu64 " %13" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
               after.atomic_requests - before.atomic_requests,
               after.atomic_instructions - before.atomic_instructions, after.shuffles - before.shuffles,
               after.votes - before.votes);
    }
}

void strategy_table_print(const gs_gaussians *gaussians, const target_view *views, size_t count,
                          const float background[3]) {
    frame f = {0};
    double *result = device_allocate(3 * sizeof *result);
    kernel_counts unused;
    if (kernel_counts_now(&unused)) {
        prepare(&f, gaussians, &views[0], background, result);
        print_counts(&f);
    } else {
        double milliseconds[STRATEGIES] = {0};
        for (size_t v = 0; v < count; v++) {
            prepare(&f, gaussians, &views[v], background, result);
            for (int s = 0; s < STRATEGIES; s++) milliseconds[s] += median_milliseconds(&f, &strategies[s]);
        }
        printf("The backward blend of one view, median of %d, mean over %zu views:\n"
               "strategy threshold       ms\n",
               REPEATS, count);
        for (int s = 0; s < STRATEGIES; s++) {
            print_strategy(&strategies[s]);
            printf(" %8.4f\n", milliseconds[s] / (double)count);
        }
    }
    device_free(result);
    frame_free(&f);
}
