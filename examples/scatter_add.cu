// SPDX-License-Identifier: MIT
// Adds rows of floats to the rows of a table that an index array names, as the backward pass of an embedding
// does. Zipf's law draws the words, so a few rows get most of the adds and lanes of a warp often share a key.
// With rows of one float it is a histogram. Every strategy must give the bits of the host's sums. Then the
// strategies are compared: by time on a GPU; by counts on the CPU. One of them, hot, is for such keys: a block sums
// the rows that it meets most often in shared memory.
#include "strategies/strategy_costs.h"
#include "strategies/commit.cuh"
#include "device.h"
#include "random.h"
#include <algorithm>
#include <distwar/hot_slots.cuh>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

namespace {

enum {
    BLOCK = 256,
    HOT_ROUNDS = 16, // adds of a thread with hot slots
    HOT_SLOTS = 256
};

template <int Width, typename Commit>
__global__ void scatter_add(const int *row_of, const float *gradient, int adds, Commit commit) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < adds;
    float value[Width] = {};
    if (active)
        memcpy(value, __builtin_assume_aligned(gradient + size_t(i) * Width, sizeof value), sizeof value);
    commit(active, active ? row_of[i] : 0, value);
}

// A block adds HOT_ROUNDS * BLOCK rows, so that it meets a frequent one again.
template <int Width>
__global__ void scatter_add_hot(const int *row_of, const float *gradient, int adds,
                                distwar::aligned_record<> table, int balance_threshold) {
    __shared__ distwar::hot_slots<HOT_SLOTS, Width> hot;
    hot.clear();
    for (int round = 0; round < HOT_ROUNDS; ++round) {
        const int i = int((blockIdx.x * HOT_ROUNDS + round) * BLOCK + threadIdx.x);
        const bool active = i < adds;
        float value[Width] = {};
        if (active)
            memcpy(value, __builtin_assume_aligned(gradient + size_t(i) * Width, sizeof value), sizeof value);
        distwar::reduce_tree(distwar::all_lanes, active, active ? row_of[i] : 0, value, hot.sink(table),
                             balance_threshold);
    }
    hot.flush(table);
}

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
    int64_t adds, words;
    double exponent;
    int width; // floats of a row
    int *row_of;
    float *gradient;
    sum_memory table;
    strategy_costs result;
};

template <int Width>
void run(void *context, distwar_policy policy, lane_histogram *lanes) {
    const problem &given = *static_cast<problem *>(context);
    const sum_memory &table = given.table;
    if (policy.strategy == DISTWAR_HOT && !lanes) {
        const size_t stride = size_t(table.stride);
        device_clear(table.sums, size_t(table.keys) * stride * sizeof(float));
        DEVICE_CHECK(launch(nullptr, blocks_for(given.adds, HOT_ROUNDS * BLOCK), BLOCK,
                            scatter_add_hot<Width>, given.row_of, given.gradient, int(given.adds),
                            distwar::aligned_record<>{table.sums, stride}, policy.balance_threshold));
        return;
    }
    float one[Width]; // whole numbers: one unit per 1.0
    std::fill(one, one + Width, 1.0f);
    DEVICE_CHECK(sum_values(policy, one, table, lanes, nullptr, [&](const auto &commit) {
        return launch(nullptr, blocks_for(given.adds, BLOCK), BLOCK,
                      scatter_add<Width, std::decay_t<decltype(commit)>>, given.row_of, given.gradient,
                      int(given.adds), commit);
    }));
}

void describe(json_writer *json, const void *subject) {
    const problem &given = *static_cast<const problem *>(subject);
    json_put_text(json, "workload", "scatter_add");
    json_put_integer(json, "adds", given.adds);
    json_put_integer(json, "words", given.words);
    json_put_number(json, "exponent", given.exponent);
    json_put_integer(json, "values", given.width);
    strategy_costs_describe(json, &given.result);
}

