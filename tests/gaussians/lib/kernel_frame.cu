// SPDX-License-Identifier: MIT
#include "kernel_frame.h"
#include "blend.cuh"
#include "launch.cuh"
#include <cmath>
#include <cstring>
#include <random>

using namespace gs;

namespace {

// A block a tile, a thread a pixel, every entry of the list; the blend's own order and arithmetic, writing
// down what it decides.
__global__ void replay_kernel(const gs_splat *splats, gs_tile_ranges ranges, int width, int height,
                              uint8_t *tape) {
    const int tile = int(blockIdx.x), in_tile = int(threadIdx.x);
    const int x = tile % ranges.tiles_x * GS_TILE_SIZE + in_tile % GS_TILE_SIZE;
    const int y = tile / ranges.tiles_x * GS_TILE_SIZE + in_tile / GS_TILE_SIZE;
    if (x >= width || y >= height) return;
    float transmittance = 1;
    for (int64_t i = ranges.tile_begin[tile]; i < ranges.tile_begin[tile + 1]; i++) {
        coverage c;
        if (!covers(splats[ranges.splat_index[i]], x, y, &c)) continue;
        const float behind = __fmul_rn(transmittance, 1 - c.alpha);
        if (behind < min_transmittance) {
            tape[i * tile_pixels + in_tile] = REFERENCE_STOPPED;
            return;
        }
        transmittance = behind;
        tape[i * tile_pixels + in_tile] = c.clamped ? REFERENCE_CUT : REFERENCE_COUNTED;
    }
}

reference_scene scene_of(const scene_choice &choice) {
    reference_scene scene = reference_scene_seen_by(choice.model, choice.seed, choice.count, choice.sh_degree,
                                                    choice.width, choice.height);
    scene.gaussians.scale_modifier = choice.scale_modifier;
    scene.gaussians.antialias = choice.antialias;
    reference_scene_precompute(&scene, choice.color, choice.covariance);
    return scene;
}

} // namespace

device_gaussians::device_gaussians(int64_t count, int sh_degree, bool color, bool covariance) : gaussians{} {
    gaussians.count = count;
    gaussians.sh_degree = sh_degree;
    const auto array = [&](float *gs_gaussians::*member, int64_t values) {
        members.push_back(member);
        arrays.push_back(std::make_unique<device_vector<float>>(std::vector<float>(size_t(count * values))));
        gaussians.*member = arrays.back()->data();
    };
    array(&gs_gaussians::mean, 3);
    array(&gs_gaussians::opacity_logit, 1);
    if (color)
        array(&gs_gaussians::color, 3);
    else
        array(&gs_gaussians::sh, 3 * (sh_degree + 1) * (sh_degree + 1));
    if (covariance) {
        array(&gs_gaussians::covariance, 6);
    } else {
        array(&gs_gaussians::log_scale, 3);
        array(&gs_gaussians::quaternion, 4);
    }
}

device_gaussians::device_gaussians(const reference_gaussians &values)
    : device_gaussians(values.count, values.sh_degree, values.color, values.covariance) {
    gaussians.scale_modifier = float(values.scale_modifier);
    gaussians.antialias = values.antialias;
    upload(values);
}

// The arrays on the host, and a gs_gaussians that points to them.
std::vector<std::vector<float>> device_gaussians::on_host(gs_gaussians *floats) const {
    std::vector<std::vector<float>> host;
    *floats = gaussians;
    for (const auto &array : arrays) host.push_back(array->read());
    for (size_t k = 0; k < host.size(); k++) floats->*members[k] = host[k].data();
    return host;
}

void device_gaussians::upload(const reference_gaussians &values) const {
    gs_gaussians floats;
    const std::vector<std::vector<float>> host = on_host(&floats);
    reference_gaussians_to_floats(&values, &floats);
    for (size_t k = 0; k < host.size(); k++)
        device_upload(arrays[k]->data(), host[k].data(), host[k].size() * sizeof(float));
}

void device_gaussians::fill(float value) const {
    for (const auto &array : arrays) array->fill(value);
}

held_gaussians device_gaussians::read() const {
    gs_gaussians floats;
    const std::vector<std::vector<float>> host = on_host(&floats);
    return reference_gaussians_from_floats(&floats);
}

std::vector<double> device_gaussians::values() const {
    const held_gaussians got = read();
    return {got.mean, got.mean + reference_gaussians_values(&got)};
}

void device_gaussians::write(const std::vector<double> &values) const {
    const held_gaussians all = read();
    std::copy(values.begin(), values.end(), all.mean);
    upload(all);
}

