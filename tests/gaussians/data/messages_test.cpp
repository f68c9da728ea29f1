// SPDX-License-Identifier: MIT
// The messages of the readers. Each row makes its input of a good one, and has the whole text: FOLDER stands for the
// path of the folder, "..." for any text, ' for " in JSON. A row that begins with "warning: " is read, with that said.
#include "data_folder.h"
#include <fnmatch.h>

namespace messages_test {

// What several of them have.
const std::string cameras_bin = "FOLDER/sparse/0/cameras.bin: ", images_bin = "FOLDER/sparse/0/images.bin: ",
                  points_bin = "FOLDER/sparse/0/points3D.bin: ",
                  far_focal = "; a focal length must be finite and above 0, an angle between 0 and pi",
                  lenses = "SIMPLE_PINHOLE, ... FISHEYE can: `colmap image_undistorter` makes PINHOLE of any";

class Messages : public Data {
  public:
    using edit = std::function<void()>;

    void SetUp() override {
        const std::string path = folder / "a.sog";
        scene_in_memory five;
        fill_randomly(&five, 5, 1, 1);
        five.antialias = 1;
        ASSERT_TRUE(scene_write(path.c_str(), &five, &why)) << why.text;
        good_archive = files_of(read_bytes(path));
    }

    // A row of the table: what makes the input, and what is said. The path is put before a message without a whole one.
    void row(const edit &make, std::string message, const std::string &path = "") {
        const bool warns = message.rfind("warning: ", 0) == 0;
        bool done;
        if (warns)
            message = "dsplat: " + message.substr(9) + "\n";
        else if (!path.empty() && message.rfind("FOLDER", 0) != 0)
            message = "FOLDER/" + path + ": " + message;
        for (size_t at; (at = message.find("FOLDER")) != message.npos;) message.replace(at, 6, folder.path);
        std::filesystem::remove_all(folder.path);
        cameras = cameras_of, images = images_of, points = points_of, scene_path = "";
        options = options_of(1), options.with_tracks = true;
        make();
        testing::internal::CaptureStderr();
        if (scene_path.empty()) {
            done = dataset_load(folder.path.c_str(), &options, &got, &why);
            EXPECT_TRUE(done || (!got.views && !got.points)) << why.text;
            if (done && std::filesystem::exists(folder / "depth"))
                done = depth_maps_load(&got, (folder / "depth").c_str(), &options, DEPTH_MAPS_ALL, &why);
            dataset_close(&got);
        } else {
            scene_in_memory scene;
            done = scene_read(scene_path.c_str(), SCENE_FINITE, &scene, &why);
            EXPECT_TRUE(done || !scene.mean) << why.text;
        }
        const std::string warning = testing::internal::GetCapturedStderr(), text = done ? warning : why.text;
        EXPECT_TRUE(done == warns && is(text, message)) << "  " << message << "\nis\n  " << text;
    }
    // Whether the text is as the pattern has it.
    static bool is(const std::string &text, const std::string &pattern) {
        std::string glob;
        for (size_t at = 0; at < pattern.size(); at++) {
            const bool any = pattern.compare(at, 3, "...") == 0;
            glob += any ? "*" : std::string("\\") + pattern[at];
            at += any ? 2 : 0;
        }
        return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
    }

    // ---- what makes the input

