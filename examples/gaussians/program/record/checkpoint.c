// SPDX-License-Identifier: MIT
#include "record/checkpoint.h"
#include "arrays.h"
#include "device.h"
#include "input_file.h"
#include "output_file.h"
#include "scene.h"
#include "record/signals.h"
#include "view/device_gaussians.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied without a change of byte order");

enum {
    VERSION = 4,
    BLOCK = 1 << 20,        // bytes that are copied at once
    MAX_SETTINGS = 1 << 16, // bytes
    SETS = 4,               // Gaussians, Adam's two moments, the average
    MAX_VIEWS = 1 << 24,
    ARRAYS = SETS * GS_ARRAYS + 4
};

static const char magic[8] = {'S', 'P', 'L', 'A', 'T', 'C', 'K', 'P'};

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
    if (fclose(text) == 0 && whole && bytes <= MAX_SETTINGS) return lines;
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
            return fail(why, "%s: of a version of splat with other options", path);
        if (strcmp(then, now) != 0)
            return fail(why, "%s: of a run with %s; this one has %s", path, then, now);
    }
}

// ---- writing

typedef struct writer {
    FILE *stream;
    uLong sum;
} writer;

static void put(writer *w, const void *bytes, size_t count) {
    w->sum = crc32_z(w->sum, bytes, count);
    fwrite(bytes, 1, count, w->stream); // output_file_commit checks for errors
}

static void put_part(writer *w, const part *from, void *block) {
    for (uint64_t done = 0; done < from->bytes; done += BLOCK) {
        const uint64_t left = from->bytes - done, bytes = left < BLOCK ? left : BLOCK;
        const char *const at = (const char *)from->memory + done;
        DEVICE_CHECK(cudaMemcpy(block, at, (size_t)bytes, cudaMemcpyDefault));
        put(w, block, (size_t)bytes);
    }
}

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
    memcpy(header.magic, magic, sizeof magic);
    header.file_bytes = file_bytes(&header);
    part parts[ARRAYS];
    list_parts(state, parts);
    void *block = malloc(BLOCK);
    if (!block) return fail(why, "%s: no memory to write it", path);
    output_file file;
    bool done = output_file_open(&file, path, why);
    if (done) {
        writer w = {file.stream, crc32(0, NULL, 0)};
        put(&w, &header, sizeof header);
        put(&w, key->settings, settings_bytes);
        for (int i = 0; i < ARRAYS; i++) put_part(&w, &parts[i], block);
        const uint32_t sum = (uint32_t)w.sum;
        put(&w, &sum, sizeof sum);
        done = output_file_commit(&file, why);
    }
    free(block);
    return done;
}

// ---- reading

static bool read_header(input_file *file, checkpoint_header *header, fault *why) {
    if (!input_file_read(file, header, sizeof *header, "a checkpoint's header", why)) return false;
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return fail(why, "%s: not a checkpoint of splat train", file->path);
    if (header->version != VERSION)
        return fail(why, "%s: a checkpoint of version %" PRIu32 "; this splat reads version %d", file->path,
                    header->version, VERSION);
    if (header->count < 0 || header->count >= INT32_MAX || header->sh_degree < 0 ||
        header->sh_degree > GS_MAX_SH_DEGREE || header->iteration < 0 || header->exposures < 0 ||
        header->exposures > MAX_VIEWS || header->poses < 0 || header->poses > MAX_VIEWS ||
        header->averaged < 0 || header->averaged > header->iteration ||
        header->settings_bytes > MAX_SETTINGS || header->file_bytes != file_bytes(header))
        return fail(why, "%s: damaged: its header is inconsistent", file->path);
    if (header->file_bytes != file->size)
        return fail(why, "%s: truncated or damaged: has %" PRIu64 " bytes, not %" PRIu64, file->path,
                    file->size, header->file_bytes);
    return true;
}

// Reads the whole file once.
static bool check_sum(const char *path, unsigned char *block, fault *why) {
    input_file file;
    if (!input_file_open(&file, path, why)) return false;
    uLong sum = crc32(0, NULL, 0);
    uint64_t left = file.size > sizeof(uint32_t) ? file.size - sizeof(uint32_t) : 0;
    uint32_t said = 0;
    bool done = true;
    while (left > 0 && done) {
        const size_t bytes = left < BLOCK ? (size_t)left : BLOCK;
        done = input_file_read(&file, block, bytes, "a checkpoint", why);
        if (done) sum = crc32_z(sum, block, bytes);
        left -= bytes;
    }
    done = done && input_file_read(&file, &said, sizeof said, "a checkpoint's checksum", why);
    if (done && (uint32_t)sum != said)
        done = fail(why, "%s: damaged: its checksum is %08" PRIx32 ", not %08" PRIx32, path, (uint32_t)sum,
                    said);
    input_file_close(&file);
    return done;
}

static bool get_part(input_file *file, const part *to, void *block, fault *why) {
    for (uint64_t done = 0; done < to->bytes; done += BLOCK) {
        const uint64_t left = to->bytes - done, bytes = left < BLOCK ? left : BLOCK;
        if (!input_file_read(file, block, (size_t)bytes, "a checkpoint's arrays", why)) return false;
        char *const at = (char *)to->memory + done;
        DEVICE_CHECK(cudaMemcpy(at, block, (size_t)bytes, cudaMemcpyDefault));
    }
    return true;
}

static bool read_state(input_file *file, const checkpoint_header *header, void *block, training_state *state,
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
    for (int i = 0; i < ARRAYS && done; i++) done = get_part(file, &parts[i], block, why);
    if (!done) training_state_close(state);
    return done;
}

static bool read_all(input_file *file, const checkpoint_key *key, void *block, training_state *state,
                     fault *why) {
    checkpoint_header header;
    if (!read_header(file, &header, why) || !check_sum(file->path, block, why)) return false;
    char *settings = calloc(header.settings_bytes + 1, 1);
    if (!settings) return fail(why, "%s: no memory to read it", file->path);
    bool done = input_file_read(file, settings, header.settings_bytes, "a checkpoint's settings", why) &&
                same_settings(file->path, settings, key->settings, why);
    free(settings);
    if (done && header.data != key->data)
        done = fail(why, "%s: of a run on other photographs or cameras", file->path);
    return done && read_state(file, &header, block, state, why);
}

bool checkpoint_read(const char *path, const checkpoint_key *key, training_state *state, fault *why) {
    *state = (training_state){0};
    void *block = malloc(BLOCK);
    if (!block) return fail(why, "%s: no memory to read it", path);
    input_file file;
    bool done = input_file_open(&file, path, why);
    if (done) {
        done = read_all(&file, key, block, state, why);
        input_file_close(&file);
    }
    free(block);
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
