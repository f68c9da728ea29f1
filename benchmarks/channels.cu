// SPDX-License-Identifier: MIT
// How long the forward and the backward blend take by the number of channels, with and without depth and
// absolute gradients, all in one run.
//
//     channels SCENE.ply --cameras DATA [options] [--benchmark_...]
//
// Three channels are the scene's own, from SH; other numbers are random given colours. A time is the mean over
// the views of one call each, as in render_backward.
#include "device_scene.h"
#include "measure/bench_views.h"
#include "cli/command_line.h"
#include "random.h"
#include "scene.h"
#include <benchmark/benchmark.h>
#include <algorithm>
#include <string>
#include <vector>

namespace {

constexpr int most_channels = 32;

struct features {
    int channels;
    bool depth, absolute;
};

struct bench {
    std::vector<gs_view> views;
    int64_t count = 0;
    // Of the largest view: [most_channels][pixels] and [pixels].
    float *image = nullptr, *d_image = nullptr, *depth = nullptr, *d_depth = nullptr;
    float *colors = nullptr, *d_colors = nullptr; // [count][most_channels]
    float *abs_mean2d = nullptr;
    gs_moments *moments = nullptr;
    cold_timer timer;

    static float *random_array(size_t values) {
        std::vector<float> host(std::min(values, size_t(1) << 22));
        random_stream random = {1};
        for (float &value : host) value = float(2 * random_unit(&random) - 1);
        float *device = device_array<float>(values);
        for (size_t at = 0; at < values; at += host.size())
            device_upload(device + at, host.data(), std::min(host.size(), values - at) * sizeof(float));
        return device;
    }

    void open(const gs_gaussians &host, const bench_views &chosen) {
        timer.open();
        count = host.count;
        size_t pixels = 0;
        for (size_t v = 0; v < chosen.count; v++) pixels = std::max(pixels, pixels_of(chosen.cameras[v]));
        image = device_array<float>(most_channels * pixels);
        d_image = random_array(most_channels * pixels);
        depth = device_array<float>(pixels);
        d_depth = random_array(pixels);
        colors = random_array(size_t(count) * most_channels);
        d_colors = device_array<float>(size_t(count) * most_channels);
        abs_mean2d = device_array<float>(2 * size_t(count)); // asks for the sums; not written here
        moments = device_array<gs_moments>(size_t(count));
        const gs_gaussians gaussians = upload_gaussians(host);
        for (size_t v = 0; v < chosen.count; v++)
            views.push_back(rendered_view(gaussians, chosen.cameras[v]));
    }

    gs_view view_with(gs_view view, const features &wanted) const {
        if (wanted.channels != GS_CHANNELS)
            view.gaussians.color = colors, view.gaussians.channels = wanted.channels;
        view.image.color = image;
        view.image.depth = wanted.depth ? depth : nullptr;
        return view;
    }
    void forward(const gs_view &view) const { check_gs(gs_render(&view, nullptr), "gs_render"); }
    void backward(const gs_view &view, const features &wanted) const {
        gs_gradient gradient = {};
        gradient.color = d_image;
        gradient.depth = wanted.depth ? d_depth : nullptr;
        gradient.abs_mean2d = wanted.absolute ? abs_mean2d : nullptr;
        gradient.moments = moments, gradient.moments_bytes = size_t(count) * sizeof(gs_moments);
        gradient.gaussians.color = d_colors;
        check_gs(gs_render_backward(&view, &gradient, {DISTWAR_TREE, 8}, nullptr), "gs_render_backward");
    }
};

void measure(benchmark::State &state, const bench &b, const features &wanted, bool backward) {
    for (auto _ : state) {
        double sum = 0;
        for (const gs_view &plain : b.views) {
            const gs_view view = b.view_with(plain, wanted);
            b.forward(view); // the image that the backward blend reads; warms up the forward one
            sum += b.timer.milliseconds([&] { backward ? b.backward(view, wanted) : b.forward(view); });
        }
        state.SetIterationTime(sum * 1e-3 / double(b.views.size()));
    }
}

void register_all(const bench &b, const std::string &scene, int repetitions) {
    const auto add = [&](const features &wanted, bool backward) {
        const std::string name = std::string("channels/") + (backward ? "render_backward" : "render") +
                                 "/scene:" + scene + "/channels:" + std::to_string(wanted.channels) +
                                 "/depth:" + (wanted.depth ? "1" : "0") +
                                 "/absolute:" + (wanted.absolute ? "1" : "0");
        benchmark::RegisterBenchmark(
            name.c_str(),
            [&b, wanted, backward](benchmark::State &state) { measure(state, b, wanted, backward); })
            ->Iterations(1)
            ->Repetitions(repetitions)
            ->ReportAggregatesOnly()
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
    };
    for (const int channels : {1, 3, 4, 8, 16, 32})
        for (const bool depth : {false, true}) {
            add({channels, depth, false}, false);
            for (const bool absolute : {false, true}) add({channels, depth, absolute}, true);
        }
}

} // namespace

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    bench_view_options view_options;
    const char *scene, *name = "scene";
    int64_t repetitions = 7;
    option_table table = {};
    const option_spec rows[] = {
        {OPTION_TEXT, "name", 0, &name, 0, 0, nullptr, "the scene's, in the names of the runs", false},
        {OPTION_INT, "repeat", 0, &repetitions, 1, 1000, nullptr, "repetitions of a run", false},
        {}};
    bench_view_options_list(&view_options, &table);
    option_table_add(&table, rows);
    const command_spec command = {
        "channels",
        "SCENE.ply --cameras DATA [options] [--benchmark_...]",
        "Measures the blend by the number of channels, with depth and absolute "
        "gradients and without.",
        "  channels fox.ply --cameras data/fox --name fox --benchmark_out=channels.json\n",
        table.rows,
        1,
        1};
    int code;
    if (!read_command_line(&command, argc, argv, &scene, &code)) return code;
    fault why;
    if (!bench_view_options_check(&view_options, &why)) return report_misuse(&command, &why);
    gs_gaussians gaussians = {};
    bench_views views = {};
    bool done =
        scene_read(scene, SCENE_FINITE, &gaussians, &why) && bench_views_open(&views, &view_options, &why);
    if (done && gaussians.count == 0) done = fail(&why, "%s: holds no Gaussians", scene);
    if (!done) return report_failure("channels", &why);

    bench b;
    b.open(gaussians, views);
    benchmark::AddCustomContext("device", device_name());
    benchmark::AddCustomContext("version", gs_version());
    benchmark::AddCustomContext("scene", scene);
    benchmark::AddCustomContext("gaussians", std::to_string(b.count));
    benchmark::AddCustomContext("views", std::to_string(b.views.size()));
    benchmark::AddCustomContext("width", std::to_string(b.views[0].camera.width));
    benchmark::AddCustomContext("height", std::to_string(b.views[0].camera.height));
    benchmark::AddCustomContext("pixels_per_thread", std::to_string(b.views[0].lists.pixels_per_thread));
    register_all(b, name, int(repetitions));
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return EXIT_SUCCESS;
}
