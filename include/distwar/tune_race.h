// SPDX-License-Identifier: MIT
//
// The state of a tuner and its races: the parts of tune.h, which says how a race goes. Include tune.h.
// Cost, errors, who calls: as of the calls there.
#ifndef DISTWAR_TUNE_RACE_H
#define DISTWAR_TUNE_RACE_H

#include <float.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    TUNE_MAX_CANDIDATES = 64,
    TUNE_MAX_SAMPLES = 96, // of a candidate in a race
    TUNE_PATIENCE = 1024,  // launches to wait for a missing time before it counts as lost
    TUNE_INTERVAL = 2000,  // the default interval
    TUNE_MAX_KEY = 255,    // bytes of the name of a GPU or a workload
    TUNE_TEXT_SIZE = 4096  // bytes, enough for tune_save and its final zero
};

typedef struct tune_candidate {
    int strategy; // any number of the caller's, such as a distwar_strategy; each pair occurs once
    int threshold;
} tune_candidate;

typedef struct tune_launch {
    int candidate; // index into the candidates
    int strategy, threshold;
    int64_t ticket; // for tune_report; < 0: do not measure this launch
} tune_launch;

// What is known of one candidate. Members after the first two are of its last race.
typedef struct tune_record {
    double ratio;     // its time / the time of the race's best; 0: not known
    int64_t examined; // number of the launch at which ratio was measured
    double work;      // sum over the samples
    int issued, returned, samples;
    bool racing;
    double sample[TUNE_MAX_SAMPLES]; // milliseconds per unit of work
} tune_record;

// The caller may read it; only the functions below write it. A copy is a tuner of its own.
typedef struct tuner {
    int count;
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    int64_t interval; // launches between races; may be set after tune_init; <= 0: no examinations
    int best;         // index of a candidate
    bool known;       // `best` has won a race
    bool racing;
    int stage;
    int64_t launches, last_issued, race_began, race_ended;
    uint64_t random;
    int64_t explorations, examinations; // races that have ended
    int64_t changes;                    // examinations that replaced the best
    int64_t measured;                   // launches with a ticket
    double best_time;                   // of `best` in the last race, milliseconds per unit of work
    double cost;                        // see tune_cost
    bool warm[TUNE_MAX_CANDIDATES];     // has been launched
    tune_record records[TUNE_MAX_CANDIDATES];
} tuner;

// ---- the parts

static inline uint64_t tune_random(tuner *t) { // SplitMix64
    uint64_t z = t->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void tune_sort(double *values, int count) { // Shell; Ciura's gaps
    static const int gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int i = gaps[g]; i < count; i++) {
            double value = values[i];
            int j = i;
            for (; j >= gaps[g] && values[j - gaps[g]] > value; j -= gaps[g]) values[j] = values[j - gaps[g]];
            values[j] = value;
        }
}

// The mean of the middle half of the samples; the median of 3; 0 if there are none.
static inline double tune_time(const tune_record *r) {
    double sorted[TUNE_MAX_SAMPLES], sum = 0;
    memcpy(sorted, r->sample, (size_t)r->samples * sizeof *sorted);
    tune_sort(sorted, r->samples);
    int out = (r->samples + 1) / 4;
    for (int i = out; i < r->samples - out; i++) sum += sorted[i];
    return r->samples > 0 ? sum / (r->samples - 2 * out) : 0;
}

static inline int tune_target(int stage) {
    static const int targets[] = {5, 10, 20, 40, TUNE_MAX_SAMPLES};
    return targets[stage];
}
enum { TUNE_LAST_STAGE = 4, TUNE_FINALISTS = 4 };

