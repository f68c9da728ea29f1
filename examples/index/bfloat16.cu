// SPDX-License-Identifier: MIT
#include "shell.cuh"

const ix_calls *ix_bfloat16(const ix_rows &rows) {
    return rows.float_sums ? ix_calls_of<__nv_bfloat16, float>(rows)
                           : ix_calls_of<__nv_bfloat16, __nv_bfloat16>(rows);
}
