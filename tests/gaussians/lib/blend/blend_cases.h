// SPDX-License-Identifier: MIT
// Every way in which the backward blend sums and divides its work, and a frame beside what the reference makes of it.
#pragma once

#include "kernel_frame.h"
#include <ostream>

struct blend_case {
    distwar_strategy strategy;
    int balance_threshold;
    int pixels_per_thread;
    bool split; // every tile
};
inline const blend_case blend_cases[] = {
    {DISTWAR_ATOMIC, 0, 1, false}, {DISTWAR_ATOMIC, 0, 2, false}, {DISTWAR_ATOMIC, 0, 4, false},
    {DISTWAR_SERIAL, 0, 1, false}, {DISTWAR_SERIAL, 9, 2, false}, {DISTWAR_SERIAL, 33, 4, false},
    {DISTWAR_BFLY, 0, 4, false},   {DISTWAR_BFLY, 17, 1, false},  {DISTWAR_BFLY, 17, 2, false},
    {DISTWAR_TREE, 0, 1, false},   {DISTWAR_TREE, 0, 2, false},   {DISTWAR_TREE, 0, 4, false},
    {DISTWAR_TREE, 17, 2, false},  {DISTWAR_BLOCK, 0, 1, false},  {DISTWAR_BLOCK, 0, 2, false},
    {DISTWAR_BLOCK, 0, 4, false},  {DISTWAR_FIXED, 0, 1, false},  {DISTWAR_FIXED, 0, 2, false},
    {DISTWAR_FIXED, 0, 4, false},  {DISTWAR_TREE, 0, 1, true},    {DISTWAR_TREE, 9, 2, true},
    {DISTWAR_TREE, 0, 4, true},    {DISTWAR_ATOMIC, 0, 4, true},  {DISTWAR_SERIAL, 0, 2, true},
    {DISTWAR_BFLY, 0, 2, true},    {DISTWAR_BLOCK, 0, 4, true},   {DISTWAR_FIXED, 0, 2, true}};

inline std::ostream &operator<<(std::ostream &out, const blend_case &w) {
    return out << distwar_strategy_name(w.strategy) << ", threshold " << w.balance_threshold << ", "
               << w.pixels_per_thread << " pixels a thread" << (w.split ? ", split" : "");
}

// Divides the work of the blend as the case says.
inline void divide(gs_tile_ranges *ranges, const blend_case &w) {
    ranges->pixels_per_thread = w.pixels_per_thread;
    ranges->split_tiles = w.split ? ranges->tiles_x * ranges->tiles_y : 0;
}

// An image that the reference renders.
struct rendered : reference_image {
    explicit rendered(const reference_blend &blend, uint8_t *taken = NULL)
        : reference_image(reference_image_of_channels(blend.channels ? blend.channels : GS_CHANNELS,
                                                      blend.width, blend.height)) {
        reference_render(&blend, taken, this);
    }
    ~rendered() { reference_image_destroy(this); }
    rendered(const rendered &) = delete;
    rendered &operator=(const rendered &) = delete;
};

// A frame with its decisions, and gradients of its image.
struct blend_frame : kernel_frame {
    explicit blend_frame(const scene_choice &choice)
        : kernel_frame(choice), taken(decisions()), seen(reference_splats(taken)),
          d_color(random_floats(11, size_t(3 * pixels()), -1, 1)),
          d_alpha(random_floats(12, size_t(pixels()), -1, 1)),
          d_depth(random_floats(13, size_t(pixels()), -1, 1)) {}
    reference_blend blend() const { return kernel_frame::blend(taken, seen); }
    std::vector<float> backward(distwar_policy policy, const gs_gradient &extras = {}) const {
        return kernel_frame::backward(d_color, d_alpha, policy, extras);
    }

    // By every reduction, with the gradients by depth and absolute ones that are wanted.
    void expect_reference_moments(bool depth, bool absolute) {
        const std::vector<double> color = doubles(d_color), alpha = doubles(d_alpha),
                                  of_depth = doubles(d_depth);
        const reference_blend all = blend();
        const reference_image_gradient d_image = {color.data(), alpha.data(), depth ? of_depth.data() : NULL};
        std::vector<reference_splat_gradient> gradients(size_t(choice.count));
        reference_render_backward(&all, &d_image, gradients.data(), NULL);
        const device_vector<float> depth_gradient(d_depth), abs_mean2d(size_t(2 * choice.count));
        gs_gradient extras = {};
        if (depth) extras.depth = depth_gradient.data();
        if (absolute) extras.abs_mean2d = abs_mean2d.data();
        const std::vector<float> atomic = backward({DISTWAR_ATOMIC, 0}, extras);
        for (const blend_case &w : blend_cases) {
            SCOPED_TRACE(testing::Message()
                         << w << (depth ? ", depth" : "") << (absolute ? ", absolute" : ""));
            divide(&view.ranges, w);
            const std::vector<float> got = backward({w.strategy, w.balance_threshold}, extras);
            const bool undefined = depth && !absolute; // the absolute sums
            expect_moments(got, seen, gradients, 0,
                           undefined ? GS_SPLAT_GRAD_SUMS + 1 : int(GS_SPLAT_GRAD_STRIDE), [&](int k) {
                               return k < GS_SPLAT_GRAD_SUMS || (k == GS_SPLAT_GRAD_SUMS ? depth : absolute);
                           });
            if (!depth && !absolute) {
                EXPECT_LE(relative_norm(got, atomic), w.split ? 5e-5 : 1e-5);
            }
        }
    }

    held_decisions taken;
    std::vector<reference_splat> seen;
    std::vector<float> d_color, d_alpha, d_depth;
};
