// SPDX-License-Identifier: MIT
#include "state/checkpoint.h"
#include "arrays.h"
#include "state/checkpoint_file.h"
#include "frames/device_gaussians.h"
#include "scene.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    VERSION = 11,
    SETS = 4, // Gaussians, Adam's two moments, the average
    ARRAYS = SETS * GS_ARRAYS + 1,
    LESSONS = 1 + TEACHERS_MOST, // scenes of lesson_scenes
    PIECE = 1 << 16              // rows that come from other ranks at once
};

// The file: this, the settings, the exposures, the poses, the scenes of lessons, all rows of each array, the checksum.
typedef struct checkpoint_header {
    char magic[8];
    uint32_t version;
    uint32_t settings_bytes;
    uint64_t file_bytes; // of the whole file, with the checksum at its end
    int64_t iteration, steps, count, exposures, poses, averaged; // averaged: samples; 0: there is no average
    schedule_place schedule;
    learning_curve learning;
    int64_t exposed;          // an exposure_rule
    int64_t lessons[LESSONS]; // Gaussians of the start and of each teacher
    int32_t teachers, teachers_wanted;
    int32_t sh_degree;
    uint32_t data; // fingerprint
} checkpoint_header;

_Static_assert(sizeof(checkpoint_header) == 464, "the file has no padding");

// An array of rows.
typedef struct row_array {
    char *memory;
    uint64_t row_bytes;
} row_array;

static void list_arrays(const training_state *state, row_array arrays[ARRAYS]) {
    const gs_gaussians *const sets[SETS] = {&state->gaussians, &state->first_moment, &state->second_moment,
                                            &state->average.average};
    const gs_arrays shape = gs_arrays_of(sets[0]);
    for (int s = 0; s < SETS; s++) {
        const gs_arrays of = gs_arrays_of(sets[s]);
        const uint64_t value = s < SETS - 1 || state->average.samples > 0 ? sizeof(float) : 0;
        for (int a = 0; a < GS_ARRAYS; a++)
            arrays[s * GS_ARRAYS + a] = (row_array){(char *)of.of[a], (uint64_t)shape.width[a] * value};
    }
    arrays[ARRAYS - 1] = (row_array){(char *)state->density, training_state_density_bytes(1)};
}

static uint64_t row_bytes(int32_t sh_degree, int64_t averaged) {
    row_array arrays[ARRAYS];
    const training_state shape = {.gaussians.sh_degree = sh_degree, .average.samples = averaged};
    list_arrays(&shape, arrays);
    uint64_t bytes = 0;
    for (int a = 0; a < ARRAYS; a++) bytes += arrays[a].row_bytes;
    return bytes;
}

static uint64_t exposure_bytes(int64_t exposures) {
    return (uint64_t)exposures * GS_EXPOSURE_VALUES * sizeof(float);
}

static uint64_t pose_bytes(int64_t poses) {
    return (uint64_t)poses * sizeof(refined_pose);
}

static uint64_t scene_bytes(int64_t count, int32_t sh_degree) {
    const gs_gaussians shape = {.sh_degree = sh_degree};
    const gs_arrays a = gs_arrays_of(&shape);
    uint64_t bytes = 0;
    for (int i = 0; i < GS_ARRAYS; i++) bytes += (uint64_t)count * (uint64_t)a.width[i] * sizeof(float);
    return bytes;
}

static uint64_t lesson_bytes(const checkpoint_header *header) {
    uint64_t bytes = 0;
    for (int i = 0; i < LESSONS; i++) bytes += scene_bytes(header->lessons[i], header->sh_degree);
    return bytes;
}

static gs_gaussians *lesson_scene(lesson_scenes *lessons, int i) {
    return i == 0 ? &lessons->start : &lessons->teacher[i - 1];
}

// Does not overflow if the header's counts are in range.
static uint64_t file_bytes(const checkpoint_header *header) {
    return sizeof *header + header->settings_bytes + exposure_bytes(header->exposures) +
           pose_bytes(header->poses) + lesson_bytes(header) +
           (uint64_t)header->count * row_bytes(header->sh_degree, header->averaged) + sizeof(uint32_t);
}

// ---- reading

static bool lessons_are_right(const checkpoint_header *header) {
    bool right = header->teachers >= 0 && header->teachers <= header->teachers_wanted &&
                 header->teachers_wanted <= TEACHERS_MOST &&
                 header->teachers * scheduled_early_views(&header->schedule) <= header->iteration;
    for (int i = 0; i < LESSONS && right; i++)
        right = header->lessons[i] >= 0 && header->lessons[i] < INT32_MAX &&
                (i <= header->teachers || header->lessons[i] == 0);
    return right && (header->teachers_wanted == 0 || header->schedule.ended > 0);
}

