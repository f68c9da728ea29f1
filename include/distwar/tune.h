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
// With a clock of your own take next = tune_choose(&t) before each launch, and after it, or later when the time is
// known, call tune_report(&t, next.ticket, milliseconds, work).
//
// What it chooses: mostly threshold 0, which sums every group of two lanes and more. A higher one gained at most 5% in
// the 16 cells of docs/benchmarks/library.md. Plain atomics win where no lanes share an address.
//
// Reports may come many launches later, in any order, or never. Launches differ (another view, more primitives), so
// times are compared per unit of `work`, a number from the caller to which the time is about proportional.
//
// A race compares candidates by successive halving. They are launched in turn, in random order, so that a period of the
// caller's is not mistaken for a difference. The first launch of a strategy, which may load its code, is not measured.
// When each has 1, 2, 4, ..., 128 samples, they are ranked by the mean of the middle half of these, which ignores
// outliers. Then out goes what is slower than the fastest: after one sample 8 times, after two twice, later by more
// than a percent and than chance explains. So does the slower half, down to 4. The best so far stays, and is replaced
// if it is out at the end. The first race compares all candidates; after each `interval` launches an examination
// compares a few.
//
// The same calls with the same reports give the same choices. One thread at a time may use a tuner. Cost: outside a
// race a choice is one comparison; in a race about as many operations as there are candidates, and 8 rankings.
#ifndef DISTWAR_TUNE_H
#define DISTWAR_TUNE_H

#include <cuda_runtime.h>
#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TUNE_MAX_CANDIDATES = 64,
    TUNE_MAX_SAMPLES = 128, // of a candidate in a race
    TUNE_FINALISTS = 4,
    TUNE_PATIENCE = 1024, // launches to wait for a missing time before it counts as lost
    TUNE_INTERVAL = 2000, // the default interval
    TUNE_EVENTS = 64      // launches whose times may be on their way
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

// What is known of one candidate.
typedef struct tune_record {
    double ratio; // its time / the time of the fastest, when it was last ranked; 0: not known
    bool warm;    // its strategy has been launched
    // Of its last race:
    bool racing;
    int issued, returned, samples;
    double work;                     // sum over the samples
    double sample[TUNE_MAX_SAMPLES]; // milliseconds per unit of work, in rising order
} tune_record;

// The caller may read it; only the functions below write it. A copy is a tuner of its own, of 68 KB.
typedef struct tuner {
    int count;
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    int64_t interval; // launches between races; may be set after tune_init; <= 0: no examinations
    int best;         // index of a candidate
    double best_time; // of `best` in the last race, milliseconds per unit of work
    bool known;       // `best` has won a race
    bool racing;
    int target; // samples of each racing candidate before the next ranking
    int64_t launches, last_issued, race_began, race_ended;
    int64_t examinations; // that have ended
    int64_t changes;      // examinations that replaced the best
    int64_t measured;     // launches with a ticket
    // Of the races that have ended, in milliseconds: the sum over the measured launches of (time of the candidate -
    // time of the best) * work, times per unit of work. Not the launch's own time: an outlier would have hit the best
    // as well.
    double cost;
    uint64_t random;
    tune_record records[TUNE_MAX_CANDIDATES];
} tuner;

// Enters the candidates of the next race: the best and its neighbours in threshold, the fastest of each strategy, one
// of all in turn, and those that are not known, so all at first.
static inline void tune_begin_race(tuner *t) {
    const tune_candidate best = t->candidates[t->best];
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        const tune_candidate one = t->candidates[c];
        bool fastest = true, is_near = one.strategy == best.strategy;
        for (int d = 0; d < t->count; d++) {
            const tune_candidate other = t->candidates[d];
            if (other.strategy != one.strategy) continue;
            fastest = fastest && t->records[d].ratio >= r->ratio;
            const int64_t at = other.threshold;
            is_near = is_near && (at - best.threshold) * (at - one.threshold) >= 0; // not between both
        }
        r->racing = fastest || is_near || c == t->examinations % t->count;
        r->issued = r->returned = r->samples = 0;
        r->work = 0;
    }
    t->racing = true;
    t->target = 1;
    t->race_began = t->launches;
}

// The mean of the middle half of the samples; of two the lesser.
static inline double tune_time(const tune_record *r) {
    const int first = r->samples / 4, size = (r->samples + 1) / 2;
    double sum = 0;
    for (int i = first; i < first + size; i++) sum += r->sample[i];
    return sum / size;
}

