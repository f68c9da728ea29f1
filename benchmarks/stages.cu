// SPDX-License-Identifier: MIT
// Times of the stages of training on a scene, and of its backward blend by every strategy and threshold of
// libdistwar_gs, by cub::WarpReduce, and by `floor`, the tree with stores in place of atomics, as a lower bound.
//
//     stages SCENE.ply --cameras DATA [options] [--benchmark_...]
//
// Of the photographs only names and sizes are used. Every stored SH degree is evaluated. The backward blend starts from a
// fixed random gradient of the image, uniform in -1..1, the same in every view. A time is the mean over the views, by CUDA
// events, after memory of twice the L2 cache was overwritten; each is repeated, and the median counts. The time of
// `stages` is from before project to after project backward. Its counters are the stages, in microseconds; each stage
// finds in the cache what earlier ones left there, as in training. The host reads the number of pairs after render. The
// loss is against a black picture, and Adam's rates are 0. Before a blend is timed, its moments are compared with those
// of another strategy. Under simt times mean nothing.
#include "bench.cuh"
#include "blend_backward.cuh"
#include "cli/command_line.h"
#include "dataset.h"
#include "frame.h"
#include "random.h"
#include "scene.h"
#include <algorithm>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <utility>
#include <vector>
#ifndef __SIMT__
#include <cub/warp/warp_reduce.cuh>
#endif

namespace {

using namespace gs;

// ---- Commits of blend_backward.cuh that are for comparison only: ways of a splat's moments from the warp to memory

#ifndef __SIMT__
// cub::WarpReduce once per value, then one atomic per value by lane 0. A vote skips a warp without active lanes, as in
// the library's strategies.
struct cub_commit : warp_commit<distwar::strategy::atomic> {
    using reduction = cub::WarpReduce<float>;
    struct memory {
        typename reduction::TempStorage storage[tile_pixels / 32];
    };
    DISTWAR_DEVICE void add(bool active, uint32_t index, const float (&field)[GS_SPLAT_GRAD_SUMS],
                            memory &shared) const {
        if (!__any_sync(full_warp, active)) return;
        DISTWAR_UNROLL
        for (int k = 0; k < GS_SPLAT_GRAD_SUMS; k++) {
            const float total = reduction(shared.storage[threadIdx.x / 32]).Sum(field[k]);
            if (threadIdx.x % 32 == 0) atomicAdd(sums.place(index, k), total);
        }
    }
};
#endif

// Floor: stores a warp's sums instead of adding them, so that each splat ends with the sums of its last warp.
struct floor_commit : tree_commit {
    template <int K>
    DISTWAR_DEVICE void add(bool active, uint32_t index, const float (&field)[K], memory &) const {
        if (!active) return;
        float *const to = sums.place(index, 0);
        DISTWAR_UNROLL
        for (int k = 0; k + 4 <= K; k += 4) // as the tree adds them
            *reinterpret_cast<float4 *>(to + k) =
                make_float4(field[k], field[k + 1], field[k + 2], field[k + 3]);
        DISTWAR_UNROLL
        for (int k = K / 4 * 4; k < K; k++) to[k] = field[k];
    }
};

// Adds nothing and counts how many lanes of a warp have something to add.
struct lane_count_commit : warp_commit<distwar::strategy::atomic> {
    unsigned long long *commits; // [33]: by the number of lanes

