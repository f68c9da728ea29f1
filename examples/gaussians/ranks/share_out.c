// SPDX-License-Identifier: MIT
#include "sharded.h"

void share_out(int32_t ranks_number, int32_t views, int32_t rows, shared_out *out) {
    const int64_t all = (int64_t)views * rows;
    int32_t count = 0;
    *out = (shared_out){.most = 0};
    for (int32_t r = 0; r < ranks_number; r++) {
        int64_t at = all * r / ranks_number;
        const int64_t end = all * (r + 1) / ranks_number;
        out->begin[r] = count;
        while (at < end) {
            const int64_t view = at / rows, view_end = (view + 1) * rows,
                          until = end < view_end ? end : view_end;
            out->parts[count++] =
                (gs_part){(int32_t)view, {(int32_t)(at - view * rows), (int32_t)(until - view * rows)}};
            at = until;
        }
        if (count - out->begin[r] > out->most) out->most = count - out->begin[r];
    }
    out->begin[ranks_number] = count;
}
