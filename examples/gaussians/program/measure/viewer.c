// SPDX-License-Identifier: MIT
#include "measure/viewer.h"
#include <stdlib.h>

// One after another.
static bool measure_cached(const viewer *v, size_t first, size_t count, quality *mean, quality *each,
                           fault *why) {
    const shown_views *const shown = &v->shown;
    quality sum = {0, 0};
    for (size_t i = 0; i < count; i++) {
        quality one;
        picture_cache_next_step(shown->pictures);
        target_view view = *picture_cache_view(shown->pictures, first + i);
        view.camera = shown->views[first + i].camera; // it may have moved
        if (!quality_measure(&v->state->gaussians, &view, 1, shown->background, &one, NULL, why))
            return false;
        if (each) each[i] = one;
        sum.psnr += one.psnr, sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    return true;
}

bool viewer_measure(const viewer *v, size_t first, size_t count, quality *mean, quality *each, fault *why) {
    const shown_views *const shown = &v->shown;
    const training_way *const way = v->state->way;
    if (way && way->measure)
        return way->measure(v->state, shown, first, count, mean, each) ||
               fail(why, "%s", ranks_error(v->state->group));
    return shown->pictures ? measure_cached(v, first, count, mean, each, why)
                           : quality_measure(&v->state->gaussians, shown->views + first, count,
                                             shown->background, mean, each, why);
}

bool viewer_picture(const viewer *v, size_t index, image *out, fault *why) {
    const training_state *const state = v->state;
    if (state->way && state->way->picture)
        return state->way->picture(state, &v->shown, index, out) ||
               fail(why, "%s", ranks_error(state->group));
    frame f = {0};
    frame_render(&f, &state->gaussians, state->gaussians.sh_degree, &v->shown.views[index].camera,
                 v->shown.background);
    const bool done = frame_picture(&f, out, why);
    frame_close(&f);
    return done;
}
