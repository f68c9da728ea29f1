// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // memmem
#include "targets.h"
#include "dataset.h"
#include "images/image.h"
#include "scene.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static void expect(bool holds, const char *what, const fault *why) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s: %s\n", what, why->text);
    abort();
}

// What is refused is refused with a text.
static bool accepted(bool done, const fault *why) {
    expect(done || why->text[0], "a refusal says why", why);
    return done;
}

static void join(char out[PATH_ROOM], const char *folder, const char *name) {
    fault why;
    expect(path_join(out, folder, name, &why), "the path is short", &why);
}

// ---- scenes: what can be read can be written, and read again

static void use_scene(const char *folder, const char *path) {
    const char *const written = strstr(path, ".sog")                             ? "b.sog"
                                : strstr(path, ".spz") || strstr(path, ".splat") ? "b.spz"
                                                                                 : "b.ply";
    fault why = {""};
    gs_gaussians scene, again;
    scene_notes notes;
    accepted(scene_read_notes(path, &notes, &why), &why);
    if (!accepted(scene_read(path, SCENE_ANY, &scene, &why), &why)) return;
    gaussians_keep_finite(&scene);
    char other[PATH_ROOM];
    join(other, folder, written);
    if (scene.count <= 64 && accepted(scene_write(other, &scene, &why), &why)) {
        expect(scene_read(other, SCENE_FINITE, &again, &why), "what was written can be read", &why);
        expect(again.count == scene.count, "no Gaussian is lost", &why);
        scene_close(&again);
    }
    scene_close(&scene);
}

// An input is what is inside of the gzip file.
static void use_spz_inside(const char *folder, const char *path) {
    static uint8_t bytes[1 << 20];
    char packed[PATH_ROOM];
    join(packed, folder, "packed.spz");
    FILE *const in = fopen(path, "rb");
    gzFile out = gzopen(packed, "wb0");
    fault why = {"the disk is full"};
    expect(in && out, "files can be opened", &why);
    const size_t count = fread(bytes, 1, sizeof bytes, in);
    expect(gzwrite(out, bytes, (unsigned)count) == (int)count && gzclose(out) == Z_OK, "gzip", &why);
    fclose(in);
    use_scene(folder, packed);
}

static void use_points(const char *folder, const char *path) {
    (void)folder;
    fault why = {""};
    reconstruction points = {0};
    accepted(ply_read_points(path, &points, &why), &why);
    reconstruction_close(&points);
}

// ---- pictures

static void use_picture(const char *folder, const char *path) {
    fault why = {""};
    image picture, small;
    plane map, half;
    if (accepted(plane_read(path, &map, &why), &why)) {
        if (plane_downscale(&map, 2, &half, &why)) plane_close(&half);
        plane_close(&map);
    }
    if (!accepted(image_read(path, &picture, &why), &why)) return;
    if ((int64_t)picture.width * picture.height <= 4096) {
        char other[PATH_ROOM];
        join(other, folder, "b.png");
        expect(image_downscale(&picture, 3, &small, &why), "pictures are downscaled", &why);
        expect(image_write_png(other, &small, &why), "pictures are written", &why);
        image_close(&small);
    }
    image_close(&picture);
}

// ---- cameras

static void use_cameras(const char *folder, const char *path) {
    (void)path;
    fault why = {""};
    const dataset_options options = {.downscale = 1, .wanted = dataset_no_picture, .with_tracks = true};
    dataset data;
    if (accepted(dataset_load(folder, &options, &data, &why), &why)) dataset_close(&data);
}

static void use_dataset(const char *folder, const char *path) {
    (void)path;
    fault why = {""};
    const dataset_options options = {.downscale = 2, .keep_alpha = true, .undistort = true},
                          others = {.downscale = 1, .mask_from_alpha = true};
    dataset data;
    char maps[PATH_ROOM];
    join(maps, folder, "depth");
    if (!accepted(dataset_load(folder, &options, &data, &why), &why)) return;
    accepted(depth_maps_load(&data, maps, &options, DEPTH_MAPS_ALL, &why), &why);
    dataset_close(&data);
    if (accepted(dataset_load(folder, &others, &data, &why), &why)) dataset_close(&data);
}

// ---- others

static void use_checkpoint(const char *folder, const char *path) {
    (void)folder;
    fault why = {""};
    training_state state = {0};
    ranks *const alone = ranks_alone_open();
    if (accepted(checkpoint_read(path, &fuzz_key, &(training_place){alone, NULL}, &state, &why), &why))
        training_state_close(&state);
    ranks_alone_close(alone);
}

