// SPDX-License-Identifier: MIT
// Every way in which the backward blend sums and divides its work, and a frame beside what the reference makes of it.
#pragma once

#include "kernel_frame.h"
#include <cmath>
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

inline const scene_choice small_scene = {2, 128, 1, 1, 50, 37};

// An image that the reference renders.
struct rendered : held_image {
    explicit rendered(const reference_blend &blend, uint8_t *taken = NULL)
        : held_image(reference_image_of_channels(blend.channels ? blend.channels : GS_CHANNELS, blend.width,
                                                 blend.height)) {
        reference_render(&blend, taken, this);
    }
};

// A frame with its decisions, and gradients of its image. Of other than three channels: Gaussians with random colours, some
// of them negative.
struct blend_frame : kernel_frame {
    explicit blend_frame(const scene_choice &choice, int channels_ = GS_CHANNELS)
        : kernel_frame(choice), channels(channels_), taken(decisions()), seen(reference_splats(taken)),
          host_colors(random_floats(41, size_t(choice.count * channels), -0.5f, 1)),
          host_background(random_floats(42, size_t(channels), -1, 1)), wide_colors(doubles(host_colors)),
          wide_background(doubles(host_background)),
          d_color(random_floats(11, size_t(channels * pixels()), -1, 1)),
          d_alpha(random_floats(12, size_t(pixels()), -1, 1)),
          d_depth(random_floats(13, size_t(pixels()), -1, 1)), colors(host_colors), d_colors(host_colors),
          image(d_color.size()), depth_gradient(d_depth), abs_mean2d(size_t(2 * choice.count)) {
        if (channels == GS_CHANNELS) return;
        view.gaussians.color = colors.data(), view.gaussians.channels = channels;
        view.gaussians.sh = NULL;
        view.channel_background = host_background.data();
        view.image.color = image.data();
        EXPECT_GS_OK(gs_project(&view, NULL));
        EXPECT_GS_OK(gs_render(&view, NULL));
    }

    reference_blend blend() const {
        reference_blend all = kernel_frame::blend(taken, seen);
        if (channels != GS_CHANNELS)
            all.channels = channels, all.color = wide_colors.data(), all.background = wide_background.data();
        return all;
    }
    std::vector<float> rendered_color() const { return downloaded(view.image.color, d_color.size()); }
    // What a gradient has besides: by depth, and absolute sums, of at most 32 channels.
    gs_gradient extras(bool depth, bool absolute) const {
        gs_gradient out = {};
        if (depth) out.depth = depth_gradient.data();
        if (absolute) out.abs_mean2d = abs_mean2d.data();
        if (channels != GS_CHANNELS) out.gaussians.color = d_colors.data();
        return out;
    }
    // Moments and, behind them, the gradients by given colours.
    std::vector<float> backward(distwar_policy policy, gs_gradient with) const {
        d_colors.fill(NAN);
        std::vector<float> all = kernel_frame::backward(d_color, d_alpha, policy, with);
        const std::vector<float> of_colors = d_colors.read();
        if (channels != GS_CHANNELS) all.insert(all.end(), of_colors.begin(), of_colors.end());
        return all;
    }
    std::vector<float> backward(distwar_policy policy) const {
        return backward(policy, extras(false, false));
    }
    void reference_gradients(bool with_depth, std::vector<reference_splat_gradient> *of_splats,
                             std::vector<double> *of_colors) const {
        const std::vector<double> color = doubles(d_color), alpha = doubles(d_alpha),
                                  of_depth = doubles(d_depth);
        const reference_image_gradient d_image = {color.data(), alpha.data(),
                                                  with_depth ? of_depth.data() : NULL};
        const reference_blend all = blend();
        of_splats->resize(size_t(choice.count)), of_colors->resize(host_colors.size());
        reference_render_backward(&all, &d_image, of_splats->data(),
                                  channels == GS_CHANNELS ? NULL : of_colors->data());
    }

