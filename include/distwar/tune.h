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

#include "tune_race.h"

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
