// SPDX-License-Identifier: MIT
// A random scene taken through the kernels, stage by stage, and what the reference needs to follow their
// decisions.
#pragma once

#include "device_vector.h"
#include "expect_status.h"
#include "held.h"
#include <memory>
#include <vector>

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

// gs_gaussians on the device, all zeros at first; and there and back from the reference's. With colours or
// covariances, the arrays that these replace are NULL, and read back as zeros.
class device_gaussians {
  public:
    device_gaussians(int64_t count, int sh_degree, bool color = false, bool covariance = false);
    explicit device_gaussians(const scene_choice &choice)
        : device_gaussians(choice.count, choice.sh_degree, choice.color, choice.covariance) {}
    explicit device_gaussians(const reference_gaussians &values);
    void fill(float value) const;
    void upload(const reference_gaussians &values) const; // of the same shape
    const gs_gaussians *get() const { return &gaussians; }
    held_gaussians read() const;
    std::vector<double> values() const; // all arrays, one after another, as in reference_gaussians
    void write(const std::vector<double> &values) const;

  private:
    std::vector<std::vector<float>> on_host(gs_gaussians *floats) const;
    std::vector<float * gs_gaussians::*> members; // those that are not NULL, in the order of the arrays
    std::vector<std::unique_ptr<device_vector<float>>> arrays;
    gs_gaussians gaussians;
};

inline const scene_choice some_scene = {21, 160, 2, 2, 61, 47};

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

    scene_choice choice;
    gs_context *context;
    held_scene scene;
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
    held_decisions decisions() const;
    std::vector<reference_splat> reference_splats(const reference_decisions &held) const;
    // What the reference blends, with the kernels' decisions.
    reference_blend blend(const reference_decisions &held, const std::vector<reference_splat> &of) const;
};

// A view like another one, of the same scene and cameras, with memory and outputs of its own.
struct view_step {
    view_step(const gs_view &like, const scene_choice &choice, gs_context *context = NULL);
    explicit view_step(const kernel_frame &frame, gs_context *context = NULL)
        : view_step(frame.view, frame.choice, context) {}

    // Projects, bins and renders without a wait.
    void queue() {
        EXPECT_GS_OK(gs_project(&view, view.context));
        EXPECT_GS_OK(gs_bin(&view, view.context));
        EXPECT_GS_OK(gs_render(&view, view.context));
    }
    void backward(distwar_policy policy) const {
        EXPECT_GS_OK(gs_backward(&view, &gradient, policy, view.context));
    }
    void project_there_and_back() const {
        EXPECT_GS_OK(gs_project(&view, view.context));
        EXPECT_GS_OK(gs_project_backward(&view, &gradient, view.context));
    }
    void set_moments(const std::vector<float> &values) const {
        device_upload(splat_grad.data(), values.data(), values.size() * sizeof(float));
    }
    void set_moments(uint64_t seed) const;

    // `values` of each view.
    std::vector<float> floats(const void *from, int64_t values) const {
        return downloaded(static_cast<const float *>(from), size_t(views * values));
    }
    std::vector<float> color() const { return floats(view.image.color, 3 * pixels); }
    std::vector<float> transmittance() const { return floats(view.image.transmittance, pixels); }
    std::vector<float> n_contrib() const { return floats(view.image.n_contrib, pixels); }
    std::vector<float> moments() const {
        return floats(splat_grad.data(), GS_SPLAT_GRAD_STRIDE * view.gaussians.count);
    }
    gs_camera_gradient camera_gradient() const { return camera.read()[0]; }

    own_view view;
    int64_t views, pixels;      // pixels: of a view
    device_gaussians gradients; // NaN before they are written, as mean2d
    device_vector<gs_splat> splats;
    device_vector<gs_splat_grad> splat_grad;
    device_vector<float> mean2d, abs_mean2d;
    device_vector<gs_camera_gradient> camera;
    gs_gradient gradient = {}; // to gradients, splat_grad and mean2d
};

