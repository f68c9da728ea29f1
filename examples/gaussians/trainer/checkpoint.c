// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // fopencookie
#include "checkpoint.h"
#include "arrays.h"
#include "files/input_file.h"
#include "files/output_file.h"
#include "scene.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    VERSION = 15,
    SETS = 4,                                // Gaussians, Adam's two moments, the average
    SCENES = 1 + TEACHERS_MOST,              // the start and each teacher
    PARTS = 3 + (SCENES + SETS) * GS_ARRAYS, // exposures, poses, these, sums of density control
    ROWS = 1 << 16,                          // that come from other ranks at once
    BLOCK = 1 << 20,                         // bytes that are copied at once
    MAX_SETTINGS = 1 << 16,                  // bytes
    MOST_SHOWN = 199,                        // of an option in a message
    MAX_VIEWS = 1 << 24
};

static const char magic[8] = {'S', 'P', 'L', 'A', 'T', 'C', 'K', 'P'};
// The file: this, the settings, all rows of each part, the checksum.
typedef struct checkpoint_header {
    char magic[8];
    uint32_t version;
    uint32_t settings_bytes;
    uint64_t file_bytes;                       // of the whole file, with the checksum at its end
    int64_t count, exposures, poses, averaged; // averaged: samples; 0: there is no average
    run_place place;
    learning_curve learning;
    int64_t exposed;        // an exposure_rule
    int64_t scenes[SCENES]; // Gaussians of each
    int32_t sh_degree;
    uint32_t data; // fingerprint
} checkpoint_header;

_Static_assert(sizeof(checkpoint_header) == 496, "the file has no padding");

// ---- what a file has

// Rows of the state, on the host or the device.
typedef struct part {
    void *memory;
    uint64_t rows, bytes; // bytes: of a row
    bool shared;          // a rank has those of its own Gaussians; else each rank has all
} part;

static gs_gaussians *scene_of(training_state *state, int i) {
    return i == 0 ? &state->distillation.start : &state->distillation.teacher[i - 1];
}

static void list_parts(training_state *state, part parts[PARTS]) {
    const gs_gaussians *const sets[SETS] = {&state->gaussians, &state->first_moment, &state->second_moment,
                                            &state->average.average};
    const uint64_t all = (uint64_t)training_state_count(state);
    *parts++ = (part){state->exposure, (uint64_t)state->exposures, GS_EXPOSURE_VALUES * sizeof(float), false};
    *parts++ = (part){state->pose, (uint64_t)state->poses, sizeof(refined_pose), false};
    for (int i = 0; i < SCENES + SETS; i++) {
        const bool shared = i >= SCENES, missing = i == SCENES + SETS - 1 && state->average.samples == 0;
        const gs_gaussians *const of = shared ? sets[i - SCENES] : scene_of(state, i);
        const gs_arrays arrays = gs_arrays_of(of), shape = gs_arrays_of(&state->gaussians);
        const uint64_t rows = missing ? 0 : shared ? all : (uint64_t)of->count;
        for (int a = 0; a < GS_ARRAYS; a++)
            *parts++ = (part){arrays.of[a], rows, (uint64_t)shape.width[a] * sizeof(float), shared};
    }
    *parts = (part){state->density, all, training_state_density_bytes(1), true};
}

// Does not overflow if the header's counts are in range.
static uint64_t file_bytes(const checkpoint_header *header) {
    training_state shape = {.exposures = header->exposures,
                            .poses = header->poses,
                            .gaussians = {.count = header->count, .sh_degree = header->sh_degree},
                            .average.samples = header->averaged};
    uint64_t bytes = sizeof *header + header->settings_bytes + sizeof(uint32_t);
    part parts[PARTS];
    for (int i = 0; i < SCENES; i++) scene_of(&shape, i)->count = header->scenes[i];
    list_parts(&shape, parts);
    for (int i = 0; i < PARTS; i++) bytes += parts[i].rows * parts[i].bytes;
    return bytes;
}

// ---- the key: what a run must share with the run that it continues

char *checkpoint_settings(const char *before, const option_spec *options, const option_spec *usual) {
    char *lines = NULL;
    size_t bytes;
    FILE *const to = memory_stream_open(&lines, &bytes);
    for (int i = 0; to && options[i].kind != OPTION_END; i++) {
        const option_spec *const option = &options[i];
        const char *text = option_text(option);
        if (option->free_on_resume || (usual && !option_differs(option, &usual[i]))) continue;
        fprintf(to, "%s%s ", before, option->name);
        if (option->kind == OPTION_INT) fprintf(to, "%" PRId64, *(const int64_t *)option->value);
        if (option->kind == OPTION_REAL) fprintf(to, "%.17g", *(const double *)option->value);
        for (; text && *text; text++) fputc(*text == '\n' ? ' ' : *text, to);
        fputc('\n', to);
    }
    if (to && memory_stream_close(to) && bytes <= MAX_SETTINGS) return lines;
    free(lines);
    return NULL;
}

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

