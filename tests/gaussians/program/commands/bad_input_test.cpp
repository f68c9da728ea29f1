// SPDX-License-Identifier: MIT
// Bad input and wrong lines as they show to who runs `dsplat`: exit code, one line that names the file or the option,
// nothing written. The messages of the readers are the table of tests/gaussians/data/messages_test.cpp.
#include "program_run.h"
#include <functional>

namespace {

class BadInput : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        write_colmap(at("data"), 5);
        write_scene(at("scene.ply"), 1, 0, 0, 3);
    }
    void expect_refusal(const std::string &line, const std::string &part) const {
        const size_t files = files_in_folder();
        const outcome run = dsplat(line);
        EXPECT_EQ(run.code, 1) << line;
        EXPECT_EQ(run.out.find("\nscene "), std::string::npos) << run.out;
        EXPECT_EQ(run.err.rfind("dsplat: ", 0), 0u) << run.err;
        EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
        EXPECT_CONTAINS(run.err, part);
        EXPECT_EQ(files_in_folder(), files) << "something was left behind";
    }
    // The same, and the file stays as it is.
    void expect_kept(const fs::path &file, const std::string &line, const std::string &part) const {
        const std::string before = contents(file);
        ASSERT_NE(before, "");
        expect_refusal(line, part);
        EXPECT_TRUE(contents(file) == before) << file;
    }
};

TEST_F(BadInput, OfEveryKindOfDataIsRefusedByName) {
    const auto cut = [&](const char *name, uintmax_t bytes) {
        const fs::path path = at("data") / name;
        fs::resize_file(path, fs::file_size(path) - bytes);
    };
    const std::pair<std::function<void()>, const char *> rows[] = {
        {[&] { fs::remove_all(at("data")); }, "data: cannot open"},
        {[&] { fs::remove_all(at("data") / "sparse"); },
         "data: has photographs, but neither a COLMAP model nor a transforms.json; `dsplat poses "},
        {[&] { cut("sparse/0/cameras.txt", 9); }, "sparse/0/cameras.txt: at line 1: "},
        {[&] { fs::remove_all(at("data") / "images"); },
         "sparse/0/images.txt: none of the pictures of its 5 views exists, the first being 'photo0.png'"},
        {[&] { cut("images/photo3.png", 20); }, "images/photo3.png: truncated at byte"},
        {[&] { as_transforms(at("data"), "photo0.png"), cut("transforms.json", 1); },
         "transforms.json: at line 1, column "},
        // The undamaged: so the rows fail for their damage.
        {[] {}, nullptr},
        {[&] { as_transforms(at("data"), "photo0.png"); }, nullptr}};
    for (const auto &[damage, part] : rows) {
        fs::remove_all(at("data"));
        write_colmap(at("data"), 5);
        damage();
        if (part) expect_refusal("train @data -o @new.ply --iterations 1", part);
        if (!part)
            says({{"train @data -o @new.ply --iterations 1 --random 9 --holdout 0", 0, {"9 Gaussians"}}});
    }
}

// By every option that names a file to write, and for every kind of file that is read.
TEST_F(BadInput, DataIsNotOverwritten) {
    const std::string photo = "images/photo1.png", model = "sparse/0/images.txt",
                      is_data = ": cannot write: is one of the files of the data",
                      train = "train @data --iterations 1 --random 9 --holdout 0",
                      finish = "finish @scene.ply --cameras @data",
                      eval = "eval @scene.ply --cameras @data --downscale 4 --json";
    const std::pair<std::string, std::string> rows[] = {{train + " -o @new.ply --log", photo},
                                                        {train + " -o @new.ply --write-cameras", model},
                                                        {finish + " -o @new.ply --json", photo},
                                                        {finish + " -o @new.ply --log", model},
                                                        {eval, model},
                                                        {eval, photo},
                                                        {"render @scene.ply --cameras @data -o", photo},
                                                        {"export @scene.ply --cameras @data -o", photo}};
    for (const auto &[line, file] : rows)
        expect_kept(at("data") / file, line + " @data/" + file, file + is_data);
    // A scene's name ends in .ply, so only a link can lead to a file of the data.
    const auto spares_behind_link = [&](const std::string &line, const std::string &file) {
        expect_kept(at("data") / file, line + " -o @data/" + file, file + ": not a known format of scenes");
        fs::create_hard_link(at("data") / file, at("link.ply"));
        expect_kept(at("data") / file, line + " -o @link.ply", "link.ply" + is_data);
        EXPECT_TRUE(contents(at("link.ply")) == contents(at("data") / file)) << file;
        fs::remove(at("link.ply"));
    };
    for (const std::string &file : {photo, model, "sparse/0/cameras.txt"s, "sparse/0/points3D.txt"s})
        spares_behind_link(train, file);
    spares_behind_link(finish, photo);
    as_transforms(at("data"), "photo0.png");
    for (const char *file : {"transforms.json", "images/photo0.png"}) spares_behind_link(train, file);
    // What is no part of the data may be in its folder.
    done("eval @scene.ply --cameras @data --json @data/" + photo);
}

