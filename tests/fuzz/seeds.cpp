// SPDX-License-Identifier: MIT
// fuzz_seeds FOLDER: small inputs for each target, by our own writers where there are some: FOLDER/TARGET/N.
#include "targets.h"
#include "files.h"
#include "fuzz_key.h"
#include "colmap_model.h"
#include "frame.h"
#include "formats/scene_bytes.h"
#include "formats/scene_cases.h"
#include "images/image.h"
#include "scene.h"
#include "transforms.h"
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

namespace {

std::string folder;
std::map<std::string, int> count;
fault why;

void check(bool done) {
    if (done) return;
    std::fprintf(stderr, "fuzz_seeds: %s\n", why.text);
    std::exit(1);
}

void seed(const char *target, const std::string &bytes) {
    if (!fuzz_find(target)) snprintf(why.text, sizeof why.text, "no target %s", target), check(false);
    write_bytes(folder + "/" + target + "/" + std::to_string(count[target]++), bytes);
}

// What a writer of files writes.
std::string written(const std::string &name, const std::function<bool(const char *)> &write) {
    const std::string path = folder + "/" + name;
    check(write(path.c_str()));
    const std::string bytes = read_bytes(path);
    std::filesystem::remove(path);
    return bytes;
}

void scenes() {
    for (int degree = 0; degree < 4; degree++) {
        scene_in_memory scene;
        fill_randomly(&scene, 3, degree, 1);
        scene.antialias = degree % 2;
        const auto file = [&](const std::string &name, int variant) {
            return written(name, [&](const char *path) { return write_variant(path, scene, variant, &why); });
        };
        for (const char *target : {"ply", "points"}) seed(target, file("a.ply", 0));
        for (const int version : {2, 3, 4}) seed("spz", file("a.spz", version));
        seed("sog", file("a.sog", 0));
        // What is in the gzip file: versions 1 to 3.
        const size_t rest = 3 * size_t((degree + 1) * (degree + 1) - 1);
        for (uint32_t version = 1; version <= 3; version++) {
            Bytes b = spz_header(version, 2, uint8_t(degree), 12, uint8_t(degree % 2), 0);
            seed("spz_inside",
                 b.put(std::string(2 * ((version == 1 ? 6 : 9) + 7 + (version < 3 ? 3 : 4) + rest), 'a'))
                     .text);
        }
    }
    seed("splat", splat_file());
    seed(
        "points",
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty double x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n1 2 3 4 5 6\n-1e2 0 .5 9 8 7\n");
}

// Below a node that turns harmonics: in one file, with a file beside it, and with the buffer in the JSON.
void gltf() {
    const gltf_model m = two_gaussians();
    const auto json = [&](const std::string &uri) {
        return with(m.json, "{'byteLength':156}", "{'byteLength':156,'uri':'" + uri + "'}");
    };
    seed("glb", glb(m));
    seed("gltf", json("a.bin") + FUZZ_DIVISION + m.binary);
    seed("gltf", json("data:application/octet-stream;base64," + std::string(208, 'P')));
}

void pictures() {
    const std::string divided = FUZZ_DIVISION;
    std::string pngs[2], maps[2];
    for (int channels = 3; channels <= 4; channels++) {
        image picture;
        check(image_open(&picture, 8, 6, channels, &why));
        for (int i = 0; i < 48 * channels; i++) picture.pixels[i] = uint8_t(5 * i + 1);
        pngs[channels - 3] =
            written("a.png", [&](const char *path) { return image_write_png(path, &picture, &why); });
        seed("picture", pngs[channels - 3]);
        uint8_t *bytes;
        size_t size;
        if (channels == 3) {
            check(image_encode_jpeg(&picture, 80, &bytes, &size, &why));
            seed("picture", std::string(reinterpret_cast<char *>(bytes), size));
            free(bytes);
        }
        image_close(&picture);
    }
    plane map;
    check(plane_open(&map, 8, 6, &why));
    for (int i = 0; i < 48; i++) map.values[i] = float(i) / 50;
    maps[0] = written("a.png", [&](const char *path) { return plane_write_png(path, &map, &why); });
    maps[1] = written("a.pfm", [&](const char *path) { return plane_write_pfm(path, &map, &why); });
    plane_close(&map);
    for (const std::string &one : maps) seed("plane", one);

    const std::string frame = R"({"file_path":"a.png","mask_path":"a_mask.png","transform_matrix":)"
                              R"([[1,0,0,0.5],[0,1,0,2],[0,0,1,3],[0,0,0,1]]})";
    for (const char *lens : {R"("camera_angle_x":0.8,)",
                             R"("fl_x":9,"fl_y":8,"cx":4,"cy":3,"w":8,"h":6,"k1":0.1,"k2":-0.02,"p1":0.01,)",
                             R"("fl_x":5,"is_fisheye":true,"k1":0.01,"k4":0.001,)",
                             R"("fl_x":5,"camera_model":"OPENCV_FISHEYE","k2":0.01,)",
                             R"("fl_x":5,"ply_file_path":"points.ply",)"}) {
        const std::string json = std::string("{") + lens + R"("frames":[)" + frame + "]}";
        seed("transforms", json + divided +
                               "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
                               "property float z\nend_header\n1 2 3\n");
        seed("dataset", json + divided + pngs[1] + divided + pngs[0] + divided + maps[0]);
    }
}

void colmap() {
    const std::string divided = FUZZ_DIVISION;
    const size_t parameters[] = {3, 4, 4, 5, 8, 8}; // of SIMPLE_PINHOLE to OPENCV_FISHEYE
    const std::vector<ColmapImage> images = {{"a.png", 1, {1, 0, 0, 0}, {0.5, 0, 2}, 1}};
    const std::vector<ColmapPoint> points = {{{1, 2, 3}, {1, 2, 3}, {100}}};
    for (int model = 0; model < 6; model++) {
        std::vector<ColmapCamera> cameras = {{1, model, 8, 6, {7, 7, 3, 3, 0.01, 0.01, 0.01, 0.01}}};
        cameras[0].parameters.resize(parameters[model]);
        for (const bool text : {false, true})
            seed(text ? "colmap_text" : "colmap_binary", model_file(cameras, text) + divided +
                                                             model_file(images, text) + divided +
                                                             model_file(points, text));
    }
}

void others() {
    for (const int64_t views : {0, 2}) {
        ranks *const alone = ranks_alone_open();
        training_state state = {};
        gs_gaussians zeros;
        check(scene_open(&zeros, 2, 1, &why));
        training_state_open(&state, alone, &zeros);
        scene_close(&zeros);
        if (views > 0) training_state_open_exposures(&state, views);
        check(views == 0 || training_state_open_poses(&state, size_t(views), &why));
        if (views > 0) { // one of two teachers is complete
            state.place.views = 9, state.place.steps = 3, state.place.ended = 2;
            state.average = {2, device_gaussians_open(2, 1)};
            state.place.scene = 1, state.place.scenes = 2;
            state.distillation.teacher[0] = device_gaussians_open(3, 1);
            check(scene_open(&state.distillation.start, 1, 1, &why));
        }
        const std::string bytes =
            written("a", [&](const char *path) { return checkpoint_write(path, &fuzz_key, &state, &why); });
        seed("checkpoint", bytes);
        training_state_close(&state);
        ranks_alone_close(alone);
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    std::filesystem::create_directories(folder);
    scenes();
    seed("compressed", compressed_file(true, 9));
    seed("compressed", compressed_file(false, 0));
    gltf();
    pictures();
    colmap();
    others();
    size_t targets;
    const fuzz_target *const all = fuzz_all(&targets);
    for (size_t i = 0; i < targets; i++)
        if (!count[all[i].name]) check(fail(&why, "no seed for %s", all[i].name));
}