    // A binary model, after an edit of its cameras, images and points.
    void model(const edit &change, const std::string &message) {
        row([&] { change(), write_all(); }, message);
    }
    // The same of camera 1, of image 'b.png' and of the point.
    void camera(const std::function<void(ColmapCamera &)> &change, const std::string &message) {
        model([&] { change(cameras[0]); }, cameras_bin + "at byte 8: camera 1 has " + message);
    }
    void pictured(const std::function<void(ColmapImage &)> &change, const std::string &message) {
        model([&] { change(images[0]); }, images_bin + "at byte 8: image " + message);
    }
    void point(const std::function<void(ColmapPoint &)> &change, const std::string &message) {
        model([&] { change(points[0]); }, points_bin + "at byte 8: point number 0 is at " + message);
    }
    // A model, then an edit of the folder.
    void after(const edit &change, const std::string &message, const std::string &path = "") {
        row([&] { write_all(), change(); }, message, path);
    }
    // Other files in place of the model, one after another. The last is the message's.
    void instead(const std::vector<std::pair<std::string, std::string>> &all, const std::string &message) {
        after(
            [&] {
                gone("sparse");
                for (const auto &[name, bytes] : all) write_bytes(folder / name, bytes);
            },
            message, all.back().first);
    }
    // The parts of a text, without the spaces around them.
    static texts split(const std::string &text, char by) {
        std::istringstream parts(text + by);
        texts out;
        for (std::string part; std::getline(parts, part, by); out.push_back(part)) {
            part.erase(part.find_last_not_of(' ') + 1);
            part.erase(0, part.find_first_not_of(' '));
        }
        return out;
    }
    // Rows of a table, each for a function: FIRST | SECOND | MESSAGE, or several seconds, divided by " ; ". ~ ends a
    // line; what is further right goes on.
    void table(void (Messages::*add_row)(std::string, std::string, std::string), std::string rows_of) {
        const std::string further = "\n" + std::string(12, ' ');
        for (size_t at; (at = rows_of.find(further)) != rows_of.npos;) rows_of.replace(at, 13, " ");
        for (std::string line : split(rows_of, '\n')) {
            std::replace(line.begin(), line.end(), '~', '\n');
            if (line.empty()) continue;
            const texts parts = split(line, '|');
            ASSERT_EQ(parts.size(), 3u) << line;
            for (const std::string &second : split(parts[1], ';'))
                (this->*add_row)(parts[0], second, parts[2]);
        }
    }
    // A model of text, one file of which is replaced.
    void text(std::string name, std::string bytes, std::string message) {
        instead({{"sparse/cameras.txt", "2 PINHOLE 7 5 10 11 4 3\n"},
                 {"sparse/images.txt", "1 1 0 0 0 0 0 0 2 a.png\n\n"},
                 {"sparse/" + name + ".txt", bytes + "\n"}},
                message);
    }
    void whole(const std::string &bytes, const std::string &message) {
        instead({{"transforms.json", bytes}}, message);
    }
    // A good one with a text in place of another.
    void json(std::string from, std::string to, std::string message) { whole(with(good, from, to), message); }
    // One whose second frame is another, or has another pose.
    void second(std::string other, std::string pose, std::string message) {
        whole(
            replaced(good, frame("images/b.png"), pose.empty() ? quoted(other) : frame(other, quoted(pose))),
            message);
    }
    // Points that the document names.
    void cloud(const std::string &bytes, const std::string &message) {
        instead({{"cloud.ply", bytes}, {"transforms.json", with(good, "{", "{'ply_file_path':'cloud.ply',")}},
                "ply_file_path: FOLDER/cloud.ply: " + message);
    }
    // One edit of the folder: NAME [WIDTH HEIGHT [VALUE [CHANNELS]]].
    void edited(std::string what, std::string arguments, std::string message) {
        std::istringstream words(arguments);
        std::string name, value = "1";
        int width = 0, height = 0, channels = 3;
        words >> name >> width >> height >> value >> channels;
        const auto constant = [&](int, int) { return std::stof(value); };
        after(
            [&] {
                if (what == "gone") gone(name);
                if (what == "junk") write_bytes(folder / name, "no picture");
                if (what == "empty") touch({name});
                if (what == "folder") std::filesystem::create_directories(folder / name);
                if (what == "ramp") write_ramp(name, width, height, 40);
                if (what == "mask") write_mask(name, width, height, constant, channels);
                if (what == "map") write_depth(name, width, height, constant);
            },
            message);
    }
    // A file of a scene.
    void scene(const std::string &name, const std::string &bytes, const std::string &message) {
        row([&] { write_bytes(scene_path = folder / name, bytes); }, message, name);
    }
    void ply(const std::string &bytes, const std::string &message) { scene("a.ply", bytes, message); }
    // Good files with a text in place of another.
    void header(std::string from, std::string to, std::string message) {
        ply(replaced(ply_header("0", ply_needed), from, to), message);
    }
    void compressed(std::string from, std::string to, std::string message) {
        ply(replaced(compressed_file(true, 9), from, to), message);
    }
    void gltf(std::string from, std::string to, std::string message) {
        for (std::string *text : {&from, &to, &message})
            for (size_t at; (at = text->find('$')) != text->npos;)
                text->replace(at, 1, "KHR_gaussian_splatting");
        scene("a.glb", glb({with(two_gaussians().json, from, to), two_gaussians().binary}), message);
    }
    void spz(const std::string &bytes, const std::string &message) { scene("a.spz", bytes, message); }
    // A file of the archive with other bytes.
    void archive(const std::string &name, const std::string &bytes, const std::string &message) {
        files all = good_archive;
        all[name] = bytes;
        scene("a.sog", zip_of(all), message);
    }
    void meta(std::string from, std::string to, std::string message) {
        archive("meta.json", with(good_archive["meta.json"], from, to), message);
    }

