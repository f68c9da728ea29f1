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
class queued_frame : public view_step {
  public:
    // room: entries beyond those that the lists need; may be negative
    queued_frame(const kernel_frame &stages, int64_t room, distwar_strategy strategy = DISTWAR_FIXED,
                 gs_context *context = NULL)
        : view_step(stages, context), isects(stages.view.ranges.isects), policy{strategy, 0},
          target(std::vector<uint8_t>(stages.scene.target, stages.scene.target + 3 * pixels)),
          d_color(size_t(3 * pixels)), result(3) {
        view.memory.isect_capacity = std::max(isects + room, int64_t(0));
        gradient.color = d_color.data();
    }

    void forward() {
        queue();
        loss();
    }
    void loss() {
        const gs_loss_image image =
            loss_image({view.camera.width, view.camera.height, view.image.color, target.data(), NULL},
                       result.data(), d_color.data());
        EXPECT_GS_OK(gs_loss(&image, 1, view.context));
    }
    void backward() const { view_step::backward(policy); }

    std::vector<float> picture() const {
        std::vector<float> out = color();
        const std::vector<float> behind = transmittance();
        out.insert(out.end(), behind.begin(), behind.end());
        return out;
    }
    // All of them, with mean2d.
    std::vector<double> gradient_values() const {
        std::vector<double> out = gradients.values();
        const std::vector<float> seen = mean2d.read();
        out.insert(out.end(), seen.begin(), seen.end());
        return out;
    }

    int64_t isects; // that the lists need
    distwar_policy policy;
    device_vector<uint8_t> target;
    device_vector<float> d_color;
    device_vector<double> result;
};

class Queued : public testing::TestWithParam<scene_choice> {};

TEST_P(Queued, GivesTheBitsOfOneCall) {
    const kernel_frame stages(GetParam());
    for (const int64_t room : {0, 1, 5000}) {
        queued_frame waiting(stages, room), queued(stages, room);
        EXPECT_GS_OK(gs_forward(&waiting.view, NULL));
        waiting.loss();
        queued.forward();
        const gs_tile_ranges &expected = waiting.view.ranges, &ranges = queued.view.ranges;
        EXPECT_EQ(ranges.isects, queued.isects + room);
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
        for (queued_frame *f : {&waiting, &queued}) f->backward();
        EXPECT_EQ(queued.gradient_values(), waiting.gradient_values());
        EXPECT_GS_OK(gs_settle(&queued.view, NULL)) << "again";
        EXPECT_EQ(ranges.isects, expected.isects);
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Queued, testing::ValuesIn(comparison_scenes()));

class QueuedEdges : public testing::Test {
  protected:
    const kernel_frame stages{some_scene};
};

// Without settling, the division of work is a guess; it changes rounding alone.
TEST_F(QueuedEdges, GradientsAgreeWithoutSettling) {
    queued_frame waiting(stages, 0), queued(stages, 100);
    for (queued_frame *f : {&waiting, &queued}) f->forward();
    EXPECT_GS_OK(gs_settle(&waiting.view, NULL));
    for (queued_frame *f : {&waiting, &queued}) f->backward();
    EXPECT_EQ(queued.picture(), waiting.picture());
    EXPECT_LE(relative_norm(queued.gradient_values(), waiting.gradient_values()), 1e-5);
}

TEST_F(QueuedEdges, AValidDivisionOfWorkIsKept) {
    queued_frame f(stages, 0);
    f.view.ranges.pixels_per_thread = 1;
    f.view.ranges.split_tiles = 3;
    f.forward();
    EXPECT_EQ(f.view.ranges.pixels_per_thread, 1);
    EXPECT_EQ(f.view.ranges.split_tiles, 3);
    f.view.ranges.split_tiles = 1000; // of a larger picture
    f.forward();
    EXPECT_LE(f.view.ranges.split_tiles, f.view.ranges.tiles_x * f.view.ranges.tiles_y);
    f.backward();
}

TEST_F(QueuedEdges, AnOverflowShowsAndReadsNothingBeyondTheLists) {
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_BLOCK}) {
        queued_frame f(stages, -1, strategy);
        const int64_t isects = f.isects;
        for (const int64_t capacity : {isects - 1, int64_t(1), int64_t(0)}) {
            f.view.memory.isect_capacity = capacity;
            f.forward();
            f.backward();
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
        f.forward();
        EXPECT_GS_OK(gs_settle(&f.view, NULL)) << "there is room now";
    }
}

