#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""launch_syntax.py KERNELS.cu -o KERNELS.cpp: rewrites what only nvcc understands, line by line in place.

  kernel<T><<<grid, block, bytes, stream>>>(...)   ->  simt_launch(kernel<T>, grid, block, bytes, stream)(...)
  extern __shared__ float buffer[];                ->  float *buffer = static_cast<float *>(simt_dynamic_shared());

A launch must name all template arguments of its kernel. A dynamic shared array must be declared in a function.
"""
import argparse
import re
import sys


def blanked(text):
    """The text with comments, strings, characters and joins of lines replaced by blanks of the same length."""
    token = re.compile(r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                       re.S)

    def blank(match):
        before = text[match.start() - 1:match.start()]
        if match.group().startswith("'") and before.isalnum():  # the separator in 1'000
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return token.sub(blank, text).replace("\\\n", " \n")


def kernel_begin(code, end):
    """Where the expression that ends at `end` begins: names with ::, then template arguments."""
    at = len(code[:end].rstrip())
    if code[at - 1] == ">":
        angles = parentheses = 0
        while at > 0:
            at -= 1
            parentheses += (code[at] == ")") - (code[at] == "(")
            if parentheses == 0:
                angles += (code[at] == ">") - (code[at] == "<")
                if angles == 0:
                    break
    name = re.search(r"(?:::\s*)?(?:\w+\s*::\s*)*\w+\s*$", code[:at])
    return name.start() if name else None


def closing(code, begin):
    """Where the >>> of the <<< at `begin` is."""
    depth = 0
    for at in range(begin + 3, len(code)):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
        elif depth == 0 and code.startswith(">>>", at):
            return at
    return None


def in_function(code, at):
    """Whether a brace other than that of a namespace or of extern "C" is open at `at`."""
    open_braces = []
    for brace in re.finditer(r"[{}]", code[:at]):
        if brace.group() == "{":
            before = code[:brace.start()].rstrip()
            open_braces.append(not re.search(r"\b(namespace(\s+[\w:]+)?|extern)$", before))
        elif open_braces:
            open_braces.pop()
    return any(open_braces)


def rewritten(text, name):
    code = blanked(text)
    edits = []  # (begin, end, replacement), not overlapping

    def fail(at, reason):
        sys.exit(f"{name}:{text.count(chr(10), 0, at) + 1}: {reason}")

    for launch in re.finditer("<<<", code):
        begin, end = kernel_begin(code, launch.start()), closing(code, launch.start())
        if begin is None or end is None or not code[end + 3:].lstrip().startswith("("):
            fail(launch.start(), "not a launch: kernel<<<grid, block>>>(arguments)")
        edits.append((begin, begin, "simt_launch("))
        edits.append((launch.start(), launch.end(), ", "))
        edits.append((end, end + 3, ")"))
    shared = re.compile(r"\bextern\s+__shared__\s+((?:__align__|alignas)\s*\([^)]*\)\s*)?([\w:<>,\s]+?)\s*"
                        r"\b(\w+)\s*\[\s*\]\s*;")
    for array in shared.finditer(code):
        if not in_function(code, array.start()):
            fail(array.start(), "a dynamic shared array outside a function")
        kind = re.sub(r"(__align__|alignas)\s*\([^)]*\)", "", array.group(2))
        lines = "\n" * array.group().count("\n")
        edits.append((*array.span(), f"{kind} *{array.group(3)} = static_cast<{kind} *>(simt_dynamic_shared());{lines}"))
    for begin, end, replacement in sorted(edits, reverse=True):
        text = text[:begin] + replacement + text[end:]
    return f'#line 1 "{name}"\n{text}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("-o", dest="output", required=True)
    options = parser.parse_args()
    with open(options.input, encoding="utf-8") as file:
        text = rewritten(file.read(), options.input)
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(text)


main()
