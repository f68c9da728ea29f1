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

class ScenePieces : public Program {
  protected:
    host_scene scene{101, 1};
    fault why = {};

    ScenePieces() {
        for (int64_t i = 0; i < 3 * scene.count; i++) scene.mean[i] = float(i);
        for (int64_t i = 0; i < 12 * scene.count; i++) scene.sh[i] = float(i) / 7;
        for (int64_t i = 0; i < scene.count; i++) scene.opacity_logit[i] = float(i) - 50;
        scene.mean[3 * 40] = NAN, scene.sh[12 * 41 + 11] = INFINITY, scene.opacity_logit[100] = NAN;
        scene.antialias = 1;
    }
};

TEST_F(ScenePieces, IsTheFileOfOneRankWhateverThePieces) {
    writing all = {&scene, at("ranks.ply").string(), 0, 0, 0, false};
    std::vector<std::string> files;
    for (const int count : {1, 2, 3, 4})
        for (const int64_t piece : {1, 7, 1000}) {
            ranks_plan plan = {};
            plan.count = count;
            all.piece = piece, all.whole = piece == 7;
            ASSERT_TRUE(ranks_run(&plan, write_as_rank, &all, &why)) << why.text;
            EXPECT_EQ(all.written, 98);
            EXPECT_EQ(all.dropped, 3);
            files.push_back(contents(at("ranks.ply")));
            fs::remove(at("ranks.ply"));
        }
    ASSERT_EQ(gaussians_keep_finite(&scene), 3);
    scene.write(at("one.ply"));
    for (const std::string &file : files) EXPECT_TRUE(file == contents(at("one.ply")));
}

TEST_F(ScenePieces, ThatCannotBeWrittenIsAFailureOfAllRanks) {
    writing all = {&scene, (folder / "no/such/folder.ply").string(), 10, 0, 0, false};
    ranks_plan plan = {};
    plan.count = 3;
    EXPECT_FALSE(ranks_run(&plan, write_as_rank, &all, &why));
    EXPECT_NE(std::string(why.text).find("rank 0: " + all.path + ": cannot write"), std::string::npos)
        << why.text;
}

} // namespace
