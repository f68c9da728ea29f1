// SPDX-License-Identifier: MIT
// The memory of a sphere_set: one block that begins at `center`, on the host or on the device.
#pragma once

#include "files/fault.h"
#include "spheres.h"
#include <stddef.h>

C_LINKAGE_BEGIN

bool sphere_set_open(sphere_set *out, int64_t count, int channels, fault *why); // host, all 0
void sphere_set_close(sphere_set *host);                                        // harmless twice
sphere_set device_sphere_set_open(int64_t count, int channels);                 // device, all 0
void device_sphere_set_close(sphere_set *device);                               // harmless twice
// Both sets have the same count and channels.
void sphere_set_upload(const sphere_set *device, const sphere_set *host);
void sphere_set_download(const sphere_set *host, const sphere_set *device);

C_LINKAGE_END
