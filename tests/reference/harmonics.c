// SPDX-License-Identifier: MIT
//
// The basis of spherical harmonics as polynomials, and its gradient.
#include "reference.h"

#include <string.h>

// A term of a basis function: basis[k] += factor x^power[0] y^power[1] z^power[2].
static const struct {
    int k;
    double factor;
    int power[3];
} sh_terms[] = {
    {0, 0.28209479177387814, {0, 0, 0}},      {1, -0.4886025119029199, {0, 1, 0}},
    {2, 0.4886025119029199, {0, 0, 1}},       {3, -0.4886025119029199, {1, 0, 0}},
    {4, 1.0925484305920792, {1, 1, 0}},       {5, -1.0925484305920792, {0, 1, 1}},
    {6, 2 * 0.31539156525252005, {0, 0, 2}},  {6, -0.31539156525252005, {2, 0, 0}},
    {6, -0.31539156525252005, {0, 2, 0}},     {7, -1.0925484305920792, {1, 0, 1}},
    {8, 0.5462742152960396, {2, 0, 0}},       {8, -0.5462742152960396, {0, 2, 0}},
    {9, 3 * -0.5900435899266435, {2, 1, 0}},  {9, 0.5900435899266435, {0, 3, 0}},
    {10, 2.890611442640554, {1, 1, 1}},       {11, 4 * -0.4570457994644658, {0, 1, 2}},
    {11, 0.4570457994644658, {2, 1, 0}},      {11, 0.4570457994644658, {0, 3, 0}},
    {12, 2 * 0.3731763325901154, {0, 0, 3}},  {12, -3 * 0.3731763325901154, {2, 0, 1}},
    {12, -3 * 0.3731763325901154, {0, 2, 1}}, {13, 4 * -0.4570457994644658, {1, 0, 2}},
    {13, 0.4570457994644658, {3, 0, 0}},      {13, 0.4570457994644658, {1, 2, 0}},
    {14, 1.445305721320277, {2, 0, 1}},       {14, -1.445305721320277, {0, 2, 1}},
    {15, -0.5900435899266435, {3, 0, 0}},     {15, 3 * 0.5900435899266435, {1, 2, 0}},
};

void reference_sh_basis(const double direction[3], double basis[16], double gradient[16][3]) {
    double power[3][4]; // power[i][n] = direction[i]^n
    for (int i = 0; i < 3; i++) {
        power[i][0] = 1;
        for (int n = 1; n < 4; n++) power[i][n] = power[i][n - 1] * direction[i];
    }
    memset(basis, 0, 16 * sizeof(double));
    if (gradient) memset(gradient, 0, 16 * sizeof(gradient[0]));
    for (size_t t = 0; t < sizeof sh_terms / sizeof sh_terms[0]; t++) {
        const int *n = sh_terms[t].power;
        basis[sh_terms[t].k] += sh_terms[t].factor * power[0][n[0]] * power[1][n[1]] * power[2][n[2]];
        for (int i = 0; gradient && i < 3; i++) {
            if (n[i] == 0) continue;
            int j = (i + 1) % 3, k = (i + 2) % 3;
            gradient[sh_terms[t].k][i] +=
                sh_terms[t].factor * n[i] * power[i][n[i] - 1] * power[j][n[j]] * power[k][n[k]];
        }
    }
}