kernel_frame::kernel_frame(const scene_choice &choice_, gs_context *context_)
    : choice(choice_), context(context_), scene(scene_of(choice)), gaussians(scene.gaussians),
      splats(size_t(choice.count)), color(size_t(GS_CHANNELS * pixels())), transmittance(size_t(pixels())),
      depth(size_t(pixels())), median_depth(size_t(pixels())), n_contrib(size_t(pixels())),
      kept({}, context), view{} {
    view.gaussians = *gaussians.get();
    view.camera = reference_camera_to_floats(&scene.camera);
    view.sh_degree_used = choice.sh_degree_used;
    for (int c = 0; c < GS_CHANNELS; c++) view.background[c] = float(scene.background[c]);
    view.splats = splats.data();
    view.image.color = color.data(), view.image.transmittance = transmittance.data();
    view.image.n_contrib = n_contrib.data();
    EXPECT_GS_OK(gs_forward(&view, context));
    kept.memory = view.memory, view.memory = {};
}

std::vector<float> kernel_frame::backward(const std::vector<float> &color_gradient,
                                          const std::vector<float> &alpha_gradient, distwar_policy policy,
                                          const gs_gradient &extras) const {
    const device_vector<float> d_color(color_gradient), d_alpha(alpha_gradient);
    gs_gradient gradient = extras;
    const device_vector<float> splat_grad(size_t(choice.count * GS_SPLAT_GRAD_STRIDE));
    gradient.color = d_color.data();
    gradient.alpha = d_alpha.data();
    gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(splat_grad.data());
    EXPECT_GS_OK(gs_render_backward(&view, &gradient, policy, context));
    return splat_grad.read();
}

held_decisions kernel_frame::decisions() const {
    const gs_tile_ranges &ranges = view.ranges;
    held_decisions taken;
    const std::vector<gs_splat> seen = splats.read();
    taken.splats =
        static_cast<reference_splat_decisions *>(calloc(size_t(choice.count) + 1, sizeof *taken.splats));
    for (int64_t i = 0; i < choice.count; i++) {
        reference_splat own;
        reference_project(&scene.gaussians, i, choice.sh_degree_used, &scene.camera, NULL, &own);
        taken.splats[i] = own.decisions;
        taken.splats[i].visible = seen[i].depth > 0;
        for (int c = 0; c < 3; c++) taken.splats[i].color_positive[c] = choice.color || seen[i].color[c] > 0;
    }

    const size_t tiles = size_t(ranges.tiles_x) * ranges.tiles_y;
    taken.ranges = ranges;
    taken.ranges.tile_begin = static_cast<int64_t *>(malloc((tiles + 1) * sizeof(int64_t)));
    taken.ranges.splat_index = static_cast<uint32_t *>(malloc(size_t(ranges.isects + 1) * sizeof(uint32_t)));
    device_download(taken.ranges.tile_begin, ranges.tile_begin, (tiles + 1) * sizeof(int64_t));
    device_download(taken.ranges.splat_index, ranges.splat_index, size_t(ranges.isects) * sizeof(uint32_t));

    const device_vector<uint8_t> tape(
        std::vector<uint8_t>(size_t(ranges.isects) * tile_pixels, REFERENCE_SKIPPED));
    DEVICE_CHECK(launch(nullptr, unsigned(tiles), tile_pixels, replay_kernel, splats.data(), ranges,
                        choice.width, choice.height, tape.data()));
    taken.blend = static_cast<uint8_t *>(malloc(size_t(ranges.isects) * tile_pixels + 1));
    device_download(taken.blend, tape.data(), size_t(ranges.isects) * tile_pixels);

    const std::vector<float> rendered = color.read();
    taken.sign = static_cast<signed char *>(malloc(rendered.size()));
    for (int64_t c = 0; c < 3; c++)
        for (int64_t i = 0; i < pixels(); i++) {
            const float difference = rendered[c * pixels() + i] - float(scene.target[3 * i + c]) / 255.0f;
            taken.sign[c * pixels() + i] = static_cast<signed char>((difference > 0) - (difference < 0));
        }
    return taken;
}

std::vector<reference_splat> kernel_frame::reference_splats(const reference_decisions &held) const {
    std::vector<reference_splat> out(size_t(choice.count));
    for (int64_t i = 0; i < choice.count; i++)
        reference_project(&scene.gaussians, i, choice.sh_degree_used, &scene.camera, &held.splats[i],
                          &out[i]);
    return out;
}

reference_blend kernel_frame::blend(const reference_decisions &held,
                                    const std::vector<reference_splat> &of) const {
    reference_blend out = {};
    out.splats = of.data(), out.count = choice.count, out.ranges = &held.ranges;
    out.width = choice.width, out.height = choice.height;
    out.background = scene.background, out.held = held.blend, out.normalize_depth = view.normalize_depth;
    out.inverse_depth = view.inverse_depth;
    return out;
}

view_step::view_step(const gs_view &like, const scene_choice &choice, gs_context *context)
    : view(like, context), views(like.views.count > 0 ? like.views.count : 1),
      pixels(int64_t(like.camera.width) * like.camera.height), gradients(choice),
      splats(size_t(views * choice.count)), splat_grad(size_t(views * choice.count)),
      mean2d(std::vector<float>(size_t(2 * views * choice.count), NAN)),
      abs_mean2d(size_t(2 * views * choice.count)), camera(1) {
    gradients.fill(NAN);
    view.ranges = {}, view.image = {}, view.splats = splats.data();
    gradient.splat_grad = splat_grad.data(), gradient.mean2d = mean2d.data();
    gradient.gaussians = *gradients.get();
}

