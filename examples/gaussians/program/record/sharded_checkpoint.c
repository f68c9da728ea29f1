// SPDX-License-Identifier: MIT
#include "record/sharded_checkpoint.h"
#include "arrays.h"
#include "device.h"
#include "record/checkpoint_file.h"
#include "training_state.h"
#include "frames/device_gaussians.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1, SETS = 4, ARRAYS = SETS * GS_ARRAYS + 1, SET_LETTERS = 2 };

// FILE: this, the settings, a part_entry for each part, the exposures, the checksum.
typedef struct checkpoint_header {
    char magic[8];
    uint32_t version;
    uint32_t settings_bytes;
    uint64_t file_bytes;                                  // of the whole file, with the checksum at its end
    int64_t iteration, steps, count, exposures, averaged; // averaged: samples; 0: the parts have no average
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

_Static_assert(sizeof(checkpoint_header) == 80 && sizeof(part_entry) == 16 && sizeof(part_header) == 48,
               "the files have no padding");

// An array of rows.
typedef struct row_array {
    char *memory;
    uint64_t row_bytes;
} row_array;

static void list_arrays(const sharded_state *state, row_array arrays[ARRAYS]) {
    const gs_gaussians *const sets[SETS] = {&state->own.gaussians, &state->own.first_moment,
                                            &state->own.second_moment, &state->average.average};
    const gs_arrays shape = gs_arrays_of(sets[0]);
    for (int s = 0; s < SETS; s++) {
        const gs_arrays of = gs_arrays_of(sets[s]);
        const uint64_t value = s < SETS - 1 || state->average.samples > 0 ? sizeof(float) : 0;
        for (int a = 0; a < GS_ARRAYS; a++)
            arrays[s * GS_ARRAYS + a] = (row_array){(char *)of.of[a], (uint64_t)shape.width[a] * value};
    }
    arrays[ARRAYS - 1] = (row_array){(char *)state->density, training_state_density_bytes(1)};
}

static uint64_t part_bytes(const part_header *part) {
    row_array arrays[ARRAYS];
    const sharded_state shape = {.own.gaussians.sh_degree = part->sh_degree,
                                 .average.samples = part->averaged};
    list_arrays(&shape, arrays);
    uint64_t bytes = 0;
    for (int a = 0; a < ARRAYS; a++) bytes += arrays[a].row_bytes;
    return sizeof *part + (uint64_t)part->rows * bytes + sizeof(uint32_t);
}

static uint64_t exposure_bytes(int64_t exposures) {
    return (uint64_t)exposures * TRAINING_EXPOSURE_FLOATS * sizeof(float);
}

static uint64_t file_bytes(const checkpoint_header *header) {
    return sizeof *header + header->settings_bytes + header->parts * sizeof(part_entry) +
           exposure_bytes(header->exposures) + sizeof(uint32_t);
}

static bool part_path(char path[PATH_MAX], const char *file, uint32_t letter, int part, fault *why) {
    const int length = snprintf(path, PATH_MAX, "%s.%c%d", file, "ab"[letter], part);
    return (length > 0 && length < PATH_MAX) || fail(why, "%s: the name is too long", file);
}

// ---- reading FILE

static bool header_is_right(const checkpoint_header *header) {
    return header->count >= 0 && header->count < INT32_MAX && header->sh_degree >= 0 &&
           header->sh_degree <= GS_MAX_SH_DEGREE && header->iteration >= 0 && header->steps >= 0 &&
           header->steps <= header->iteration && header->averaged >= 0 && header->averaged <= header->steps &&
           header->exposures >= 0 && header->exposures <= CHECKPOINT_MAX_VIEWS &&
           header->settings_bytes <= CHECKPOINT_MAX_SETTINGS && header->letter < SET_LETTERS &&
           header->parts >= 1 && header->parts <= RANKS_MAX && header->file_bytes == file_bytes(header);
}

static bool read_header(checkpoint_reader *r, checkpoint_header *header, fault *why) {
    const char *const path = r->file.path;
    return input_file_read(&r->file, header, sizeof *header, "a checkpoint's header", why) &&
           checkpoint_check_kind(path, header->magic, header->version, checkpoint_magic_ranks, VERSION,
                                 why) &&
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

static bool write_part(const char *path, const sharded_state *state, int64_t first, uint32_t *sum,
                       fault *why) {
    const gs_gaussians *const own = &state->own.gaussians;
    part_header header = {.version = VERSION,
                          .sh_degree = own->sh_degree,
                          .iteration = state->iteration,
                          .first = first,
                          .rows = own->count,
                          .averaged = state->average.samples};
    memcpy(header.magic, checkpoint_magic_part, sizeof header.magic);
    row_array arrays[ARRAYS];
    list_arrays(state, arrays);
    checkpoint_writer w;
    if (!checkpoint_writer_open(&w, path, why)) return false;
    checkpoint_put(&w, &header, sizeof header);
    for (int a = 0; a < ARRAYS; a++)
        checkpoint_put(&w, arrays[a].memory, (uint64_t)own->count * arrays[a].row_bytes);
    return checkpoint_writer_commit(&w, sum, why);
}

// The parts of a complete checkpoint at `path`, and their letter; none if there is no such.
static uint32_t parts_at(const char *path, uint32_t *letter) {
    checkpoint_header header;
    checkpoint_reader r;
    fault ignored;
    *letter = 1;
    if (access(path, F_OK) != 0 || !checkpoint_reader_open(&r, path, &ignored)) return 0;
    const bool is_one = read_header(&r, &header, &ignored);
    checkpoint_reader_close(&r);
    if (!is_one) return 0;
    *letter = header.letter;
    return header.parts;
}

static bool write_file(const char *path, const checkpoint_key *key, const sharded_state *state,
                       const checkpoint_header *like, const part_entry *entries, fault *why) {
    checkpoint_header header = *like;
    memcpy(header.magic, checkpoint_magic_ranks, sizeof header.magic);
    header.version = VERSION;
    header.settings_bytes = (uint32_t)strlen(key->settings);
    header.data = key->data;
    header.file_bytes = file_bytes(&header);
    checkpoint_writer w;
    if (!checkpoint_writer_open(&w, path, why)) return false;
    checkpoint_put(&w, &header, sizeof header);
    checkpoint_put(&w, key->settings, header.settings_bytes);
    checkpoint_put(&w, entries, header.parts * sizeof *entries);
    checkpoint_put(&w, state->exposure, exposure_bytes(state->exposures));
    return checkpoint_writer_commit(&w, NULL, why);
}

static void remove_parts(const char *path, uint32_t letter, uint32_t parts) {
    char part[PATH_MAX];
    fault ignored;
    for (uint32_t p = 0; p < parts; p++)
        if (part_path(part, path, letter, (int)p, &ignored)) unlink(part);
}

// Rank 0 gives all ranks a number.
static bool from_first(ranks *group, int64_t number, int64_t *out) {
    int64_t to_all[RANKS_MAX], of_all[RANKS_MAX];
    for (int r = 0; r < ranks_count(group); r++) to_all[r] = number;
    if (!ranks_exchange_sizes(group, 1, to_all, of_all, NULL)) return false;
    *out = of_all[0];
    return true;
}

bool sharded_checkpoint_write(const char *path, const checkpoint_key *key, const sharded_state *state,
                              ranks *group) {
    const int own = ranks_own(group), count = ranks_count(group);
    uint32_t old_letter = 1, sum = 0;
    const uint32_t old_parts = own == 0 ? parts_at(path, &old_letter) : 0;
    int64_t letter = 0, to_all[RANKS_MAX], of_all[RANKS_MAX];
    char part[PATH_MAX];
    fault why;
    if (!from_first(group, old_letter == 0, &letter)) return false;
    if (!part_path(part, path, (uint32_t)letter, own, &why) ||
        !write_part(part, state, sharded_state_first(state, group), &sum, &why))
        return ranks_fail_with(group, &why);
    for (int r = 0; r < count; r++) to_all[r] = sum;
    if (!ranks_exchange_sizes(group, 1, to_all, of_all, NULL)) return false; // all parts are complete
    if (own == 0) {
        part_entry entries[RANKS_MAX] = {0};
        for (int r = 0; r < count; r++)
            entries[r] = (part_entry){state->begin[r + 1] - state->begin[r], (uint32_t)of_all[r], 0};
        const checkpoint_header header = {.iteration = state->iteration,
                                          .steps = state->steps,
                                          .count = sharded_state_count(state, group),
                                          .exposures = state->exposures,
                                          .averaged = state->average.samples,
                                          .sh_degree = state->own.gaussians.sh_degree,
                                          .letter = (uint32_t)letter,
                                          .parts = (uint32_t)count};
        if (!write_file(path, key, state, &header, entries, &why)) return ranks_fail_with(group, &why);
        remove_parts(path, old_letter, old_parts);
    }
    return ranks_barrier(group, NULL);
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
                      const sharded_state *state, fault *why) {
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
                      const int64_t own[2], const sharded_state *state, fault *why) {
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

static bool read_all(checkpoint_reader *r, const checkpoint_key *key, sharded_state *state,
                     const ranks *group, fault *why) {
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
    if (!for_parts(path, &header, entries, own, NULL, why)) return false; // before memory for them
    sharded_state_open_empty(state, group, header.count, header.sh_degree);
    state->iteration = header.iteration;
    state->steps = header.steps;
    if (header.averaged > 0)
        state->average = (parameter_average){
            header.averaged, device_gaussians_open(state->own.gaussians.count, header.sh_degree)};
    if (header.exposures > 0) sharded_state_open_exposures(state, header.exposures);
    return checkpoint_get(r, state->exposure, exposure_bytes(header.exposures), why) &&
           for_parts(path, &header, entries, own, state, why);
}

bool sharded_checkpoint_read(const char *path, const checkpoint_key *key, sharded_state *state,
                             ranks *group) {
    fault why;
    checkpoint_reader r;
    *state = (sharded_state){0};
    if (!checkpoint_reader_open(&r, path, &why)) return ranks_fail_with(group, &why);
    const bool done = read_all(&r, key, state, group, &why);
    checkpoint_reader_close(&r);
    if (!done) sharded_state_close(state);
    return done ? ranks_barrier(group, NULL) : ranks_fail_with(group, &why);
}

// ---- while training runs

bool sharded_saver_observe(saver *s, ranks *group, const sharded_state *state, const training_report *report,
                           bool stops, bool *saved) {
    *saved = stops || (s->interval > 0 && training_passed(state->iteration, report->step_views, s->interval));
    if (!*saved) return true;
    const checkpoint_key key = ranks_own(group) == 0 ? saver_key(s) : (checkpoint_key){0};
    return sharded_checkpoint_write(s->path, &key, state, group);
}
