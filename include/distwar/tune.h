// SPDX-License-Identifier: MIT
//
// Chooses strategy and balance_threshold while the program runs. C11 or C++; no CUDA, no allocation, no
// clock:
//
//     tuner t;
//     tune_init(&t, candidates, count); // the first is what you would use without a tuner
//     for each launch:
//         tune_launch next = tune_choose(&t);
//         launch the kernel with next.strategy and next.threshold
//         tune_report(&t, next.ticket, milliseconds, work); // here or later, when the time is known
//
// tune_events.h measures and reports.
//
// No launch is made for the tuner's sake and nothing waits for a time: reports may come many launches later,
// in any order, or never. Launches differ (another view, more primitives), so a time counts per unit of
// `work`, a number from the caller that the time is about proportional to.
//
// The race. Candidates are launched in turn, in random order so that no period of the caller's is mistaken
// for a difference, until each has 5 samples. They are ranked by the mean of the middle half of their samples
// (outliers do not move it, as they do not move the median, and it scatters less). The slower half goes, and
// whoever is slower by more than chance explains (the spread of all samples says what chance does); the rest
// goes on to 10 samples, 20, 40, and the last few to 96, which decide. A candidate 8 times as slow as
// another goes after one launch, twice as slow after two. A strategy's first launch, which may load its code,
// is not measured.
//
// Every `interval` launches a race of few looks again: the best, the next thresholds on both sides, the best
// known of every other strategy, and whoever was not looked at for longest, all with new samples. There the
// best is replaced only for a gain of over 1 % that is also more than chance explains.
//
// The same calls with the same reports give the same choices. One thread at a time may use a tuner. Cost: a
// choice between races is a comparison; in a race a choice and a report take about as many operations as
// there are candidates, and each of its five rankings sorts the samples, below a millisecond.
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
    TUNE_PATIENCE = 1024,  // launches after which a time that is still missing counts as lost
    TUNE_INTERVAL = 2000,  // the default
    TUNE_MAX_KEY = 255,    // bytes of a GPU's or a workload's name
    TUNE_TEXT_SIZE = 4096  // enough for tune_save, its final zero included
};

typedef struct tune_candidate {
    int strategy; // the caller's number for it; at most one candidate for each pair
    int threshold;
} tune_candidate;

typedef struct tune_launch {
    int candidate; // index into the candidates
    int strategy, threshold;
    int64_t ticket; // for tune_report; < 0: do not measure this one
} tune_launch;

// Of one candidate; everything but the first two members is of the last race it was in.
typedef struct tune_record {
    double ratio;     // its time by that of the race's best; 0: not known
    int64_t examined; // the launch when that was found
    double work;      // sum over its samples
    int issued, returned, samples;
    bool racing;
    double sample[TUNE_MAX_SAMPLES]; // milliseconds per unit of work
} tune_record;