// The standard deviation of sample / (time of its candidate), over all racing candidates: 1.4826 times the
// median distance from 1.
static inline double tune_deviation(const tuner *t, const double *times) {
    double distances[512]; // 64 candidates have 5 samples each, then half as many twice as many
    int count = 0, room = (int)(sizeof distances / sizeof *distances);
    for (int c = 0; c < t->count; c++)
        for (int i = 0; t->records[c].racing && i < t->records[c].samples && count < room; i++) {
            double distance = t->records[c].sample[i] / times[c] - 1;
            distances[count++] = distance < 0 ? -distance : distance;
        }
    tune_sort(distances, count);
    return count > 0 ? 1.4826 * distances[count / 2] : 0;
}

// True if c is slower than the fastest by more than `deviations` standard deviations of the difference. The
// mean of the middle half has 1.2 times the variance of the mean. n - 1 instead of n: the distances are
// measured from a time that the same n samples gave.
static inline bool tune_is_beaten(const tuner *t, int c, int fastest, const double *times, double deviation,
                                  double deviations) {
    const tune_record *a = &t->records[fastest], *b = &t->records[c];
    if (a->samples < 2 || b->samples < 2) return false;
    double excess = times[c] / times[fastest] - 1;
    double variance = 1.2 * deviation * deviation * (1.0 / (a->samples - 1) + 1.0 / (b->samples - 1));
    return excess > 0 && excess * excess > deviations * deviations * variance;
}

// The excess time of the race's reported launches over the best candidate's.
static inline double tune_race_cost(const tuner *t, int best, double best_time) {
    double sum = 0;
    for (int c = 0; c < t->count; c++)
        if (c != best) sum += (tune_time(&t->records[c]) - best_time) * t->records[c].work;
    return sum;
}

static inline void tune_enter(tuner *t, int candidate) {
    if (candidate >= 0) t->records[candidate].racing = true;
}

static inline void tune_begin_race(tuner *t) {
    t->racing = true;
    t->stage = 0;
    t->race_began = t->launches;
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        r->racing = !t->known;
        r->issued = r->returned = r->samples = 0;
        r->work = 0;
    }
    if (!t->known) return;
    tune_candidate best = t->candidates[t->best];
    tune_enter(t, t->best);
    int below = -1, above = -1, oldest = -1;
    for (int c = 0; c < t->count; c++) {
        tune_candidate one = t->candidates[c];
        if (one.strategy == best.strategy) {
            if (one.threshold < best.threshold &&
                (below < 0 || one.threshold > t->candidates[below].threshold))
                below = c;
            if (one.threshold > best.threshold &&
                (above < 0 || one.threshold < t->candidates[above].threshold))
                above = c;
        } else { // enters if it is the best known of its strategy
            bool first = t->records[c].ratio > 0;
            for (int d = 0; d < t->count && first; d++)
                first = t->candidates[d].strategy != one.strategy || t->records[d].ratio <= 0 || d == c ||
                        t->records[d].ratio > t->records[c].ratio ||
                        (t->records[d].ratio == t->records[c].ratio && d > c);
            if (first) tune_enter(t, c);
        }
    }
    tune_enter(t, below);
    tune_enter(t, above);
    for (int c = 0; c < t->count; c++)
        if (!t->records[c].racing && (oldest < 0 || t->records[c].examined < t->records[oldest].examined))
            oldest = c;
    tune_enter(t, oldest);
}

static inline void tune_end_race(tuner *t, int winner, double winner_time) {
    if (winner >= 0) {
        if (t->known && winner != t->best) t->changes++;
        if (t->known)
            t->examinations++;
        else
            t->explorations++;
        t->best = winner;
        t->known = true;
        t->best_time = winner_time;
        t->cost += tune_race_cost(t, winner, winner_time);
    }
    t->racing = false;
    t->race_ended = t->launches;
}

// Writes the times of the racing candidates and drops those without samples. Returns the fastest; -1: none.
static inline int tune_measure(tuner *t, double *times) {
    int fastest = -1;
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        r->racing = r->racing && r->samples > 0;
        times[c] = r->racing ? tune_time(r) : 0;
        if (r->racing && (fastest < 0 || times[c] < times[fastest])) fastest = c;
    }
    for (int c = 0; c < t->count; c++)
        if (t->records[c].racing) {
            t->records[c].ratio = times[c] / times[fastest];
            t->records[c].examined = t->launches;
        }
    return fastest;
}

