// SPDX-License-Identifier: MIT
// A scene on 1 to 4 ranks: the bits of one GPU with DISTWAR_FIXED, its numbers otherwise.
#include "sharded.h"
#include "kernel_frame.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <csignal>
#include <sys/mman.h>

namespace {

struct batch_choice {
    scene_choice scene;
    int views;
};
void PrintTo(const batch_choice &choice, std::ostream *out) {
    PrintTo(choice.scene, out);
    *out << ", " << choice.views << " views";
}

// A scene, its cameras and photographs.
struct training {
    explicit training(const batch_choice &choice)
        : choice(choice), frame(choice.scene), cameras(size_t(choice.views), frame.view.camera) {
        const size_t pixels = size_t(frame.pixels());
        for (int v = 0; v < choice.views; v++) {
            gs_camera &camera = cameras[size_t(v)];
            camera.translation[0] += 0.07f * float(v);
            camera.translation[1] -= 0.2f * float(v % 2);
            camera.fx *= 1 + 0.05f * float(v);
            std::vector<uint8_t> picture{};
            for (const float value : random_floats(uint64_t(100 + v), 3 * pixels, 0, 255.9f))
                picture.push_back(uint8_t(value));
            pictures.push_back(std::make_unique<device_vector<uint8_t>>(picture));
        }
    }
    gs_camera camera(int v) const { return cameras[size_t(v)]; }

