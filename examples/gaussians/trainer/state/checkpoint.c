// SPDX-License-Identifier: MIT
#include "state/checkpoint.h"
#include "arrays.h"
#include "state/checkpoint_file.h"
#include "frames/device_gaussians.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    VERSION = 7,
    SETS = 4, // Gaussians, Adam's two moments, the average
    ARRAYS = SETS * GS_ARRAYS + 1,
    INSIDE = 2 // in place of a letter: the rows are in FILE
};

// FILE: this, the settings, a part_entry for each part, the exposures, the poses, the rows if they are INSIDE, the
// checksum.
typedef struct checkpoint_header {
    char magic[8];
    uint32_t version;
    uint32_t settings_bytes;
    uint64_t file_bytes; // of the whole file, with the checksum at its end
    int64_t iteration, steps, count, exposures, poses, averaged; // averaged: samples; 0: there is no average
    schedule_place schedule;
    learning_curve learning;
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

_Static_assert(sizeof(checkpoint_header) == 424 && sizeof(part_entry) == 16 && sizeof(part_header) == 48,
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
    return (uint64_t)exposures * TRAINING_EXPOSURE_FLOATS * sizeof(float);
}

static uint64_t pose_bytes(int64_t poses) {
    return (uint64_t)poses * sizeof(refined_pose);
}

// Where the rows are if they are in FILE. Does not overflow if the header's counts are in range.
static uint64_t rows_begin(const checkpoint_header *header) {
    return sizeof *header + header->settings_bytes + header->parts * sizeof(part_entry) +
           exposure_bytes(header->exposures) + pose_bytes(header->poses);
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

// ---- the key

static void put_option(FILE *to, const option_spec *option) {
    const char *text = option_text(option);
    fprintf(to, "--%s ", option->name);
    if (option->kind == OPTION_INT) fprintf(to, "%" PRId64, *(const int64_t *)option->value);
    if (option->kind == OPTION_REAL) fprintf(to, "%.17g", *(const double *)option->value);
    for (; text && *text; text++) fputc(*text == '\n' ? ' ' : *text, to);
    fputc('\n', to);
}

char *checkpoint_settings(const option_spec *options) {
    char *lines = NULL;
    size_t bytes;
    FILE *text = open_memstream(&lines, &bytes);
    if (!text) return NULL;
    for (; options->kind != OPTION_END; options++)
        if (!options->free_on_resume) put_option(text, options);
    if (memory_stream_close(text, &lines) && bytes <= CHECKPOINT_MAX_SETTINGS) return lines;
    free(lines);
    return NULL;
}

uint32_t checkpoint_fingerprint(const target_view *views, size_t count) {
    uLong sum = crc32(0, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        const image *picture = views[i].picture;
        sum = crc32_z(sum, (const Bytef *)&views[i].camera, sizeof views[i].camera);
        sum = crc32_z(sum, picture->pixels,
                      (size_t)picture->width * (size_t)picture->height * (size_t)picture->channels);
        if (views[i].mask_on_host)
            sum = crc32_z(sum, views[i].mask_on_host, (size_t)picture->width * (size_t)picture->height);
        if (views[i].depth_on_host)
            sum = crc32_z(sum, (const Bytef *)views[i].depth_on_host,
                          (size_t)picture->width * (size_t)picture->height * sizeof(float));
    }
    return (uint32_t)sum;
}

// ---- reading FILE

static bool header_is_right(const checkpoint_header *header) {
    return header->count >= 0 && header->count < INT32_MAX && header->sh_degree >= 0 &&
           header->sh_degree <= GS_MAX_SH_DEGREE && header->iteration >= 0 && header->schedule.ended >= 0 &&
           header->schedule.ended <= header->iteration && learning_curve_is_possible(&header->learning) &&
           header->steps >= 0 && header->steps <= header->iteration && header->averaged >= 0 &&
           header->averaged <= header->steps && header->exposures >= 0 &&
           header->exposures <= CHECKPOINT_MAX_VIEWS && header->settings_bytes <= CHECKPOINT_MAX_SETTINGS &&
           header->poses >= 0 && header->poses <= CHECKPOINT_MAX_VIEWS && header->letter <= INSIDE &&
           header->parts >= 1 && header->parts <= (header->letter == INSIDE ? 1 : RANKS_MAX) &&
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
    return (checkpoint_header){.iteration = state->iteration,
                               .steps = state->steps,
                               .count = training_state_count(state),
                               .exposures = state->exposures,
                               .poses = state->poses,
                               .averaged = state->average.samples,
                               .schedule = state->schedule,
                               .learning = state->learning,
                               .sh_degree = state->gaussians.sh_degree,
                               .letter = letter,
                               .parts = (uint32_t)ranks_count(state->group)};
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

// Each rank gives all ranks a number.
static bool exchange(ranks *group, int64_t own, int64_t of_all[RANKS_MAX]) {
    int64_t to_all[RANKS_MAX];
    for (int r = 0; r < ranks_count(group); r++) to_all[r] = own;
    return ranks_exchange_sizes(group, 1, to_all, of_all, NULL);
}

static bool write_parts(const char *path, const checkpoint_key *key, const training_state *state,
                        fault *why) {
    ranks *const group = state->group;
    const int own = ranks_own(group);
    uint32_t old_letter = 1, sum = 0;
    const uint32_t old_parts = own == 0 ? parts_at(path, &old_letter) : 0;
    int64_t letters[RANKS_MAX], sums[RANKS_MAX];
    char part[PATH_MAX];
    if (!exchange(group, old_letter == 0, letters)) return false; // rank 0's counts
    const uint32_t letter = (uint32_t)letters[0];
    if (!part_path(part, path, letter, own, why) ||
        !write_part(part, state, training_state_first(state), &sum, why))
        return false;
    if (!exchange(group, sum, sums)) return false; // all parts are complete
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
    const wanted_rows inside = {own[0], own[1] - own[0], 0};
    return (header.poses == 0 || training_state_open_poses(state, header.poses, why)) &&
           checkpoint_get(r, state->exposure, exposure_bytes(header.exposures), why) &&
           checkpoint_get(r, state->pose, pose_bytes(header.poses), why) &&
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

// ---- while training runs

checkpoint_key saver_key(saver *s) {
    if (!s->key_known)
        s->key = (checkpoint_key){.settings = s->settings,
                                  .data = checkpoint_fingerprint(s->views, s->view_count)};
    s->key_known = true;
    return s->key;
}

bool saver_observe(saver *s, const training_state *state, const training_report *report, bool *saved,
                   fault *why) {
    *saved = report->stopped ||
             (s->interval > 0 && training_passed(state->iteration, report->step_views, s->interval));
    if (!*saved) return true;
    const checkpoint_key key =
        ranks_own(state->group) == 0 ? saver_key(s) : (checkpoint_key){0}; // rank 0 writes it
    return checkpoint_write(s->path, &key, state, why);
}