// The one rule of growth: before there is no room left, to five quarters of what is needed.
TEST_F(QueuedEdges, RoomGrowsBeforeThereIsNone) {
    queued_frame f(stages, 0);
    const int64_t isects = f.isects;
    for (const int64_t room : {isects + isects / 8, isects + isects / 8 - 1}) {
        f.view.memory.isect_capacity = room;
        f.forward();
        ASSERT_GS_OK(gs_settle(&f.view, NULL));
        EXPECT_EQ(f.view.memory.isect_capacity, room == isects + isects / 8 ? room : isects + isects / 4);
    }
}

// The lists' memory has exactly the capacity: what lies behind it must stay.
TEST_F(QueuedEdges, AnOverflowWritesNothingBeyondTheCapacity) {
    for (const int64_t missing : {int64_t(1), int64_t(1) << 40}) {
        filled_context context(77, 65536);
        queued_frame f(stages, -missing, DISTWAR_TREE, context);
        f.forward();
        EXPECT_EQ(gs_settle(&f.view, context), GS_ISECTS_DO_NOT_FIT);
        EXPECT_TRUE(context.guards_hold());
    }
}

TEST_F(QueuedEdges, SeveralPassesMayWaitToBeSettled) {
    const kernel_frame narrow({21, 160, 2, 2, 45, 47});
    queued_frame one(stages, 100), other(narrow, 100), tight(stages, -1);
    for (queued_frame *f : {&one, &other, &tight}) f->forward();
    EXPECT_EQ(gs_settle(&tight.view, NULL), GS_ISECTS_DO_NOT_FIT);
    for (queued_frame *f : {&other, &one}) {
        EXPECT_GS_OK(gs_settle(&f->view, NULL));
        EXPECT_EQ(f->view.isects_needed, f->isects);
    }
}

TEST_F(QueuedEdges, AWaitThatCannotEndIsRefused) {
    queued_frame f(stages, 0), another(stages, 0);
    filled_context other;
    expect_refused(gs_settle(&f.view, NULL), "gs_settle: the view has no lists");
    f.forward();
    expect_refused(gs_settle(&f.view, other), "gs_settle: gs_bin was not queued in this context");
    for (int k = 0; k < 64; k++) ASSERT_GS_OK(gs_bin(&another.view, NULL));
    expect_refused(gs_settle(&f.view, NULL),
                   "gs_settle: gs_bin was not queued in this context, or too many since");
    EXPECT_GS_OK(gs_settle(&another.view, NULL));
}

TEST_F(QueuedEdges, AlphaIsWrittenWhereItIsGiven) {
    for (const int64_t room : {-1, 0}) {
        queued_frame f(stages, room);
        const device_vector<float> alpha(size_t(f.pixels));
        f.view.image.alpha = alpha.data();
        f.forward();
        const std::vector<float> got = alpha.read(), transmittance = f.transmittance();
        for (size_t i = 0; i < got.size(); i++)
            ASSERT_TRUE(room < 0 ? std::isnan(got[i]) : got[i] == 1 - transmittance[i]) << i;
    }
}

// Nothing is read of a scene without Gaussians: its splats may be NULL.
TEST_F(QueuedEdges, NoGaussiansNeedNoSplats) {
    scene_choice choice = some_scene;
    choice.count = 0;
    const kernel_frame none(choice);
    for (const bool settles : {true, false}) {
        queued_frame f(none, 100);
        f.view.splats = nullptr, f.gradient.splat_grad = nullptr;
        f.forward();
        if (settles) {
            EXPECT_GS_OK(gs_settle(&f.view, NULL));
        }
        f.backward();
        EXPECT_EQ(f.transmittance(), std::vector<float>(size_t(f.pixels), 1));
    }
}

#ifndef DISTWAR_SIMT

// A frame and the moments of Adam; the view's context has a stream of its own.
struct trained_frame {
    trained_frame(const kernel_frame &stages, int64_t room, distwar_strategy strategy, gs_context *context)
        : values(stages.scene.gaussians), first(stages.choice), second(stages.choice),
          frame(stages, room, strategy, context) {
        frame.view.gaussians = *values.get();
    }
    // The scene's Gaussians, of other sizes and opacities: other lists, other lengths, other culling.
    void set(const kernel_frame &stages, double more_opacity, double more_size) const {
        const reference_gaussians &g = stages.scene.gaussians;
        const std::vector<double> stored(g.mean, g.mean + reference_gaussians_values(&g));
        for (int64_t i = 0; i < 3 * g.count; i++) g.log_scale[i] += more_size;
        for (int64_t i = 0; i < g.count; i++) g.opacity_logit[i] += more_opacity;
        values.upload(g);
        std::copy(stored.begin(), stored.end(), g.mean);
    }
    void step() {
        const gs_adam_rates rates = {1e-3f, 1e-3f, 1e-3f, 1e-2f, 1e-2f, 1e-3f, 0};
        frame.forward();
        frame.backward();
        EXPECT_GS_OK(gs_adam(values.get(), frame.gradients.get(), first.get(), second.get(), &rates, 1,
                             frame.view.context));
    }
    device_gaussians values, first, second;
    queued_frame frame;
};

