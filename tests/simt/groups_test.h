// SPDX-License-Identifier: MIT
// The fixture of the tests of cooperative groups.
#ifndef GROUPS_TEST_H
#define GROUPS_TEST_H

#include "device_array.h"
#include <cstdint>

class Groups : public Simt {
  protected:
    template <typename Check>
    void under_schedules(Check check) {
        for (std::uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
            SCOPED_TRACE(seed);
#ifdef __SIMT__
            simt_set_seed(seed);
#endif
            reset_counts();
            check();
        }
    }
#ifdef __SIMT__
    static void reset_counts() {
        simt_counters_reset();
    }
    static void expect_counts(std::uint64_t shuffles, std::uint64_t votes, std::uint64_t matches,
                              std::uint64_t reductions) {
        const simt_counters c = simt_counters_read();
        EXPECT_EQ(c.shuffles, shuffles);
        EXPECT_EQ(c.votes, votes);
        EXPECT_EQ(c.matches, matches);
        EXPECT_EQ(c.reductions, reductions);
    }
    static void expect_syncs(std::uint64_t barriers, std::uint64_t warp_syncs) {
        EXPECT_EQ(simt_counters_read().barriers, barriers);
        EXPECT_EQ(simt_counters_read().warp_syncs, warp_syncs);
    }
#else
    static void reset_counts() {}
    static void expect_counts(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) {}
    static void expect_syncs(std::uint64_t, std::uint64_t) {}
#endif
};

#endif
