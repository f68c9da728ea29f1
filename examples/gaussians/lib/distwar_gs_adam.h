// SPDX-License-Identifier: MIT
//
// libdistwar_gs: a step of Adam in the backward projection, and one on some rows of any arrays. The rules of
// distwar_gs.h hold.
// Formulas: docs/developers/math.md, section 6.
#ifndef GS_ADAM_H
#define GS_ADAM_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// The arguments of gs_adam, without the gradients.
typedef struct gs_adam_step {
    const gs_gaussians *gaussians, *first_moment, *second_moment;
    gs_adam_rates rates;
    int64_t step;   // 1, 2, ...
    float *density; // [count][2], or NULL
} gs_adam_step;

// gs_project_backward, then gs_adam by its gradients, which never reach memory: gradient->gaussians is neither read nor
// written. The same as the two calls, up to rounding.
// adam:    the arrays of its gaussians may be those of view->gaussians. Those of sh are aligned to 16 bytes.
//          To density[i][0] is added the sum of |abs_mean2d| over the views: what gs_split reads.
// gradient: as for gs_project_backward; camera must be NULL.
// Cost:    one launch; of the bytes of the two calls those of the gradients, and one reading of the values, less.
gs_status gs_project_backward_adam(const gs_view *view, const gs_gradient *gradient, const gs_adam_step *adam,
                                   gs_stream stream);

enum { GS_ADAM_ARRAYS = 8 };

// Rows of parameters for gs_adam_rows.
typedef struct gs_adam_array {
    float *value;                        // [count][width]
    const float *gradient;               // the same shape
    float *first_moment, *second_moment; // the same shape; start as zeros
    int32_t width;                       // values of a row, >= 1
    float rate;                          // finite, >= 0
} gs_adam_array;

typedef struct gs_adam_rows_step {
    int64_t count;              // rows of each array, 0..2^31 - 2
    const uint8_t *visible;     // [count]: rows of 0 keep their values and moments; NULL: all are stepped
    const gs_adam_array *array; // [array_count], host memory
    int32_t array_count;        // 1..GS_ADAM_ARRAYS
    double beta1, beta2;        // 0 <= beta < 1
    float epsilon;              // >= 0
} gs_adam_rows_step;

// One step of Adam on some rows, without the corrections for moments that started at 0 ("sparse Adam"): m += (1 - beta1)
// (g - m), v += (1 - beta2) (g^2 - v), value -= rate m / (sqrt(v) + epsilon). No array overlaps another.
// A step of all rows is faster where the pointers of an array are aligned to 16 bytes.
// Cost:    one launch; reads 16 bytes per value of a visible row, writes 12.
gs_status gs_adam_rows(const gs_adam_rows_step *step, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
