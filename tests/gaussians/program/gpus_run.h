// SPDX-License-Identifier: MIT
// Runs of splat train --gpus.
#ifndef GPUS_RUN_H
#define GPUS_RUN_H

#include "program_run.h"

class OnGpus : public Program {
  protected:
    std::vector<std::string> train(const char *output, int gpus,
                                   const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"train",        at("data").string(),
                                              "-o",           at(output).string(),
                                              "--gpus",       std::to_string(gpus),
                                              "--iterations", "12",
                                              "--holdout",    "5",
                                              "--seed",       "7"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    std::string scene_of(int gpus, const std::vector<std::string> &more) const {
        const outcome got = run(SPLAT_PROGRAM, train("scene.ply", gpus, more));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_NE(got.out.find("scene "), std::string::npos) << got.out;
        return contents(at("scene.ply"));
    }
};

// With a view a step, an average from step 10. Growth from 40 to 60: by relocation, noise, penalties; by splits, with corrected colours.
inline const std::vector<std::string> growth = {"--max-gaussians",
                                                "60",
                                                "--density-from",
                                                "1",
                                                "--density-every",
                                                "4",
                                                "--growth",
                                                "0.2",
                                                "--random",
                                                "40",
                                                "--reproducible",
                                                "--average",
                                                "1",
                                                "--density-until",
                                                "9"};
inline std::vector<std::string> with(std::vector<std::string> options, const std::vector<std::string> &more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
}
inline const std::vector<std::string> growing = with(growth, {"--density", "mcmc"});
inline const std::vector<std::string> splitting = with(growth, {"--density", "split", "--exposure"});

#endif
