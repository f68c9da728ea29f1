#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples.py INCLUDE OUT: writes the examples in the comments of the headers to OUT/examples.h as kernels, and those of
the host to OUT/example_of_HEADER.h, for examples.cu.

An example follows a line "// Example (...):"; its last line says what its arrays hold then, as "// sums: 120, 376".
"""
import pathlib
import re
import sys

OF_A_WARP = "// Example (one warp, `lane` its lane, arrays of zeros):"
# The types of arrays that no sink of the example names.
TYPES = {"sums": "float", "result": "float", "count": "unsigned"}
FLAG = """    __shared__ unsigned flag[1];
    flag[0] = 0;
"""
KERNEL = """
__global__ void {name}({parameters}) {{ // {place}
    const int lane = int(threadIdx.x);
{given}{code}
}}
"""


def examples(header):
    """(line number, first line, lines of code) of each example."""
    lines = header.read_text(encoding="utf-8").splitlines()
    for at, line in enumerate(lines):
        if line.startswith("// Example ("):
            end = next(i for i in range(at + 1, len(lines)) if not lines[i].startswith("//     "))
            yield at + 1, line, [code[3:] for code in lines[at + 1 : end]]


def type_of(array, code):
    named = re.search(rf"<(float|int|long long|__half2?)\b[^;]*[{{&]{array}\b", code)
    ints = array == "sums" and "pointers sink" in code
    return named[1] if named else "int" if ints else TYPES.get(array, "int")


def main():
    include, out = map(pathlib.Path, sys.argv[1:])
    kernels, runs = "", ""
    for header in sorted(include.rglob("*.*h")):
        for number, first, lines in examples(header):
            code, place = "\n".join(lines), f"{header.name}:{number}"
            if first != OF_A_WARP:
                (out / f"example_of_{header.stem}.h").write_text(code + "\n", encoding="utf-8")
                continue
            gives = re.findall(r"(\w+): ([-\d, ]+)(?:; |$)", lines[-1])
            if not gives or not lines[-1].startswith("    // "):
                sys.exit(f"{place}: the last line of the example does not say what it gives")
            name = f"example_{header.stem}_{number}"
            parameters = ", ".join(f"{type_of(array, code)} *{array}" for array, _ in gives)
            kernels += KERNEL.format(name=name, parameters=parameters, place=place, code=code,
                                     given=FLAG if "flag" in code else "")
            runs += f"    GIVES({name}, {{{', '.join(f'{{{numbers}}}' for _, numbers in gives)}}});\n"
    (out / "examples.h").write_text(f"{kernels}\nvoid run_examples() {{\n{runs}}}\n", encoding="utf-8")


main()
