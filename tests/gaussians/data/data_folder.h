// SPDX-License-Identifier: MIT
// A folder with photographs, a COLMAP model or a transforms.json, masks and depth maps, and what is read of it.
#ifndef TESTS_GAUSSIANS_DATA_FOLDER_H
#define TESTS_GAUSSIANS_DATA_FOLDER_H

#include "dataset.h"
#include "formats/scene_bytes.h"
#include <sstream>

using texts = std::vector<std::string>;
using numbers = std::vector<double>;

// ---- COLMAP's models

struct ColmapCamera {
    int32_t id = 1, model = 1;
    uint64_t width = 8, height = 6;
    std::vector<double> parameters = {10, 11, 4, 3};
};

struct ColmapImage {
    std::string name;
    int32_t camera = 1;
    std::array<double, 4> quaternion = {1, 0, 0, 0};
    std::array<double, 3> translation = {0, 0, 0};
    uint64_t observations = 0;
};

struct ColmapPoint {
    std::array<double, 3> position;
    std::array<uint8_t, 3> color = {0, 0, 0};
    std::vector<int32_t> track = {}; // image ids
};

// Records, binary or as text with the comments that COLMAP writes.
class Records {
  public:
    Records(bool as_text, size_t count) : text(as_text) {
        out.precision(17);
        if (text)
            out << "# List\n# Number of records: " << count << ", mean number: 1.5\n";
        else
            put(uint64_t(count));
    }
    template <typename T>
    Records &put(const T &value) {
        if (text)
            out << +value << ' ';
        else
            out.write(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    template <typename List>
    Records &all(const List &values) {
        for (const auto &value : values) put(value);
        return *this;
    }
    void end() {
        if (text) out << '\n';
    }
    const bool text;
    std::ostringstream out;
};

inline std::string model_file(const std::vector<ColmapCamera> &cameras, bool text = false) {
    Records r(text, cameras.size());
    for (const ColmapCamera &c : cameras) {
        r.put(c.id);
        if (text)
            r.out << lens_models[c.model].name << ' ';
        else
            r.put(c.model);
        r.put(c.width).put(c.height).all(c.parameters).end();
    }
    return r.out.str();
}

inline std::string model_file(const std::vector<ColmapImage> &images, bool text = false) {
    Records r(text, images.size());
    int32_t id = 100;
    for (const ColmapImage &i : images) {
        r.put(id++).all(i.quaternion).all(i.translation).put(i.camera).out << i.name << (text ? '\n' : '\0');
        if (!text) r.put(i.observations);
        for (uint64_t k = 0; k < i.observations; k++) r.put(1.5).put(2.5).put(int64_t(-1));
        r.end();
    }
    return r.out.str();
}

inline std::string model_file(const std::vector<ColmapPoint> &points, bool text = false) {
    Records r(text, points.size());
    uint64_t id = 7;
    for (const ColmapPoint &p : points) {
        r.put(id++).all(p.position).all(p.color).put(-1.0);
        if (!text) r.put(uint64_t(p.track.size()));
        for (const int32_t image : p.track) r.put(image).put(int32_t(2));
        r.end();
    }
    return r.out.str();
}

// ---- transforms.json

// The camera's right, up and back, and where it stands.
using Vector = std::array<double, 3>;
inline std::string matrix(Vector right, Vector up, Vector back, Vector place) {
    std::ostringstream text;
    text.precision(17);
    for (size_t row = 0; row < 3; row++)
        text << (row ? "," : "[") << "[" << right[row] << "," << up[row] << "," << back[row] << ","
             << place[row] << "]";
    return text.str() + ",[0,0,0,1]]";
}
inline const std::string straight = matrix({1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 2, 3});

inline std::string frame(const std::string &name, const std::string &pose = straight,
                         const std::string &more = "") {
    return "{\"file_path\":\"" + name + "\",\"transform_matrix\":" + pose + quoted(more) + "}";
}
// keys: before the frames
inline std::string document(const std::string &keys, const texts &frames) {
    std::string json = quoted("{" + keys + ",'frames':[");
    for (const std::string &one : frames) json += one + (&one == &frames.back() ? "" : ",");
    return json + "]}";
}
inline const std::string ngp =
    "'fl_x':100.5,'fl_y':101,'cx':40,'cy':30.5,'w':80,'h':60.0,'k1':0.1,'k2':-0.2,'p1':0.01,'p2':0.02,"
    "'camera_angle_x':0.7,'aabb_scale':4,'scale':0.33,'offset':[0.5,0.5,0.5]";

// ----

inline dataset_options options_of(int downscale, std::array<float, 3> background = {0, 0, 0}) {
    dataset_options options = {};
    options.downscale = downscale;
    std::copy(background.begin(), background.end(), options.background);
    return options;
}

class Data : public testing::Test {
  protected:
    void TearDown() override { dataset_close(&got), reconstruction_close(&listed); }

    // ---- what is in the folder

    void write_model(bool text = false) {
        const std::string suffix = text ? ".txt" : ".bin";
        gone("sparse");
        write_bytes(folder / ("sparse/0/cameras" + suffix), model_file(cameras, text));
        write_bytes(folder / ("sparse/0/images" + suffix), model_file(images, text));
        write_bytes(folder / ("sparse/0/points3D" + suffix), model_file(points, text));
    }
    // pixel(x, y, channel)
    template <typename Pixel>
    void write_picture(const std::string &name, int width, int height, int channels, const Pixel &pixel) {
        image picture;
        ASSERT_TRUE(image_open(&picture, width, height, channels, &why)) << why.text;
        for (int i = 0; i < width * height * channels; i++)
            picture.pixels[i] = uint8_t(pixel(i / channels % width, i / channels / width, i % channels));
        uint8_t *png;
        size_t count;
        ASSERT_TRUE(image_encode_png(&picture, &png, &count, &why)) << why.text;
        write_bytes(folder / name,
                    std::string(reinterpret_cast<char *>(png), count)); // does not wait for the disk
        free(png), image_close(&picture);
    }
    // In images/. Its pixel (x, y) is (seed + x, 10 y, seed) and, if there are four channels, has alpha 16 (x + y).
    void write_ramp(const std::string &name, int width, int height, int seed, int channels = 3) {
        write_picture("images/" + name, width, height, channels, [&](int x, int y, int c) {
            return c == 0 ? seed + x : c == 1 ? 10 * y : c == 2 ? seed : 16 * (x + y);
        });
    }
    // In masks/.
    template <typename Gray>
    void write_mask(const std::string &name, int width, int height, const Gray &gray, int channels = 3) {
        write_picture("masks/" + name, width, height, channels,
                      [&](int x, int y, int) { return gray(x, y); });
    }
    // In depth/: value(x, y), as PFM or PNG by the name.
    template <typename Value>
    void write_depth(const std::string &name, int width, int height, const Value &value) {
        plane map;
        const std::string path = folder / ("depth/" + name);
        ASSERT_TRUE(plane_open(&map, width, height, &why));
        for (int i = 0; i < width * height; i++) map.values[i] = value(i % width, i / width);
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        const auto write = name.find(".pfm") == std::string::npos ? plane_write_png : plane_write_pfm;
        EXPECT_TRUE(write(path.c_str(), &map, &why)) << why.text;
        plane_close(&map);
    }
    void write_all(int channels = 3) {
        write_model();
        write_ramp("b.png", 8, 6, 20, channels);
        write_ramp("a.png", 7, 5, 40, channels);
    }
    void touch(const texts &names) {
        for (const std::string &name : names) write_bytes(folder / name, "");
    }
    void gone(const std::string &name) { std::filesystem::remove_all(folder / name); }

    // ---- what is read

    bool load(const dataset_options &chosen) {
        dataset_close(&got);
        testing::internal::CaptureStderr();
        const bool loaded = dataset_load(folder.path.c_str(), &chosen, &got, &why);
        said = testing::internal::GetCapturedStderr();
        return loaded;
    }
    bool load(int downscale) { return load(options_of(downscale)); }
    bool load_depth(int downscale, depth_maps_of of = DEPTH_MAPS_TRAINING) {
        const dataset_options chosen = options_of(downscale);
        return depth_maps_load(&got, (folder / "depth").c_str(), &chosen, of, &why);
    }
    // Lists the transforms.json, or else the model, whose pictures may be missing.
    bool list() {
        reconstruction_close(&listed);
        testing::internal::CaptureStderr();
        const bool json = transforms_are_in(folder.path.c_str());
        const bool done = (json ? transforms_load(folder.path.c_str(), &listed, &why)
                                : colmap_load((folder / "sparse/0").c_str(), tracks, &listed, &why)) &&
                          reconstruction_settle(&listed, folder.path.c_str(), !json, &why);
        said = testing::internal::GetCapturedStderr();
        if (!done) reconstruction_close(&listed);
        return done;
    }
    void list(const std::string &json) {
        write_bytes(folder / "transforms.json", json);
        ASSERT_TRUE(list()) << why.text;
    }
    // Width, height, whether it is a fisheye, and the parameters of a lens that is listed.
    numbers lens_of(size_t view) {
        lens &l = listed.views[view].optics;
        numbers out = {double(l.width), double(l.height), double(l.fisheye)};
        for (const lens_parameter &p : lens_parameters) out.push_back(*lens_value(&l, &p));
        return out;
    }
    // Width, height, fx, fy, cx, cy of a view's camera, whose picture has that size.
    void expect_view(size_t view, const numbers &expected, double tolerance = 1e-6) {
        const gs_camera &c = got.views[view].camera;
        const image &picture = got.views[view].picture;
        const float values[] = {float(c.width), float(c.height), c.fx, c.fy, c.cx, c.cy};
        expect_values(values, expected, tolerance);
        EXPECT_TRUE(picture.width == c.width && picture.height == c.height && picture.channels == 3);
    }
    texts names() {
        texts out;
        for (size_t i = 0; i < listed.view_count; i++) out.push_back(listed.views[i].name);
        for (size_t i = 0; i < got.view_count; i++) out.push_back(got.views[i].name);
        return out;
    }
    // The one line that is said of what is in the folder.
    std::string says(const std::string &text) const { return "dsplat: " + folder.path + ": " + text + "\n"; }

    TemporaryFolder folder;
    std::vector<ColmapCamera> cameras = {{1, 1, 8, 6, {10, 11, 4.5, 3.25}}, {2, 1, 7, 5, {9, 8, 3, 2}}};
    std::vector<ColmapImage> images = {{"b.png", 1, {1, 0, 0, 0}, {0, 0, 1}, 1},
                                       {"a.png", 2, {0, 1, 0, 0}, {0, 0, 2}, 0}};
    std::vector<ColmapPoint> points = {{{1, 2, 3}, {9, 8, 7}, {1}}};
    dataset_options options = options_of(1);
    dataset got = {};
    reconstruction listed = {};
    bool tracks = false; // are listed
    fault why = {};
    std::string said;
};

#endif
