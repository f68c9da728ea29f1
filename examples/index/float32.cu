// SPDX-License-Identifier: MIT
#include "shell.cuh"

const ix_calls *ix_float32(const ix_rows &rows) {
    return ix_calls_of<float, float>(rows);
}
