// SPDX-License-Identifier: MIT
// Relocation, growth, splits, noise and penalties of Gaussians on 1 to 4 ranks: the bits of one GPU.
#include "sharded_density.h"
#include "density/density_scene.h"
#include <algorithm>
#include <string>

namespace sharded_density_test {

constexpr float least_opacity = 0.005f, noise = 0.3f;
constexpr uint64_t seed = 5, iteration = 600;

struct whole {
    host_gaussians gaussians, first, second;
    std::vector<float> density; // not empty: splits in place of relocation
};

gs_relocation relocation_of(int64_t existing) {
    return {existing, least_opacity, seed, iteration, nullptr};
}

gs_split_rules rules_of(int64_t existing, const float *density) {
    return {existing, least_opacity, density, seed, iteration};
}

whole split_on_one_gpu(const whole &start, int64_t existing) {
    const device_set gaussians(start.gaussians), first(start.first), second(start.second);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    const device_vector<float> density(start.density);
    size_t bytes = 0;
    EXPECT_GS_OK(gs_split_bytes(g.count, &bytes));
    const device_vector<char> workspace(bytes);
    const gs_split_rules rules = rules_of(existing, density.data());
    EXPECT_GS_OK(gs_split(&g, &m, &v, &rules, workspace.data(), bytes, nullptr));
    return {gaussians.read(), first.read(), second.read(), start.density};
}

// What one GPU makes of it: relocation, noise, and the penalties as gradients on top of `first`.
whole on_one_gpu(const whole &start, int64_t existing) {
    const device_set gaussians(start.gaussians), first(start.first), second(start.second);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    size_t bytes = 0;
    EXPECT_GS_OK(gs_relocate_bytes(g.count, &bytes));
    const device_vector<char> workspace(bytes);
    const gs_relocation relocation = relocation_of(existing);
    EXPECT_GS_OK(gs_relocate(&g, &m, &v, &relocation, workspace.data(), bytes, nullptr));
    EXPECT_GS_OK(gs_density_noise(&g, noise, seed, iteration, nullptr));
    EXPECT_GS_OK(gs_density_penalty(&g, 0.5f, 0.25f, &m, nullptr));
    return {gaussians.read(), first.read(), second.read(), {}};
}

host_gaussians rows_of(const host_gaussians &all, int64_t begin, int64_t end) {
    host_gaussians out(end - begin, all.sh_degree);
    for (int a = 0; a < 5; a++)
        std::copy_n(all.array[a].begin() + begin * all.width(a), (end - begin) * all.width(a),
                    out.array[a].begin());
    return out;
}

void put_rows(const host_gaussians &part, int64_t begin, host_gaussians *all) {
    for (int a = 0; a < 5; a++)
        std::copy(part.array[a].begin(), part.array[a].end(), all->array[a].begin() + begin * all->width(a));
}

struct shared_run {
    const whole *start;
    int64_t existing;
    std::vector<int64_t> begin; // of the shares before
    whole result;
};

gs_shared_vectors vectors_of(const device_set &gaussians, const device_set &first, const device_set &second) {
    return {gaussians.get(), first.get(), second.get()};
}

bool run_rank(ranks *group, void *context) {
    shared_run *const run = static_cast<shared_run *>(context);
    const size_t own = size_t(ranks_own(group));
    const int64_t from = run->begin[own], from_end = run->begin[own + 1], count = run->start->gaussians.count;
    int64_t shares[RANKS_MAX + 1];
    shard_begin(group, count, shares);
    const int64_t rows = shares[own + 1] - shares[own];
    const int degree = run->start->gaussians.sh_degree;
    const device_set old_gaussians(rows_of(run->start->gaussians, from, from_end)),
        old_first(rows_of(run->start->first, from, from_end)),
        old_second(rows_of(run->start->second, from, from_end));
    const device_set gaussians(rows, degree), first(rows, degree), second(rows, degree);
    shard_move move = {};
    move.from_begin = run->begin.data(), move.to_begin = shares;
    move.from = vectors_of(old_gaussians, old_first, old_second);
    move.to = vectors_of(gaussians, first, second);
    const std::vector<float> &sums = run->start->density;
    const bool splits = !sums.empty();
    const device_vector<float> old_density(
        splits ? std::vector<float>(sums.begin() + 2 * from, sums.begin() + 2 * from_end)
               : std::vector<float>());
    const device_vector<float> density(splits ? 2 * size_t(rows) : 0);
    if (splits) move.from_density = old_density.data(), move.to_density = density.data();
    shard_split_rules split = {};
    split.vectors = move.to, split.first = shares[own], split.rules = rules_of(run->existing, density.data());
    shard_relocation relocation = {};
    relocation.vectors = move.to, relocation.first = shares[own],
    relocation.relocation = relocation_of(run->existing);
    shard_workspace workspace = {};
    const bool good = shard_rebalance(group, &move, nullptr) &&
                      (splits ? shard_split(group, &split, &workspace, nullptr)
                              : shard_relocate(group, &relocation, &workspace, nullptr)) &&
                      ranks_wait(group, nullptr);
    shard_workspace_close(&workspace);
    if (!good) return false;
    const gs_gaussians g = gaussians.get(), m = first.get();
    if (splits) {
        // gs_split alone
    } else if (gs_share_noise(&g, shares[own], noise, seed, iteration, nullptr) != GS_OK ||
               gs_share_penalty(&g, count, 0.5f, 0.25f, &m, nullptr) != GS_OK)
        return ranks_fail(group, "%s", gs_last_error());
    put_rows(gaussians.read(), shares[own], &run->result.gaussians);
    put_rows(first.read(), shares[own], &run->result.first);
    put_rows(second.read(), shares[own], &run->result.second);
    return true;
}

void expect_same(const host_gaussians &got, const host_gaussians &wanted, const char *what) {
    for (int a = 0; a < 5; a++)
        ASSERT_TRUE(std::equal(got.array[a].begin(), got.array[a].end(), wanted.array[a].begin(),
                               wanted.array[a].end(),
                               [](float x, float y) { return memcmp(&x, &y, sizeof x) == 0; }))
            << what << ", array " << a;
}

void expect_bits_of_one_gpu(const whole &start, int64_t existing) {
    const whole one = start.density.empty() ? on_one_gpu(start, existing) : split_on_one_gpu(start, existing);
    for (int count = 1; count <= 4; count++) {
        SCOPED_TRACE(std::to_string(count) + " ranks");
        shared_run run = {&start, existing, {}, start};
        for (int r = 0; r < count; r++) run.begin.push_back(existing * r * r / (count * count)); // unequal
        run.begin.push_back(existing);
        ranks_plan plan = {};
        plan.count = count;
        fault why = {};
        ASSERT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
        expect_same(run.result.gaussians, one.gaussians, "Gaussians");
        expect_same(run.result.first, one.first, "first moments and penalties");
        expect_same(run.result.second, one.second, "second moments");
    }
}

// Some are dead: at most least_opacity.
whole some_scene(int64_t count, int sh_degree, double dead) {
    whole out = {random_gaussians(1, count, sh_degree),
                 random_gaussians(2, count, sh_degree),
                 random_gaussians(3, count, sh_degree),
                 {}};
    std::mt19937 random(4);
    for (int64_t i = 0; i < count; i++)
        if (random() % 1000 < unsigned(1000 * dead)) out.gaussians.opacity_logit(i) = -8;
    return out;
}

TEST(ShardedDensity, RelocatesWithTheBitsOfOneGpu) {
    expect_bits_of_one_gpu(some_scene(1000, 1, 0.3), 1000);
    expect_bits_of_one_gpu(some_scene(700, 3, 0.9), 700); // many share a place
}

TEST(ShardedDensity, GrowsWithTheBitsOfOneGpu) {
    expect_bits_of_one_gpu(some_scene(1000, 0, 0.1), 810);
    expect_bits_of_one_gpu(some_scene(600, 1, 0.1), 100); // some ranks have new rows only
}

TEST(ShardedDensity, TheEdgesAreThoseOfOneGpu) {
    expect_bits_of_one_gpu(some_scene(100, 1, 1), 70); // nobody lives
    expect_bits_of_one_gpu(some_scene(5, 1, 0), 5);    // nobody is dead
    expect_bits_of_one_gpu(some_scene(2, 0, 0), 1);    // ranks without rows
    whole one_lives = some_scene(300, 1, 1);
    one_lives.gaussians.opacity_logit(299) = 3; // all draw from the last rank
    expect_bits_of_one_gpu(one_lives, 300);
}

// As some_scene, with sums of gradients, of which a part cannot be drawn.
whole split_scene(int64_t count, int sh_degree, double dead, double not_drawn) {
    whole out = some_scene(count, sh_degree, dead);
    std::mt19937 random(6);
    for (int64_t i = 0; i < count; i++) {
        const bool drawn = random() % 1000 >= unsigned(1000 * not_drawn);
        out.density.push_back(drawn ? float(random() % 100 + 1) : i % 2 ? 0.0f : NAN);
        out.density.push_back(1);
    }
    return out;
}

TEST(ShardedDensity, SplitsWithTheBitsOfOneGpu) {
    const whole start = split_scene(1000, 1, 0.1, 0.1);
    const whole one = split_on_one_gpu(start, 900);
    int64_t changed = 0;
    for (int64_t i = 0; i < 900; i++) changed += one.gaussians.row(i) != start.gaussians.row(i);
    ASSERT_GT(changed, 250) << "too few splits to show anything";
    expect_bits_of_one_gpu(start, 900);
    expect_bits_of_one_gpu(split_scene(700, 3, 0.3, 0), 700);
    expect_bits_of_one_gpu(split_scene(600, 0, 0, 0),
                           310); // nearly all are split; some ranks have new rows only
}

TEST(ShardedDensity, TheEdgesOfSplitsAreThoseOfOneGpu) {
    expect_bits_of_one_gpu(split_scene(500, 1, 0.6, 0.5), 450); // too few can be drawn
    expect_bits_of_one_gpu(split_scene(100, 1, 1, 0), 70);      // nobody lives
    expect_bits_of_one_gpu(split_scene(100, 0, 0, 1), 70);      // nobody can be drawn
    expect_bits_of_one_gpu(split_scene(5, 1, 0, 0), 5);         // nobody is dead
    expect_bits_of_one_gpu(split_scene(2, 0, 0, 0), 1);         // ranks without rows
}

TEST(ShardedDensity, SplitsThatCannotBeAreRefused) {
    const device_set set(random_gaussians(1, 8, 1));
    const gs_gaussians g = set.get();
    const gs_shared_vectors vectors = {g, g, g};
    const device_vector<char> workspace(1 << 16);
    const device_vector<int64_t> number(8);
    const device_vector<float> density(16);
    gs_shared_split split = {rules_of(8, nullptr), 0, workspace.data(), 1 << 16};
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_STREQ(gs_last_error(), text);
    };
    refused(gs_share_split_draw(&g, &split, number.data(), nullptr),
            "gs_share_split_draw: density must be given");
    split.rules.density = density.data();
    ASSERT_GS_OK(gs_share_split_draw(&g, &split, number.data(), nullptr));
    refused(gs_share_split_draw(&g, &split, nullptr, nullptr), "gs_share_split_draw: totals must be given");
    refused(gs_share_split_count(&g, &split, nullptr, 1, number.data(), nullptr),
            "gs_share_split_count: bounds and below must be given, and n >= 0");
    const gs_split_copies many = {9, nullptr, nullptr}, none = {1, nullptr, nullptr};
    refused(gs_share_split_give(&vectors, &split, &many, nullptr),
            "gs_share_split_give: copies must be given, at most one a row");
    refused(gs_share_split_take(&vectors, &split, &none, nullptr),
            "gs_share_split_take: keys and values must be given");
    split.rules.existing = 9;
    refused(gs_share_split_draw(&g, &split, number.data(), nullptr),
            "gs_share_split_draw: existing must be in 0..count");
}

