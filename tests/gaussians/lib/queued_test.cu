// SPDX-License-Identifier: MIT
// Passes that are queued and settled later: the same lists, picture and gradients as in one call, an overflow that shows,
// and a whole step in a CUDA graph that is replayed with other parameters.
#include "filled_context.h"
#include "kernel_frame.h"
#include <algorithm>
#include <cmath>
#include <string>

namespace {

// A view of a scene beside the stages that have settled. Everything is queued on one stream.
class queued_frame {
  public:
    // room: entries beyond those that the lists need; may be negative
    queued_frame(const scene_choice &choice, int64_t room, distwar_strategy strategy = DISTWAR_FIXED,
                 gs_context *context = NULL)
        : stages(choice), policy{strategy, 0},
          target(std::vector<uint8_t>(stages.scene.target, stages.scene.target + 3 * stages.pixels())),
          d_color(size_t(3 * stages.pixels())), splat_grad(size_t(choice.count)), result(3),
          gradients(choice.count, choice.sh_degree), mean2d(size_t(2 * choice.count)),
          view(stages.view, context) {
        view.ranges = {}, view.image = {};
        view.memory.isect_capacity = std::max(stages.view.ranges.isects + room, int64_t(0));
        gradient.color = d_color.data(), gradient.splat_grad = splat_grad.data();
        gradient.gaussians = *gradients.get();
        gradient.mean2d = mean2d.data();
    }