// At the end of a stage: drops candidates, or ends the race.
static inline void tune_rank(tuner *t) {
    double times[TUNE_MAX_CANDIDATES];
    int fastest = tune_measure(t, times), entered = 0, left = 0;
    if (fastest < 0) { // no time was reported; the next race may have some
        tune_end_race(t, -1, 0);
        return;
    }
    double deviation = tune_deviation(t, times);
    for (int c = 0; c < t->count; c++) entered += t->records[c].racing;
    int room = entered / 2 > TUNE_FINALISTS ? entered / 2 : TUNE_FINALISTS;
    for (int c = 0; c < t->count; c++) {
        if (!t->records[c].racing) continue;
        int faster = 0;
        for (int d = 0; d < t->count; d++) faster += times[d] > 0 && times[d] < times[c];
        t->records[c].racing = (t->known && c == t->best) ||
                               (faster < room && !tune_is_beaten(t, c, fastest, times, deviation, 3));
        left += t->records[c].racing;
    }
    if (left == 1 || t->stage == TUNE_LAST_STAGE) {
        bool stands = t->known && t->records[t->best].racing &&
                      !(times[t->best] > 1.01 * times[fastest] &&
                        tune_is_beaten(t, t->best, fastest, times, deviation, 2));
        int winner = stands ? t->best : fastest;
        tune_end_race(t, winner, times[winner]);
        return;
    }
    if (!t->known) t->best = fastest;
    t->stage++;
}

// Ends every stage whose times have all been reported or count as lost.
static inline void tune_advance(tuner *t) {
    while (t->racing) {
        bool patient = t->launches - t->last_issued <= TUNE_PATIENCE;
        for (int c = 0; c < t->count; c++) {
            const tune_record *r = &t->records[c];
            if (r->racing && (r->issued < tune_target(t->stage) || (r->returned < r->issued && patient)))
                return;
        }
        tune_rank(t);
    }
}

// The racing candidate with the fewest launches, at random among equals; -1: the stage needs no more
// launches.
static inline int tune_next(tuner *t) {
    int next = -1, fewest = tune_target(t->stage);
    uint64_t ties = 0;
    for (int c = 0; c < t->count; c++) {
        const tune_record *r = &t->records[c];
        if (!r->racing || r->issued > fewest || r->issued == tune_target(t->stage)) continue;
        if (r->issued < fewest) ties = 0;
        fewest = r->issued;
        if (tune_random(t) % ++ties == 0) next = c;
    }
    return next;
}

static inline bool tune_is_warm(tuner *t, int candidate) {
    bool warm = false;
    for (int c = 0; c < t->count; c++)
        warm = warm || (t->warm[c] && t->candidates[c].strategy == t->candidates[candidate].strategy);
    t->warm[candidate] = true;
    return warm;
}

// Drops candidates all of whose samples are more than 8 times as slow as another candidate's time, or, with
// two samples or more, more than twice as slow.
static inline void tune_drop_hopeless(tuner *t) {
    for (int least = 1; least <= 2; least++) {
        double fastest = 0, factor = least == 1 ? 8 : 2;
        for (int c = 0; c < t->count; c++) {
            const tune_record *r = &t->records[c];
            double time = r->racing && r->samples >= least ? tune_time(r) : 0;
            if (time > 0 && (fastest == 0 || time < fastest)) fastest = time;
        }
        for (int c = 0; c < t->count; c++) {
            tune_record *r = &t->records[c];
            bool hopeless = r->racing && r->samples >= least;
            for (int i = 0; i < r->samples; i++) hopeless = hopeless && r->sample[i] > factor * fastest;
            if (!hopeless) continue;
            r->racing = false;
            r->ratio = tune_time(r) / fastest;
            r->examined = t->launches;
        }
    }
}

#endif
