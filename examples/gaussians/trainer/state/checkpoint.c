// SPDX-License-Identifier: MIT
#include "state/checkpoint.h"
#include "arrays.h"
#include "state/checkpoint_file.h"
#include "frames/device_gaussians.h"
#include "scene.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    VERSION = 10,
    SETS = 4, // Gaussians, Adam's two moments, the average
    ARRAYS = SETS * GS_ARRAYS + 1,
    LESSONS = 1 + TEACHERS_MOST, // scenes of lesson_scenes
    INSIDE = 2                   // in place of a letter: the rows are in FILE
};

// FILE: this, the settings, a part_entry for each part, the exposures, the poses, the scenes of lessons, the rows if they
// are INSIDE, the checksum.
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
    uint32_t data;   // fingerprint
    uint32_t letter; // of the parts: 0: a, 1: b
    uint32_t parts;
} checkpoint_header;

typedef struct part_entry {
    int64_t rows;
    uint32_t sum; // of the part's file
    uint32_t reserved;
} part_entry;

// A part: this, the rows of each array, the checksum.
typedef struct part_header {
    char magic[8];
    uint32_t version;
    int32_t sh_degree;
    int64_t iteration, first, rows; // first: place of the first row among all
    int64_t averaged;               // as in FILE
} part_header;

_Static_assert(sizeof(checkpoint_header) == 472 && sizeof(part_entry) == 16 && sizeof(part_header) == 48,
               "the files have no padding");

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

static uint64_t part_bytes(const part_header *part) {
    return sizeof *part + (uint64_t)part->rows * row_bytes(part->sh_degree, part->averaged) +
           sizeof(uint32_t);
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

// Where the rows are if they are in FILE. Does not overflow if the header's counts are in range.
static uint64_t rows_begin(const checkpoint_header *header) {
    return sizeof *header + header->settings_bytes + header->parts * sizeof(part_entry) +
           exposure_bytes(header->exposures) + pose_bytes(header->poses) + lesson_bytes(header);
}

static uint64_t file_bytes(const checkpoint_header *header) {
    const uint64_t rows = header->letter == INSIDE ? (uint64_t)header->count : 0;
    return rows_begin(header) + rows * row_bytes(header->sh_degree, header->averaged) + sizeof(uint32_t);
}

static bool part_path(char path[PATH_MAX], const char *file, uint32_t letter, int part, fault *why) {
    const int length = snprintf(path, PATH_MAX, "%s.%c%d", file, "ab"[letter], part);
    return (length > 0 && length < PATH_MAX) || fail(why, "%s: the name is too long", file);
}

static bool is_alone(const ranks *group) {
    return ranks_count(group) == 1;
}

// A failure of one rank is one of all.
static bool told(ranks *group, bool done, fault *why) {
    if (done || is_alone(group)) return done;
    if (!*ranks_error(group)) ranks_fail_with(group, why);
    return fail(why, "%s", ranks_error(group));
}

// ---- reading FILE

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
           header->poses <= CHECKPOINT_MAX_VIEWS && header->letter <= INSIDE && header->parts >= 1 &&
           header->parts <= (header->letter == INSIDE ? 1 : RANKS_MAX) &&
           header->file_bytes == file_bytes(header);
}

static bool read_header(checkpoint_reader *r, checkpoint_header *header, fault *why) {
    const char *const path = r->file.path;
    return input_file_read(&r->file, header, sizeof *header, "a checkpoint's header", why) &&
           checkpoint_check_kind(path, header->magic, header->version, checkpoint_magic, VERSION, why) &&
           (header_is_right(header) || fail(why, "%s: damaged: its header is inconsistent", path)) &&
           checkpoint_check_size(&r->file, header->file_bytes, why) && checkpoint_check_sum(r, NULL, why);
}

static bool read_entries(checkpoint_reader *r, const checkpoint_header *header, part_entry *entries,
                         fault *why) {
    int64_t rows = 0;
    if (!input_file_read(&r->file, entries, header->parts * sizeof *entries, "a checkpoint's parts", why))
        return false;
    for (uint32_t p = 0; p < header->parts; p++) {
        if (entries[p].rows < 0 || entries[p].rows > header->count - rows)
            return fail(why, "%s: damaged: its parts are inconsistent", r->file.path);
        rows += entries[p].rows;
    }
    return rows == header->count || fail(why, "%s: damaged: its parts are inconsistent", r->file.path);
}

