// SPDX-License-Identifier: MIT
// A scene on 2 to 4 ranks: the bits of one GPU with DISTWAR_FIXED, its numbers otherwise. Whole trainings on ranks, by either
// transport, and the pictures that they show: gpus_test.cpp and validation_views_test.cpp.
#include "parts.h"
#include "kernel_frame.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

namespace {

using batch_choice = std::pair<scene_choice, int>; // and the number of views

std::vector<uint8_t> random_bytes(uint64_t seed, size_t count, float below) {
    const std::vector<float> values = random_floats(seed, count, 0, below);
    return {values.begin(), values.end()};
}

// A scene, its cameras and photographs. But for the first, these have masks and gains. Of several views the absolute
// gradients of the means in the image are summed.
struct training {
    explicit training(const batch_choice &choice)
        : scene(choice.first), views(choice.second), frame(scene), cameras(size_t(views), frame.view.camera),
          pixels(size_t(frame.pixels())), pictures(random_bytes(100, 3 * pixels * size_t(views), 256)),
          masks(random_bytes(200, pixels * size_t(views), 2)) {
        for (int v = 0; v < views; v++) {
            gs_camera &camera = cameras[size_t(v)];
            camera.translation[0] += 0.07f * float(v);
            camera.translation[1] -= 0.2f * float(v % 2);
            camera.fx *= 1 + 0.05f * float(v);
        }
    }

