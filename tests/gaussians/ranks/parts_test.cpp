// SPDX-License-Identifier: MIT
// A scene on 2 to 4 ranks: the bits of one GPU with DISTWAR_FIXED, its numbers otherwise. Whole trainings on ranks, by either
// transport, and the pictures that they show: gpus_test.cpp and train_command_test.cpp.
#include "arrays.h"
#include "density/density_scene.h"
#include "device.h"
#include "kernel_frame.h"
#include "kernels.h"
#include "parts.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

namespace parts_test {

void run_on_ranks(int count, ranks_body body, void *context) {
    ranks_plan plan = {};
    plan.count = count;
    fault why = {};
    EXPECT_TRUE(ranks_run(&plan, body, context, &why)) << why.text;
}

// ---- how the rows of views are shared out among ranks

// Checks that parts follow one another and end with the last row. Returns the cost of each rank's share.
std::vector<int64_t> costs_of_shares(int ranks_number, int views, int rows, const int64_t *costs) {
    tile_partition out;
    divide_tiles(ranks_number, views, rows, costs, &out);
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

TEST(TileRanges, GivesEachRowToOneRankInEqualShares) {
    for (int ranks_number = 1; ranks_number <= RANKS_MAX; ranks_number += 7)
        for (const int views : {1, 2, 5, int(GS_MAX_VIEWS)})
            for (const int rows : {1, 3, 68, int(GS_MAX_SIZE) / int(GS_TILE_SIZE)})
                for (const int64_t cost : costs_of_shares(ranks_number, views, rows, nullptr)) {
                    const double equal = double(views) * rows / ranks_number;
                    ASSERT_LE(std::abs(double(cost) - equal), 1 + 0.2 * equal);
                }
}

TEST(TileRanges, FollowsTheCosts) {
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
    // Views that differ by less than the tolerance are not cut.
    for (const auto &[cost, parts] : {std::pair{1090, 2}, {1300, 3}}) {
        tile_partition out;
        for (int k = 0; k < 2 * rows; k++) costs[size_t(k)] = k < rows ? 1000 : cost;
        divide_tiles(2, 2, rows, costs.data(), &out);
        EXPECT_EQ(out.begin[2], parts);
        // Of view 1: (40 * 1000 + 40 * 1300) / 2 - 40 * 1000 over 1300 is 4.6.
        EXPECT_EQ(out.parts[1].rows.end, parts == 2 ? rows : 5);
    }
}

// ---- what ranks need of each other, on one

TEST(PartsKernels, RowsOfTilesMustBeInTheImage) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    own_view view(frame.view);
    view.ranges = {}, view.memory.isect_capacity = 100000;
    for (const gs_rows wrong : {gs_rows{-1, 2}, gs_rows{2, 1}, gs_rows{0, 4}}) {
        view.rows = wrong;
        EXPECT_EQ(gs_bin(&view, NULL), GS_INVALID_ARGUMENT);
        EXPECT_STREQ(gs_last_error(), "gs_bin: rows must be a range of the rows of tiles");
    }
    const device_vector<uint8_t> target(3 * 71 * 45);
    const device_vector<double> result(3);
    const gs_loss_image image =
        loss_image({71, 45, frame.view.image.color, target.data(), nullptr}, result.data(), nullptr);
    EXPECT_EQ(libgs_loss_rows(&image, {0, 4}, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "libgs_loss_rows: rows must be a range of the rows of tiles");
}

// Within a class of lengths tile_order has any order, so its first tile may have another list. Here it has the
// shortest.
TEST(PartsKernels, LengthsHaveTheLongestList) {
    const kernel_frame frame({4, 500, 0, 0, 160, 120});
    const gs_tile_ranges &ranges = frame.view.ranges;
    const size_t tiles = size_t(ranges.tiles_x) * size_t(ranges.tiles_y);
    const std::vector<int64_t> begin = downloaded(ranges.tile_begin, tiles + 1);
    std::vector<uint32_t> order = downloaded(ranges.tile_order, tiles);
    const auto length = [&](uint32_t tile) { return begin[tile + 1] - begin[tile]; };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return length(a) < length(b); });
    ASSERT_LT(length(order.front()), length(order.back()));
    device_upload(ranges.tile_order, order.data(), order.size() * sizeof(uint32_t));
    const device_vector<list_lengths> lengths(1);
    gs_view view = frame.view;
    view.memory = frame.kept.memory;
    ASSERT_GS_OK(libgs_list_lengths(&view, lengths.data(), NULL));
    EXPECT_EQ(lengths.read()[0].longest, length(order.back()));
    EXPECT_EQ(lengths.read()[0].isects, begin[tiles]);
}

