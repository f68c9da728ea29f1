// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // fopencookie
#include "checkpoint.h"
#include "files/input_file.h"
#include "files/output_file.h"
#include "device.h"
#include "arrays.h"
#include "frame.h"
#include "scene.h"
#include "files/memory_stream.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// ---- checkpoint_file

// What the files of checkpoints have in common: they begin with a kind and a version and end with the CRC-32 of all
// before it, and are renamed when complete. Little-endian.

enum {
    CHECKPOINT_BLOCK = 1 << 20,        // bytes that are copied at once
    CHECKPOINT_MAX_SETTINGS = 1 << 16, // bytes
    CHECKPOINT_MAX_VIEWS = 1 << 24
};

extern const char checkpoint_magic[8]; // the kind

typedef struct checkpoint_writer {
    output_file file; // without a path: to a sink
    uint32_t sum;
    void *block;
} checkpoint_writer;

// Also removes what killed programs have left of the file.
bool checkpoint_writer_open(checkpoint_writer *w, const char *path, fault *why);
bool checkpoint_writer_open_sink(checkpoint_writer *w, const checkpoint_sink *sink,
                                 fault *why); // outlives the writer
// memory: on the host or the device, for which it waits. Errors of the file come with the commit.
void checkpoint_put(checkpoint_writer *w, const void *memory, uint64_t bytes);
// Closes the writer also after a failure.
bool checkpoint_writer_commit(checkpoint_writer *w, fault *why);
void checkpoint_writer_discard(checkpoint_writer *w); // of a file

typedef struct checkpoint_reader {
    input_file file;
    void *block;
} checkpoint_reader;

bool checkpoint_reader_open(checkpoint_reader *r, const char *path, fault *why);
bool checkpoint_reader_open_memory(checkpoint_reader *r, const void *bytes, size_t count, fault *why);
void checkpoint_reader_close(checkpoint_reader *r);
// memory: on the host or the device.
bool checkpoint_get(checkpoint_reader *r, void *memory, uint64_t bytes, fault *why);
// Reads the whole file once, goes back to where it was, and compares the checksum with the one at the end.
bool checkpoint_check_sum(checkpoint_reader *r, fault *why);
// Refuses other kinds and versions, each with its own text.
bool checkpoint_check_kind(const char *path, const char magic[8], uint32_t version, uint32_t wanted_version,
                           fault *why);
bool checkpoint_check_size(const input_file *file, uint64_t bytes, fault *why);
// Reads the settings, and compares them and the fingerprint with those of the key.
bool checkpoint_check_key(checkpoint_reader *r, uint32_t settings_bytes, uint32_t data,
                          const checkpoint_key *key, fault *why);

// ---- checkpoint_file

const char checkpoint_magic[8] = {'S', 'P', 'L', 'A', 'T', 'C', 'K', 'P'};
// Of files that versions before 11 wrote on several GPUs, each with a rank's rows.
static const char checkpoint_magic_part[8] = {'S', 'P', 'L', 'A', 'T', 'R', 'O', 'W'};

// ---- writing

bool checkpoint_writer_open(checkpoint_writer *w, const char *path, fault *why) {
    *w = (checkpoint_writer){.sum = (uint32_t)crc32(0, NULL, 0), .block = malloc(CHECKPOINT_BLOCK)};
    if (!w->block) return fail(why, "%s: no memory to write it", path);
    if (output_file_open(&w->file, path, why)) {
        output_file_remove_stale(&w->file);
        return true;
    }
    free(w->block);
    return false;
}

static ssize_t write_to_sink(void *cookie, const char *bytes, size_t count) {
    const checkpoint_sink *const sink = cookie;
    return sink->write(sink->context, bytes, count) ? (ssize_t)count : 0;
}

bool checkpoint_writer_open_sink(checkpoint_writer *w, const checkpoint_sink *sink, fault *why) {
    *w = (checkpoint_writer){.sum = (uint32_t)crc32(0, NULL, 0), .block = malloc(CHECKPOINT_BLOCK)};
    if (w->block)
        w->file.stream =
            fopencookie((void *)(uintptr_t)sink, "wb", (cookie_io_functions_t){.write = write_to_sink});
    if (w->file.stream) return true;
    free(w->block);
    return fail(why, "no memory to write a checkpoint");
}

static void put_host(checkpoint_writer *w, const void *bytes, size_t count) {
    w->sum = (uint32_t)crc32_z(w->sum, bytes, count);
    fwrite(bytes, 1, count, w->file.stream); // output_file_commit checks for errors
}

void checkpoint_put(checkpoint_writer *w, const void *memory, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += CHECKPOINT_BLOCK) {
        const uint64_t left = bytes - done, now = left < CHECKPOINT_BLOCK ? left : CHECKPOINT_BLOCK;
        DEVICE_CHECK(cudaMemcpy(w->block, (const char *)memory + done, (size_t)now, cudaMemcpyDefault));
        put_host(w, w->block, (size_t)now);
    }
}

void checkpoint_writer_discard(checkpoint_writer *w) {
    free(w->block);
    output_file_discard(&w->file);
}

bool checkpoint_writer_commit(checkpoint_writer *w, fault *why) {
    const uint32_t all = w->sum;
    put_host(w, &all, sizeof all);
    free(w->block);
    if (w->file.path) return output_file_commit(&w->file, why);
    const bool failed = ferror(w->file.stream);
    return (fclose(w->file.stream) == 0 && !failed) || fail(why, "the checkpoint was not taken whole");
}

// ---- reading

bool checkpoint_reader_open(checkpoint_reader *r, const char *path, fault *why) {
    *r = (checkpoint_reader){.block = malloc(CHECKPOINT_BLOCK)};
    if (!r->block) return fail(why, "%s: no memory to read it", path);
    if (input_file_open(&r->file, path, why)) return true;
    free(r->block);
    return false;
}

