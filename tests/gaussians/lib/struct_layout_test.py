# SPDX-License-Identifier: MIT
"""The structs of the Python package's gs.py have the layout of those of distwar_gs.h: one assertion each, for a C
compiler.

    struct_layout_test.py FOLDER_OF_GS_PY GS_H INCLUDE_FOLDER C_COMPILER
"""
import ctypes
import re
import subprocess
import sys

folder, header, include, compiler = sys.argv[1:]
sys.path.insert(0, folder)
import gs  # noqa: E402

source = f'#include "{header}"\n'
structs = [item for item in vars(gs).values() if isinstance(item, type) and issubclass(item, ctypes.Structure)]
for struct in structs:
    if struct is ctypes.Structure:
        continue
    prefix = "distwar" if struct is gs.Policy else "gs"
    name = prefix + re.sub("([A-Z])", r"_\1", struct.__name__).lower()
    source += f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");\n'
    for member, _ in struct._fields_:
        field = getattr(struct, member)
        where = f"{name}.{member}"
        source += f'_Static_assert(offsetof({name}, {member}) == {field.offset}, "{where}");\n'
        source += f'_Static_assert(sizeof((({name} *)0)->{member}) == {field.size}, "{where}");\n'
if source.count("_Static_assert") < 80:
    sys.exit("too few members to be all of them")
command = [compiler, "-std=c11", "-I", include, "-fsyntax-only", "-x", "c", "-"]
sys.exit(subprocess.run(command, input=source, text=True).returncode)
