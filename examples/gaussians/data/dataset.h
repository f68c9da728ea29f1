// SPDX-License-Identifier: MIT
// The data that training starts from: photographs with their cameras, and the points that structure from motion found.
#pragma once

#include "images/image.h"
#include "images/picture_store.h"
#include "reconstruction.h"
#include <dirent.h>

C_LINKAGE_BEGIN

typedef struct dataset {
    size_t view_count;
    dataset_view *views; // sorted by name
    size_t point_count;  // 0: the data has none
    float (*points)[3];  // world
    uint8_t (*colors)[3];
    size_t track_count;
    track_entry *tracks;  // which views see which points, by point; with_tracks
    double offset[3];     // of the data's coordinates over those of cameras and points: reconstruction_settle
    char *picture_folder; // of the names, inside the data's folder: "images", or "" for the folder itself
    bool is_object;       // every picture has an alpha channel: an object without surroundings
    size_t file_count;
    file_id *files;      // all files of the data: those of the model or transforms, and the pictures
    picture_store store; // has the memory of the views' pictures, alpha, masks and depth
} dataset;

typedef struct dataset_options {
    int downscale; // >= 1: divides the pictures both ways as image_downscale does, and the cameras with them
    float background[3]; // 0..1; blended behind transparent pictures
    // Whether a picture is wanted; NULL: all are. Others are read only if the data does not give their size. Called from
    // several threads, when view_count is known.
    bool (*wanted)(size_t index, const char *name, const void *context);
    const void *context;
    bool keep_alpha;      // false: views have no alpha
    bool undistort;       // makes pinholes of fisheyes too; of other lenses always
    bool mask_from_alpha; // alpha 0: the pixel does not count; alpha is not blended and not kept
    size_t memory;        // picture_store.most of the arrays
    bool with_tracks;     // tracks are wanted
} dataset_options;

// Loads the first of these that it finds: a COLMAP model (colmap_find), transforms_train.json or transforms.json
// (transforms_load), a COLMAP model elsewhere. The rules for all of them are those of reconstruction_settle.
//
// Masks: FOLDER/masks of a COLMAP model may have some (file_find); in transforms.json a frame may name one. Black
// pixels do not count. A pixel counts if neither its mask nor, with mask_from_alpha, its alpha is 0; after undistortion
// and downscaling if all pixels that it comes from count. Each picture has pixels that count.
//
// A picture of another size than its camera's is one that was made smaller or larger, and so is its mask: the lens is
// fitted to it (lens_resize). It is an error if its sides have no factor in common.
//
// Pictures are read in parallel, once each: decoded, blended with the background, undistorted at full size (see lens.h),
// downscaled. A camera's fx and cx are divided by the factor exactly, so are fy and cy. Rows and columns that do not fill a
// block are cut off at the bottom and the right. Near planes are those of dataset_set_near_planes. On failure *out is empty.
bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why);
// For dataset_options.wanted: no picture is wanted, only cameras.
bool dataset_no_picture(size_t index, const char *name, const void *context);
// Holds out every `every`th view, from the first; none if that is 0. Does nothing if the data itself has such views.
void dataset_hold_out(dataset *data, size_t every);
// Fails if the path (NULL: none) leads to one of the data's files. Call it before writing to the path.
bool dataset_may_write(const dataset *data, const char *path, fault *why);
void dataset_close(dataset *data); // harmless on {0} and twice

// ---- depth maps of photographs, as networks estimate them from single pictures

// The views whose maps are read.
typedef enum depth_maps_of { DEPTH_MAPS_TRAINING, DEPTH_MAPS_HELD_OUT, DEPTH_MAPS_ALL } depth_maps_of;

// Reads the depth maps of views, those held out or the others, into view->depth: the first of NAME.png, STEM.png,
// NAME.pfm, STEM.pfm in the folder (file_find, plane.h), which has the size of the photograph's file. It holds
// inverse depth, scaled and shifted by numbers that are not known: depth is the camera's z, of a fisheye the
// distance. It is undistorted and downscaled with the picture, as `options` say with which the data was loaded.
// Values that are not finite, and those that are made of one, are unknown: NaN. Each map has known values. The
// files become files of the data. After a failure some views may have maps.
bool depth_maps_load(dataset *data, const char *folder, const dataset_options *options, depth_maps_of of,
                     fault *why);

// ---- the photographs in a folder, by the suffix of their names

// For scandir, whose array it takes: .jpg, .jpeg and .png, in any case.
int photograph_is(const struct dirent *entry);
// Frees what scandir has returned; count < 0: nothing.
void photographs_close(struct dirent **entries, int count);

C_LINKAGE_END
