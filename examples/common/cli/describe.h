// SPDX-License-Identifier: MIT
// A program's commands and options as a man page and as completions for bash and zsh: what `--describe FORM`
// prints when the program is built.
#pragma once

#include "options.h"
#include "program.h"

C_LINKAGE_BEGIN

// Prints the program in the form "man", "bash" or "zsh". False: there is no such form.
bool describe_program(const program_spec *program, const char *form);

C_LINKAGE_END
