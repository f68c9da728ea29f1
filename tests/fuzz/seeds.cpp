// SPDX-License-Identifier: MIT
// fuzz_seeds FOLDER: small inputs for each target, by our own writers where there are some: FOLDER/TARGET/N.
#include "targets.h"
#include "files.h"
#include "fuzz_key.h"
#include "frame.h"
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
        gs_gaussians scene;
        check(scene_open(&scene, 3, degree, &why));
        for (int64_t i = 0; i < scene.count; i++) {
            for (int k = 0; k < 3; k++) {
                scene.mean[3 * i + k] = float(i) - float(k);
                scene.log_scale[3 * i + k] = -float(k) - 1;
            }
            for (int k = 0; k < 4; k++) scene.quaternion[4 * i + k] = k == i ? 1.0f : 0.25f;
            scene.opacity_logit[i] = float(i) - 1;
        }
        scene.antialias = degree % 2;
        for (int64_t i = 0; i < 9 * (degree + 1) * (degree + 1); i++) scene.sh[i] = 0.01f * float(i % 31);
        for (const char *format : {"ply", "spz", "sog"}) {
            const std::string bytes = written(std::string("a.") + format, [&](const char *path) {
                return scene_write(path, &scene, &why);
            });
            seed(format, bytes);
            if (strcmp(format, "ply") == 0) seed("points", bytes);
        }
        for (int version = 2; version <= 4; version += 2)
            seed("spz", written("a.spz", [&](const char *path) {
                     scene_stream s;
                     if (!scene_stream_open(&s, path, &scene, nullptr, &why)) return false;
                     s.variant = version;
                     return scene_stream_put(&s, &scene, &why) && scene_stream_commit(&s, &why);
                 }));
        // What is in the gzip file: versions 1 to 3.
        const size_t rest = 3 * size_t((degree + 1) * (degree + 1) - 1);
        for (uint32_t version = 1; version <= 3; version++) {
            Bytes b;
            b.put(uint32_t(0x5053474e)).put(version).put(uint32_t(2)).put(uint8_t(degree)).put(uint8_t(12));
            b.put(uint8_t(degree % 2)).put(uint8_t(0));
            seed("spz_inside",
                 b.put(std::string(2 * ((version == 1 ? 6 : 9) + 7 + (version < 3 ? 3 : 4) + rest), 'a'))
                     .text);
        }
        scene_close(&scene);
    }
    Bytes splat;
    for (const float x : {1.5f, -2.0f, 3.0f, 1.0f, 0.25f, 4.0f}) splat.put(x);
    seed("splat", splat.put(std::string("\xff\x00\x80\x33\x80\xff\x80\x01", 8)).text);
    seed(
        "points",
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty double x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n1 2 3 4 5 6\n-1e2 0 .5 9 8 7\n");
}

std::string compressed(bool colors, int coefficients) {
    std::string text = "ply\nformat binary_little_endian 1.0\nelement chunk 1\n";
    for (const char *bound : {"min_", "max_", "min_scale_", "max_scale_"})
        for (const char *axis : {"x", "y", "z"}) text += std::string("property float ") + bound + axis + "\n";
    for (const char *bound : {"min_r", "min_g", "min_b", "max_r", "max_g", "max_b"})
        if (colors) text += std::string("property float ") + bound + "\n";
    text += "element vertex 1\n";
    for (const char *word : {"position", "rotation", "scale", "color"})
        text += std::string("property uint packed_") + word + "\n";
    if (coefficients) text += "element sh 1\n";
    for (int k = 0; k < coefficients; k++) text += "property uchar f_rest_" + std::to_string(k) + "\n";
    Bytes b;
    b.put(text + "end_header\n");
    for (int k = 0; k < (colors ? 18 : 12); k++) b.put(float(k) / 4 - 1);
    for (uint32_t k = 0; k < 4; k++) b.put(0x87654321u * (k + 1));
    return b.put(std::string(size_t(coefficients), '\x80')).text;
}

