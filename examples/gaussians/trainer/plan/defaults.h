// SPDX-License-Identifier: MIT
// The recipe: what training does where nobody says otherwise. Pure functions of the numbers of views, pixels and
// iterations; none knows how many ranks there are. Each constant was measured: docs/notes/training.md has the row.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include "plan/resolutions.h"

C_LINKAGE_BEGIN

enum {
    USUAL_ITERATIONS = 7000,
    // A schedule of fewer steps is too coarse for density control; under a budget it goes through several at once.
    LEAST_SCHEDULE = 3500
};

// ---- learning rates

// The published rates (Kerbl et al. 2023); that of means is for a scene of extent 1, and ends at a hundredth of it.
gs_adam_rates published_rates(double extent, double sh_rate);
double published_last_mean_rate(double extent);
// A rate of SH above the constant, given as a multiple of the published one.
float sh_rest_rate(double sh_rate);
// Faster for shapes, slower for opacities than published, with the average at the end: bonsai 32.9 dB, 32.15 with shapes
// as published, 32.17 with opacities twice as fast.
gs_adam_rates usual_rates(double extent, double sh_rate);
// Rates of SH above the constant as multiples of the published one: at the first step, and at the last. Highlights are
// learned best at four to eight times the published rate, which costs bonsai 0.83 dB. Few views say little about
// highlights, and a fast rate then learns what is true of one view alone; a long run learns them at any rate.
double usual_sh_rate(size_t views);
double usual_last_sh_rate(double first, int64_t iterations);
// What multiplies all rates, 0.3 to 1: few views that are seen more often come to fit what is true of them alone
// (relief23 after 30,000 iterations 18.95 dB, 17.98 without; fern pays 0.2). From 40 views on 1.
double usual_rate_part(size_t views, int64_t iterations);
// The extent of scenes for which the published weights of lengths are meant: of MCMC's noise and penalty, and of depth
// maps. Scenes of other extents have them converted, so that the unit of length does not matter.
static const double usual_extent = 5;
// The part of the iterations, at the end, whose parameters are averaged: without, bonsai loses 0.73 dB, knot 0.90, fern
// 0.04.
static const double usual_average = 0.1;
// Part of the Gaussians that the last step leaves out. It keeps Gaussians from fitting single views where a view is
// seen often and has few others beside it: from iterations = 4 views^2 on, more up to 16 views^2 (fern 0.16 dB).
// Iterations beyond 30,000 do not count: a hundred views are better without it in runs of any length.
double usual_dropout(size_t views, int64_t iterations);

// ---- how many Gaussians

// Random points that data without points start from, but no more than growth may reach.
enum { USUAL_RANDOM = 100000 };

// The limit of growth: more than one Gaussian per 100 pixels of the training views fit what is in one picture only (fern
// 25.05 dB with 130,000, 24.61 with 300,000).
int64_t usual_limit(int64_t pixels);
// The limit under a budget of time that is worth `steps` steps at its start: fewer if there is no time to train them;
// more, up to a million, if there is time and there are over 100 views, which determine them (bonsai's 220 gained with
// 519,526; knot's 100 fell from 44.39 to 43.37 dB with 640,000).
int64_t usual_limit_of_budget(int64_t pixels, size_t views, double steps);
// density_settings.retired: 0.29 dB on knot, 0.10 on bonsai. Few views, which a scene overfits, do not say what is of no
// use.
double usual_retired(size_t views);
int64_t usual_retire_every(size_t views);

// ---- exposures; judgement

// Whether photographs are given gains, which they keep where these differ (exposures.c): two would halve any difference.
bool usual_exposures(size_t views);
// The rate of the gains' first steps. The rates of a view's steps in a run, which fall to a hundredth, add up to 1.5 however
// few rounds of the views the run has, or more: so, but for the prior, a view that all its pixels want darker can get darker
// by a factor of four. At most 0.3, which bounds the sum where there are fewer than 23 rounds.
float usual_exposure_rate(size_t views, int64_t iterations);

// ---- views that are set aside; judgement (what they do: docs/notes/photographs.md)

// How many views --validate auto sets aside: a sixteenth, at most 16, as each measurement renders them, at least 4, of
// which fewer say little; none of fewer than 40 views, which would miss them. With at most 8 one of two runs of bonsai
// ended at a third of its way, 0.7 dB below the other.
size_t usual_validation(size_t views);
// Steps between measurements of the views set aside: five rounds of the views, at least 500.
int64_t usual_validate_every(size_t views);
// Views set aside are trained on from this part of the schedule on: the last views cost fox 1.1 dB where they never
// were. Density control acts until 5/6, so what only these views show still gets Gaussians.
static const double validation_until = 0.75;

// ---- views of a step

typedef struct run_size {
    int64_t iterations;
    int64_t ranks; // GPUs that share a step's views out
} run_size;
// Views of a step that fill a GPU, about 2.5 million pixels, at most 4 and a quarter of all: of equal numbers of views,
// steps of 4 cost fern's 17 views 0.06 dB, knot's 100 0.21; bonsai takes 3.07 s, 4.24 with one view a step. Several
// GPUs take a step of as many for each, if there are 3,500 steps, and at least one for each: bonsai by two H200, 30,000,
// 34.01 dB in 9.6 s with 8, 34.01 in 11.4 with 4.
int64_t usual_batch(const view_sizes *sizes, const run_size *run);
// Pictures of half the size for the first half of training where these have a pixel for a Gaussian; with fewer, lists
// of splats are long and small pictures save no time. Until 90% where one whole picture fills a GPU, and so takes four
// times as long as a small one. Whole pictures from the start cost fern 0.05 dB. most_gaussians: the limit of growth.
// run: as of usual_batch; NULL: views cannot share a step.
resolution_schedule usual_resolutions(const view_sizes *sizes, int64_t most_gaussians, const run_size *run);

// ---- poses

// Poses are refined on pictures 2^POSE_LEVELS, ..., 2^POSE_FINEST times smaller, as far as sides have 64 pixels, at
// a rate in pixels of that size; then, more slowly, with the scene. fern's poses, 0.902 degrees off, are 0.044
// degrees off after the sizes.
enum { POSE_LEVELS = 4, POSE_FINEST = 1 };
enum {
    POSES_FROM = 2000
}; // step after which training moves poses; a scene without geometry would mislead them
static const double pose_level_rate = 0.5, fine_pose_rate = 0.2;
// Steps on each size: enough for a scene to take shape and for every view to move often, but no more than training has.
int64_t usual_pose_steps(size_t views, int64_t iterations);

C_LINKAGE_END