// 32 x 32 pixels, from the origin along z.
inline const gs_camera plain_camera = {32,        32,   30,         30, 16, 16, {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                       {0, 0, 0}, 0.2f, GS_PINHOLE, {}, 0};

// A Gaussian in front of a camera.
struct one_gaussian {
    explicit one_gaussian(int sh_degree = 1) : values(reference_gaussians_create(1, sh_degree)) {
        values.mean[2] = 5, values.quaternion[0] = 1, values.opacity_logit[0] = 1;
    }

    gs_view view_of(const gs_gaussians &gaussians, gs_splat *splats) const {
        gs_view view = {};
        view.gaussians = gaussians, view.camera = camera, view.sh_degree_used = 1, view.splats = splats;
        return view;
    }
    // What gs_project makes of it.
    gs_splat seen() const {
        const device_gaussians gaussians(values);
        const device_vector<gs_splat> splats(1);
        const gs_view view = view_of(*gaussians.get(), splats.data());
        EXPECT_GS_OK(gs_project(&view, NULL));
        return splats.read()[0];
    }
    held_gaussians values;
    gs_camera camera = plain_camera;
};

// Of gs_loss, without gains and depth.
inline gs_loss_image loss_image(const gs_comparison &images, double *result, float *gradient) {
    gs_loss_image image = {};
    image.images = images, image.result = result, image.color_gradient = gradient;
    return image;
}

inline std::vector<double> doubles(const std::vector<float> &values) {
    return {values.begin(), values.end()};
}

// |a - b| / |b|; NaN if anything is not finite, so that no comparison with it holds. 0 / 0 is 0.
double relative_norm(const std::vector<double> &a, const std::vector<double> &b);
template <typename A, typename B>
double relative_norm(const std::vector<A> &a, const std::vector<B> &b) {
    return relative_norm(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end()));
}

// The same bits; NaN counts as itself. On a GPU up to rounding, as nvcc contracts the products of each kernel in its own way.
void expect_same(const std::vector<double> &got, const std::vector<double> &wanted, const std::string &what,
                 double rounding = 1e-6);

// The relative errors of `got` beside `expected`, group by group, of gradients by the Gaussians.
struct group_error {
    const char *what;
    double value;
};
std::vector<group_error> group_errors(const reference_gaussians &got, const reference_gaussians &expected);
std::vector<group_error> group_errors(const gs_camera_gradient &got,
                                      const reference_camera_gradient &expected);

// Each of the moments first .. last - 1 of all splats, as gs_render_backward leaves them, agrees with what the reference's
// gradients say; where `is_summed` is false it is 0.
template <typename IsSummed>
void expect_moments(const std::vector<float> &got, const std::vector<reference_splat> &splats,
                    const std::vector<reference_splat_gradient> &gradients, int first, int last,
                    const IsSummed &is_summed) {
    std::vector<double> expected(splats.size() * GS_SPLAT_GRAD_STRIDE);
    for (size_t i = 0; i < splats.size(); i++)
        if (splats[i].decisions.visible)
            reference_splat_grad(&splats[i], &gradients[i], &expected[i * GS_SPLAT_GRAD_STRIDE]);
    for (int k = first; k < last; k++) {
        std::vector<double> of_kernel, of_reference;
        for (size_t i = size_t(k); i < expected.size(); i += GS_SPLAT_GRAD_STRIDE)
            of_kernel.push_back(got[i]), of_reference.push_back(is_summed(k) ? expected[i] : 0);
        EXPECT_LE(relative_norm(of_kernel, of_reference), 1e-4) << "moment " << k;
    }
}

std::vector<float> random_floats(uint64_t seed, size_t count, float low, float high);

// Scenes of the comparison: all kinds of Gaussians, every SH degree, sizes that are no multiple of a tile.
const std::vector<scene_choice> &comparison_scenes();
// Scenes with colours, covariances, a scale modifier and antialiasing.
const std::vector<scene_choice> &scenes_with_given_inputs();
