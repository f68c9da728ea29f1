// SPDX-License-Identifier: MIT
// The files of scenes. Their suffix decides which format is written; what is read is decided by its first bytes, where
// a format has a mark, else by the suffix.
#include "arrays.h"
#include "cli/command_line.h"
#include "formats/formats.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const scene_format *const formats[] = {
    &ply_format, &spz_format, &sog_format, &compressed_ply_format, &splat_format, &glb_format,
};

enum { FORMATS = sizeof formats / sizeof *formats };

// NULL, and why, if no format has the suffix of the path, or none that is written.
static const scene_format *format_of(const char *path, bool write, fault *why) {
    const scene_format *best = NULL;
    char known[256] = "";
    const size_t length = strlen(path);
    for (int i = 0; i < FORMATS; i++) {
        const size_t suffix = strlen(formats[i]->suffix), used = strlen(known);
        if (length > suffix && strcasecmp(path + length - suffix, formats[i]->suffix) == 0 &&
            (!best || suffix > strlen(best->suffix)))
            best = formats[i];
        if (!write || formats[i]->put || formats[i]->write)
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", formats[i]->suffix);
    }
    if (best && (!write || best->put || best->write)) return best;
    if (best)
        fail(why, "%s: %s files are only read; the suffix must be one of %s", path, best->suffix, known);
    else
        fail(why, "%s: not a known format of scenes; the suffix must be one of %s%s", path, known,
             length > 5 && strcasecmp(path + length - 5, ".gltf") == 0
                 ? ": `gltf-transform copy` makes a .glb of it"
                 : "");
    return NULL;
}

// The numbers that stand for opacity 1 and 0 and for scale 0, which have no finite logit and logarithm.
static void give_limits(gs_gaussians *g) {
    const float most = logf((1 - 1e-6f) / 1e-6f), least = logf(1e-20f);
    for (int64_t i = 0; i < g->count; i++)
        if (isinf(g->opacity_logit[i])) g->opacity_logit[i] = copysignf(most, g->opacity_logit[i]);
    for (int64_t i = 0; i < 3 * g->count; i++)
        if (g->log_scale[i] == -INFINITY) g->log_scale[i] = least;
}

// Finds the first value that is not finite: Gaussian `before` + its row has it.
static bool check_finite(const gs_gaussians *g, int64_t before, const char *path, const char *what,
                         fault *why) {
    static const char *const names[GS_ARRAYS] = {"mean", "log_scale", "quaternion", "opacity_logit", "sh"};
    const gs_arrays arrays = gs_arrays_of(g);
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int64_t i = 0; i < g->count * arrays.width[a]; i++)
            if (!isfinite(arrays.of[a][i]))
                return fail(why, "%s: %sGaussian %" PRId64 " has %s[%d] = %f", path, what,
                            before + i / arrays.width[a], names[a], (int)(i % arrays.width[a]),
                            (double)arrays.of[a][i]);
    return true;
}

bool scene_read(const char *path, scene_values values, gs_gaussians *out, fault *why) {
    *out = (gs_gaussians){0};
    input_file file;
    char head[4097]; // the file's first bytes
    const scene_format *format = format_of(path, false, why);
    if (!format || !input_file_open(&file, path, why)) return false;
    head[fread(head, 1, sizeof head - 1, file.stream)] = '\0';
    for (int i = 0; i < FORMATS; i++)
        for (int m = 0; m < 2 && formats[i]->marks[m]; m++)
            if (strncmp(head, formats[i]->marks[m], strlen(formats[i]->marks[m])) == 0 &&
                (!formats[i]->line || strstr(head, formats[i]->line)))
                format = formats[i];
    bool done = input_file_check(&file, "its first bytes", why) &&
                (fseeko(file.stream, 0, SEEK_SET) == 0 || fail(why, "%s: cannot seek to byte 0", path)) &&
                format->read(&file, out, why);
    if (done && values != SCENE_ANY) {
        give_limits(out);
        done = check_finite(out, 0, path, "", why);
        if (!done && values == SCENE_DROP) {
            const int64_t dropped = gaussians_keep_finite(out);
            fprintf(stderr, "dsplat: %s: %" PRId64 " Gaussians are not finite and left out (the first: %s)\n",
                    path, dropped, strrchr(why->text, ':') + 2);
            done = true;
        }
    }
    if (!done) scene_close(out);
    input_file_close(&file);
    return done;
}

bool scene_notes_move(const scene_notes *notes) {
    return notes && (notes->offset[0] != 0 || notes->offset[1] != 0 || notes->offset[2] != 0);
}

bool scene_read_notes(const char *path, scene_notes *out, fault *why) {
    *out = (scene_notes){0};
    const scene_format *format = format_of(path, false, why);
    return format && (!format->notes || format->notes(path, out, why));
}

bool scene_write(const char *path, const gs_gaussians *scene, fault *why) {
    scene_stream s;
    if (!scene_stream_open(&s, path, scene, NULL, why)) return false;
    if (scene_stream_put(&s, scene, why)) return scene_stream_commit(&s, why);
    scene_stream_discard(&s);
    return false;
}

bool scene_stream_open(scene_stream *s, const char *path, const gs_gaussians *shape, const scene_notes *notes,
                       fault *why) {
    *s = (scene_stream){.format = format_of(path, true, why), .shape = *shape};
    if (!s->format || !output_file_open(&s->file, path, why)) return false;
    if (scene_notes_move(notes) && !s->format->notes)
        fprintf(stderr,
                "dsplat: %s: the format cannot say that %.15g, %.15g, %.15g is added to its coordinates\n",
                path, notes->offset[0], notes->offset[1], notes->offset[2]);
    if (s->format->begin) s->format->begin(s->file.stream, shape, notes);
    return true;
}

