// SPDX-License-Identifier: MIT
// Collects what readers list, and applies the rules that are the same for all of them.
#include "reconstruction.h"
#include "files/growing.h"
#include "gpu/vector.h"
#include "lenses.h"
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

bool fail_at(fault *why, const record_place *place, const char *format, ...) {
    char text[sizeof why->text]; // the arguments may lie in *why
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const bool frame = strcmp(place->unit, "frames") == 0;
    return fail(why, frame ? "%s: %s[%" PRIu64 "]: %s" : "%s: at %s %" PRIu64 ": %s", place->path,
                place->unit, place->number, text);
}

void tally_add(tally *t, const char *name) {
    if (t->count++ == 0) snprintf(t->first, sizeof t->first, "%s", name);
}

void tally_say(const tally *t, const char *path, size_t all, const char *what) {
    fault line; // one line, whatever the names hold
    if (t->count == 0) return;
    fail(&line, "%s: %zu of %zu %s (the first: '%s')", path, t->count, all, what, t->first);
    fprintf(stderr, "dsplat: %s\n", line.text);
}

// ---- what readers add

// The largest entry of M^T M / scale^2 - 1, or infinity.
static double skewness(const double m[9], double scale) {
    double largest = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double product = m[i] * m[j] + m[3 + i] * m[3 + j] + m[6 + i] * m[6 + j];
            const double entry = product / (scale * scale) - (i == j);
            if (!(fabs(entry) <= largest)) largest = isfinite(entry) ? fabs(entry) : INFINITY;
        }
    return largest;
}

bool rotation_of(double m[9], double *scale, fault *why) {
    const double tolerance = 5e-3;
    double cofactors[9];
    const double determinant = determinant_and_cofactors(m, cofactors), skew = skewness(m, 1);
    *scale = skew <= tolerance ? 1 : cbrt(determinant);
    if (!(determinant > 0) || !(skewness(m, *scale) <= tolerance))
        return fail(why,
                    "not a rotation: M^T M differs from 1 by up to %g (%g is tolerated), and its "
                    "determinant is %g",
                    skew, tolerance, determinant);
    for (int i = 0; i < 9; i++) m[i] /= *scale;
    nearest_rotation(m);
    return true;
}

bool place_is_near(const double place[3]) {
    return hypot(hypot(place[0], place[1]), place[2]) <= 1e18;
}

// A copy with / for the backslashes of Windows and without "./"; NULL: no memory.
static char *copy_path(const char *path) {
    while (path[0] == '.' && (path[1] == '/' || path[1] == '\\')) path += 2;
    char *const copy = strdup(path);
    for (char *c = copy; c && *c; c++)
        if (*c == '\\') *c = '/';
    return copy;
}

bool reconstruction_add_view(reconstruction *r, const record_place *place, const char *name,
                             const dataset_view *view, fault *why) {
    dataset_view added = *view;
    const double *const t = view->translation;
    bool done = false;
    if (!lens_check(&added.optics, why)) return fail_at(why, place, "the camera has %s", why->text);
    if (!place_is_near(t))
        return fail_at(why, place, "image '%.200s' has the translation %g, %g, %g", name, t[0], t[1], t[2]);
    added.name = copy_path(name);
    added.mask_path = view->mask_path ? copy_path(view->mask_path) : NULL;
    if (!added.name || (view->mask_path && !added.mask_path))
        fail_at(why, place, "no memory for the name of image %zu", r->view_count + 1);
    else if (!path_stays_inside(added.name) || (added.mask_path && !path_stays_inside(added.mask_path)))
        fail_at(why, place, "image name '%.200s' is empty or leaves the images folder", name);
    else
        done = append(&r->views, &r->view_count, &r->view_room, &added, sizeof added) ||
               fail_at(why, place, "no memory for %zu images", r->view_count + 1);
    if (!done) free(added.name), free(added.mask_path);
    return done;
}

bool reconstruction_add_point(reconstruction *r, const record_place *place, const double at[3],
                              const uint8_t color[3], fault *why) {
    const reconstruction_point point = {{at[0], at[1], at[2]}, {color[0], color[1], color[2]}};
    if (!place_is_near(at))
        return fail_at(why, place, "point number %zu is at %g, %g, %g", r->point_count, at[0], at[1], at[2]);
    return append(&r->points, &r->point_count, &r->point_room, &point, sizeof point) ||
           fail_at(why, place, "no memory for %zu points", r->point_count + 1);
}

