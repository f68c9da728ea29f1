// SPDX-License-Identifier: MIT
// Relocation, growth, splits, noise and penalties of Gaussians on 2 to 4 ranks: the bits of one GPU.
#include "arrays.h"
#include "density/density_scene.h"
#include "device.h"
#include "parts.h"
#include <algorithm>
#include <string>

namespace parts_density_test {

constexpr float least_opacity = 0.005f, noise = 0.3f;
constexpr uint64_t seed = 5, iteration = 600;

struct whole {
    host_gaussians gaussians, first, second;
    std::vector<float> density; // not empty: splits in place of relocation
};

gs_refill_rules rules_of(int64_t existing, const float *density) {
    return {existing, least_opacity, seed, iteration, density, nullptr};
}

// What one GPU makes of it: splits, or relocation, noise, and the penalties as gradients on top of `first`.
whole on_one_gpu(const whole &start, int64_t existing) {
    const device_set gaussians(start.gaussians), first(start.first), second(start.second);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    const device_vector<float> density(start.density);
    const bool splits = !start.density.empty();
    const gs_refill_rules rules = rules_of(existing, splits ? density.data() : nullptr);
    EXPECT_GS_OK(gs_refill(&g, &m, &v, &rules, nullptr));
    if (!splits) {
        EXPECT_GS_OK(gs_density_noise(&g, 0, noise, seed, iteration, nullptr));
        EXPECT_GS_OK(gs_density_penalty(&g, g.count, 0.5f, 0.25f, &m, nullptr));
    }
    return {gaussians.read(), first.read(), second.read(), start.density};
}

struct parts_run {
    const whole *start;
    int64_t existing;
    whole result;
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

// From the first `existing` Gaussians to room for all.
bool run_rank(ranks *group, void *context) {
    parts_run *const run = static_cast<parts_run *>(context);
    const whole &start = *run->start;
    const int64_t count = start.gaussians.count;
    const training_place place = {group, &parts_way};
    training_state state = {};
    if (!training_state_open_empty(&state, &place, run->existing, start.gaussians.sh_degree)) return false;
    const auto copy_all = [&state](whole &with, bool back) {
        copy_rows(state.gaussians, &with.gaussians, state.first, back);
        copy_rows(state.first_moment, &with.first, state.first, back);
        copy_rows(state.second_moment, &with.second, state.first, back);
    };
    whole begin = start;
    copy_all(begin, false);
    const bool splits = !start.density.empty();
    if (splits)
        device_upload(state.density, &start.density[size_t(2 * state.first)],
                      size_t(2 * state.gaussians.count) * sizeof(float));
    bool good = parts_way.grow(&state, count);
    const gs_refill_rules rules = rules_of(run->existing, splits ? state.density : nullptr);
    good = good && parts_way.refill(&state, &rules) && ranks_wait(group, nullptr);
    if (good && !splits &&
        (gs_density_noise(&state.gaussians, state.first, noise, seed, iteration, nullptr) != GS_OK ||
         gs_density_penalty(&state.gaussians, count, 0.5f, 0.25f, &state.first_moment, nullptr) != GS_OK))
        good = ranks_fail(group, "%s", gs_last_error());
    if (good) copy_all(run->result, true);
    training_state_close(&state);
    return good;
}

void expect_same(const host_gaussians &got, const host_gaussians &wanted, const char *what) {
    for (int a = 0; a < 5; a++)
        ASSERT_TRUE(std::equal(got.array[a].begin(), got.array[a].end(), wanted.array[a].begin(),
                               wanted.array[a].end(),
                               [](float x, float y) { return memcmp(&x, &y, sizeof x) == 0; }))
            << what << ", array " << a;
}

void expect_bits_of_one_gpu(const whole &start, int64_t existing) {
    const whole one = on_one_gpu(start, existing);
    for (int count = 2; count <= 4; count++) {
        SCOPED_TRACE(std::to_string(count) + " ranks");
        parts_run run = {&start, existing, start};
        ranks_plan plan = {};
        plan.count = count;
        fault why = {};
        ASSERT_TRUE(ranks_run(&plan, run_rank, &run, &why)) << why.text;
        expect_same(run.result.gaussians, one.gaussians, "Gaussians");
        expect_same(run.result.first, one.first, "first moments and penalties");
        expect_same(run.result.second, one.second, "second moments");
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
    const whole one = on_one_gpu(start, 900);
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
        int64_t first[RANKS_MAX], count[RANKS_MAX], next = 0;
        if (!ranks_tell_all(group, own.first, first, nullptr) ||
            !ranks_tell_all(group, own.count, count, nullptr))
            return false;
        for (int r = 0; r < ranks_count(group); next = first[r] + count[r], r++)
            if (first[r] != next || count[r] < 0 || (first[r] % 32 != 0 && first[r] != all))
                return ranks_fail(group, "of %lld rows rank %d has %lld from %lld", (long long)all, r,
                                  (long long)count[r], (long long)first[r]);
        if (next != all)
            return ranks_fail(group, "%lld rows in all, not %lld", (long long)next, (long long)all);
    }
    return true;
}

// The adjoint of the projection rounds by what the other Gaussians of a warp need.
TEST(PartsDensity, RanksBeginWhereAWarpDoes) {
    for (const int count : {2, 3, 5}) {
        ranks_plan plan = {};
        plan.count = count, plan.kind = RANKS_THREADS;
        fault why = {};
        EXPECT_TRUE(ranks_run(&plan, check_ranges, nullptr, &why)) << why.text;
    }
}

} // namespace parts_density_test
