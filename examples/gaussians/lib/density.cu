// SPDX-License-Identifier: MIT
// Density control: which Gaussians there are, by the screen-space gradient, by sampling, by splits and by scores; and
// dropout. Reads and writes the arrays of gs_gaussians and of Adam's moments. Nothing depends on the order of threads.
// docs/developers/math.md, sections 6 and 9.
#include "density.cuh"

using namespace gs;

namespace {

// launch_for with a thread for each row.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_rows(const gs_context *context, int64_t rows, void (*kernel)(Parameters...),
                        Arguments... arguments) {
    return launch_for(stream_of(context), rows, density_block, kernel, arguments...);
}

// ---- the screen-space gradient (Kerbl et al. 2023): prune, clone, split, reset; prefix sums give the places ----

constexpr uint32_t newborn = 1u << 31;
constexpr uint32_t not_growing = UINT32_MAX; // key of Gaussians that do not grow: sorts last

// The value is the number of rows that the Gaussian becomes, except SPLIT, which becomes two as well.
enum action : uint8_t { PRUNE = 0, KEEP = 1, CLONE = 2, SPLIT = 3 };

__global__ void __launch_bounds__(density_block)
    accumulate_kernel(const gs_splat *splats, const float2 *mean2d_gradient, int64_t count, int views,
                      int width, int height, float2 *density) {
    const int64_t i = row_of_thread();
    if (i >= count) return;
    float2 sums = density[i];
    const float seen_before = sums.y;
    for (int64_t of_view = i; of_view < views * count; of_view += count) {
        if (splat_radius(splats[of_view], width, height) == 0) continue;
        const float2 g = mean2d_gradient[of_view];
        sums.x += sqrtf(g.x * g.x + g.y * g.y);
        sums.y += 1;
    }
    if (sums.y != seen_before) density[i] = sums;
}

__device__ float mean_gradient(const float2 &sums) {
    return sums.y > 0 ? sums.x / sums.y : 0;
}

// The comparisons are false for NaN: such a Gaussian is pruned or does not grow.
__global__ void __launch_bounds__(density_block)
    choose_kernel(gs_gaussians gaussians, const float2 *density, gs_density_rules rules, uint8_t *actions) {
    const int64_t i = row_of_thread();
    if (i >= gaussians.count) return;
    const float *const s = gaussians.log_scale + 3 * i;
    const float size = expf(fmaxf(fmaxf(s[0], s[1]), s[2]));
    const bool grows = mean_gradient(density[i]) >= rules.gradient_threshold;
    const bool splits = grows && size > rules.split_size;
    const float size_after = splits ? size / rules.split_factor : size;
    const bool small_enough = rules.most_size == 0 ? isfinite(size_after) : size_after <= rules.most_size;
    const bool stays = sigmoid(gaussians.opacity_logit[i]) >= rules.least_opacity && small_enough;
    actions[i] = !stays ? PRUNE : splits ? SPLIT : grows ? CLONE : KEEP;
}

// rows[count] = 0: the scan leaves the total there.
__global__ void __launch_bounds__(density_block)
    count_rows_kernel(const uint8_t *actions, int64_t count, int64_t *rows) {
    const int64_t i = row_of_thread();
    if (i <= count) rows[i] = i < count ? (actions[i] == SPLIT ? 2 : actions[i]) : 0;
}

// Sort keys by gradient for Gaussians that grow. Positive floats order as their bits do.
__global__ void __launch_bounds__(density_block)
    rank_kernel(const uint8_t *actions, const float2 *density, int64_t count, uint32_t *keys,
                uint32_t *indices) {
    const int64_t i = row_of_thread();
    if (i >= count) return;
    keys[i] = actions[i] >= CLONE ? __float_as_uint(mean_gradient(density[i])) : not_growing;
    indices[i] = uint32_t(i);
}

