// SPDX-License-Identifier: MIT
// The diagonal and the blocks of the normal equations, and their solution, against the dense J of the reference.
#include "lm_frame.h"

namespace lm_tests {

// Where the blocks of a frame's Gaussians begin among the entries of one.
enum { SHAPE_ENTRIES = 55, OPACITY_ENTRY = 55, SH_ENTRIES = 56 };

// A block of Gaussian i: its entries, the lower triangle by rows, begin at `first`, and its rows are those of these
// values in the order of the parameters.
struct block {
    int first;
    std::vector<int64_t> columns;
};
enum {
    SHAPE,
    OPACITY,
    SH_OF_CHANNELS,
    BLOCKS = SH_OF_CHANNELS + 3
}; // those of the channels have one set of entries
std::vector<block> blocks_of(const reference_gaussians &g, int64_t i) {
    std::vector<block> out = {
        {0, {}}, {OPACITY_ENTRY, {}}, {SH_ENTRIES, {}}, {SH_ENTRIES, {}}, {SH_ENTRIES, {}}};
    const int which[GROUPS] = {SHAPE, SHAPE, SHAPE, OPACITY, SH_OF_CHANNELS};
    for (int group = 0; group < GROUPS; group++) {
        const GroupRange range = group_of(g, i, group);
        for (int64_t k = 0; k < range.size; k++)
            out[size_t(which[group] + (group == SH ? k % 3 : 0))].columns.push_back(range.begin + k);
    }
    return out;
}
int entry(int row, int column) { // of a block
    return std::max(row, column) * (std::max(row, column) + 1) / 2 + std::min(row, column);
}

// The blocks of a frame's Gaussians, from `squares`.
struct block_memory {
    explicit block_memory(const lm_frame &f) : frame(f), memory(std::vector<float>(floats_of(f))) { add(); }
    static size_t floats_of(const lm_frame &frame) {
        return gs_lm_blocks_bytes(frame.choice.count, frame.choice.sh_degree) / sizeof(float);
    }
    void add() {
        const device_gaussians diagonal(frame.choice.count, frame.choice.sh_degree);
        EXPECT_GS_OK(gs_lm_add_diagonal(&frame.view, frame.squares.data(), diagonal.get(), memory.data()));
        values = memory.read();
    }
    double at(int64_t i, const block &b, size_t row, size_t column) const {
        return double(values[size_t((b.first + entry(int(row), int(column))) * frame.choice.count + i)]);
    }
    const lm_frame &frame;
    device_vector<float> memory;
    std::vector<float> values;
};

// In scenes of more Gaussians than a block has threads, too.
TEST(LmBlocks, HaveTheDiagonalBetweenThem) {
    for (const scene_choice &choice : comparison_scenes()) {
        const lm_frame frame(choice);
        frame.take_squares({DISTWAR_TREE, 0});
        const std::vector<double> diagonal = frame.diagonal();
        const block_memory blocks(frame);
        std::vector<double> got = diagonal;
        for (int64_t i = 0; i < choice.count; i++) {
            const std::vector<block> of = blocks_of(frame.scene.gaussians, i);
            for (const block &b : of)
                for (size_t k = 0; k < b.columns.size(); k++)
                    got[size_t(b.columns[k])] = blocks.at(i, b, k, k);
        }
        std::vector<double> expected = diagonal;
        for (size_t k = size_t(frame.scene.gaussians.sh - frame.scene.gaussians.mean); k < got.size(); k += 3)
            expected[k] = expected[k + 1] = expected[k + 2] =
                (diagonal[k] + diagonal[k + 1] + diagonal[k + 2]) / 3;
        SCOPED_TRACE(testing::PrintToString(choice));
        expect_equal_groups(frame, got, expected, 1e-4);
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
        const lm_frame frame(choice);
        const dense explicitly(frame);
        frame.take_squares({DISTWAR_TREE, 0});
        block_memory blocks(frame);
        std::vector<double> got[3],
            wanted[3]; // of shapes, opacities, SH: of the latter the mean over channels
        for (int64_t i = 0; i < choice.count; i++) {
            const std::vector<block> of = blocks_of(frame.scene.gaussians, i);
            for (const int which : {SHAPE, OPACITY, SH_OF_CHANNELS})
                for (size_t row = 0; row < of[size_t(which)].columns.size(); row++)
                    for (size_t k = 0; k <= row; k++) {
                        const int channels = which == SH_OF_CHANNELS ? 3 : 1;
                        double mean = 0;
                        for (int c = which; c < which + channels; c++) {
                            const std::vector<int64_t> &columns = of[size_t(c)].columns;
                            mean += dot(explicitly.column(columns[row]), explicitly.column(columns[k])) /
                                    channels;
                        }
                        got[which].push_back(blocks.at(i, of[size_t(which)], row, k));
                        wanted[which].push_back(mean);
                    }
        }
        for (const int which : {SHAPE, OPACITY, SH_OF_CHANNELS})
            EXPECT_LE(relative_norm(got[which], wanted[which]), 1e-4) << which;
        // Another camera's part is added to it.
        const std::vector<float> once = blocks.values;
        blocks.add();
        for (size_t k = 0; k < once.size(); k++) ASSERT_EQ(blocks.values[k], 2 * once[k]) << k;
    }
}

// Against the blocks in double, multiplied back.
TEST(LmDense, BlocksPreconditionByTheirInverse) {
    const float lambda = 0.1f;
    for (const int degree : {0, 1, 2, 3}) {
        const lm_frame frame({5, 24, degree, degree, 23, 17});
        frame.take_squares({DISTWAR_TREE, 0});
        const block_memory blocks(frame);
        parameters d(frame.choice.count, degree), r(frame.choice.count, degree);
        const std::vector<double> diagonal = frame.diagonal();
        std::copy(diagonal.begin(), diagonal.end(), d.mean);
        // In the units of the diagonal, and nothing where nobody sees anything.
        const std::vector<double> random = random_weights(diagonal.size(), 9);
        for (size_t k = 0; k < diagonal.size(); k++) r.mean[k] = float(random[k] * std::sqrt(diagonal[k]));
        const device_gaussians on_diagonal(d), residual(r), z(frame.choice.count, degree);
        const device_vector<double> sum(std::vector<double>{1});
        ASSERT_GS_OK(gs_lm_factor_blocks(on_diagonal.get(), lambda, blocks.memory.data()));
        ASSERT_GS_OK(
            gs_lm_precondition(blocks.memory.data(), on_diagonal.get(), residual.get(), z.get(), sum.data()));
        const parameters x(z);
        double expected_sum = 1;
        for (size_t k = 0; k < diagonal.size(); k++) expected_sum += x.mean[k] * r.mean[k];
        EXPECT_NEAR(sum.read()[0], expected_sum, 1e-5 * expected_sum);
        std::vector<double> got[3], wanted[3]; // of shapes, opacities, SH
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const std::vector<block> of = blocks_of(d, i);
            for (size_t which = 0; which < BLOCKS; which++) {
                const std::vector<int64_t> &columns = of[which].columns;
                // The damping of SH is that of the channels' mean, and what a channel finds is scaled to its own.
                const auto damping = [&](size_t k) {
                    if (which < SH_OF_CHANNELS) return d.mean[columns[k]];
                    double mean = 0;
                    for (size_t c = SH_OF_CHANNELS; c < BLOCKS; c++) mean += d.mean[of[c].columns[k]] / 3;
                    return mean;
                };
                const double first = d.mean[columns[0]];
                const double scale = which < SH_OF_CHANNELS ? 1 : first / damping(0);
                for (size_t row = 0; row < columns.size(); row++) {
                    if (damping(which < SH_OF_CHANNELS ? row : 0) <= 0) continue;
                    double back = lambda * damping(row) * x.mean[columns[row]];
                    for (size_t k = 0; k < columns.size(); k++)
                        back += blocks.at(i, of[which], row, k) * x.mean[columns[k]];
                    const double unit = std::sqrt(damping(row));
                    const bool seen = which < SH_OF_CHANNELS || first > 0;
                    const size_t kind = std::min<size_t>(which, SH_OF_CHANNELS);
                    got[kind].push_back(scale * back / unit);
                    wanted[kind].push_back(seen ? r.mean[columns[row]] / unit : 0);
                }
            }
        }
        for (const int which : {SHAPE, OPACITY, SH_OF_CHANNELS})
            EXPECT_LE(relative_norm(got[which], wanted[which]), which == OPACITY ? 1e-5 : 1e-3)
                << "degree " << degree << ", " << which;
    }
}