    DISTWAR_DEVICE void add(bool active, uint32_t, const float (&)[GS_SPLAT_GRAD_SUMS], memory &) const {
        const int lanes = __popc(__ballot_sync(full_warp, active));
        if (threadIdx.x % 32 == 0) atomicAdd(&commits[lanes], 1ull);
    }
};

// ---- the views

struct view_options {
    const char *cameras, *size; // a folder; "WIDTHxHEIGHT" or NULL
    int64_t views, downscale;
    bool center_principal, undistort;
};

bool cameras_open(const view_options &options, std::vector<gs_camera> *out, fault *why) {
    int width = 0, height = 0;
    char rest;
    if (options.size && (sscanf(options.size, "%5dx%5d%c", &width, &height, &rest) != 2 ||
                         std::min(width, height) < 1 || std::max(width, height) > GS_MAX_SIZE))
        return fail(why, "--size needs WIDTHxHEIGHT, each 1 to %d, not '%s'", GS_MAX_SIZE, options.size);
    dataset data = {};
    dataset_options loading = {};
    loading.downscale = int(options.downscale);
    loading.wanted = dataset_no_picture;
    loading.undistort = options.undistort;
    if (!dataset_load(options.cameras, &loading, &data, why)) return false;
    for (size_t i = 0; i < data.view_count && out->size() < size_t(options.views); i += 4) {
        gs_camera camera = data.views[i].camera;
        if (options.center_principal) {
            camera.cx = float(camera.width) / 2;
            camera.cy = float(camera.height) / 2;
        }
        if (width > 0) { // scaled to cover the picture, whose middle is cropped
            const float scale =
                fmaxf(float(width) / float(camera.width), float(height) / float(camera.height));
            camera.fx *= scale, camera.fy *= scale;
            camera.cx = scale * (camera.cx - 0.5f * float(camera.width)) + 0.5f * float(width);
            camera.cy = scale * (camera.cy - 0.5f * float(camera.height)) + 0.5f * float(height);
            camera.width = width, camera.height = height;
        }
        out->push_back(camera);
    }
    dataset_close(&data);
    return true;
}

// ---- what is measured

// The strategies of distwar/strategy.h, block as a shader has it, which clamps at 10, and the floor, for comparison only.
enum way { clamped_block = DISTWAR_STRATEGY_COUNT, without_commit, ways };

bool is_measured(int w) {
#ifndef __SIMT__
    if (w == DISTWAR_CUB) return true; // libdistwar_gs has none; this program adds it
#endif
    return w >= DISTWAR_STRATEGY_COUNT || gs_has_strategy(distwar_strategy(w));
}
const char *name_of(int w) {
    return w == without_commit  ? "floor"
           : w == clamped_block ? "block_clamped"
                                : distwar_strategy_name(distwar_strategy(w));
}
bool has_threshold(int w) {
    return w == DISTWAR_SERIAL || w == DISTWAR_BFLY || w == DISTWAR_TREE || w == without_commit;
}
constexpr int thresholds[] = {0, 2, 3, 4, 6, 8, 12, 16, 24, 33};
constexpr distwar_policy usual = {DISTWAR_TREE, 8}; // of the stages

// Lives as long as the program.
struct bench {
    gs_gaussians gaussians, gradients, first_moment, second_moment; // device
    std::vector<gs_camera> cameras;
    std::vector<frame> frames;         // of each camera, rendered
    std::vector<float> image_gradient; // of the largest view; the first values serve a smaller one
    uint8_t *target = nullptr;         // device: black, of the largest view
    double *loss = nullptr;            // device, [3]
    float *splat_grad = nullptr;       // device: of the strategies
    std::vector<float> expected;       // moments of the first view
    gpu_timer timer;

    void open(const gs_gaussians &host) {
        gpu_timer_open(&timer);
        gaussians = device_gaussians_from(&host);
        for (gs_gaussians *shaped : {&gradients, &first_moment, &second_moment})
            *shaped = device_gaussians_open(host.count, host.sh_degree);
        splat_grad = device_array<float>(size_t(host.count) * GS_SPLAT_GRAD_STRIDE);
        size_t values = 0;
        for (const gs_camera &camera : cameras)
            values = std::max(values, GS_CHANNELS * camera_pixels(&camera));
        target = device_array<uint8_t>(values);
        device_clear(target, values);
        loss = device_array<double>(3);
        random_stream random = {1};
        image_gradient.resize(values);
        for (float &value : image_gradient) value = float(2 * random_unit(&random) - 1);
        frames.resize(cameras.size());
        for (size_t v = 0; v < frames.size(); v++) {
            frames[v].screen = SCREEN_SIGNED; // as other rasterisers: no absolute sums
            forward(v);
            frame_set_gradient(&frames[v], image_gradient.data());
        }
        run(0, DISTWAR_BFLY, 0);
        expected = moments_now();
    }

    void forward(size_t v) {
        const float black[GS_CHANNELS] = {};
        frame_project(&frames[v], &gaussians, gaussians.sh_degree, &cameras[v], 1);
        do frame_draw(&frames[v], 0, 1, black);
        while (!frame_settle(&frames[v])); // the first pass only counts
    }
    void backward(size_t v) {
        frame_render_backward(&frames[v], usual);
        frame_project_backward(&frames[v], &gradients, false, nullptr);
    }
    void compare(size_t v) {
        gs_loss_image against = {};
        against.images.target = target;
        against.result = loss;
        frame_loss(&frames[v], &against, true);
    }

    backward_input<> input_of(size_t v) const {
        const gs_view &view = frames[v].view;
        backward_input<> in = {};
        in.splats = view.splats, in.ranges = view.ranges;
        in.width = view.camera.width, in.height = view.camera.height;
        in.color = view.image.color, in.transmittance = view.image.transmittance;
        in.n_contrib = view.image.n_contrib;
        in.color_gradient = static_cast<const float *>(frames[v].color_gradient.memory);
        return in;
    }

