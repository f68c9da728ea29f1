// SPDX-License-Identifier: MIT
// What is fuzzed. To add a target: a line here, a function in targets.c, a seed in seeds.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//        target         its files; an input has their contents, divided by FUZZ_DIVISION
#define FUZZ_TARGETS(X)                                                                                      \
    X(ply, "a.ply")                                                                                          \
    X(compressed, "a.compressed.ply")                                                                        \
    X(splat, "a.splat")                                                                                      \
    X(spz, "a.spz")                                                                                          \
    X(spz_inside, "a.spz")                                                                                   \
    X(sog, "a.sog")                                                                                          \
    X(glb, "a.glb")                                                                                          \
    X(gltf, "a.gltf a.bin")                                                                                  \
    X(points, "points.ply")                                                                                  \
    X(picture, "a.png")                                                                                      \
    X(plane, "a.pfm")                                                                                        \
    X(colmap_binary, "cameras.bin images.bin points3D.bin")                                                  \
    X(colmap_text, "cameras.txt images.txt points3D.txt")                                                    \
    X(transforms, "transforms.json points.ply")                                                              \
    X(dataset, "transforms.json a.png a_mask.png depth/a.png")                                               \
    X(checkpoint, "a.checkpoint a.checkpoint.a0")

#define FUZZ_DIVISION "\n%%\n"

typedef struct fuzz_target {
    const char *name, *files;
    // The files lie in the folder; `path` is the first. Ends the process by abort() where what is promised does not hold.
    void (*use)(const char *folder, const char *path);
    // Makes checksums right, which a chance change never does. May be NULL.
    void (*mend)(uint8_t *bytes, size_t size);
} fuzz_target;

const fuzz_target *fuzz_find(const char *name); // NULL: there is none
const fuzz_target *fuzz_all(size_t *count);
// Writes the files of an input to a folder of this process in memory, and uses them.
void fuzz_use(const fuzz_target *target, const uint8_t *bytes, size_t size);

#ifdef __cplusplus
}
#endif