// Blocks of two Gaussians: of the first a row depends on the one before it, and others are not finite.
TEST(LmSolver, RowsThatCannotBeSolvedForAreGivenUp) {
    std::vector<float> blocks(2 * (SH_ENTRIES + 1));
    const auto put = [&](int entry, int i, float value) { blocks[size_t(2 * entry + i)] = value; };
    for (int i = 0; i < 2; i++) {
        for (int row = 0; row < 10; row++) put(entry(row, row), i, 4);
        put(OPACITY_ENTRY, i, 4);
        put(SH_ENTRIES, i, 4);
    }
    put(entry(1, 0), 0, -4);
    put(entry(1, 1), 0, 4.00001f); // all but rounding
    put(entry(4, 2), 0, NAN);
    put(entry(6, 6), 0, INFINITY);
    put(entry(7, 3), 0, INFINITY);
    put(OPACITY_ENTRY, 0, NAN);
    put(SH_ENTRIES, 0, NAN);
    parameters ones(2, 0);
    std::fill_n(ones.mean, reference_gaussians_values(&ones), 1.0);
    const device_gaussians all(ones), z(2, 0);
    const device_vector<float> memory(blocks);
    const device_vector<double> sum(std::vector<double>{0});
    ASSERT_GS_OK(gs_lm_factor_blocks(all.get(), 0, memory.data()));
    ASSERT_GS_OK(gs_lm_precondition(memory.data(), all.get(), all.get(), z.get(), sum.data()));
    const parameters x(z);
    double expected_sum = 0;
    for (int i = 0; i < 2; i++) {
        const double lost = i == 0 ? 0 : 0.25;
        const double shape[10] = {0.25, lost, 0.25, 0.25, lost, 0.25, lost, lost, 0.25, 0.25};
        const std::vector<block> of = blocks_of(x, i);
        for (size_t which = 0; which < BLOCKS; which++)
            for (size_t k = 0; k < of[which].columns.size(); k++) {
                const double expected = which == SHAPE ? shape[k] : lost;
                EXPECT_NEAR(x.mean[of[which].columns[k]], expected, 1e-6) << i << ' ' << which << ' ' << k;
                expected_sum += expected;
            }
    }
    EXPECT_NEAR(sum.read()[0], expected_sum, 1e-6);
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

    const std::vector<double> right = frame.backward(frame.slope.data());
    const auto times = [&](const std::vector<float> &along) {
        parameters p(frame.choice.count, frame.choice.sh_degree);
        std::copy(along.begin(), along.end(), p.mean);
        frame.forward(device_gaussians(p), true);
        return frame.backward(frame.change.data());
    };
    // In the norm in which the preconditioner sees them: parameters have units of their own.
    std::vector<double> got = doubles(solved(floats(right, -1), floats(diagonal), lambda, 150, times).x);
    for (size_t k = 0; k < got.size(); k++) {
        if (diagonal[k] == 0) {
            EXPECT_EQ(got[k], 0);
        }
        got[k] *= std::sqrt(diagonal[k]);
        expected[k] *= std::sqrt(diagonal[k]);
    }
    EXPECT_LE(relative_norm(got, expected), 1e-3);
}

} // namespace lm_tests