__global__ void __launch_bounds__(density_block)
    keep_kernel(const uint32_t *keys, const uint32_t *indices, int64_t count, uint8_t *actions) {
    const int64_t i = row_of_thread();
    if (i < count && keys[i] != not_growing) actions[indices[i]] = KEEP;
}

__global__ void __launch_bounds__(density_block)
    source_kernel(const uint8_t *actions, const int64_t *begin, int64_t count, uint32_t *source) {
    const int64_t i = row_of_thread();
    if (i >= count || actions[i] == PRUNE) return;
    source[begin[i]] = uint32_t(i) | (actions[i] == SPLIT ? newborn : 0);
    if (actions[i] >= CLONE) source[begin[i] + 1] = uint32_t(i) | newborn;
}

// A block moves whole rows of an array.
__global__ void __launch_bounds__(density_block)
    move_kernel(const gs_density_plan plan, int row_length, bool zero_newborns, const float *from,
                float *to) {
    const int rows = density_block / row_length, row = threadIdx.x / row_length;
    const int64_t i = int64_t(blockIdx.x) * rows + row;
    if (row >= rows || i >= plan.count_after) return;
    const int column = threadIdx.x - row * row_length;
    const uint32_t s = plan.source[plan.first_after + i];
    to[i * row_length + column] =
        zero_newborns && (s & newborn) ? 0 : from[(int64_t(s & ~newborn) - plan.first) * row_length + column];
}

__global__ void __launch_bounds__(density_block)
    place_split_kernel(gs_density_plan plan, gs_density_rules rules, gs_gaussians gaussians) {
    const int64_t i = row_of_thread();
    const int64_t of_all = plan.first_after + i;
    if (i >= plan.count_after || plan.action[plan.source[of_all] & ~newborn] != SPLIT) return;
    float n[3], rotation[3][3];
    draw_normal(random_at(rules.seed, RANDOM_SPLIT, rules.iteration, uint64_t(of_all)), n);
    rotation_of(gaussians, i, rotation);
    float *scale = gaussians.log_scale + 3 * i;
    for (int k = 0; k < 3; k++) n[k] *= expf(scale[k]);
    for (int k = 0; k < 3; k++) {
        gaussians.mean[3 * i + k] += dot(rotation[k], n);
        scale[k] -= logf(rules.split_factor);
    }
}

__global__ void __launch_bounds__(density_block)
    reset_kernel(gs_gaussians gaussians, gs_gaussians first, gs_gaussians second, float most_logit) {
    const int64_t i = row_of_thread();
    if (i >= gaussians.count) return;
    gaussians.opacity_logit[i] = fminf(gaussians.opacity_logit[i], most_logit);
    first.opacity_logit[i] = 0;
    second.opacity_logit[i] = 0;
}

bool valid(const gs_density_rules *r) {
    return r->gradient_threshold >= 0 && r->split_size >= 0 && r->split_factor >= 1 &&
           r->split_factor <= FLT_MAX && r->least_opacity >= 0 && r->most_size >= 0 && r->most_gaussians >= 0;
}