static bool write_whole(const scene_stream *s, gs_gaussians whole, fault *why) {
    whole.sh_degree = s->shape.sh_degree;
    whole.antialias = s->shape.antialias;
    return s->format->write(&s->file, &whole, s->variant, why);
}

bool scene_stream_put(scene_stream *s, const gs_gaussians *piece, fault *why) {
    if (!check_finite(piece, s->put, s->file.path, "not written: ", why)) return false;
    if (piece->count == 0) return true;
    if (piece->count > s->shape.count - s->put)
        return fail(why, "%s: not written: more than %" PRId64 " Gaussians", s->file.path, s->shape.count);
    if (s->format->put) {
        s->format->put(s->file.stream, piece);
    } else if (piece->count == s->shape.count) {
        if (!write_whole(s, *piece, why)) return false;
    } else { // kept until all are there
        if (!s->all.mean && !scene_open(&s->all, s->shape.count, s->shape.sh_degree, why)) return false;
        const gs_arrays from = gs_arrays_of(piece), to = gs_arrays_of(&s->all);
        for (int a = 0; a < GS_ARRAYS; a++)
            memcpy(to.of[a] + s->put * to.width[a], from.of[a], piece->count * to.width[a] * sizeof(float));
        if (s->put + piece->count == s->shape.count && !write_whole(s, s->all, why)) return false;
    }
    s->put += piece->count;
    return true;
}

bool scene_stream_commit(scene_stream *s, fault *why) {
    const bool complete =
        s->put == s->shape.count || fail(why, "%s: not written: %" PRId64 " Gaussians, not %" PRId64,
                                         s->file.path, s->put, s->shape.count);
    if (complete && (s->put > 0 || s->format->put || write_whole(s, s->shape, why))) {
        scene_close(&s->all);
        return output_file_commit(&s->file, why);
    }
    scene_stream_discard(s);
    return false;
}

void scene_stream_discard(scene_stream *s) {
    scene_close(&s->all);
    output_file_discard(&s->file);
}

bool scene_is_possible(const char *path, fault *why) {
    return format_of(path, true, why) && output_is_possible(path, why);
}

// ---- what compressed formats share

bool read_rest(input_file *file, const char *what, uint8_t **bytes, size_t *count, fault *why) {
    *count = file->offset < file->size ? (size_t)(file->size - file->offset) : 0;
    *bytes = malloc(*count ? *count : 1);
    if (!*bytes) return fail(why, "%s: no memory for %zu bytes", file->path, *count);
    if (input_file_read(file, *bytes, *count, what, why)) return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

bool is_plausible(const char *path, uint64_t size, uint64_t bytes, fault *why) {
    enum { MOST = 1024, SMALL = 1 << 16 };
    return bytes / MOST <= size + SMALL / MOST ||
           fail(why, "%s: truncated or damaged: %" PRIu64 " bytes announced, in a file of %" PRIu64 " bytes",
                path, bytes, size);
}

const double clamped_steps[CLAMPED] = {1 / 16.0, 1 / 255.0 / 0.15, 1 / 128.0};

void clamped_note(clamped c[CLAMPED], int kind, double beyond) {
    if (beyond > clamped_steps[kind] / 2) c[kind].count++, c[kind].most = fmax(c[kind].most, beyond);
}

void clamped_say(const clamped c[CLAMPED], const char *path, const char *suffix) {
    static const char *const kinds[CLAMPED] = {"logarithms of scales", "coefficients of degree 0",
                                               "coefficients of higher degrees"};
    for (int k = 0; k < CLAMPED; k++)
        if (c[k].count > 0)
            fprintf(stderr,
                    "dsplat: %s: %" PRId64 " %s are beyond what %s holds, by up to %.3g, and are clamped\n",
                    path, c[k].count, kinds[k], suffix, c[k].most);
}

void quaternion_unit(const float q[4], double unit[4]) {
    double square = 0;
    for (int k = 0; k < 4; k++) square += (double)q[k] * q[k];
    for (int k = 0; k < 4; k++) unit[k] = square > 0 ? q[k] / sqrt(square) : k == 0;
}

uint8_t opacity_byte(const gs_gaussians *g, int64_t i) {
    const float *const q = g->quaternion + 4 * i;
    return q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 0
               ? 0
               : to_byte(255 * (1 / (1 + exp(-(double)g->opacity_logit[i]))));
}

int quaternion_to_three(const double q[4], double three[3]) {
    int largest = 0, next = 0;
    for (int k = 1; k < 4; k++)
        if (fabs(q[k]) > fabs(q[largest])) largest = k;
    for (int k = 0; k < 4; k++)
        if (k != largest) three[next++] = q[largest] < 0 ? -q[k] : q[k];
    return largest;
}

void quaternion_from_three(int largest, const double three[3], float q[4]) {
    double rest = 1;
    for (int k = 0; k < 3; k++) {
        rest -= three[k] * three[k];
        q[k < largest ? k : k + 1] = (float)three[k];
    }
    q[largest] = (float)sqrt(fmax(rest, 0));
}

void quaternion_from_parts(int largest, const double part[3], float q[4]) {
    double three[3];
    for (int k = 0; k < 3; k++) three[k] = (part[k] - 0.5) * sqrt(2);
    quaternion_from_three(largest, three, q);
}
