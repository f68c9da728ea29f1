// SPDX-License-Identifier: MIT
//
// Chooses strategy and balance_threshold while the program runs. C11 or C++; no allocation, no waiting:
//
//     tuner t;
//     tune_events timer;
//     tune_init(&t, candidates, count); // the first candidate is the one you would use without a tuner
//     tune_events_open(&timer);
//     for each launch:
//         tune_launch next;
//         tune_events_begin(&timer, &t, stream, &next);
//         launch the kernel on stream, with next.strategy and next.threshold
//         tune_events_end(&timer, &t, stream, work);
//     tune_events_close(&timer);
//
// With a clock of your own take next = tune_choose(&t) before each launch, and after it, or later when the time is known,
// call tune_report(&t, next.ticket, milliseconds, work).
//
// What it chooses: mostly threshold 0, which sums every group of two lanes and more; of the 16 cells of docs/benchmarks/
// library.md it gains at most 5% over that. A higher threshold pays where few lanes of a warp are active and a million
// addresses share the atomics, plain atomics where no lanes share an address.
//
// Reports may come many launches later, in any order, or never. Launches differ (another view, more primitives), so times
// are compared per unit of `work`, a number from the caller to which the time is about proportional.
//
// A race compares candidates by their times. They are launched in turn, in random order, so that a period of the caller's
// is not mistaken for a difference; the first launch of a strategy may load its code and is not measured. Each gets 5
// samples; one 8 times as slow as another is dropped after one launch, one twice as slow after two. Then they are ranked
// by the mean of the middle half of their samples, which ignores outliers. The slower half is dropped, but not below 4,
// and so is every candidate that is slower by more than chance explains. The others go on to 10 samples, 20, 40 and 96.
//
// The first race compares all candidates. Every `interval` launches follows an examination, a race of a few: the best, its
// neighbours in threshold, the best known of every other strategy, and the one examined longest ago. It replaces the best
// only for a gain of more than 1% that is also more than chance explains.
//
// The same calls with the same reports give the same choices. One thread at a time may use a tuner. Cost: outside a race a
// choice is one comparison; in a race about as many operations as there are candidates, and five rankings sort the samples.
#ifndef DISTWAR_TUNE_H
#define DISTWAR_TUNE_H

#include <cuda_runtime.h>
#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    TUNE_MAX_CANDIDATES = 64,
    TUNE_MAX_SAMPLES = 96, // of a candidate in a race
    TUNE_PATIENCE = 1024,  // launches to wait for a missing time before it counts as lost
    TUNE_INTERVAL = 2000,  // the default interval
    TUNE_LAST_STAGE = 4,
    TUNE_FINALISTS = 4,
    TUNE_EVENTS = 64 // launches whose times may be on their way
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
    bool racing, warm;               // warm: it has been launched
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
    tune_record records[TUNE_MAX_CANDIDATES];
} tuner;

static inline int tune_order(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

// The mean of the middle half of the samples; the median of 3; 0 if there are none.
static inline double tune_time(const tune_record *r) {
    double sorted[TUNE_MAX_SAMPLES], sum = 0;
    memcpy(sorted, r->sample, (size_t)r->samples * sizeof *sorted);
    qsort(sorted, (size_t)r->samples, sizeof *sorted, tune_order);
    int out = (r->samples + 1) / 4;
    for (int i = out; i < r->samples - out; i++) sum += sorted[i];
    return r->samples > 0 ? sum / (r->samples - 2 * out) : 0;
}

// The excess time of the race's reported launches over the best candidate's.
static inline double tune_race_cost(const tuner *t, double best_time) {
    double sum = 0;
    for (int c = 0; c < t->count; c++)
        if (c != t->best) sum += (tune_time(&t->records[c]) - best_time) * t->records[c].work;
    return sum;
}

// Enters the candidates of the next race.
static inline void tune_begin_race(tuner *t) {
    const tune_candidate best = t->candidates[t->best];
    t->racing = true;
    t->stage = 0;
    t->race_began = t->launches;
    int oldest = -1; // of those that do not enter otherwise
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        const tune_candidate one = t->candidates[c];
        r->issued = r->returned = r->samples = 0;
        r->work = 0;
        r->racing = !t->known || one.strategy == best.strategy || r->ratio > 0;
        for (int d = 0; t->known && d < t->count; d++) {
            const tune_candidate other = t->candidates[d];
            if (d == c || other.strategy != one.strategy) continue;
            const double ratio = t->records[d].ratio;
            if (one.strategy == best.strategy) // the best and those that have no other between it and them
                r->racing = r->racing && ((int64_t)other.threshold - best.threshold) *
                                                 ((int64_t)other.threshold - one.threshold) >=
                                             0;
            else // the best known of the strategy, the first of equals
                r->racing = r->racing && (ratio <= 0 || ratio > r->ratio || (ratio == r->ratio && d > c));
        }
        if (!r->racing && (oldest < 0 || r->examined < t->records[oldest].examined)) oldest = c;
    }
    if (oldest >= 0) t->records[oldest].racing = true;
}