void view_step::set_moments(uint64_t seed) const {
    set_moments(random_floats(seed, size_t(views * view.gaussians.count * GS_SPLAT_GRAD_STRIDE), -1, 1));
}

std::vector<group_error> group_errors(const reference_gaussians &got, const reference_gaussians &expected) {
    const int64_t n = got.count, rows = (got.sh_degree + 1) * (got.sh_degree + 1);
    std::vector<group_error> out;
    const auto compare = [&out](const char *what, const double *a, const double *b, int64_t values) {
        if (a) out.push_back({what, relative_norm({a, a + values}, {b, b + values})});
    };
    compare("mean", got.mean, expected.mean, 3 * n);
    compare("log_scale", got.log_scale, expected.log_scale, 3 * n);
    compare("quaternion", got.quaternion, expected.quaternion, 4 * n);
    compare("opacity_logit", got.opacity_logit, expected.opacity_logit, n);
    compare("sh", got.sh, expected.sh, 3 * rows * n);
    compare("color", got.color, expected.color, 3 * n);
    compare("covariance", got.covariance, expected.covariance, 6 * n);
    return out;
}

std::vector<group_error> group_errors(const gs_camera_gradient &got,
                                      const reference_camera_gradient &expected) {
    const auto error = [](const char *what, const float *a, const double *b, int values) {
        return group_error{what, relative_norm({a, a + values}, {b, b + values})};
    };
    return {error("camera's matrix", got.matrix, expected.matrix, 12),
            error("camera's rotation", got.se3_grad, expected.se3_grad, 3),
            error("camera's translation", got.se3_grad + 3, expected.se3_grad + 3, 3),
            error("camera's intrinsics", got.intrinsics, expected.intrinsics, 4)};
}

double relative_norm(const std::vector<double> &a, const std::vector<double> &b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    if (difference == 0 && size == 0) return 0;
    return std::isfinite(difference) && std::isfinite(size) ? std::sqrt(difference / size) : NAN;
}

void expect_same(const std::vector<double> &got, const std::vector<double> &wanted, const std::string &what,
                 [[maybe_unused]] double rounding) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
#ifdef DISTWAR_SIMT
    EXPECT_EQ(memcmp(got.data(), wanted.data(), got.size() * sizeof(double)), 0) << what;
#else
    std::vector<double> numbers[2];
    for (size_t i = 0; i < got.size(); i++) {
        ASSERT_EQ(std::isnan(got[i]), std::isnan(wanted[i])) << what;
        if (!std::isnan(got[i])) numbers[0].push_back(got[i]), numbers[1].push_back(wanted[i]);
    }
    EXPECT_LE(relative_norm(numbers[0], numbers[1]), rounding) << what;
#endif
}

std::vector<float> random_floats(uint64_t seed, size_t count, float low, float high) {
    std::mt19937_64 random(seed);
    std::vector<float> out(count);
    for (float &value : out) value = low + (high - low) * float(random() >> 40) * 0x1p-24f;
    return out;
}

// Sanitizers look at memory, not at numbers: one scene of each shape is enough.
const std::vector<scene_choice> &comparison_scenes() {
    static const std::vector<scene_choice> scenes = {
        {1, 96, 0, 0, 64, 48},
        {4, 192, 3, 3, 71, 45},
        {5, 64, 3, 1, 17, 90},
        {6, 64, 3, 0, 132, 9},
        {7, 32, 2, 3, 1, 1},
        {16, 192, 2, 2, 67, 47, false, false, 0, false, GS_FISHEYE},
        {18, 192, 2, 2, 45, 67, false, false, 0, false, GS_ORTHO},
#ifndef DISTWAR_SANITIZE
        {2, 128, 1, 1, 50, 37},
        {3, 160, 2, 2, 37, 61},
        {8, 320, 3, 3, 96, 80},
        {9, 600, 1, 1, 33, 33},
#endif
    };
    return scenes;
}

const std::vector<scene_choice> &scenes_with_given_inputs() {
    static const std::vector<scene_choice> scenes = {
        {12, 192, 0, 0, 48, 48, true, true},
        {14, 192, 2, 2, 60, 44, false, false, 0, true},
        {17, 192, 1, 1, 52, 60, false, true, 0, true, GS_FISHEYE},
        {19, 160, 1, 1, 60, 36, false, true, 0, true, GS_ORTHO},
#ifndef DISTWAR_SANITIZE
        {10, 128, 1, 1, 40, 56, true, false},
        {11, 128, 2, 1, 56, 40, false, true},
        {13, 96, 1, 1, 40, 40, false, false, 0.5f},
        {15, 128, 1, 1, 44, 60, false, true, 0, true},
#endif
    };
    return scenes;
}