uint32_t checkpoint_fingerprint(const target_view *views, size_t count) {
    uLong sum = crc32(0, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        const image *const picture = views[i].picture;
        const size_t pixels = (size_t)picture->width * (size_t)picture->height;
        const void *const camera = &views[i].camera, *const depth = views[i].depth_on_host;
        sum = crc32_z(sum, camera, sizeof views[i].camera);
        if (picture->pixels) sum = crc32_z(sum, picture->pixels, pixels * (size_t)picture->channels);
        if (views[i].mask_on_host) sum = crc32_z(sum, views[i].mask_on_host, pixels);
        if (depth) sum = crc32_z(sum, depth, pixels * sizeof(float));
    }
    return (uint32_t)sum;
}

// The line of the same option in some text, or else in another; NULL: it has none.
static const char *line_of(const char *line, const char *text, const char *other) {
    const size_t name = strcspn(line, " \n");
    for (; *text; text = next_line(text))
        if (strncmp(text, line, name) == 0 && text[name] == ' ') return text;
    return other ? line_of(line, other, NULL) : NULL;
}

static bool same_settings(const char *path, const char *theirs, const checkpoint_key *ours, fault *why) {
    const char *const both[] = {theirs, ours->settings};
    for (int k = 0; k < 2; k++)
        for (const char *line = both[k]; *line; line = next_line(line)) {
            const char *const then = line_of(line, theirs, ours->usual);
            const char *const now = line_of(line, ours->settings, ours->usual);
            if (!then || !now) return fail(why, "%s: of a version of dsplat with other options", path);
            const int a = (int)strcspn(then, "\n"), b = (int)strcspn(now, "\n");
            if (a != b || strncmp(then, now, (size_t)a) != 0)
                return fail(why, "%s: written by a run with %.*s; this run has %.*s", path,
                            a < MOST_SHOWN ? a : MOST_SHOWN, then, b < MOST_SHOWN ? b : MOST_SHOWN, now);
        }
    return true;
}

// ---- writing

typedef struct writer {
    FILE *to; // NULL: this rank does not write
    uint32_t sum;
    void *block;
} writer;

// Writes bytes of the host or of the device, for which it waits. A failed write shows when the stream is closed.
static void put(writer *w, const void *memory, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes && w->to; done += BLOCK) {
        const size_t now = (size_t)(bytes - done < BLOCK ? bytes - done : BLOCK);
        DEVICE_CHECK(cudaMemcpy(w->block, (const char *)memory + done, now, cudaMemcpyDefault));
        w->sum = (uint32_t)crc32_z(w->sum, w->block, now);
        fwrite(w->block, 1, now, w->to);
    }
}

// A collective. to: NULL on ranks that do not write.
static bool put_all(FILE *to, const checkpoint_key *key, const training_state *state, fault *why) {
    checkpoint_header header = {.version = VERSION,
                                .settings_bytes = key->settings ? (uint32_t)strlen(key->settings) : 0,
                                .count = training_state_count(state),
                                .exposures = state->exposures,
                                .poses = state->poses,
                                .averaged = state->average.samples,
                                .place = state->place,
                                .learning = state->learning,
                                .exposed = state->exposed,
                                .sh_degree = state->gaussians.sh_degree,
                                .data = key->data};
    training_state whole = *state;
    writer w = {to, (uint32_t)crc32(0, NULL, 0), malloc(BLOCK)};
    part parts[PARTS];
    device_buffer block = {0};
    bool done = w.block || fail(why, "no memory to write a checkpoint");
    memcpy(header.magic, magic, sizeof header.magic);
    for (int i = 0; i < SCENES; i++) header.scenes[i] = scene_of(&whole, i)->count;
    header.file_bytes = file_bytes(&header);
    if (done) put(&w, &header, sizeof header);
    if (done) put(&w, key->settings, header.settings_bytes);
    list_parts(&whole, parts);
    for (const part *p = parts; p < parts + PARTS && done; p++) {
        const int64_t all = (int64_t)p->rows;
        if (!p->shared) put(&w, p->memory, p->rows * p->bytes);
        for (int64_t first = 0; first < all && p->shared && done; first += ROWS) {
            const row_range rows = {first, all - first < ROWS ? all - first : ROWS};
            const void *const from = training_state_rows(state, p->memory, (int64_t)p->bytes, rows, &block);
            done = from || fail(why, "%s", ranks_error(state->group));
            if (done) put(&w, from, (uint64_t)rows.count * p->bytes);
        }
    }
    const uint32_t sum = w.sum;
    if (done) put(&w, &sum, sizeof sum);
    device_buffer_close(&block);
    free(w.block);
    return done;
}

