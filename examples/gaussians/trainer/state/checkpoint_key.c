// SPDX-License-Identifier: MIT
// What a run must share with the run that it continues, and when checkpoints are written.
#include "state/checkpoint.h"
#include "files/memory_stream.h"
#include "state/checkpoint_file.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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
