// SPDX-License-Identifier: MIT
// Bad input as it shows to who runs `dsplat`: exit code 1, one line that names the file, nothing written.
// The messages of the readers are the table of tests/gaussians/data/messages_test.cpp.
#include "program_run.h"
#include <csignal>
#include <functional>
#include <sys/resource.h>

namespace {

std::string transforms(const std::string &first, const std::string &rest = "") {
    return "{\"fl_x\":36,\"w\":40,\"h\":28,\"frames\":[{\"file_path\":\"" + first +
           "\",\"transform_matrix\":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}" + rest + "]}";
}

class BadInput : public Program {
  protected:
    // No file can grow past `bytes` while it lives, in this process and those it starts: a disk that is full.
    class small_disk {
        rlimit old_limit;
        void (*old_handler)(int);

      public:
        explicit small_disk(rlim_t bytes) : old_handler(std::signal(SIGXFSZ, SIG_IGN)) {
            getrlimit(RLIMIT_FSIZE, &old_limit);
            rlimit limit = {bytes, old_limit.rlim_max};
            setrlimit(RLIMIT_FSIZE, &limit);
        }
        ~small_disk() {
            setrlimit(RLIMIT_FSIZE, &old_limit);
            std::signal(SIGXFSZ, old_handler);
        }
    };