void reconstruction_close(reconstruction *r) {
    for (size_t i = 0; i < r->view_count; i++) {
        free(r->views[i].name);
        free(r->views[i].mask_path);
    }
    free(r->views);
    free(r->points_file);
    free(r->points);
    free(r->tracks);
    *r = (reconstruction){0};
}

// ---- files of pictures

bool is_file_in(const char *folder, const char *name) {
    char path[PATH_ROOM];
    fault ignored;
    struct stat status;
    if (!path_join(path, folder, name, &ignored)) return false;
    // A file that cannot be examined counts as existing: reading it gives the reason.
    return stat(path, &status) == 0 ? !S_ISDIR(status.st_mode) : errno != ENOENT && errno != ENOTDIR;
}

static const char *suffix_of(const char *name) {
    const char *const slash = strrchr(name, '/'), *const dot = strrchr(slash ? slash : name, '.');
    return dot ? dot : name + strlen(name);
}

bool file_find(const char *folder, const char *name, const char *const *suffixes, char path[PATH_ROOM]) {
    const int lengths[2] = {(int)strlen(name), (int)(suffix_of(name) - name)};
    fault ignored;
    for (; *suffixes; suffixes++)
        for (int i = 0; i < 2; i++) {
            char file[PATH_ROOM];
            if (snprintf(file, sizeof file, "%.*s%s", lengths[i], name, *suffixes) < (int)sizeof file &&
                is_file_in(folder, file) && path_join(path, folder, file, &ignored))
                return true;
        }
    return false;
}

bool picture_is_heic(const char *name) {
    return strcasecmp(suffix_of(name), ".heic") == 0 || strcasecmp(suffix_of(name), ".heif") == 0;
}

// The name that the picture has in the folder.
static bool find_picture(const char *folder, const char *name, char found[PATH_ROOM]) {
    static const char *const suffixes[] = {".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"};
    const char *const own = suffix_of(name);
    if (snprintf(found, PATH_ROOM, "%s", name) >= PATH_ROOM) return false;
    if (!picture_is_heic(name) && is_file_in(folder, found)) return true;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const bool other_case = strcasecmp(own, suffixes[i]) == 0;
        const int length = (int)(other_case || picture_is_heic(name) ? own - name : (long)strlen(name));
        if (snprintf(found, PATH_ROOM, "%.*s%s", length, name, suffixes[i]) < PATH_ROOM &&
            is_file_in(folder, found))
            return true;
    }
    return false;
}

// ---- the rules

// Frees views without a name, and moves the others up.
static void drop_nameless(reconstruction *r) {
    size_t kept = 0;
    for (size_t i = 0; i < r->view_count; i++)
        if (r->views[i].name)
            r->views[kept++] = r->views[i];
        else
            free(r->views[i].mask_path);
    r->view_count = kept;
}

static bool find_pictures(reconstruction *r, const char *folder, bool cameras_only, fault *why) {
    static const char *const folders[] = {"", "/images", "", "/input", "/images_2", "/images_4", "/images_8"};
    size_t most = 0, best = r->in_images;
    char found[PATH_ROOM];
    tally heic = {0}, missing = {0};
    for (size_t i = best; i < sizeof folders / sizeof *folders && most < r->view_count; i++) {
        size_t count = 0;
        snprintf(r->pictures, PATH_ROOM, "%s%s", folder, folders[i]); // too long: has none
        for (size_t k = 0; k < r->view_count; k++)
            count += find_picture(r->pictures, r->views[k].name, found);
        if (count > most) most = count, best = i;
    }
    snprintf(r->pictures, PATH_ROOM, "%s%s", folder, folders[best]);
    if (most == 0 && cameras_only) return true;
    for (size_t i = 0; i < r->view_count; i++)
        if (picture_is_heic(r->views[i].name)) tally_add(&heic, r->views[i].name);
    if (most == 0 && heic.count > 0)
        return fail(why,
                    "%s: %zu of %zu images are HEIC (the first: '%s'), which cannot be read: make JPEGs of "
                    "the same names of them, as by `magick mogrify -format jpg *.heic`",
                    folder, heic.count, r->view_count, heic.first);
    if (most == 0)
        return fail(why,
                    "%s: none of the pictures of its %zu views exists, the first being '%s', in %s, its "
                    "images, input, images_2, images_4 or images_8",
                    r->file, r->view_count, r->views->name, folder);
    if (best != r->in_images)
        fprintf(stderr, "dsplat: %s: the pictures are read from %s, as images has fewer of them\n", folder,
                r->pictures);
    for (size_t i = 0; i < r->view_count; i++) {
        char *const listed = r->views[i].name;
        const bool is_there = find_picture(r->pictures, listed, found);
        if (!is_there) tally_add(&missing, listed);
        r->views[i].name = is_there ? strdup(found) : NULL;
        free(listed);
        if (is_there && !r->views[i].name) return fail(why, "%s: no memory for its images", r->file);
    }
    tally_say(&missing, folder, r->view_count, "views have no picture and are skipped");
    drop_nameless(r);
    return true;
}