void gltf() {
    std::string json =
        R"({"asset":{"version":"2.0"},"extensionsUsed":["KHR_gaussian_splatting"],"scene":0,"scenes":[{"nodes":[0]}],)"
        R"("nodes":[{"children":[1],"translation":[1,2,3],"rotation":[0,0,0.6,0.8],"scale":[2,2,2]},{"mesh":0}],)"
        R"("meshes":[{"primitives":[{"mode":0,"attributes":{"POSITION":0,"KHR_gaussian_splatting:SCALE":1,)"
        R"("KHR_gaussian_splatting:ROTATION":2,"KHR_gaussian_splatting:OPACITY":3,"KHR_gaussian_splatting:SH_DEGREE_0_COEF_0":4},)"
        R"("extensions":{"KHR_gaussian_splatting":{"kernel":"ellipse","colorSpace":"srgb_rec709_display"}}}]}],)"
        R"("buffers":[{"byteLength":48URI}],"bufferViews":[{"buffer":0,"byteLength":48}],"accessors":[)"
        R"({"bufferView":0,"componentType":5126,"count":1,"type":"VEC3"},)"
        R"({"bufferView":0,"byteOffset":12,"componentType":5126,"count":1,"type":"VEC3"},)"
        R"({"bufferView":0,"byteOffset":24,"componentType":5120,"normalized":true,"count":1,"type":"VEC4"},)"
        R"({"bufferView":0,"byteOffset":28,"componentType":5126,"count":1,"type":"SCALAR"},)"
        R"({"bufferView":0,"byteOffset":32,"componentType":5126,"count":1,"type":"VEC3"}]})";
    // Harmonics that a node's rotation turns, from a file beside it.
    std::string turned = json;
    const std::string coefficient = R"("KHR_gaussian_splatting:SH_DEGREE_0_COEF_0":4)", last = "}]}";
    std::string attributes = coefficient, accessors;
    for (int degree = 1, k = 5; degree <= 3; degree++)
        for (int m = 0; m <= 2 * degree; m++, k++) {
            attributes += R"(,"KHR_gaussian_splatting:SH_DEGREE_)" + std::to_string(degree) + "_COEF_" +
                          std::to_string(m) + "\":" + std::to_string(k);
            accessors += R"(,{"bufferView":0,"byteOffset":)" + std::to_string(4 * k) +
                         R"(,"componentType":5126,"count":1,"type":"VEC3"})";
        }
    turned.replace(turned.find(coefficient), coefficient.size(), attributes);
    turned.insert(turned.rfind(last) + 1, accessors);
    for (size_t at; (at = turned.find("th\":48")) != std::string::npos;) turned.replace(at, 6, "th\":128");
    turned.replace(turned.find("URI"), 3, R"(,"uri":"a.bin")");
    seed("gltf", turned + FUZZ_DIVISION + std::string(128, '>'));
    const size_t uri = json.find("URI");
    const std::string data = R"(,"uri":"data:application/octet-stream;base64,)" + std::string(64, 'P') + '"';
    seed("gltf", std::string(json).replace(uri, 3, data));
    json.replace(uri, 3, "");
    while (json.size() % 4) json += ' ';
    Bytes b;
    b.put(uint32_t(0x46546c67)).put(uint32_t(2)).put(uint32_t(28 + json.size() + 48));
    b.put(uint32_t(json.size()))
        .put(uint32_t(0x4e4f534a))
        .put(json)
        .put(uint32_t(48))
        .put(uint32_t(0x004e4942));
    seed("glb", b.put(std::string(48, '>')).text);
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
    const int models[] = {0, 1, 2,
                          3, 4, 5}; // SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, OPENCV_FISHEYE
    const int parameters[] = {3, 4, 4, 5, 8, 8};
    for (const int model : models) {
        Bytes cameras, images, points;
        cameras.put(uint64_t(1)).put(uint32_t(1)).put(int32_t(model)).put(uint64_t(8)).put(uint64_t(6));
        for (int k = 0; k < parameters[model]; k++) cameras.put(k < 2 ? 7.0 : k < 4 ? 3.0 : 0.01);
        images.put(uint64_t(1)).put(uint32_t(1));
        for (const double value : {1.0, 0.0, 0.0, 0.0, 0.5, 0.0, 2.0}) images.put(value);
        images.put(uint32_t(1))
            .put(std::string("a.png") + '\0')
            .put(uint64_t(1))
            .put(1.0)
            .put(2.0)
            .put(uint64_t(7));
        points.put(uint64_t(1)).put(uint64_t(7)).put(1.0).put(2.0).put(3.0).put(uint8_t(1)).put(uint8_t(2));
        points.put(uint8_t(3)).put(0.5).put(uint64_t(1)).put(uint32_t(1)).put(uint32_t(0));
        seed("colmap_binary", cameras.text + divided + images.text + divided + points.text);
    }
    seed("colmap_text",
         "# Number of cameras: 1\n1 OPENCV 8 6 7 7 4 3 0.1 0.01 0 0\n" + divided +
             "# Number of images: 1, mean observations per image: 1\n1 1 0 0 0 0.5 0 2 1 a.png\n1 2 7\n" +
             divided + "# Number of points: 1, mean track length: 1\n7 1 2 3 1 2 3 0.5 1 0\n");
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
    seed("compressed", compressed(true, 9));
    seed("compressed", compressed(false, 0));
    gltf();
    pictures();
    colmap();
    others();
    size_t targets;
    const fuzz_target *const all = fuzz_all(&targets);
    for (size_t i = 0; i < targets; i++)
        if (!count[all[i].name]) check(fail(&why, "no seed for %s", all[i].name));
}
