// SPDX-License-Identifier: MIT
#include "formats/clusters.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// The number of values below `limit`.
static int64_t count_below(const float *sorted, int64_t count, double limit) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if ((double)sorted[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint8_t code_of(const float codebook[CODES], float value) {
    const int64_t above = count_below(codebook, CODES, (double)value);
    if (above == 0) return 0;
    if (above == CODES) return CODES - 1;
    return (uint8_t)((double)value - (double)codebook[above - 1] < (double)codebook[above] - (double)value
                         ? above - 1
                         : above);
}

typedef struct group {
    double spread; // sum of squares about the mean
    int64_t begin, end;
} group;

typedef struct palette {
    const float *vectors;
    int width;
    int32_t *order;                  // the vectors' indices; a group is a range of them
    double *mean, *direction, *next; // [width]
    float *place;                    // [count], along the direction
    group *heap;                     // the largest spread first
    int64_t groups;
} palette;

static const float *vector(const palette *p, int64_t at) {
    return p->vectors + (int64_t)p->order[at] * p->width;
}

static void find_mean(const palette *p, const group *g) {
    for (int k = 0; k < p->width; k++) p->mean[k] = 0;
    for (int64_t at = g->begin; at < g->end; at++)
        for (int k = 0; k < p->width; k++) p->mean[k] += (double)vector(p, at)[k];
    for (int k = 0; k < p->width; k++) p->mean[k] /= (double)(g->end - g->begin);
}

// Puts a group on the heap.
static void add_group(palette *p, int64_t begin, int64_t end) {
    group g = {0, begin, end};
    find_mean(p, &g);
    for (int64_t at = begin; at < end; at++)
        for (int k = 0; k < p->width; k++) {
            const double d = (double)vector(p, at)[k] - p->mean[k];
            g.spread += d * d;
        }
    int64_t i = p->groups++;
    for (; i > 0 && p->heap[(i - 1) / 2].spread < g.spread; i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = g;
}

static group take_widest(palette *p) {
    const group widest = p->heap[0], last = p->heap[--p->groups];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < p->groups; i = child) {
        if (child + 1 < p->groups && p->heap[child + 1].spread > p->heap[child].spread) child++;
        if (p->heap[child].spread <= last.spread) break;
        p->heap[i] = p->heap[child];
    }
    p->heap[i] = last;
    return widest;
}

// The eigenvector of the largest eigenvalue of the covariance, by a few multiplications with it. The mean is found.
static void find_direction(const palette *p, const group *g) {
    enum { ROUNDS = 4, MOST = 4096 };
    const int64_t step =
        (g->end - g->begin + MOST - 1) / MOST; // of large groups not all vectors are looked at
    for (int k = 0; k < p->width; k++) p->direction[k] = 1 + k % 3 * 0.1;
    for (int round = 0; round < ROUNDS; round++) {
        double square = 0;
        for (int k = 0; k < p->width; k++) p->next[k] = 0;
        for (int64_t at = g->begin; at < g->end; at += step) {
            const float *const v = vector(p, at);
            double along = 0;
            for (int k = 0; k < p->width; k++) along += ((double)v[k] - p->mean[k]) * p->direction[k];
            for (int k = 0; k < p->width; k++) p->next[k] += along * ((double)v[k] - p->mean[k]);
        }
        for (int k = 0; k < p->width; k++) square += p->next[k] * p->next[k];
        if (!(square > 0)) return;
        for (int k = 0; k < p->width; k++) p->direction[k] = p->next[k] / sqrt(square);
    }
}

// Moves the vectors whose place is below `limit` to the front. Returns where the others begin.
static int64_t divide(const palette *p, const group *g, double limit) {
    int64_t low = g->begin;
    for (int64_t at = g->begin; at < g->end; at++) {
        if (!((double)p->place[at] < limit)) continue;
        const int32_t index = p->order[at];
        const float place = p->place[at];
        p->order[at] = p->order[low];
        p->place[at] = p->place[low];
        p->order[low] = index;
        p->place[low++] = place;
    }
    return low;
}

static void split(palette *p, const group *g) {
    enum { ROUNDS = 3 };
    find_mean(p, g);
    find_direction(p, g);
    for (int64_t at = g->begin; at < g->end; at++) {
        double along = 0;
        for (int k = 0; k < p->width; k++) along += ((double)vector(p, at)[k] - p->mean[k]) * p->direction[k];
        p->place[at] = (float)along;
    }
    double limit = 0; // then half-way between the means of both sides
    for (int round = 0; round < ROUNDS; round++) {
        double sums[2] = {0, 0}, counts[2] = {0, 0};
        for (int64_t at = g->begin; at < g->end; at++) {
            sums[(double)p->place[at] < limit] += (double)p->place[at];
            counts[(double)p->place[at] < limit]++;
        }
        if (counts[0] == 0 || counts[1] == 0) break;
        limit = (sums[0] / counts[0] + sums[1] / counts[1]) / 2;
    }
    int64_t middle = divide(p, g, limit);
    if (middle == g->begin || middle == g->end) middle = (g->begin + g->end) / 2; // all but equal
    add_group(p, g->begin, middle);
    add_group(p, middle, g->end);
}

static int64_t find_groups(palette *p, int64_t count, int64_t most, int32_t *labels, float *means) {
    for (int64_t i = 0; i < count; i++) p->order[i] = (int32_t)i;
    add_group(p, 0, count);
    while (p->groups < most && p->heap[0].spread > 0) {
        const group widest = take_widest(p);
        split(p, &widest);
    }
    for (int64_t i = 0; i < p->groups; i++) {
        find_mean(p, &p->heap[i]);
        for (int k = 0; k < p->width; k++) means[i * p->width + k] = (float)p->mean[k];
        for (int64_t at = p->heap[i].begin; at < p->heap[i].end; at++) labels[p->order[at]] = (int32_t)i;
    }
    return p->groups;
}

int64_t palette_of(const float *vectors, int64_t count, int width, int64_t most, int32_t *labels,
                   float *means) {
    if (count == 0) return 0;
    double *const room = malloc(3 * (size_t)width * sizeof *room);
    palette p = {.vectors = vectors,
                 .width = width,
                 .order = malloc((size_t)count * sizeof *p.order),
                 .place = malloc((size_t)count * sizeof *p.place),
                 .heap = malloc((size_t)(most + 1) * sizeof *p.heap)};
    int64_t groups = -1;
    if (room && p.order && p.place && p.heap) {
        p.mean = room;
        p.direction = room + width;
        p.next = room + 2 * width;
        groups = find_groups(&p, count, most, labels, means);
    }
    free(room);
    free(p.order);
    free(p.place);
    free(p.heap);
    return groups;
}

bool codebook_of(float *values, int64_t count, float codebook[CODES]) {
    enum { ROUNDS = 20 };
    memset(codebook, 0, CODES * sizeof *codebook);
    if (count == 0) return true;
    double *const sums = malloc((size_t)(count + 1) * sizeof *sums); // of the values before each
    int32_t *const labels = malloc((size_t)count * sizeof *labels);
    const int64_t used = sums && labels ? palette_of(values, count, 1, CODES, labels, codebook) : -1;
    if (used >= 0) {
        qsort(values, (size_t)count, sizeof *values, compare_floats);
        sums[0] = 0;
        for (int64_t i = 0; i < count; i++) sums[i + 1] = sums[i] + (double)values[i];
        for (int64_t k = used; k < CODES; k++) codebook[k] = values[count - 1];
    }
    for (int round = 0; round < ROUNDS && used >= 0; round++) {
        qsort(codebook, CODES, sizeof *codebook, compare_floats);
        int64_t begin = 0;
        for (int k = 0; k < CODES; k++) {
            const double limit =
                k < CODES - 1 ? ((double)codebook[k] + (double)codebook[k + 1]) / 2 : INFINITY;
            const int64_t end = count_below(values, count, limit);
            if (end > begin) codebook[k] = (float)((sums[end] - sums[begin]) / (double)(end - begin));
            begin = end > begin ? end : begin;
        }
    }
    qsort(codebook, CODES, sizeof *codebook, compare_floats);
    free(sums);
    free(labels);
    return used >= 0;
}
