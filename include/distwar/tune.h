// SPDX-License-Identifier: MIT
//
// Chooses strategy and balance_threshold while the program runs. C11 or C++; no CUDA, no allocation, no
// clock:
//
//     tuner t;
//     tune_init(&t, candidates, count); // the first candidate is the one you would use without a tuner
//     for each launch:
//         tune_launch next = tune_choose(&t);
//         launch the kernel with next.strategy and next.threshold
//         tune_report(&t, next.ticket, milliseconds, work); // here, or later when the time is known
//
// tune_events.h measures and reports.
//
// The tuner adds no launches and never waits. Reports may come many launches later, in any order, or never.
// Launches differ (another view, more primitives), so the tuner compares times per unit of `work`, a number
// from the caller to which the time is about proportional.
//
// A race compares candidates by their times. They are launched in turn, in random order, so that a period of
// the caller's is not mistaken for a difference.
//   1. Each candidate gets 5 samples. A candidate 8 times as slow as another is dropped after one launch, a
//      candidate twice as slow after two.
//   2. Candidates are ranked by the mean of the middle half of their samples. Like the median it ignores
//      outliers, and it scatters less. The slower half is dropped, but not below 4 candidates. So is every
//      candidate that is slower by more than chance explains; the spread of all samples estimates chance.
//   3. The others go on to 10 samples, 20, 40 and 96, with a ranking after each. The last ranking decides.
// The first launch of a strategy may load its code and is not measured.
//
// The first race is the exploration: it compares all candidates. Every `interval` launches an examination
// follows, a race of a few candidates with new samples: the best, its neighbours in threshold, the best known
// candidate of every other strategy, and the candidate examined longest ago. An examination replaces the best
// only for a gain of more than 1 % that is also more than chance explains.
//
// The same calls with the same reports give the same choices. One thread at a time may use a tuner.
// Cost: outside a race a choice is one comparison. In a race a choice and a report take about as many
// operations as there are candidates; each of the five rankings sorts the samples, below a millisecond.
#ifndef DISTWAR_TUNE_H
#define DISTWAR_TUNE_H

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

// ---- the calls

// candidates: [count], 1 <= count <= TUNE_MAX_CANDIDATES, all different; copied. The first is used until more
// is known. Returns false and writes nothing if count is out of range or two candidates are equal.
static inline bool tune_init(tuner *t, const tune_candidate *candidates, int count) {
    if (count < 1 || count > TUNE_MAX_CANDIDATES) return false;
    for (int c = 0; c < count; c++)
        for (int d = 0; d < c; d++)
            if (candidates[c].strategy == candidates[d].strategy &&
                candidates[c].threshold == candidates[d].threshold)
                return false;
    memset(t, 0, sizeof *t);
    t->count = count;
    memcpy(t->candidates, candidates, (size_t)count * sizeof *candidates);
    t->interval = TUNE_INTERVAL;
    tune_begin_race(t);
    return true;
}

// The best so far, for a launch that is not measured.
static inline tune_launch tune_best(const tuner *t) {
    tune_launch best;
    best.candidate = t->best;
    best.strategy = t->candidates[t->best].strategy;
    best.threshold = t->candidates[t->best].threshold;
    best.ticket = -1;
    return best;
}

// The candidate for the next launch. Call it once before each launch.
static inline tune_launch tune_choose(tuner *t) {
    t->launches++;
    if (!t->racing && t->interval > 0 && t->launches - t->race_ended >= t->interval) tune_begin_race(t);
    tune_advance(t);
    tune_launch launch = tune_best(t);
    int next = t->racing ? tune_next(t) : -1;
    if (next < 0) return launch;
    launch.candidate = next;
    launch.strategy = t->candidates[next].strategy;
    launch.threshold = t->candidates[next].threshold;
    if (!tune_is_warm(t, next)) return launch;
    launch.ticket = t->launches * TUNE_MAX_CANDIDATES + next;
    t->records[next].issued++;
    t->last_issued = t->launches;
    t->measured++;
    return launch;
}

// Reports the time of the launch with this ticket, for `work` units of work. Call it at most once for a
// ticket. A ticket < 0 is ignored. A time or work that is not positive and finite means that the launch has
// no time. A time reported after the end of its race is ignored.
static inline void tune_report(tuner *t, int64_t ticket, double milliseconds, double work) {
    int candidate = (int)(ticket % TUNE_MAX_CANDIDATES);
    int64_t launch = ticket / TUNE_MAX_CANDIDATES;
    if (ticket < 0 || candidate >= t->count || launch > t->launches) return;
    tune_record *r = &t->records[candidate];
    double sample = milliseconds / work;
    bool good = milliseconds > 0 && work > 0 && milliseconds <= DBL_MAX && work <= DBL_MAX && sample > 0 &&
                sample <= DBL_MAX;
    if (!t->racing || launch < t->race_began || r->returned == r->issued) return;
    r->returned++;
    if (!good) return;
    r->sample[r->samples++] = sample;
    r->work += work;
    if (t->stage == 0) tune_drop_hopeless(t);
}

// The cost of exploring, in milliseconds: the sum over the measured launches of (time per work of the
// candidate - time per work of the best) * work. It uses the candidate's time instead of the launch's own, so
// outliers do not count: they would have hit the best as well. Loading code is not included.
static inline double tune_cost(const tuner *t) {
    const tune_record *best = &t->records[t->best];
    double best_time = t->racing && best->samples > 0 ? tune_time(best) : t->best_time;
    return t->cost + (t->racing && best_time > 0 ? tune_race_cost(t, t->best, best_time) : 0);
}