static bool header_is_right(const checkpoint_header *header) {
    return header->count >= 0 && header->count < INT32_MAX && header->sh_degree >= 0 &&
           header->sh_degree <= GS_MAX_SH_DEGREE && header->iteration >= 0 &&
           header->iteration <= SCHEDULE_MOST && header->schedule.ended >= 0 &&
           header->schedule.ended <= header->iteration && lessons_are_right(header) &&
           learning_curve_is_possible(&header->learning) && header->steps >= 0 &&
           header->steps <= header->iteration && header->averaged >= 0 && header->averaged <= header->steps &&
           header->exposures >= 0 && header->exposures <= CHECKPOINT_MAX_VIEWS &&
           header->exposed >= EXPOSURE_FIRST && header->exposed <= EXPOSURE_IN_ORDER &&
           header->settings_bytes <= CHECKPOINT_MAX_SETTINGS && header->poses >= 0 &&
           header->poses <= CHECKPOINT_MAX_VIEWS && header->file_bytes == file_bytes(header);
}

static bool read_header(checkpoint_reader *r, checkpoint_header *header, fault *why) {
    const char *const path = r->file.path;
    return input_file_read(&r->file, header, sizeof *header, "a checkpoint's header", why) &&
           checkpoint_check_kind(path, header->magic, header->version, VERSION, why) &&
           (header_is_right(header) || fail(why, "%s: damaged: its header is inconsistent", path)) &&
           checkpoint_check_size(&r->file, header->file_bytes, why) && checkpoint_check_sum(r, why);
}

// ---- writing

static void put_scene(checkpoint_writer *w, const gs_gaussians *scene) {
    const gs_arrays a = gs_arrays_of(scene);
    for (int i = 0; i < GS_ARRAYS; i++)
        checkpoint_put(w, a.of[i], (uint64_t)scene->count * (uint64_t)a.width[i] * sizeof(float));
}

static checkpoint_header header_of(const checkpoint_key *key, const training_state *state) {
    checkpoint_header header = {.version = VERSION,
                                .settings_bytes = (uint32_t)strlen(key->settings),
                                .iteration = state->iteration,
                                .steps = state->steps,
                                .count = training_state_count(state),
                                .exposures = state->exposures,
                                .exposed = state->exposed,
                                .poses = state->poses,
                                .averaged = state->average.samples,
                                .schedule = state->schedule,
                                .learning = state->learning,
                                .sh_degree = state->gaussians.sh_degree,
                                .data = key->data};
    memcpy(header.magic, checkpoint_magic, sizeof header.magic);
    header.teachers = state->lessons.teachers, header.teachers_wanted = state->lessons.wanted;
    for (int i = 0; i < LESSONS; i++)
        header.lessons[i] = i == 0 ? state->lessons.start.count : state->lessons.teacher[i - 1].count;
    header.file_bytes = file_bytes(&header);
    return header;
}

static void put_beginning(checkpoint_writer *w, const checkpoint_key *key, const training_state *state) {
    const checkpoint_header header = header_of(key, state);
    lesson_scenes lessons = state->lessons;
    checkpoint_put(w, &header, sizeof header);
    checkpoint_put(w, key->settings, header.settings_bytes);
    checkpoint_put(w, state->exposure, exposure_bytes(state->exposures));
    checkpoint_put(w, state->pose, pose_bytes(state->poses));
    for (int i = 0; i < LESSONS; i++) put_scene(w, lesson_scene(&lessons, i));
}

// A collective. w: NULL on ranks that do not write.
static bool put_rows(checkpoint_writer *w, const training_state *state) {
    const int64_t all = training_state_count(state);
    row_array arrays[ARRAYS];
    device_buffer block = {0};
    bool done = true;
    list_arrays(state, arrays);
    for (int a = 0; a < ARRAYS; a++)
        for (int64_t first = 0; first < all && arrays[a].row_bytes > 0 && done; first += PIECE) {
            const row_range rows = {first, all - first < PIECE ? all - first : PIECE};
            const void *const from =
                training_state_rows(state, arrays[a].memory, (int64_t)arrays[a].row_bytes, rows, &block);
            done = from != NULL;
            if (done && w) checkpoint_put(w, from, (uint64_t)rows.count * arrays[a].row_bytes);
        }
    device_buffer_close(&block);
    return done;
}

bool checkpoint_write_to(const checkpoint_sink *sink, const checkpoint_key *key, const training_state *state,
                         fault *why) {
    checkpoint_writer w;
    if (!checkpoint_writer_open_sink(&w, sink, why)) return false;
    put_beginning(&w, key, state);
    put_rows(&w, state);
    return checkpoint_writer_commit(&w, why);
}

