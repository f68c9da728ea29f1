// SPDX-License-Identifier: MIT
// What readers of COLMAP models and transforms.json list, as their files have it and in double precision: the pose and
// the lens of each photograph, its mask, points. The rules for all of them are here: reconstruction_settle.
#pragma once

#include "files/json_writer.h"
#include "files/path.h"
#include "lens.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// A photograph and its camera.
typedef struct dataset_view {
    int64_t id; // COLMAP's; first, for compare_ids
    // What readers list:
    char *name;                         // the picture's path inside its folder
    char *mask_path;                    // of the mask's file, inside the folder of the data; NULL: none
    lens optics;                        // of the photograph in its file; complete when it is loaded
    double rotation[9], translation[3]; // as in gs_camera
    bool held_out;                      // for measuring, not for training
    // What dataset_load makes of it:
    gs_camera camera; // of the picture as loaded: an ideal pinhole or a fisheye; may differ between views
    image picture;    // RGB; empty if not wanted
    uint8_t *alpha;   // [height][width] of the picture; NULL if it has none or is not wanted
    uint8_t *mask;    // [height][width]: 255, or 0: the pixel does not count; NULL: all count
    float *depth;     // [height][width] of the picture, NaN: unknown (depth_maps_load); NULL: none
    unsigned remarks; // bits of dataset.c: what one line on stderr tells for all views
} dataset_view;

typedef struct reconstruction_point {
    double place[3]; // world
    uint8_t color[3];
} reconstruction_point;

// A point that was found in a photograph.
typedef struct track_entry {
    int64_t view;   // the image's id; after reconstruction_settle its index
    uint32_t point; // index
} track_entry;

// Views or other things of one kind, for one line that warns of all.
typedef struct tally {
    size_t count;
    char first[256]; // its name
} tally;

typedef struct reconstruction {
    char file[PATH_ROOM];     // that lists the views, for messages
    bool in_images;           // the pictures lie in images/ rather than in the folder of the data
    char pictures[PATH_ROOM]; // the path of their folder, the data's or one inside. Of reconstruction_settle
    size_t view_count, view_room;
    dataset_view *views;
    size_t point_count, point_room;
    reconstruction_point *points;
    char *points_file; // the path of the file of points; NULL: none
    bool with_tracks;  // asks a reader for tracks
    size_t track_count, track_room;
    track_entry *tracks; // by point
    double offset[3];    // of the data's coordinates over the views' and points'. Of reconstruction_settle
    tally scaled;        // rotations with a scale that was divided out
} reconstruction;

// Where a record begins, for messages: "FILE: at line 3: ", or with the unit "frames" "FILE: frames[3]: ".
typedef struct record_place {
    const char *path, *unit;
    uint64_t number;
} record_place;

