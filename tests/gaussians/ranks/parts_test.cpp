// SPDX-License-Identifier: MIT
// A scene on 2 to 4 ranks: the bits of one GPU with DISTWAR_FIXED, its numbers otherwise.
#include "parts.h"
#include "kernel_frame.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

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
    const device_vector<double> result(3);
    const gs_loss_image image = loss_image(images, result.data(), d_color);
    return (rows ? libgs_loss_rows(&image, *rows, NULL, NULL) : gs_loss(&image, 1, NULL)) == GS_OK;
}

bool loss_of_rank(ranks *group, void *context, const part_image *image, gs_stream) {
    const training *const t = static_cast<const training *>(context);
    return put_loss(*t, image->view, &image->rows, image->color, image->d_color) ||
           ranks_fail(group, "%s", gs_last_error());
}

struct result {
    std::vector<double> gradient;
    std::vector<float> absolute; // of the means in the image
};

std::vector<double> values_of(const device_gaussians &gaussians) {
    return gaussians.values();
}

bool has_absolute(const training &t) {
    return t.choice.views > 1;
}

// What one GPU computes, view by view.
result on_one_gpu(const training &t, distwar_policy policy) {
    const scene_choice &scene = t.choice.scene;
    const int views = t.choice.views;
    const size_t count = size_t(scene.count);
    const device_vector<gs_splat> splats(size_t(views) * count);
    const device_vector<gs_splat_grad> splat_grad(size_t(views) * count);
    const device_vector<float> by_means(2 * size_t(views) * count);
    float *const absolute = has_absolute(t) ? by_means.data() : nullptr;
    gs_view all = t.frame.view;
    all.views = {views, t.cameras.data()}, all.splats = splats.data();
    EXPECT_GS_OK(gs_project(&all, NULL));
    for (int v = 0; v < views; v++) {
        own_view view(t.frame.view);
        view.camera = t.camera(v), view.memory.isect_capacity = 100000;
        view.image = {}, view.ranges = {};
        gs_gradient gradient = {};
        gradient.splat_grad = splat_grad.data() + size_t(v) * count;
        view.splats = splats.data() + size_t(v) * count;
        EXPECT_GS_OK(gs_bin(&view, NULL));
        EXPECT_GS_OK(gs_render(&view, NULL));
        EXPECT_GS_OK(gs_settle(&view, NULL));
        const device_vector<float> d_color(3 * size_t(t.frame.pixels()));
        EXPECT_TRUE(put_loss(t, v, nullptr, view.image.color, d_color.data())) << gs_last_error();
        gradient.color = d_color.data(), gradient.abs_mean2d = absolute;
        EXPECT_GS_OK(gs_render_backward(&view, &gradient, policy, NULL));
    }
    const device_gaussians gradients(scene.count, scene.sh_degree);
    gs_gradient gradient = {};
    gradient.abs_mean2d = absolute;
    gradient.splat_grad = splat_grad.data(), gradient.gaussians = *gradients.get();
    EXPECT_GS_OK(gs_project_backward(&all, &gradient, NULL));
    return {values_of(gradients), absolute ? by_means.read() : std::vector<float>(2 * size_t(views) * count)};
}

struct shared_run {
    const training *t;
    distwar_policy policy;
    const gs_gaussians *gaussians, *gradients; // of the whole scene
    std::vector<int64_t> begin;                // of each rank's Gaussians
    std::vector<float> absolute;               // [views][count][2]
    int steps;
    const gs_gaussians *first_moment, *second_moment;
    int64_t rows[RANKS_MAX], first_rows[RANKS_MAX]; // of tiles that each rank rendered, at last and at first
    int failing_rank, failing_step;                 // failing_step 0: none
};

// Of tiles that the rank rendered of the last batch.
int64_t rows_of(const parts *s) {
    int64_t rows = 0;
    for (int p = s->out.begin[s->rank]; p < s->out.begin[s->rank + 1]; p++)
        rows += s->out.parts[p].rows.end - s->out.parts[p].rows.begin;
    return rows;
}

// What a rank that is to fail does in the middle of a step.
bool fail_in_step(ranks *group, void *, const part_image *, gs_stream) {
    return ranks_fail(group, "no loss of this image");
}

