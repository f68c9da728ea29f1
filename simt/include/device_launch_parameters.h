// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name.
#ifndef SIMT_NVIDIA_DEVICE_LAUNCH_PARAMETERS_H
#define SIMT_NVIDIA_DEVICE_LAUNCH_PARAMETERS_H

#include "cuda_runtime.h"

#endif
