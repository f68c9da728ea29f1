// SPDX-License-Identifier: MIT
// A training run on disk: its state, its options and a fingerprint of its data, so that the same run can
// continue later, on any number of ranks.
//
// Rank 0 writes one file, also of Gaussians that lie on several ranks: they come to it in pieces, so that no host needs memory
// for all. It is little-endian, begins with a kind and a version and ends with the CRC-32 of the rest, and is written under
// another name and renamed when complete. The reader checks length and CRC-32 before it uses any other value.
#pragma once

#include "trainer.h"

C_LINKAGE_BEGIN

// Where a checkpoint goes that is no file. False: it is not taken.
typedef struct checkpoint_sink {
    bool (*write)(void *context, const void *bytes, size_t count);
    void *context;
} checkpoint_sink;

// What a run must share with the run that it continues.
typedef struct checkpoint_key {
    const char *settings; // checkpoint_settings of the options that are not at their defaults
    uint32_t data;        // checkpoint_fingerprint
    const char *usual; // checkpoint_settings of all defaults, for options that a run does not know; or NULL
} checkpoint_key;

// A line "--name value", with `before` for the dashes, for each option of a table that ends with OPTION_END, except those that
// are free_on_resume and those with the value that they have in `usual`, the same table with its defaults; NULL: all. NULL if
// there is no memory. The caller frees it by free().
char *checkpoint_settings(const char *before, const option_spec *options, const option_spec *usual);
// A checksum of cameras, pictures, masks and fitted depth maps, in their order.
uint32_t checkpoint_fingerprint(const target_view *views, size_t count);

// A collective of state->group. Call between two steps. Waits for the device. On failure the older checkpoint at `path`
// is unchanged.
bool checkpoint_write(const char *path, const checkpoint_key *key, const training_state *state, fault *why);
// A collective: opens *state as it was written, with each rank's rows. On failure *state is {0}. Refuses, each with its own
// text: a file that is not a checkpoint or has another version; an incomplete file; a file of a run with another key.
bool checkpoint_read(const char *path, const checkpoint_key *key, const training_place *where,
                     training_state *state, fault *why);

// The checkpoint of one rank, to a sink and from memory.
bool checkpoint_write_to(const checkpoint_sink *sink, const checkpoint_key *key, const training_state *state,
                         fault *why);
bool checkpoint_read_from(const void *bytes, size_t count, const checkpoint_key *key, ranks *group,
                          training_state *state, fault *why);

// Saves training while it runs.
typedef struct saver {
    const char *path;
    int64_t interval; // steps between checkpoints; 0: only when a stop is requested
    checkpoint_key key;
    // The key's views. Their fingerprint takes time, so it is computed when it is first needed.
    const target_view *views;
    size_t view_count;
    bool key_known;
} saver;

checkpoint_key saver_key(saver *s);
// Writes a checkpoint if one is due after the state's last step: for training_observer.observe. *saved: whether it was.
bool saver_observe(saver *s, const training_state *state, const training_report *report, bool *saved,
                   fault *why);

C_LINKAGE_END
