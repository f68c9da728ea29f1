// SPDX-License-Identifier: MIT
#include "plan/defaults.h"
#include <math.h>

// ---- learning rates

float sh_rest_rate(double sh_rate) {
    return (float)(sh_rate * 2.5e-3 / 20);
}

gs_adam_rates published_rates(double extent, double sh_rate) {
    return (gs_adam_rates){.mean = (float)(1.6e-4 * extent),
                           .log_scale = 5e-3f,
                           .quaternion = 1e-3f,
                           .opacity_logit = 5e-2f,
                           .sh_constant = 2.5e-3f,
                           .sh_rest = sh_rest_rate(sh_rate)};
}

double published_last_mean_rate(double extent) {
    return 1.6e-6 * extent;
}

gs_adam_rates usual_rates(double extent, double sh_rate) {
    gs_adam_rates rates = published_rates(extent, sh_rate);
    rates.log_scale *= 2, rates.quaternion *= 2, rates.opacity_logit /= 2;
    return rates;
}

double usual_sh_rate(size_t views) {
    return fmin(fmax((double)views / 25, 1), 8);
}

double usual_last_sh_rate(double first, int64_t iterations) {
    return fmin(first, fmax(1, first * USUAL_ITERATIONS / (double)iterations));
}

double usual_rate_part(size_t views, int64_t iterations) {
    const double few = fmin(1, fmax(0, 2 - (double)views / 20));
    return pow(fmax(0.3, fmin(1, USUAL_ITERATIONS / (double)iterations)), few);
}

double usual_dropout(size_t views, int64_t iterations) {
    const double often = fmin((double)iterations, 30000) / ((double)views * (double)views);
    return 0.2 * fmin(1, fmax(0, (often - 4) / 12));
}

// ---- how many Gaussians

static const double limit = 300000, pixels_a_gaussian = 100;

int64_t usual_limit(int64_t pixels) {
    return (int64_t)fmax(fmin(limit, floor((double)pixels / pixels_a_gaussian)), 1);
}

int64_t usual_limit_of_budget(int64_t pixels, size_t views, double steps) {
    const double shorter = steps / 2500, longer = steps / 30000;
    const double most = fmin(1000000, limit + 6000 * fmax((double)views - 100, 0));
    const double wanted = limit * fmax(fmin(shorter, 1), longer);
    return (int64_t)fmax(fmin(fmin(wanted, most), (double)pixels / pixels_a_gaussian), 1);
}

double usual_retired(size_t views) {
    return 0.16 * fmin(1, fmax(0, ((double)views - 20) / 20));
}

int64_t usual_retire_every(size_t views) {
    return views > 100 ? 10 * (int64_t)views : 1000;
}

// ---- exposures

bool usual_exposures(size_t views) {
    return views >= 3;
}

float usual_exposure_rate(size_t views, int64_t iterations) {
    const double mean = 0.99 / log(100); // of rates that fall to a hundredth, in parts of the first
    return (float)fmin(fmax(1.5 / mean * (double)views / (double)iterations, 0.05), 0.3);
}

// ---- views that are set aside

size_t usual_validation(size_t views) {
    const size_t least = 4, most = 16, part = views / 16;
    if (views < 10 * least) return 0;
    return part < least ? least : part < most ? part : most;
}

int64_t usual_validate_every(size_t views) {
    return usual_retire_every(views) / 2;
}

// ---- views of a step

// Pictures of this many pixels that fill a GPU.
static int64_t pictures_at_once(int64_t pixels) {
    const int64_t pixels_at_once = 2500000;
    return (pixels_at_once + pixels / 2) / pixels;
}

static int64_t smaller_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// More views a step save time where a picture does not fill the GPU. Each of several GPUs gets as many as one would have,
// where enough steps are left, and one at least.
static int64_t batch_of_pixels(int64_t pixels, size_t views, const run_size *run) {
    const int64_t most = 4, steps_a_round = 4, steps = 3500;
    const int64_t each = smaller_of(pictures_at_once(pixels), most);
    int64_t batch = smaller_of(run->ranks * each, run->iterations / steps);
    if (batch < each) batch = each;
    if (batch < run->ranks) batch = run->ranks;
    batch = smaller_of(smaller_of(batch, (int64_t)views / steps_a_round), GS_MAX_VIEWS);
    return batch > 1 ? batch : 1;
}

int64_t usual_batch(const view_sizes *sizes, const run_size *run) {
    return batch_of_pixels(sizes->pixels, sizes->count, run);
}

resolution_schedule usual_resolutions(const view_sizes *sizes, int64_t most_gaussians, const run_size *run) {
    const int factor = 2;
    const int64_t whole = sizes->pixels, pixels = whole / (factor * factor);
    if (pixels < most_gaussians || sizes->least_side < factor * RESOLUTIONS_LEAST_SIDE)
        return (resolution_schedule){0};
    return (resolution_schedule){
        .count = 1,
        .phase = {{.factor = factor,
                   .batch = run ? (int)batch_of_pixels(pixels, sizes->count, run) : 1,
                   .percent = pictures_at_once(whole) > 1 ? 50 : 90}}};
}

// ---- poses

int64_t usual_pose_steps(size_t views, int64_t iterations) {
    const int64_t least = 1500, each = 40 * (int64_t)views, wanted = each > least ? each : least;
    return wanted < iterations ? wanted : iterations;
}
