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
class filled_step {
  public:
    filled_step(const mode &m, const kernel_frame &frame, const std::vector<gs_camera> &cameras, char pattern)
        : pattern(pattern), count(size_t(frame.choice.count)), channels(m.channels), context(pattern),
          view(frame.view, context) {
        const size_t views = size_t(m.views ? m.views : 1), pixels = views * size_t(frame.pixels());
        view.ranges = {}, view.image = {};
        if (m.views) view.views = {m.views, cameras.data()};
        view.memory.isect_capacity =
            m.overflow ? frame.view.ranges.isects / 2 : 20 * frame.view.ranges.isects;
        if (channels != GS_CHANNELS) {
            colors = std::make_unique<device_vector<float>>(random_floats(3, count * size_t(channels), 0, 1));
            view.gaussians.color = colors->data(), view.gaussians.channels = channels;
        }
        const device_vector<float> d_color(random_floats(4, size_t(channels) * pixels, -1, 1)),
            d_alpha(random_floats(5, pixels, -1, 1)), d_depth(random_floats(6, pixels, -1, 1));
        gradient.color = d_color.data(), gradient.alpha = d_alpha.data(), gradient.depth = d_depth.data();
        view.normalize_depth = 1;
        view.image.depth = output<float>(pixels), view.image.median_depth = output<float>(pixels);
        gradient.mean2d = output<float>(2 * views * count);
        gradient.abs_mean2d = output<float>(2 * views * count);
        const gs_gaussians &g = view.gaussians;
        gradient.gaussians.count = g.count, gradient.gaussians.sh_degree = g.sh_degree;
        gradient.gaussians.mean = output<float>(3 * count);
        gradient.gaussians.log_scale = output<float>(3 * count);
        gradient.gaussians.quaternion = output<float>(4 * count);
        gradient.gaussians.opacity_logit = output<float>(count);
        if (channels == GS_CHANNELS)
            gradient.gaussians.sh = output<float>(size_t(3 * (g.sh_degree + 1) * (g.sh_degree + 1)) * count);
        else
            gradient.gaussians.color = output<float>(size_t(channels) * count);
        view.splats = output<gs_splat>(views * count);
        gradient.splat_grad = output<gs_splat_grad>(views * count);
        if (m.views == 0) gradient.camera = output<gs_camera_gradient>(1);
        EXPECT_GS_OK(gs_project(&view, context));
        EXPECT_GS_OK(gs_bin(&view, context));
        EXPECT_GS_OK(gs_render(&view, context));
        outputs.push_back({view.image.color, size_t(channels) * pixels * sizeof(float)});
        outputs.push_back({view.image.transmittance, pixels * sizeof(float)});
        if (!m.overflow) outputs.push_back({view.image.n_contrib, pixels * sizeof(uint32_t)});
        if (!m.overflow) {
            EXPECT_GS_OK(gs_settle(&view, context));
        }
        EXPECT_GS_OK(gs_backward(&view, &gradient, {DISTWAR_FIXED, 0}, context));
        for (const auto &[from, size] : outputs) {
            written.emplace_back(size, '\0');
            device_download(written.back().data(), from, size);
        }
    }
    std::vector<std::string> written;

  private:
    void *filled(size_t bytes) {
        memory.push_back(std::make_unique<device_vector<char>>(std::vector<char>(bytes, pattern)));
        return memory.back()->data();
    }
    template <typename T>
    T *output(size_t size) {
        T *const out = static_cast<T *>(filled(size * sizeof(T)));
        outputs.push_back({out, size * sizeof(T)});
        return out;
    }

    char pattern;
    size_t count;
    int channels;
    filled_context context;
    own_view view;
    gs_gradient gradient{};
    std::unique_ptr<device_vector<float>> colors;
    std::vector<std::unique_ptr<device_vector<char>>> memory;
    std::vector<std::pair<const void *, size_t>> outputs;
};

TEST(Memory, WhatItHoldsBeforeACallDoesNotCount) {
    const kernel_frame frame({21, 160, 2, 2, 61, 47});
    std::vector<gs_camera> cameras(3, frame.view.camera);
    for (size_t v = 0; v < cameras.size(); v++) cameras[v].translation[0] += 0.1f * float(v);
    const mode modes[] = {{"one camera", 0, 3, false},
                          {"overflow", 0, 3, true},
                          {"views", 3, 3, false},
                          {"5 channels", 0, 5, false},
                          {"31 channels", 0, 31, false}};
    for (const mode &m : modes) {
        const filled_step expected(m, frame, cameras, 0);
#ifdef DISTWAR_SANITIZE // which looks at addresses, the same for every pattern
        const std::vector<int> patterns = {0xff};
#else
        const std::vector<int> patterns = {0xcd, 0xff, 0x7f}; // the last two are NaN
#endif
        for (const int pattern : patterns) {
            const filled_step got(m, frame, cameras, char(pattern));
            for (size_t k = 0; k < expected.written.size(); k++)
                EXPECT_TRUE(got.written[k] == expected.written[k])
                    << m.name << ", output " << k << ", filled with " << pattern;
        }
    }
}

} // namespace
