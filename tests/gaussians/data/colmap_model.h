// SPDX-License-Identifier: MIT
// Makes the files of small COLMAP models.
#ifndef TESTS_GAUSSIANS_COLMAP_MODEL_H
#define TESTS_GAUSSIANS_COLMAP_MODEL_H

#include "files.h"
#include "lens.h"
#include <array>
#include <sstream>
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

#endif
