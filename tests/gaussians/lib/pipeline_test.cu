// SPDX-License-Identifier: MIT
// From stored parameters to the loss and back, all stages chained, against the reference with decisions
// replayed.
#include "pipeline_errors.h"

namespace {

class Pipeline : public testing::TestWithParam<scene_choice> {};

TEST_P(Pipeline, GradientsAgreeWithTheReference) {
    for (const group_error &error : pipeline_errors(GetParam(), {DISTWAR_BFLY, 8})) {
        const std::string what = error.what;
        const bool of_values = what == "image" || what == "loss" || what == "L1" || what == "SSIM";
        EXPECT_LE(error.value, of_values ? 1e-5 : what == "values that should be 0" ? 0 : 1e-4) << what;
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Pipeline, testing::ValuesIn(comparison_scenes()));
INSTANTIATE_TEST_SUITE_P(Given, Pipeline, testing::ValuesIn(scenes_with_given_inputs()));

} // namespace
