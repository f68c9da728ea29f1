// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // fopencookie
#include "state/checkpoint_file.h"
#include "device.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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
