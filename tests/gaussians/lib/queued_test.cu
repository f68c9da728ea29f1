// SPDX-License-Identifier: MIT
// A frame that never waits: the same lists, picture and gradients as one that does, an overflow that shows,
// and a whole step in a CUDA graph that is replayed with other parameters.
#include "kernel_frame.h"
#include <algorithm>
#include <cmath>
#include <string>

namespace {

// A view of a scene with a report, beside the stages that waited. Everything is queued on one stream.
class queued_frame {
  public:
    // room: entries beyond those that the lists need; may be negative
    queued_frame(const scene_choice &choice, int64_t room, distwar_strategy strategy = DISTWAR_FIXED)
        : stages(choice), policy{strategy, 0}, report(std::vector<gs_bin_report>(1)),
          target(std::vector<uint8_t>(stages.scene.target, stages.scene.target + 3 * stages.pixels())),
          d_color(size_t(3 * stages.pixels())), result(3), gradients(choice.count, choice.sh_degree),
          mean2d(size_t(2 * choice.count)) {
        view = stages.view;
        view.ranges = {}, view.workspace = nullptr;
        view.isect_capacity = std::max(stages.view.ranges.isects + room, int64_t(0));
        view.report = report.data();
        gs_view_parts parts = {};
        parts.image = parts.splat_grad = 1, parts.strategy = strategy;
        size_t bytes = 0;
        EXPECT_GS_OK(gs_view_bytes(&view, &parts, &bytes));
        block = std::make_unique<device_vector<char>>(bytes);
        EXPECT_GS_OK(gs_view_place(&view, &gradient, &parts, block->data(), bytes));
        gradient.color = d_color.data();
        gradient.gaussians = *gradients.get();
        gradient.mean2d = mean2d.data();
    }

    void forward(gs_context *context) {
        const gs_loss_image image = {
            {view.camera.width, view.camera.height, view.image.color, target.data(), NULL},
            result.data(),
            d_color.data()};
        EXPECT_GS_OK(gs_forward(&view, context));
        EXPECT_GS_OK(gs_loss(&image, 1, context));
    }
    void backward(gs_context *context) { EXPECT_GS_OK(gs_backward(&view, &gradient, policy, context)); }

    std::vector<float> picture() const {
        std::vector<float> out(size_t(4 * stages.pixels()));
        device_download(out.data(), view.image.color, size_t(3 * stages.pixels()) * sizeof(float));
        device_download(out.data() + 3 * stages.pixels(), view.image.transmittance,
                        size_t(stages.pixels()) * sizeof(float));
        return out;
    }
    // All of them, with mean2d.
    std::vector<double> gradient_values() const {
        reference_gaussians got = gradients.read();
        std::vector<double> out(got.mean, got.mean + reference_gaussians_values(&got));
        reference_gaussians_destroy(&got);
        const std::vector<float> seen = mean2d.read();
        out.insert(out.end(), seen.begin(), seen.end());
        return out;
    }