bool run_rank(ranks *group, void *context) {
    shared_run *const run = static_cast<shared_run *>(context);
    const int own = ranks_own(group), views = run->t->choice.views;
    const int64_t first = run->begin[size_t(own)], last = run->begin[size_t(own) + 1];
    parts *const s = static_cast<parts *>(parts_open(group));
    if (!s) return false;
    part_batch batch = {};
    batch.gaussians = part_of(*run->gaussians, first, last);
    batch.sh_degree_used = run->t->choice.scene.sh_degree_used;
    memcpy(batch.background, run->t->frame.view.background, sizeof batch.background);
    batch.views = views, batch.cameras = run->t->cameras.data(), batch.policy = run->policy;
    std::vector<int32_t> pictures{};
    for (int v = 0; v < views; v++) pictures.push_back(3 * v);
    batch.pictures = pictures.data();
    batch.loss = loss_of_rank, batch.context = const_cast<training *>(run->t);
    const device_vector<float> absolute(size_t(2 * views * (last - first)));
    const gs_gaussians gradients = part_of(*run->gradients, first, last);
    float *const means = has_absolute(*run->t) ? absolute.data() : nullptr;
    bool good = true;
    for (int step = 1; good && step <= run->steps; step++) {
        if (step == run->failing_step && own == run->failing_rank)
            batch.loss = fail_in_step, batch.context = run;
        good = parts_backward(s, &batch, &gradients, means) && ranks_wait(group, nullptr);
        if (step == 1) run->first_rows[own] = rows_of(s);
        if (!good || !run->first_moment) continue;
        const gs_gaussians m = part_of(*run->first_moment, first, last),
                           v = part_of(*run->second_moment, first, last);
        const gs_adam_rates rates = {0.01f, 0.01f, 0.01f, 0.02f, 0.02f, 0.01f, 0};
        good = gs_adam(&batch.gaussians, &gradients, &m, &v, &rates, step, NULL) == GS_OK;
    }
    const std::vector<float> got = absolute.read();
    const int64_t count = run->t->choice.scene.count;
    for (int v = 0; v < views && last > first && has_absolute(*run->t); v++)
        memcpy(&run->absolute[size_t(2 * (v * count + first))], &got[size_t(2 * v * (last - first))],
               size_t(2 * (last - first)) * sizeof(float));
    run->rows[own] = rows_of(s);
    parts_close(s);
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
    run.absolute.resize(2 * size_t(t.choice.views) * size_t(count));
    return run;
}

void expect_done(int count, ranks_body body, void *context) {
    ranks_plan plan = {};
    plan.count = count;
    fault why = {};
    ASSERT_TRUE(ranks_run(&plan, body, context, &why)) << why.text;
}

result on_ranks(const training &t, distwar_policy policy, int ranks_number) {
    const scene_choice &scene = t.choice.scene;
    const device_gaussians gradients(scene.count, scene.sh_degree);
    shared_run run = run_of(t, policy, gradients, ranks_number);
    expect_done(ranks_number, run_rank, &run);
    return {values_of(gradients), run.absolute};
}

class Parts : public testing::TestWithParam<batch_choice> {};

TEST_P(Parts, GivesTheBitsOfOneGpu) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    double norm = 0;
    for (const double value : one.gradient) norm += value * value;
    ASSERT_GT(norm, 0);
    for (int count = 2; count <= 4; count++) {
        const result got = on_ranks(t, {DISTWAR_FIXED, 0}, count);
#ifdef DISTWAR_SIMT
        EXPECT_EQ(got.gradient, one.gradient) << count << " ranks";
        EXPECT_EQ(got.absolute, one.absolute) << count << " ranks";
#else // the kernels of one and of several cameras are compiled apart
        EXPECT_LE(relative_norm(got.gradient, one.gradient), 1e-5) << count << " ranks";
#endif
    }
}

TEST_P(Parts, GivesTheNumbersOfOneGpuByAnyReduction) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    for (const int count : {3, 4})
        EXPECT_LE(relative_norm(on_ranks(t, {DISTWAR_TREE, 0}, count).gradient, one.gradient), 1e-5)
            << count << " ranks";
}

struct showing {
    const training *t;
    std::vector<int64_t> begin;  // of each rank's Gaussians
    std::vector<float> images;   // [views][GS_CHANNELS][height][width]
    int views_before[RANKS_MAX]; // of each rank: views that were shown
};

bool keep_rows(ranks *group, void *context, const part_image *image, gs_stream stream) {
    showing *const to = static_cast<showing *>(context);
    const size_t width = size_t(image->width), plane = width * size_t(image->height),
                 first = size_t(image->rows.begin * GS_TILE_SIZE) * width,
                 end = std::min(size_t(image->rows.end * GS_TILE_SIZE) * width, plane);
    if (!ranks_wait(group, stream)) return false;
    for (size_t c = 0; c < GS_CHANNELS; c++)
        device_download(
            &to->images[(size_t(to->views_before[ranks_own(group)]) * GS_CHANNELS + c) * plane + first],
            image->color + c * plane + first, (end - first) * sizeof(float));
    return true;
}

