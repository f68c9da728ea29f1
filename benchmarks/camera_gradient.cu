// SPDX-License-Identifier: MIT
// What it costs to sum the gradient by the camera: every Gaussian adds 19 values to the same 19 sums.
//
//     camera_gradient [--repeat N] [--json FILE]
//
// Two phases. "project backward": gs_project_backward without and with gs_gradient.camera, SH of degree 3,
// every Gaussian with a gradient. "sum": the sums alone, of values that a thread computes from its index, by
//   atomic  an atomicAdd a value
//   tree    reduce_tree with a uniform key: an atomic instruction a warp
//   rows    as libdistwar_gs: a tree a warp, whose sums are written as a row; two kernels sum the rows
//   cub     the values are written as rows, which cub::DeviceReduce sums; not on the CPU
// Before a method is timed, its sums must be exact: all values are -1, 0 or 1. On the CPU it only checks.
#include "strategies/bench_options.h"
#include "project/camera_gradient.cuh"
#include "cli/command_line.h"
#include "device.h"
#include "gpu_timer.h"
#include "launch.cuh"
#include "random.h"
#include "timing.h"
#include <distwar/reduce.cuh>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#ifndef __SIMT__
#include <cub/device/device_reduce.cuh>
#endif

using namespace gs;

namespace {

enum { BLOCK = 256, SH_DEGREE = 3, SH_FLOATS = 48 };

enum method { ATOMIC, TREE, ROWS, CUB, METHODS };
const char *const method_names[METHODS] = {"atomic", "tree", "rows", "cub"};

struct measurement {
    const char *phase, *method;
    int64_t count;
    timing times;
};

struct bench {
    int runs;
    gpu_timer timer;
    std::vector<measurement> results;
};

template <typename Work>
void measure(bench *b, const char *phase, const char *method, int64_t count, const Work &work) {
    measurement what = {phase, method, count, {}};
#ifndef __SIMT__
    std::vector<double> times;
    for (int run = 0; run < b->runs; ++run) {
        gpu_timer_start(&b->timer);
        work();
        times.push_back(gpu_timer_stop(&b->timer));
    }
    what.times = timing_of_runs(times.data(), times.size());
#else
    (void)work;
#endif
    b->results.push_back(what);
}

// ---- the sum alone

struct alignas(16) value_row {
    float of[camera_row_floats];
};

__host__ __device__ float value_of(int64_t i, int k) {
    return float((i * 7 + i / 32 + k) % 3 - 1);
}

template <method How>
__global__ void __launch_bounds__(BLOCK) sum_kernel(int64_t count, float *sums, value_row *rows) {
    const int64_t i = int64_t(blockIdx.x) * BLOCK + threadIdx.x;
    const bool exists = i < count;
    camera_terms<true> terms;
    for (int k = 0; k < CAMERA_TERMS; k++) terms.value[k] = value_of(i, k);
    const distwar::record<float> sink = {sums, camera_row_floats};
    if constexpr (How == ATOMIC) {
        if (exists) sink.add(0, terms.value);
    } else if constexpr (How == TREE) {
        distwar::reduce_tree(distwar::all_lanes, exists, distwar::uniform_key<int>{0}, terms.value, sink);
    } else if constexpr (How == ROWS) {
        const int64_t warp = i / 32;
        if (32 * warp < count) store_warp_total(exists, terms, rows[warp].of);
    } else if (exists) {
        value_row row = {};
        for (int k = 0; k < CAMERA_TERMS; k++) row.of[k] = terms.value[k];
        rows[i] = row;
    }
}

const gs_camera plain_camera = {100,       100,  100,        100, 50, 50, {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                {0, 0, 0}, 0.2f, GS_PINHOLE, {},  0};

struct sum_memory_of {
    float *sums;
    gs_camera_gradient *gradient;
    value_row *rows;
    void *temporary;
    size_t temporary_bytes;
};

#ifndef __SIMT__
struct add_rows {
    __device__ value_row operator()(const value_row &a, const value_row &b) const {
        value_row sum;
        for (int k = 0; k < camera_row_floats; k++) sum.of[k] = a.of[k] + b.of[k];
        return sum;
    }
};
#endif

template <method How>
void sum_by(const sum_memory_of &m, int64_t count) {
    value_row *const rows =
        How == ROWS ? reinterpret_cast<value_row *>(camera_sums_in(m.gradient).rows) : m.rows;
    device_clear(m.sums, sizeof(value_row));
    DEVICE_CHECK(launch(nullptr, blocks_for(count, BLOCK), BLOCK, sum_kernel<How>, count, m.sums, rows));
    if (How == ROWS) DEVICE_CHECK(launch_camera_sums(nullptr, plain_camera, count, m.gradient));
#ifndef __SIMT__
    size_t bytes = m.temporary_bytes;
    if (How == CUB)
        DEVICE_CHECK(cub::DeviceReduce::Reduce(m.temporary, bytes, rows,
                                               reinterpret_cast<value_row *>(m.sums), int(count), add_rows(),
                                               value_row{}));
#endif
}

template <method How>
bool measure_sum(bench *b, const sum_memory_of &m, int64_t count, fault *why) {
    double expected[CAMERA_TERMS] = {};
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < CAMERA_TERMS; k++) expected[k] += double(value_of(i, k));
    sum_by<How>(m, count);
    float got[CAMERA_TERMS];
    device_download(got, m.sums, sizeof got);
    if (How == ROWS) {
        gs_camera_gradient gradient;
        device_download(&gradient, m.gradient, sizeof gradient);
        for (int r = 0; r < 3; r++) {
            got[TERM_POINT + r] = gradient.twist[3 + r] - float(expected[TERM_CENTER + r]);
            got[TERM_CENTER + r] = gradient.twist[3 + r] - float(expected[TERM_POINT + r]);
            for (int c = 0; c < 3; c++) got[TERM_TURN + 3 * r + c] = gradient.matrix[4 * r + c];
        }
        for (int k = 0; k < 4; k++) got[TERM_FOCAL + k] = gradient.intrinsics[k];
    }
    for (int k = 0; k < CAMERA_TERMS; k++)
        if (!(got[k] == float(expected[k])))
            return fail(why, "WRONG: value %d of %lld Gaussians by %s: %g, not %g", k, (long long)count,
                        method_names[How], double(got[k]), expected[k]);
    measure(b, "sum", method_names[How], count, [&] { sum_by<How>(m, count); });
    return true;
}

bool measure_sums(bench *b, int64_t count, fault *why) {
    sum_memory_of m = {};
    m.sums = static_cast<float *>(device_allocate(sizeof(value_row)));
    m.gradient = static_cast<gs_camera_gradient *>(device_allocate(camera_gradient_bytes(count)));
    m.rows = static_cast<value_row *>(device_allocate(size_t(count) * sizeof(value_row)));
    bool done = measure_sum<ATOMIC>(b, m, count, why) && measure_sum<TREE>(b, m, count, why) &&
                measure_sum<ROWS>(b, m, count, why);
#ifndef __SIMT__
    auto *const to = reinterpret_cast<value_row *>(m.sums);
    DEVICE_CHECK(cub::DeviceReduce::Reduce(nullptr, m.temporary_bytes, m.rows, to, int(count), add_rows(),
                                           value_row{}));
    m.temporary = device_allocate(m.temporary_bytes);
    done = done && measure_sum<CUB>(b, m, count, why);
    device_free(m.temporary);
#endif
    device_free(m.rows);
    device_free(m.gradient);
    device_free(m.sums);
    return done;
}

// ---- project backward

float *random_array(int64_t values, float low, float high) {
    std::vector<float> host{};
    host.resize(size_t(values));
    random_stream random = random_at(1, 0, uint64_t(values), 0);
    for (float &value : host) value = low + (high - low) * float(random_unit(&random));
    auto *const array = static_cast<float *>(device_allocate(host.size() * sizeof(float)));
    device_upload(array, host.data(), host.size() * sizeof(float));
    return array;
}

gs_gaussians random_gaussians(int64_t count) {
    gs_gaussians g = {};
    g.count = count, g.sh_degree = SH_DEGREE;
    g.mean = random_array(3 * count, -1, 1);
    g.log_scale = random_array(3 * count, -6, -4);
    g.quaternion = random_array(4 * count, -1, 1);
    g.opacity_logit = random_array(count, 0, 3);
    g.sh = random_array(SH_FLOATS * count, 0.1f, 0.3f);
    return g;
}

void free_gaussians(const gs_gaussians &g) {
    for (float *array : {g.mean, g.log_scale, g.quaternion, g.opacity_logit, g.sh}) device_free(array);
}

bool measure_project_backward(bench *b, int64_t count, fault *why) {
    gs_view view = {};
    view.gaussians = random_gaussians(count);
    view.camera = plain_camera;
    view.camera.translation[2] = 4; // all are in the picture
    view.sh_degree_used = SH_DEGREE;
    view.splats = static_cast<gs_splat *>(device_allocate(size_t(count) * sizeof(gs_splat)));
    gs_gradient gradient = {};
    gradient.gaussians = random_gaussians(count);
    gradient.moments = reinterpret_cast<gs_moments *>(random_array(count * GS_MOMENTS_STRIDE, -1, 1));
    gradient.mean2d = random_array(2 * count, 0, 0);
    void *const camera = device_allocate(camera_gradient_bytes(count));
    gradient.camera_bytes = camera_gradient_bytes(count);
    bool done = gs_project(&view, nullptr) == GS_OK;
    for (const bool with_camera : {false, true}) {
        gradient.camera = with_camera ? static_cast<gs_camera_gradient *>(camera) : nullptr;
        const auto backward = [&] { done = done && gs_project_backward(&view, &gradient, nullptr) == GS_OK; };
        backward();
        measure(b, "project backward", with_camera ? "with camera" : "without", count, backward);
    }
    free_gaussians(view.gaussians);
    free_gaussians(gradient.gaussians);
    for (void *memory : {static_cast<void *>(view.splats), static_cast<void *>(gradient.moments),
                         static_cast<void *>(gradient.mean2d), camera})
        device_free(memory);
    return done || fail(why, "%s", gs_last_error());
}

// ---- results

void print_table(const bench &b) {
#ifdef __SIMT__
    printf("%zu measurements would have been made; all sums are exact\n", b.results.size());
#else
    printf("%s; ms, medians of %d runs (smallest and largest)\n", device_name(), b.runs);
    for (const measurement &m : b.results)
        printf("%-16s %8lld Gaussians  %-12s %9.4f  (%.4f %.4f)\n", m.phase, (long long)m.count, m.method,
               m.times.median, m.times.minimum, m.times.maximum);
#endif
}

void describe(json_writer *json, const void *subject) {
    const bench &b = *static_cast<const bench *>(subject);
    json_begin(json, nullptr, '{');
    json_put_text(json, "benchmark", "camera_gradient");
    json_put_text(json, "device", device_name());
    json_put_integer(json, "runs", b.runs);
    json_begin(json, "measurements", '[');
    for (const measurement &m : b.results) {
        json_begin(json, nullptr, '{');
        json_put_text(json, "phase", m.phase);
        json_put_text(json, "method", m.method);
        json_put_integer(json, "gaussians", m.count);
        json_put_number(json, "median_ms", m.times.median);
        json_put_number(json, "minimum_ms", m.times.minimum);
        json_put_number(json, "maximum_ms", m.times.maximum);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

} // namespace

int main(int argc, char **argv) {
    bench_options options = bench_options_default();
    const option_spec specs[] = {{OPTION_INT, "repeat", 0, &options.runs, 1, MAX_RUNS, nullptr,
                                  "timed runs; the median counts", false},
                                 {OPTION_TEXT, "json", 0, &options.json, 0, 0, nullptr,
                                  "write the numbers to this file; -: to stdout", false},
                                 {}};
    const command_spec command = {"camera_gradient",
                                  "[options]",
                                  "Compares ways to sum the gradient by a camera over all Gaussians.",
                                  nullptr,
                                  specs,
                                  0,
                                  0};
    int code;
    if (!read_command_line(&command, argc, argv, nullptr, &code)) return code;
    fault why;
    if (!json_is_possible(options.json, &why)) return report_failure("camera_gradient", &why);
    bench b = {};
    b.runs = int(options.runs);
    bool done = true;
#ifdef __SIMT__
    const int64_t counts[] = {1000};
#else
    const int64_t counts[] = {100000, 1000000, 4000000};
    gpu_timer_open(&b.timer);
#endif
    for (const int64_t count : counts)
        done = done && measure_project_backward(&b, count, &why) && measure_sums(&b, count, &why);
    if (done && !json_is_stdout(options.json)) print_table(b);
    if (done && options.json) done = json_save(options.json, describe, &b, &why);
#ifndef __SIMT__
    gpu_timer_close(&b.timer);
#endif
    return done ? EXIT_SUCCESS : report_failure("camera_gradient", &why);
}
