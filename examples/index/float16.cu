// SPDX-License-Identifier: MIT
#include "shell.cuh"

const ix_calls *ix_float16(const ix_rows &rows) {
    return rows.float_sums ? ix_calls_of<__half, float>(rows) : ix_calls_of<__half, __half>(rows);
}