    kernel_frame stages;
    distwar_policy policy;
    device_vector<gs_bin_report> report;
    device_vector<uint8_t> target;
    device_vector<float> d_color;
    device_vector<double> result;
    device_gaussians gradients;
    device_vector<float> mean2d;
    std::unique_ptr<device_vector<char>> block;
    gs_view view{};
    gs_gradient gradient{};
};

template <typename T>
std::vector<T> downloaded(const T *from, size_t count) {
    std::vector<T> out(count);
    device_download(out.data(), from, count * sizeof(T));
    return out;
}

class Queued : public testing::TestWithParam<scene_choice> {};

TEST_P(Queued, GivesTheBitsOfAFrameThatWaits) {
    for (const int64_t room : {0, 1, 5000}) {
        queued_frame waiting(GetParam(), room), queued(GetParam(), room);
        waiting.view.report = nullptr;
        for (queued_frame *f : {&waiting, &queued}) f->forward(NULL);
        const gs_tile_ranges &expected = waiting.view.ranges, &ranges = queued.view.ranges;
        EXPECT_EQ(ranges.isects, queued.view.isect_capacity);
        gs_bin_report report = queued.report.read()[0];
        EXPECT_EQ(report.isects_needed, expected.isects);
        EXPECT_EQ(report.most_isects_needed, expected.isects);
        queued.view.report = &report;
        ASSERT_GS_OK(gs_bin_wait(&queued.view, NULL));
        EXPECT_EQ(queued.view.isects_needed, expected.isects);
        EXPECT_EQ(ranges.isects, expected.isects);
        EXPECT_EQ(ranges.pixels_per_thread, expected.pixels_per_thread);
        EXPECT_EQ(ranges.split_tiles, expected.split_tiles);
        const size_t tiles = size_t(ranges.tiles_x) * ranges.tiles_y;
        EXPECT_EQ(downloaded(ranges.tile_begin, tiles + 1), downloaded(expected.tile_begin, tiles + 1));
        EXPECT_EQ(downloaded(ranges.splat_index, size_t(ranges.isects)),
                  downloaded(expected.splat_index, size_t(ranges.isects)));
        EXPECT_EQ(queued.picture(), waiting.picture());
        EXPECT_EQ(queued.result.read(), waiting.result.read());
        for (queued_frame *f : {&waiting, &queued}) f->backward(NULL);
        EXPECT_EQ(queued.gradient_values(), waiting.gradient_values());
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Queued, testing::ValuesIn(comparison_scenes()));

const scene_choice some_scene = {21, 160, 2, 2, 61, 47};

// Without settling, the division of work is a guess; it changes rounding alone.
TEST(QueuedEdges, GradientsAgreeWithoutSettling) {
    queued_frame waiting(some_scene, 0), queued(some_scene, 100);
    waiting.view.report = nullptr;
    for (queued_frame *f : {&waiting, &queued}) f->forward(NULL), f->backward(NULL);
    EXPECT_EQ(queued.picture(), waiting.picture());
    EXPECT_LE(relative_norm(queued.gradient_values(), waiting.gradient_values()), 1e-5);
}

TEST(QueuedEdges, AValidDivisionOfWorkIsKept) {
    queued_frame f(some_scene, 0);
    f.view.ranges.pixels_per_thread = 1;
    f.view.ranges.split_tiles = 3;
    f.forward(NULL);
    EXPECT_EQ(f.view.ranges.pixels_per_thread, 1);
    EXPECT_EQ(f.view.ranges.split_tiles, 3);
    f.view.ranges.split_tiles = 1000; // of a larger picture
    f.forward(NULL);
    EXPECT_LE(f.view.ranges.split_tiles, f.view.ranges.tiles_x * f.view.ranges.tiles_y);
    f.backward(NULL);
}

TEST(QueuedEdges, AnOverflowShowsAndReadsNothingBeyondTheLists) {
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_BLOCK}) {
        queued_frame f(some_scene, -1, strategy);
        const int64_t isects = f.stages.view.ranges.isects;
        for (const int64_t capacity : {isects - 1, int64_t(1), int64_t(0)}) {
            f.view.isect_capacity = capacity;
            f.forward(NULL);
            f.backward(NULL);
            for (const float value : f.picture()) ASSERT_TRUE(std::isnan(value));
            EXPECT_TRUE(std::isnan(f.result.read()[0])) << "and so does the loss";
            for (const double value : f.gradient_values()) ASSERT_EQ(value, 0);
            gs_bin_report report = f.report.read()[0];
            EXPECT_EQ(report.isects_needed, isects);
            f.view.report = &report;
            EXPECT_EQ(gs_bin_wait(&f.view, NULL), GS_ISECTS_DO_NOT_FIT);
            f.view.report = f.report.data();
            EXPECT_NE(std::string(gs_last_error()).find(std::to_string(isects)), std::string::npos)
                << gs_last_error();
            EXPECT_EQ(f.view.isects_needed, isects);
        }
    }
}