    batch_choice choice;
    kernel_frame frame;
    std::vector<gs_camera> cameras;
    std::vector<std::unique_ptr<device_vector<uint8_t>>> pictures;
};

// Gaussians first .. last - 1; first is a multiple of 4, so that arrays stay aligned.
gs_gaussians part_of(gs_gaussians all, int64_t first, int64_t last) {
    const int row = 3 * (all.sh_degree + 1) * (all.sh_degree + 1);
    all.count = last - first;
    all.mean += 3 * first, all.log_scale += 3 * first, all.quaternion += 4 * first;
    all.opacity_logit += first, all.sh += row * first;
    return all;
}

// rows NULL: gs_loss.
bool put_loss(const training &t, int view, const gs_rows *rows, const float *color, float *d_color) {
    const gs_camera camera = t.camera(view);
    const gs_comparison images = {camera.width, camera.height, color, t.pictures[size_t(view)]->data(),
                                  nullptr};
    size_t bytes = 0;
    if (gs_loss_bytes(camera.width, camera.height, &bytes) != GS_OK) return false;
    const device_vector<char> workspace(bytes);
    const device_vector<double> result(3);
    return (rows ? gs_share_loss(&images, *rows, workspace.data(), bytes, result.data(), d_color, NULL)
                 : gs_loss(&images, workspace.data(), bytes, result.data(), d_color, NULL)) == GS_OK;
}

bool loss_of_rank(ranks *group, void *context, const sharded_image *image, gs_stream) {
    const training *const t = static_cast<const training *>(context);
    return put_loss(*t, image->view, &image->rows, image->color, image->d_color) ||
           ranks_fail(group, "%s", gs_last_error());
}

struct result {
    std::vector<double> gradient;
    std::vector<float> mean2d;
};

std::vector<double> values_of(const device_gaussians &gaussians) {
    reference_gaussians got = gaussians.read();
    std::vector<double> out(got.mean, got.mean + reference_gaussians_values(&got));
    reference_gaussians_destroy(&got);
    return out;
}

// Several views: also absolute gradients, behind the others in `mean2d`.
bool has_absolute(const training &t) {
    return t.choice.views > 1;
}

// What one GPU computes, view by view.
result on_one_gpu(const training &t, distwar_policy policy) {
    const scene_choice &scene = t.choice.scene;
    const int views = t.choice.views;
    const size_t count = size_t(scene.count);
    const device_vector<gs_splat> splats(size_t(views) * count);
    const device_vector<gs_moments> moments(size_t(views) * count);
    const device_vector<float> mean2d(4 * size_t(views) * count);
    float *const absolute = has_absolute(t) ? mean2d.data() + 2 * size_t(views) * count : nullptr;
    gs_view all = t.frame.view;
    all.views = {views, t.cameras.data()}, all.splats = splats.data();
    EXPECT_GS_OK(gs_project(&all, NULL));
    for (int v = 0; v < views; v++) {
        gs_view view = t.frame.view;
        view.camera = t.camera(v), view.pair_capacity = 100000;
        gs_gradient gradient = {};
        gs_view_parts parts = {};
        parts.image = parts.moments = 1, parts.strategy = policy.strategy;
        size_t bytes = 0;
        EXPECT_GS_OK(gs_view_bytes(&view, &parts, &bytes));
        const device_vector<char> block(bytes);
        EXPECT_GS_OK(gs_view_place(&view, &gradient, &parts, block.data(), bytes));
        view.splats = splats.data() + size_t(v) * count;
        EXPECT_GS_OK(gs_bin(&view, NULL));
        EXPECT_GS_OK(gs_render(&view, NULL));
        const device_vector<float> d_color(3 * size_t(t.frame.pixels()));
        EXPECT_TRUE(put_loss(t, v, nullptr, view.image.color, d_color.data())) << gs_last_error();
        gradient.color = d_color.data(), gradient.abs_mean2d = absolute;
        EXPECT_GS_OK(gs_render_backward(&view, &gradient, policy, NULL));
        std::vector<gs_moments> own(count);
        device_download(own.data(), gradient.moments, count * sizeof(gs_moments));
        device_upload(moments.data() + size_t(v) * count, own.data(), count * sizeof(gs_moments));
    }
    const device_gaussians gradients(scene.count, scene.sh_degree);
    gs_gradient gradient = {};
    gradient.abs_mean2d = absolute;
    gradient.moments = moments.data(), gradient.gaussians = *gradients.get(), gradient.mean2d = mean2d.data();
    EXPECT_GS_OK(gs_project_backward(&all, &gradient, NULL));
    std::vector<float> by_means = mean2d.read();
    by_means.resize((absolute ? 4 : 2) * size_t(views) * count);
    return {values_of(gradients), by_means};
}

struct shared_run {
    const training *t;
    distwar_policy policy;
    const gs_gaussians *gaussians, *gradients; // of the whole scene
    std::vector<int64_t> begin;                // of each rank's Gaussians
    std::vector<float> mean2d;                 // [views][count]
    int steps;
    const gs_gaussians *first_moment, *second_moment;
    sharded_report report[RANKS_MAX], first_report[RANKS_MAX];
    int failing_rank, failing_step; // failing_step 0: none
    bool is_killed;
};

// What a rank that is to fail does in the middle of a step.
bool fail_in_step(ranks *group, void *context, const sharded_image *, gs_stream) {
    if (static_cast<const shared_run *>(context)->is_killed) raise(SIGKILL);
    return ranks_fail(group, "no loss of this image");
}

bool run_rank(ranks *group, void *context) {
    shared_run *const run = static_cast<shared_run *>(context);
    const int own = ranks_own(group), views = run->t->choice.views;
    const int64_t first = run->begin[size_t(own)], last = run->begin[size_t(own) + 1];
    sharded *const s = sharded_open(group);
    if (!s) return false;
    sharded_batch batch = {};
    batch.gaussians = part_of(*run->gaussians, first, last);
    batch.sh_degree_used = run->t->choice.scene.sh_degree_used;
    memcpy(batch.background, run->t->frame.view.background, sizeof batch.background);
    batch.views = views, batch.cameras = run->t->cameras.data(), batch.policy = run->policy;
    std::vector<int32_t> pictures{};
    for (int v = 0; v < views; v++) pictures.push_back(3 * v);
    batch.pictures = pictures.data();
    batch.loss = loss_of_rank, batch.context = const_cast<training *>(run->t);
    const int64_t values = 2 * views * (last - first);
    const device_vector<float> mean2d(size_t(2 * values));
    const sharded_gradient gradient = {part_of(*run->gradients, first, last), mean2d.data(),
                                       has_absolute(*run->t) ? mean2d.data() + values : nullptr};
    bool good = true;
    for (int step = 1; good && step <= run->steps; step++) {
        if (step == run->failing_step && own == run->failing_rank)
            batch.loss = fail_in_step, batch.context = run;
        good = sharded_backward(s, &batch, &gradient, nullptr) && ranks_wait(group, nullptr);
        if (step == 1) run->first_report[own] = sharded_last(s);
        if (!good || !run->first_moment) continue;
        const gs_gaussians m = part_of(*run->first_moment, first, last),
                           v = part_of(*run->second_moment, first, last);
        const gs_adam_rates rates = {0.01f, 0.01f, 0.01f, 0.02f, 0.02f, 0.01f, 0};
        good = gs_adam(&batch.gaussians, &gradient.gaussians, &m, &v, &rates, step, NULL) == GS_OK;
    }
    const std::vector<float> got = mean2d.read();
    const int64_t count = run->t->choice.scene.count;
    const int kinds = has_absolute(*run->t) ? 2 : 1;
    for (int v = 0; v < kinds * views && last > first; v++)
        memcpy(&run->mean2d[size_t(2 * (v * count + first))], &got[size_t(2 * v * (last - first))],
               size_t(2 * (last - first)) * sizeof(float));
    run->report[own] = sharded_last(s);
    sharded_close(s);
    return good;
}

// Where each rank's Gaussians begin, and the number of all: unequal, and with four ranks one has none.
std::vector<int64_t> shares_of(int64_t count, int ranks_number) {
    std::vector<int64_t> begin{};
    for (int r = 0; r < ranks_number; r++)
        begin.push_back(r == 0   ? 0
                        : r == 1 ? count / 2 / 4 * 4
                                 : (r == 2 ? count * 3 / 4 : count * 3 / 4 + 3) / 4 * 4);
    begin.push_back(count);
    return begin;
}

shared_run run_of(const training &t, distwar_policy policy, const device_gaussians &gradients,
                  int ranks_number) {
    shared_run run = {};
    run.t = &t, run.policy = policy, run.steps = 1;
    run.gaussians = t.frame.gaussians.get(), run.gradients = gradients.get();
    const int64_t count = t.choice.scene.count;
    run.begin = shares_of(count, ranks_number);
    run.mean2d.resize((has_absolute(t) ? 4 : 2) * size_t(t.choice.views) * size_t(count));
    return run;
}

result on_ranks(const training &t, distwar_policy policy, int ranks_number) {
    const scene_choice &scene = t.choice.scene;
    const device_gaussians gradients(scene.count, scene.sh_degree);
    shared_run run = run_of(t, policy, gradients, ranks_number);
    ranks_plan plan = {};
    plan.count = ranks_number;
    fault why = {};
    EXPECT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
    int64_t sent = 0, received = 0;
    for (const sharded_report &each : run.report) sent += each.splats_sent, received += each.splats_received;
    EXPECT_EQ(sent, received);
    EXPECT_EQ(sent > 0, ranks_number > 1);
    EXPECT_EQ(run.report[0].bytes_sent > 0, ranks_number > 1);
    return {values_of(gradients), run.mean2d};
}

class Sharded : public testing::TestWithParam<batch_choice> {};

TEST_P(Sharded, GivesTheBitsOfOneGpu) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    double norm = 0;
    for (const double value : one.gradient) norm += value * value;
    ASSERT_GT(norm, 0);
    for (int count = 1; count <= 4; count++) {
        const result got = on_ranks(t, {DISTWAR_FIXED, 0}, count);
#ifdef DISTWAR_SIMT
        EXPECT_EQ(got.gradient, one.gradient) << count << " ranks";
        EXPECT_EQ(got.mean2d, one.mean2d) << count << " ranks";
#else // the kernels of one and of several cameras are compiled apart
        EXPECT_LE(relative_norm(got.gradient, one.gradient), 1e-5) << count << " ranks";
#endif
    }
}

