// SPDX-License-Identifier: MIT
// Meshes, cameras and frames for tests.
#ifndef CUBEMAP_SCENES_H
#define CUBEMAP_SCENES_H

#include "adjoints.h"
#include "cubemap.h"
#include <functional>
#include <vector>

// In host memory until the end.
class test_mesh {
  public:
    mesh host = {};
    explicit test_mesh(const std::function<bool(mesh *, fault *)> &make) {
        fault why;
        if (!make(&host, &why)) throw std::runtime_error(why.text);
    }
    test_mesh(const std::vector<float> &position, const std::vector<float> &normal, // empty: found
              const std::vector<int> &corner)
        : test_mesh([&](mesh *out, fault *why) {
              if (!mesh_open(out, int(position.size() / 3), int(corner.size() / 3), why)) return false;
              std::copy(position.begin(), position.end(), out->position);
              std::copy(corner.begin(), corner.end(), out->corner);
              if (normal.empty())
                  mesh_find_normals(out);
              else
                  std::copy(normal.begin(), normal.end(), out->normal);
              return true;
          }) {}
    ~test_mesh() { mesh_close(&host); }
    test_mesh(const test_mesh &) = delete;
};

inline test_mesh icosphere(int level) {
    return test_mesh([=](mesh *out, fault *why) { return shape_icosphere(level, out, why); });
}
inline test_mesh torus(int rings, int sides) {
    return test_mesh([=](mesh *out, fault *why) { return shape_torus(rings, sides, out, why); });
}

// A mesh, rasterised.
class seen {
  public:
    cubemap_frame frame;

    seen(const mesh &host, const pinhole_camera &camera, int size) {
        frame = cubemap_frame_open(&host, &camera, size, SCENE_BACKGROUND);
        frame.sample = static_cast<float *>(device_allocate(4 * pixels() * sizeof(float)));
        cubemap_raster(&frame);
    }
    ~seen() {
        device_free(frame.sample);
        cubemap_frame_close(&frame);
    }
    seen(const seen &) = delete;

    size_t pixels() const { return size_t(frame.camera.width) * size_t(frame.camera.height); }
    std::vector<float> samples() const { return downloaded(frame.sample, 4 * pixels()); }
};

#endif