// ---- saving to text and loading it in a later run

static inline uint64_t tune_hash(const char *text, size_t length) { // FNV-1a
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

static inline bool tune_is_key(const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)key[i] < ' ') return false;
    return length <= TUNE_MAX_KEY;
}

// Writes what is known as text with a final zero. gpu, workload: what the times are of; at most TUNE_MAX_KEY
// bytes each, no control characters. room: bytes of text; TUNE_TEXT_SIZE is enough. Returns the length
// without the zero. Returns 0 and an empty text if nothing is known yet, a name is not valid, or there is no
// room.
static inline size_t tune_save(const tuner *t, const char *gpu, const char *workload, char *text,
                               size_t room) {
    if (room > 0) *text = 0;
    if (!t->known || !tune_is_key(gpu) || !tune_is_key(workload)) return 0;
    tune_candidate best = t->candidates[t->best];
    char whole[TUNE_TEXT_SIZE];
    int length = snprintf(whole, sizeof whole, "distwar tuner 1\ngpu %s\nworkload %s\nbest %d %d\n", gpu,
                          workload, best.strategy, best.threshold);
    for (int c = 0; c < t->count; c++) { // in thousandths: integers look the same in every locale
        double ratio = t->records[c].ratio;
        if (!(ratio > 0)) continue;
        length += snprintf(whole + length, sizeof whole - (size_t)length, "candidate %d %d %d\n",
                           t->candidates[c].strategy, t->candidates[c].threshold,
                           ratio < 1e6 ? (int)(ratio * 1000 + 0.5) : 1000000000);
    }
    length += snprintf(whole + length, sizeof whole - (size_t)length, "hash %016llx\n",
                       (unsigned long long)tune_hash(whole, (size_t)length));
    if ((size_t)length >= room) return 0;
    memcpy(text, whole, (size_t)length + 1);
    return (size_t)length;
}

// If the text at *cursor begins with `expected`, moves *cursor past it. Else returns false.
static inline bool tune_skip(const char **cursor, const char *end, const char *expected) {
    size_t length = strlen(expected);
    if ((size_t)(end - *cursor) < length || memcmp(*cursor, expected, length) != 0) return false;
    *cursor += length;
    return true;
}

// Reads a decimal int and the character `after` it.
static inline bool tune_read(const char **cursor, const char *end, char after, int *value) {
    int64_t magnitude = 0;
    bool negative = tune_skip(cursor, end, "-");
    int digits = 0;
    for (; *cursor < end && **cursor >= '0' && **cursor <= '9' && digits < 10; ++*cursor, digits++)
        magnitude = magnitude * 10 + (**cursor - '0');
    if (negative) magnitude = -magnitude;
    if (digits == 0 || magnitude < INT_MIN || magnitude > INT_MAX || *cursor == end || **cursor != after)
        return false;
    ++*cursor;
    *value = (int)magnitude;
    return true;
}

static inline int tune_find(const tuner *t, int strategy, int threshold) { // -1: none
    for (int c = 0; c < t->count; c++)
        if (t->candidates[c].strategy == strategy && t->candidates[c].threshold == threshold) return c;
    return -1;
}

// Call it right after tune_init. text: `length` bytes from tune_save for the same GPU and workload. The first
// race is then an examination around the saved best instead of an exploration. The lists of candidates may
// differ. Returns false and leaves the tuner as it was if the text is damaged, is of another GPU or workload,
// or its best is not a candidate.
static inline bool tune_load(tuner *t, const char *gpu, const char *workload, const char *text,
                             size_t length) {
    enum { HASH_LINE = 5 + 16 + 1 };
    if (length < HASH_LINE || length >= TUNE_TEXT_SIZE) return false;
    char expected[HASH_LINE + 1];
    const char *cursor = text, *end = text + (length - HASH_LINE);
    snprintf(expected, sizeof expected, "hash %016llx\n",
             (unsigned long long)tune_hash(text, length - HASH_LINE));
    if (memcmp(end, expected, HASH_LINE) != 0) return false;
    int strategy, threshold, ratio;
    if (!tune_skip(&cursor, end, "distwar tuner 1\ngpu ") || !tune_skip(&cursor, end, gpu) ||
        !tune_skip(&cursor, end, "\nworkload ") || !tune_skip(&cursor, end, workload) ||
        !tune_skip(&cursor, end, "\nbest ") || !tune_read(&cursor, end, ' ', &strategy) ||
        !tune_read(&cursor, end, '\n', &threshold))
        return false;
    int best = tune_find(t, strategy, threshold);
    if (best < 0) return false;
    double ratios[TUNE_MAX_CANDIDATES] = {0};
    while (cursor < end) {
        if (!tune_skip(&cursor, end, "candidate ") || !tune_read(&cursor, end, ' ', &strategy) ||
            !tune_read(&cursor, end, ' ', &threshold) || !tune_read(&cursor, end, '\n', &ratio) || ratio < 1)
            return false;
        int c = tune_find(t, strategy, threshold);
        if (c >= 0) ratios[c] = ratio / 1e3;
    }
    for (int c = 0; c < t->count; c++) t->records[c].ratio = ratios[c];
    t->best = best;
    t->known = true;
    tune_begin_race(t);
    return true;
}

#endif