TEST_P(Sharded, GivesTheNumbersOfOneGpuByAnyReduction) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    for (const int count : {1, 3, 4})
        EXPECT_LE(relative_norm(on_ranks(t, {DISTWAR_TREE, 0}, count).gradient, one.gradient), 1e-5)
            << count << " ranks";
}

struct showing {
    const training *t;
    std::vector<int64_t> begin; // of each rank's Gaussians
    std::vector<float> images;  // [views][GS_CHANNELS][height][width]
};

bool keep_rows(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    showing *const to = static_cast<showing *>(context);
    const size_t width = size_t(image->width), plane = width * size_t(image->height),
                 first = size_t(image->rows.begin * GS_TILE_SIZE) * width,
                 end = std::min(size_t(image->rows.end * GS_TILE_SIZE) * width, plane);
    if (!ranks_wait(group, stream)) return false;
    for (size_t c = 0; c < GS_CHANNELS; c++)
        device_download(&to->images[(size_t(image->view) * GS_CHANNELS + c) * plane + first],
                        image->color + c * plane + first, (end - first) * sizeof(float));
    return true;
}

bool show_rank(ranks *group, void *context) {
    const showing *const run = static_cast<const showing *>(context);
    const training &t = *run->t;
    const size_t own = size_t(ranks_own(group));
    sharded *const s = sharded_open(group);
    if (!s) return false;
    sharded_batch batch = {};
    batch.gaussians = part_of(*t.frame.gaussians.get(), run->begin[own], run->begin[own + 1]);
    batch.sh_degree_used = t.choice.scene.sh_degree_used;
    memcpy(batch.background, t.frame.view.background, sizeof batch.background);
    batch.views = t.choice.views, batch.cameras = t.cameras.data();
    batch.loss = keep_rows, batch.context = context;
    const bool good = sharded_render(s, &batch, nullptr) && ranks_wait(group, nullptr);
    sharded_close(s);
    return good;
}

// Also on a GPU, whose kernel for several cameras rounds otherwise than that for one.
TEST_P(Sharded, ShowsTheBytesOfOneGpu) {
    const training t(GetParam());
    const size_t values = GS_CHANNELS * size_t(t.frame.pixels());
    std::vector<float> expected{};
    for (int v = 0; v < t.choice.views; v++) {
        gs_view view = t.frame.view;
        view.camera = t.camera(v), view.pair_capacity = 100000;
        gs_view_parts parts = {};
        parts.image = 1;
        size_t bytes = 0;
        ASSERT_GS_OK(gs_view_bytes(&view, &parts, &bytes));
        const device_vector<char> block(bytes);
        ASSERT_GS_OK(gs_view_place(&view, NULL, &parts, block.data(), bytes));
        ASSERT_GS_OK(gs_forward(&view, NULL));
        expected.resize(expected.size() + values);
        device_download(&expected[size_t(v) * values], view.image.color, values * sizeof(float));
    }
    for (int count = 1; count <= 4; count++) {
        showing run = {&t, shares_of(t.choice.scene.count, count), std::vector<float>(expected.size())};
        ranks_plan plan = {};
        plan.count = count;
        fault why = {};
        ASSERT_TRUE(ranks_run(&plan, show_rank, &run, &why)) << why.text;
        EXPECT_EQ(memcmp(run.images.data(), expected.data(), expected.size() * sizeof(float)), 0)
            << count << " ranks";
    }
}

TEST_P(Sharded, TrainsToTheSameBits) {
    std::vector<double> first;
    for (const int count : {1, 2, 4}) {
        const training t(GetParam()); // Gaussians as they began
        const scene_choice &scene = t.choice.scene;
        const device_gaussians gradients(scene.count, scene.sh_degree), m(scene.count, scene.sh_degree),
            v(scene.count, scene.sh_degree);
        shared_run run = run_of(t, {DISTWAR_FIXED, 0}, gradients, count);
        run.steps = 3, run.first_moment = m.get(), run.second_moment = v.get();
        ranks_plan plan = {};
        plan.count = count;
        fault why = {};
        ASSERT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
        if (count == 4 && t.choice.views == 1) { // rows cost differently, and shares have followed
            EXPECT_NE(run.first_report[0].rows, run.report[0].rows);
        }
        const std::vector<double> now = values_of(t.frame.gaussians);
        if (first.empty()) first = now;
        EXPECT_EQ(now, first) << count << " ranks";
    }
}