// ---- writing

static void put_rows(checkpoint_writer *w, const training_state *state) {
    row_array arrays[ARRAYS];
    list_arrays(state, arrays);
    for (int a = 0; a < ARRAYS; a++)
        checkpoint_put(w, arrays[a].memory, (uint64_t)state->gaussians.count * arrays[a].row_bytes);
}

static void put_scene(checkpoint_writer *w, const gs_gaussians *scene) {
    const gs_arrays a = gs_arrays_of(scene);
    for (int i = 0; i < GS_ARRAYS; i++)
        checkpoint_put(w, a.of[i], (uint64_t)scene->count * (uint64_t)a.width[i] * sizeof(float));
}

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

static bool write_part(const char *path, const training_state *state, int64_t first, uint32_t *sum,
                       fault *why) {
    const gs_gaussians *const own = &state->gaussians;
    part_header header = {.version = VERSION,
                          .sh_degree = own->sh_degree,
                          .iteration = state->iteration,
                          .first = first,
                          .rows = own->count,
                          .averaged = state->average.samples};
    memcpy(header.magic, checkpoint_magic_part, sizeof header.magic);
    checkpoint_writer w;
    if (!checkpoint_writer_open(&w, path, why)) return false;
    checkpoint_put(&w, &header, sizeof header);
    put_rows(&w, state);
    return checkpoint_writer_commit(&w, sum, why);
}

// The parts of a complete checkpoint at `path`, and their letter; none if there is no such.
static uint32_t parts_at(const char *path, uint32_t *letter) {
    checkpoint_header header;
    checkpoint_reader r;
    fault ignored;
    *letter = 1;
    if (access(path, F_OK) != 0 || !checkpoint_reader_open(&r, path, &ignored)) return 0;
    const bool has_parts = input_file_read(&r.file, &header, sizeof header, "a header", &ignored) &&
                           header.letter != INSIDE; // otherwise it need not be read
    checkpoint_reader_close(&r);
    if (!has_parts || !checkpoint_reader_open(&r, path, &ignored)) return 0;
    const bool is_one = read_header(&r, &header, &ignored);
    checkpoint_reader_close(&r);
    if (!is_one) return 0;
    *letter = header.letter;
    return header.parts;
}

// Closes the writer.
static bool write_file(checkpoint_writer *w, const checkpoint_key *key, const training_state *state,
                       const checkpoint_header *like, const part_entry *entries, fault *why) {
    checkpoint_header header = *like;
    memcpy(header.magic, checkpoint_magic, sizeof header.magic);
    header.version = VERSION;
    header.settings_bytes = (uint32_t)strlen(key->settings);
    header.data = key->data;
    header.file_bytes = file_bytes(&header);
    checkpoint_put(w, &header, sizeof header);
    checkpoint_put(w, key->settings, header.settings_bytes);
    checkpoint_put(w, entries, header.parts * sizeof *entries);
    checkpoint_put(w, state->exposure, exposure_bytes(state->exposures));
    checkpoint_put(w, state->pose, pose_bytes(state->poses));
    lesson_scenes lessons = state->lessons;
    for (int i = 0; i < LESSONS; i++) put_scene(w, lesson_scene(&lessons, i));
    if (header.letter == INSIDE) put_rows(w, state);
    return checkpoint_writer_commit(w, NULL, why);
}

static void remove_parts(const char *path, uint32_t letter, uint32_t parts) {
    char part[PATH_MAX];
    fault ignored;
    for (uint32_t p = 0; letter != INSIDE && p < parts; p++)
        if (part_path(part, path, letter, (int)p, &ignored)) unlink(part);
}

static checkpoint_header header_of(const training_state *state, uint32_t letter) {
    checkpoint_header header = {.iteration = state->iteration,
                                .steps = state->steps,
                                .count = training_state_count(state),
                                .exposures = state->exposures,
                                .exposed = state->exposed,
                                .poses = state->poses,
                                .averaged = state->average.samples,
                                .schedule = state->schedule,
                                .learning = state->learning,
                                .sh_degree = state->gaussians.sh_degree,
                                .letter = letter,
                                .parts = (uint32_t)ranks_count(state->group)};
    header.teachers = state->lessons.teachers, header.teachers_wanted = state->lessons.wanted;
    for (int i = 0; i < LESSONS; i++)
        header.lessons[i] = i == 0 ? state->lessons.start.count : state->lessons.teacher[i - 1].count;
    return header;
}