    void forward(gs_context *context) {
        EXPECT_GS_OK(gs_project(&view, context));
        EXPECT_GS_OK(gs_bin(&view, context));
        EXPECT_GS_OK(gs_render(&view, context));
        loss(context);
    }
    void loss(gs_context *context) {
        const gs_loss_image image = {
            {view.camera.width, view.camera.height, view.image.color, target.data(), NULL},
            result.data(),
            d_color.data()};
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
    device_vector<uint8_t> target;
    device_vector<float> d_color;
    device_vector<gs_splat_grad> splat_grad;
    device_vector<double> result;
    device_gaussians gradients;
    device_vector<float> mean2d;
    own_view view;
    gs_gradient gradient{};
};

template <typename T>
std::vector<T> downloaded(const T *from, size_t count) {
    std::vector<T> out(count);
    device_download(out.data(), from, count * sizeof(T));
    return out;
}

class Queued : public testing::TestWithParam<scene_choice> {};

TEST_P(Queued, GivesTheBitsOfOneCall) {
    for (const int64_t room : {0, 1, 5000}) {
        queued_frame waiting(GetParam(), room), queued(GetParam(), room);
        EXPECT_GS_OK(gs_forward(&waiting.view, NULL));
        waiting.loss(NULL);
        queued.forward(NULL);
        const gs_tile_ranges &expected = waiting.view.ranges, &ranges = queued.view.ranges;
        EXPECT_EQ(ranges.isects, queued.stages.view.ranges.isects + room);
        ASSERT_GS_OK(gs_settle(&queued.view, NULL));
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
        EXPECT_GS_OK(gs_settle(&queued.view, NULL)) << "again";
        EXPECT_EQ(ranges.isects, expected.isects);
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Queued, testing::ValuesIn(comparison_scenes()));

const scene_choice some_scene = {21, 160, 2, 2, 61, 47};

// Without settling, the division of work is a guess; it changes rounding alone.
TEST(QueuedEdges, GradientsAgreeWithoutSettling) {
    queued_frame waiting(some_scene, 0), queued(some_scene, 100);
    for (queued_frame *f : {&waiting, &queued}) f->forward(NULL);
    EXPECT_GS_OK(gs_settle(&waiting.view, NULL));
    for (queued_frame *f : {&waiting, &queued}) f->backward(NULL);
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
            f.view.memory.isect_capacity = capacity;
            f.forward(NULL);
            f.backward(NULL);
            for (const float value : f.picture()) ASSERT_TRUE(std::isnan(value));
            EXPECT_TRUE(std::isnan(f.result.read()[0])) << "and so does the loss";
            for (const double value : f.gradient_values()) ASSERT_EQ(value, 0);
            for (const char *when : {"first", "again"}) {
                EXPECT_EQ(gs_settle(&f.view, NULL), GS_ISECTS_DO_NOT_FIT) << when;
                EXPECT_NE(std::string(gs_last_error()).find(std::to_string(isects)), std::string::npos)
                    << gs_last_error();
                EXPECT_EQ(f.view.isects_needed, isects);
                EXPECT_EQ(f.view.ranges.isects, capacity);
                EXPECT_EQ(f.view.memory.isect_capacity, isects + isects / 4);
            }
        }
        f.forward(NULL);
        EXPECT_GS_OK(gs_settle(&f.view, NULL)) << "there is room now";
    }
}

// The one rule of growth: before there is no room left, to five quarters of what is needed.
TEST(QueuedEdges, RoomGrowsBeforeThereIsNone) {
    queued_frame f(some_scene, 0);
    const int64_t isects = f.stages.view.ranges.isects;
    for (const int64_t room : {isects + isects / 8, isects + isects / 8 - 1}) {
        f.view.memory.isect_capacity = room;
        f.forward(NULL);
        ASSERT_GS_OK(gs_settle(&f.view, NULL));
        EXPECT_EQ(f.view.memory.isect_capacity, room == isects + isects / 8 ? room : isects + isects / 4);
    }
}

// The lists' memory has exactly the capacity: what lies behind it must stay.
TEST(QueuedEdges, AnOverflowWritesNothingBeyondTheCapacity) {
    for (const int64_t missing : {int64_t(1), int64_t(1) << 40}) {
        filled_context context(77, 65536);
        queued_frame f(some_scene, -missing, DISTWAR_TREE, context);
        f.forward(context);
        EXPECT_EQ(gs_settle(&f.view, context), GS_ISECTS_DO_NOT_FIT);
        EXPECT_TRUE(context.guards_hold());
    }
}

TEST(QueuedEdges, SeveralPassesMayWaitToBeSettled) {
    queued_frame one(some_scene, 100), other({21, 160, 2, 2, 45, 47}, 100), tight(some_scene, -1);
    for (queued_frame *f : {&one, &other, &tight}) f->forward(NULL);
    EXPECT_EQ(gs_settle(&tight.view, NULL), GS_ISECTS_DO_NOT_FIT);
    for (queued_frame *f : {&other, &one}) {
        EXPECT_GS_OK(gs_settle(&f->view, NULL));
        EXPECT_EQ(f->view.isects_needed, f->stages.view.ranges.isects);
    }
}

TEST(QueuedEdges, AWaitThatCannotEndIsRefused) {
    queued_frame f(some_scene, 0), another(some_scene, 0);
    filled_context other;
    const auto refused = [&](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    refused(gs_settle(&f.view, NULL), "gs_settle: the view has no lists");
    f.forward(NULL);
    refused(gs_settle(&f.view, other), "gs_settle: gs_bin was not queued in this context");
    for (int k = 0; k < 64; k++) ASSERT_GS_OK(gs_bin(&another.view, NULL));
    refused(gs_settle(&f.view, NULL), "gs_settle: gs_bin was not queued in this context, or too many since");
    EXPECT_GS_OK(gs_settle(&another.view, NULL));
}

TEST(QueuedEdges, AlphaIsWrittenWhereItIsGiven) {
    queued_frame f(some_scene, -1);
    const size_t pixels = size_t(f.stages.pixels());
    const device_vector<float> alpha(pixels);
    f.view.image.alpha = alpha.data();
    f.forward(NULL);
    for (const float value : alpha.read()) ASSERT_TRUE(std::isnan(value));
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
    for (const bool settles : {true, false}) {
        queued_frame f(choice, 100);
        f.view.splats = nullptr, f.gradient.splat_grad = nullptr;
        f.forward(NULL);
        if (settles) {
            EXPECT_GS_OK(gs_settle(&f.view, NULL));
        }
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
        // So that nothing is allocated while it captures.
        const int64_t isects = frame.view.memory.isect_capacity;
        EXPECT_GS_OK(gs_reserve(&frame.view, frame.policy.strategy, isects, context));
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
    gs_status settle(queued_frame &frame) { return gs_settle(&frame.view, context); }
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
            ASSERT_GS_OK(gs_settle(&direct.view, NULL));
            ASSERT_GS_OK(step.settle(replayed));
            EXPECT_EQ(direct.view.isects_needed, replayed.view.isects_needed);
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
    EXPECT_EQ(step.settle(f), GS_ISECTS_DO_NOT_FIT);
    device_upload(f.view.gaussians.log_scale, scale.data(), scale.size() * sizeof(float));
    step.replay();
    EXPECT_TRUE(std::isfinite(f.result.read()[0])) << "the next replay is valid again";
    EXPECT_GS_OK(step.settle(f));
#endif
}

} // namespace
