// SPDX-License-Identifier: MIT
// COLMAP scales scenes to about ten units, phones have metres: the unit of length decides nothing.
#include "program_run.h"

namespace train_units_test {

class Units : public Program {
  protected:
    double psnr_of(double unit, const std::vector<std::string> &more) const {
        write_colmap(at("data"), 60, unit);
        std::vector<std::string> all = {
            "train",         at("data"), "-o",         at("scene.ply"),  "--iterations",    "40",
            "--holdout",     "5",        "--schedule", "from=1,every=4", "--max-gaussians", "100",
            "--reproducible"};
        all.insert(all.end(), more.begin(), more.end());
        const outcome run = splat(all);
        EXPECT_EQ(run.code, 0) << run.err;
        const size_t found = run.out.find("held out   PSNR ");
        return found == std::string::npos ? NAN : std::stod(run.out.substr(found + 16));
    }
};

TEST_F(Units, OfLengthDecideNothing) {
    for (const std::vector<std::string> &way :
         {std::vector<std::string>{"--density", "split"}, std::vector<std::string>{"--density", "mcmc"}}) {
        const double psnr = psnr_of(1, way);
        for (double unit : {1.0 / 1024, 1024.0})
            EXPECT_NEAR(psnr_of(unit, way), psnr, 0.5) << way.back() << " " << unit;
    }
}

} // namespace train_units_test
