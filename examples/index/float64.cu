// SPDX-License-Identifier: MIT
#include "shell.cuh"

#include <distwar/device/histogram.cuh>

const ix_calls *ix_float64(const ix_rows &rows) {
    return ix_calls_of<double, double>(rows);
}

template <typename Key>
static cudaError_t count(const ix_keys &keys, cudaStream_t stream) {
    distwar::key_counts<Key, unsigned long long> given;
    given.count = keys.count, given.bins = keys.bins;
    given.key = static_cast<const Key *>(keys.key);
    given.counts = reinterpret_cast<unsigned long long *>(keys.counts);
    given.report = keys.report;
    return distwar::histogram(given, stream);
}

cudaError_t ix_count(const ix_keys &keys, cudaStream_t stream) {
    return keys.key_bytes == 8 ? count<long long>(keys, stream) : count<int>(keys, stream);
}