static bool write_file(const char *path, const checkpoint_key *key, const training_state *state, fault *why) {
    const bool writes = ranks_own(state->group) == 0;
    checkpoint_writer w;
    if (writes && !checkpoint_writer_open(&w, path, why)) return false;
    if (writes) put_beginning(&w, key, state);
    const bool done = put_rows(writes ? &w : NULL, state);
    if (writes && !done) checkpoint_writer_discard(&w);
    return done && (!writes || checkpoint_writer_commit(&w, why));
}

// A failure of one rank is one of all.
static bool told(ranks *group, bool done, fault *why) {
    if (done || ranks_count(group) == 1) return done;
    if (!*ranks_error(group)) ranks_fail_with(group, why);
    return fail(why, "%s", ranks_error(group));
}

bool checkpoint_write(const char *path, const checkpoint_key *key, const training_state *state, fault *why) {
    return told(state->group, write_file(path, key, state, why) && ranks_barrier(state->group, NULL), why);
}

// ---- reading the rest

static bool read_lessons(checkpoint_reader *r, const checkpoint_header *header, lesson_scenes *lessons,
                         fault *why) {
    bool done = true;
    lessons->teachers = header->teachers, lessons->wanted = header->teachers_wanted;
    for (int i = 0; i < LESSONS && done; i++) {
        if (header->lessons[i] == 0) continue;
        gs_gaussians *const scene = lesson_scene(lessons, i);
        if (i > 0)
            *scene = device_gaussians_open(header->lessons[i], header->sh_degree);
        else if (!scene_open(scene, header->lessons[i], header->sh_degree, why))
            return false;
        const gs_arrays a = gs_arrays_of(scene);
        for (int k = 0; k < GS_ARRAYS && done; k++)
            done = checkpoint_get(r, a.of[k], (uint64_t)scene->count * (uint64_t)a.width[k] * sizeof(float),
                                  why);
    }
    return done;
}

// This rank's rows of all.
static bool read_rows(checkpoint_reader *r, const training_state *state, fault *why) {
    const uint64_t first = (uint64_t)state->first, rows = (uint64_t)state->gaussians.count,
                   after = (uint64_t)state->all - first - rows;
    row_array arrays[ARRAYS];
    list_arrays(state, arrays);
    for (int a = 0; a < ARRAYS; a++) {
        const uint64_t row = arrays[a].row_bytes;
        if (!input_file_skip(&r->file, first * row, "a checkpoint's rows", why) ||
            !checkpoint_get(r, arrays[a].memory, rows * row, why) ||
            !input_file_skip(&r->file, after * row, "a checkpoint's rows", why))
            return false;
    }
    return true;
}

// Closes the reader.
static bool read_checkpoint(checkpoint_reader *r, const checkpoint_key *key, const training_place *place,
                            training_state *state, fault *why) {
    checkpoint_header header;
    bool done = read_header(r, &header, why) &&
                checkpoint_check_key(r, header.settings_bytes, header.data, key, why) &&
                (training_state_open_empty(state, place, header.count, header.sh_degree) ||
                 fail(why, "%s", ranks_error(place->group)));
    if (done) {
        state->iteration = header.iteration;
        state->steps = header.steps;
        state->schedule = header.schedule;
        state->learning = header.learning;
        state->exposed = (exposure_rule)header.exposed;
        if (header.averaged > 0)
            state->average = (parameter_average){
                header.averaged, device_gaussians_open(state->gaussians.count, header.sh_degree)};
        if (header.exposures > 0) training_state_open_exposures(state, header.exposures);
        done = (header.poses == 0 || training_state_open_poses(state, header.poses, why)) &&
               checkpoint_get(r, state->exposure, exposure_bytes(header.exposures), why) &&
               checkpoint_get(r, state->pose, pose_bytes(header.poses), why) &&
               read_lessons(r, &header, &state->lessons, why) && read_rows(r, state, why);
    }
    checkpoint_reader_close(r);
    if (!done) training_state_close(state);
    return done;
}

bool checkpoint_read_on(const char *path, const checkpoint_key *key, const training_place *place,
                        training_state *state, fault *why) {
    checkpoint_reader r;
    *state = (training_state){0};
    const bool done = checkpoint_reader_open(&r, path, why) && read_checkpoint(&r, key, place, state, why);
    return told(place->group, done && ranks_barrier(place->group, NULL), why);
}

bool checkpoint_read(const char *path, const checkpoint_key *key, ranks *group, training_state *state,
                     fault *why) {
    return checkpoint_read_on(path, key, &(training_place){group, NULL}, state, why);
}

bool checkpoint_read_from(const void *bytes, size_t count, const checkpoint_key *key, ranks *group,
                          training_state *state, fault *why) {
    checkpoint_reader r;
    *state = (training_state){0};
    return checkpoint_reader_open_memory(&r, bytes, count, why) &&
           read_checkpoint(&r, key, &(training_place){group, NULL}, state, why);
}