bool show_rank(ranks *group, void *context) {
    showing *const run = static_cast<showing *>(context);
    const training &t = *run->t;
    const size_t own = size_t(ranks_own(group));
    parts *const s = static_cast<parts *>(parts_open(group));
    if (!s) return false;
    part_batch batch = {};
    batch.gaussians = part_of(*t.frame.gaussians.get(), run->begin[own], run->begin[own + 1]);
    batch.sh_degree_used = t.choice.scene.sh_degree_used;
    memcpy(batch.background, t.frame.view.background, sizeof batch.background);
    batch.views = 1, batch.loss = keep_rows, batch.context = context;
    bool good = true;
    for (int v = 0; v < t.choice.views && good; v++) {
        batch.cameras = &t.cameras[size_t(v)];
        run->views_before[own] = v;
        good = parts_render(s, &batch) && ranks_wait(group, nullptr);
    }
    parts_close(s);
    return good;
}

// Also on a GPU, whose kernel for several cameras rounds otherwise than that for one.
TEST_P(Parts, ShowsTheBytesOfOneGpu) {
    const training t(GetParam());
    const size_t values = GS_CHANNELS * size_t(t.frame.pixels());
    std::vector<float> expected{};
    for (int v = 0; v < t.choice.views; v++) {
        own_view view(t.frame.view);
        view.camera = t.camera(v), view.image = {}, view.ranges = {};
        ASSERT_GS_OK(gs_forward(&view, NULL));
        expected.resize(expected.size() + values);
        device_download(&expected[size_t(v) * values], view.image.color, values * sizeof(float));
    }
    for (int count = 2; count <= 4; count++) {
        showing run = {&t, shares_of(t.choice.scene.count, count), std::vector<float>(expected.size()), {}};
        expect_done(count, show_rank, &run);
        EXPECT_EQ(memcmp(run.images.data(), expected.data(), expected.size() * sizeof(float)), 0)
            << count << " ranks";
    }
}

TEST_P(Parts, TrainsToTheSameBits) {
    std::vector<double> first;
    for (const int count : {2, 3, 4}) {
        const training t(GetParam()); // Gaussians as they began
        const scene_choice &scene = t.choice.scene;
        const device_gaussians gradients(scene.count, scene.sh_degree), m(scene.count, scene.sh_degree),
            v(scene.count, scene.sh_degree);
        shared_run run = run_of(t, {DISTWAR_FIXED, 0}, gradients, count);
        run.steps = 3, run.first_moment = m.get(), run.second_moment = v.get();
        expect_done(count, run_rank, &run);
        if (count == 4 && t.choice.views == 1) { // rows cost differently, and shares have followed
            EXPECT_NE(run.first_rows[0], run.rows[0]);
        }
        const std::vector<double> now = values_of(t.frame.gaussians);
        if (first.empty()) first = now;
        EXPECT_EQ(now, first) << count << " ranks";
    }
}

#ifdef DISTWAR_SIMT
TEST_P(Parts, GivesTheSameBitsByNccl) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    const device_gaussians gradients(t.choice.scene.count, t.choice.scene.sh_degree);
    shared_run run = run_of(t, {DISTWAR_FIXED, 0}, gradients, 3);
    ranks_plan plan = {};
    plan.count = 3, plan.kind = RANKS_GPUS, plan.nccl = FAKE_NCCL, plan.devices = 1;
    fault why = {};
    ASSERT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
    EXPECT_EQ(values_of(gradients), one.gradient);
    run.steps = 2, run.failing_step = 2;
    for (run.failing_rank = 0; run.failing_rank < 3; run.failing_rank++) {
        EXPECT_FALSE(ranks_run(&plan, run_rank, &run, &why));
        EXPECT_EQ(std::string(why.text),
                  "rank " + std::to_string(run.failing_rank) + ": no loss of this image");
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(Batches, Parts,
                         testing::Values(batch_choice{{4, 192, 1, 1, 71, 45}, 1}, // three rows of tiles
                                         batch_choice{{5, 300, 3, 2, 50, 100}, 2},
                                         batch_choice{{6, 260, 0, 0, 66, 66}, 3}));

} // namespace