TEST_P(Sharded, EndsOnAllRanksWhenOneFails) {
    const training t(GetParam());
    const scene_choice &scene = t.choice.scene;
    const device_gaussians gradients(scene.count, scene.sh_degree);
    for (int rank = 0; rank < 3; rank++) {
        shared_run run = run_of(t, {DISTWAR_FIXED, 0}, gradients, 3);
        run.steps = 3, run.failing_rank = rank, run.failing_step = 2;
        ranks_plan plan = {};
        plan.count = 3;
        fault why = {};
        EXPECT_FALSE(ranks_run(&plan, run_rank, &run, &why));
        EXPECT_EQ(std::string(why.text), "rank " + std::to_string(rank) + ": no loss of this image");
    }
}

#ifdef DISTWAR_SIMT
// Memory that processes share, as device memory of simt.
class shared_gaussians {
  public:
    explicit shared_gaussians(const gs_gaussians &shape) : gaussians(shape) {
        const size_t count = size_t(shape.count),
                     row = 3 * size_t((shape.sh_degree + 1) * (shape.sh_degree + 1));
        bytes = count * (11 + row) * sizeof(float);
        memory = static_cast<float *>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        float *at = memory;
        gaussians.mean = at, at += 3 * count;
        gaussians.log_scale = at, at += 3 * count;
        gaussians.quaternion = at, at += 4 * count;
        gaussians.opacity_logit = at, at += count;
        gaussians.sh = at;
    }
    ~shared_gaussians() { munmap(memory, bytes); }
    shared_gaussians(const shared_gaussians &) = delete;
    shared_gaussians &operator=(const shared_gaussians &) = delete;
    std::vector<double> values() const { return {memory, memory + bytes / sizeof(float)}; }

    gs_gaussians gaussians;

  private:
    float *memory;
    size_t bytes;
};

TEST_P(Sharded, GivesTheSameBitsOnProcesses) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    const device_gaussians shape(t.choice.scene.count, t.choice.scene.sh_degree);
    const shared_gaussians gradients(*shape.get());
    shared_run run = run_of(t, {DISTWAR_FIXED, 0}, shape, 3);
    run.gradients = &gradients.gaussians;
    ranks_plan plan = {};
    plan.count = 3, plan.kind = RANKS_PROCESSES, plan.nccl = FAKE_NCCL, plan.devices = 1;
    fault why = {};
    ASSERT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
    EXPECT_EQ(gradients.values(), one.gradient);
    run.steps = 2, run.failing_step = 2, run.is_killed = true;
    for (run.failing_rank = 0; run.failing_rank < 3; run.failing_rank++) {
        EXPECT_FALSE(ranks_run(&plan, run_rank, &run, &why));
        EXPECT_EQ(std::string(why.text),
                  "rank " + std::to_string(run.failing_rank) + ": was ended by signal 9 (Killed)");
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(Batches, Sharded,
                         testing::Values(batch_choice{{4, 192, 1, 1, 71, 45}, 1}, // three rows of tiles
                                         batch_choice{{5, 300, 3, 2, 50, 100}, 2},
                                         batch_choice{{6, 260, 0, 0, 66, 66}, 3}));

// Checks that parts follow one another and end with the last row. Returns the cost of each rank's share.
std::vector<int64_t> costs_of_shares(int ranks_number, int views, int rows, const int64_t *costs) {
    shared_out out;
    share_out(ranks_number, views, rows, costs, &out);
    std::vector<int64_t> found{};
    int64_t at = 0; // rows so far, of all views
    EXPECT_EQ(out.begin[0], 0);
    for (int r = 0; r < ranks_number; r++) {
        int64_t cost = 0;
        for (int p = out.begin[r]; p < out.begin[r + 1]; p++) {
            EXPECT_EQ(int64_t(out.parts[p].view) * rows + out.parts[p].rows.begin, at);
            EXPECT_GT(out.parts[p].rows.end, out.parts[p].rows.begin);
            const int64_t end = at + out.parts[p].rows.end - out.parts[p].rows.begin;
            for (; at < end; at++) cost += costs ? costs[at] : 1;
        }
        EXPECT_LE(out.begin[r + 1] - out.begin[r], out.most);
        found.push_back(cost);
    }
    EXPECT_EQ(at, int64_t(views) * rows);
    EXPECT_LE(out.begin[ranks_number], views + ranks_number - 1);
    return found;
}

TEST(ShareOut, GivesEachRowToOneRankInEqualShares) {
    for (int ranks_number = 1; ranks_number <= RANKS_MAX; ranks_number += 7)
        for (const int views : {1, 2, 5, int(GS_MAX_VIEWS)})
            for (const int rows : {1, 3, 68, int(GS_MAX_SIZE) / int(GS_TILE_SIZE)})
                for (const int64_t cost : costs_of_shares(ranks_number, views, rows, nullptr)) {
                    const double equal = double(views) * rows / ranks_number;
                    ASSERT_LE(std::abs(double(cost) - equal), 1 + 0.2 * equal);
                }
}

TEST(ShareOut, FollowsTheCosts) {
    const int views = 3, rows = 40;
    std::vector<int64_t> costs{};
    int64_t all = 0, largest = 0;
    for (int k = 0; k < views * rows; k++) {
        costs.push_back(k % rows < 30 ? 10 + k : 5000 + 100 * (k % 7));
        all += costs.back(), largest = std::max(largest, costs.back());
    }
    for (int ranks_number = 1; ranks_number <= 8; ranks_number++)
        for (const int64_t cost : costs_of_shares(ranks_number, views, rows, costs.data()))
            ASSERT_LE(std::abs(double(cost) - double(all) / ranks_number),
                      double(largest) + 0.2 * double(all) / ranks_number)
                << ranks_number << " ranks";
    shared_out out; // views that differ by less than the tolerance are not cut
    for (int k = 0; k < 2 * rows; k++) costs[size_t(k)] = k < rows ? 1000 : 1090;
    share_out(2, 2, rows, costs.data(), &out);
    EXPECT_EQ(out.begin[2], 2);
    for (int k = 0; k < 2 * rows; k++) costs[size_t(k)] = k < rows ? 1000 : 1300;
    share_out(2, 2, rows, costs.data(), &out);
    EXPECT_EQ(out.begin[2], 3);
    EXPECT_EQ(out.parts[1].rows.end,
              5); // of view 1: (40 * 1000 + 40 * 1300) / 2 - 40 * 1000 over 1300 is 4.6
}

// ---- libdistwar_gs's own calls (distwar_gs_share.h) ----

TEST(Share, RowsOfTilesAreThoseOfTheWholeImage) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    gs_view view = frame.view;
    view.lists = {};
    const std::vector<float> whole = frame.color.read();
    for (const gs_rows rows : {gs_rows{0, 1}, gs_rows{1, 3}, gs_rows{2, 2}, gs_rows{0, 3}}) {
        view.rows = rows;
        ASSERT_GS_OK(gs_bin(&view, NULL));
        ASSERT_GS_OK(gs_render(&view, NULL));
        const std::vector<float> part = frame.color.read();
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 45; y++)
                for (int x = 0; x < 71; x++) {
                    const size_t i = size_t((c * 45 + y) * 71 + x);
                    const bool inside = y / GS_TILE_SIZE >= rows.begin && y / GS_TILE_SIZE < rows.end;
                    ASSERT_EQ(part[i], inside ? whole[i] : view.background[c]) << x << ", " << y;
                }
    }
    for (const gs_rows wrong : {gs_rows{-1, 2}, gs_rows{2, 1}, gs_rows{0, 4}}) {
        view.rows = wrong;
        EXPECT_EQ(gs_bin(&view, NULL), GS_INVALID_ARGUMENT);
        EXPECT_STREQ(gs_last_error(), "gs_bin: rows must be a range of the rows of tiles");
    }
}

