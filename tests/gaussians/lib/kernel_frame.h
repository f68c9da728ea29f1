// SPDX-License-Identifier: MIT
// A random scene taken through the kernels, stage by stage, and what the reference needs to follow their
// decisions.
#ifndef TESTS_KERNEL_FRAME_H
#define TESTS_KERNEL_FRAME_H

#include "device_vector.h"
#include "distwar_gs.h"
#include "reference.h"
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#define EXPECT_GS_OK(call) EXPECT_EQ(call, GS_OK) << gs_last_error()
#define ASSERT_GS_OK(call) ASSERT_EQ(call, GS_OK) << gs_last_error()

// gs_gaussians on the device, all zeros at first; and there and back from the reference's. With colours or
// covariances, the arrays that these replace are NULL, and read back as zeros.
class device_gaussians {
  public:
    device_gaussians(int64_t count, int sh_degree, bool color = false, bool covariance = false);
    explicit device_gaussians(const reference_gaussians &values);
    const gs_gaussians *get() const { return &gaussians; }
    reference_gaussians read() const; // the caller destroys it

  private:
    std::vector<float * gs_gaussians::*> members; // those that are not NULL, in the order of the arrays
    std::vector<std::unique_ptr<device_vector<float>>> arrays;
    gs_gaussians gaussians;
};

struct scene_choice {
    uint64_t seed;
    int64_t count;
    int sh_degree, sh_degree_used, width, height;
    bool color = false, covariance = false; // given instead of SH, instead of scale and quaternion
    float scale_modifier = 0;
    bool antialias = false;
    int model = GS_PINHOLE;
};
inline void PrintTo(const scene_choice &c, std::ostream *out) {
    *out << "scene " << c.seed << ": " << c.count << " Gaussians, SH degree " << c.sh_degree_used << " of "
         << c.sh_degree << ", " << c.width << " x " << c.height << (c.antialias ? ", antialiased" : "")
         << ", " << gs_name(GS_NAMES_CAMERAS, c.model);
}

// A view with memory of its own, which it gives back.
struct own_view : gs_view {
    explicit own_view(const gs_view &like = {}, gs_context *context = NULL)
        : gs_view(like), context(context) {
        memory = {};
    }
    ~own_view() { gs_view_free(this, context); }
    own_view(const own_view &) = delete;
    own_view &operator=(const own_view &) = delete;
    gs_context *context;
};

// The constructor runs every stage up to the image.
class kernel_frame {
  public:
    explicit kernel_frame(const scene_choice &choice, gs_context *context = NULL);
    ~kernel_frame();
    kernel_frame(const kernel_frame &) = delete;
    kernel_frame &operator=(const kernel_frame &) = delete;

    scene_choice choice;
    gs_context *context;
    reference_scene scene;
    device_gaussians gaussians;
    device_vector<gs_splat> splats;
    device_vector<float> color, transmittance, depth, median_depth;
    device_vector<uint32_t> n_contrib;
    own_view kept; // has the memory of the lists
    gs_view view;  // of the members above, without that memory

    int64_t pixels() const { return int64_t(choice.width) * choice.height; }
    // Moments of all splats. Takes depth_gradient and abs_mean2d of `extras`, device; the latter is not written.
    std::vector<float> backward(const std::vector<float> &color_gradient,
                                const std::vector<float> &alpha_gradient, distwar_policy policy,
                                const gs_gradient &extras = {}) const;
    // What the kernels decided: culling and colour signs from the splats, lists from the view, every
    // pixel's path from a replay of the blend. The clamps of ratios, which the kernels do not report, are the
    // reference's own.
    reference_decisions decisions() const;
    std::vector<reference_splat> reference_splats(const reference_decisions &held) const;
    // What the reference blends, with the kernels' decisions.
    reference_blend blend(const reference_decisions &held, const std::vector<reference_splat> &of) const;
};

// |a - b| / |b|; NaN if anything is not finite, so that no comparison with it holds. 0 / 0 is 0.
double relative_norm(const std::vector<double> &a, const std::vector<double> &b);

std::vector<float> random_floats(uint64_t seed, size_t count, float low, float high);

// Scenes of the comparison: all kinds of Gaussians, every SH degree, sizes that are no multiple of a tile.
const std::vector<scene_choice> &comparison_scenes();
// Scenes with colours, covariances, a scale modifier and antialiasing.
const std::vector<scene_choice> &scenes_with_given_inputs();

#endif
