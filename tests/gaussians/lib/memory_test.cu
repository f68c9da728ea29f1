// SPDX-License-Identifier: MIT
// What lies in outputs and in the memory of a context before a call does not count: the same bits whatever they are filled
// with. How much memory calls take.
#include "filled_context.h"
#include "kernel_frame.h"
#include <algorithm>

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

TEST(Memory, ResultsDoNotDependOnItsContents) {
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

// ---- numbers that 32 bits do not hold, as far as no memory of that size is needed: the bytes that calls ask for, and where
// a view's arrays lie. On a GPU the program sizes runs such views ----

constexpr int64_t most = INT32_MAX - 1; // Gaussians

TEST(Large, BytesGrowWithNumbersBeyond32Bits) {
    gs_view view = {};
    view.camera.width = view.camera.height = GS_MAX_SIZE;
    view.gaussians.count = most;
    double bytes[4];
    const int64_t step = int64_t(1) << 32;
    for (int k = 0; k < 4; k++) {
        const int64_t isects = step * (k + 1);
        bytes[k] = reserved_bytes(view, DISTWAR_TREE, isects);
        EXPECT_GE(bytes[k], 8 * double(isects)) << "two lists of indices";
        if (k > 0) {
            EXPECT_NEAR(bytes[k] - bytes[k - 1], bytes[1] - bytes[0], 1e7);
        }
    }
    const auto fixed = [&](int64_t count) {
        view.gaussians.count = count, view.gaussians.channels = 1000;
        return reserved_bytes(view, DISTWAR_FIXED, 0);
    };
    view.camera.width = view.camera.height = 1;
    EXPECT_NEAR(fixed(most) / fixed(most / 2), 2, 0.1);
    EXPECT_GT(fixed(most), double(most) * 1000 * sizeof(int64_t));
    // One tile with 32 buckets, of more entries than 32 bits count.
    view.gaussians.channels = 0;
    const int64_t isects = int64_t(1) << 38;
    EXPECT_GE(reserved_bytes(view, DISTWAR_TREE, isects),
              8 * double(isects) + 32 * double(UINT32_MAX) * sizeof(uint32_t));
}

// Values of a picture, Gaussians and intersections: each alone is more than 2^32 bytes. 32 views have 2^25 tiles and 2^33
// pixels.
TEST(Large, ArraysOfAViewDoNotOverlap) {
    const std::pair<int, int> cases[] = {
        {3, 0}, {9, 0}, {17, 0}, {1000, 0}, {3, GS_MAX_VIEWS}}; // channels, views
    for (const auto &[channels, views] : cases) {
        gs_view view = {};
        view.camera.width = view.camera.height = GS_MAX_SIZE;
        const std::vector<gs_camera> cameras(GS_MAX_VIEWS, view.camera);
        const int64_t of_all = std::max(views, 1);
        view.views = {views, cameras.data()};
        view.gaussians.count = most / of_all, view.gaussians.channels = channels;
        reserved_bytes(view, DISTWAR_FIXED, (int64_t(1) << 33) + 5, &view);
        const size_t pixels = size_t(of_all) * GS_MAX_SIZE * GS_MAX_SIZE;
        const std::pair<const void *, size_t> all[] = {
            {view.image.transmittance, pixels * sizeof(float)},
            {view.image.n_contrib, pixels * sizeof(uint32_t)},
            {view.image.color, pixels * size_t(channels) * sizeof(float)},
            {view.splats, size_t(view.gaussians.count * of_all) * sizeof(gs_splat)}};
        const char *end = static_cast<const char *>(view.memory.memory);
        const char *const last = end + view.memory.bytes;
        for (const auto &[begin, bytes] : all) {
            EXPECT_GE(static_cast<const char *>(begin), end) << channels << " channels, views " << views;
            end = static_cast<const char *>(begin) + bytes;
        }
        EXPECT_LE(end + sizeof(uint32_t) * ((size_t(1) << 33) + 5), last) << "the lists follow";
    }
}

} // namespace
