// SPDX-License-Identifier: MIT
// Passes that are queued and settled later: the same lists, picture and gradients as in one call, an overflow that shows,
// the bits of one thread by several at once, and a whole step in a CUDA graph that is replayed with other parameters.
#include "filled_context.h"
#include "queued_frame.h"
#include <cmath>
#include <thread>

namespace {

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

TEST_F(QueuedEdges, AnOverflowShowsAndTouchesNothingBeyondTheLists) {
    const int64_t isects = stages.view.ranges.isects;
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_BLOCK})
        for (const int64_t capacity : {isects - 1, int64_t(1), int64_t(0)}) {
            filled_context context(
                77, 65536); // the lists' memory has the capacity, and what is behind it must stay
            queued_frame f(stages, capacity - isects, strategy, context);
            f.forward();
            f.backward();
            for (const float value : f.picture()) ASSERT_TRUE(std::isnan(value));
            EXPECT_TRUE(std::isnan(f.result.read()[0])) << "and so does the loss";
            for (const double value : f.gradient_values()) ASSERT_EQ(value, 0);
            for (const char *when : {"first", "again"}) {
                EXPECT_EQ(gs_settle(&f.view, context), GS_ISECTS_DO_NOT_FIT) << when;
                EXPECT_NE(std::string(gs_last_error()).find(std::to_string(isects)), std::string::npos)
                    << gs_last_error();
                EXPECT_EQ(f.view.isects_needed, isects);
                EXPECT_EQ(f.view.ranges.isects, capacity);
                EXPECT_EQ(f.view.memory.isect_capacity, isects + isects / 4);
            }
            EXPECT_TRUE(context.guards_hold()) << capacity;
            f.forward();
            EXPECT_GS_OK(gs_settle(&f.view, context)) << "there is room now";
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

TEST_F(QueuedEdges, APassThatIsReservedAllocatesNothing) {
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED}) {
        filled_context context;
        queued_frame f(stages, 0, strategy, context);
        f.view.splats = NULL;
        ASSERT_GS_OK(gs_reserve(&f.view, strategy, f.isects, context));
        EXPECT_EQ(context.allocations, 2);
        f.forward();
        ASSERT_GS_OK(gs_settle(&f.view, context));
        f.backward();
        EXPECT_EQ(context.allocations, 2);
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
    refused("gs_settle: the view has no lists", gs_settle(&f.view, NULL));
    f.forward();
    refused("gs_settle: gs_bin was not queued in this context", gs_settle(&f.view, other));
    for (int k = 0; k < 64; k++) ASSERT_GS_OK(gs_bin(&another.view, NULL));
    EXPECT_GS_OK(gs_settle(&another.view, NULL)); // until then a GPU may still have the first report
    refused("gs_settle: gs_bin was not queued in this context, or too many since", gs_settle(&f.view, NULL));
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

// ---- several threads at once, each with a view and a context of its own ----

// The picture and, after it, the gradients, by sums that do not depend on the order.
std::vector<double> values_of(const scene_choice &choice, gs_context *context) {
    const kernel_frame frame(choice, context);
    queued_frame step(frame, 0, DISTWAR_FIXED, context);
    step.forward();
    EXPECT_GS_OK(gs_settle(&step.view, context));
    step.backward();
    std::vector<double> values = doubles(step.picture()), gradients = step.gradient_values();
    values.insert(values.end(), gradients.begin(), gradients.end());
    return values;
}

TEST(Threads, WithTheirOwnViewsGiveTheBitsOfOne) {
    const size_t threads = 4, rounds = 3;
    std::vector<scene_choice> choices;
    std::vector<std::vector<double>> alone, together(threads * rounds);
    for (size_t t = 0; t < threads; t++) {
        choices.push_back({11 + t, 40 + 20 * int64_t(t), int(t), int(t), 40 + 8 * int(t), 33});
        alone.push_back(values_of(choices[t], NULL));
    }
    std::vector<std::thread> running;
    for (size_t t = 0; t < threads; t++)
        running.emplace_back([&, t] {
            cudaStream_t stream = nullptr;
            DEVICE_CHECK(cudaStreamCreate(&stream));
            gs_context *context = nullptr;
            EXPECT_GS_OK(gs_context_create(nullptr, stream, &context));
            for (size_t round = 0; round < rounds; round++)
                together[t * rounds + round] = values_of(choices[t], context);
            gs_context_destroy(context);
            DEVICE_CHECK(cudaStreamDestroy(stream));
        });
    for (std::thread &thread : running) thread.join();
    for (size_t k = 0; k < threads * rounds; k++) {
        ASSERT_GT(together[k].size(), 100u);
        EXPECT_TRUE(together[k] == alone[k / rounds]) << "thread " << k / rounds << ", round " << k % rounds;
    }
}

// ---- CUDA graphs ----

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
        std::vector<double> changed = stages.gaussians.values();
        const size_t n = size_t(stages.choice.count);
        for (size_t i = 3 * n; i < 6 * n; i++) changed[i] += more_size;
        for (size_t i = 10 * n; i < 11 * n; i++) changed[i] += more_opacity;
        values.write(changed);
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
        << "simt has no CUDA graphs; AnOverflowShowsAndTouchesNothingBeyondTheLists runs the same calls";
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