// The variance of sample / (time of its candidate) over all racing candidates: from the median distance from 1. 1.2: the
// mean of the middle half scatters more than the mean.
static inline double tune_variance(const tuner *t, const double *times) {
    double distances[512]; // 64 candidates have 5 samples each, then half as many twice as many
    int count = 0;
    for (int c = 0; c < t->count; c++)
        for (int i = 0; t->records[c].racing && i < t->records[c].samples && count < 512; i++) {
            double distance = t->records[c].sample[i] / times[c] - 1;
            distances[count++] = distance < 0 ? -distance : distance;
        }
    qsort(distances, (size_t)count, sizeof *distances, tune_order);
    double deviation = count > 0 ? 1.4826 * distances[count / 2] : 0;
    return 1.2 * deviation * deviation;
}

// At the end of a stage: drops candidates, or ends the race.
static inline void tune_rank(tuner *t) {
    double times[TUNE_MAX_CANDIDATES];
    int fastest = -1, entered = 0, left = 0;
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        r->racing = r->racing && r->samples > 0;
        times[c] = r->racing ? tune_time(r) : 0;
        entered += r->racing;
        if (r->racing && (fastest < 0 || times[c] < times[fastest])) fastest = c;
    }
    double variance = tune_variance(t, times);
    int room = entered / 2 > TUNE_FINALISTS ? entered / 2 : TUNE_FINALISTS;
    bool stands = false; // the best so far is not slower by more than 1% and than chance explains
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        if (!r->racing) continue;
        r->ratio = times[c] / times[fastest];
        r->examined = t->launches;
        int n = t->records[fastest].samples, faster = 0;
        for (int d = 0; d < t->count; d++) faster += times[d] > 0 && times[d] < times[c];
        // In squares of standard deviations of the difference; n - 1, as the same samples gave the times.
        double excess = r->ratio - 1, chance = n > 1 && r->samples > 1
                                                   ? variance * (1.0 / (n - 1) + 1.0 / (r->samples - 1))
                                                   : DBL_MAX;
        bool is_best = t->known && c == t->best;
        if (is_best) stands = excess <= 0.01 || excess * excess <= 4 * chance;
        r->racing = is_best || (faster < room && excess * excess <= 9 * chance);
        left += r->racing;
    }
    if (left > 1 && t->stage < TUNE_LAST_STAGE) {
        if (!t->known) t->best = fastest;
        t->stage++;
        return;
    }
    t->racing = false;
    t->race_ended = t->launches;
    if (fastest < 0) return; // no time was reported; the next race may have some
    const int winner = stands ? t->best : fastest;
    t->changes += t->known && winner != t->best;
    t->examinations += t->known;
    t->explorations += !t->known;
    t->best = winner;
    t->known = true;
    t->best_time = times[winner];
    t->cost += tune_race_cost(t, t->best_time);
}

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
    const tune_candidate best = t->candidates[t->best];
    const tune_launch launch = {t->best, best.strategy, best.threshold, -1};
    return launch;
}

