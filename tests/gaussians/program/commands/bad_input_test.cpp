// SPDX-License-Identifier: MIT
// Bad input as it shows to who runs `dsplat`: exit code 1, one line that names the file, nothing written. The messages of the readers are the table of tests/gaussians/data/messages_test.cpp.
#include "program_run.h"
#include <functional>

namespace {

class BadInput : public Program {
  protected:
    void write(const char *name, const std::string &text) const {
        fs::create_directories((at("data") / name).parent_path());
        std::ofstream(at("data") / name, std::ios::binary) << text;
    }
    void as_transforms() const {
        fs::remove_all(at("data") / "sparse");
        write("transforms.json", R"({"fl_x":36,"w":40,"h":28,"frames":[{"file_path":"images/photo0.png",)"
                                 R"("transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})");
    }
    void expect_refusal(const std::string &line, const std::vector<std::string> &parts, size_t files) {
        const outcome run = dsplat(line);
        EXPECT_EQ(run.code, 1) << parts[0];
        EXPECT_TRUE(run.out.empty() || run.out.find("\nscene ") == std::string::npos) << run.out;
        EXPECT_EQ(run.err.rfind("dsplat: ", 0), 0u) << run.err;
        EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
        for (const std::string &part : parts) EXPECT_CONTAINS(run.err, part);
        EXPECT_EQ(files_in_folder(), files) << "something was left behind";
    }
};

TEST_F(BadInput, OfEveryKindOfDataIsRefusedByName) {
    const auto cut = [&](const char *name, uintmax_t bytes) {
        const fs::path path = at("data") / name;
        fs::resize_file(path, fs::file_size(path) - bytes);
    };
    const struct {
        std::function<void()> damage;
        std::vector<std::string> parts;
    } rows[] = {
        {[&] { fs::remove_all(at("data")); }, {"data: cannot open"}},
        {[&] { fs::remove_all(at("data") / "sparse"); },
         {"data: has photographs, but neither a COLMAP model nor a transforms.json", "dsplat poses "}},
        {[&] { cut("sparse/0/cameras.bin", 9); }, {"sparse/0/cameras.bin: truncated at byte"}},
        {[&] { fs::remove_all(at("data") / "images"); },
         {"sparse/0/images.bin: none of the pictures of its 5 views exists, the first being 'photo0.png'"}},
        {[&] { cut("images/photo3.png", 20); }, {"images/photo3.png: truncated at byte"}},
        {[&] { as_transforms(), cut("transforms.json", 1); }, {"transforms.json: at line 1, column "}},
    };
    for (const auto &row : rows) {
        fs::remove_all(at("data"));
        write_colmap(at("data"), 5);
        row.damage();
        expect_refusal("train @data -o @scene.ply --iterations 1", row.parts, fs::exists(at("data")));
    }
    // The undamaged: so the rows fail for their damage.
    for (const auto &make : {std::function<void()>([] {}), std::function<void()>([&] { as_transforms(); })}) {
        fs::remove_all(at("data"));
        write_colmap(at("data"), 5);
        make();
        EXPECT_CONTAINS(done("train @data -o @scene.ply --iterations 1 --random 9 --holdout 0").out,
                        "9 Gaussians");
        fs::remove(at("scene.ply"));
    }
}

// By every option that names a file to write, and for every kind of file that is read.
TEST_F(BadInput, DataIsNotOverwritten) {
    write_colmap(at("data"), 5);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    const std::string photo = "images/photo1.png", model = "sparse/0/images.bin",
                      points = "sparse/0/points3D.bin",
                      is_data = ": cannot write: is one of the files of the data",
                      train = "train @data --iterations 1 --random 9",
                      finish = "finish @scene.ply --cameras @data",
                      eval = "eval @scene.ply --cameras @data --downscale 4 --json";
    const std::pair<std::string, std::string> rows[] = {{train + " -o @new.ply --log", photo},
                                                        {train + " -o @new.ply --write-cameras", model},
                                                        {finish + " -o @new.ply --json", photo},
                                                        {finish + " -o @new.ply --log", model},
                                                        {eval, model},
                                                        {eval, photo},
                                                        {"render @scene.ply --cameras @data -o", photo}};
    for (const auto &[line, file] : rows) {
        const std::string before = contents(at("data") / file);
        ASSERT_NE(before, "");
        expect_refusal(line + " @data/" + file, {file + is_data}, 2);
        EXPECT_TRUE(contents(at("data") / file) == before) << file;
    }
    // A scene's name ends in .ply, so only a link can lead to a file of the data.
    const auto spares_behind_link = [&](const std::string &line, const std::string &file) {
        const fs::path of_data = at("data") / file, link = at("link.ply");
        const std::string before = contents(of_data);
        ASSERT_NE(before, "");
        expect_refusal(line + " -o @data/" + file, {file + ": not a known format of scenes"}, 2);
        fs::create_hard_link(of_data, link);
        expect_refusal(line + " -o @link.ply", {"link.ply" + is_data}, 3);
        EXPECT_TRUE(contents(of_data) == before) << file;
        EXPECT_TRUE(contents(link) == before) << file;
        fs::remove(link);
    };
    for (const std::string &file : {photo, model, "sparse/0/cameras.bin"s, points})
        spares_behind_link(train, file);
    spares_behind_link(finish, photo);
    as_transforms();
    for (const char *file : {"transforms.json", "images/photo0.png"})
        spares_behind_link(train + " --holdout 0", file);
    // What is no part of the data may be in its folder.
    done("eval @scene.ply --cameras @data --json @data/" + photo);
}

TEST_F(BadInput, AFullDiskLeavesTheOldFile) {
    write_colmap(at("data"), 100);
    write_scene(at("in.ply"), 1, 0, 0, 3);
    std::ofstream(at("scene.ply")) << "old";
    std::ofstream(at("scene.png")) << "old";
    const small_disk disk(1500);
    expect_refusal("train @data -o @scene.ply --iterations 1", {"scene.ply: cannot write: "}, 4);
    expect_refusal("render @in.ply -o @scene.png", {"scene.png: cannot write: "}, 4);
    EXPECT_EQ(contents(at("scene.ply")), "old");
    EXPECT_EQ(contents(at("scene.png")), "old");
}

TEST_F(BadInput, AFullDiskBehindStdoutIsAFailure) {
    write_scene(at("in.ply"), 1, 0, 0, 3);
    for (const std::string &arguments : {"info " + at("in.ply").string(), std::string("--help")}) {
        const std::string err = at("err").string();
        const int status =
            std::system((std::string(DSPLAT_PROGRAM) + " " + arguments + " >/dev/full 2>" + err).c_str());
        EXPECT_EQ(WEXITSTATUS(status), 1);
        EXPECT_EQ(contents(err), "dsplat: cannot write to stdout: No space left on device\n");
    }
}

} // namespace