    const scene_choice scene;
    const int views;
    kernel_frame frame;
    std::vector<gs_camera> cameras;
    const size_t pixels;
    const device_vector<uint8_t> pictures, masks;
    const device_vector<float> log_gain{std::vector<float>{0.25f, -0.5f, 0.125f}};
};

// Gaussians first .. last - 1; first is a multiple of 4, so that arrays stay aligned.
gs_gaussians part_of(gs_gaussians all, int64_t first, int64_t last) {
    const int row = 3 * (all.sh_degree + 1) * (all.sh_degree + 1);
    all.count = last - first;
    all.mean += 3 * first, all.log_scale += 3 * first, all.quaternion += 4 * first;
    all.opacity_logit += first, all.sh += row * first;
    return all;
}

// rows NULL: gs_loss. Adds to `sum`: loss, difference, SSIM.
bool put_loss(const training &t, int view, const gs_rows *rows, const float *color, float *d_color,
              double sum[3]) {
    const gs_camera &camera = t.cameras[size_t(view)];
    const gs_comparison images = {camera.width, camera.height, color,
                                  t.pictures.data() + 3 * t.pixels * size_t(view),
                                  view > 0 ? t.masks.data() + t.pixels * size_t(view) : nullptr};
    const device_vector<double> result(3), gain_rows(size_t(camera.height) * GS_EXPOSURE_SUMS);
    const device_vector<float> gain_sums(GS_EXPOSURE_SUMS);
    gs_loss_image image = loss_image(images, result.data(), d_color);
    image.log_gain = view > 0 ? t.log_gain.data() : nullptr, image.gain_sums = gain_sums.data();
    const gs_status status =
        rows ? libgs_loss_rows(&image, *rows, gain_rows.data(), NULL) : gs_loss(&image, 1, NULL);
    for (size_t k = 0; k < 3 && status == GS_OK; k++) sum[k] += result.read()[k];
    return status == GS_OK;
}

struct result {
    std::array<double, 3> loss; // of all views
    std::vector<double> gradient;
    std::vector<float> absolute; // [views][count][2]; zeros of a single view
};

// What one GPU computes, view by view.
result on_one_gpu(const training &t, distwar_policy policy) {
    const size_t count = size_t(t.scene.count), all_splats = size_t(t.views) * count;
    const device_vector<gs_splat> splats(all_splats);
    const device_vector<gs_splat_grad> splat_grad(all_splats);
    const device_vector<float> absolute(2 * all_splats), d_color(3 * t.pixels);
    std::array<double, 3> loss = {};
    gs_view all = t.frame.view;
    all.views = {t.views, t.cameras.data()}, all.splats = splats.data();
    EXPECT_GS_OK(gs_project(&all, NULL));
    gs_gradient gradient = {};
    gradient.abs_mean2d = t.views > 1 ? absolute.data() : nullptr;
    for (int v = 0; v < t.views; v++) {
        own_view view(t.frame.view);
        view.camera = t.cameras[size_t(v)], view.memory.isect_capacity = 100000;
        view.image = {}, view.ranges = {};
        view.splats = splats.data() + size_t(v) * count;
        EXPECT_GS_OK(gs_bin(&view, NULL));
        EXPECT_GS_OK(gs_render(&view, NULL));
        EXPECT_GS_OK(gs_settle(&view, NULL));
        EXPECT_TRUE(put_loss(t, v, nullptr, view.image.color, d_color.data(), loss.data()))
            << gs_last_error();
        gradient.splat_grad = splat_grad.data() + size_t(v) * count, gradient.color = d_color.data();
        EXPECT_GS_OK(gs_render_backward(&view, &gradient, policy, NULL));
    }
    const device_gaussians gradients(t.scene.count, t.scene.sh_degree);
    gradient.color = nullptr;
    gradient.splat_grad = splat_grad.data(), gradient.gaussians = *gradients.get();
    EXPECT_GS_OK(gs_project_backward(&all, &gradient, NULL));
    return {loss, gradients.values(), t.views > 1 ? absolute.read() : std::vector<float>(2 * all_splats)};
}

struct shared_run {
    const training *t;
    distwar_policy policy;
    const gs_gaussians *gaussians, *gradients;      // of the whole scene
    std::vector<int64_t> begin;                     // of each rank's Gaussians
    std::vector<float> absolute;                    // [views][count][2]
    int64_t rows[RANKS_MAX], first_rows[RANKS_MAX]; // of tiles that each rank rendered, at last and at first
    double loss[RANKS_MAX][3];                      // of these rows, at last
};

bool loss_of_rank(ranks *group, void *context, const part_image *image, gs_stream) {
    shared_run *const run = static_cast<shared_run *>(context);
    return put_loss(*run->t, image->view, &image->rows, image->color, image->d_color,
                    run->loss[ranks_own(group)]) ||
           ranks_fail(group, "%s", gs_last_error());
}

// Of tiles that the rank rendered of the last batch.
int64_t rows_of(const parts *s) {
    int64_t rows = 0;
    for (int p = s->out.begin[s->rank]; p < s->out.begin[s->rank + 1]; p++)
        rows += s->out.parts[p].rows.end - s->out.parts[p].rows.begin;
    return rows;
}

bool run_rank(ranks *group, void *context) {
    shared_run *const run = static_cast<shared_run *>(context);
    const int own = ranks_own(group), views = run->t->views;
    const int64_t first = run->begin[size_t(own)], last = run->begin[size_t(own) + 1];
    parts *const s = static_cast<parts *>(parts_open(group));
    if (!s) return false;
    part_batch batch = {};
    batch.gaussians = part_of(*run->gaussians, first, last);
    batch.sh_degree_used = run->t->scene.sh_degree_used;
    memcpy(batch.background, run->t->frame.view.background, sizeof batch.background);
    batch.views = views, batch.cameras = run->t->cameras.data(), batch.policy = run->policy;
    std::vector<int32_t> pictures{};
    for (int v = 0; v < views; v++) pictures.push_back(3 * v);
    batch.pictures = pictures.data();
    batch.loss = loss_of_rank, batch.context = run;
    const device_vector<float> absolute(size_t(2 * views * (last - first)));
    const gs_gaussians gradients = part_of(*run->gradients, first, last);
    float *const means = views > 1 ? absolute.data() : nullptr;
    bool good = true;
    for (int step = 1; good && step <= 2; step++) { // the second knows what rows of the first cost
        std::fill_n(run->loss[own], 3, 0.0);
        good = parts_backward(s, &batch, &gradients, means) && ranks_wait(group, nullptr);
        (step == 1 ? run->first_rows : run->rows)[own] = rows_of(s);
    }
    const std::vector<float> got = absolute.read();
    const int64_t count = run->t->scene.count;
    for (int v = 0; v < views && views > 1 && last > first; v++)
        memcpy(&run->absolute[size_t(2 * (v * count + first))], &got[size_t(2 * v * (last - first))],
               size_t(2 * (last - first)) * sizeof(float));
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

result on_ranks(const training &t, distwar_policy policy, int ranks_number) {
    const device_gaussians gradients(t.scene.count, t.scene.sh_degree);
    shared_run run = {};
    run.t = &t, run.policy = policy;
    run.gaussians = t.frame.gaussians.get(), run.gradients = gradients.get();
    run.begin = shares_of(t.scene.count, ranks_number);
    run.absolute.resize(2 * size_t(t.views) * size_t(t.scene.count));
    ranks_plan plan = {};
    plan.count = ranks_number;
    fault why = {};
    EXPECT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
    if (ranks_number == 4 && t.views == 1) { // rows cost differently, and shares have followed
        EXPECT_NE(run.first_rows[0], run.rows[0]);
    }
    std::array<double, 3> loss = {};
    for (size_t k = 0; k < 3; k++)
        for (const auto &of_rank : run.loss) loss[k] += of_rank[k];
    return {loss, gradients.values(), run.absolute};
}

class Parts : public testing::TestWithParam<batch_choice> {};

// By any other reduction its numbers.
TEST_P(Parts, GivesTheBitsOfOneGpu) {
    const training t(GetParam());
    const result one = on_one_gpu(t, {DISTWAR_FIXED, 0});
    double norm = 0;
    for (const double value : one.gradient) norm += value * value;
    ASSERT_GT(norm, 0);
    for (int count = 2; count <= 4; count++) {
        const result got = on_ranks(t, {DISTWAR_FIXED, 0}, count);
        for (size_t k = 0; k < 3; k++) EXPECT_NEAR(got.loss[k], one.loss[k], 1e-12) << count << " ranks";
#ifdef DISTWAR_SIMT
        EXPECT_EQ(got.gradient, one.gradient) << count << " ranks";
        EXPECT_EQ(got.absolute, one.absolute) << count << " ranks";
#else // the kernels of one and of several cameras are compiled apart
        EXPECT_LE(relative_norm(got.gradient, one.gradient), 1e-5) << count << " ranks";
#endif
    }
    for (const int count : {3, 4})
        EXPECT_LE(relative_norm(on_ranks(t, {DISTWAR_TREE, 0}, count).gradient, one.gradient), 1e-5)
            << count << " ranks";
}

INSTANTIATE_TEST_SUITE_P(Batches, Parts,
                         testing::Values(batch_choice{{4, 192, 1, 1, 71, 45}, 1}, // three rows of tiles
                                         batch_choice{{5, 300, 3, 2, 50, 100}, 2},
                                         batch_choice{{6, 260, 0, 0, 66, 66}, 3}));

} // namespace