// A step of training in a graph, on a stream of its own.
class captured_step {
  public:
    captured_step(const kernel_frame &stages, int64_t room, distwar_strategy strategy) {
        trained_frame(stages, room, strategy, NULL).step(); // loads kernels, which a capture does not
        DEVICE_CHECK(cudaDeviceSynchronize());
        DEVICE_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        EXPECT_GS_OK(gs_context_create(nullptr, stream, &context));
        of = std::make_unique<trained_frame>(stages, room, strategy, context);
        gs_view &view = of->frame.view;
        // So that nothing is allocated while it captures.
        EXPECT_GS_OK(gs_reserve(&view, strategy, view.memory.isect_capacity, context));
        DEVICE_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        of->step();
        DEVICE_CHECK(cudaStreamEndCapture(stream, &graph));
        DEVICE_CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    }
    ~captured_step() {
        cudaGraphExecDestroy(executable);
        cudaGraphDestroy(graph);
        of.reset();
        gs_context_destroy(context);
        cudaStreamDestroy(stream);
    }
    void replay() {
        DEVICE_CHECK(cudaDeviceSynchronize()); // what was uploaded is there
        DEVICE_CHECK(cudaGraphLaunch(executable, stream));
        DEVICE_CHECK(cudaStreamSynchronize(stream));
    }
    gs_status settle() { return gs_settle(&of->frame.view, context); }

    std::unique_ptr<trained_frame> of;

  private:
    cudaStream_t stream = nullptr;
    gs_context *context = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
};

#endif

// Every strategy, since each has a commit of its own; only fixed has the same bits in every run.
TEST(QueuedGraph, ReplaysAWholeStepWithOtherParameters) {
#ifdef DISTWAR_SIMT
    GTEST_SKIP() << "simt has no CUDA graphs; the calls of this test run directly in the others";
#else
    const kernel_frame stages({4, 3000, 3, 3, 200, 150});
    for (const distwar_strategy strategy : {DISTWAR_FIXED, DISTWAR_TREE, DISTWAR_BLOCK}) {
        trained_frame direct(stages, 60000, strategy, NULL);
        captured_step captured(stages, 60000, strategy);
        const queued_frame &replayed = captured.of->frame;
        for (int round = 0; round < 4; round++) {
            for (const trained_frame *f : {&direct, captured.of.get()})
                f->set(stages, round - 1.5, 0.2 * round - 0.3);
            const std::vector<double> before = direct.values.values();
            direct.step();
            captured.replay();
            ASSERT_GS_OK(gs_settle(&direct.frame.view, NULL));
            ASSERT_GS_OK(captured.settle());
            EXPECT_EQ(direct.frame.view.isects_needed, replayed.view.isects_needed);
            EXPECT_EQ(replayed.picture(), direct.frame.picture()) << round;
            EXPECT_EQ(replayed.result.read(), direct.frame.result.read());
            const double difference =
                relative_norm(replayed.gradient_values(), direct.frame.gradient_values());
            EXPECT_LE(difference, strategy == DISTWAR_FIXED ? 0 : 1e-5) << round;
            const std::vector<double> after = captured.of->values.values();
            EXPECT_NE(after, before) << "Adam is in the graph";
            if (strategy == DISTWAR_FIXED) EXPECT_EQ(after, direct.values.values());
        }
    }
#endif
}

TEST(QueuedGraph, AnOverflowInAReplayShows) {
#ifdef DISTWAR_SIMT
    GTEST_SKIP()
        << "simt has no CUDA graphs; AnOverflowShowsAndReadsNothingBeyondTheLists runs the same calls";
#else
    const kernel_frame stages(some_scene);
    captured_step captured(stages, 500, DISTWAR_TREE); // Adam changes how many intersections are needed
    const auto loss_of = [&](double more_size) {
        captured.of->set(stages, 0, more_size);
        captured.replay();
        return captured.of->frame.result.read()[0];
    };
    EXPECT_TRUE(std::isfinite(loss_of(0)));
    EXPECT_TRUE(std::isnan(loss_of(2)));
    EXPECT_EQ(captured.settle(), GS_ISECTS_DO_NOT_FIT);
    EXPECT_TRUE(std::isfinite(loss_of(0))) << "the next replay is valid again";
    EXPECT_GS_OK(captured.settle());
#endif
}

} // namespace