TEST_F(BadInput, AFullDiskLeavesTheOldFile) {
    write_colmap(at("data"), 100);
    for (const char *name : {"new.ply", "new.png", "new.html"}) std::ofstream(at(name)) << "old";
    const std::tuple<const char *, const char *, rlim_t> rows[] = {
        {"train @data --iterations 1 -o @new.ply", "new.ply", 1500},
        {"render @scene.ply -o @new.png", "new.png", 1500},
        {"export @scene.ply -o @new.html", "new.html", 20000}}; // less than the page without a scene
    for (const auto &[line, name, bytes] : rows) {
        const small_disk disk(bytes);
        expect_kept(at(name), line, std::string(name) + ": cannot write: ");
    }
}

TEST_F(BadInput, AFullDiskBehindStdoutIsAFailure) {
    for (const std::string &arguments : {"info " + at("scene.ply").string(), std::string("--help")}) {
        const std::string err = at("err").string();
        const int status =
            std::system((std::string(DSPLAT_PROGRAM) + " " + arguments + " >/dev/full 2>" + err).c_str());
        EXPECT_EQ(WEXITSTATUS(status), 1);
        EXPECT_EQ(contents(err), "dsplat: cannot write to stdout: No space left on device\n");
    }
}

TEST_F(BadInput, WrongOptionsAndPlacesAreNamed) {
    std::ofstream(at("file")) << "old";
    fs::create_directories(at("folder") / "frame_00001.png"); // in the way of the second frame
    const std::string convert = "convert @scene.ply @new.ply --", page = "export @scene.ply -o @file --",
                      flight = "render @scene.ply --path orbit -o @", frames = flight + "new --cameras @data",
                      eval = "eval @scene.ply --cameras ";
    refuses({{"convert @scene.ply", 2, "SCENE"},
             {convert + "crop 1,2,3", 2, "--crop '1,2,3'"},
             {convert + "crop 1,0,0,0,1,1", 2, "the least corner first"},
             {convert + "transform 0", 2, "--transform '0'"},
             {convert + "transform 1,2", 2, "--transform '1,2'"},
             {convert + "transform 1,0,0,0,0,2,0,0,0,0,1,0", 2, "--transform"},
             {convert + "transform nan", 2, "--transform 'nan'"},
             {convert + "prune 1", 2, "--prune"},
             {convert + "spz-version 1", 2, "--spz-version"},
             {convert + "cameras x", 2, "--cameras is for --check"},
             {"convert @scene.ply @new.splat", 1, ".splat files are only read"},
             {"convert @scene.ply @new.obj", 1, "not a known format of scenes"},
             {"convert @no.spz @new.ply", 1, "no.spz: cannot open"},
             {"convert @scene.ply @none/new.spz", 1, "none/new.spz: cannot write"},
             {"export @scene.ply", 2, "-o is missing"},
             {"export @scene.ply -o @scene.ply", 2, "name one file"},
             {page + "most 0", 2, "most"},
             {"export @none.ply -o @file", 1, "none.ply"},
             {"export @scene.ply -o @none/page.html", 1, "none/page.html: cannot write"},
             {page + "cameras @none", 1, "none"},
             {page + "background red", 1, "'red' is not a colour"},
             {flight + "new", 2, "--cameras"},
             {frames + " --frames 0", 2, "--frames"},
             {frames + " --photo", 2, "--photo"},
             {frames + " --path loop", 2, "--path"},
             {flight + "new --cameras @nowhere", 1, "nowhere"},
             {frames + " --view 9", 1, "there is no view"},
             {flight + "file --cameras @data", 1, "file"},
             {flight + "folder --cameras @data --frames 3", 1, "frame_00001.png: cannot write"},
             {eval + "@data --holdout 0", 1, "no view is held out"},
             {eval + "@nowhere", 1, "nowhere"},
             {eval + "@data --pictures @no/such", 1, "no/such"},
             {"generate", 2, "an argument is missing"},
             {"generate @new --views 0", 2, "--views must be"}});
    EXPECT_EQ(contents(at("file")), "old");
}

} // namespace
