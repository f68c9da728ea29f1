// SPDX-License-Identifier: MIT
// Adds gradient rows of WIDTH floats to the rows of a table that an index array names, as the backward pass
// of an embedding does. Words are drawn by Zipf's law, so a few rows get most of the adds and lanes of a warp
// often meet. Every strategy must give the host's sums to the bit; the table it prints compares them: by time
// on a GPU, by counts on the CPU.
#include "device.h"
#include "launch.cuh"
#include "options.h"
#include "random.h"
#include <distwar/reduce.cuh>
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#ifdef __SIMT__
#include "simt.h"
#endif

namespace {

enum { WIDTH = 16, BLOCK = 256, RUNS = 11 };

template <distwar::strategy Strategy>
__global__ void scatter_add(const int *row_of, const float *gradient, int adds, float *table, int threshold) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < adds;
    float value[WIDTH] = {};
    if (active) {
        const float4 *row = reinterpret_cast<const float4 *>(gradient) + size_t(i) * (WIDTH / 4);
        for (int quarter = 0; quarter < WIDTH / 4; ++quarter) {
            const float4 four = row[quarter];
            value[4 * quarter] = four.x;
            value[4 * quarter + 1] = four.y;
            value[4 * quarter + 2] = four.z;
            value[4 * quarter + 3] = four.w;
        }
    }
    distwar::reduce<Strategy>(distwar::all_lanes, active, active ? row_of[i] : 0, value,
                              distwar::record<float>{table, WIDTH}, threshold);
}

struct contender {
    const char *name;
    void (*kernel)(const int *, const float *, int, float *, int);
};
const contender contenders[] = {{"atomic", scatter_add<distwar::strategy::atomic>},
                                {"serial", scatter_add<distwar::strategy::serial>},
                                {"bfly", scatter_add<distwar::strategy::bfly>},
                                {"tree", scatter_add<distwar::strategy::tree>}};

// Word w of `words` has weight 1 / (w + 1)^exponent.
std::vector<int> zipf(int adds, int words, double exponent, random_stream *random) {
    std::vector<double> up_to(words);
    double total = 0;
    for (int word = 0; word < words; ++word) up_to[word] = total += pow(word + 1.0, -exponent);
    std::vector<int> drawn(adds);
    for (int &word : drawn) {
        const double at = random_unit(random) * total;
        word = std::min(int(std::upper_bound(up_to.begin(), up_to.end(), at) - up_to.begin()), words - 1);
    }
    return drawn;
}

template <typename T>
T *uploaded(const std::vector<T> &content) {
    T *memory = static_cast<T *>(device_allocate(content.size() * sizeof(T)));
    device_upload(memory, content.data(), content.size() * sizeof(T));
    return memory;
}

struct problem {
    int adds, words, threshold;
    int *row_of;
    float *gradient, *table;
};

void run(const contender &how, const problem &given) {
    DEVICE_CHECK(launch(nullptr, blocks_for(given.adds, BLOCK), BLOCK, how.kernel, given.row_of,
                        given.gradient, given.adds, given.table, given.threshold));
}

#ifdef __SIMT__
void print_head() {
    printf("%-8s %12s %12s %12s %12s\n", "", "shuffles", "votes", "atomic instr", "atomic req");
}
void print_cost(const contender &how, const problem &given) {
    simt_counters_reset();
    run(how, given);
    const simt_counters counted = simt_counters_read();
    printf("%-8s %12llu %12llu %12llu %12llu\n", how.name, (unsigned long long)counted.shuffles,
           (unsigned long long)counted.votes, (unsigned long long)counted.atomic_instructions,
           (unsigned long long)counted.atomic_requests);
}
#else
void print_head() {
    printf("%-8s %10s %10s\n", "", "median ms", "Gadds/s");
}
void print_cost(const contender &how, const problem &given) {
    cudaEvent_t begin, end;
    DEVICE_CHECK(cudaEventCreate(&begin));
    DEVICE_CHECK(cudaEventCreate(&end));
    float time[RUNS];
    for (float &ms : time) {
        DEVICE_CHECK(cudaEventRecord(begin, nullptr));
        run(how, given);
        DEVICE_CHECK(cudaEventRecord(end, nullptr));
        DEVICE_CHECK(cudaEventSynchronize(end));
        DEVICE_CHECK(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(time, time + RUNS);
    const double median = time[RUNS / 2];
    printf("%-8s %10.4f %10.2f\n", how.name, median, double(given.adds) * WIDTH / median * 1e-6);
    DEVICE_CHECK(cudaEventDestroy(begin));
    DEVICE_CHECK(cudaEventDestroy(end));
}
#endif

} // namespace

int main(int argc, char **argv) {
#ifdef __SIMT__
    int64_t adds = 1 << 13;
#else
    int64_t adds = 1 << 21;
#endif
    int64_t words = 50'000, threshold = 0;
    double exponent = 1;
    const option_spec options[] = {
        {OPTION_INT, "adds", 'n', &adds, 1, 1 << 21, nullptr, "gradient rows to add"},
        {OPTION_INT, "words", 'w', &words, 1, 1 << 24, nullptr, "rows of the table"},
        {OPTION_REAL, "exponent", 'z', &exponent, 0, 4, nullptr, "of Zipf's law; 0 draws evenly"},
        {OPTION_INT, "threshold", 't', &threshold, 0, 33, nullptr, "smaller groups send plain atomics"},
        {OPTION_END, nullptr, 0, nullptr, 0, 0, nullptr, nullptr}};
    const command_spec command = {
        "scatter_add", "[options]", "Adds rows to rows that an index array names.", nullptr, options, 0, 0};
    int positional = 0;
    fault why;
    switch (options_parse(&command, argc, argv, nullptr, &positional, &why)) {
    case OPTIONS_HELP:
        return EXIT_SUCCESS;
    case OPTIONS_USAGE_ERROR:
        fprintf(stderr, "%s\n", why.text);
        return 2;
    case OPTIONS_OK:
        break;
    }

    // Whole numbers of at most 7, so that sums of up to 2^21 of them are exact in any order.
    random_stream random = {1};
    const std::vector<int> row_of = zipf(int(adds), int(words), exponent, &random);
    std::vector<float> gradient(size_t(adds) * WIDTH), expected(size_t(words) * WIDTH);
    for (float &g : gradient) g = float(random_below(&random, 8));
    for (size_t i = 0; i < row_of.size(); ++i)
        for (int k = 0; k < WIDTH; ++k) expected[size_t(row_of[i]) * WIDTH + k] += gradient[i * WIDTH + k];

    const size_t table_bytes = expected.size() * sizeof(float);
    const problem given = {int(adds),          int(words),
                           int(threshold),     uploaded(row_of),
                           uploaded(gradient), uploaded(std::vector<float>(expected.size()))};
    printf("%s: %d rows of %d floats into a table of %d rows, Zipf exponent %g, threshold %d\n",
           device_name(), given.adds, WIDTH, given.words, exponent, given.threshold);
    print_head();
    bool right = true;
    for (const contender &how : contenders) {
        device_clear(given.table, table_bytes);
        run(how, given);
        std::vector<float> found(expected.size());
        device_download(found.data(), given.table, table_bytes);
        if (found != expected) {
            printf("%-8s WRONG: not the host's sums\n", how.name);
            right = false;
            continue;
        }
        print_cost(how, given);
    }
    device_free(given.row_of);
    device_free(given.gradient);
    device_free(given.table);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