TEST(ShardedDensity, WhatCannotBeIsRefused) {
    const device_set set(random_gaussians(1, 8, 1));
    const gs_gaussians g = set.get();
    const gs_shared_vectors vectors = {g, g, g};
    const device_vector<char> workspace(1 << 16);
    const device_vector<int64_t> number(8);
    int64_t weight_begin[] = {0, 4, 2};
    gs_shared_relocation r = {relocation_of(8), 0, 2, workspace.data(), 1 << 16, nullptr};
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_STREQ(gs_last_error(), text);
    };
    ASSERT_GS_OK(gs_share_weigh(&g, &r, number.data(), nullptr));
    refused(gs_share_count_draws(&g, &r, number.data(), nullptr),
            "gs_share_count_draws: weight_begin must be given");
    r.weight_begin = weight_begin;
    refused(gs_share_count_draws(&g, &r, number.data(), nullptr),
            "gs_share_count_draws: weight_begin must begin with 0 and not decrease");
    refused(gs_share_answer(&vectors, &r, nullptr, nullptr), "gs_share_answer: at and values must be given");
    r.relocation.existing = 9;
    refused(gs_share_weigh(&g, &r, number.data(), nullptr), "gs_share_weigh: existing must be in 0..count");
    r.gpus = GS_MAX_GPUS + 1;
    refused(gs_share_weigh(&g, &r, number.data(), nullptr), "gs_share_weigh: gpus must be in 1..64");
}

} // namespace sharded_density_test