    const std::string good = document("'fl_x':10.5,'fl_y':11,'cx':4,'cy':3.5,'k1':0.1",
                                      {frame("images/a.png"), frame("images/b.png")});
    const std::vector<ColmapCamera> cameras_of = cameras;
    const std::vector<ColmapImage> images_of = images;
    const std::vector<ColmapPoint> points_of = points;
    files good_archive;     // of a scene of five Gaussians
    std::string scene_path; // empty: the data in the folder are read
};

TEST_F(Messages, OfModels) {
    // ---- where the data is
    after([&] { gone(""); }, "FOLDER: cannot open: No such file or directory");
    row([&] { gone(""), write_bytes(folder.path, "x"); }, "FOLDER: not a folder");
    after([&] { gone("sparse"), gone("images"); },
          "FOLDER: has neither a COLMAP model (cameras.bin or cameras.txt, in sparse/0 and the like, sparse, "
          "colmap/sparse/0, distorted/sparse/0 or the folder itself) nor transforms_train.json nor "
          "transforms.json");
    after([&] { gone("sparse"), gone("images"), write_bytes(folder / "images/a.HEIC", ""); },
          "FOLDER: has 1 HEIC files (the first: 'a.HEIC'), which cannot be read: make JPEGs of them, as by "
          "`magick mogrify -format jpg *.heic`, and find their cameras by `dsplat poses`");

    // ---- COLMAP, binary
    model([&] { cameras = {}; }, cameras_bin + "holds no cameras");
    model([&] { images = {}; }, images_bin + "holds no images");
    after([&] { write_bytes(folder / "sparse/0/images.bin", model_file(images) + "xyz"); },
          images_bin + "3 bytes follow the last record, at byte 188");
    model([&] { cameras[1].id = 1; }, cameras_bin + "two cameras have the id 1");
    pictured([](auto &i) { i.quaternion[0] = 0; }, "'b.png' has the quaternion 0, 0, 0, 0");
    pictured([](auto &i) { i.translation[2] = 1.1e18; }, "'b.png' has the translation 0, 0, 1.1e+18");
    pictured([](auto &i) { i.camera = 3; }, "'b.png' is of camera 3, which is not in the model");
    model([&] { images[0].name = std::string(2000, 'x'); },
          images_bin + "at byte 72: an image name of more than 1023 bytes");
    model([&] { images[0].name = "a.png"; }, images_bin + "two images are named 'a.png'");
    point([](auto &p) { p.position[1] = -1.1e18; }, "1, -1.1e+18, 3");
    for (const uint64_t size : {uint64_t(0), uint64_t(16385), uint64_t(1) << 32, UINT64_MAX}) {
        const std::string n = std::to_string(size), must = " pixels; each side must be 1..16384";
        camera([=](auto &c) { c.width = size; }, "images of " + n + " x 6" + must);
        camera([=](auto &c) { c.height = size; }, "images of 8 x " + n + must);
    }
    // 0 and NaN mean an open value in a lens; a COLMAP model has none.
    const double not_a_number = NAN, infinite = INFINITY;
    for (const double value : {not_a_number, infinite, -infinite, 1e39, 0.0, -5.0, 1e-60, 1e-39})
        for (size_t i = 0; i < 4; i++) {
            std::ostringstream text;
            text << (std::isnan(value) ? "" : "...") << std::abs(value);
            const bool open = i < 2 ? value == 0 : std::isnan(value);
            if (i >= 2 && std::abs(value) < 10) continue; // a principal point may be anywhere
            camera([=](auto &c) { c.parameters[i] = value; },
                   open    ? "fx, fy, cx, cy = ...; they must be finite, the first two above 0"
                   : i < 2 ? "focal lengths ... and angles of view 0, 0" + far_focal
                           : "the principal point " + text.str() + "...; it must be finite");
        }
    for (const double value : {not_a_number, infinite, -infinite}) {
        for (size_t i = 0; i < 4; i++)
            pictured([=](auto &image) { image.quaternion[i] = value; }, "'b.png' has the quaternion ...");
        for (size_t i = 0; i < 3; i++) {
            pictured([=](auto &image) { image.translation[i] = value; }, "'b.png' has the translation ...");
            point([=](auto &p) { p.position[i] = value; }, "...");
        }
    }
    for (const std::string model :
         {"6 (FULL_OPENCV)", "7 (FOV)", "10 (THIN_PRISM_FISHEYE)", "11 (RAD_TAN_THIN_PRISM_FISHEYE)",
          "12 (SIMPLE_DIVISION)", "13 (DIVISION)", "16 (EUCM)", "17 (EQUIRECTANGULAR)", "18 (unknown)",
          "-1 (unknown)"})
        camera([=](auto &c) { c.model = std::stoi(model); },
               "model " + model + ", which cannot be read; only " + lenses);
    for (const std::string name : {"", "/etc/passwd", "..", "../a.png", "x/../../a.png"})
        pictured([=](auto &i) { i.name = name; }, "name '" + name + "' is empty or leaves the images folder");
    const struct {
        std::string file;
        size_t at; // of the count in the file
        std::string what;
    } counts[] = {{"cameras.bin", 0, "cameras"},
                  {"images.bin", 0, "images"},
                  {"images.bin", 8 + 4 + 56 + 4 + strlen("b.png") + 1, "2D points"},
                  {"points3D.bin", 0, "points"},
                  {"points3D.bin", 8 + 8 + 24 + 3 + 8, "track entries"}};
    for (const auto &c : counts)
        for (const uint64_t n : {uint64_t(1) << 16, uint64_t(1) << 32, (uint64_t(1) << 32) + 1,
                                 uint64_t(1) << 61, uint64_t(1) << 63, UINT64_MAX})
            after(
                [&] {
                    std::string bytes = read_bytes(folder / "sparse/0/" + c.file);
                    memcpy(&bytes[c.at], &n, sizeof n);
                    write_bytes(folder / "sparse/0/" + c.file, bytes);
                },
                "truncated or damaged: " + std::to_string(n) + " " + c.what +
                    " announced, but only ... bytes follow byte " + std::to_string(c.at + 8),
                "sparse/0/" + c.file);

    // ---- COLMAP, text; what binary models have too is refused by the same functions
    table(&Messages::text, R"(
        cameras | x PINHOLE 7 5 10 11 4 3 | at line 1: expected a camera's id, not 'x PINHOLE 7 5 10 11 4 3'
        cameras | # 1~~2 PINBALL 7 5 10 11 4 3 | at line 3: camera 2 has model PINBALL, which cannot be read; ...
        cameras | 2 EUCM 7 5 10 11 4 3 0.5 1 | at line 1: camera 2 has model 16 (EUCM), which cannot be read; only ...
        cameras | 2 | at line 1: expected the name of a camera model, not ''
        cameras | 2 PINHOLE -7 5 10 11 4 3 | at line 1: expected a camera's image width, not '-7 5 10 11 4 3'
        cameras | 2 PINHOLE 7 5 10 11 4 | at line 1: expected a camera's parameter, not ''
        cameras | 2 PINHOLE 7 5 10 11 4 3 1 | at line 1: expected the end of the line, not '1'
        images | 1 1 0 0 0 0 0 0 2 a.png~2 1 0 0 0 0 0 0 2 b.png~ | at line 2: 10 words for an image's 2D points, which
            have three words each
        points3D | x 0 0 0 255 255 0 0 | at line 1: expected a point's id, not 'x 0 0 0 255 255 0 0'
        points3D | 1 0 0 0 255 256 0 0 | at line 1: expected a point's colour (0..255), not '256 0 0'
        points3D | 1 0 0 0 255 255 0 | at line 1: expected a point's error, not ''
        points3D | 7 0.5 -1 2 1 2 3 -1 101 2 100 | at line 1: expected a track's 2D point, not ''
    )");
    text("cameras", std::string("2 PIN\0HOLE 7 5 10 11 4 3", 24), "at line 1: holds a zero byte");
}

TEST_F(Messages, OfTransforms) {
    whole("", "at line 1, column 0 (byte 0): '[' or '{' expected near end of file");
    whole("[]", "at byte 0: not an object");
    whole(std::string(100000, '['),
          "at line 1, column 2049 (byte 2049): maximum parsing depth reached near '['");
    whole("{}", "frames: must be an array");
    table(&Messages::json, R"(
        10.5 | NaN | at line 1, column 11 (byte 11): invalid token near 'NaN'
        10.5 | 1e999 | at line 1, column 13 (byte 13): real number overflow near '1e999'
        'fl_y' | ~'fl_x' | at line 2, column 6 (byte 20): duplicate object key near '"fl_x"'
        images/a | \u0000 | at line 1, column ...: \u0000 is not allowed without ...
        'fl_x':10.5,'fl_y':11, | | frames[0].fl_x: is missing, and so is camera_angle_x
        10.5 | '10' | fl_x: must be a number
        10.5 | 0 | fl_x: 0; must be above 0
        'fl_x':10.5,'fl_y':11 | 'camera_angle_x':0 | camera_angle_x: 0; ...
        10.5 | 1e39 | frames[0]: the camera has focal lengths 1e+39, 11 and angles of view 0, 0; ...
        'fl_x':10.5,'fl_y':11 | 'camera_angle_x':3.2 | frames[0]: the camera has focal ... angles of view 3.2, 0...
        'fl_x':10.5,'fl_y':11 | 'camera_angle_x':1e-300 | FOLDER/images/a.png: the camera has focal lengths 7e+300, ...
        0.1 | 1e300 | frames[0]: the camera has the distortion k1 = 1e+300; it must be finite
        'k1' | 'k2':1e300,'k1' ; 'p1':1e300,'k1' ; 'p2':1e300,'k1' ; 'k3':1e300,'k1' ; 'k4':1e300,'k1' |
            frames[0]: the camera has the distortion ... = 1e+300; it must be finite
        'k1' | 'w':0,'k1' | w: 0; must be a whole number, 1..16384
        'k1' | 'k6':0.1,'k1' | k6: 0.1; this distortion cannot be read, so it must be 0
        'k1' | 'is_fisheye':true,'p1':0.01,'k1' | p1: 0.01; this distortion ...
        'k1' | 'camera_model':'EUCM','k1' | camera_model: the lens 'EUCM' cannot be read
        'fl_x':10.5,'fl_y':11 | 'is_fisheye':true,'camera_angle_x':1 | frames[0]: the camera has a fisheye without
            a focal length; an angle of view is not enough
        10.5,'fl_y':11,'cx':4,'cy':3.5,'k1':0.1 | 3,'cx':4,'cy':3,'w':8,'h':6,'k1':-0.5,'is_fisheye':true | frames[0]:
            the camera has the distortion k1, k2, k3, k4 = -0.5, 0, 0, 0, by which a fisheye's picture folds over 46.8
            degrees off the axis; it must grow up to the picture's corners or to 85 degrees
        { | {'ply_file_path':'/etc/passwd', | ply_file_path: '/etc/passwd' is empty or leaves the folder
        { | {'ply_file_path':'./none.ply', | ply_file_path: FOLDER/none.ply: cannot open: No such file or directory
    )");
    table(&Messages::second, R"(
        7 | | frames[1]: must be an object
        {} | | frames[1].file_path: is missing
        {'file_path':7} | | frames[1].file_path: must be a string
        {'file_path':''} | | frames[1].file_path: '' is empty or leaves the folder
        {'file_path':'b','mask_path':'m/../../a'} | | frames[1].mask_path: 'm/../../a' is empty or leaves the folder
        {'file_path':'b'} | | frames[1].transform_matrix: must be an array of 4 rows
        b | [[1,0,0,0],[0,1,0,0],[0,0,1,0]] | frames[1].transform_matrix: must be an array of 4 rows
        b | [[1,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]] | frames[1].transform_matrix[0]: must be an array of 4 numbers
        b | [[1,0,0,0],[0,1,0,0],[0,0,1,'0'],[0,0,0,1]] | frames[1].transform_matrix[2][3]: must be a number
        b | [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,2]] | ...: the last row is 0 0 0 2; it must be 0 0 0 1
        b | [[1,0,0,0],[0,1,0,0],[0,0,-1,0],[0,0,0,1]] | frames[1].transform_matrix: not a rotation:
            M^T M differs from 1 by up to 0 (0.005 is tolerated), and its determinant is -1
        b | [[1,0.01,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]] | ..._matrix: not ... to 0.01 (..., and its determinant is 1
        b | [[1e300,0,0,0],[0,1e300,0,0],[0,0,1e300,0],[0,0,0,1]] | ..._matrix: not ... by up to inf (... is inf
        b | [[1,0,0,0],[0,1,0,-1.1e18],[0,0,1,0],[0,0,0,1]] | frames[1]: image 'b' has the translation 0, -1.1e+18, 0
    )");
    second("m\\\\..\\\\..\\\\a", straight,
           "frames[1]: image name 'm\\..\\..\\a' is empty or leaves the images folder");
    second("./images/a.png", straight, "two images are named 'images/a.png'");
    instead({{"transforms_train.json", good}, {"transforms_test.json", good + "x"}},
            "at line 1, column ...: end of file expected near 'x'");
    cloud(ply_of_points("ascii", "1 2 3 4 5 6\n1 2 3\n"),
          "truncated or damaged: 2 vertices announced, but only 18 bytes follow byte 160");
    cloud(ply_of_points("ascii", "1 nan 3 4 5 6\n1 2 3 4 5 6\n"),
          "at byte 160: point number 0 is at 1, nan, 3");
    cloud(ply_of_points("ascii", "1 2 3 4 5 6\n1 2 3 4 256 6\n"),
          "at byte 172: vertex 1 has green = 256; it must be 0..255");
}

TEST_F(Messages, OfPicturesMasksAndDepthMaps) {
    table(&Messages::edited, R"(
        gone | sparse | FOLDER: has photographs, but neither a COLMAP model nor a transforms.json; `dsplat poses FOLDER
            -o DATA` finds their cameras
        gone | sparse/0/images.bin | FOLDER/sparse/0/images.bin: cannot open: No such file or directory
        gone | images | FOLDER/sparse/0/images.bin: none of the pictures of its 2 views exists, the first being 'b.png',
            in FOLDER, its images, input, images_2, images_4 or images_8
        ramp | b.png 4 3 | warning: FOLDER: 1 of 2 pictures have another size than their camera, which is fitted to them
            (the first: 'b.png')
        ramp | b.png 8 5 | FOLDER/images/b.png: the picture has 8 x 5 pixels, its camera 8 x 6
        ramp | b.png 6 8 | FOLDER/images/b.png: the picture has 6 x 8 pixels, its camera 8 x 6: swap the camera's sides,
            or turn the pixels (EXIF orientations are not applied)
        folder | masks | warning: FOLDER: 2 of 2 pictures have no mask, so all their pixels count (the first: 'a.png')
        mask | b.png 8 5 255 | FOLDER/masks/b.png: the mask has 8 x 5 pixels, its picture 8 x 6
        mask | b.png 8 6 255 4 | FOLDER/masks/b.png: a mask must not have an alpha channel
        mask | b.png 8 6 0 | FOLDER/images/b.png: its mask leaves no pixel that counts
        junk | masks/b.png | FOLDER/masks/b.png: neither PNG nor JPEG (by its first bytes)
        map | b.pfm 8 6 | FOLDER/depth: has no depth map of the picture a.png, a PNG or PFM named after it or its stem
        map | a.pfm 7 6 | FOLDER/depth/a.pfm: the depth map has 7 x 6 values, its picture 7 x 5
        map | a.pfm 7 5 inf ; a.pfm 7 5 nan | FOLDER/depth/a.pfm: none of its values is finite
        empty | depth/a.pfm | FOLDER/depth/a.pfm: truncated at byte 0 while reading the map's signature
    )");
    row(
        [&] {
            images[0].name = "b.HEIC";
            write_model(), write_bytes(folder / "images/b.HEIC", "");
        },
        "FOLDER: 1 of 2 images are HEIC (the first: 'b.HEIC'), which cannot be read: make JPEGs of the same names "
        "of them, as by `magick mogrify -format jpg *.heic`");
    // The first by name.
    after([&] { write_bytes(folder / "images/a.png", ""), write_bytes(folder / "images/b.png", ""); },
          "FOLDER/images/a.png: truncated at byte 0 while reading the image's signature");
    // The first by name is read last, as it is large.
    after([&] { write_ramp("a.png", 700, 701, 40), write_ramp("b.png", 9, 9, 40); },
          "FOLDER/images/a.png: the picture has 700 x 701 pixels, its camera 7 x 5");
    after([&] { options.mask_from_alpha = true; },
          "FOLDER/images/a.png: has no alpha channel to make a mask of");

    after(
        [&] { // a JPEG without its end, as cameras write it
            image picture;
            uint8_t *jpeg;
            size_t count;
            ASSERT_TRUE(image_open(&picture, 8, 6, 3, &why) &&
                        image_encode_jpeg(&picture, 90, &jpeg, &count, &why));
            write_bytes(folder / "images/b.png", std::string(reinterpret_cast<char *>(jpeg), count - 2));
            free(jpeg), image_close(&picture);
        },
        "warning: FOLDER: 1 of 2 pictures are damaged, but their rows are whole (the first: 'b.png')");
    after([&] { write_bytes(folder / "depth/a.png", read_bytes(folder / "images/a.png")); },
          "FOLDER/depth/a.png: a PNG of 3 channels of 8 bits; it must be gray with 16 bits");
}

TEST_F(Messages, OfScenes) {
    const std::string start = "ply\nformat binary_little_endian 1.0\n",
                      ascii = ply_header("1", ply_needed, "ascii"), not_finite("\0\0\xc0\x7f", 4);
    texts many = ply_needed;
    for (int i = 0; i < 2000; i++) many.push_back("p" + std::to_string(i));
    std::string nodes = "'nodes':[{'children':[1],'mesh':0}"; // deeper than it goes
    for (int k = 1; k < 100; k++) nodes += ",{'children':[" + std::to_string(k + 1) + "]}";
    scene("a.sogs", "",
          "not a known format of scenes; the suffix must be one of .ply, .spz, .sog, "
          ".compressed.ply, .splat, .glb");
    scene("a.gltf", "", "not a known ... of .ply, ... .glb: `gltf-transform copy` makes a .glb of it");

    // ---- PLY
    ply("", "truncated at byte 0 while reading the PLY header");
    ply(start + "end_header\n", "at line 3: the first element must be 'vertex', without lists, not ''");
    ply(start + "property float x\nx", "at line 3: unexpected header line 'property ...'");
    table(&Messages::header, R"(
        binary_little_endian | binary_big_endian | at line 2: format 'binary_big_endian 1.0';
            only 'binary_little_endian 1.0' and 'ascii 1.0' can be read
        1.0 | 2.0 | at line 2: format 'binary_little_endian 2.0'; only ...
        format binary_little_endian 1.0~ | | at line ...: the header has no 'format' line
        ply | plyx | at byte 0: not a PLY file
        float op | flaot op | at line ...: a property of type 'flaot': not a PLY number type
        float op | list uchar int op | at line ...: the first element must be 'vertex', without lists, not 'vertex'
        opacity | opacity value | at line ...: malformed property
    )");
    ply(ply_header("0", many), "at line 1028: more than 1024 properties");
    ply(ply_header("1", ply_needed) + std::string(57, '\0'), "1 bytes follow the last vertex, at byte ...");
    ply(ascii + "1 2 x 4 5 6 7 8 9 10 11 12 13 14", "at byte ...: 'x' is not a number of a vertex");
    ply(ascii + "10 20 30 40 50 60 70 80 90 10 11 12 13", "truncated at byte ... while reading vertices");

    // ---- .splat
    scene("a.splat", splat_file().substr(1),
          "truncated at byte 63: not a multiple of 32, the bytes of a Gaussian");
    scene("a.splat", splat_file().replace(15, 1, "\xbf"), // the sign of a scale
          "Gaussian 0 has log_scale[0] = ...nan");

    // ---- compressed PLY
    table(&Messages::compressed, R"(
        chunk 1 | chunk 2 | at line ...: 2 chunks and 1 rows of coefficients for 1 vertices
        vertex 1 | vertex 2147483648 | at line ...: 1 chunks and 1 rows of coefficients for 2147483648 vertices
        vertex 1 | vertex -1 | at line ...: '-1' is not a number of rows of the element 'vertex'
        sh 1 | sh 0 | at line ...: 1 chunks and 0 rows of coefficients for 1 vertices
        float min_y | float min_x | at line ...: property 'min_x' occurs twice
        property uchar f_rest_8~ | | at line ...: elements or properties of a compressed PLY file are missing
        property float max_b~ | | at line ...: elements or properties of a compressed PLY file are missing
        binary_little_endian | ascii | at line ...: elements or properties of a compressed PLY file are missing
        end_header~ | end_header~x | truncated or damaged: 97 bytes announced, but 98 follow byte ...
    )");
    compressed("end_header\n" + Bytes().put(-1.0f).text, "end_header\n" + not_finite,
               "Gaussian 0 has mean[0] = nan");

    // ---- glTF; $: KHR_gaussian_splatting
    table(&Messages::gltf, R"(
        'mode':0 | 'mode':1 | a primitive with $ must have mode 0
        'ellipse' | 'disc' | $: kernel 'disc', colorSpace 'srgb_rec709_display';
            only 'ellipse' and 'srgb_rec709_display' can be read
        srgb_rec709 | lin_rec709 | $: ... colorSpace 'lin_rec709_display'; only ...
        'kernel': | 'extensions':{'KHR_compression_spz_2':{}},'kernel': | its Gaussians are compressed by
            KHR_compression_spz_2, which cannot be read; export .spz or .ply
        '$:SCALE':1, | | attribute $:SCALE: its accessor is missing, of another type, or beyond its buffer
        '$:SH_DEGREE_1_COEF_1':6, | | attribute $:SH_DEGREE_1_COEF_1: its accessor ...
        SH_DEGREE_1_COEF_2':7 | SH_DEGREE_2_COEF_0':7 | attribute $:SH_DEGREE_1_COEF_2: its accessor ...
        'POSITION':0,~ | 'POSITION':8,~ ; 'POSITION':-1,~ | attribute POSITION: its accessor ...
        2,'type':'VEC3' | 20,'type':'VEC3' ; 2,'sparse':{},'type':'VEC3' ; 2147483648,'type':'VEC3' | attribute POSITION...
        'count':2,'type':'VEC3' | 'count':1,'type':'VEC3' | attributes of different counts
        Offset':24 | Offset':157 ; Offset':-24 ; Offset':9223372036854775807 | attribute $:SCALE: its accessor ...
        5123,'normalized':true, | 5123, | Gaussian 0 has scale 1.000000 and opacity 13107.000000;
            scales are not logarithms, as in drafts of $
        'buffer':0 | 'buffer':0,'byteOffset':1 ; 'buffer':1 ; 'buffer':0,'byteStride':4 | attribute POSITION: its ...
        {'byteLength':156} | {'byteLength':157} | truncated or damaged: buffers[0] has 156 bytes, not 157
        {'byteLength':156} | {'byteLength':156,'uri':'a.bin'} | has buffers that are not in the file;
            `gltf-transform copy` puts them there
        156}],'buf | 156},{'byteLength':1}],'buf | has buffers that are not in the file; ...
        [2,2,2] | [2,2,3] | a node shears its Gaussians, mirrors them or scales them unequally
        [2,2,2] | [2,2] | nodes[0]: missing, malformed, a child of two nodes, or more than 64 deep
        'children':[1] | 'children':[1,1] | nodes[1]: missing, malformed, a child of two ...
        'children':[1] | 'children':[2] | nodes[2]: missing, ...
        'children':[1] | 'children':[] | holds no Gaussians of $
        'scene':0 | 'scene':0,'scene':0 | at byte ... of the JSON: duplicate object key near ...
    )");
    gltf("'nodes':[{'children':[1],", nodes + ",{}],'x':[{", "nodes[65]: ... more than 64 deep");
    gltf_model negative = two_gaussians();
    negative.binary.replace(24, 4, Bytes().put(-1.0f).text);
    scene("a.glb", glb(negative), "Gaussian 0 has scale -1.000000 and opacity 0.2...");
    scene("a.glb", glb(two_gaussians()).replace(4, 1, "\1"),
          "truncated or damaged: at byte 0: not a whole file of version 2 of glTF");
    scene("a.glb", "[]", "truncated or damaged: at byte 0: not a whole file of version 2 of glTF");
    for (const std::string &name : ply_needed) {
        texts names = ply_needed;
        names.push_back(name);
        ply(ply_header("0", names), "at line ...: property '" + name + "' occurs twice");
        names.erase(std::find(names.begin(), names.end(), name));
        names.pop_back();
        ply(ply_header("0", names), "at line ...: no vertex property '" + name + "'");
    }
    texts other = ply_needed;
    for (int k = 1; k <= 72; k++) {
        other.push_back("f_rest_" + std::to_string(k)); // without f_rest_0
        ply(ply_header("0", other),
            k == 9 || k == 24 || k == 45
                ? "at line ...: no vertex property 'f_rest_0'"
                : "at line ...: " + std::to_string(k) + " properties f_rest_*; there must be 0, 9, 24 or 45");
    }
    const std::string zeros(56, '\0');
    for (const std::string n :
         {"-1", "x", "1x", "1.0", "1e3", "+1", "99999999999999999999999", "18446744073709551616"})
        ply(ply_header(n, ply_needed) + zeros,
            "at line 3: '" + n + "' is not a number of rows of the element 'vertex'");
    for (const std::string n :
         {"2", "2147483648", "4294967296", "4294967297", "9223372036854775808", "18446744073709551615",
          "329406144173384851"}) // the last times 56 overflows to 40
        ply(ply_header(n, ply_needed) + zeros,
            "truncated or damaged: " + n + " vertices announced, but only 56 bytes follow byte ...");
}

TEST_F(Messages, OfPackedScenes) {
    ply(ply_header("0", {"x", "y", "z"}), "at line ...: no vertex property 'f_dc_0': these are points, not "
                                          "Gaussians, for `dsplat train` to start from");
    const std::string body = positions + alphas + colors + scales + smallest_three,
                      unpacking = "truncated or damaged at byte ... while unpacking ";
    const auto v3 = [&](uint32_t version, uint32_t count, uint8_t degree, uint8_t bits,
                        const std::string &message) {
        return spz(gzip(spz_header(version, count, degree, bits, 0, 0).text + body), message);
    };
    const auto v4 = [&](uint32_t count, uint8_t streams, uint32_t contents, uint64_t packed,
                        const std::string &message) {
        Bytes bytes = spz_header(4, count, 0, 12, 0, streams);
        bytes.put(contents).put(std::string(12, '\0'));
        bytes.put(packed).put(uint64_t(9)).put(std::string(80, '\0'));
        return spz(bytes.text, "truncated or damaged" + message);
    };
    const std::string one = gzip(spz_header(3, 1, 0, 12, 0, 0).text + body);
    std::string checksum = one;
    checksum[checksum.size() - 8] ^= 1;
    spz("", "truncated at byte 0 while reading the header");
    spz("NGSP", "truncated at byte 4 while reading the header");
    spz(gzip("short"), unpacking + "the header");
    spz(gzip(std::string(16, 'x')), "at byte 0: not an SPZ file");
    spz(checksum, unpacking + "1 Gaussians");
    spz(gzip(spz_header(3, 1, 0, 12, 0, 0).text + body + "x"), unpacking + "1 Gaussians");
    spz(one + "x", unpacking + "1 Gaussians");
    v3(1, 1, 0, 12, "at byte 4: version 1 of SPZ, in gzip; 2 to 4 can be read");
    v3(4, 1, 0, 12, "at byte 4: version 4 of SPZ, in gzip; ...");
    v3(3, 1, 5, 12, "at byte 12: SH degree 5, 12 fractional bits; at most 4 and 30 can be read");
    v3(3, 1, 0, 31, "at byte 12: SH degree 0, 31 fractional bits; ...");
    v3(3, 2, 0, 12, unpacking + "2 Gaussians");
    // No memory is allocated for what a file of this size cannot hold.
    v3(3, 100000000, 3, 12, "truncated or damaged: 6500000000 bytes announced, in a file of ... bytes");
    v3(3, 0x7fffffff, 3, 12, "truncated or damaged: 139586437055 bytes announced, in a file of ... bytes");
    v3(3, 0x80000000, 3, 12, "at byte 8: 2147483648 Gaussians are too many");

    const std::string stream = " at byte ...: stream 0 does not hold 9 bytes";
    spz(spz_header(3, 1, 0, 12, 0, 6).text + std::string(64, '\0'),
        "at byte 4: version 3 of SPZ, without gzip; ...");
    spz(spz_header(4, 0, 0, 12, 0, 0).put(uint32_t(32)).put(std::string(12, '\0') + "xyz").text,
        "3 bytes follow the last stream, at byte 32");
    v4(1, 1, 32, ~uint64_t(0), stream);
    v4(1, 1, 32, 9, stream);
    v4(1, 0, 32, 9, stream);
    v4(1, 255, 32, 9, ": 255 streams at byte 32 of 128");
    v4(1, 1, 31, 9, ": 1 streams at byte 31 of 128");
    v4(1, 1, ~0u, 9, ": 1 streams at byte 4294967295 of 128");
    v4(0x7fffffff, 1, 32, 9, ": ... bytes announced, in a file of 128 bytes");

    // ---- SOG
    const std::string palette = "shN_centroids.webp";
    files &good = good_archive;
    archive(palette, good["sh0.webp"], "shN.files[0]: 3 x 2 pixels, not 192 wide for 5 entries");
    archive("quats.webp", good["sh0.webp"], "quats: the alpha of pixel 0 is below 252");
    archive("shN_labels.webp", good["means_l.webp"], "shN: pixel 0 names entry ... of 5");
    archive("meta.json", "{", "meta.json: at byte 1: string or '}' expected near end of file");
    archive("meta.json", std::string(2 << 20, ' '),
            "'meta.json': has 2097152 bytes; at most 1048576 are read");
    table(&Messages::meta, R"(
        'version': 2 | 'version': 1 | meta.json: version must be 2, the version that is read
        'count': 5, 'ant | 'count': 7, 'ant | means.files[0]: 3 x 2 pixels, the first 3 x 2, for 7 Gaussians
        'count': 5, 'ant | 'count': 2000000000, 'ant | truncated or damaged: 32000000000 bytes announced, ...
        'count': 5, 'ant | 'count': -1, 'ant ; 'count': 2147483648, 'ant ; 'count': 1.5, 'ant ; 'count': '5', 'ant ;
            'count': 9223372036854775807, 'ant | meta.json: count must be a number of Gaussians
        'count': 5, 'bands' | 'count': 65537, 'bands' | meta.json: shN.count must be 1 to 65536
        'bands': 1 | 'bands': 4 | meta.json: shN.bands must be 1, 2 or 3
        'bands': 1 | 'bands': 2 | shN.files[0]: 192 x 1 pixels, not 512 wide for 5 entries
        'mins': [ | 'mins': [0, | meta.json: means.mins must be 3 numbers
        'codebook': [ | 'codebook': ['x', | meta.json: scales.codebook must be 256 numbers
        'maxs': [ | 'maxs': [1e30, 1e30, 1e30], 'x': [ | Gaussian 0 has mean[...] = inf
        'quats.webp' | 5 | meta.json: quats.files[0] must be a name
    )");
    const std::string whole = zip_of(good);
    for (size_t size = 0; size < whole.size(); size += size + 30 < whole.size() ? 61 : 1)
        scene("a.sog", whole.substr(0, size),
              "truncated or damaged: at byte " + std::to_string(size) +
                  ": no end of a ZIP archive of one part");
    for (const auto &[name, bytes] : files(good)) {
        files without = good;
        without.erase(name);
        scene("a.sog", zip_of(without), "the archive has no file '" + name + "'");
        if (name == "meta.json") continue;
        archive(name, bytes.substr(0, bytes.size() / 2), "'" + name + "': ...");
        archive(name, "not a picture", "'" + name + "': not a lossless WebP picture");
        if (name != palette) // of another size
            archive(name, good[palette], "...files[...]: ... pixels, the first ...");
    }
}

} // namespace messages_test