// Within a class of lengths tile_order has any order, so its first tile may have another list. Here it has the
// shortest.
TEST(Share, LengthsHaveTheLongestList) {
    const kernel_frame frame({4, 500, 0, 0, 160, 120});
    const gs_lists &lists = frame.view.lists;
    const size_t tiles = size_t(lists.tiles_x) * size_t(lists.tiles_y);
    std::vector<int64_t> begin(tiles + 1);
    std::vector<uint32_t> order(tiles);
    device_download(begin.data(), lists.tile_begin, begin.size() * sizeof(int64_t));
    device_download(order.data(), lists.tile_order, order.size() * sizeof(uint32_t));
    const auto length = [&](uint32_t tile) { return begin[tile + 1] - begin[tile]; };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return length(a) < length(b); });
    ASSERT_LT(length(order.front()), length(order.back()));
    device_upload(lists.tile_order, order.data(), order.size() * sizeof(uint32_t));
    const device_vector<gs_list_lengths> lengths(1);
    ASSERT_GS_OK(gs_share_lengths(&frame.view, lengths.data(), NULL));
    EXPECT_EQ(lengths.read()[0].longest, length(order.back()));
    EXPECT_EQ(lengths.read()[0].pairs, begin[tiles]);
}

TEST(Share, GathersInOrderWhatEachPartNeeds) {
    const scene_choice choice = {4, 700, 0, 0, 71, 45}; // several blocks
    const kernel_frame frame(choice);
    const gs_camera cameras[2] = {frame.view.camera, frame.view.camera};
    const device_vector<gs_splat> splats(size_t(2 * choice.count));
    gs_view view = frame.view;
    view.views = {2, cameras}, view.splats = splats.data();
    ASSERT_GS_OK(gs_project(&view, NULL));
    const gs_part parts[] = {{0, {0, 1}}, {0, {1, 3}}, {1, {2, 2}}, {1, {0, 3}}, {0, {2, 3}}};
    constexpr int count = 5;
    gs_share share = {};
    share.parts = parts, share.count = count;
    ASSERT_GS_OK(gs_share_bytes(&view, count, &share.workspace_bytes));
    const device_vector<char> workspace(share.workspace_bytes);
    const device_vector<int64_t> begin(size_t(count + 1));
    share.workspace = workspace.data(), share.part_begin = begin.data();
    ASSERT_GS_OK(gs_share_count(&view, &share, NULL));
    const std::vector<int64_t> ends = begin.read();
    const size_t entries = size_t(ends[count]);
    const device_vector<uint32_t> index(entries);
    const device_vector<gs_splat> copies(entries);
    share.index = index.data(), share.splats = copies.data();
    share.room = share.splats_room = ends[count], share.end = count;
    ASSERT_GS_OK(gs_share_gather(&view, &share, NULL));
    const std::vector<uint32_t> indices = index.read();
    const std::vector<gs_splat> all = splats.read(), got = copies.read();

    gs_view one = view;
    one.views = {}, one.splats = splats.data();
    EXPECT_EQ(ends[0], 0);
    EXPECT_EQ(ends[3], ends[2]); // no rows
    for (int p = 0; p < count; p++) {
        std::vector<bool> has(size_t(choice.count));
        for (int64_t k = ends[size_t(p)]; k < ends[size_t(p) + 1]; k++) {
            const uint32_t i = indices[size_t(k)];
            ASSERT_TRUE(k == ends[size_t(p)] || indices[size_t(k) - 1] < i);
            ASSERT_EQ(int64_t(i) / choice.count, parts[p].view);
            ASSERT_EQ(memcmp(&got[size_t(k)], &all[i], sizeof(gs_splat)), 0);
            has[size_t(int64_t(i) % choice.count)] = true;
        }
        if (parts[p].rows.begin == parts[p].rows.end) continue;
        one.rows = parts[p].rows; // every splat of a list of the rows is there
        ASSERT_GS_OK(gs_bin(&one, NULL));
        std::vector<uint32_t> listed(size_t(one.lists.pairs));
        device_download(listed.data(), one.lists.splat_index, listed.size() * sizeof(uint32_t));
        EXPECT_GT(listed.size(), 0u);
        for (const uint32_t i : listed) ASSERT_TRUE(has[i]) << "part " << p << " lacks splat " << i;
        EXPECT_LT(ends[size_t(p) + 1] - ends[size_t(p)], choice.count);
    }
}