// expected: the host's sums, rows without padding.
bool agree(const problem *given, const strategy_subject &subject, const candidate_list &measured,
           const std::vector<float> &expected, fault *why) {
    const size_t stride = size_t(given->table.stride), width = size_t(given->width);
    std::vector<float> found(size_t(given->words) * stride);
    for (int c = 0; c < measured.count; ++c) {
        const distwar_policy policy = measured.rows[c].policy;
        subject.run(subject.context, policy, nullptr);
        device_download(found.data(), given->table.sums, found.size() * sizeof(float));
        bool same = true;
        for (size_t v = 0; v < expected.size(); v++)
            same = same && found[v / width * stride + v % width] == expected[v];
        if (!same)
            return fail(why, "WRONG: the sums of %s at threshold %d differ from the host's",
                        distwar_strategy_name(policy.strategy), policy.balance_threshold);
    }
    return sum_memory_is_exact(&given->table, why);
}

bool measure(problem *given, const candidate_list &measured, int runs, const char *json, fault *why) {
    // Whole numbers of at most 7, so that sums of up to 2^21 of them are exact in any order.
    random_stream random = {1};
    const std::vector<int> row_of = zipf(int(given->adds), int(given->words), given->exponent, &random);
    const size_t width = size_t(given->width);
    std::vector<float> gradient(size_t(given->adds) * width), expected(size_t(given->words) * width);
    for (float &g : gradient) g = float(random_below(&random, 8));
    for (size_t i = 0; i < row_of.size(); ++i)
        for (size_t k = 0; k < width; ++k) expected[size_t(row_of[i]) * width + k] += gradient[i * width + k];

    given->row_of = uploaded(row_of);
    given->gradient = uploaded(gradient);
    given->table = sum_memory_open(given->words, given->width);
    const strategy_subject subject = {given, 1, true, nullptr, given->width == 1 ? run<1> : run<16>};
    bool done = agree(given, subject, measured, expected, why);
    if (done) strategy_costs_measure(&subject, &measured, runs, &given->result);
    if (done && !json_is_stdout(json)) {
        printf("%s: %lld rows of %d floats into a table of %lld rows, Zipf exponent %g;\n"
               "every strategy gives the host's sums\n\n",
               device_name(), (long long)given->adds, given->width, (long long)given->words, given->exponent);
        strategy_costs_print(&given->result, "One run");
    }
    if (done && json) done = json_save(json, describe, given, why);
    sum_memory_close(&given->table);
    device_free(given->gradient);
    device_free(given->row_of);
    return done;
}

} // namespace

int main(int argc, char **argv) {
    problem given = {};
    given.words = 50'000;
    given.exponent = 1;
#ifdef __SIMT__
    given.adds = 1 << 13;
#else
    given.adds = 1 << 21;
#endif
    static const char *const widths[] = {"1", "16", nullptr};
    int width = 1; // of these
    static const offered_strategy hot[] = {{DISTWAR_HOT, false}, {DISTWAR_STRATEGY_COUNT, false}};
    cost_options bench = cost_options_default();
    bench.thresholds = "0,8";
    bench.always = hot;
    const option_spec options[] = {
        {OPTION_INT, "adds", 'n', &given.adds, 1, 1 << 21, nullptr, "gradient rows to add", false, false,
         nullptr},
        {OPTION_INT, "words", 'w', &given.words, 1, 1 << 24, nullptr, "rows of the table", false, false,
         nullptr},
        {OPTION_CHOICE, "width", 0, &width, 0, 0, widths, "floats of a row", false, false, nullptr},
        {OPTION_REAL, "exponent", 'z', &given.exponent, 0, 4, nullptr,
         "the exponent of Zipf's law; 0: all words equally often", false, false, nullptr},
        {}};
    option_table table = {};
    option_table_add(&table, options);
    cost_options_add(&bench, &table);
    command_spec command = {};
    command.name = "scatter_add", command.arguments = "[options]";
    command.summary = "Adds rows to rows that an index array names.";
    command.options = table.rows;
    int code;
    if (!read_command_line(&command, argc, argv, nullptr, &code)) return code;
    fault why;
    given.width = atoi(widths[width]);
    candidate_list measured;
    if (!cost_options_read(&bench, &measured, &why)) return report_misuse(&command, &why);
    return json_is_possible(bench.json, &why) && measure(&given, measured, int(bench.runs), bench.json, &why)
               ? EXIT_SUCCESS
               : report_failure("scatter_add", &why);
}