    // The backward blend of a view alone, the clearing of the moments with it.
    void run(size_t v, int w, int threshold) {
        if (w < without_commit && w != DISTWAR_CUB) {
            gs_gradient gradient = {};
            gradient.block_limit = w == clamped_block ? 10 : 0;
            const distwar_strategy strategy = w == clamped_block ? DISTWAR_BLOCK : distwar_strategy(w);
            gradient.color = static_cast<float *>(frames[v].color_gradient.memory);
            gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(splat_grad);
            GS_CHECK(gs_render_backward(&frames[v].view, &gradient, {strategy, threshold}, nullptr));
            return;
        }
        const backward_input<> input = input_of(v);
        DEVICE_CHECK(cudaMemsetAsync(
            splat_grad, 0, size_t(gaussians.count) * GS_SPLAT_GRAD_STRIDE * sizeof(float), nullptr));
#ifndef __SIMT__
        if (w == DISTWAR_CUB) {
            DEVICE_CHECK(
                launch_render_backward(nullptr, input, cub_commit{{{splat_grad, nullptr, 0, 0}, 0}}));
            return;
        }
#endif
        DEVICE_CHECK(launch_render_backward(
            nullptr, input, floor_commit{{{splat_grad, nullptr, 0, 0}, threshold > 1 ? threshold : 1}}));
    }

    std::vector<float> moments_now() const {
        return host_copy<float>(splat_grad, size_t(gaussians.count) * GS_SPLAT_GRAD_STRIDE);
    }

    // Compares with the first strategy's moments, by the norm; not a floor's, which are wrong, nor a clamp's (tests/).
    bool is_right(int w, int threshold) {
        run(0, w, threshold);
        return w >= DISTWAR_STRATEGY_COUNT || relative_error(moments_now(), expected) <= 1e-4;
    }

    // Commits of a warp in all views, by how many lanes have something to add.
    std::vector<unsigned long long> active_lanes() const {
        unsigned long long *const commits = device_copy(std::vector<unsigned long long>(33));
        for (size_t v = 0; v < frames.size(); v++)
            DEVICE_CHECK(launch_render_backward(nullptr, input_of(v), lane_count_commit{{{}, 0}, commits}));
        const auto counts = host_copy<unsigned long long>(commits, 33);
        device_free(commits);
        return counts;
    }

    // Sets the time of a repetition: the mean over the views of what the call queues.
    template <typename Launch>
    void time_views(benchmark::State &state, const Launch &launch_once) {
        for (auto _ : state) {
            double sum = 0;
            for (size_t v = 0; v < frames.size(); v++) sum += time_of(timer, [&] { launch_once(v); });
            state.SetIterationTime(sum * 1e-3 / double(frames.size()));
        }
    }
};

void measure_stages(benchmark::State &state, bench &b) {
    double sums[STAGES] = {};
    for (size_t v = 0; v < b.frames.size(); v++) b.backward(v); // makes room
    for (size_t v = 0; v < b.frames.size(); v++) {
        stage_clock clock;
        stage_clock_open(&clock);
        gpu_timer_scrub(&b.timer);
        b.frames[v].clock = &clock;
        stage_clock_start(&clock);
        b.forward(v);
        stage_clock_mark(&clock, STAGE_LOSS);
        b.backward(v);
        stage_clock_mark(&clock, STAGE_ADAM);
        stage_clock_mark(&clock, STAGE_DENSITY);
        b.frames[v].clock = nullptr;
        stage_clock_close(&clock);
        for (int i = 0; i < STAGES; i++) sums[i] += clock.milliseconds[i];
    }
    b.time_views(state, [&b](size_t v) {
        b.forward(v);
        b.backward(v);
    });
    for (const stage i :
         {STAGE_PROJECT, STAGE_BIN, STAGE_RENDER, STAGE_RENDER_BACKWARD, STAGE_PROJECT_BACKWARD})
        state.counters[stage_name(i)] = 1e3 * sums[i] / double(b.frames.size());
}

void measure_loss(benchmark::State &state, bench &b) {
    for (size_t v = 0; v < b.frames.size(); v++) b.compare(v); // makes room
    b.time_views(state, [&b](size_t v) { b.compare(v); });
    for (frame &f : b.frames) frame_set_gradient(&f, b.image_gradient.data()); // the loss replaced it
}

// A step that moves nothing.
void measure_adam(benchmark::State &state, bench &b) {
    b.time_views(state, [&b](size_t) {
        const gs_adam_rates none = {};
        GS_CHECK(gs_adam(&b.gaussians, &b.gradients, &b.first_moment, &b.second_moment, &none, 1, nullptr));
    });
}

void register_all(bench &b, const std::string &name, int repetitions) {
    const std::string scene = "/scene:" + name;
    const auto right = [] { return static_cast<const char *>(nullptr); };
    const auto add = [&](const char *run, void (*measure)(benchmark::State &, bench &)) {
        register_run(run + scene, repetitions, right,
                     [=, &b](benchmark::State &state) { measure(state, b); });
    };
    add("stages", measure_stages);
    add("loss", measure_loss);
    add("adam", measure_adam);
    for (int w = 0; w < ways; w++)
        for (const int threshold : thresholds) {
            if (!is_measured(w) || (threshold > 0 && !has_threshold(w))) continue;
            register_run(
                std::string("render_backward/") + name_of(w) + scene +
                    "/threshold:" + std::to_string(threshold),
                repetitions, [=, &b] { return b.is_right(w, threshold) ? nullptr : "wrong moments"; },
                [=, &b](benchmark::State &state) {
                    b.time_views(state, [&](size_t v) { b.run(v, w, threshold); });
                });
        }
}

void describe(const bench &b, const char *scene, const view_options &options) {
    double pairs = 0; // the mean over the views
    for (const frame &f : b.frames) pairs += double(f.view.ranges.isects) / double(b.frames.size());
    std::string lanes; // numbers with blanks between
    for (const unsigned long long commits : b.active_lanes()) lanes += std::to_string(commits) + " ";
    add_context();
    const std::pair<const char *, std::string> facts[] = {{"active_lanes", lanes},
                                                          {"version", gs_version()},
                                                          {"scene", scene},
                                                          {"cameras", options.cameras},
                                                          {"gaussians", std::to_string(b.gaussians.count)},
                                                          {"views", std::to_string(b.frames.size())},
                                                          {"width", std::to_string(b.cameras[0].width)},
                                                          {"height", std::to_string(b.cameras[0].height)},
                                                          {"pairs", std::to_string(int64_t(pairs + 0.5))}};
    for (const auto &[key, value] : facts) benchmark::AddCustomContext(key, value);
}

} // namespace

