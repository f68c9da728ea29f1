# SPDX-License-Identifier: MIT
"""The structs of the Python package have the layout of those of distwar_gs.h and distwar_train.h: one assertion each, for a C compiler.

    struct_layout_test.py FOLDER_OF_THE_PACKAGE EXAMPLES/GAUSSIANS INCLUDE_FOLDER C_COMPILER
"""
import ctypes
import subprocess
import sys

folder, gaussians, include, compiler = sys.argv[1:]
sys.path.insert(0, folder)
from distwar import _train, gs  # noqa: E402

source = '#include "distwar_gs.h"\n#include "distwar_train.h"\n'
for struct in (*vars(gs).values(), *vars(_train).values()):
    if not isinstance(struct, type) or not issubclass(struct, ctypes.Structure) or struct is ctypes.Structure:
        continue
    name = struct.__name__
    source += f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");\n'
    for member, _ in struct._fields_:
        field = getattr(struct, member)
        where = f"{name}.{member}"
        source += f'_Static_assert(offsetof({name}, {member}) == {field.offset}, "{where}");\n'
        source += f'_Static_assert(sizeof((({name} *)0)->{member}) == {field.size}, "{where}");\n'
if source.count("_Static_assert") < 280:
    sys.exit("too few members to be all of them")
command = [compiler, "-std=c11", "-I", include, "-I", f"{gaussians}/lib", "-I", f"{gaussians}/trainer", "-fsyntax-only", "-x", "c",
           "-"]
sys.exit(subprocess.run(command, input=source, text=True).returncode)