static bool write_alone(const char *path, const checkpoint_key *key, const training_state *state,
                        fault *why) {
    const part_entry entry = {.rows = state->gaussians.count};
    const checkpoint_header header = header_of(state, INSIDE);
    uint32_t letter = INSIDE;
    const uint32_t old_parts = parts_at(path, &letter);
    checkpoint_writer w;
    if (!checkpoint_writer_open(&w, path, why) || !write_file(&w, key, state, &header, &entry, why))
        return false;
    remove_parts(path, letter, old_parts);
    return true;
}

bool checkpoint_write_to(const checkpoint_sink *sink, const checkpoint_key *key, const training_state *state,
                         fault *why) {
    const part_entry entry = {.rows = state->gaussians.count};
    const checkpoint_header header = header_of(state, INSIDE);
    checkpoint_writer w;
    return checkpoint_writer_open_sink(&w, sink, why) && write_file(&w, key, state, &header, &entry, why);
}

static bool write_parts(const char *path, const checkpoint_key *key, const training_state *state,
                        fault *why) {
    ranks *const group = state->group;
    const int own = ranks_own(group);
    uint32_t old_letter = 1, sum = 0;
    const uint32_t old_parts = own == 0 ? parts_at(path, &old_letter) : 0;
    int64_t letters[RANKS_MAX], sums[RANKS_MAX];
    char part[PATH_MAX];
    if (!ranks_tell_all(group, old_letter == 0, letters, NULL)) return false; // rank 0's counts
    const uint32_t letter = (uint32_t)letters[0];
    if (!part_path(part, path, letter, own, why) ||
        !write_part(part, state, training_state_first(state), &sum, why))
        return false;
    if (!ranks_tell_all(group, sum, sums, NULL)) return false; // all parts are complete
    if (own == 0) {
        part_entry entries[RANKS_MAX] = {0};
        for (int r = 0; r < ranks_count(group); r++)
            entries[r] = (part_entry){state->begin[r + 1] - state->begin[r], (uint32_t)sums[r], 0};
        const checkpoint_header header = header_of(state, letter);
        checkpoint_writer w;
        if (!checkpoint_writer_open(&w, path, why) || !write_file(&w, key, state, &header, entries, why))
            return false;
        remove_parts(path, old_letter, old_parts);
    }
    return ranks_barrier(group, NULL);
}

bool checkpoint_write(const char *path, const checkpoint_key *key, const training_state *state, fault *why) {
    return is_alone(state->group) ? write_alone(path, key, state, why)
                                  : told(state->group, write_parts(path, key, state, why), why);
}

// ---- reading the parts

// The rows that a rank wants of a part.
typedef struct wanted_rows {
    int64_t first, rows; // in the part
    int64_t to;          // in the rank's arrays
} wanted_rows;

static bool check_part(checkpoint_reader *r, const part_header *wanted, uint32_t sum, fault *why) {
    const char *const path = r->file.path;
    part_header header;
    uint32_t found = 0;
    if (!input_file_read(&r->file, &header, sizeof header, "a checkpoint's part", why) ||
        !checkpoint_check_kind(path, header.magic, header.version, checkpoint_magic_part, VERSION, why) ||
        !checkpoint_check_size(&r->file, part_bytes(wanted), why) || !checkpoint_check_sum(r, &found, why))
        return false;
    return (found == sum && memcmp(&header, wanted, sizeof header) == 0) ||
           fail(why, "%s: a part of another checkpoint", path);
}

static bool read_rows(checkpoint_reader *r, const wanted_rows *wanted, int64_t rows,
                      const training_state *state, fault *why) {
    row_array arrays[ARRAYS];
    list_arrays(state, arrays);
    for (int a = 0; a < ARRAYS; a++) {
        const uint64_t row = arrays[a].row_bytes;
        const int64_t after = rows - wanted->first - wanted->rows;
        if (!input_file_skip(&r->file, (uint64_t)wanted->first * row, "a checkpoint's rows", why) ||
            !checkpoint_get(r, arrays[a].memory + (uint64_t)wanted->to * row, (uint64_t)wanted->rows * row,
                            why) ||
            !input_file_skip(&r->file, (uint64_t)after * row, "a checkpoint's rows", why))
            return false;
    }
    return true;
}

