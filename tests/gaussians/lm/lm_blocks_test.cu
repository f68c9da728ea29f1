// SPDX-License-Identifier: MIT
// The diagonal and the blocks of the normal equations, and their solution, against the dense J of the reference.
#include "lm_frame.h"

namespace lm_tests {

TEST(LmDense, DiagonalIsThatOfExplicitColumns) {
    const lm_frame frame(tiny);
    frame.take_squares({DISTWAR_TREE, 0});
    expect_diagonal(frame, dense(frame));
}

// The lower triangle of rows first .. first + size - 1 of J^T J, the columns `stride` apart.
std::vector<double> triangle(const dense &of, int64_t first, int size, int stride = 1) {
    std::vector<double> out;
    const auto column = [&](int k) { return of.jacobian.begin() + (first + k * stride) * of.rows; };
    for (int row = 0; row < size; row++)
        for (int k = 0; k <= row; k++)
            out.push_back(std::inner_product(column(row), column(row) + of.rows, column(k), 0.0));
    return out;
}

// The blocks of a frame's Gaussians, from `squares`.
struct block_memory {
    explicit block_memory(const lm_frame &frame) : memory(std::vector<float>(values_of(frame))) {
        add(frame);
    }
    static size_t values_of(const lm_frame &frame) {
        size_t bytes = 0;
        EXPECT_GS_OK(gs_lm_blocks_bytes(frame.choice.count, frame.choice.sh_degree, &bytes));
        return bytes / sizeof(float);
    }
    void add(const lm_frame &frame) const {
        const device_gaussians diagonal(frame.choice.count, frame.choice.sh_degree);
        EXPECT_GS_OK(
            gs_lm_add_diagonal(&frame.view, frame.squares.data(), diagonal.get(), memory.data(), NULL));
    }
    // Reads `size` entries of Gaussian i from `first` on.
    std::vector<double> read(const lm_frame &frame, int64_t i, int first, int size) const {
        const std::vector<float> all = memory.read();
        std::vector<double> out;
        for (int k = first; k < first + size; k++) out.push_back(all[size_t(k * frame.choice.count + i)]);
        return out;
    }
    device_vector<float> memory;
};

enum { SHAPE_ENTRIES = 55, OPACITY_ENTRY = 55, SH_ENTRIES = 56 };

// In scenes of more Gaussians than a block has threads, too.
TEST(LmBlocks, HaveTheDiagonalBetweenThem) {
    for (const scene_choice &choice : comparison_scenes()) {
        const lm_frame frame(choice);
        frame.take_squares({DISTWAR_TREE, 0});
        const int bases = (choice.sh_degree + 1) * (choice.sh_degree + 1);
        const std::vector<double> diagonal = frame.diagonal();
        const std::vector<float> blocks = block_memory(frame).memory.read();
        const auto entry = [&](int first, int row, int64_t i) {
            return double(blocks[size_t((first + row * (row + 3) / 2) * choice.count + i)]);
        };
        const double *from = diagonal.data();
        std::vector<double> got, expected;
        for (const auto &[values, row] : {std::pair(3, 0), std::pair(3, 3), std::pair(4, 6)}) {
            got.clear(), expected.clear(); // each array on its own: they differ by orders of magnitude
            for (int64_t k = 0; k < values * choice.count; k++) {
                got.push_back(entry(0, row + int(k % values), k / values));
                expected.push_back(*from++);
            }
            EXPECT_LE(relative_norm(got, expected), 1e-4)
                << testing::PrintToString(choice) << ", row " << row;
        }
        got.clear(), expected.clear();
        for (int64_t i = 0; i < choice.count; i++) {
            got.push_back(entry(OPACITY_ENTRY, 0, i));
            expected.push_back(*from++);
        }
        EXPECT_LE(relative_norm(got, expected), 1e-4) << testing::PrintToString(choice);
        got.clear(), expected.clear();
        for (int64_t k = 0; k < bases * choice.count; k++, from += 3) {
            got.push_back(entry(SH_ENTRIES, int(k % bases), k / bases));
            expected.push_back((from[0] + from[1] + from[2]) / 3);
        }
        EXPECT_LE(relative_norm(got, expected), 1e-4) << testing::PrintToString(choice);
    }
}

TEST(LmDense, BlocksAreThoseOfTheNormalEquations) {
    const scene_choice choices[] = {{5, 10, 0, 0, 23, 17},
                                    {5, 10, 1, 1, 23, 17},
                                    {5, 10, 2, 2, 23, 17},
                                    {5, 10, 3, 3, 23, 17},
                                    {5, 10, 3, 1, 23, 17, false, false, 0.5f}};
    for (const scene_choice &choice : choices) {
        SCOPED_TRACE(testing::PrintToString(choice));
        const int degree = choice.sh_degree;
        const lm_frame frame(choice);
        const dense explicitly(frame);
        frame.take_squares({DISTWAR_TREE, 0});
        const block_memory blocks(frame);
        const reference_gaussians &g = frame.scene.gaussians;
        const int bases = (degree + 1) * (degree + 1);
        std::vector<double> shape, shape_wanted, opacity, opacity_wanted, sh, sh_wanted;
        const auto append = [](std::vector<double> &to, const std::vector<double> &from) {
            to.insert(to.end(), from.begin(), from.end());
        };
        for (int64_t i = 0; i < frame.choice.count; i++) {
            // Mean, log_scale and quaternion lie in three arrays: gathered into neighbouring columns.
            dense gathered = explicitly;
            gathered.jacobian.clear();
            for (const auto &[array, size] :
                 {std::pair(g.mean, 3), std::pair(g.log_scale, 3), std::pair(g.quaternion, 4)})
                for (int k = 0; k < size; k++) {
                    const auto from =
                        explicitly.jacobian.begin() + (array - g.mean + size * i + k) * explicitly.rows;
                    gathered.jacobian.insert(gathered.jacobian.end(), from, from + explicitly.rows);
                }
            append(shape, blocks.read(frame, i, 0, SHAPE_ENTRIES));
            append(shape_wanted, triangle(gathered, 0, 10));
            append(opacity, blocks.read(frame, i, OPACITY_ENTRY, 1));
            append(opacity_wanted, triangle(explicitly, g.opacity_logit - g.mean + i, 1));
            append(sh, blocks.read(frame, i, SH_ENTRIES, bases * (bases + 1) / 2));
            std::vector<double> mean(size_t(bases * (bases + 1) / 2));
            for (int c = 0; c < 3; c++) {
                const std::vector<double> of_channel =
                    triangle(explicitly, g.sh - g.mean + 3 * bases * i + c, bases, 3);
                for (size_t k = 0; k < mean.size(); k++) mean[k] += of_channel[k] / 3;
            }
            append(sh_wanted, mean);
        }
        EXPECT_LE(relative_norm(shape, shape_wanted), 1e-4);
        EXPECT_LE(relative_norm(opacity, opacity_wanted), 1e-4);
        EXPECT_LE(relative_norm(sh, sh_wanted), 1e-4);
        // Another camera's part is added to it.
        const std::vector<float> once = blocks.memory.read();
        blocks.add(frame);
        const std::vector<float> twice = blocks.memory.read();
        for (size_t k = 0; k < once.size(); k++) ASSERT_EQ(twice[k], 2 * once[k]) << k;
    }
}

// Against the blocks in double, multiplied back.
TEST(LmDense, BlocksPreconditionByTheirInverse) {
    const float lambda = 0.1f;
    for (const int degree : {0, 1, 2, 3}) {
        const lm_frame frame({5, 24, degree, degree, 23, 17});
        frame.take_squares({DISTWAR_TREE, 0});
        const block_memory blocks(frame);
        std::vector<double> wanted_shape, got_shape, wanted_sh, got_sh;
        std::vector<std::vector<double>> shape, sh, opacity;
        const int bases = (degree + 1) * (degree + 1);
        for (int64_t i = 0; i < frame.choice.count; i++) {
            shape.push_back(blocks.read(frame, i, 0, SHAPE_ENTRIES));
            opacity.push_back(blocks.read(frame, i, OPACITY_ENTRY, 1));
            sh.push_back(blocks.read(frame, i, SH_ENTRIES, bases * (bases + 1) / 2));
        }
        reference_gaussians d = reference_gaussians_create(frame.choice.count, degree);
        reference_gaussians r = reference_gaussians_create(frame.choice.count, degree);
        const std::vector<double> diagonal = frame.diagonal();
        std::copy(diagonal.begin(), diagonal.end(), d.mean);
        // In the units of the diagonal, and nothing where nobody sees anything.
        const std::vector<double> random = random_weights(diagonal.size(), 9);
        for (size_t k = 0; k < diagonal.size(); k++) r.mean[k] = float(random[k] * std::sqrt(diagonal[k]));
        const device_gaussians on_diagonal(d), residual(r), z(frame.choice.count, degree);
        const device_vector<double> sum(std::vector<double>{1});
        ASSERT_GS_OK(gs_lm_factor_blocks(on_diagonal.get(), lambda, blocks.memory.data(), NULL));
        ASSERT_GS_OK(gs_lm_precondition(blocks.memory.data(), on_diagonal.get(), residual.get(), z.get(),
                                        sum.data(), NULL));
        reference_gaussians x = z.read();
        const auto multiplied = [&](const std::vector<double> &a, const std::vector<double> &damping,
                                    const std::vector<double> &by) {
            std::vector<double> out(by.size());
            for (size_t row = 0; row < by.size(); row++)
                for (size_t k = 0; k < by.size(); k++) {
                    const size_t high = std::max(row, k), low = std::min(row, k);
                    out[row] +=
                        (a[high * (high + 1) / 2 + low] + (row == k ? lambda * damping[k] : 0)) * by[k];
                }
            return out;
        };
        double expected_sum = 1;
        for (size_t k = 0; k < diagonal.size(); k++) expected_sum += x.mean[k] * r.mean[k];
        EXPECT_NEAR(sum.read()[0], expected_sum, 1e-5 * expected_sum);
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const auto of_shape = [&](const reference_gaussians &v) {
                std::vector<double> out(v.mean + 3 * i, v.mean + 3 * i + 3);
                out.insert(out.end(), v.log_scale + 3 * i, v.log_scale + 3 * i + 3);
                out.insert(out.end(), v.quaternion + 4 * i, v.quaternion + 4 * i + 4);
                return out;
            };
            const std::vector<double> damping = of_shape(d), right = of_shape(r);
            const std::vector<double> left = multiplied(shape[size_t(i)], damping, of_shape(x));
            for (size_t k = 0; k < left.size(); k++) {
                if (damping[k] <= 0) continue;
                got_shape.push_back(left[k] / std::sqrt(damping[k]));
                wanted_shape.push_back(right[k] / std::sqrt(damping[k]));
            }
            const double of_opacity = opacity[size_t(i)][0] + lambda * d.opacity_logit[i];
            EXPECT_NEAR(x.opacity_logit[i] * of_opacity, r.opacity_logit[i],
                        1e-5 * std::fabs(r.opacity_logit[i]));
            std::vector<double> mean(static_cast<size_t>(bases));
            for (int k = 0; k < 3 * bases; k++) mean[size_t(k / 3)] += d.sh[3 * bases * i + k] / 3;
            for (int c = 0; c < 3; c++) {
                std::vector<double> of_channel, wanted;
                for (int k = 0; k < bases; k++) {
                    of_channel.push_back(x.sh[3 * (bases * i + k) + c]);
                    wanted.push_back(r.sh[3 * (bases * i + k) + c]);
                }
                const std::vector<double> back = multiplied(sh[size_t(i)], mean, of_channel);
                for (int k = 0; k < bases && mean[0] > 0; k++) {
                    const double unit = std::sqrt(mean[size_t(k)]);
                    got_sh.push_back(back[size_t(k)] * d.sh[3 * bases * i + c] / mean[0] / unit);
                    wanted_sh.push_back(d.sh[3 * bases * i + c] > 0 ? wanted[size_t(k)] / unit : 0);
                }
            }
        }
        EXPECT_LE(relative_norm(got_shape, wanted_shape), 1e-3) << "degree " << degree;
        EXPECT_LE(relative_norm(got_sh, wanted_sh), 1e-3) << "degree " << degree;
        for (reference_gaussians *all : {&d, &r, &x}) reference_gaussians_destroy(all);
    }
}