int main(int argc, char **argv) {
    // Its own help, not Google Benchmark's.
    if (argc < 2 || strcmp(argv[1], "--help") != 0) benchmark::Initialize(&argc, argv);
    view_options views = {nullptr, nullptr, 12, 1, false, false};
    const char *scene, *name = "scene";
    int64_t repetitions = 7;
    const auto row = [](option_kind kind, const char *option, void *at, double least, double most,
                        const char *help) {
        return option_spec{kind, option, 0, at, least, most, nullptr, help, false, false, nullptr};
    };
    const option_spec rows[] = {
        row(OPTION_TEXT, "cameras", &views.cameras, 0, 0, "the folder with the photographs; required"),
        row(OPTION_INT, "views", &views.views, 1, INFINITY, "most views to measure, every fourth by name"),
        row(OPTION_INT, "downscale", &views.downscale, 1, 64, "divide the sides of pictures by this"),
        row(OPTION_TEXT, "size", &views.size, 0, 0,
            "scale pictures to cover WIDTHxHEIGHT, crop their middle"),
        row(OPTION_FLAG, "center-principal", &views.center_principal, 0, 0,
            "move the principal points to the middle of the pictures"),
        row(OPTION_FLAG, "undistort", &views.undistort, 0, 0, "make pinhole pictures of fisheyes too"),
        row(OPTION_TEXT, "name", &name, 0, 0, "the scene's, in the names of the runs"),
        row(OPTION_INT, "repeat", &repetitions, 1, 1000, "repetitions of a run"),
        {}};
    const command_spec command = {"stages",
                                  "SCENE.ply --cameras DATA [options] [--benchmark_...]",
                                  "Measures the stages of training on a scene, and its backward blend with\n"
                                  "every strategy and threshold.",
                                  "  stages fox.ply --cameras data/fox --name fox --benchmark_out=fox.json\n",
                                  rows,
                                  1,
                                  1,
                                  0};
    int code;
    if (!read_command_line(&command, argc, argv, &scene, &code)) return code;
    fault why;
    bench b;
    gs_gaussians host = {};
    if (!views.cameras) {
        fail(&why, "--cameras is missing: the views to measure on");
        return report_misuse(&command, &why);
    }
    bool done = scene_read(scene, SCENE_FINITE, &host, &why) && cameras_open(views, &b.cameras, &why);
    if (done && host.count == 0) done = fail(&why, "%s: holds no Gaussians", scene);
    if (!done) return report_failure("stages", &why);
    b.open(host);
    describe(b, scene, views);
    register_all(b, name, int(repetitions));
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return EXIT_SUCCESS;
}
