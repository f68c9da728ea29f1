// SPDX-License-Identifier: MIT
// Checkpoints of training on several ranks, as checkpoint.h without ranks. Each rank writes the rows of its Gaussians
// to a part of its own, FILE.a0, FILE.a1, ... or FILE.b0, FILE.b1, ...; then rank 0 writes FILE, which names the parts'
// letter, their rows and their checksums. The parts of the checkpoint before have the other letter and are removed when
// FILE is complete. So FILE always belongs to parts that are complete. Any number of ranks can read it: each reads the
// rows of its own range from the parts that hold them. All ranks need the same folder.
#pragma once

#include "record/checkpoint.h"
#include "sharded_state.h"

C_LINKAGE_BEGIN

// A collective. The key is read on rank 0 only. False after ranks_fail; the older checkpoint is then unchanged, unless
// it was the new one's last step that failed: the removal of the older parts is not checked.
bool sharded_checkpoint_write(const char *path, const checkpoint_key *key, const sharded_state *state,
                              ranks *group);
// A collective: opens *state. On failure, after ranks_fail, *state is {0}. Refuses what checkpoint_read refuses, and
// names the part that is missing, incomplete, damaged or of another checkpoint.
bool sharded_checkpoint_read(const char *path, const checkpoint_key *key, sharded_state *state, ranks *group);

// As saver_observe, for sharded_observer.observe.
bool sharded_saver_observe(saver *s, ranks *group, const sharded_state *state, const training_report *report,
                           bool stops, bool *saved);

C_LINKAGE_END