// fail() with the place before the text
bool fail_at(fault *why, const record_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tally_add(tally *t, const char *name); // counts one more
// Prints "dsplat: PATH: COUNT of ALL ...", of a count of 0 nothing.
void tally_say(const tally *t, const char *path, size_t all, const char *what);

// Makes the matrix the nearest rotation. Fails unless it is a rotation, to 5e-3 in each entry of M^T M, times *scale;
// "not a rotation: ...". *scale is 1 if the matrix needs none.
bool rotation_of(double m[9], double *scale, fault *why);

// Whether files and arrays may have a camera or a point there: finite, and not farther than 1e18 from the origin, as
// squares of distances must be floats too.
bool place_is_near(const double place[3]);
int compare_ids(const void *a, const void *b); // for qsort and bsearch: of what begins with an int64_t
// Append a view (`name` and view->mask_path are copied, a backslash as /) or a point, after the checks that all readers share.
// Refused: an image name that is empty or leaves the folder of the images, a lens that lens_check refuses, a camera or a
// point for which place_is_near is false.
bool reconstruction_add_view(reconstruction *r, const record_place *place, const char *name,
                             const dataset_view *view, fault *why);
bool reconstruction_add_point(reconstruction *r, const record_place *place, const double at[3],
                              const uint8_t color[3], fault *why);

// After all is listed:
// - finds the pictures and their masks: r->pictures is the folder of several usual ones that has most of them. A name may
//   lack its suffix or have it in the other case, and that of a HEIC picture may be that of its JPEG;
// - skips views without a picture. None left is an error, unless `cameras_only`: then no view is skipped;
// - holds out pictures that are both to train on and held out;
// - sorts the views by name and refuses two of one name;
// - moves the origin to the cameras if they are so far from it that floats would be too coarse.
// One line on stderr for each kind of thing that it changes has the number and the first name.
bool reconstruction_settle(reconstruction *r, const char *folder, bool cameras_only, fault *why);
void reconstruction_close(reconstruction *r); // harmless on {0} and twice

// ---- cameras of pictures

// The camera of the picture that image_downscale makes.
void dataset_downscale_camera(gs_camera *camera, int factor);
// Sets the near planes of `count` cameras, `stride` bytes apart, by where they are: half the distance from a camera to the
// next one, in the median of about 500 cameras. Photographs that overlap stand closer to each other than to what they show.
// The largest distance of a camera from the mean of all bounds it. It is at most a 30th of that, as Gaussians nearer than
// this are mostly errors, and at least a 100,000th. 0.01 if all cameras are in one place.
void dataset_set_near_planes(gs_camera *cameras, size_t stride, size_t count);

// ---- files of pictures

// Finds a file by its name, such as the mask of a picture: NAME and the suffix (a.jpg.png, as COLMAP has it), or NAME with
// the suffix in place of its own (a.png), for each suffix in turn; `suffixes` ends with NULL.
bool file_find(const char *folder, const char *name, const char *const *suffixes, char path[PATH_ROOM]);
bool picture_is_heic(const char *name);                // by its suffix
bool is_file_in(const char *folder, const char *name); // whether "folder/name" is a file

// ---- readers

// Finds the folder of a COLMAP model: the one with most images of FOLDER/sparse/*, FOLDER/sparse and FOLDER, or, with
// `elsewhere`, of FOLDER/colmap/sparse/* and FOLDER/distorted/sparse/*. False, without a message, if there is none. Of
// several it names on stderr the one that is taken.
bool colmap_find(const char *folder, bool elsewhere, char model_folder[PATH_ROOM]);
// Lists a COLMAP model: cameras, images and points3D, each binary (.bin) or text (.txt); colmap_points.
// On failure *out is empty. with_tracks: reads the points' tracks too.
bool colmap_load(const char *model_folder, bool with_tracks, reconstruction *out, fault *why);
// Appends the points of points3D.bin, .txt or .ply in the folder, in either case of the D. Without any there are none.
bool colmap_load_points(const char *folder, reconstruction *out, fault *why);

// Appends the vertices of a PLY file, binary little-endian or ASCII with the vertex element first: x y z and red green
// blue, diffuse_red and so on, or r g b, of any number type: 0..255, or as floats none of which is above 1, 0..1; 128
// where there are none. Other properties are skipped. Refused: a file without x, y, z, a list, values that are not finite,
// a file that ends early.
bool ply_read_points(const char *path, reconstruction *out, fault *why);

// ---- transforms.json in the forms of NeRF's Blender scenes, of instant-ngp and of nerfstudio

// Whether the folder has a transforms_train.json or a transforms.json.
bool transforms_are_in(const char *folder);

// Lists FOLDER/transforms_train.json and, if it exists, FOLDER/transforms_test.json, whose views are held out. Without
// transforms_train.json it lists FOLDER/transforms.json. On failure *out is empty.
//
// Keys:
// - frames[]: each with file_path (inside FOLDER) and transform_matrix (4 x 4, camera to world, y up and z backward);
//   mask_path (inside FOLDER, see dataset.h);
// - camera_angle_x, camera_angle_y, or fl_x, fl_y, which take precedence;
// - cx, cy, w, h, k1 to k4, p1, p2;
// - camera_model, a name of lens_models that can be read, or is_fisheye: a fisheye, which needs fl_x;
// - ply_file_path (inside FOLDER): the points to start from (ply_read_points), in the world of transform_matrix.
//   nerfstudio's applied_transform is in both already, so it is ignored as other keys are. Without that key
//   colmap_load_points of FOLDER.
// - test_filenames, val_filenames: nerfstudio's lists of frames that are held out.
// All but frames and these may also be in a frame, where they take precedence. Defaults: fl_y is fl_x, cx and cy are
// the middle, w and h are the picture's, no distortion. Other keys (aabb_scale, scale, offset, sharpness,
// ...) are ignored.
//
// Refused: distortions other than 0 that the lens does not have (k5, k6; of a fisheye p1, p2 too), any other
// camera_model, a last row other than 0 0 0 1, and what reconstruction_add_view refuses.
bool transforms_load(const char *folder, reconstruction *out, fault *why);

// Writes a transforms.json with the lens of each photograph, which is complete, in its frame: completely or not at all,
// "-" to stdout. transforms_load reads it back if it lies where the paths begin. A name is `folder`/name, or name if the
// folder is "".
bool transforms_save(const char *path, const char *folder, const dataset_view *views, size_t count,
                     fault *why);
// The field transform_matrix of a frame, from a pose as in gs_camera.
void transforms_put_pose(json_writer *json, const double rotation[9], const double translation[3]);

C_LINKAGE_END