static ssize_t write_to_sink(void *cookie, const char *bytes, size_t count) {
    const checkpoint_sink *const sink = cookie;
    return sink->write(sink->context, bytes, count) ? (ssize_t)count : 0;
}

bool checkpoint_write_to(const checkpoint_sink *sink, const checkpoint_key *key, const training_state *state,
                         fault *why) {
    const cookie_io_functions_t calls = {.write = write_to_sink};
    FILE *const to = fopencookie((void *)(uintptr_t)sink, "wb", calls);
    if (!to) return fail(why, "no memory to write a checkpoint");
    const bool done = put_all(to, key, state, why), failed = ferror(to);
    return (fclose(to) == 0 && !failed && done) || (done && fail(why, "the checkpoint was not taken whole"));
}

// A failure of one rank is one of all.
static bool told(ranks *group, bool done, fault *why) {
    if (done || ranks_count(group) == 1) return done;
    if (!*ranks_error(group)) ranks_fail_with(group, why);
    return fail(why, "%s", ranks_error(group));
}

bool checkpoint_write(const char *path, const checkpoint_key *key, const training_state *state, fault *why) {
    const bool writes = ranks_own(state->group) == 0;
    output_file file = {0};
    bool done = !writes || output_file_open(&file, path, why);
    if (done && writes) output_file_remove_stale(&file); // what killed programs have left
    done = done && put_all(file.stream, key, state, why) && (!writes || output_file_commit(&file, why));
    output_file_discard(&file);
    return told(state->group, done && ranks_barrier(state->group, NULL), why);
}

// ---- reading

// block: BLOCK bytes. memory: on the host or the device; NULL: *sum becomes the checksum with these bytes.
static bool get(input_file *file, void *block, void *memory, uint64_t bytes, uLong *sum, fault *why) {
    for (uint64_t done = 0; done < bytes; done += BLOCK) {
        const size_t now = (size_t)(bytes - done < BLOCK ? bytes - done : BLOCK);
        if (!input_file_read(file, block, now, "a checkpoint", why)) return false;
        if (memory)
            DEVICE_CHECK(cudaMemcpy((char *)memory + done, block, now, cudaMemcpyDefault));
        else
            *sum = crc32_z(*sum, block, now);
    }
    return true;
}

static bool go_to(input_file *file, uint64_t offset, fault *why) {
    file->offset = offset;
    return fseeko(file->stream, (off_t)offset, SEEK_SET) == 0 || fail(why, "%s: cannot seek", file->path);
}

// Reads the whole file once, goes back to where it was, and compares the checksum with the one at the end.
static bool check_sum(input_file *file, void *block, fault *why) {
    const uint64_t before = file->offset;
    uLong found = crc32(0, NULL, 0);
    uint32_t said = 0;
    if (!go_to(file, 0, why) || !get(file, block, NULL, file->size - sizeof said, &found, why) ||
        !input_file_read(file, &said, sizeof said, "a checkpoint's checksum", why))
        return false;
    if ((uint32_t)found != said)
        return fail(why, "%s: damaged: its checksum is %08" PRIx32 ", not %08" PRIx32, file->path,
                    (uint32_t)found, said);
    return go_to(file, before, why);
}

static bool header_is_right(const checkpoint_header *header) {
    const run_place *const place = &header->place;
    if (!(header->count >= 0 && header->count < INT32_MAX && header->sh_degree >= 0 &&
          header->sh_degree <= GS_MAX_SH_DEGREE && place->views >= 0 && place->views <= SCHEDULE_MOST &&
          place->ended >= 0 && place->ended <= place->views && place->scene >= 0 &&
          place->scene <= (place->first_run > 0 && place->scenes == 0 ? 1 : place->scenes) &&
          place->scenes <= TEACHERS_MOST && place->began >= 0 && place->began <= place->views &&
          (place->scenes == 0 || place->ended > 0) && learning_curve_is_possible(&header->learning) &&
          place->steps >= 0 && place->steps <= place->views && header->averaged >= 0 &&
          header->averaged <= place->steps && header->exposures >= 0 && header->exposures <= MAX_VIEWS &&
          header->exposed >= EXPOSURE_FIRST && header->exposed <= EXPOSURE_IN_ORDER &&
          header->settings_bytes <= MAX_SETTINGS && header->poses >= 0 && header->poses <= MAX_VIEWS))
        return false;
    for (int i = 0; i < SCENES; i++)
        if (header->scenes[i] < 0 || header->scenes[i] >= INT32_MAX ||
            (i > place->scene && header->scenes[i] != 0))
            return false;
    return header->file_bytes == file_bytes(header);
}

