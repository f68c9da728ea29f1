// SPDX-License-Identifier: MIT
// What is fuzzed. To add a target: a line here, a function in targets.c, inputs in corpus.tar.gz.
#pragma once

#include "checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

//        target, how it is used, what mends its checksums, its files; an input has their contents, divided by FUZZ_DIVISION
#define FUZZ_TARGETS(X)                                                                                      \
    X(ply, use_scene, NULL, "a.ply")                                                                         \
    X(compressed, use_scene, NULL, "a.compressed.ply")                                                       \
    X(splat, use_scene, NULL, "a.splat")                                                                     \
    X(spz, use_scene, NULL, "a.spz")                                                                         \
    X(spz_inside, use_spz_inside, NULL, "a.spz")                                                             \
    X(sog, use_scene, mend_sog, "a.sog")                                                                     \
    X(glb, use_scene, NULL, "a.glb")                                                                         \
    X(points, use_points, NULL, "points.ply")                                                                \
    X(picture, use_picture, mend_picture, "a.png")                                                           \
    X(plane, use_picture, mend_picture, "a.pfm")                                                               \
    X(colmap_binary, use_cameras, NULL, "cameras.bin images.bin points3D.bin")                               \
    X(colmap_text, use_cameras, NULL, "cameras.txt images.txt points3D.txt")                                 \
    X(transforms, use_cameras, NULL, "transforms.json points.ply")                                           \
    X(dataset, use_dataset, NULL, "transforms.json a.png a_mask.png depth/a.png")                            \
    X(checkpoint, use_checkpoint, mend_checkpoint, "a.checkpoint a.checkpoint.a0")

#define FUZZ_DIVISION "\n%%\n"

// Of the checkpoints that runs.cpp writes.
static const checkpoint_key fuzz_key = {"--seed 3\n", 0x12345678, "--seed 0\n"};

typedef struct fuzz_target {
    const char *name, *files;
    // The files lie in the folder; `path` is the first. Ends the process by abort() where what is promised does not hold.
    void (*use)(const char *folder, const char *path);
    // Makes checksums right, which a chance change never does. May be NULL.
    void (*mend)(uint8_t *bytes, size_t size);
} fuzz_target;

const fuzz_target *fuzz_find(const char *name); // NULL: there is none
// Writes the files of an input to a folder of this process in memory, and uses them.
void fuzz_use(const fuzz_target *target, const uint8_t *bytes, size_t size);

#ifdef __cplusplus
}
#endif