bool checkpoint_reader_open_memory(checkpoint_reader *r, const void *bytes, size_t count, fault *why) {
    *r = (checkpoint_reader){.block = malloc(CHECKPOINT_BLOCK)};
    r->file.path = strdup("checkpoint");
    if (count > 0) r->file.stream = fmemopen((void *)(uintptr_t)bytes, count, "rb");
    r->file.size = count;
    if (r->block && r->file.path && r->file.stream) return true;
    checkpoint_reader_close(r);
    return fail(why, "no checkpoint, or no memory to read it");
}

void checkpoint_reader_close(checkpoint_reader *r) {
    input_file_close(&r->file);
    free(r->block);
}

bool checkpoint_get(checkpoint_reader *r, void *memory, uint64_t bytes, fault *why) {
    for (uint64_t done = 0; done < bytes; done += CHECKPOINT_BLOCK) {
        const uint64_t left = bytes - done, now = left < CHECKPOINT_BLOCK ? left : CHECKPOINT_BLOCK;
        if (!input_file_read(&r->file, r->block, (size_t)now, "a checkpoint's arrays", why)) return false;
        DEVICE_CHECK(cudaMemcpy((char *)memory + done, r->block, (size_t)now, cudaMemcpyDefault));
    }
    return true;
}

static bool go_to(input_file *file, uint64_t offset, fault *why) {
    file->offset = offset;
    return fseeko(file->stream, (off_t)offset, SEEK_SET) == 0 || fail(why, "%s: cannot seek", file->path);
}

bool checkpoint_check_sum(checkpoint_reader *r, fault *why) {
    input_file *const file = &r->file;
    const uint64_t before = file->offset;
    uLong found = crc32(0, NULL, 0);
    uint64_t left = file->size > sizeof(uint32_t) ? file->size - sizeof(uint32_t) : 0;
    uint32_t said = 0;
    bool done = go_to(file, 0, why);
    while (left > 0 && done) {
        const size_t bytes = left < CHECKPOINT_BLOCK ? (size_t)left : CHECKPOINT_BLOCK;
        done = input_file_read(file, r->block, bytes, "a checkpoint", why);
        if (done) found = crc32_z(found, r->block, bytes);
        left -= bytes;
    }
    done = done && input_file_read(file, &said, sizeof said, "a checkpoint's checksum", why);
    if (done && (uint32_t)found != said)
        done = fail(why, "%s: damaged: its checksum is %08" PRIx32 ", not %08" PRIx32, file->path,
                    (uint32_t)found, said);
    return done && go_to(file, before, why);
}

static bool is(const char magic[8], const char of[8]) {
    return memcmp(magic, of, 8) == 0;
}

bool checkpoint_check_kind(const char *path, const char magic[8], uint32_t version, uint32_t wanted_version,
                           fault *why) {
    if (is(magic, checkpoint_magic) && version == wanted_version) return true;
    if (is(magic, checkpoint_magic))
        return fail(why, "%s: a checkpoint of version %" PRIu32 "; this dsplat reads version %" PRIu32, path,
                    version, wanted_version);
    if (is(magic, checkpoint_magic_part))
        return fail(why,
                    "%s: a part of a checkpoint that an earlier dsplat wrote on several GPUs; this one reads "
                    "checkpoints of one file",
                    path);
    return fail(why, "%s: not a checkpoint of dsplat train", path);
}

bool checkpoint_check_size(const input_file *file, uint64_t bytes, fault *why) {
    return file->size == bytes || fail(why, "%s: truncated or damaged: has %" PRIu64 " bytes, not %" PRIu64,
                                       file->path, file->size, bytes);
}

// ---- the key

// Copies the line at *text without its end, and moves *text to the next line. False at the end.
static bool next_line(const char **text, char *line, size_t room) {
    if (!**text) return false;
    const size_t length = strcspn(*text, "\n");
    snprintf(line, room, "%.*s", (int)(length < room ? length : room - 1), *text);
    *text += length + ((*text)[length] == '\n');
    return true;
}

static bool same_settings(const char *path, const char *theirs, const char *ours, fault *why) {
    char then[200], now[200];
    if (strcmp(theirs, ours) == 0) return true;
    for (;;) {
        const bool more = next_line(&theirs, then, sizeof then);
        if (!next_line(&ours, now, sizeof now) || !more)
            return fail(why, "%s: of a version of dsplat with other options", path);
        if (strcmp(then, now) != 0)
            return fail(why, "%s: written by a run with %s; this run has %s", path, then, now);
    }
}

bool checkpoint_check_key(checkpoint_reader *r, uint32_t settings_bytes, uint32_t data,
                          const checkpoint_key *key, fault *why) {
    const char *const path = r->file.path;
    char *settings = calloc((size_t)settings_bytes + 1, 1);
    if (!settings) return fail(why, "%s: no memory to read it", path);
    const bool done = input_file_read(&r->file, settings, settings_bytes, "a checkpoint's settings", why) &&
                      same_settings(path, settings, key->settings, why);
    free(settings);
    return done && (data == key->data || fail(why, "%s: of a run on other photographs or cameras", path));
}

// ---- checkpoint

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

// ---- checkpoint_key

// What a run must share with the run that it continues, and when checkpoints are written.

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
    FILE *text = memory_stream_open(&lines, &bytes);
    if (!text) return NULL;
    for (; options->kind != OPTION_END; options++)
        if (!options->free_on_resume) put_option(text, options);
    if (memory_stream_close(text) && bytes <= CHECKPOINT_MAX_SETTINGS) return lines;
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