// Refuses files of another kind or version, damaged ones, and those with another key.
static bool read_beginning(input_file *file, void *block, const checkpoint_key *key,
                           checkpoint_header *header, fault *why) {
    const char *const path = file->path;
    if (!input_file_read(file, header, sizeof *header, "a checkpoint's header", why)) return false;
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return fail(why, "%s: not a checkpoint of dsplat train", path);
    if (header->version != VERSION)
        return fail(why, "%s: a checkpoint of version %" PRIu32 "; this dsplat reads version %d", path,
                    header->version, VERSION);
    if (!header_is_right(header)) return fail(why, "%s: damaged: its header is inconsistent", path);
    if (file->size != header->file_bytes)
        return fail(why, "%s: truncated or damaged: has %" PRIu64 " bytes, not %" PRIu64, path, file->size,
                    header->file_bytes);
    char *settings = calloc((size_t)header->settings_bytes + 1, 1);
    const bool done =
        check_sum(file, block, why) && (settings || fail(why, "%s: no memory to read it", path)) &&
        input_file_read(file, settings, header->settings_bytes, "a checkpoint's settings", why) &&
        same_settings(path, settings, key, why);
    free(settings);
    return done &&
           (header->data == key->data || fail(why, "%s: of a run on other photographs or cameras", path));
}

// Closes the file. On failure *state is {0}.
static bool read_checkpoint(input_file *file, const checkpoint_key *key, const training_place *where,
                            training_state *state, fault *why) {
    checkpoint_header header;
    part parts[PARTS];
    void *const block = malloc(BLOCK);
    bool done = (block || fail(why, "%s: no memory to read it", file->path)) &&
                read_beginning(file, block, key, &header, why) &&
                (training_state_open_empty(state, where, header.count, header.sh_degree) ||
                 fail(why, "%s", ranks_error(where->group)));
    if (done) { // what is whole on every rank
        const int degree = header.sh_degree;
        state->place = header.place;
        state->learning = header.learning;
        state->exposed = (exposure_rule)header.exposed;
        if (header.averaged > 0)
            state->average =
                (parameter_average){header.averaged, device_gaussians_open(state->gaussians.count, degree)};
        if (header.exposures > 0) training_state_open_exposures(state, header.exposures);
        for (int i = 1; i < SCENES; i++)
            if (header.scenes[i] > 0) *scene_of(state, i) = device_gaussians_open(header.scenes[i], degree);
        done =
            (header.poses == 0 || training_state_open_poses(state, header.poses, why)) &&
            (header.scenes[0] == 0 || scene_open(&state->distillation.start, header.scenes[0], degree, why));
        list_parts(state, parts);
    }
    for (const part *p = parts; p < parts + PARTS && done; p++) {
        const bool some = p->shared && p->rows > 0; // rows of this rank
        const uint64_t first = some ? (uint64_t)state->first : 0,
                       rows = some ? (uint64_t)state->gaussians.count : p->rows;
        done = input_file_skip(file, first * p->bytes, "a checkpoint's rows", why) &&
               get(file, block, p->memory, rows * p->bytes, NULL, why) &&
               input_file_skip(file, (p->rows - first - rows) * p->bytes, "a checkpoint's rows", why);
    }
    input_file_close(file);
    free(block);
    if (!done) training_state_close(state);
    return done;
}

bool checkpoint_read(const char *path, const checkpoint_key *key, const training_place *where,
                     training_state *state, fault *why) {
    input_file file;
    *state = (training_state){0};
    const bool done = input_file_open(&file, path, why) && read_checkpoint(&file, key, where, state, why);
    return told(where->group, done && ranks_barrier(where->group, NULL), why);
}

bool checkpoint_read_from(const void *bytes, size_t count, const checkpoint_key *key, ranks *group,
                          training_state *state, fault *why) {
    input_file file = {.path = strdup("checkpoint"), .size = count};
    *state = (training_state){0};
    if (count > 0) file.stream = fmemopen((void *)(uintptr_t)bytes, count, "rb");
    if (file.path && file.stream)
        return read_checkpoint(&file, key, &(training_place){group, NULL}, state, why);
    input_file_close(&file);
    return fail(why, "no checkpoint, or no memory to read it");
}

// ---- while training runs

checkpoint_key saver_key(saver *s) {
    if (!s->key_known) s->key.data = checkpoint_fingerprint(s->views, s->view_count);
    s->key_known = true;
    return s->key;
}

bool saver_observe(saver *s, const training_state *state, const training_report *report, bool *saved,
                   fault *why) {
    *saved = report->stopped ||
             (s->interval > 0 && training_passed(state->place.views, report->step_views, s->interval));
    if (!*saved) return true;
    const checkpoint_key key =
        ranks_own(state->group) == 0 ? saver_key(s) : (checkpoint_key){0}; // rank 0 writes it
    return checkpoint_write(s->path, &key, state, why);
}
