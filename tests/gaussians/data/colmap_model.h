// SPDX-License-Identifier: MIT
// Makes the bytes of small COLMAP models.
#ifndef TESTS_COMMON_COLMAP_MODEL_H
#define TESTS_COMMON_COLMAP_MODEL_H

#include "files.h"
#include <array>
#include <sstream>
#include <stdint.h>
#include <vector>

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
    uint64_t track = 0;
    std::vector<int32_t> images = {}; // of the track's first entries; the others are of image 1
    int32_t image(uint64_t entry) const { return entry < images.size() ? images[entry] : 1; }
};

inline std::string bytes_of(const std::vector<ColmapCamera> &cameras) {
    Bytes out;
    out.put(uint64_t(cameras.size()));
    for (const ColmapCamera &c : cameras) {
        out.put(c.id).put(c.model).put(c.width).put(c.height);
        for (const double p : c.parameters) out.put(p);
    }
    return out.text;
}

inline std::string bytes_of(const std::vector<ColmapImage> &images) {
    Bytes out;
    out.put(uint64_t(images.size()));
    int32_t id = 100;
    for (const ColmapImage &i : images) {
        out.put(id++)
            .put(i.quaternion)
            .put(i.translation)
            .put(i.camera)
            .put(i.name)
            .put('\0')
            .put(i.observations);
        for (uint64_t k = 0; k < i.observations; k++) out.put(1.5).put(2.5).put(int64_t(-1));
    }
    return out.text;
}

inline std::string bytes_of(const std::vector<ColmapPoint> &points) {
    Bytes out;
    out.put(uint64_t(points.size()));
    uint64_t id = 7;
    for (const ColmapPoint &p : points) {
        out.put(id++).put(p.position).put(p.color).put(-1.0).put(p.track);
        for (uint64_t k = 0; k < p.track; k++) out.put(p.image(k)).put(int32_t(2));
    }
    return out.text;
}

// The same as text, with the comments that COLMAP writes.

class Text {
  public:
    Text() { stream.precision(17); }
    template <typename T>
    Text &put(const T &value) {
        stream << value;
        return *this;
    }
    template <typename T>
    Text &list(const T &values) {
        for (const auto &value : values) stream << ' ' << +value;
        return *this;
    }
    std::string text() const { return stream.str(); }

  private:
    std::ostringstream stream;
};

inline std::string text_of(const std::vector<ColmapCamera> &cameras) {
    const char *const names[] = {
        "SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL",         "RADIAL",        "OPENCV", "OPENCV_FISHEYE",
        "FULL_OPENCV",    "FOV",     "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE"};
    Text out;
    out.put(
        "# Camera list with one line of data per camera:\n#   CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]\n");
    out.put("# Number of cameras: ").put(cameras.size()).put("\n");
    for (const ColmapCamera &c : cameras)
        out.put(c.id)
            .put(' ')
            .put(names[c.model])
            .put(' ')
            .put(c.width)
            .put(' ')
            .put(c.height)
            .list(c.parameters)
            .put("\n");
    return out.text();
}

inline std::string text_of(const std::vector<ColmapImage> &images) {
    Text out;
    out.put("# Image list with two lines of data per image:\n");
    out.put(
        "#   IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n#   POINTS2D[] as (X, Y, POINT3D_ID)\n");
    out.put("# Number of images: ").put(images.size()).put(", mean observations per image: 1.5\n");
    int32_t id = 100;
    for (const ColmapImage &i : images) {
        out.put(id++)
            .list(i.quaternion)
            .list(i.translation)
            .put(' ')
            .put(i.camera)
            .put(' ')
            .put(i.name)
            .put("\n");
        for (uint64_t k = 0; k < i.observations; k++) out.put(k ? " " : "").put("1.5 2.5 -1");
        out.put("\n");
    }
    return out.text();
}

inline std::string text_of(const std::vector<ColmapPoint> &points) {
    Text out;
    out.put("# 3D point list with one line of data per point:\n");
    out.put("#   POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)\n");
    out.put("# Number of points: ").put(points.size()).put(", mean track length: 2\n");
    uint64_t id = 7;
    for (const ColmapPoint &p : points) {
        out.put(id++).list(p.position).list(p.color).put(" -1");
        for (uint64_t k = 0; k < p.track; k++) out.put(" ").put(p.image(k)).put(" 2");
        out.put("\n");
    }
    return out.text();
}

#endif
