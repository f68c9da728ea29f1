/* SPDX-License-Identifier: MIT */
/* Sets aside macros of the including program that have the names of parameters and functions of distwar. Each
 * header of distwar includes push_macros.h first and pop_macros.h last, so a program may define `N`, `K` or
 * `add(a, b)` before it includes a header, and has the same macros after it. No include guard: the calls
 * nest. */
#pragma push_macro("A")
#pragma push_macro("B")
#pragma push_macro("K")
#pragma push_macro("N")
#pragma push_macro("S")
#pragma push_macro("T")
#pragma push_macro("V")
#pragma push_macro("X")
#pragma push_macro("add")
#pragma push_macro("bits")
#pragma push_macro("clear")
#pragma push_macro("flush")
#pragma push_macro("largest")
#pragma push_macro("load")
#pragma push_macro("max")
#pragma push_macro("maximum")
#pragma push_macro("min")
#pragma push_macro("minimum")
#pragma push_macro("multiply")
#pragma push_macro("policy")
#pragma push_macro("record")
#pragma push_macro("select")
#pragma push_macro("sink")
#pragma push_macro("value")
#pragma push_macro("word")
#undef A
#undef B
#undef K
#undef N
#undef S
#undef T
#undef V
#undef X
#undef add
#undef bits
#undef clear
#undef flush
#undef largest
#undef load
#undef max
#undef maximum
#undef min
#undef minimum
#undef multiply
#undef policy
#undef record
#undef select
#undef sink
#undef value
#undef word
