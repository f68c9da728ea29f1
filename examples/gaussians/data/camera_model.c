// SPDX-License-Identifier: MIT
#include "camera_model.h"
#include <stdio.h>
#include <string.h>

// In COLMAP's numbering. parameters: names of lens.h in COLMAP's order, where f is fx and fy; NULL: cannot
// be read.
static const struct {
    const char *name, *parameters;
    bool fisheye;
} models[] = {
    {.name = "SIMPLE_PINHOLE", .parameters = "f cx cy"},
    {.name = "PINHOLE", .parameters = "fx fy cx cy"},
    {.name = "SIMPLE_RADIAL", .parameters = "f cx cy k1"},
    {.name = "RADIAL", .parameters = "f cx cy k1 k2"},
    {.name = "OPENCV", .parameters = "fx fy cx cy k1 k2 p1 p2"},
    {.name = "OPENCV_FISHEYE", .parameters = "fx fy cx cy k1 k2 k3 k4", .fisheye = true},
    {.name = "FULL_OPENCV"},
    {.name = "FOV"},
    {.name = "SIMPLE_RADIAL_FISHEYE", .parameters = "f cx cy k1", .fisheye = true},
    {.name = "RADIAL_FISHEYE", .parameters = "f cx cy k1 k2", .fisheye = true},
    {.name = "THIN_PRISM_FISHEYE"},
};

enum { MODELS = sizeof models / sizeof *models };

int camera_model_number(const char *name) {
    for (int i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0) return i;
    return -1;
}

const char *camera_model_name(int model) {
    return model >= 0 && model < MODELS ? models[model].name : "unknown";
}

// Moves on to the next word and returns its length; 0: there is none.
static size_t next_word(const char **at) {
    *at += strspn(*at, " ");
    return strcspn(*at, " ");
}

int camera_model_parameter_count(int model) {
    if (model < 0 || model >= MODELS || !models[model].parameters) return 0;
    int count = 0;
    const char *at = models[model].parameters;
    for (size_t length; (length = next_word(&at)) > 0; at += length) count++;
    return count;
}

bool camera_model_is_fisheye(int model) {
    return model >= 0 && model < MODELS && models[model].fisheye;
}

void camera_model_apply(int model, const double *values, lens *optics) {
    const char *at = models[model].parameters;
    for (size_t length; (length = next_word(&at)) > 0; at += length, values++) {
        const lens_parameter *parameter = lens_find_parameter(at, length);
        if (parameter)
            *lens_value(optics, parameter) = *values;
        else // f
            optics->fx = optics->fy = *values;
    }
    optics->fisheye = models[model].fisheye;
}

void camera_model_list(char text[128]) {
    size_t used = 0;
    for (int i = 0; i < MODELS; i++)
        if (models[i].parameters && used < 128)
            used += (size_t)snprintf(text + used, 128 - used, "%s%s", used ? ", " : "", models[i].name);
}
