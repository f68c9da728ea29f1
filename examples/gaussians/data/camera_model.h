// SPDX-License-Identifier: MIT
// The camera models that readers of COLMAP models and transforms.json know. The list is in camera_model.c.
#pragma once

#include "lens.h"

C_LINKAGE_BEGIN

enum { CAMERA_MODEL_MAX_PARAMETERS = LENS_PARAMETERS };

// COLMAP's number of the model, or -1 if there is no such name.
int camera_model_number(const char *name);
// "unknown" if no model has that number.
const char *camera_model_name(int model);
// How many parameters the model has. 0 if the model is unknown or cannot be read.
int camera_model_parameter_count(int model);
bool camera_model_is_fisheye(int model);
// Sets the lens's parameters of a model that can be read; values: in COLMAP's order.
void camera_model_apply(int model, const double *values, lens *optics);
// The names of the models that can be read, separated by commas.
void camera_model_list(char text[128]);

C_LINKAGE_END