// The candidate for the next launch. Call it once before each launch.
static inline tune_launch tune_choose(tuner *t) {
    static const int targets[TUNE_LAST_STAGE + 1] = {5, 10, 20, 40, TUNE_MAX_SAMPLES}; // samples of a stage
    t->launches++;
    if (!t->racing && t->interval > 0 && t->launches - t->race_ended >= t->interval) tune_begin_race(t);
    bool waits = false; // for a launch or a report of the stage
    int next = -1;
    while (t->racing && !waits) {
        const int target = targets[t->stage];
        int fewest = target;
        uint64_t ties = 0;
        // The racing candidate with the fewest launches, at random among equals.
        for (int c = 0; c < t->count; c++) {
            const tune_record *r = &t->records[c];
            if (!r->racing) continue;
            waits = waits || r->issued < target ||
                    (r->returned < r->issued && t->launches - t->last_issued <= TUNE_PATIENCE);
            if (r->issued > fewest || r->issued == target) continue;
            if (r->issued < fewest) ties = 0;
            fewest = r->issued;
            uint64_t z = t->random += 0x9e3779b97f4a7c15u; // SplitMix64
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            if ((z ^ (z >> 31)) % ++ties == 0) next = c;
        }
        if (!waits) tune_rank(t);
    }
    if (!t->racing || next < 0) return tune_best(t);
    bool warm = false; // the code of its strategy is loaded
    for (int c = 0; c < t->count; c++)
        warm = warm || (t->records[c].warm && t->candidates[c].strategy == t->candidates[next].strategy);
    t->records[next].warm = true;
    tune_launch launch = {next, t->candidates[next].strategy, t->candidates[next].threshold, -1};
    if (!warm) return launch;
    t->records[next].issued++;
    t->last_issued = t->launches;
    t->measured++;
    launch.ticket = t->launches * TUNE_MAX_CANDIDATES + next;
    return launch;
}

// Reports the time of the launch with this ticket, for `work` units of work. Call it at most once for a
// ticket. A ticket < 0 is ignored. A time or work that is not positive and finite means that the launch has
// no time. A time reported after the end of its race is ignored.
static inline void tune_report(tuner *t, int64_t ticket, double milliseconds, double work) {
    int candidate = (int)(ticket % TUNE_MAX_CANDIDATES);
    int64_t launch = ticket / TUNE_MAX_CANDIDATES;
    if (ticket < 0 || candidate >= t->count || launch > t->launches) return;
    tune_record *reported = &t->records[candidate];
    double sample = milliseconds / work;
    if (!t->racing || launch < t->race_began || reported->returned == reported->issued) return;
    reported->returned++;
    if (!(milliseconds > 0 && work > 0 && milliseconds <= DBL_MAX && work <= DBL_MAX && sample > 0 &&
          sample <= DBL_MAX))
        return;
    reported->sample[reported->samples++] = sample;
    reported->work += work;
    for (int least = 1; t->stage == 0 && least <= 2; least++) { // drops those that are hopeless
        double fastest = DBL_MAX;
        for (int c = 0; c < t->count; c++) {
            const tune_record *r = &t->records[c];
            if (r->racing && r->samples >= least && tune_time(r) < fastest) fastest = tune_time(r);
        }
        for (int c = 0; c < t->count; c++) {
            tune_record *r = &t->records[c];
            bool hopeless = r->racing && r->samples >= least;
            for (int i = 0; i < r->samples; i++)
                hopeless = hopeless && r->sample[i] > (least == 1 ? 8 : 2) * fastest;
            if (!hopeless) continue;
            r->racing = false;
            r->ratio = tune_time(r) / fastest;
            r->examined = t->launches;
        }
    }
}

// The cost of exploring, in milliseconds: the sum over the measured launches of (time per work of the
// candidate - time per work of the best) * work. It uses the candidate's time instead of the launch's own, so
// outliers do not count: they would have hit the best as well. Loading code is not included.
static inline double tune_cost(const tuner *t) {
    const tune_record *best = &t->records[t->best];
    double best_time = t->racing && best->samples > 0 ? tune_time(best) : t->best_time;
    return t->cost + (t->racing && best_time > 0 ? tune_race_cost(t, best_time) : 0);
}

