// SPDX-License-Identifier: MIT
// Photographs and masks on the device, of views that have them on the host. A view is uploaded when it is first asked
// for. It stays until the memory is needed for others: then the one that has not been used for longest goes.
#pragma once

#include "target_view.h"

C_LINKAGE_BEGIN

// What becomes of a view on the device: padded to width x height (0: as it is), and then 1/factor of that (1, 0: all).
typedef struct picture_form {
    int factor, width, height;
} picture_form;
gs_camera picture_form_camera(const picture_form *form, const gs_camera *camera);

typedef struct cached_picture {
    target_view listed; // as it was given
    target_view view;   // in the cache's form; its pixels are NULL where it is not on the device
    int64_t last_used;  // picture_cache.now at that time
} cached_picture;

typedef struct picture_cache {
    cached_picture *pictures; // [count]
    size_t count;
    bool with_alpha;
    picture_form form;
    size_t bytes, most_bytes;
    int64_t uploads; // so far
    int64_t now;     // steps so far
} picture_cache;     // starts as {0}

// views: as target_view_list leaves them, must outlive the cache. most_bytes: on the device; what one step needs is
// held also if it is more. 0: a quarter of the device's memory. Failures of the device end the program.
bool picture_cache_open(picture_cache *cache, const target_view *views, size_t count, bool with_alpha,
                        size_t most_bytes, fault *why);
// Views have this form from here on; those of another one go. Waits for the device.
void picture_cache_reform(picture_cache *cache, const picture_form *form);
// What earlier calls have returned may go from here on.
void picture_cache_next_step(picture_cache *cache);
// View `index`, with its pixels, mask and, if with_alpha, alpha on the device. Valid until the next step. Waits for the default stream if it
// uploads.
const target_view *picture_cache_view(picture_cache *cache, size_t index);
// False: picture_cache_view will upload it.
bool picture_cache_has(const picture_cache *cache, size_t index);
void picture_cache_close(picture_cache *cache); // harmless on {0}

C_LINKAGE_END
