// SPDX-License-Identifier: MIT
#include "measure/strategy_table.h"
#include "gpu_timer.h"
#include "view/reduction_option.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool strategy_table_open(strategy_table *table, distwar_strategy reduction, const int *thresholds,
                         size_t threshold_count, size_t view_room, fault *why) {
    kernel_counts unused;
    *table = (strategy_table){.counts = kernel_counts_now(&unused), .view_room = view_room};
    table->rows = calloc(DISTWAR_STRATEGY_COUNT * (threshold_count + 1), sizeof *table->rows);
    bool done = table->rows;
    for (int r = 0; done && r < DISTWAR_STRATEGY_COUNT; r++) {
        if (reduction != DISTWAR_STRATEGY_COUNT && (int)reduction != r) continue;
        if (!gs_has_strategy((distwar_strategy)r)) continue;
        bool has_threshold = reduction_has_threshold((distwar_strategy)r);
        for (size_t t = 0; done && t < (has_threshold ? threshold_count : 1); t++) {
            strategy_row *row = &table->rows[table->row_count++];
            row->strategy = (strategy){(distwar_strategy)r, has_threshold ? thresholds[t] : 0};
            row->times = calloc(view_room, sizeof *row->times);
            row->counts = calloc(view_room, sizeof *row->counts);
            done = row->times && row->counts;
        }
    }
    return done || fail(why, "no memory for the strategies' costs in %zu views", view_room);
}

void strategy_table_close(strategy_table *table) {
    for (size_t r = 0; r < table->row_count; r++) {
        free(table->rows[r].times);
        free(table->rows[r].counts);
    }
    free(table->rows);
    *table = (strategy_table){0};
}

static timing time_blend(frame *f, const strategy *s, gpu_timer *timer, double *times, int runs) {
    frame_render_backward(f, (distwar_policy){s->reduction, s->threshold});
    for (int i = 0; i < runs; i++) {
        gpu_timer_start(timer);
        frame_render_backward(f, (distwar_policy){s->reduction, s->threshold});
        times[i] = gpu_timer_stop(timer);
    }
    return timing_of_runs(times, (size_t)runs);
}

static kernel_counts count_blend(frame *f, const strategy *s) {
    kernel_counts before, after;
    kernel_counts_now(&before);
    frame_render_backward(f, (distwar_policy){s->reduction, s->threshold});
    kernel_counts_now(&after);
    return kernel_counts_between(&before, &after);
}

void strategy_table_measure(strategy_table *table, frame *f, int runs) {
    stage_clock *clock = f->clock;
    f->clock = NULL;
    size_t view = table->view_count++;
    if (table->counts) {
        for (size_t r = 0; r < table->row_count; r++)
            table->rows[r].counts[view] = count_blend(f, &table->rows[r].strategy);
    } else {
        gpu_timer timer;
        double times[MAX_RUNS];
        gpu_timer_open(&timer);
        for (size_t r = 0; r < table->row_count; r++)
            table->rows[r].times[view] = time_blend(f, &table->rows[r].strategy, &timer, times, runs);
        gpu_timer_close(&timer);
    }
    f->clock = clock;
}

timing_summary strategy_row_time(const strategy_table *table, size_t row) {
    return timing_over_views(table->rows[row].times, table->view_count);
}

kernel_counts strategy_row_counts(const strategy_table *table, size_t row) {
    return kernel_counts_mean(table->rows[row].counts, table->view_count);
}

static void print_strategy(const strategy *s) {
    char threshold[8] = "-";
    if (reduction_has_threshold(s->reduction)) snprintf(threshold, sizeof threshold, "%d", s->threshold);
    printf("%-8s %9s", distwar_strategy_name(s->reduction), threshold);
}

static void print_counts(const strategy_table *table) {
    printf("The backward blend of one view, counted; instructions, shuffles and votes are of warps:\n"
           "strategy threshold  atomic adds   add bytes atomic instrs     shuffles        votes\n");
    for (size_t r = 0; r < table->row_count; r++) {
        kernel_counts counts = strategy_row_counts(table, r);
        print_strategy(&table->rows[r].strategy);
        printf(" %12" PRIu64 " %11" PRIu64 " %13" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
               counts.atomic_requests, counts.atomic_bytes, counts.atomic_instructions, counts.shuffles,
               counts.votes);
    }
}

void strategy_table_print(const strategy_table *table, double other_kernels) {
    if (table->counts) {
        print_counts(table);
        return;
    }
    printf(
        "The backward blend of one view, ms: means over %zu views of the median run; least and most are of "
        "views,\nnoise is how far the runs of a view lie apart, at worst:\n"
        "strategy threshold     mean    least     most  noise%s\n",
        table->view_count, other_kernels > 0 ? "  all kernels" : "");
    for (size_t r = 0; r < table->row_count; r++) {
        timing_summary time = strategy_row_time(table, r);
        print_strategy(&table->rows[r].strategy);
        printf(" %8.4f %8.4f %8.4f %5.1f%%", time.mean, time.minimum, time.maximum, 100 * time.spread);
        if (other_kernels > 0) printf(" %12.4f", other_kernels + time.mean);
        printf("\n");
    }
}
