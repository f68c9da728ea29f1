// SPDX-License-Identifier: MIT
// How fast the flagship's backward blend is on a scene, with every strategy and threshold of libdistwar_gs, with
// cub::WarpReduce, and without what it could not be faster than: floor keeps the tree and drops the commit.
// And the tree with 1, 2 and 4 pixels per thread, with long lists whole (split:0) and split
// (split:1), whatever gs_bin proposes.
//
//     render_backward SCENE.ply --cameras DATA [options] [--benchmark_...]
//
// A time is the mean over the views of one backward blend each, the clearing of the moments with it, by CUDA
// events, after twice the L2 cache was overwritten. Each run is repeated; median and deviation are over
// repetitions. Before a run is timed its moments are compared with those of another strategy.
#include "axes.h"
#include "bench.cuh"
#include "measure/bench_views.h"
#include "cli/command_line.h"
#include "distwar_gs.h"
#include "frames/device_gaussians.h"
#include "scene.h"
#include "render_backward.cuh"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

namespace {

void check_gs(gs_status status, const char *what) {
    if (status != GS_OK) device_give_up("%s: %s", what, gs_last_error());
}

// A view after gs_forward, with memory of its own.
gs_view rendered_view(const gs_gaussians &gaussians, const gs_camera &camera) {
    gs_view view = {};
    view.gaussians = gaussians;
    view.sh_degree_used = gaussians.sh_degree;
    view.camera = camera;
    const gs_view_parts parts = {1, 0, DISTWAR_TREE, 0};
    void *block = nullptr;
    gs_status status;
    do {
        device_free(block);
        view.pair_capacity = view.pairs_needed;
        size_t bytes;
        check_gs(gs_view_bytes(&view, &parts, &bytes), "gs_view_bytes");
        block = device_allocate(bytes);
        check_gs(gs_view_place(&view, nullptr, &parts, block, bytes), "gs_view_place");
        status = gs_forward(&view, nullptr);
    } while (status == GS_PAIRS_DO_NOT_FIT);
    check_gs(status, "gs_forward");
    return view;
}

// The strategies of distwar/strategy.h, then the floor, for comparison only.
enum way { without_commit = DISTWAR_STRATEGY_COUNT, ways };

// libdistwar_gs has no cub; this program adds it.
bool is_measured(int w) {
    return w >= without_commit || w == DISTWAR_CUB || gs_has_strategy(distwar_strategy(w));
}

// How the work is divided among threads.
struct division {
    int pixels; // of a thread; 0: all as gs_bin proposes
    bool split; // long lists, as gs_bin proposes; else none
};

const char *name_of(int w) {
    return w == without_commit ? "floor" : distwar_strategy_name(distwar_strategy(w));
}
bool has_threshold(int w) {
    return w == DISTWAR_SERIAL || w == DISTWAR_BFLY || w == DISTWAR_TREE || w == without_commit;
}

// Everything lives as long as the program.
struct bench {
    std::vector<gs_view> views;
    float *color_gradient = nullptr, *moments = nullptr;
    size_t moments_bytes = 0;
    int64_t count = 0;
    gpu_timer timer;
    std::vector<float> expected; // moments of the first view

    void open(const gs_gaussians &host, const bench_views &chosen) {
        gpu_timer_open(&timer);
        count = host.count;
        // fixed needs the most
        check_gs(gs_moments_bytes(count, GS_CHANNELS, DISTWAR_FIXED, &moments_bytes), "gs_moments_bytes");
        moments = device_array<float>(moments_bytes / sizeof(float));

        size_t values;
        float *gradient = bench_color_gradient(chosen.cameras, chosen.count, &values);
        if (!gradient) device_give_up("no memory for pictures of %zu values", values);
        color_gradient = device_array<float>(values);
        device_upload(color_gradient, gradient, values * sizeof(float));
        free(gradient);

        const gs_gaussians gaussians = device_gaussians_from(&host);
        for (size_t v = 0; v < chosen.count; v++)
            views.push_back(rendered_view(gaussians, chosen.cameras[v]));
        run(views[0], DISTWAR_BFLY, 0, {});
        expected = moments_now();
    }