// At the end of a stage: drops candidates, or ends the race.
static inline void tune_rank(tuner *t) {
    double times[TUNE_MAX_CANDIDATES] = {0}; // 0: does not race, or no time was reported
    double spread = 0;                       // the width of the middle half of the samples / the time, a mean
    int entered = 0, left = 0, fastest = 0;
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        r->racing = r->racing && (r->samples > 0 || t->target < 4);
        if (!r->racing || r->samples == 0) continue;
        times[c] = tune_time(r);
        spread += (r->sample[(3 * r->samples - 1) / 4] - r->sample[r->samples / 4]) / times[c];
        if (entered++ == 0 || times[c] < times[fastest]) fastest = c;
    }
    t->racing = false;
    t->race_ended = t->launches;
    if (entered == 0) return; // the next race may have times
    spread /= entered;
    // The variance of the difference of two times, times (n - 2)^2. The middle half of a normal distribution is 1.35
    // standard deviations wide, of few samples less, as n - 2 to n; its mean varies 1.2 times as the mean.
    const double n = t->target, variance = 2 * 1.2 * n * spread * spread / (1.35 * 1.35);
    const int room = n < 4 ? entered : entered / 2 > TUNE_FINALISTS ? entered / 2 : TUNE_FINALISTS;
    bool stays = false; // the best
    for (int c = 0; c < t->count; c++) {
        tune_record *r = &t->records[c];
        if (!r->racing) continue;
        r->ratio = times[c] / times[fastest];
        const bool is_best = t->known && c == t->best;
        const double chance = (is_best ? 2 * 2 : 3 * 3) * variance; // so many standard deviations
        const double excess = r->ratio - 1, scaled = excess * (n - 2);
        const bool slower = n < 4 ? r->ratio > 8 / (n * n) : excess > 0.01 && scaled * scaled > chance;
        int faster = 0;
        for (int d = 0; d < t->count; d++) faster += times[d] > 0 && times[d] < times[c];
        stays = stays || (is_best && !slower);
        r->racing = is_best || (!slower && faster < room);
        left += r->racing;
    }
    t->target *= 2;
    t->racing = left > 1 && t->target <= TUNE_MAX_SAMPLES;
    if (!t->known || (!t->racing && !stays)) {
        t->changes += t->known;
        t->best = fastest;
    }
    if (t->racing) return;
    t->examinations += t->known;
    t->known = true;
    t->best_time = times[t->best];
    for (int c = 0; c < t->count; c++)
        if (t->records[c].samples > 0)
            t->cost += (tune_time(&t->records[c]) - t->best_time) * t->records[c].work;
}

// candidates: [count], 1 <= count <= TUNE_MAX_CANDIDATES, all different; copied. The first is used until more is known.
// Returns false and writes nothing if count is out of range or two candidates are equal.
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
    t->launches++;
    if (!t->racing && t->interval > 0 && t->launches - t->race_ended >= t->interval) tune_begin_race(t);
    if (!t->racing) return tune_best(t);
    // The racing candidate with the fewest launches, at random among equals.
    int next = -1, fewest = t->target - 1, waiting = 0;
    uint64_t ties = 0;
    for (int c = 0; c < t->count; c++) {
        const tune_record *r = &t->records[c];
        if (!r->racing) continue;
        waiting += r->issued - r->returned;
        if (r->issued > fewest) continue;
        ties = r->issued < fewest ? 1 : ties + 1;
        fewest = r->issued;
        t->random = t->random * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
        if ((t->random >> 33) % ties == 0) next = c;
    }
    if (next < 0 && (waiting == 0 || t->launches - t->last_issued > TUNE_PATIENCE)) tune_rank(t);
    if (next < 0) return tune_best(t);
    tune_record *r = &t->records[next];
    tune_launch launch = {next, t->candidates[next].strategy, t->candidates[next].threshold, -1};
    const bool warm = r->warm;
    for (int c = 0; c < t->count; c++)
        if (t->candidates[c].strategy == launch.strategy) t->records[c].warm = true;
    if (!warm) return launch;
    r->issued++;
    t->last_issued = t->launches;
    t->measured++;
    launch.ticket = t->launches * TUNE_MAX_CANDIDATES + next;
    return launch;
}

// Reports the time of the launch with this ticket, for `work` units of work, at most once. A ticket < 0 is ignored, and
// so is a time after the end of its race. A time or work that is not positive and finite: the launch has no time.
static inline void tune_report(tuner *t, int64_t ticket, double milliseconds, double work) {
    const int candidate = (int)(ticket % TUNE_MAX_CANDIDATES);
    const int64_t launch = ticket / TUNE_MAX_CANDIDATES;
    if (ticket < 0 || candidate >= t->count || launch > t->launches) return;
    tune_record *r = &t->records[candidate];
    if (!t->racing || launch < t->race_began || r->returned == r->issued) return;
    r->returned++;
    const double sample = milliseconds / work;
    if (!(work > 0 && sample > 0 && sample <= DBL_MAX)) return;
    int place = r->samples++;
    for (; place > 0 && r->sample[place - 1] > sample; place--) r->sample[place] = r->sample[place - 1];
    r->sample[place] = sample;
    r->work += work;
}

