// SPDX-License-Identifier: MIT
#include "start/start.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>

enum { NEIGHBOURS = 3, LEAF = 8 };

// A node of the tree is a range of `order`. Its middle entry splits the others by the coordinate along
// axis[middle].
typedef struct tree {
    const float (*points)[3];
    size_t *order;
    unsigned char *axis;
    random_stream random;
} tree;

static float coordinate(const tree *t, int64_t place, int axis) {
    return t->points[t->order[place]][axis];
}

static int widest_axis(const tree *t, int64_t begin, int64_t end) {
    int widest = 0;
    double width = -1;
    for (int axis = 0; axis < 3; axis++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = begin; i < end; i++) {
            low = fmin(low, coordinate(t, i, axis));
            high = fmax(high, coordinate(t, i, axis));
        }
        if (high - low > width) {
            width = high - low;
            widest = axis;
        }
    }
    return widest;
}

// Quickselect (Hoare). Afterwards no entry before `middle` is greater than it, and none after it is smaller.
static void select_middle(tree *t, int64_t begin, int64_t end, int64_t middle, int axis) {
    while (end - begin > 1) {
        int64_t drawn = begin + (int64_t)random_below(&t->random, (uint64_t)(end - begin));
        float pivot = coordinate(t, drawn, axis);
        int64_t i = begin, j = end - 1;
        while (i <= j) {
            while (coordinate(t, i, axis) < pivot) i++;
            while (coordinate(t, j, axis) > pivot) j--;
            if (i > j) break;
            size_t kept = t->order[i];
            t->order[i++] = t->order[j];
            t->order[j--] = kept;
        }
        if (middle <= j)
            end = j + 1;
        else if (middle >= i)
            begin = i;
        else
            return;
    }
}

static void build(tree *t, int64_t begin, int64_t end) {
    if (end - begin <= LEAF) return;
    int64_t middle = begin + (end - begin) / 2;
    int axis = widest_axis(t, begin, end);
    select_middle(t, begin, end, middle, axis);
    t->axis[middle] = (unsigned char)axis;
    build(t, begin, middle);
    build(t, middle + 1, end);
}

typedef struct nearest {
    size_t self;
    double square[NEIGHBOURS]; // ascending; infinite: none found yet
} nearest;

static void offer(const tree *t, nearest *found, int64_t place) {
    size_t other = t->order[place];
    if (other == found->self) return;
    double square = 0;
    for (int axis = 0; axis < 3; axis++) {
        double offset = (double)t->points[other][axis] - t->points[found->self][axis];
        square += offset * offset;
    }
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (square >= found->square[i]) continue;
        double pushed = found->square[i];
        found->square[i] = square;
        square = pushed;
    }
}

static void search(const tree *t, nearest *found, int64_t begin, int64_t end) {
    if (end - begin <= LEAF) {
        for (int64_t i = begin; i < end; i++) offer(t, found, i);
        return;
    }
    int64_t middle = begin + (end - begin) / 2;
    int axis = t->axis[middle];
    double offset = (double)t->points[found->self][axis] - coordinate(t, middle, axis);
    offer(t, found, middle);
    bool below = offset < 0;
    search(t, found, below ? begin : middle + 1, below ? middle : end);
    if (offset * offset < found->square[NEIGHBOURS - 1])
        search(t, found, below ? middle + 1 : begin, below ? end : middle);
}

bool nearest_mean_distance(const float (*points)[3], size_t count, double *distance, fault *why) {
    tree t = {points, calloc(count + 1, sizeof *t.order), calloc(count + 1, sizeof *t.axis), {count}};
    bool allocated = t.order && t.axis;
    if (allocated) {
        for (size_t i = 0; i < count; i++) t.order[i] = i;
        build(&t, 0, (int64_t)count);
        for (size_t i = 0; i < count; i++) {
            nearest found = {i, {INFINITY, INFINITY, INFINITY}};
            search(&t, &found, 0, (int64_t)count);
            double sum = 0;
            int present = 0;
            for (; present < NEIGHBOURS && isfinite(found.square[present]); present++)
                sum += sqrt(found.square[present]);
            distance[i] = present > 0 ? sum / present : 0;
        }
    }
    free(t.order);
    free(t.axis);
    return allocated || fail(why, "no memory to search the neighbours of %zu points", count);
}