// Blocks of two Gaussians: of the first a row depends on the one before it, and others are not finite.
TEST(LmSolver, RowsThatCannotBeSolvedForAreGivenUp) {
    const auto at = [](int row, int column) { return row * (row + 1) / 2 + column; };
    std::vector<float> blocks(2 * (SH_ENTRIES + 1));
    const auto put = [&](int entry, int i, float value) { blocks[size_t(2 * entry + i)] = value; };
    for (int i = 0; i < 2; i++) {
        for (int row = 0; row < 10; row++) put(at(row, row), i, 4);
        put(OPACITY_ENTRY, i, 4);
        put(SH_ENTRIES, i, 4);
    }
    put(at(1, 0), 0, -4);
    put(at(1, 1), 0, 4.00001f); // all but rounding
    put(at(4, 2), 0, NAN);
    put(at(6, 6), 0, INFINITY);
    put(at(7, 3), 0, INFINITY);
    put(OPACITY_ENTRY, 0, NAN);
    put(SH_ENTRIES, 0, NAN);
    reference_gaussians ones = reference_gaussians_create(2, 0);
    std::fill_n(ones.mean, reference_gaussians_values(&ones), 1.0);
    const device_gaussians all(ones), z(2, 0);
    const device_vector<float> memory(blocks);
    const device_vector<double> sum(std::vector<double>{0});
    ASSERT_GS_OK(gs_lm_factor_blocks(all.get(), 0, memory.data(), NULL));
    ASSERT_GS_OK(gs_lm_precondition(memory.data(), all.get(), all.get(), z.get(), sum.data(), NULL));
    reference_gaussians x = z.read();
    double expected_sum = 0;
    for (int i = 0; i < 2; i++) {
        const double wanted = 0.25, lost = i == 0 ? 0 : wanted;
        const double shape[10] = {wanted, lost, wanted, wanted, lost, wanted, lost, lost, wanted, wanted};
        for (int k = 0; k < 3; k++) EXPECT_NEAR(x.mean[3 * i + k], shape[k], 1e-6) << i << ' ' << k;
        for (int k = 0; k < 3; k++) EXPECT_NEAR(x.log_scale[3 * i + k], shape[3 + k], 1e-6) << i << ' ' << k;
        for (int k = 0; k < 4; k++) EXPECT_NEAR(x.quaternion[4 * i + k], shape[6 + k], 1e-6) << i << ' ' << k;
        EXPECT_NEAR(x.opacity_logit[i], lost, 1e-6);
        for (int c = 0; c < 3; c++) EXPECT_NEAR(x.sh[3 * i + c], lost, 1e-6);
        expected_sum += std::accumulate(shape, shape + 10, 4 * lost);
    }
    EXPECT_NEAR(sum.read()[0], expected_sum, 1e-6);
    for (reference_gaussians *both : {&ones, &x}) reference_gaussians_destroy(both);
}

