// SPDX-License-Identifier: MIT
// What lies in outputs and in the memory of a context before a call does not count: the same bits whatever they are filled
// with.
#include "filled_context.h"
#include "kernel_frame.h"
#include <string>

namespace {

struct mode {
    const char *name;
    int views, channels; // views 0: one camera, not in gs_views
    bool overflow;       // of the room for pairs
};

// All that a step writes, byte by byte; memory is filled with `pattern` first.
std::vector<std::string> written(const mode &m, const kernel_frame &frame,
                                 const std::vector<gs_camera> &cameras, int pattern) {
    filled_context context(pattern);
    scene_choice choice = frame.choice;
    choice.color = m.channels != GS_CHANNELS;
    gs_view like = frame.view;
    if (m.views) like.views = {m.views, cameras.data()};
    view_step step(like, choice, context);
    gs_view &view = step.view;
    gs_gradient &gradient = step.gradient;
    const size_t count = size_t(choice.count), pixels = size_t(step.views * step.pixels);
    std::vector<std::unique_ptr<device_vector<char>>> memory;
    std::vector<std::pair<const void *, size_t>> outputs;
    const auto output = [&](auto **to, size_t values) {
        const size_t bytes = values * sizeof **to;
        memory.push_back(std::make_unique<device_vector<char>>(std::vector<char>(bytes, char(pattern))));
        *to = reinterpret_cast<std::remove_reference_t<decltype(*to)>>(memory.back()->data());
        outputs.push_back({*to, bytes});
    };
    view.memory.isect_capacity = m.overflow ? frame.view.ranges.isects / 2 : 20 * frame.view.ranges.isects;
    view.normalize_depth = 1;
    const device_vector<float> colors(random_floats(3, count * size_t(m.channels), 0, 1)),
        d_color(random_floats(4, size_t(m.channels) * pixels, -1, 1)),
        d_alpha(random_floats(5, pixels, -1, 1)), d_depth(random_floats(6, pixels, -1, 1));
    if (choice.color) view.gaussians.color = colors.data(), view.gaussians.channels = m.channels;
    gradient.color = d_color.data(), gradient.alpha = d_alpha.data(), gradient.depth = d_depth.data();
    const size_t splats = size_t(step.views) * count, rest = size_t(choice.sh_degree + 1);
    output(&view.image.depth, pixels), output(&view.image.median_depth, pixels);
    output(&view.splats, splats), output(&gradient.splat_grad, splats);
    output(&gradient.mean2d, 2 * splats), output(&gradient.abs_mean2d, 2 * splats);
    gs_gaussians &g = gradient.gaussians;
    output(&g.mean, 3 * count), output(&g.log_scale, 3 * count), output(&g.quaternion, 4 * count);
    output(&g.opacity_logit, count);
    if (choice.color)
        output(&g.color, size_t(m.channels) * count);
    else
        output(&g.sh, 3 * rest * rest * count);
    if (m.views == 0) output(&gradient.camera, 1);
    step.queue();
    outputs.push_back({view.image.color, size_t(m.channels) * pixels * sizeof(float)});
    outputs.push_back({view.image.transmittance, pixels * sizeof(float)});
    if (!m.overflow) {
        outputs.push_back({view.image.n_contrib, pixels * sizeof(uint32_t)});
        EXPECT_GS_OK(gs_settle(&view, context));
    }
    step.backward({DISTWAR_FIXED, 0});
    std::vector<std::string> all;
    for (const auto &[from, size] : outputs) {
        all.emplace_back(size, '\0');
        device_download(all.back().data(), from, size);
    }
    return all;
}

TEST(Memory, WhatItHoldsBeforeACallDoesNotCount) {
    const kernel_frame frame(some_scene);
    std::vector<gs_camera> cameras(3, frame.view.camera);
    for (size_t v = 0; v < cameras.size(); v++) cameras[v].translation[0] += 0.1f * float(v);
    const mode modes[] = {{"one camera", 0, 3, false},
                          {"overflow", 0, 3, true},
                          {"views", 3, 3, false},
                          {"5 channels", 0, 5, false},
                          {"31 channels", 0, 31, false}};
    for (const mode &m : modes) {
        const std::vector<std::string> expected = written(m, frame, cameras, 0);
#ifdef DISTWAR_SANITIZE // which looks at addresses, the same for every pattern
        const std::vector<int> patterns = {0xff};
#else
        const std::vector<int> patterns = {0xcd, 0xff, 0x7f}; // the last two are NaN
#endif
        for (const int pattern : patterns) {
            const std::vector<std::string> got = written(m, frame, cameras, pattern);
            for (size_t k = 0; k < expected.size(); k++)
                EXPECT_TRUE(got[k] == expected[k])
                    << m.name << ", output " << k << ", filled with " << pattern;
        }
    }
}

} // namespace