// Exclusive prefix sums of the actions' row counts; *total: the sum of all. Waits for the stream.
gs_status number_rows(const uint8_t *action, const counted_rows &a, int64_t count, int64_t *total,
                      gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_CUDA(launch_rows(context, count + 1, count_rows_kernel, action, count, a.before));
    GS_CUDA(scan_exclusive(a.before, a.before, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(cudaMemcpyAsync(total, a.before + count, sizeof *total, cudaMemcpyDeviceToHost, stream));
    return GS_STATUS(cudaStreamSynchronize(stream));
}

// ---- sampling (Kheradmand et al. 2024): dead and new Gaussians take the places of living ones, noise moves nearly
// transparent ones, penalties on opacity and size let them die. Integer sums decide the places ----

// weights[count] = 0: the scan leaves the total there. sharing: 1 for living Gaussians, 0 for others.
__global__ void __launch_bounds__(density_block)
    weigh_kernel(gs_gaussians gaussians, const gs_refill_rules r, int64_t *weights, uint32_t *sharing) {
    const int64_t i = row_of_thread();
    if (i > gaussians.count) return;
    const float opacity = i < gaussians.count ? living_opacity(gaussians, i, r.existing, r.least_opacity) : 0;
    weights[i] = weight_of(opacity);
    if (i < gaussians.count) sharing[i] = opacity > 0;
    if (r.dead && i < r.existing && !(opacity > 0))
        atomicAdd(reinterpret_cast<unsigned long long *>(r.dead), 1ull);
}

__global__ void __launch_bounds__(density_block)
    follow_kernel(gs_arrays g, int64_t count, int64_t existing, gs_arrays first, gs_arrays second,
                  const int64_t *before, const uint32_t *source) {
    const int64_t i = row_of_thread();
    if (i >= count || before[i + 1] > before[i]) return;
    const bool any_living = before[count] > 0;
    if (!any_living && i < existing) return;
    if (any_living)
        copy_row(g, int64_t(source[i]), i);
    else
        make_dead(g, i);
    clear_moments(first, second, i);
}

__global__ void __launch_bounds__(density_block)
    noise_kernel(gs_gaussians gaussians, int64_t before, float scale, uint64_t seed, uint64_t iteration) {
    const int64_t i = row_of_thread();
    if (i >= gaussians.count) return;
    const float strength = sigmoid(-100 * (sigmoid(gaussians.opacity_logit[i]) - 0.005f));
    if (!(strength >= 1e-8f)) return;
    float n[3], rotation[3][3], along[3];
    draw_normal(random_at(seed, RANDOM_NOISE, iteration, uint64_t(before + i)), n);
    rotation_of(gaussians, i, rotation);
    for (int k = 0; k < 3; k++) {
        const float s = expf(gaussians.log_scale[3 * i + k]);
        const float sizes = fminf(scale * s, 1); // scale has no unit, and nothing else bounds the noise
        along[k] = s * sizes * (rotation[0][k] * n[0] + rotation[1][k] * n[1] + rotation[2][k] * n[2]);
    }
    for (int k = 0; k < 3; k++) gaussians.mean[3 * i + k] += strength * dot(rotation[k], along);
}

__global__ void __launch_bounds__(density_block)
    penalty_kernel(gs_gaussians gaussians, float opacity_weight, float scale_weight, gs_gaussians gradients) {
    const int64_t i = row_of_thread();
    if (i >= gaussians.count) return;
    const float opacity = sigmoid(gaussians.opacity_logit[i]);
    gradients.opacity_logit[i] += opacity_weight * opacity * (1 - opacity);
    for (int k = 0; k < 3; k++)
        gradients.log_scale[3 * i + k] += scale_weight * expf(gaussians.log_scale[3 * i + k]);
}

// ---- splits of Gaussians that are drawn by a weight: a prefix sum numbers the free rows, a sort orders the draws ----

// free_rows[count] = 0: the scan leaves the total there.
__global__ void __launch_bounds__(density_block)
    draw_split_kernel(gs_gaussians gaussians, gs_refill_rules rules, int64_t *free_rows, uint32_t *keys,
                      uint32_t *indices) {
    const int64_t i = row_of_thread();
    if (i > gaussians.count) return;
    const bool lives = living_opacity(gaussians, i, rules.existing, rules.least_opacity) > 0;
    free_rows[i] = i < gaussians.count && !lives;
    if (i == gaussians.count) return;
    indices[i] = uint32_t(i);
    keys[i] = lives ? split_key(rules.density[2 * i], rules.seed, rules.iteration, i) : not_drawn;
}

// The drawn Gaussian number k goes to the free row number k. source[i]: the Gaussian that row i is a half of;
// i if it is of none.
__global__ void __launch_bounds__(density_block)
    follow_split_kernel(gs_arrays g, int64_t count, int64_t existing, const int64_t *before,
                        const uint32_t *keys, const uint32_t *indices, uint32_t *source) {
    const int64_t i = row_of_thread();
    if (i >= count) return;
    source[i] = uint32_t(i);
    if (before[i + 1] == before[i]) return; // living
    if (keys[before[i]] != not_drawn) {
        source[i] = indices[before[i]];
        copy_row(g, source[i], i);
    } else if (i >= existing) {
        make_dead(g, i);
    }
}

// Splits the drawn Gaussians. Each is drawn once at most, so a thread has both rows to itself.
__global__ void __launch_bounds__(density_block)
    split_kernel(gs_gaussians g, gs_arrays first, gs_arrays second, gs_refill_rules rules,
                 const uint32_t *source) {
    const int64_t i = row_of_thread();
    if (i >= g.count) return;
    const int64_t from = source[i];
    if (from != i) {
        place_half(g, from, false, rules.least_opacity);
        place_half(g, i, true, rules.least_opacity);
        clear_moments(first, second, from);
    }
    if (from != i || i >= rules.existing) clear_moments(first, second, i);
}

// ---- scores of what Gaussians contribute to views; the least are retired ----

__global__ void __launch_bounds__(density_block)
    score_kernel(const gs_splat_grad *splat_grad, int64_t count, float *score) {
    const int64_t i = row_of_thread();
    if (i < count) score[i] = fmaxf(score[i], splat_grad[i].color[0]);
}

// Floats that are not negative order as their bits do.
__global__ void __launch_bounds__(density_block)
    rank_scores_kernel(const float *score, int64_t count, uint32_t *keys, uint32_t *indices) {
    const int64_t i = row_of_thread();
    if (i >= count) return;
    keys[i] = score[i] > 0 ? __float_as_uint(score[i]) : 0;
    indices[i] = uint32_t(i);
}

__global__ void __launch_bounds__(density_block)
    retire_kernel(gs_gaussians gaussians, const uint32_t *sorted_keys, const uint32_t *indices, float part) {
    const int64_t i = row_of_thread();
    const float upper_quartile = __uint_as_float(sorted_keys[(gaussians.count - 1) * 3 / 4]);
    if (i < gaussians.count && __uint_as_float(sorted_keys[i]) <= part * upper_quartile)
        gaussians.opacity_logit[indices[i]] = unseen_logit;
}

// ---- dropout: a step without a random share of the Gaussians (math.md, section 6) ----

__global__ void __launch_bounds__(density_block)
    dropout_kernel(const float *from, int64_t count, int64_t first, float share, uint64_t seed,
                   uint64_t iteration, float *logits) {
    const int64_t i = row_of_thread();
    if (i >= count) return;
    random_stream random = random_at(seed, RANDOM_DROPOUT, iteration, uint64_t(first + i));
    const float u = float(random_bits(&random) >> 40) * 0x1p-24f; // 0 <= u < 1
    const float opacity = fminf(sigmoid(from[i]) / (1 - share), 0.9999f);
    logits[i] = u < share ? unseen_logit : logf(opacity) - log1pf(-opacity);
}

gs_status scratch_rows(const char *function, gs_context *context, int64_t count, bool sorts,
                       counted_rows *out) {
    return libgs_place(function, context, CONTEXT_SCRATCH,
                       [=](block_layout *layout) { return place_rows(layout, count, sorts, out); });
}

} // namespace

// ---- calls ----

gs_status gs_density_accumulate(const gs_view *view, const float *mean2d, float *density,
                                gs_context *context) {
    GS_TRY(check_extent(__func__, view));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(count == 0 || (view->splats && mean2d && density), "splats, mean2d and density must be given");
    return GS_STATUS(launch_rows(
        context, count, accumulate_kernel, view->splats, reinterpret_cast<const float2 *>(mean2d), count,
        view_count(view), view->camera.width, view->camera.height, reinterpret_cast<float2 *>(density)));
}

gs_status gs_density_plan_step(const gs_gaussians *gaussians, const float *density,
                               const gs_density_rules *rules, gs_density_plan *plan, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(rules && valid(rules), "rules must be given and in their ranges");
    GS_REQUIRE(plan, "plan must be given");
    const int64_t count = gaussians->count;
    GS_REQUIRE(count == 0 || density, "density must be given");
    uint8_t *action;
    uint32_t *source;
    counted_rows a;
    GS_TRY(libgs_place(__func__, context, CONTEXT_PLAN, [&](block_layout *layout) {
        layout_add(layout, size_t(count), &action);
        layout_add(layout, 2 * size_t(count), &source);
        return place_rows(layout, count, true, &a);
    }));
    const float2 *sums = reinterpret_cast<const float2 *>(density);
    int64_t total;
    GS_CUDA(launch_rows(context, count, choose_kernel, *gaussians, sums, *rules, action));
    GS_TRY(number_rows(action, a, count, &total, context));
    if (rules->most_gaussians > 0 && total > rules->most_gaussians) {
        int selected;
        const int64_t excess = total - rules->most_gaussians, first = excess < count ? excess : count;
        GS_CUDA(launch_rows(context, count, rank_kernel, action, sums, count, a.order.keys[0],
                            a.order.values[0]));
        GS_CUDA(sort_pairs(&a.order, count, 32, &selected, a.scratch, a.scratch_bytes, stream));
        GS_CUDA(launch_rows(context, first, keep_kernel, a.order.keys[selected], a.order.values[selected],
                            first, action));
        GS_TRY(number_rows(action, a, count, &total, context));
    }
    GS_REQUIRE(total < INT32_MAX, "there would be more than 2^31 - 2 Gaussians");
    GS_CUDA(launch_rows(context, count, source_kernel, action, a.before, count, source));
    *plan = {count, total, 0, 0, action, source, a.before};
    return GS_OK;
}

gs_status gs_density_move(const gs_density_plan *plan, const gs_density_rules *rules, int moments,
                          const gs_gaussians *from, const gs_gaussians *to, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_REQUIRE(plan && rules && valid(rules), "plan and rules must be given");
    GS_TRY(check_parameters(__func__, from));
    GS_TRY(check_parameters(__func__, to));
    GS_REQUIRE(from->count == plan->count && to->count == plan->count_after &&
                   from->sh_degree == to->sh_degree,
               "count or sh_degree of from or to does not fit the plan");
    const gs_arrays source = gs_arrays_of(from), target = gs_arrays_of(to);
    for (int a = 0; a < GS_ARRAYS; a++)
        GS_CUDA(launch(stream, blocks_for(to->count, density_block / source.width[a]), density_block,
                       move_kernel, *plan, source.width[a], moments != 0, source.of[a], target.of[a]));
    if (!moments) GS_CUDA(launch_rows(context, to->count, place_split_kernel, *plan, *rules, *to));
    return GS_OK;
}

gs_status gs_opacity_reset(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                           const gs_gaussians *second_moment, float most, gs_context *context) {
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(most > 0 && most < 1, "most must be between 0 and 1");
    return GS_STATUS(launch_rows(context, gaussians->count, reset_kernel, *gaussians, *first_moment,
                                 *second_moment, float(log(double(most) / (1 - double(most))))));
}

gs_status gs_refill(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                    const gs_gaussians *second_moment, const gs_refill_rules *rules, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(rules, "rules must be given");
    const int64_t count = gaussians->count, existing = rules->existing;
    GS_REQUIRE(existing >= 0 && existing <= count, "existing must be in 0..count");
    GS_REQUIRE(rules->least_opacity >= 0 && rules->least_opacity < 1,
               "least_opacity must be in 0..1, exclusive of 1");
    const gs_arrays g = gs_arrays_of(gaussians), first = gs_arrays_of(first_moment),
                    second = gs_arrays_of(second_moment);
    counted_rows a;
    GS_TRY(scratch_rows(__func__, context, count, rules->density != nullptr, &a));
    if (rules->density) {
        int selected;
        GS_CUDA(launch_rows(context, count + 1, draw_split_kernel, *gaussians, *rules, a.before,
                            a.order.keys[0], a.order.values[0]));
        GS_CUDA(scan_exclusive(a.before, a.before, count + 1, a.scratch, a.scratch_bytes, stream));
        GS_CUDA(sort_pairs(&a.order, count, 32, &selected, a.scratch, a.scratch_bytes, stream));
        GS_CUDA(launch_rows(context, count, follow_split_kernel, g, count, existing, a.before,
                            a.order.keys[selected], a.order.values[selected], a.source));
        return GS_STATUS(
            launch_rows(context, count, split_kernel, *gaussians, first, second, *rules, a.source));
    }
    uint32_t *const sharing = a.order.keys[0];
    GS_CUDA(launch_rows(context, count + 1, weigh_kernel, *gaussians, *rules, a.before, sharing));
    GS_CUDA(scan_exclusive(a.before, a.before, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(launch_rows(context, count, draw_source_kernel, count, a.before, rules->seed, rules->iteration,
                        a.source, sharing));
    GS_CUDA(
        launch_rows(context, count, share_kernel, *gaussians, first, second, sharing, rules->least_opacity));
    return GS_STATUS(
        launch_rows(context, count, follow_kernel, g, count, existing, first, second, a.before, a.source));
}

gs_status gs_density_noise(const gs_gaussians *gaussians, int64_t first, float scale, uint64_t seed,
                           uint64_t iteration, gs_context *context) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(valid_rate(scale), "scale must be finite and not negative");
    return GS_STATUS(
        launch_rows(context, gaussians->count, noise_kernel, *gaussians, first, scale, seed, iteration));
}

gs_status gs_density_penalty(const gs_gaussians *gaussians, int64_t all, float opacity_weight,
                             float scale_weight, const gs_gaussians *gradients, gs_context *context) {
    GS_TRY(check_vector(__func__, gaussians, gradients));
    GS_REQUIRE(valid_rate(opacity_weight) && valid_rate(scale_weight),
               "weights must be finite and not negative");
    const double count = double(all > 0 ? all : 1);
    return GS_STATUS(launch_rows(context, gaussians->count, penalty_kernel, *gaussians,
                                 float(opacity_weight / count), float(scale_weight / (3 * count)),
                                 *gradients));
}

gs_status gs_score_add(const gs_splat_grad *splat_grad, int64_t count, float *score, gs_context *context) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(count == 0 || (splat_grad && score), "splat_grad and score must be given");
    return GS_STATUS(launch_rows(context, count, score_kernel, splat_grad, count, score));
}

gs_status gs_retire(const gs_gaussians *gaussians, const float *score, float part, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_TRY(check_parameters(__func__, gaussians));
    const int64_t count = gaussians->count;
    GS_REQUIRE(count == 0 || score, "score must be given");
    GS_REQUIRE(part >= 0 && part <= 1, "part must be in 0..1");
    counted_rows a;
    int selected;
    GS_TRY(scratch_rows(__func__, context, count, true, &a));
    GS_CUDA(
        launch_rows(context, count, rank_scores_kernel, score, count, a.order.keys[0], a.order.values[0]));
    GS_CUDA(sort_pairs(&a.order, count, 32, &selected, a.scratch, a.scratch_bytes, stream));
    return GS_STATUS(launch_rows(context, count, retire_kernel, *gaussians, a.order.keys[selected],
                                 a.order.values[selected], part));
}

gs_status gs_dropout(const gs_gaussians *gaussians, int64_t first, float share, uint64_t seed,
                     uint64_t iteration, float *logits, gs_context *context) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(first >= 0, "first must not be negative");
    GS_REQUIRE(share >= 0 && share <= 0.9f, "share must be in 0..0.9");
    GS_REQUIRE(gaussians->count == 0 || logits, "logits must be given");
    return GS_STATUS(launch_rows(context, gaussians->count, dropout_kernel, gaussians->opacity_logit,
                                 gaussians->count, first, share, seed, iteration, logits));
}