// By name, held-out ones first.
static int compare_views(const void *a, const void *b) {
    const dataset_view *const x = a, *const y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : y->held_out - x->held_out;
}

// A picture that is both to train on and held out is held out, unless none would be left to train on.
static bool sort_views(reconstruction *r, const char *folder, fault *why) {
    tally both = {0};
    size_t training = 0;
    const dataset_view *last = NULL; // that stays
    qsort(r->views, r->view_count, sizeof *r->views, compare_views);
    for (size_t i = 0; i < r->view_count; i++) {
        dataset_view *const view = &r->views[i];
        if (!last || strcmp(view->name, last->name) != 0) {
            training += !view->held_out;
            last = view;
            continue;
        }
        if (view->held_out == last->held_out)
            return fail(why, "%s: two images are named '%.500s'", r->file, view->name);
        tally_add(&both, view->name);
        free(view->name);
        view->name = NULL;
    }
    drop_nameless(r);
    for (size_t i = 0; i < r->view_count && training == 0 && both.count > 0; i++)
        r->views[i].held_out = false;
    tally_say(&both, folder, r->view_count,
              training > 0 ? "pictures are both to train on and held out, and are held out"
                           : "pictures are both to train on and held out: this split is ignored");
    return true;
}

// Masks that no frame names lie in masks/.
static bool find_masks(reconstruction *r, const char *folder, fault *why) {
    static const char *const suffixes[] = {".png", ".PNG", NULL};
    char masks[PATH_ROOM], path[PATH_ROOM];
    tally without = {0};
    bool any = false;
    struct stat status;
    if (!path_join(masks, folder, "masks", why)) return false;
    const bool look = r->in_images && stat(masks, &status) == 0 && S_ISDIR(status.st_mode);
    for (size_t i = 0; i < r->view_count; i++) {
        dataset_view *const view = &r->views[i];
        any |= view->mask_path != NULL;
        if (view->mask_path && !is_file_in(folder, view->mask_path)) {
            free(view->mask_path);
            view->mask_path = NULL;
        }
        if (!view->mask_path && look && file_find(masks, view->name, suffixes, path)) {
            view->mask_path = strdup(path + strlen(folder) + 1);
            if (!view->mask_path) return fail(why, "%s: no memory for its name", path);
        }
        if (!view->mask_path) tally_add(&without, view->name);
    }
    if (look || any)
        tally_say(&without, folder, r->view_count, "pictures have no mask, so all their pixels count");
    return true;
}

