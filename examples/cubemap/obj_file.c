// SPDX-License-Identifier: MIT
#include "obj_file.h"
#include "gpu/growing.h"
#include "shapes.h"
#include "files/text_file.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 26 }; // vertices; triangles

typedef struct reader {
    text_file text;
    float (*position)[3];
    int (*corner)[3];
    size_t vertices, triangles, vertex_room, triangle_room;
} reader;

static bool complain(const reader *r, const char *what, fault *why) {
    return fail(why, "%s: at line %" PRIu64 ": %s", r->text.file.path, r->text.number, what);
}

static bool read_vertex(reader *r, const char *rest, fault *why) {
    float(*grown)[3] = growing(r->position, r->vertices, &r->vertex_room, sizeof *grown);
    if (!grown) return complain(r, "no memory for so many vertices", why);
    r->position = grown;
    if (r->vertices == MAX_ITEMS) return complain(r, "more than 2^26 vertices", why);
    for (int i = 0; i < 3; i++) {
        char *end;
        grown[r->vertices][i] = strtof(rest, &end);
        if (end == rest || (*end != '\0' && !strchr(" \t", *end)))
            return complain(r, "a vertex needs three numbers", why);
        if (!isfinite(grown[r->vertices][i])) return complain(r, "a number is not finite", why);
        rest = end;
    }
    r->vertices++;
    return true;
}

// One corner, "7", "7/1", "7//3" or "-1": the number of its vertex from 0.
static bool read_corner(reader *r, const char **rest, int *vertex, fault *why) {
    char *end;
    errno = 0;
    const long number = strtol(*rest, &end, 10);
    const long from_zero = number > 0 ? number - 1 : (long)r->vertices + number;
    if (end == *rest || (*end != '\0' && !strchr("/ \t", *end)))
        return complain(r, "a corner of a face is not the number of a vertex", why);
    if (errno || number == 0 || from_zero < 0 || from_zero >= (long)r->vertices)
        return complain(r, "a face names a vertex that is not there", why);
    *vertex = (int)from_zero;
    *rest = end + strcspn(end, " \t");
    return true;
}

static bool read_face(reader *r, const char *rest, fault *why) {
    int first = 0, last = 0, count = 0;
    for (rest += strspn(rest, " \t"); *rest != '\0'; rest += strspn(rest, " \t"), count++) {
        int vertex = 0;
        if (!read_corner(r, &rest, &vertex, why)) return false;
        if (count == 0) first = vertex;
        if (count >= 2) {
            int(*grown)[3] = growing(r->corner, r->triangles, &r->triangle_room, sizeof *grown);
            if (!grown) return complain(r, "no memory for so many faces", why);
            r->corner = grown;
            if (r->triangles == MAX_ITEMS) return complain(r, "more than 2^26 triangles", why);
            grown[r->triangles][0] = first, grown[r->triangles][1] = last, grown[r->triangles][2] = vertex;
            r->triangles++;
        }
        last = vertex;
    }
    return count >= 3 || complain(r, "a face needs three corners", why);
}

static bool read_lines(reader *r, fault *why) {
    for (;;) {
        if (!text_file_next(&r->text, why)) return false;
        if (!r->text.line) return true;
        const char *line = r->text.line + strspn(r->text.line, " \t");
        if (line[0] == 'v' && (line[1] == ' ' || line[1] == '\t')) {
            if (!read_vertex(r, line + 1, why)) return false;
        } else if (line[0] == 'f' && (line[1] == ' ' || line[1] == '\t')) {
            if (!read_face(r, line + 1, why)) return false;
        }
    }
}

static bool to_mesh(const reader *r, mesh *out, fault *why) {
    const char *path = r->text.file.path;
    if (r->triangles == 0) return fail(why, "%s: holds no faces", path);
    if (!mesh_open(out, (int)r->vertices, (int)r->triangles, why)) return false;
    memcpy(out->position, r->position, r->vertices * sizeof *r->position);
    memcpy(out->corner, r->corner, r->triangles * sizeof *r->corner);
    if (!shape_fit(out)) {
        mesh_close(out);
        return fail(why, "%s: the mesh has no extent, or a boundless one", path);
    }
    mesh_find_normals(out);
    for (int v = 0; v < out->vertices; v++) {
        float *n = out->normal + 3 * (size_t)v;
        const float square = n[0] * n[0] + n[1] * n[1] + n[2] * n[2];
        if (!(square > 0)) n[0] = n[1] = 0, n[2] = 1;
    }
    return true;
}

bool obj_file_read(const char *path, mesh *out, fault *why) {
    reader r = {0};
    *out = (mesh){0};
    if (!text_file_open(&r.text, path, why)) return false;
    const bool done = read_lines(&r, why) && to_mesh(&r, out, why);
    text_file_close(&r.text);
    free(r.position);
    free(r.corner);
    return done;
}