    void write(const char *name, const std::string &text) const {
        fs::create_directories((at("data") / name).parent_path());
        std::ofstream(at("data") / name, std::ios::binary) << text;
    }
    void as_text() const { // the model; the pictures stay
        fs::remove_all(at("data") / "sparse");
        write("sparse/cameras.txt", "1 PINHOLE 40 28 36 36 20 14\n");
        write("sparse/images.txt", "1 1 0 0 0 0 0 0 1 photo0.png\n\n2 1 0 0 0 1 0 0 1 photo1.png\n\n");
        write("sparse/points3D.txt", "1 0 0 3 9 9 9 0.1\n");
    }
    void as_transforms() const {
        fs::remove_all(at("data") / "sparse");
        write("transforms.json", transforms("images/photo0.png"));
    }
    void expect_refusal(const std::vector<std::string> &arguments, const std::vector<std::string> &parts,
                        size_t files) {
        outcome run = splat(arguments);
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
        {[&] { fs::remove_all(at("data")), std::ofstream(at("data")) << "x"; }, {"data: not a folder"}},
        {[&] { fs::remove_all(at("data") / "sparse"); },
         {"data: has photographs, but neither a COLMAP model nor a transforms.json", "dsplat poses "}},
        {[&] { fs::remove_all(at("data") / "sparse"), fs::remove_all(at("data") / "images"); },
         {"data: has neither a COLMAP model", "transforms.json"}},
        {[&] { cut("sparse/0/cameras.bin", 1); }, {"sparse/0/cameras.bin: truncated at byte"}},
        {[&] { write("sparse/0/images.bin", ""); }, {"sparse/0/images.bin: truncated at byte 0"}},
        {[&] { fs::remove(at("data") / "sparse/0/images.bin"); }, {"sparse/0/images.bin: cannot open"}},
        {[&] { write("sparse/0/points3D.bin", std::string(8, '\xff')); },
         {"sparse/0/points3D.bin: truncated or damaged: 18446744073709551615 points announced"}},
        {[&] { fs::remove_all(at("data") / "images"); },
         {"sparse/0/images.bin: none of the pictures of its 5 views exists, the first being 'photo0.png'"}},
        {[&] { cut("images/photo3.png", 20); }, {"images/photo3.png: truncated at byte"}},
        {[&] { write("images/photo3.png", "not a picture"); }, {"images/photo3.png: neither PNG nor JPEG"}},
        {[&] { as_text(), cut("sparse/cameras.txt", 4); },
         {"sparse/cameras.txt: at line 1: expected a camera's parameter, not ''"}},
        {[&] { as_text(), write("sparse/cameras.txt", "1 PINHOLE 40 28 36 nan 20 14\n"); },
         {"sparse/cameras.txt: at line 1: camera 1 has focal lengths 36, nan"}},
        {[&] { as_text(), write("sparse/images.txt", "1 0 0 0 0 0 0 0 1 photo0.png\n\n"); },
         {"sparse/images.txt: at line 1: image 'photo0.png' has the quaternion 0, 0, 0, 0"}},
        {[&] { as_text(), write("sparse/points3D.txt", "1 0 0 3 9 9 999 0.1\n"); },
         {"sparse/points3D.txt: at line 1: expected a point's colour"}},
        {[&] { as_transforms(), cut("transforms.json", 1); }, {"transforms.json: at line 1, column "}},
        {[&] { as_transforms(), write("transforms.json", transforms("images/none.png")); },
         {"transforms.json: none of the pictures of its 1 views exists", "images/none.png"}},
        {[&] { as_transforms(), write("transforms.json", transforms("../secret.png")); },
         {"transforms.json: frames[0].file_path: '../secret.png' is empty or leaves"}},
        {[&] { as_transforms(), write("transforms.json", transforms("images/photo0.png", ",{}")); },
         {"transforms.json: frames[1].file_path: is missing"}},
        {[&] { as_transforms(), write("transforms_train.json", ""); }, {"transforms_train.json: at line 1"}},
        {[&] {
             as_transforms();
             write("transforms.json",
                   "{\"ply_file_path\":\"cloud.ply\"," + transforms("images/photo0.png").substr(1));
         },
         {"transforms.json: ply_file_path: ", "cloud.ply: cannot open"}},
    };
    for (const auto &row : rows) {
        fs::remove_all(at("data"));
        write_colmap(at("data"), 5);
        row.damage();
        expect_refusal({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1"}, row.parts,
                       fs::exists(at("data")));
    }
    // The undamaged: so the rows fail for their damage.
    for (const auto &make : {std::function<void()>([] {}), std::function<void()>([&] { as_text(); }),
                             std::function<void()>([&] { as_transforms(); })}) {
        fs::remove_all(at("data"));
        write_colmap(at("data"), 5);
        make();
        outcome run = dsplat("train @data -o @scene.ply --iterations 1 --random 9 --holdout 0");
        EXPECT_EQ(run.code, 0) << run.err;
        EXPECT_CONTAINS(run.out, "9 Gaussians");
        fs::remove(at("scene.ply"));
    }
}

// By every option that names a file to write, and for every kind of file that is read.
TEST_F(BadInput, DataIsNotOverwritten) {
    write_colmap(at("data"), 5);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    const std::string data = at("data"), scene = at("scene.ply"), photo = data + "/images/photo1.png",
                      model = data + "/sparse/0/images.bin", transforms = data + "/transforms.json";
    const std::vector<std::string> train = {"train", data, "--iterations", "1", "--random", "9"},
                                   finish = {"finish", scene, "--cameras", data},
                                   eval = {"eval", scene, "--cameras", data, "--downscale", "4"},
                                   render = {"render", scene, "--cameras", data};
    const auto spares = [&](const std::string &file, std::vector<std::string> arguments,
                            const std::vector<std::string> &more) {
        const std::string before = contents(file);
        ASSERT_NE(before, "");
        arguments.insert(arguments.end(), more.begin(), more.end());
        expect_refusal(arguments, {file + ": cannot write: is one of the files of the data"}, 2);
        EXPECT_TRUE(contents(file) == before) << file;
    };
    // A scene's name ends in .ply, so only a link can lead to a file of the data.
    const auto spares_behind_link = [&](const std::string &file, std::vector<std::string> arguments,
                                        const std::vector<std::string> &more) {
        const std::string before = contents(file), link = at("link.ply");
        ASSERT_NE(before, "");
        arguments.insert(arguments.end(), more.begin(), more.end());
        std::vector<std::string> direct = arguments;
        direct.insert(direct.end(), {"-o", file});
        expect_refusal(direct, {file + ": not a known format of scenes"}, 2);
        fs::create_hard_link(file, link);
        arguments.insert(arguments.end(), {"-o", link});
        expect_refusal(arguments, {link + ": cannot write: is one of the files of the data"}, 3);
        EXPECT_TRUE(contents(file) == before) << file;
        EXPECT_TRUE(contents(link) == before) << file;
        fs::remove(link);
    };
    for (const std::string &file :
         {photo, model, data + "/sparse/0/cameras.bin", data + "/sparse/0/points3D.bin"})
        spares_behind_link(file, train, {});
    spares(photo, train, {"-o", at("new.ply"), "--log", photo});
    spares(model, train, {"-o", at("new.ply"), "--write-cameras", model});
    spares_behind_link(photo, finish, {});
    spares(photo, finish, {"-o", at("new.ply"), "--json", photo});
    spares(model, finish, {"-o", at("new.ply"), "--log", model});
    spares(model, eval, {"--json", model});
    spares(photo, eval, {"--json", photo});
    spares(photo, render, {"-o", photo});
    as_transforms();
    spares_behind_link(transforms, train, {"--holdout", "0"});
    spares_behind_link(data + "/images/photo0.png", train, {"--holdout", "0"});
    // What is no part of the data may be in its folder.
    const outcome beside = dsplat("eval "s + scene + " --cameras " + data + " --json " + photo);
    EXPECT_EQ(beside.code, 0) << beside.err;
}

TEST_F(BadInput, RandomStartsTakeTheSeed) {
    write_colmap(at("data"), 5);
    as_transforms();
    double losses[3]; // of the first view, before any training
    const char *const seeds[3] = {"1", "1", "2"};
    for (int i = 0; i < 3; i++) {
        outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1", "--random", "9",
                             "--holdout", "0", "--seed", seeds[i]});
        ASSERT_EQ(run.code, 0) << run.err;
        losses[i] = change(run.out, "loss")[0];
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_GT(std::abs(losses[0] - losses[2]), 0);
}

TEST_F(BadInput, MissingPicturesOfTransformsAreCountedOnce) {
    write_colmap(at("data"), 5);
    as_transforms();
    const std::string pose = "\",\"transform_matrix\":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}";
    write("transforms.json", transforms("images/photo0.png",
                                        ",{\"file_path\":\"x.png" + pose + ",{\"file_path\":\"y.png" + pose));
    outcome run = splat(
        {"train", at("data"), "-o", at("scene.ply"), "--iterations", "1", "--random", "9", "--holdout", "0"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.err, "dsplat: " + at("data").string() +
                           ": 2 of 3 views have no picture and are skipped (the first: 'x.png')\n");
    EXPECT_CONTAINS(run.out, "1 view to train on");
}

TEST_F(BadInput, AFullDiskLeavesTheOldFile) {
    write_colmap(at("data"), 100);
    write_scene(at("in.ply"), 1, 0, 0, 3);
    std::ofstream(at("scene.ply")) << "old";
    std::ofstream(at("scene.png")) << "old";
    small_disk disk(1500);
    expect_refusal({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1"},
                   {"scene.ply: cannot write: "}, 4);
    expect_refusal({"render", at("in.ply"), "-o", at("scene.png")}, {"scene.png: cannot write: "}, 4);
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