    backward_input<> input_of(const gs_view &f) const {
        backward_input<> in = {};
        in.splats = f.splats, in.lists = f.lists;
        in.width = f.camera.width, in.height = f.camera.height;
        in.color = f.image.color, in.transmittance = f.image.transmittance, in.n_contrib = f.image.n_contrib;
        in.color_gradient = color_gradient;
        return in;
    }

    void run(gs_view f, int w, int threshold, const division &by) {
        if (by.pixels > 0) f.lists.pixels_per_thread = by.pixels;
        if (by.pixels > 0 && !by.split) f.lists.split_tiles = 0;
        if (w < DISTWAR_STRATEGY_COUNT && w != DISTWAR_CUB) {
            gs_gradient gradient = {};
            gradient.color = color_gradient;
            gradient.moments = reinterpret_cast<gs_moments *>(moments);
            gradient.moments_bytes = moments_bytes;
            check_gs(gs_render_backward(&f, &gradient, {distwar_strategy(w), threshold}, nullptr),
                     "gs_render_backward");
            return;
        }
        const backward_input<> input = input_of(f);
        DEVICE_CHECK(cudaMemsetAsync(moments, 0, size_t(count) * GS_MOMENTS_STRIDE * sizeof(float), nullptr));
        if (w == DISTWAR_CUB)
            DEVICE_CHECK(launch_render_backward(nullptr, input, cub_commit{{{moments, nullptr, 0, 0}, 0}}));
        else
            DEVICE_CHECK(launch_render_backward(
                nullptr, input, floor_commit{{{moments, nullptr, 0, 0}, threshold > 1 ? threshold : 1}}));
    }

    std::vector<float> moments_now() const {
        std::vector<float> found(size_t(count) * GS_MOMENTS_STRIDE);
        device_download(found.data(), moments, found.size() * sizeof(float));
        return found;
    }

    // A floor adds nothing; everyone else what the first strategy adds, by the norm.
    bool is_right(int w, int threshold, const division &by) {
        run(views[0], w, threshold, by);
        const std::vector<float> found = moments_now();
        double difference = 0, size = 0;
        for (size_t i = 0; i < found.size(); i++) {
            const double wanted = w < without_commit ? expected[i] : 0;
            difference += (found[i] - wanted) * (found[i] - wanted);
            size += double(expected[i]) * expected[i];
        }
        return difference <= 1e-8 * size;
    }

    // Commits of a warp in all views, by how many lanes have something to add.
    std::vector<unsigned long long> active_lanes() const {
        std::vector<unsigned long long> counts(33);
        const size_t bytes = counts.size() * sizeof counts[0];
        unsigned long long *commits = device_array<unsigned long long>(counts.size());
        device_clear(commits, bytes);
        for (const gs_view &view : views)
            DEVICE_CHECK(
                launch_render_backward(nullptr, input_of(view), lane_count_commit{{{}, 0}, commits}));
        device_download(counts.data(), commits, bytes);
        device_free(commits);
        return counts;
    }

