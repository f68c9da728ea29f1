// SPDX-License-Identifier: MIT
// A training run on disk: its state, what it was asked for and what data it saw, so that it can go on later,
// and only as what it was.
//
// The file, little-endian: "SPLATCKP", a uint32 version, the lengths and counts of checkpoint_header, the
// settings, the arrays of training_state, and the CRC-32 of all that. It is written beside its place and
// renamed when complete; whoever reads it checks its length and sum before believing anything in it.
#ifndef SPLAT_CHECKPOINT_H
#define SPLAT_CHECKPOINT_H

#include "fault.h"
#include "options.h"
#include "view/target_view.h"
#include "training/training_state.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a run must have in common with the one that it continues.
typedef struct checkpoint_key {
    const char *settings; // a line "--name value" for every option that decides the result
    uint32_t data;        // checkpoint_fingerprint
} checkpoint_key;

// The lines for every option of a command, with its value now, but for those named in `except` (NULL-ended).
// NULL if there is no memory; freed by free().
char *checkpoint_settings(const option_spec *options, const char *const *except);
// A sum over cameras and pictures, in their order.
uint32_t checkpoint_fingerprint(const target_view *views, size_t count);

// Between two steps. Waits for the device. On failure what stood at `path` still stands.
bool checkpoint_write(const char *path, const checkpoint_key *key, const training_state *state, fault *why);
// Opens *state as it was written; on failure it is left {0}. Refused, each with its own text: what is no
// checkpoint, or of another version; what is not whole; what is of another run than `key` says.
bool checkpoint_read(const char *path, const checkpoint_key *key, training_state *state, fault *why);

#ifdef __cplusplus
}
#endif
#endif
