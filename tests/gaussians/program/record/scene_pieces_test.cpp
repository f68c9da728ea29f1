// SPDX-License-Identifier: MIT
// A scene written by several ranks in pieces is the file that one rank writes.
#include "record/scene_pieces.h"
#include "program_run.h"
#include "ways.h"

namespace {

struct writing {
    const gs_gaussians *scene;
    std::string path;
    int64_t piece, written, dropped;
    bool whole; // on each rank
};

bool write_as_rank(ranks *group, void *context) {
    writing *const w = static_cast<writing *>(context);
    training_state state = {};
    const training_place place = {group, ranks_count(group) == 1 ? nullptr
                                         : w->whole              ? &whole_way
                                                                 : &parts_way};
    EXPECT_TRUE(training_state_open_on(&state, &place, w->scene));
    fault why;
    int64_t written = 0, dropped = 0;
    const bool done =
        scene_pieces_write(w->path.c_str(), &state, w->piece, nullptr, &written, &dropped, &why);
    if (ranks_own(group) == 0) w->written = written, w->dropped = dropped;
    training_state_close(&state);
    return done;
}

TEST_F(Program, RanksWriteTheSceneInPieces) {
    host_scene scene{101, 1};
    for (int64_t i = 0; i < 3 * scene.count; i++) scene.mean[i] = float(i);
    for (int64_t i = 0; i < 12 * scene.count; i++) scene.sh[i] = float(i) / 7;
    for (int64_t i = 0; i < scene.count; i++) scene.opacity_logit[i] = float(i) - 50;
    scene.mean[3 * 40] = NAN, scene.sh[12 * 41 + 11] = INFINITY, scene.opacity_logit[100] = NAN;
    scene.antialias = 1;
    fault why;
    const auto write_on = [&](int count, writing *all) {
        ranks_plan plan = {};
        plan.count = count;
        return ranks_run(&plan, write_as_rank, all, &why);
    };
    std::vector<std::string> files;
    for (const int count : {1, 2, 3, 4})
        for (const int64_t piece : {1, 7, 1000}) {
            writing all = {&scene, at("ranks.ply").string(), piece, 0, 0, piece == 7};
            ASSERT_TRUE(write_on(count, &all)) << why.text;
            EXPECT_EQ(all.written, 98);
            EXPECT_EQ(all.dropped, 3);
            files.push_back(contents(at("ranks.ply")));
            fs::remove(at("ranks.ply"));
        }
    writing nowhere = {&scene, at("no/such/folder.ply").string(), 10, 0, 0, false};
    EXPECT_FALSE(write_on(3, &nowhere)); // a failure of all ranks
    EXPECT_CONTAINS(why.text, "rank 0: " + nowhere.path + ": cannot write");
    ASSERT_EQ(gaussians_keep_finite(&scene), 3);
    scene.write(at("one.ply"));
    for (const std::string &file : files) EXPECT_TRUE(file == contents(at("one.ply")));
}

} // namespace