TEST(LmDense, ConjugateGradientsFindTheSolutionOfTheNormalEquations) {
    const lm_frame frame(tiny);
    dense explicitly(frame);
    frame.take_squares({DISTWAR_TREE, 0});
    // Some parameters do next to nothing, as the width of a needle: what finite differences make of them is
    // noise. Both sides leave them out.
    std::vector<double> diagonal = frame.diagonal();
    const double largest = *std::max_element(diagonal.begin(), diagonal.end());
    for (size_t k = 0; k < diagonal.size(); k++)
        if (diagonal[k] < 1e-10 * largest) {
            diagonal[k] = 0;
            std::fill_n(explicitly.jacobian.begin() + int64_t(k) * explicitly.rows, explicitly.rows, 0.0);
        }
    const float lambda = 1;
    std::vector<double> expected(static_cast<size_t>(explicitly.columns));
    reference_lm_solve(explicitly.jacobian.data(), frame.lm.residuals(frame.lm.base).data(), explicitly.rows,
                       explicitly.columns, lambda, expected.data());

    std::vector<double> right = frame.backward(frame.slope.data());
    const auto floats = [](const std::vector<double> &v, double scale = 1) {
        std::vector<float> out;
        for (const double value : v) out.push_back(float(scale * value));
        return out;
    };
    const int iterations = 150;
    const int64_t values = explicitly.columns;
    const device_vector<float> b(floats(right, -1)), d(floats(diagonal)), x(b.read().size()),
        residual(b.read().size()), direction(b.read().size());
    const device_vector<double> scalars(size_t(2 * iterations + 1));
    const gs_lm_pcg pcg = {values, x.data(), residual.data(), direction.data(), scalars.data()};
    ASSERT_GS_OK(gs_lm_pcg_start(&pcg, b.data(), iterations, NULL));
    ASSERT_GS_OK(gs_lm_precondition_diagonal(d.data(), residual.data(), values, direction.data(),
                                             scalars.data(), NULL));
    for (int k = 0; k < iterations; k++) {
        reference_gaussians p = reference_gaussians_create(frame.choice.count, frame.choice.sh_degree);
        const std::vector<float> now = direction.read();
        std::copy(now.begin(), now.end(), p.mean);
        frame.forward(device_gaussians(p), true);
        reference_gaussians_destroy(&p);
        const device_vector<float> product(floats(frame.backward(frame.change.data())));
        ASSERT_GS_OK(gs_lm_pcg_step(&pcg, d.data(), lambda, k, product.data(), NULL));
        ASSERT_GS_OK(gs_lm_precondition_diagonal(d.data(), residual.data(), values, product.data(),
                                                 scalars.data() + 2 * k + 2, NULL));
        ASSERT_GS_OK(gs_lm_pcg_update(&pcg, product.data(), k, NULL));
    }
    // In the norm in which the preconditioner sees them: parameters have units of their own.
    std::vector<double> got = doubles(x.read());
    for (size_t k = 0; k < got.size(); k++) {
        if (diagonal[k] == 0) {
            EXPECT_EQ(got[k], 0);
        }
        got[k] *= std::sqrt(diagonal[k]);
        expected[k] *= std::sqrt(diagonal[k]);
    }
    EXPECT_LE(relative_norm(got, expected), 1e-3);
}