// ---- checksums

static void mend_checkpoint(uint8_t *bytes, size_t size) {
    if (size < 4) return;
    const uint32_t sum = (uint32_t)crc32_z(crc32(0, NULL, 0), bytes, size - 4);
    memcpy(bytes + size - 4, &sum, 4);
}

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}
static void mend_picture(uint8_t *bytes, size_t size) { // of PNG: each chunk has length, kind, bytes, CRC-32
    if (size < 8 || memcmp(bytes, "\x89PNG", 4) != 0) return;
    for (size_t at = 8; size - at >= 12;) {
        const size_t length = big_endian(bytes + at);
        if (length > size - at - 12) return;
        const uint32_t sum = (uint32_t)crc32_z(crc32(0, NULL, 0), bytes + at + 4, length + 4);
        for (int k = 0; k < 4; k++) bytes[at + 8 + length + (size_t)k] = (uint8_t)(sum >> (24 - 8 * k));
        at += length + 12;
    }
}

static uint32_t little_endian(const uint8_t *at) {
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}
static void mend_sog(uint8_t *bytes,
                     size_t size) { // of ZIP: entries of the directory name those of files, stored
    for (size_t at = 0; size - at >= 46 && size > 46; at++) {
        if (memcmp(bytes + at, "PK\1\2", 4) != 0 || bytes[at + 10] || bytes[at + 11]) continue;
        const size_t length = little_endian(bytes + at + 20), entry = little_endian(bytes + at + 42);
        if (entry > size - 30) continue;
        const size_t begin = entry + 30 + bytes[entry + 26] + bytes[entry + 28];
        if (begin > size || length > size - begin) continue;
        const uint32_t sum = (uint32_t)crc32_z(crc32(0, NULL, 0), bytes + begin, length);
        memcpy(bytes + at + 16, &sum, 4);
    }
}

// ---- the list

#define X(name, use, mend, files) {#name, files, use, mend},
static const fuzz_target targets[] = {FUZZ_TARGETS(X)};
#undef X

const fuzz_target *fuzz_find(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}

// ---- the harness

static char folder[PATH_ROOM];

static void remove_folder(void) {
    char command[PATH_ROOM + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) fprintf(stderr, "%s is left\n", folder);
}

static void open_folder(void) {
    char inside[PATH_ROOM];
    const char *const memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    fault why = {"no folder"};
    snprintf(folder, sizeof folder, "%s/fuzz_XXXXXX", memory);
    expect(mkdtemp(folder) != NULL, "a folder can be made", &why);
    join(inside, folder, "depth");
    expect(mkdir(inside, 0700) == 0, "a folder can be made", &why);
    atexit(remove_folder);
}

void fuzz_use(const fuzz_target *target, const uint8_t *bytes, size_t size) {
    char names[128], first[PATH_ROOM] = "", path[PATH_ROOM], *rest = NULL;
    if (!*folder) open_folder();
    snprintf(names, sizeof names, "%s", target->files);
    for (const char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        const uint8_t *const end = memmem(bytes, size, FUZZ_DIVISION, strlen(FUZZ_DIVISION));
        const bool last = !rest || !*rest;
        const size_t length = end && !last ? (size_t)(end - bytes) : size;
        uint8_t *const part = malloc(length + 1);
        fault why = {"no memory or disk"};
        join(path, folder, name);
        FILE *const file = fopen(path, "wb");
        expect(part && file, "files can be written", &why);
        if (length) memcpy(part, bytes, length);
        if (target->mend) target->mend(part, length);
        if (strstr(name, ".png")) mend_picture(part, length);
        expect(fwrite(part, 1, length, file) == length, "files can be written", &why);
        expect(fclose(file) == 0, "files can be written", &why);
        free(part);
        if (!*first) memcpy(first, path, sizeof first);
        const size_t used = length + (end && !last ? strlen(FUZZ_DIVISION) : 0);
        bytes += used;
        size -= used;
    }
    target->use(folder, first);
}

#ifdef FUZZ_LIBFUZZER
// FUZZ_TARGET names the target.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const fuzz_target *target;
    const char *const name = getenv("FUZZ_TARGET");
    if (!target) target = fuzz_find(name ? name : "");
    if (!target) {
        fprintf(stderr, "FUZZ_TARGET must name a target of targets.h\n");
        exit(1);
    }
    fuzz_use(target, bytes, size);
    return 0;
}
#endif