    // Whatever the pixels of a thread. With three channels the bits do not change.
    void expect_reference_image() {
        const rendered expected(blend());
        const std::vector<float> color_before = rendered_color(), before = transmittance.read();
        for (const int pixels_per_thread : {1, 2, 4}) {
            SCOPED_TRACE(pixels_per_thread);
            view.ranges.pixels_per_thread = pixels_per_thread;
            ASSERT_GS_OK(gs_render(&view, NULL));
            const std::vector<float> got = rendered_color(), behind = transmittance.read(),
                                     of_depth = depth.read(), median = median_depth.read();
            const std::vector<uint32_t> contributors = n_contrib.read();
            if (channels == GS_CHANNELS) {
                EXPECT_EQ(got, color_before);
                EXPECT_EQ(behind, before);
            }
            for (size_t i = 0; i < got.size(); i++)
                ASSERT_NEAR(got[i], expected.color[i], 1e-5) << "value " << i;
            int64_t close = 0, crossed = 0;
            for (size_t i = 0; i < behind.size(); i++) {
                ASSERT_NEAR(behind[i], expected.transmittance[i], 1e-5) << "pixel " << i;
                ASSERT_EQ(contributors[i], expected.n_contrib[i]) << "pixel " << i;
                const bool is_close = expected.median_margin[i] < 1e-4;
                const double off = of_depth[i] - expected.depth[i],
                             median_off = median[i] - expected.median_depth[i];
                ASSERT_TRUE(!view.image.depth || std::fabs(off) <= 1e-4) << "depth of pixel " << i;
                ASSERT_TRUE(!view.image.median_depth || is_close || std::fabs(median_off) <= 1e-4) << i;
                close += is_close, crossed += expected.median_depth[i] > 0;
            }
            if (!view.image.median_depth) continue;
            EXPECT_LE(close, pixels() / 100);
            EXPECT_GT(crossed, 0);
        }
    }

    // By every reduction, with the gradients by depth and absolute ones that are wanted.
    void expect_reference_moments(bool depth, bool absolute) {
        std::vector<reference_splat_gradient> gradients;
        std::vector<double> color_gradients;
        reference_gradients(depth, &gradients, &color_gradients);
        const gs_gradient with = extras(depth, absolute);
        const std::vector<float> atomic = backward({DISTWAR_ATOMIC, 0}, with);
        for (const blend_case &w : blend_cases) {
            if (channels > 4 && w.pixels_per_thread != 2) continue; // there are no other kernels
            SCOPED_TRACE(testing::Message()
                         << w << (depth ? ", depth" : "") << (absolute ? ", absolute" : ""));
            divide(&view.ranges, w);
            const std::vector<float> got = backward({w.strategy, w.balance_threshold}, with);
            const bool undefined = depth && !absolute; // the absolute sums
            expect_moments(got, seen, gradients, channels == GS_CHANNELS ? 0 : int(GS_CHANNELS),
                           undefined ? GS_SPLAT_GRAD_SUMS + 1 : int(GS_SPLAT_GRAD_STRIDE), [&](int k) {
                               return k < GS_SPLAT_GRAD_SUMS || (k == GS_SPLAT_GRAD_SUMS ? depth : absolute);
                           });
            if (channels != GS_CHANNELS) {
                const auto of_colors = got.begin() + choice.count * GS_SPLAT_GRAD_STRIDE;
                EXPECT_LE(relative_norm({of_colors, got.end()}, color_gradients), 1e-4) << "colours";
            } else if (!depth && !absolute) {
                EXPECT_LE(relative_norm(got, atomic), w.split ? 5e-5 : 1e-5);
            }
        }
    }

    int channels;
    held_decisions taken;
    std::vector<reference_splat> seen;
    std::vector<float> host_colors, host_background;
    std::vector<double> wide_colors, wide_background;
    std::vector<float> d_color, d_alpha, d_depth;
    device_vector<float> colors, d_colors, image, depth_gradient, abs_mean2d;
};