// The lists' memory has exactly the capacity: what lies behind it must stay.
TEST(QueuedEdges, AnOverflowWritesNothingBeyondTheCapacity) {
    queued_frame f(some_scene, -1);
    const int64_t isects = f.stages.view.ranges.isects;
    ASSERT_GS_OK(gs_project(&f.view, NULL));
    for (const int64_t capacity : {isects - 1, int64_t(7), int64_t(0)}) {
        f.view.isect_capacity = capacity;
        size_t bytes = 0;
        ASSERT_GS_OK(gs_bin_bytes(&f.view, &bytes));
        std::vector<char> expected(bytes + 65536, 77);
        const device_vector<char> workspace(expected);
        f.view.workspace = workspace.data(), f.view.workspace_bytes = bytes;
        ASSERT_GS_OK(gs_bin(&f.view, NULL));
        EXPECT_EQ(f.report.read()[0].isects_needed, isects);
        const std::vector<char> after = workspace.read();
        EXPECT_TRUE(
            std::equal(after.begin() + int64_t(bytes), after.end(), expected.begin() + int64_t(bytes)));
    }
}

TEST(QueuedEdges, TheReportRemembersTheMostThatWasNeeded) {
    queued_frame f(some_scene, 0);
    const int64_t isects = f.stages.view.ranges.isects;
    f.forward(NULL);
    const gs_camera near = f.view.camera;
    f.view.camera.translation[2] += 1000; // all splats become small
    f.forward(NULL);
    const gs_bin_report far = f.report.read()[0];
    EXPECT_LT(far.isects_needed, isects);
    EXPECT_EQ(far.most_isects_needed, isects);
    f.view.camera = near;
    const gs_bin_report cleared = {};
    device_upload(f.report.data(), &cleared, sizeof cleared);
    f.forward(NULL);
    EXPECT_EQ(f.report.read()[0].most_isects_needed, isects);
}

// A gs_bin_report in pinned memory.
struct pinned_report {
    pinned_report() { DEVICE_CHECK(cudaHostAlloc((void **)&of, sizeof *of, cudaHostAllocDefault)); }
    ~pinned_report() { cudaFreeHost(of); }
    gs_bin_report *of = nullptr;
};

TEST_P(Queued, WithAReportInPinnedMemoryGivesTheBitsOfAFrameThatWaits) {
    const pinned_report report;
    queued_frame waiting(GetParam(), 500), queued(GetParam(), 500);
    waiting.view.report = nullptr;
    queued.view.report = report.of;
    const int64_t room = queued.view.isect_capacity, isects = queued.stages.view.ranges.isects;
    for (const int64_t capacity : {isects - 1, int64_t(0), room}) {
        queued.view.isect_capacity = capacity;
        const gs_status expected = isects > capacity ? GS_ISECTS_DO_NOT_FIT : GS_OK;
        EXPECT_GS_OK(gs_forward(&queued.view, NULL));
        EXPECT_EQ(gs_bin_wait(&queued.view, NULL), expected) << gs_last_error();
        EXPECT_EQ(queued.view.isects_needed, isects);
    }
    for (queued_frame *f : {&waiting, &queued}) f->forward(NULL);
    EXPECT_GS_OK(gs_bin_wait(&queued.view, NULL));
    for (queued_frame *f : {&waiting, &queued}) f->backward(NULL);
    EXPECT_EQ(queued.view.ranges.isects, isects);
    EXPECT_EQ(queued.view.ranges.split_tiles, waiting.view.ranges.split_tiles);
    EXPECT_EQ(queued.picture(), waiting.picture());
    EXPECT_EQ(queued.gradient_values(), waiting.gradient_values());
}