// Times launches for a tuner with CUDA events. It queries events and never waits for them. The time is the stream's time for
// the work queued between begin and end. If the stream runs empty in between, it includes the time the stream waits for the
// host. Only launches that the tuner measures record events; between races there are none. While all TUNE_EVENTS pairs of
// events wait for the GPU, launches are not measured and use the best so far.
//
// Result:  cudaSuccess, or the first error of the runtime. The launch is chosen in both cases. An error that the runtime
//          held before the call stays there for the caller.
// Streams: several streams may use a ring in turn, but not while they are being captured.
// Threads: one at a time.
// Cost:    two event records and a few queries for a measured launch.
typedef struct tune_events {
    cudaEvent_t begin[TUNE_EVENTS], end[TUNE_EVENTS]; // of a slot
    int64_t ticket[TUNE_EVENTS];
    double work[TUNE_EVENTS];
    int first, waiting; // index of the oldest waiting slot, number of waiting slots
    bool measuring;     // between begin and end: the slot after the waiting ones is in use
} tune_events;

// Destroys the events. Waiting times are not reported. Harmless on a zeroed ring.
static inline cudaError_t tune_events_close(tune_events *ring) {
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < 2 * TUNE_EVENTS; i++) {
        cudaEvent_t event = i < TUNE_EVENTS ? ring->begin[i] : ring->end[i - TUNE_EVENTS];
        cudaError_t destroyed = event ? cudaEventDestroy(event) : cudaSuccess;
        if (status == cudaSuccess) status = destroyed;
    }
    memset(ring, 0, sizeof *ring);
    return status;
}

// Creates the events on the current device; the ring is for streams of this device. After a failure it has
// none.
static inline cudaError_t tune_events_open(tune_events *ring) {
    cudaError_t status = cudaSuccess;
    memset(ring, 0, sizeof *ring);
    for (int i = 0; i < TUNE_EVENTS && status == cudaSuccess; i++) {
        status = cudaEventCreate(&ring->begin[i]);
        if (status == cudaSuccess) status = cudaEventCreate(&ring->end[i]);
    }
    if (status != cudaSuccess) tune_events_close(ring);
    return status;
}

// Reports the times that are ready, oldest first, and chooses. Call it before the launch. *launch: the candidate to use.
static inline cudaError_t tune_events_begin(tune_events *ring, tuner *t, cudaStream_t stream,
                                            tune_launch *launch) {
    cudaError_t status = cudaSuccess;
    ring->measuring = false;
    while (ring->waiting > 0 && status == cudaSuccess) {
        // "Not ready" becomes the runtime's last error and must be cleared; an error of the caller's must not.
        status = cudaPeekAtLastError();
        if (status != cudaSuccess) break;
        const int slot = ring->first;
        status = cudaEventQuery(ring->end[slot]);
        if (status == cudaErrorNotReady) {
            cudaGetLastError();
            status = cudaSuccess;
            break;
        }
        float milliseconds = 0;
        if (status == cudaSuccess)
            status = cudaEventElapsedTime(&milliseconds, ring->begin[slot], ring->end[slot]);
        ring->first = (slot + 1) % TUNE_EVENTS;
        ring->waiting--;
        tune_report(t, ring->ticket[slot], status == cudaSuccess ? milliseconds : 0, ring->work[slot]);
    }
    *launch = ring->waiting == TUNE_EVENTS || status != cudaSuccess ? tune_best(t) : tune_choose(t);
    if (launch->ticket < 0) return status;
    int slot = (ring->first + ring->waiting) % TUNE_EVENTS;
    ring->ticket[slot] = launch->ticket;
    status = cudaEventRecord(ring->begin[slot], stream);
    ring->measuring = status == cudaSuccess;
    if (!ring->measuring) tune_report(t, launch->ticket, 0, 0);
    return status;
}

// Call it after the launch, on the same stream, once for each tune_events_begin. work: see tune_report.
static inline cudaError_t tune_events_end(tune_events *ring, tuner *t, cudaStream_t stream, double work) {
    if (!ring->measuring) return cudaSuccess;
    ring->measuring = false;
    int slot = (ring->first + ring->waiting) % TUNE_EVENTS;
    cudaError_t status = cudaEventRecord(ring->end[slot], stream);
    ring->work[slot] = work;
    if (status == cudaSuccess)
        ring->waiting++;
    else
        tune_report(t, ring->ticket[slot], 0, 0);
    return status;
}

#endif