// Records of three segments, of which some have none that counts.
template <typename T>
void expect_packed(const std::vector<T> &records, const std::vector<int64_t> &count, bool whole) {
    const int values = whole ? GS_MOMENTS_STRIDE : GS_MOMENTS, packed_values = values + 1;
    const int segments = int(count.size());
    std::vector<int64_t> first{};
    int64_t all = 0;
    for (const int64_t each : count) first.push_back(all), all += each;
    const device_vector<T> in(records), packed(size_t(all) * size_t(packed_values));
    const device_vector<int64_t> begin(size_t(segments) + 1);
    gs_packing packing = {};
    packing.fixed = sizeof(T) == 8, packing.whole = whole, packing.segments = segments;
    packing.begin = first.data(), packing.count = count.data();
    packing.records = in.data(), packing.packed = packed.data(), packing.packed_begin = begin.data();
    ASSERT_GS_OK(gs_share_pack_bytes(&packing, &packing.workspace_bytes));
    const device_vector<char> workspace(packing.workspace_bytes);
    packing.workspace = workspace.data();
    ASSERT_GS_OK(gs_share_pack(&packing, NULL));

    const std::vector<int64_t> ends = begin.read();
    const std::vector<T> got = packed.read();
    std::vector<uint32_t> places(static_cast<size_t>(all));
    for (int64_t i = 0; i < all; i++) places[size_t(i)] = uint32_t(all - 1 - i);
    const device_vector<uint32_t> index(places);
    std::vector<T> sums(size_t(all) * GS_MOMENTS_STRIDE, T(1)), expected = sums;
    const device_vector<T> to(sums);
    int64_t at = 0;
    for (int s = 0; s < segments; s++) {
        EXPECT_EQ(ends[size_t(s)], at);
        for (int64_t i = 0; i < count[size_t(s)]; i++) {
            const T *const record = &records[size_t((first[size_t(s)] + i) * GS_MOMENTS_STRIDE)];
            bool counts = false;
            for (int k = 0; k < GS_MOMENTS; k++) counts = counts || !(record[k] == 0);
            if (!counts) continue;
            ASSERT_LT(at, ends[size_t(s) + 1]);
            ASSERT_EQ(memcmp(&got[size_t(at * packed_values)], record, size_t(values) * sizeof(T)), 0);
            for (int k = 0; k < values; k++)
                expected[size_t((all - 1 - i) * GS_MOMENTS_STRIDE + k)] += record[k];
            at++;
        }
        ASSERT_GS_OK(gs_share_add_packed(index.data(), packed.data() + ends[size_t(s)] * packed_values,
                                         ends[size_t(s) + 1] - ends[size_t(s)], packing.fixed, packing.whole,
                                         to.data(), NULL));
    }
    EXPECT_EQ(ends[size_t(segments)], at);
    const std::vector<T> total = to.read();
    for (size_t i = 0; i < total.size(); i++) // a GPU's NaN has other bits than a CPU's
        ASSERT_TRUE(total[i] == expected[i] || (total[i] != total[i] && expected[i] != expected[i])) << i;
}

// One in three records counts, by one of its values.
template <typename T>
std::vector<T> sparse_records(int64_t count) {
    std::vector<T> out(size_t(count) * GS_MOMENTS_STRIDE);
    for (int64_t i = 0; i < count; i++) {
        out[size_t(i * GS_MOMENTS_STRIDE + GS_MOMENTS)] = T(7); // is not summed
        if (i * 7 % 3 == 0) out[size_t(i * GS_MOMENTS_STRIDE + i % GS_MOMENTS)] = T(i % 5 - 7);
    }
    return out;
}