// For each part with rows of this rank: checks it, or reads its rows into the state if there is one.
static bool for_parts(const char *path, const checkpoint_header *header, const part_entry *entries,
                      const int64_t own[2], const training_state *state, fault *why) {
    part_header part = {.version = VERSION,
                        .sh_degree = header->sh_degree,
                        .iteration = header->iteration,
                        .averaged = header->averaged};
    memcpy(part.magic, checkpoint_magic_part, sizeof part.magic);
    for (uint32_t p = 0; p < header->parts; part.first += entries[p++].rows) {
        part.rows = entries[p].rows;
        const int64_t begin = own[0] > part.first ? own[0] : part.first, part_end = part.first + part.rows,
                      end = own[1] < part_end ? own[1] : part_end;
        const wanted_rows wanted = {begin - part.first, end - begin, begin - own[0]};
        char name[PATH_MAX];
        checkpoint_reader r;
        if (begin >= end) continue;
        if (!part_path(name, path, header->letter, (int)p, why) || !checkpoint_reader_open(&r, name, why))
            return false;
        const bool done = state ? input_file_skip(&r.file, sizeof part, "a checkpoint's part", why) &&
                                      read_rows(&r, &wanted, part.rows, state, why)
                                : check_part(&r, &part, entries[p].sum, why);
        checkpoint_reader_close(&r);
        if (!done) return false;
    }
    return true;
}

static bool read_all(checkpoint_reader *r, const checkpoint_key *key, ranks *group, training_state *state,
                     fault *why) {
    const char *const path = r->file.path;
    checkpoint_header header;
    part_entry entries[RANKS_MAX];
    int64_t begin[RANKS_MAX + 1];
    if (!read_header(r, &header, why) ||
        !checkpoint_check_key(r, header.settings_bytes, header.data, key, why) ||
        !read_entries(r, &header, entries, why))
        return false;
    shard_begin(group, header.count, begin);
    const int64_t *const own = begin + ranks_own(group);
    if (header.letter != INSIDE && !for_parts(path, &header, entries, own, NULL, why))
        return false; // before memory for them
    training_state_open_empty(state, group, header.count, header.sh_degree);
    state->iteration = header.iteration;
    state->steps = header.steps;
    state->schedule = header.schedule;
    state->learning = header.learning;
    if (header.averaged > 0)
        state->average = (parameter_average){header.averaged,
                                             device_gaussians_open(state->gaussians.count, header.sh_degree)};
    if (header.exposures > 0) training_state_open_exposures(state, header.exposures);
    state->exposed = (exposure_rule)header.exposed;
    const wanted_rows inside = {own[0], own[1] - own[0], 0};
    return (header.poses == 0 || training_state_open_poses(state, header.poses, why)) &&
           checkpoint_get(r, state->exposure, exposure_bytes(header.exposures), why) &&
           checkpoint_get(r, state->pose, pose_bytes(header.poses), why) &&
           read_lessons(r, &header, &state->lessons, why) &&
           (header.letter == INSIDE ? read_rows(r, &inside, header.count, state, why)
                                    : for_parts(path, &header, entries, own, state, why));
}

// Closes the reader.
static bool read_checkpoint(checkpoint_reader *r, const checkpoint_key *key, ranks *group,
                            training_state *state, fault *why) {
    const bool done = read_all(r, key, group, state, why);
    checkpoint_reader_close(r);
    if (!done) training_state_close(state);
    return done;
}

bool checkpoint_read(const char *path, const checkpoint_key *key, ranks *group, training_state *state,
                     fault *why) {
    *state = (training_state){0};
    checkpoint_reader r;
    const bool done = checkpoint_reader_open(&r, path, why) && read_checkpoint(&r, key, group, state, why);
    return told(group, done && ranks_barrier(group, NULL), why);
}

bool checkpoint_read_from(const void *bytes, size_t count, const checkpoint_key *key, ranks *group,
                          training_state *state, fault *why) {
    *state = (training_state){0};
    checkpoint_reader r;
    return checkpoint_reader_open_memory(&r, bytes, count, why) &&
           read_checkpoint(&r, key, group, state, why);
}
