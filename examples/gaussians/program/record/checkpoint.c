// SPDX-License-Identifier: MIT
#include "record/checkpoint.h"
#include "arrays.h"
#include "device.h"
#include "record/checkpoint_file.h"
#include "scene.h"
#include "record/signals.h"
#include "frames/device_gaussians.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    VERSION = 5,
    SETS = 4, // Gaussians, Adam's two moments, the average
    ARRAYS = SETS * GS_ARRAYS + 4
};

typedef struct checkpoint_header {
    char magic[8];
    uint32_t version;
    uint32_t settings_bytes;
    uint64_t file_bytes;                                  // of the whole file, with the checksum at its end
    int64_t iteration, count, exposures, poses, averaged; // averaged: samples; 0: no average is in the file
    int32_t sh_degree;
    uint32_t data; // fingerprint
} checkpoint_header;

_Static_assert(sizeof(checkpoint_header) == 72 && sizeof(schedule_place) == 40, "the file has no padding");

// A part of the state, on the device or the host.
typedef struct part {
    void *memory;
    uint64_t bytes;
} part;

static bool set_is_there(const training_state *state, int set) {
    return set < SETS - 1 || state->average.samples > 0;
}

static void list_parts(const training_state *state, part parts[ARRAYS]) {
    const gs_gaussians *const sets[SETS] = {&state->gaussians, &state->first_moment, &state->second_moment,
                                            &state->average.average};
    const uint64_t row = (uint64_t)state->gaussians.count * sizeof(float);
    const gs_arrays shape = gs_arrays_of(&state->gaussians);
    part *next = parts;
    *next++ = (part){(void *)&state->schedule, sizeof state->schedule};
    for (int i = 0; i < SETS; i++) {
        const gs_arrays arrays = gs_arrays_of(sets[i]);
        const uint64_t bytes = set_is_there(state, i) ? row : 0;
        for (int a = 0; a < GS_ARRAYS; a++) *next++ = (part){arrays.of[a], (uint64_t)shape.width[a] * bytes};
    }
    *next++ = (part){state->density, 2 * row};
    *next++ = (part){state->exposure, (uint64_t)state->exposures * TRAINING_EXPOSURE_FLOATS * sizeof(float)};
    *next = (part){state->pose, (uint64_t)state->poses * sizeof *state->pose};
}

// Does not overflow if the header's counts are in range.
static uint64_t file_bytes(const checkpoint_header *header) {
    const training_state shape = {.gaussians = {.count = header->count, .sh_degree = header->sh_degree},
                                  .exposures = header->exposures,
                                  .poses = header->poses,
                                  .average.samples = header->averaged};
    part parts[ARRAYS];
    list_parts(&shape, parts);
    uint64_t bytes = sizeof *header + header->settings_bytes + sizeof(uint32_t);
    for (int i = 0; i < ARRAYS; i++) bytes += parts[i].bytes;
    return bytes;
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
    const bool whole = !ferror(text);
    if (fclose(text) == 0 && whole && bytes <= CHECKPOINT_MAX_SETTINGS) return lines;
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

// ---- writing

bool checkpoint_write(const char *path, const checkpoint_key *key, const training_state *state, fault *why) {
    const size_t settings_bytes = strlen(key->settings);
    checkpoint_header header = {.version = VERSION,
                                .settings_bytes = (uint32_t)settings_bytes,
                                .iteration = state->iteration,
                                .count = state->gaussians.count,
                                .exposures = state->exposures,
                                .poses = state->poses,
                                .averaged = state->average.samples,
                                .sh_degree = state->gaussians.sh_degree,
                                .data = key->data};
    memcpy(header.magic, checkpoint_magic, sizeof header.magic);
    header.file_bytes = file_bytes(&header);
    part parts[ARRAYS];
    list_parts(state, parts);
    checkpoint_writer w;
    if (!checkpoint_writer_open(&w, path, why)) return false;
    checkpoint_put(&w, &header, sizeof header);
    checkpoint_put(&w, key->settings, settings_bytes);
    for (int i = 0; i < ARRAYS; i++) checkpoint_put(&w, parts[i].memory, parts[i].bytes);
    return checkpoint_writer_commit(&w, NULL, why);
}

// ---- reading

static bool read_header(input_file *file, checkpoint_header *header, fault *why) {
    if (!input_file_read(file, header, sizeof *header, "a checkpoint's header", why) ||
        !checkpoint_check_kind(file->path, header->magic, header->version, checkpoint_magic, VERSION, why))
        return false;
    if (header->count < 0 || header->count >= INT32_MAX || header->sh_degree < 0 ||
        header->sh_degree > GS_MAX_SH_DEGREE || header->iteration < 0 || header->exposures < 0 ||
        header->exposures > CHECKPOINT_MAX_VIEWS || header->poses < 0 ||
        header->poses > CHECKPOINT_MAX_VIEWS || header->averaged < 0 ||
        header->averaged > header->iteration || header->settings_bytes > CHECKPOINT_MAX_SETTINGS ||
        header->file_bytes != file_bytes(header))
        return fail(why, "%s: damaged: its header is inconsistent", file->path);
    return checkpoint_check_size(file, header->file_bytes, why);
}

static bool read_state(checkpoint_reader *r, const checkpoint_header *header, training_state *state,
                       fault *why) {
    gs_gaussians zeros;
    if (!scene_open(&zeros, header->count, header->sh_degree, why)) return false;
    training_state_open(state, &zeros);
    scene_close(&zeros);
    state->iteration = header->iteration;
    if (header->exposures > 0) training_state_open_exposures(state, header->exposures);
    if (header->averaged > 0)
        state->average =
            (parameter_average){header->averaged, device_gaussians_open(header->count, header->sh_degree)};
    bool done = header->poses == 0 || training_state_open_poses(state, header->poses, why);
    part parts[ARRAYS];
    list_parts(state, parts);
    for (int i = 0; i < ARRAYS && done; i++) done = checkpoint_get(r, parts[i].memory, parts[i].bytes, why);
    if (!done) training_state_close(state);
    return done;
}

static bool read_all(checkpoint_reader *r, const checkpoint_key *key, training_state *state, fault *why) {
    checkpoint_header header;
    return read_header(&r->file, &header, why) && checkpoint_check_sum(r, NULL, why) &&
           checkpoint_check_key(r, header.settings_bytes, header.data, key, why) &&
           read_state(r, &header, state, why);
}

bool checkpoint_read(const char *path, const checkpoint_key *key, training_state *state, fault *why) {
    *state = (training_state){0};
    checkpoint_reader r;
    if (!checkpoint_reader_open(&r, path, why)) return false;
    const bool done = read_all(&r, key, state, why);
    checkpoint_reader_close(&r);
    return done;
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
    *saved = *stop_request_flag() ||
             (s->interval > 0 && training_passed(state->iteration, report->step_views, s->interval));
    if (!*saved) return true;
    const checkpoint_key key = saver_key(s);
    return checkpoint_write(s->path, &key, state, why);
}