TEST(PartsKernels, RowSumsAreOfEachRow) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    const std::vector<float> values = random_floats(9, 3 * 71 * 45, -1e-4f, 1e-4f);
    const device_vector<float> planes(values);
    const device_vector<double> sums(9);
    for (const gs_rows rows : {gs_rows{2, 3}, gs_rows{0, 2}})
        ASSERT_GS_OK(parts_row_sums(&frame.view, rows, planes.data(), sums.data()));
    double wanted[9] = {};
    for (size_t i = 0; i < values.size(); i++) // 3 rows of tiles, 3 channels
        wanted[3 * (i / 71 % 45 / 16) + i / (71 * 45)] += std::fabs(double(values[i]));
    for (size_t k = 0; k < 9; k++) EXPECT_NEAR(sums.read()[k], wanted[k], 1e-12 * wanted[k]) << k;
}

// So many that a thread takes several: nvcc unrolls its loop.
TEST(PartsKernels, TheLargestColorIsNoOtherMember) {
    std::vector<gs_splat> splats(100000);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> up_to_one(0, 1);
    float wanted = 0;
    for (gs_splat &splat : splats) {
        splat = {{9, 9}, {9, 9, 9}, 9, {}, 9, {9, 9}};
        const bool culled = random() % 8 == 0;
        for (float &color : splat.color) color = culled ? 9 : up_to_one(random);
        if (culled)
            splat.depth = 0;
        else
            wanted = std::max(wanted, *std::max_element(splat.color, splat.color + GS_CHANNELS));
    }
    const device_vector<gs_splat> on_device(splats);
    const device_vector<gs_largest_values> largest(1);
    gs_view view = {};
    view.gaussians.count = int64_t(splats.size()), view.splats = on_device.data();
    ASSERT_GS_OK(parts_largest(&view, largest.data()));
    EXPECT_EQ(largest.read()[0].color, wanted);
}

// ---- the gradient of a step

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
    const gs_gaussians *gaussians, *gradients; // of the whole scene
    std::vector<int64_t> begin;                // of each rank's Gaussians
    std::vector<float> absolute;               // [views][count][2]
    int32_t rows[2];                           // of tiles of rank 0 at both steps, if there is one view
    double loss[RANKS_MAX][3];                 // of each rank's rows, at the last
};

bool loss_of_rank(parts *s, const own_part *part, float *d_color) {
    shared_run *const run = static_cast<shared_run *>(s->batch->context);
    return put_loss(*run->t, part->part.view, &part->part.rows, part->view.image.color, d_color,
                    run->loss[s->rank]) ||
           ranks_fail(s->group, "%s", gs_last_error());
}