TEST(Share, PacksTheMomentsThatCount) {
    for (const std::vector<int64_t> &count :
         {std::vector<int64_t>{700, 0, 300}, {1}, {0, 0}, {255, 257, 256, 1}, {2000}}) {
        int64_t all = 0;
        for (const int64_t each : count) all += each;
        for (const bool whole : {false, true}) {
            expect_packed(sparse_records<float>(all), count, whole);
            expect_packed(sparse_records<int64_t>(all), count, whole);
        }
    }
    std::vector<float> none(5 * GS_MOMENTS_STRIDE), nan = none;
    nan[2 * GS_MOMENTS_STRIDE + GS_MOMENTS - 1] = NAN; // must reach its home
    expect_packed(none, {5}, false);
    expect_packed(nan, {2, 3}, false);
}

TEST(Share, GathersWhatThereIsRoomFor) {
    const scene_choice choice = {4, 700, 0, 0, 71, 45};
    const kernel_frame frame(choice);
    const gs_part parts[] = {{0, {0, 0}}, {0, {0, 2}}, {0, {1, 3}}};
    gs_share share = {};
    share.parts = parts, share.count = 3;
    ASSERT_GS_OK(gs_share_bytes(&frame.view, 3, &share.workspace_bytes));
    const device_vector<char> workspace(share.workspace_bytes);
    const device_vector<int64_t> begin(4);
    share.workspace = workspace.data(), share.part_begin = begin.data();
    ASSERT_GS_OK(gs_share_count(&frame.view, &share, NULL));
    const std::vector<int64_t> ends = begin.read();
    ASSERT_EQ(ends[1], 0);
    ASSERT_GT(ends[2], 10);
    const auto gather = [&](int first, int skip, int64_t room, int64_t splats_room) {
        const device_vector<uint32_t> index(std::vector<uint32_t>(size_t(ends[3]), 12345));
        const device_vector<gs_splat> splats(static_cast<size_t>(ends[3]));
        share.index = index.data(), share.splats = splats.data();
        share.first = first, share.end = 3, share.room = room, share.splats_room = splats_room;
        share.skip = skip, share.skip_end = first;
        EXPECT_GS_OK(gs_share_gather(&frame.view, &share, NULL));
        const std::vector<uint32_t> got = index.read();
        const std::vector<gs_splat> all = frame.splats.read(), copies = splats.read();
        const int64_t skipped = ends[size_t(first)] - ends[size_t(skip)];
        for (int64_t k = ends[size_t(first)]; k < room && k - skipped < splats_room; k++)
            EXPECT_EQ(memcmp(&copies[size_t(k - skipped)], &all[got[size_t(k)]], sizeof(gs_splat)), 0);
        return got;
    };
    const std::vector<uint32_t> all = gather(0, 0, ends[3], ends[3]);
    EXPECT_EQ(std::count(all.begin(), all.end(), 12345u), 0);
    const std::vector<uint32_t> some = gather(0, 0, ends[2] - 3, 5),
                                last = gather(2, 1, ends[3], ends[3] - ends[2] + 1);
    for (size_t k = 0; k < all.size(); k++) {
        EXPECT_EQ(some[k], int64_t(k) < ends[2] - 3 ? all[k] : 12345u);
        EXPECT_EQ(last[k], int64_t(k) < ends[2] ? 12345u : all[k]);
    }
}

