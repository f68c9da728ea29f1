// SPDX-License-Identifier: MIT
// Small seeded random numbers, the same on every machine: SplitMix64 (Steele, Lea, Flood 2014).
#pragma once

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RANDOM_CALL static inline __host__ __device__
#else
#define RANDOM_CALL static inline
#endif

typedef struct random_stream {
    uint64_t state; // the seed; any value
} random_stream;

RANDOM_CALL uint64_t random_bits(random_stream *stream) {
    uint64_t z = stream->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// A separate stream for every (seed, purpose, iteration, index). No state passes from one to the next, so a
// resumed computation draws the same numbers as an uninterrupted one.
RANDOM_CALL random_stream random_at(uint64_t seed, uint64_t purpose, uint64_t iteration, uint64_t index) {
    const uint64_t key[3] = {purpose, iteration, index};
    random_stream stream = {seed};
    for (int i = 0; i < 3; i++) stream.state = random_bits(&stream) ^ key[i];
    stream.state = random_bits(&stream);
    return stream;
}

// 0 <= result < 1
RANDOM_CALL double random_unit(random_stream *stream) {
    return (double)(random_bits(stream) >> 11) * 0x1p-53;
}

// 0 <= result < bound, bound >= 1; the bias is below bound / 2^53.
RANDOM_CALL uint64_t random_below(random_stream *stream, uint64_t bound) {
    return (uint64_t)(random_unit(stream) * (double)bound);
}

// Mean 0, deviation 1 (Box and Muller).
RANDOM_CALL double random_normal(random_stream *stream) {
    double radius = sqrt(-2 * log(1 - random_unit(stream)));
    return radius * cos(6.283185307179586 * random_unit(stream));
}