// May be read; is written by the functions below only. Copying it copies the tuner.
typedef struct tuner {
    int count;
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    int64_t interval; // launches from the end of a race to the next; may be set after tune_init; <= 0: never
    int best;         // candidate
    bool known;       // that `best` won a race
    bool racing;
    int stage;
    int64_t launches, last_issued, race_began, race_ended;
    uint64_t random;
    int64_t explorations, examinations; // races ended: of all candidates, of few
    int64_t changes;                    // examinations that chose another
    int64_t measured;                   // launches with a ticket
    double best_time;                   // of `best` in the last race, milliseconds per unit of work
    double cost;                        // see tune_cost
    bool warm[TUNE_MAX_CANDIDATES];     // was launched
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

// The mean of the middle half of the samples; of 3 the median; 0 of none.
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

// The standard deviation of samples by their candidate's time, from all racing candidates together: 1.4826
// times the median distance.
static inline double tune_deviation(const tuner *t, const double *times) {
    double distances[512]; // at most 5 for each candidate, after halvings as many, or 96 of 5
    int count = 0, room = (int)(sizeof distances / sizeof *distances);
    for (int c = 0; c < t->count; c++)
        for (int i = 0; t->records[c].racing && i < t->records[c].samples && count < room; i++) {
            double distance = t->records[c].sample[i] / times[c] - 1;
            distances[count++] = distance < 0 ? -distance : distance;
        }
    tune_sort(distances, count);
    return count > 0 ? 1.4826 * distances[count / 2] : 0;
}

// Whether c is slower than the fastest by more than so many standard deviations of the difference. The
// variance of the mean of the middle half is 1.2 times that of the mean; n - 1, as the distances are from a
// time that n samples made.
static inline bool tune_is_beaten(const tuner *t, int c, int fastest, const double *times, double deviation,
                                  double deviations) {
    const tune_record *a = &t->records[fastest], *b = &t->records[c];
    if (a->samples < 2 || b->samples < 2) return false;
    double excess = times[c] / times[fastest] - 1;
    double variance = 1.2 * deviation * deviation * (1.0 / (a->samples - 1) + 1.0 / (b->samples - 1));
    return excess > 0 && excess * excess > deviations * deviations * variance;
}

// What the race's launches cost beyond the best's, as far as they were reported.
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
        } else { // is it the best known of its strategy?
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

// Writes the racing candidates' times; drops those without samples. Returns the fastest, -1 if none is left.
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

// All times of a stage that will come are there: who goes on, or who has won?
static inline void tune_rank(tuner *t) {
    double times[TUNE_MAX_CANDIDATES];
    int fastest = tune_measure(t, times), entered = 0, left = 0;
    if (fastest < 0) { // nothing could be measured; the next race may
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

// Ends stages, and races, whose times are all there or given up.
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

// The racing candidate with the fewest launches, a random one of several; -1: this stage needs no more.
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

// Drops who has only samples that are over 8 times as slow as another's; from two samples on, twice.
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

// candidates[0 .. count - 1], 1 <= count <= TUNE_MAX_CANDIDATES, each pair once; copied. The first is
// launched until more is known. False, and nothing is written, if that does not hold.
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

// What is best so far, for a launch that is not to be measured.
static inline tune_launch tune_best(const tuner *t) {
    tune_launch best;
    best.candidate = t->best;
    best.strategy = t->candidates[t->best].strategy;
    best.threshold = t->candidates[t->best].threshold;
    best.ticket = -1;
    return best;
}

// What the next launch is to use. Once a launch, before it.
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

// The time that the launch with this ticket took, for `work` units of work; once a ticket. A ticket < 0 is
// ignored. A time or work that is not positive and finite says that there will be none. A time that comes
// after its race counts for nothing.
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

// What the launches measured so far have cost beyond what the best would have: the sum over them of
// (time per work - that of the best) * work, in milliseconds. For a launch's time per work that of its
// candidate stands, so that outliers, which would have hit the best as well, do not count. Without the
// loading of code.
static inline double tune_cost(const tuner *t) {
    const tune_record *best = &t->records[t->best];
    double best_time = t->racing && best->samples > 0 ? tune_time(best) : t->best_time;
    return t->cost + (t->racing && best_time > 0 ? tune_race_cost(t, t->best, best_time) : 0);
}

// ---- kept from run to run, as text

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

// Writes what is known, for this GPU and workload, as text with a final zero: at most `room` bytes,
// TUNE_TEXT_SIZE is enough. Returns its length; 0 and no text if nothing is known yet, if a name has control
// characters or is longer than TUNE_MAX_KEY, or if there is no room.
static inline size_t tune_save(const tuner *t, const char *gpu, const char *workload, char *text,
                               size_t room) {
    if (room > 0) *text = 0;
    if (!t->known || !tune_is_key(gpu) || !tune_is_key(workload)) return 0;
    tune_candidate best = t->candidates[t->best];
    char whole[TUNE_TEXT_SIZE];
    int length = snprintf(whole, sizeof whole, "distwar tuner 1\ngpu %s\nworkload %s\nbest %d %d\n", gpu,
                          workload, best.strategy, best.threshold);
    for (int c = 0; c < t->count; c++) { // in thousandths, which no locale writes in a way of its own
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

// If the text at *cursor, up to end, begins so, moves past that.
static inline bool tune_skip(const char **cursor, const char *end, const char *expected) {
    size_t length = strlen(expected);
    if ((size_t)(end - *cursor) < length || memcmp(*cursor, expected, length) != 0) return false;
    *cursor += length;
    return true;
}

// A decimal number, an int, and the character after it.
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

// Right after tune_init: takes what tune_save wrote for the same GPU and workload, `length` bytes, so that
// the first race is one of few, around the best of then. Candidates may have come or gone since. False, and
// the tuner is as before, if the text is damaged, of another GPU or workload, or its best is no candidate any
// more.
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
