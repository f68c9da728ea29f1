// SPDX-License-Identifier: MIT
// A group of one rank, for tests.
#ifndef TESTS_ALONE_H
#define TESTS_ALONE_H

#include "ranks.h"

class alone {
  public:
    alone() = default;
    ~alone() { ranks_alone_close(group); }
    alone(const alone &) = delete;
    alone &operator=(const alone &) = delete;
    operator ranks *() const { return group; }

  private:
    ranks *group = ranks_alone_open();
};

#endif