TEST(QueuedEdges, AWaitThatCannotEndIsRefused) {
    const pinned_report report;
    queued_frame f(some_scene, 0);
    const auto refused = [&](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    refused(gs_bin_wait(&f.view, NULL), "gs_bin_wait: the view has no lists");
    f.view.report = nullptr;
    f.forward(NULL);
    refused(gs_bin_wait(&f.view, NULL), "gs_bin_wait: report must be given");
    f.view.report = report.of;
    EXPECT_GS_OK(gs_bin(&f.view, NULL));
    EXPECT_GS_OK(gs_bin_wait(&f.view, NULL));
    queued_frame another(some_scene, 0);
    another.view.report = report.of;
    another.forward(NULL);
    EXPECT_GS_OK(gs_bin_wait(&another.view, NULL));
    refused(gs_bin_wait(&f.view, NULL), "gs_bin_wait: gs_bin was not queued with this report");
}

TEST(QueuedEdges, AlphaIsWrittenWhereItIsGiven) {
    queued_frame f(some_scene, -1);
    const size_t pixels = size_t(f.stages.pixels());
    const device_vector<float> alpha(pixels);
    f.view.image.alpha = alpha.data();
    f.forward(NULL);
    for (const float value : alpha.read()) ASSERT_TRUE(std::isnan(value));
    f.view.report = nullptr, f.view.isect_capacity = 0;
    EXPECT_EQ(gs_forward(&f.view, NULL), GS_ISECTS_DO_NOT_FIT);
    queued_frame g(some_scene, 0);
    g.view.image.alpha = alpha.data();
    g.forward(NULL);
    const std::vector<float> got = alpha.read(),
                             transmittance = downloaded(g.view.image.transmittance, pixels);
    for (size_t i = 0; i < pixels; i++) ASSERT_EQ(got[i], 1 - transmittance[i]);
}

// Nothing is read of a scene without Gaussians: its splats may be NULL.
TEST(QueuedEdges, NoGaussiansNeedNoSplats) {
    scene_choice choice = some_scene;
    choice.count = 0;
    for (const bool with_report : {true, false}) {
        queued_frame f(choice, 100);
        f.view.splats = nullptr, f.gradient.splat_grad = nullptr;
        if (!with_report) f.view.report = nullptr;
        f.forward(NULL);
        f.backward(NULL);
        const std::vector<float> picture = f.picture();
        const int64_t pixels = f.stages.pixels();
        for (int64_t i = 0; i < pixels; i++) ASSERT_EQ(picture[size_t(3 * pixels + i)], 1);
    }
}

#ifndef DISTWAR_SIMT

// The stored parameters, on the host: mean, log_scale, quaternion, opacity_logit, sh.
struct parameters {
    explicit parameters(const gs_gaussians &from) {
        for (const auto &[array, values] : arrays_of(from))
            of.push_back(downloaded(array, size_t(from.count * values)));
    }
    void upload(const gs_gaussians &to) const {
        size_t k = 0;
        for (const auto &[array, values] : arrays_of(to)) {
            device_upload(array, of[k].data(), of[k].size() * sizeof(float));
            k++;
        }
    }
    static std::vector<std::pair<float *, int64_t>> arrays_of(const gs_gaussians &g) {
        return {{g.mean, 3},
                {g.log_scale, 3},
                {g.quaternion, 4},
                {g.opacity_logit, 1},
                {g.sh, 3 * (g.sh_degree + 1) * (g.sh_degree + 1)}};
    }
    std::vector<std::vector<float>> of;
};

// A step of training in a graph.
class captured_step {
  public:
    explicit captured_step(queued_frame &frame, const std::vector<device_gaussians *> &moments) {
        DEVICE_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        EXPECT_GS_OK(gs_context_create(nullptr, stream, &context));
        frame.forward(context); // so that nothing is allocated while it captures
        DEVICE_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        run(frame, moments, context);
        DEVICE_CHECK(cudaStreamEndCapture(stream, &graph));
        DEVICE_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
        DEVICE_CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    }
    ~captured_step() {
        cudaGraphExecDestroy(executable);
        cudaGraphDestroy(graph);
        gs_context_destroy(context);
        cudaStreamDestroy(stream);
    }
    void replay() {
        DEVICE_CHECK(cudaGraphLaunch(executable, stream));
        DEVICE_CHECK(cudaStreamSynchronize(stream));
    }
    static void run(queued_frame &frame, const std::vector<device_gaussians *> &moments,
                    gs_context *context) {
        const gs_adam_rates rates = {1e-3f, 1e-3f, 1e-3f, 1e-2f, 1e-2f, 1e-3f, 0};
        frame.forward(context);
        frame.backward(context);
        EXPECT_GS_OK(gs_adam(&frame.view.gaussians, frame.gradients.get(), moments[0]->get(),
                             moments[1]->get(), &rates, 1, context));
    }
    size_t nodes = 0;

  private:
    gs_context *context = nullptr;
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
};

#endif

// Every strategy, since each has a commit of its own; only fixed has the same bits in every run.
TEST(QueuedGraph, ReplaysAWholeStepWithOtherParameters) {
#ifdef DISTWAR_SIMT
    GTEST_SKIP() << "simt has no CUDA graphs; the calls of this test run directly in the others";
#else
    for (const distwar_strategy strategy : {DISTWAR_FIXED, DISTWAR_TREE, DISTWAR_BLOCK}) {
        const scene_choice choice = {4, 3000, 3, 3, 200, 150};
        queued_frame direct(choice, 60000, strategy), replayed(choice, 60000, strategy);
        device_gaussians of_direct[2] = {{choice.count, choice.sh_degree}, {choice.count, choice.sh_degree}};
        device_gaussians of_replayed[2] = {{choice.count, choice.sh_degree},
                                           {choice.count, choice.sh_degree}};
        { // kernels that are loaded late are not loaded during the capture
            queued_frame first(choice, 60000, strategy);
            device_gaussians moments[2] = {{choice.count, choice.sh_degree},
                                           {choice.count, choice.sh_degree}};
            captured_step::run(first, {&moments[0], &moments[1]}, NULL);
        }
        captured_step step(replayed, {&of_replayed[0], &of_replayed[1]});
        std::printf("[          ] %s: %zu nodes\n", distwar_strategy_name(strategy), step.nodes);
        const parameters start(replayed.view.gaussians);
        for (int round = 0; round < 4; round++) {
            // Other lists, other lengths, other culling.
            parameters now = start;
            for (float &value : now.of[3]) value += float(round) - 1.5f;
            for (float &value : now.of[1]) value += 0.2f * float(round) - 0.3f;
            for (const queued_frame *f : {&direct, &replayed}) now.upload(f->view.gaussians);
            captured_step::run(direct, {&of_direct[0], &of_direct[1]}, NULL);
            DEVICE_CHECK(cudaDeviceSynchronize());
            step.replay();
            const gs_bin_report a = direct.report.read()[0], b = replayed.report.read()[0];
            EXPECT_EQ(a.isects_needed, b.isects_needed);
            ASSERT_LE(a.most_isects_needed, direct.view.isect_capacity);
            EXPECT_EQ(replayed.picture(), direct.picture()) << round;
            EXPECT_EQ(replayed.result.read(), direct.result.read());
            const double difference = relative_norm(replayed.gradient_values(), direct.gradient_values());
            EXPECT_LE(difference, strategy == DISTWAR_FIXED ? 0 : 1e-5) << round;
            const parameters after(replayed.view.gaussians);
            EXPECT_NE(after.of, now.of) << "Adam is in the graph";
            if (strategy == DISTWAR_FIXED) EXPECT_EQ(after.of, parameters(direct.view.gaussians).of);
        }
    }
#endif
}

TEST(QueuedGraph, AnOverflowInAReplayShows) {
#ifdef DISTWAR_SIMT
    GTEST_SKIP()
        << "simt has no CUDA graphs; AnOverflowShowsAndReadsNothingBeyondTheLists runs the same calls";
#else
    queued_frame f(some_scene, 500, DISTWAR_TREE); // Adam changes how many intersections are needed
    device_gaussians moments[2] = {{some_scene.count, some_scene.sh_degree},
                                   {some_scene.count, some_scene.sh_degree}};
    captured_step step(f, {&moments[0], &moments[1]});
    const std::vector<float> scale = downloaded(f.view.gaussians.log_scale, size_t(3 * some_scene.count));
    std::vector<float> larger = scale;
    for (float &value : larger) value += 2;
    step.replay();
    EXPECT_TRUE(std::isfinite(f.result.read()[0]));
    device_upload(f.view.gaussians.log_scale, larger.data(), larger.size() * sizeof(float));
    step.replay();
    EXPECT_TRUE(std::isnan(f.result.read()[0]));
    EXPECT_GT(f.report.read()[0].most_isects_needed, f.view.isect_capacity);
    device_upload(f.view.gaussians.log_scale, scale.data(), scale.size() * sizeof(float));
    step.replay();
    EXPECT_TRUE(std::isfinite(f.result.read()[0])) << "the next replay is valid again";
#endif
}

} // namespace
