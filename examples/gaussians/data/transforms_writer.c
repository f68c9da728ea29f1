// SPDX-License-Identifier: MIT
#include "files/path.h"
#include "transforms.h"
#include <stdio.h>

typedef struct all_frames {
    const transforms_frame *frames;
    size_t count;
} all_frames;

static void put_lens(json_writer *json, const lens *optics) {
    lens copy = *optics;
    json_put_integer(json, "w", optics->width);
    json_put_integer(json, "h", optics->height);
    if (optics->fisheye) json_put_boolean(json, "is_fisheye", true);
    for (int i = 0; i < LENS_PARAMETERS; i++) {
        const lens_parameter *parameter = &lens_parameters[i];
        const double value = *lens_value(&copy, parameter);
        if (parameter->name[0] == 'f') { // fx is named fl_x here
            const char name[] = {'f', 'l', '_', parameter->name[1], '\0'};
            json_put_number(json, name, value);
        } else if (!parameter->distortion || value != 0) {
            json_put_number(json, parameter->name, value);
        }
    }
}

// Camera to world, y up and z backward.
void transforms_put_pose(json_writer *json, const double rotation[9], const double translation[3]) {
    static const double flip[3] = {1, -1, -1};
    json_begin(json, "transform_matrix", '[');
    json->one_line = true;
    for (int row = 0; row < 4; row++) {
        json_begin(json, NULL, '[');
        double center = row == 3;
        for (int k = 0; k < 3; k++) {
            json_put_number(json, NULL, row < 3 ? flip[k] * rotation[3 * k + row] : 0);
            if (row < 3) center -= rotation[3 * k + row] * translation[k];
        }
        json_put_number(json, NULL, center);
        json_end(json, ']');
    }
    json_end(json, ']');
    json->one_line = false;
}

static void describe(json_writer *json, const void *subject) {
    const all_frames *all = subject;
    json_begin(json, "frames", '[');
    for (size_t i = 0; i < all->count; i++) {
        const transforms_frame *frame = &all->frames[i];
        char path[PATH_ROOM];
        snprintf(path, sizeof path, "%s%s%s", frame->folder, *frame->folder ? "/" : "", frame->name);
        json_begin(json, NULL, '{');
        json_put_text(json, "file_path", path);
        if (frame->mask) json_put_text(json, "mask_path", frame->mask);
        put_lens(json, frame->optics);
        transforms_put_pose(json, frame->rotation, frame->translation);
        json_end(json, '}');
    }
    json_end(json, ']');
}

bool transforms_save(const char *path, const transforms_frame *frames, size_t count, fault *why) {
    const all_frames all = {frames, count};
    return json_save(path, describe, &all, why);
}