bool run_rank(ranks *group, void *context) {
    shared_run *const run = static_cast<shared_run *>(context);
    const int own = ranks_own(group), views = run->t->views;
    const int64_t first = run->begin[size_t(own)], last = run->begin[size_t(own) + 1];
    parts *const s = static_cast<parts *>(parts_open(group));
    if (!s) return false;
    step_views of = {};
    of.count = views, of.sh_degree = run->t->scene.sh_degree_used;
    for (int v = 0; v < views; v++) of.camera[v] = run->t->cameras[size_t(v)], of.index[v] = size_t(3 * v);
    memcpy(of.background, run->t->frame.view.background, sizeof of.background);
    part_batch batch = {};
    batch.gaussians = part_of(*run->gaussians, first, last);
    batch.of = &of, batch.pictures = of.index, batch.policy = run->policy;
    batch.loss = loss_of_rank, batch.context = run;
    const device_vector<float> absolute(size_t(2 * views * (last - first)));
    const gs_gaussians gradients = part_of(*run->gradients, first, last);
    float *const means = views > 1 ? absolute.data() : nullptr;
    bool good = true;
    for (int step = 0; good && step < 2; step++) { // the second knows what rows of the first cost
        std::fill_n(run->loss[own], 3, 0.0);
        good = parts_backward(s, &batch, &gradients, means) && ranks_wait(group, nullptr);
        if (own == 0) run->rows[step] = s->out.begin[1] * s->out.parts[0].rows.end;
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
    const int64_t begin[] = {0, count / 2 / 4 * 4, count * 3 / 4 / 4 * 4, (count * 3 / 4 + 3) / 4 * 4};
    std::vector<int64_t> out(begin, begin + ranks_number);
    out.push_back(count);
    return out;
}

result on_ranks(const training &t, distwar_policy policy, int ranks_number) {
    const device_gaussians gradients(t.scene.count, t.scene.sh_degree);
    shared_run run = {};
    run.t = &t, run.policy = policy;
    run.gaussians = t.frame.gaussians.get(), run.gradients = gradients.get();
    run.begin = shares_of(t.scene.count, ranks_number);
    run.absolute.resize(2 * size_t(t.views) * size_t(t.scene.count));
    run_on_ranks(ranks_number, run_rank, &run);
    if (ranks_number == 4 && t.views == 1) { // rows cost differently, and shares have followed
        EXPECT_NE(run.rows[0], run.rows[1]);
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

// ---- relocation, growth, splits, noise and penalties of Gaussians

constexpr float least_opacity = 0.005f, noise = 0.3f;
constexpr uint64_t seed = 5, iteration = 600;

struct whole {
    host_gaussians gaussians, first, second;
    std::vector<float> density; // not empty: splits in place of relocation
};

// Copies a rank's rows, of those from `begin` on in all, to the device or back.
void copy_rows(const gs_gaussians &rows, host_gaussians *all, int64_t begin, bool back) {
    const gs_arrays a = gs_arrays_of(&rows);
    for (int k = 0; k < 5; k++) {
        float *const on_host = all->array[k].data() + begin * all->width(k);
        const size_t bytes = size_t(rows.count * all->width(k)) * sizeof(float);
        back ? device_download(on_host, a.of[k], bytes) : device_upload(a.of[k], on_host, bytes);
    }
}

struct parts_run {
    const whole *start;
    int64_t existing;
    whole result;
};

// Splits, or relocation, noise, and the penalties as gradients on top of `first`; from the first `existing` Gaussians to
// room for all. One rank calls gs_refill itself.
bool refill_rank(ranks *group, void *context) {
    parts_run *const run = static_cast<parts_run *>(context);
    whole start = *run->start;
    const int64_t count = start.gaussians.count;
    const training_place place = {group, ranks_count(group) == 1 ? &alone_way : &parts_way};
    training_state state = {};
    if (!training_state_open_empty(&state, &place, run->existing, start.gaussians.sh_degree)) return false;
    const gs_gaussians &g = state.gaussians, &m = state.first_moment, &v = state.second_moment;
    const auto copy_all = [&](whole &with, bool back) {
        copy_rows(g, &with.gaussians, state.first, back);
        copy_rows(m, &with.first, state.first, back);
        copy_rows(v, &with.second, state.first, back);
    };
    copy_all(start, false);
    const bool splits = !start.density.empty();
    if (splits)
        device_upload(state.density, &start.density[size_t(2 * state.first)],
                      size_t(2 * g.count) * sizeof(float));
    bool good = training_state_grow(&state, count, count);
    const gs_refill_rules rules = {
        run->existing, least_opacity, seed, iteration, splits ? state.density : nullptr, nullptr};
    good = good &&
           (place.way->refill ? place.way->refill(&state, &rules)
                              : gs_refill(&g, &m, &v, &rules, nullptr) == GS_OK) &&
           ranks_wait(group, nullptr);
    if (good && !splits &&
        (gs_density_noise(&g, state.first, noise, seed, iteration, nullptr) != GS_OK ||
         gs_density_penalty(&g, count, 0.5f, 0.25f, &m, nullptr) != GS_OK))
        good = ranks_fail(group, "%s", gs_last_error());
    if (good) copy_all(run->result, true);
    training_state_close(&state);
    return good;
}

whole refilled_on(const whole &start, int64_t existing, int count) {
    parts_run run = {&start, existing, start};
    run_on_ranks(count, refill_rank, &run);
    return run.result;
}

void expect_same(const host_gaussians &got, const host_gaussians &wanted, const char *what) {
    for (int a = 0; a < 5; a++) {
        ASSERT_EQ(got.array[a].size(), wanted.array[a].size());
        ASSERT_EQ(memcmp(got.array[a].data(), wanted.array[a].data(), got.array[a].size() * sizeof(float)), 0)
            << what << ", array " << a;
    }
}

void expect_bits_of_one_gpu(const whole &start, int64_t existing) {
    const whole one = refilled_on(start, existing, 1);
    for (int count = 2; count <= 4; count++) {
        SCOPED_TRACE(std::to_string(count) + " ranks");
        const whole got = refilled_on(start, existing, count);
        expect_same(got.gaussians, one.gaussians, "Gaussians");
        expect_same(got.first, one.first, "first moments and penalties");
        expect_same(got.second, one.second, "second moments");
    }
}

// Some are dead: at most least_opacity. not_drawn: of the sums of gradients for splits, which cannot be drawn; negative:
// there are no sums.
whole some_scene(int64_t count, int sh_degree, double dead, double not_drawn = -1) {
    whole out = {random_gaussians(1, count, sh_degree),
                 random_gaussians(2, count, sh_degree),
                 random_gaussians(3, count, sh_degree),
                 {}};
    std::mt19937 random(4), of_sums(6);
    for (int64_t i = 0; i < count; i++) {
        if (random() % 1000 < unsigned(1000 * dead)) out.gaussians.opacity_logit(i) = -8;
        if (not_drawn < 0) continue;
        const bool drawn = of_sums() % 1000 >= unsigned(1000 * not_drawn);
        out.density.push_back(drawn ? float(of_sums() % 100 + 1) : i % 2 ? 0.0f : NAN);
        out.density.push_back(1);
    }
    return out;
}

TEST(PartsDensity, RelocatesAndGrowsWithTheBitsOfOneGpu) {
    expect_bits_of_one_gpu(some_scene(1000, 1, 0.3), 1000);
    expect_bits_of_one_gpu(some_scene(700, 3, 0.9), 700); // many share a place
    expect_bits_of_one_gpu(some_scene(1000, 0, 0.1), 810);
    expect_bits_of_one_gpu(some_scene(600, 1, 0.1), 100); // some ranks have new rows only
    expect_bits_of_one_gpu(some_scene(100, 1, 1), 70);    // nobody lives
    expect_bits_of_one_gpu(some_scene(5, 1, 0), 5);       // nobody is dead
    expect_bits_of_one_gpu(some_scene(2, 0, 0), 1);       // ranks without rows
    whole one_lives = some_scene(300, 1, 1);
    one_lives.gaussians.opacity_logit(299) = 3; // all draw from the last rank
    expect_bits_of_one_gpu(one_lives, 300);
}

TEST(PartsDensity, SplitsWithTheBitsOfOneGpu) {
    const whole start = some_scene(1000, 1, 0.1, 0.1);
    const whole one = refilled_on(start, 900, 1);
    int64_t changed = 0;
    for (int64_t i = 0; i < 900; i++) changed += one.gaussians.row(i) != start.gaussians.row(i);
    ASSERT_GT(changed, 250) << "too few splits to show anything";
    expect_bits_of_one_gpu(start, 900);
    expect_bits_of_one_gpu(some_scene(700, 3, 0.3, 0), 700);
    expect_bits_of_one_gpu(some_scene(600, 0, 0, 0), 310);     // nearly all; some ranks have new rows only
    expect_bits_of_one_gpu(some_scene(500, 1, 0.6, 0.5), 450); // too few can be drawn
    expect_bits_of_one_gpu(some_scene(100, 1, 1, 0), 70);      // nobody lives
    expect_bits_of_one_gpu(some_scene(100, 0, 0, 1), 70);      // nobody can be drawn
    expect_bits_of_one_gpu(some_scene(5, 1, 0, 0), 5);         // nobody is dead
    expect_bits_of_one_gpu(some_scene(2, 0, 0, 0), 1);         // ranks without rows
}

bool check_ranges(ranks *group, void *) {
    for (const int64_t all : {0, 1, 31, 32, 33, 100, 1000, 12345, 1 << 30}) {
        const row_range own = parts_way.range(group, all);
        const int64_t ends[] = {own.first, own.first + own.count};
        std::vector<int64_t> of_all(size_t(2 * ranks_count(group)));
        if (!ranks_tell_numbers(group, 2, ends, of_all.data(), nullptr)) return false;
        int64_t next = 0;
        for (size_t r = 0; r < of_all.size(); next = of_all[r + 1], r += 2)
            if (of_all[r] != next || of_all[r + 1] < next || (next % 32 != 0 && next != all))
                return ranks_fail(group, "of %lld rows rank %zu has those from %lld", (long long)all, r / 2,
                                  (long long)of_all[r]);
        if (next != all) return ranks_fail(group, "%lld rows, not %lld", (long long)next, (long long)all);
    }
    return true;
}

// The adjoint of the projection rounds by what the other Gaussians of a warp need.
TEST(PartsDensity, RanksBeginWhereAWarpDoes) {
    for (const int count : {2, 3, 5}) run_on_ranks(count, check_ranges, nullptr);
}

} // namespace parts_test