// Times launches for a tuner with CUDA events, queries them and never waits. The time is the stream's for the work queued
// between begin and end; if the stream runs empty in between, that waiting is in it. Only launches that the tuner measures
// record events. While all TUNE_EVENTS pairs wait for the GPU, launches are not measured and use the best so far.
//
// Result:  cudaSuccess, or the first error of the runtime. The launch is chosen in both cases. An error that the
//          runtime held before the call stays there for the caller.
// Streams: several streams may use a ring in turn, but not while they are being captured. One thread at a time.
// Cost:    two event records and a few queries for a measured launch.
typedef struct tune_events {
    cudaEvent_t event[2 * TUNE_EVENTS]; // of a slot: begin at 2 * slot, end behind it
    int64_t ticket[TUNE_EVENTS];
    double work[TUNE_EVENTS];
    int first, waiting; // index of the oldest waiting slot, number of waiting slots
    bool measuring;     // between begin and end: the slot after the waiting ones is in use
} tune_events;

// Destroys the events; times that are awaited are lost. Harmless on a zeroed ring.
static inline cudaError_t tune_events_close(tune_events *ring) {
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < 2 * TUNE_EVENTS; i++) {
        const cudaError_t destroyed = ring->event[i] ? cudaEventDestroy(ring->event[i]) : cudaSuccess;
        if (status == cudaSuccess) status = destroyed;
    }
    memset(ring, 0, sizeof *ring);
    return status;
}

// Creates the events on the current device; the ring is for streams of this device. After a failure it has none.
static inline cudaError_t tune_events_open(tune_events *ring) {
    cudaError_t status = cudaSuccess;
    memset(ring, 0, sizeof *ring);
    for (int i = 0; i < 2 * TUNE_EVENTS && status == cudaSuccess; i++)
        status = cudaEventCreate(&ring->event[i]);
    if (status != cudaSuccess) tune_events_close(ring);
    return status;
}

// Reports the times that are ready, oldest first, and chooses. Call it before the launch. *launch: what to use.
static inline cudaError_t tune_events_begin(tune_events *ring, tuner *t, cudaStream_t stream,
                                            tune_launch *launch) {
    // "Not ready" becomes the runtime's last error and must be cleared; an error of the caller's must not.
    cudaError_t status = ring->waiting > 0 ? cudaPeekAtLastError() : cudaSuccess;
    ring->measuring = false;
    while (ring->waiting > 0 && status == cudaSuccess) {
        const int slot = ring->first;
        status = cudaEventQuery(ring->event[2 * slot + 1]);
        if (status == cudaErrorNotReady) {
            cudaGetLastError();
            status = cudaSuccess;
            break;
        }
        float milliseconds = 0; // after an error, too: the launch has no time
        if (status == cudaSuccess)
            status = cudaEventElapsedTime(&milliseconds, ring->event[2 * slot], ring->event[2 * slot + 1]);
        ring->first = (slot + 1) % TUNE_EVENTS;
        ring->waiting--;
        tune_report(t, ring->ticket[slot], milliseconds, ring->work[slot]);
    }
    *launch = ring->waiting == TUNE_EVENTS || status != cudaSuccess ? tune_best(t) : tune_choose(t);
    if (launch->ticket < 0) return status;
    const int slot = (ring->first + ring->waiting) % TUNE_EVENTS;
    ring->ticket[slot] = launch->ticket;
    status = cudaEventRecord(ring->event[2 * slot], stream);
    ring->measuring = status == cudaSuccess;
    if (!ring->measuring) tune_report(t, launch->ticket, 0, 0);
    return status;
}

// Call it after the launch, on the same stream, once for each tune_events_begin. work: see tune_report.
static inline cudaError_t tune_events_end(tune_events *ring, tuner *t, cudaStream_t stream, double work) {
    if (!ring->measuring) return cudaSuccess;
    ring->measuring = false;
    const int slot = (ring->first + ring->waiting) % TUNE_EVENTS;
    const cudaError_t status = cudaEventRecord(ring->event[2 * slot + 1], stream);
    ring->work[slot] = work;
    if (status == cudaSuccess)
        ring->waiting++;
    else
        tune_report(t, ring->ticket[slot], 0, 0);
    return status;
}

#endif
