// SPDX-License-Identifier: MIT
// splat finish, and splat train --finish lm, as their users run them.
#include "program_run.h"
#include <jansson.h>

namespace {

TEST_F(program, finishes_a_scene_by_levenberg_marquardt) {
    write_colmap(folder / "data", 40);
    const std::string data = (folder / "data").string(), scene = (folder / "scene.ply").string(),
                      finished = (folder / "finished.ply").string(), json = (folder / "lm.json").string();
    const outcome trained = splat({"train", data, "-o", scene, "--iterations", "20", "--sh-degree", "0",
                                   "--finish", "lm", "--lm-steps", "1", "--lm-pcg", "2"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_NE(trained.out.find("LM step    1"), std::string::npos) << trained.out;

    const outcome run = splat({"finish", scene, "--cameras", data, "-o", finished, "--lm-steps", "2",
                               "--lm-form", "cached", "--lm-memory", "0.01", "--json", json});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("held out"), std::string::npos) << run.out;
    EXPECT_TRUE(fs::exists(finished));
    json_t *record = json_load_file(json.c_str(), 0, NULL);
    ASSERT_TRUE(record);
    const json_t *steps = json_object_get(record, "steps");
    ASSERT_EQ(json_array_size(steps), 2u);
    for (size_t i = 0; i < 2; i++) {
        const json_t *step = json_array_get(steps, i);
        const double before = json_number_value(json_object_get(step, "before"));
        const double after = json_number_value(json_object_get(step, "after"));
        EXPECT_GT(before, 0);
        EXPECT_TRUE(after < before || !json_is_true(json_object_get(step, "kept")));
        EXPECT_LE(json_integer_value(json_object_get(step, "bytes")), 10737419);
    }
    json_decref(record);
}

TEST_F(program, finishing_says_what_it_lacks) {
    write_colmap(folder / "data", 40);
    const std::string data = (folder / "data").string(), scene = (folder / "scene.ply").string();
    const outcome trained = splat({"train", data, "-o", scene, "--iterations", "1", "--sh-degree", "0"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const struct {
        std::vector<std::string> arguments;
        int code;
        const char *text;
    } cases[] = {
        {{"finish", scene, "-o", scene}, 2, "--cameras"},
        {{"finish", scene, "--cameras", data}, 2, "-o"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--reduce", "block"}, 2, "block"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-steps", "0"}, 2, "lm-steps"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--holdout", "1"}, 1, "no view is left"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-memory", "0.00001"}, 1, "memory allowed"},
        {{"finish", data + "/none.ply", "--cameras", data, "-o", scene}, 1, "none.ply"},
        {{"train", data, "-o", scene, "--finish", "lm", "--antialias"}, 2, "--antialias"},
    };
    for (const auto &c : cases) {
        const outcome run = splat(c.arguments);
        EXPECT_EQ(run.code, c.code) << c.text;
        EXPECT_NE(run.err.find(c.text), std::string::npos) << c.text << ": " << run.err;
    }
}

} // namespace