TEST(LmEdges, BadArgumentsOfTheSolverAreNamed) {
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    const device_gaussians a(4, 1), fewer(3, 1), flatter(4, 0);
    const gs_gaussians *v = a.get();
    size_t bytes = 0;
    refused(gs_lm_blocks_bytes(-1, 1, &bytes), "gs_lm_blocks_bytes: count");
    refused(gs_lm_blocks_bytes(int64_t(1) << 31, 1, &bytes), "gs_lm_blocks_bytes: count");
    refused(gs_lm_blocks_bytes(4, 4, &bytes), "gs_lm_blocks_bytes: sh_degree");
    refused(gs_lm_blocks_bytes(4, 1, NULL), "bytes must be given");
    ASSERT_GS_OK(gs_lm_blocks_bytes(4, 1, &bytes));
    EXPECT_EQ(bytes, 4u * 66 * sizeof(float));
    const device_vector<float> blocks(std::vector<float>(bytes / sizeof(float)));
    const device_vector<double> sum(3);
    float *const x = blocks.data();

    const lm_frame frame(tiny);
    refused(gs_lm_add_diagonal(&frame.view, NULL, frame.gaussians.get(), x, NULL),
            "gs_lm_add_diagonal: splats and squares");
    for (const float lambda : {-1.0f, NAN, INFINITY})
        refused(gs_lm_factor_blocks(v, lambda, x, NULL), "gs_lm_factor_blocks: lambda");
    refused(gs_lm_factor_blocks(v, 1, NULL, NULL), "gs_lm_factor_blocks: blocks");
    refused(gs_lm_factor_blocks(NULL, 1, x, NULL), "gs_lm_factor_blocks: Gaussians, and vectors");
    refused(gs_lm_precondition(x, v, fewer.get(), v, sum.data(), NULL),
            "gs_lm_precondition: count or sh_degree");
    refused(gs_lm_precondition(x, v, v, flatter.get(), sum.data(), NULL),
            "gs_lm_precondition: count or sh_degree");
    refused(gs_lm_precondition(NULL, v, v, v, sum.data(), NULL), "gs_lm_precondition: blocks and sum");
    refused(gs_lm_precondition(x, v, v, v, NULL, NULL), "gs_lm_precondition: blocks and sum");

    refused(gs_lm_precondition_diagonal(x, x, -1, x, sum.data(), NULL),
            "gs_lm_precondition_diagonal: diagonal");
    refused(gs_lm_precondition_diagonal(x, x, 4, x, NULL, NULL), "gs_lm_precondition_diagonal: diagonal");
    const gs_lm_pcg pcg = {4, x, x, x, sum.data()};
    refused(gs_lm_pcg_start(&pcg, x, -1, NULL), "gs_lm_pcg_start: iterations");
    refused(gs_lm_pcg_start(&pcg, NULL, 1, NULL), "gs_lm_pcg_start: right");
    refused(gs_lm_pcg_start(NULL, x, 1, NULL), "gs_lm_pcg_start: pcg");
    refused(gs_lm_pcg_step(&pcg, x, NAN, 0, x, NULL), "gs_lm_pcg_step: lambda");
    refused(gs_lm_pcg_step(&pcg, x, 1, 0, NULL, NULL), "gs_lm_pcg_step: diagonal and product");
    refused(gs_lm_pcg_update(&pcg, x, -1, NULL), "gs_lm_pcg_update: iteration");
    refused(gs_lm_pcg_update(&pcg, NULL, 0, NULL), "gs_lm_pcg_update: z");
    gs_lm_pcg wrong = pcg;
    wrong.values = -1;
    refused(gs_lm_pcg_start(&wrong, x, 1, NULL), "gs_lm_pcg_start: pcg must be given and values");
    for (const auto member : {&gs_lm_pcg::x, &gs_lm_pcg::residual, &gs_lm_pcg::direction}) {
        wrong = pcg;
        wrong.*member = NULL;
        refused(gs_lm_pcg_step(&wrong, x, 1, 0, x, NULL),
                "gs_lm_pcg_step: x, residual, direction and scalars");
    }
}

} // namespace lm_tests