// Pixels beyond the halo are NaN.
TEST(Share, LossOfRowsHasTheBitsOfTheWholeImage) {
    for (const int height : {45, 64, 17}) {
        const int width = 71, rows_of_tiles = (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
        const size_t pixels = size_t(width * height);
        const std::vector<float> color = random_floats(1, 3 * pixels, 0, 1);
        std::vector<uint8_t> picture{}, counts{};
        for (const float value : random_floats(2, 3 * pixels, 0, 255.9f)) picture.push_back(uint8_t(value));
        for (const float value : random_floats(3, pixels, 0, 2)) counts.push_back(uint8_t(value));
        const device_vector<float> whole_color(color), gradient(3 * pixels);
        const device_vector<uint8_t> target(picture), mask(counts);
        size_t bytes = 0;
        ASSERT_GS_OK(gs_loss_bytes(width, height, &bytes));
        const device_vector<char> workspace(bytes);
        const device_vector<double> result(3);
        for (const uint8_t *const used : {(const uint8_t *)nullptr, (const uint8_t *)mask.data()}) {
            gs_comparison images = {width, height, whole_color.data(), target.data(), used};
            ASSERT_GS_OK(gs_loss(&images, workspace.data(), bytes, result.data(), gradient.data(), NULL));
            const std::vector<float> whole = gradient.read();
            const std::vector<double> whole_result = result.read();
            for (int cut = 0; cut < rows_of_tiles; cut++) {
                double sum[3] = {};
                for (const gs_rows rows : {gs_rows{0, cut}, gs_rows{cut, rows_of_tiles}}) {
                    if (rows.begin == rows.end) continue;
                    const int first = rows.begin * GS_TILE_SIZE,
                              last = std::min(rows.end * GS_TILE_SIZE, height);
                    std::vector<float> known = color;
                    for (size_t i = 0; i < known.size(); i++) {
                        const int y = int(i % pixels) / width;
                        if (y < first - GS_LOSS_HALO || y >= last + GS_LOSS_HALO) known[i] = NAN;
                    }
                    const device_vector<float> part_color(known), part(3 * pixels);
                    images.color = part_color.data();
                    ASSERT_GS_OK(gs_share_loss(&images, rows, workspace.data(), bytes, result.data(),
                                               part.data(), NULL));
                    const std::vector<float> got = part.read();
                    const std::vector<double> share = result.read();
                    for (int k = 0; k < 3; k++) sum[k] += share[size_t(k)];
                    for (size_t i = 0; i < got.size(); i++) {
                        const int y = int(i % pixels) / width;
                        if (y < first || y >= last) continue;
                        ASSERT_EQ(memcmp(&got[i], &whole[i], sizeof(float)), 0)
                            << cut << " of " << height << ", " << i;
                    }
                }
                for (int k = 0; k < 3; k++) EXPECT_NEAR(sum[k], whole_result[size_t(k)], 1e-12);
            }
        }
        const gs_comparison images = {width, height, whole_color.data(), target.data(), nullptr};
        EXPECT_EQ(gs_share_loss(&images, {0, rows_of_tiles + 1}, workspace.data(), bytes, result.data(),
                                nullptr, NULL),
                  GS_INVALID_ARGUMENT);
        EXPECT_STREQ(gs_last_error(), "gs_share_loss: rows must be a range of the rows of tiles");
    }
}

TEST(Share, RowSumsBoundTheGradient) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    std::vector<float> values = random_floats(9, 3 * 71 * 45, -1e-4f, 1e-4f);
    const device_vector<float> gradient(values);
    const device_vector<double> sums(9);
    const device_vector<gs_largest_values> largest(1);
    ASSERT_GS_OK(gs_largest(&frame.view, largest.data(), NULL));
    for (const gs_rows rows : {gs_rows{2, 3}, gs_rows{0, 2}})
        ASSERT_GS_OK(gs_share_row_sums(&frame.view, rows, gradient.data(), sums.data(), NULL));
    ASSERT_GS_OK(gs_share_bound(&frame.view, sums.data(), largest.data(), NULL));
    const std::vector<double> got = sums.read();
    double all = 0;
    for (int row = 0; row < 3; row++)
        for (int c = 0; c < 3; c++) {
            double sum = 0;
            for (int y = 16 * row; y < std::min(16 * row + 16, 45); y++)
                for (int x = 0; x < 71; x++) sum += std::fabs(double(values[size_t((c * 45 + y) * 71 + x)]));
            EXPECT_NEAR(got[size_t(3 * row + c)], sum, 1e-12 * sum);
            all += sum;
        }
    const gs_largest_values bound = largest.read()[0];
    EXPECT_GT(bound.color, 0);
    EXPECT_GT(bound.depth, 0);
    EXPECT_GE(double(bound.d_color), all * (1 - 1e-12));
    EXPECT_LE(double(bound.d_color), all * (1 + 2e-7));
}

TEST(Share, WhatCannotBeIsRefused) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    const device_vector<int64_t> begin(8);
    const device_vector<char> workspace(1 << 16);
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_STREQ(gs_last_error(), text);
    };
    gs_part part = {0, {0, 3}};
    gs_share share = {};
    share.parts = &part, share.count = 1, share.workspace = workspace.data(), share.workspace_bytes = 1 << 16;
    share.part_begin = begin.data(), share.end = 1, share.room = share.splats_room = 1;
    ASSERT_GS_OK(gs_share_count(&frame.view, &share, NULL));
    refused(gs_share_gather(&frame.view, &share, NULL), "gs_share_gather: index and splats must be given");
    part.view = 1;
    refused(gs_share_count(&frame.view, &share, NULL),
            "gs_share_count: the view of a part must be one of the cameras");
    part = {0, {0, 4}};
    refused(gs_share_count(&frame.view, &share, NULL),
            "gs_share_count: rows must be a range of the rows of tiles");
    share.count = GS_MAX_PARTS + 1;
    refused(gs_share_count(&frame.view, &share, NULL),
            "gs_share_count: share must be given, with 0..128 parts");
    share.count = 1, part = {0, {0, 3}}, share.workspace_bytes = 8;
    EXPECT_EQ(gs_share_count(&frame.view, &share, NULL), GS_INVALID_ARGUMENT);
    refused(gs_share_add_sums(nullptr, nullptr, 1, nullptr, NULL),
            "gs_share_add_sums: index and both arrays must be given");
    share.workspace_bytes = 1 << 16, share.end = 2;
    refused(gs_share_gather(&frame.view, &share, NULL),
            "gs_share_gather: first .. end must be a range of the parts");
    gs_packing packing = {};
    size_t bytes = 0;
    refused(gs_share_pack_bytes(&packing, &bytes),
            "gs_share_pack_bytes: packing must be given, with 1..64 segments and their counts");
    refused(gs_share_add_packed(nullptr, nullptr, 1, 0, 0, nullptr, NULL),
            "gs_share_add_packed: index, packed and the sums must be given");
    refused(gs_largest(&frame.view, nullptr, NULL), "gs_largest: largest and splats must be given");
}

} // namespace