    double milliseconds(const gs_view &f, int w, int threshold, const division &by) {
        return time_of(timer, [&] { run(f, w, threshold, by); });
    }
};

// Called once a repetition; `checked` is the run's own.
void measure(benchmark::State &state, bench &b, int w, int threshold, const division &by, bool &checked) {
    if (!checked && !b.is_right(w, threshold, by)) {
        state.SkipWithError("wrong moments");
        return;
    }
    checked = true;
    for (auto _ : state) {
        double sum = 0;
        for (const gs_view &view : b.views) sum += b.milliseconds(view, w, threshold, by);
        state.SetIterationTime(sum * 1e-3 / double(b.views.size()));
    }
}

void register_all(bench &b, const std::string &scene, int repetitions) {
    const auto add = [&b, repetitions](const std::string &name, int w, int threshold, division by) {
        register_run(name, repetitions,
                     [&b, w, threshold, by, checked = false](benchmark::State &state) mutable {
                         measure(state, b, w, threshold, by, checked);
                     });
    };
    const auto prefix = [&scene](int w) {
        return std::string("render_backward/") + name_of(w) + "/scene:" + scene;
    };
    for (int w = 0; w < ways; w++)
        for (const int threshold : axes::thresholds)
            if (is_measured(w) && (threshold == 0 || has_threshold(w)))
                add(prefix(w) + "/threshold:" + std::to_string(threshold), w, threshold, {});
    for (const int pixels : {1, 2, 4})
        for (const bool split : {false, true})
            add(prefix(DISTWAR_TREE) + "/threshold:8/pixels:" + std::to_string(pixels) +
                    "/split:" + (split ? "1" : "0"),
                DISTWAR_TREE, 8, {pixels, split});
}

void describe(const bench &b, const char *scene, const bench_view_options &options) {
    double pairs = 0, split = 0; // means over the views
    for (const gs_view &view : b.views) {
        pairs += double(view.lists.pairs) / double(b.views.size());
        split += view.lists.split_tiles / double(b.views.size());
    }
    const gs_view &first = b.views[0];
    const auto number = [](double value) { return std::to_string(int64_t(value + 0.5)); };
    std::string lanes; // numbers with blanks between
    for (const unsigned long long commits : b.active_lanes()) lanes += std::to_string(commits) + " ";
    benchmark::AddCustomContext("active_lanes", lanes);
    add_context();
    benchmark::AddCustomContext("version", gs_version());
    benchmark::AddCustomContext("scene", scene);
    benchmark::AddCustomContext("gaussians", number(double(b.count)));
    benchmark::AddCustomContext("cameras", options.cameras);
    benchmark::AddCustomContext("views", number(double(b.views.size())));
    benchmark::AddCustomContext("width", number(first.camera.width));
    benchmark::AddCustomContext("height", number(first.camera.height));
    benchmark::AddCustomContext("pairs", number(pairs));
    benchmark::AddCustomContext("tiles", number(first.lists.tiles_x * first.lists.tiles_y));
    benchmark::AddCustomContext("split_tiles", number(split));
    benchmark::AddCustomContext("pixels_per_thread", number(first.lists.pixels_per_thread));
}

} // namespace

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    bench_view_options view_options;
    const char *scene, *name = "scene";
    int64_t repetitions = 7;
    option_table table = {};
    const option_spec rows[] = {{OPTION_TEXT, "name", 0, &name, 0, 0, nullptr,
                                 "the scene's, in the names of the runs", false, false, nullptr},
                                {OPTION_INT, "repeat", 0, &repetitions, 1, 1000, nullptr,
                                 "repetitions of a run", false, false, nullptr},
                                {}};
    bench_view_options_list(&view_options, &table);
    option_table_add(&table, rows);
    const command_spec command = {
        "render_backward",
        "SCENE.ply --cameras DATA [options] [--benchmark_...]",
        "Measures the backward blend on a scene, with every strategy and threshold, and its floors.",
        "  render_backward fox.ply --cameras data/fox --name fox --benchmark_out=fox.json\n",
        table.rows,
        1,
        1,
        0};
    int code;
    if (!read_command_line(&command, argc, argv, &scene, &code)) return code;
    fault why;
    if (!bench_view_options_check(&view_options, &why)) return report_misuse(&command, &why);
    gs_gaussians gaussians = {};
    bench_views views = {};
    bool done =
        scene_read(scene, SCENE_FINITE, &gaussians, &why) && bench_views_open(&views, &view_options, &why);
    if (done && gaussians.count == 0) done = fail(&why, "%s: holds no Gaussians", scene);
    if (!done) return report_failure("render_backward", &why);

    bench b;
    b.open(gaussians, views);
    describe(b, scene, view_options);
    register_all(b, name, int(repetitions));
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return EXIT_SUCCESS;
}