int compare_ids(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Indices of views in place of their ids. Entries of images that are not there go.
static bool settle_tracks(reconstruction *r, fault *why) {
    int64_t(*const ids)[2] = calloc(r->view_count + 1, sizeof *ids); // id, index
    if (!ids) return fail(why, "%s: no memory for %zu images", r->file, r->view_count);
    for (size_t i = 0; i < r->view_count; i++) ids[i][0] = r->views[i].id, ids[i][1] = (int64_t)i;
    qsort(ids, r->view_count, sizeof *ids, compare_ids);
    size_t kept = 0;
    for (size_t i = 0; i < r->track_count; i++) {
        const int64_t(*const found)[2] =
            bsearch(&r->tracks[i].view, ids, r->view_count, sizeof *ids, compare_ids);
        if (found) r->tracks[kept++] = (track_entry){(*found)[1], r->tracks[i].point};
    }
    r->track_count = kept;
    free(ids);
    return true;
}

// Map coordinates have seven digits before the point, as many as floats have in all: where the cameras are farther from
// the origin than 256 times their spread, the origin moves to a round place among them.
static void move_origin(reconstruction *r, const char *folder) {
    // The first pass finds the mean of the cameras' centres, -R^T t, the second the largest distance from it.
    double middle[3] = {0}, spread = 0, far = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < r->view_count; i++) {
            const dataset_view *const view = &r->views[i];
            double center[3];
            for (int k = 0; k < 3; k++) {
                center[k] = 0;
                for (int j = 0; j < 3; j++) center[k] -= view->rotation[3 * j + k] * view->translation[j];
                if (pass == 0) middle[k] += center[k] / (double)r->view_count;
                center[k] -= middle[k];
            }
            if (pass == 1) spread = fmax(spread, hypot(hypot(center[0], center[1]), center[2]));
        }
    far = hypot(hypot(middle[0], middle[1]), middle[2]);
    if (spread <= 1e-9 * far) spread = 1; // they are in one place
    if (!(far > 256 * spread)) return;
    const double step = exp2(floor(log2(spread)));
    for (int k = 0; k < 3; k++) r->offset[k] = rint(middle[k] / step) * step;
    for (size_t i = 0; i < r->view_count; i++)
        for (int k = 0; k < 9; k++)
            r->views[i].translation[k / 3] += r->views[i].rotation[k] * r->offset[k % 3];
    for (size_t i = 0; i < r->point_count; i++)
        for (int k = 0; k < 3; k++) r->points[i].place[k] -= r->offset[k];
    fprintf(stderr,
            "dsplat: %s: far from the origin: coordinates are taken from %.15g, %.15g, %.15g, which a .ply "
            "of the scene says\n",
            folder, r->offset[0], r->offset[1], r->offset[2]);
}

bool reconstruction_settle(reconstruction *r, const char *folder, bool cameras_only, fault *why) {
    if (r->view_count == 0) return fail(why, "%s: holds no images", r->file);
    tally_say(&r->scaled, folder, r->view_count, "rotations have a scale, which is divided out");
    if (!find_pictures(r, folder, cameras_only, why) || !sort_views(r, folder, why) ||
        !find_masks(r, folder, why) || !settle_tracks(r, why))
        return false;
    move_origin(r, folder);
    return true;
}

// ---- cameras of pictures

void dataset_downscale_camera(gs_camera *camera, int factor) {
    // A pixel is now a block. Cutting off the right and the bottom does not move the others.
    const float block_x = (float)(factor < camera->width ? factor : camera->width);
    const float block_y = (float)(factor < camera->height ? factor : camera->height);
    camera->fx /= block_x;
    camera->cx /= block_x;
    camera->fy /= block_y;
    camera->cy /= block_y;
    camera->width = camera->width > factor ? camera->width / factor : 1; // as image_downscale does
    camera->height = camera->height > factor ? camera->height / factor : 1;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void dataset_set_near_planes(gs_camera *cameras, size_t stride, size_t count) {
    enum { MOST_ASKED = 500 };
    double mean[3] = {0}, at[3], spread = 0, near_plane = 0.01;
#define CAMERA(i) ((gs_camera *)(void *)((char *)cameras + (i)*stride))
    for (size_t i = 0; i < count; i++) {
        camera_center(CAMERA(i), at);
        for (int k = 0; k < 3; k++) mean[k] += at[k] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        camera_center(CAMERA(i), at);
        spread = fmax(spread, hypot(hypot(at[0] - mean[0], at[1] - mean[1]), at[2] - mean[2]));
    }
    double next[2 * MOST_ASKED]; // distances to the next camera
    const size_t every = count < MOST_ASKED ? 1 : count / MOST_ASKED;
    size_t asked = 0;
    for (size_t i = 0; i < count; i += every) {
        double least = INFINITY;
        for (size_t j = 0; j < count; j++)
            if (i != j) least = fmin(least, camera_separation(CAMERA(i), CAMERA(j)));
        next[asked++] = least;
    }
    qsort(next, asked, sizeof *next, by_value);
    if (spread > 0) near_plane = fmin(fmax(next[asked / 2] / 2, spread / 100000), spread / 30);
    for (size_t i = 0; i < count; i++) CAMERA(i)->near_plane = (float)fmax(near_plane, FLT_MIN);
#undef CAMERA
}
