#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""launch_syntax.py KERNELS.cu -o KERNELS.cpp [-I FOLDER ...]: rewrites what only nvcc understands, in place.

  kernel<T><<<grid, block, bytes, stream>>>(...)   ->  simt_launch(kernel<T>, grid, block, bytes, stream)(...)
  extern __shared__ float buffer[];                ->  float *buffer = static_cast<float *>(simt_dynamic_shared());

A launch must name all template arguments of its kernel. A dynamic shared array must be declared in a function.

Headers are rewritten too: those that the file includes, directly or not, from beside the including file or from a
FOLDER. Copies of those with such lines, and of those that include one of them, go to KERNELS.cpp.headers/, and the
include names the copy.
"""
import argparse
import pathlib
import re
import shutil
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


class Headers:
    """The headers that a file includes, and the copies of those that must be rewritten."""

    def __init__(self, output, folders):
        self.copies = pathlib.Path(f"{output}.headers")
        self.folders = [pathlib.Path(folder) for folder in folders]
        self.copy_of = {}  # path -> path of its copy, None if it needs none
        shutil.rmtree(self.copies, ignore_errors=True)

    def find(self, name, folder, quoted):
        for path in [folder] * quoted + self.folders:
            if (path / name).is_file():
                return (path / name).resolve()
        return None

    def copy(self, path):
        if path not in self.copy_of:
            self.copy_of[path] = None  # for a header that includes itself
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                return None
            edits, beside = edits_of(text, str(path), self)
            if edits:
                self.copy_of[path] = self.copies / f"{len(self.copy_of)}_{path.name}"
                self.copies.mkdir(parents=True, exist_ok=True)
                self.copy_of[path].write_text(edited(text, edits + beside, str(path)), encoding="utf-8")
        return self.copy_of[path]


def edits_of(text, name, headers):
    """The edits (begin, end, replacement), which do not overlap; and more for a copy, which lies elsewhere."""
    code = blanked(text)
    edits, beside = [], []
    # The names of included headers are strings, which `code` does not have.
    for include in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', text, re.M):
        if "#" not in code[include.start():include.start(1)]:
            continue  # in a comment
        path = headers.find(include.group(2), pathlib.Path(name).resolve().parent, include.group(1) == '"')
        copy = path and headers.copy(path)
        if copy:
            edits.append((include.start(1), include.end(), f'"{copy.resolve()}"'))
        elif path and include.group(1) == '"':
            beside.append((include.start(1), include.end(), f'"{path}"'))

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
    return edits, beside


def edited(text, edits, name):
    for begin, end, replacement in sorted(edits, reverse=True):
        text = text[:begin] + replacement + text[end:]
    return f'#line 1 "{name}"\n{text}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("-o", dest="output", required=True)
    parser.add_argument("-I", dest="folders", metavar="FOLDER", action="append", default=[])
    parser.add_argument("-MF", dest="depfile", help="write the headers that were read here, for make")
    options = parser.parse_args()
    headers = Headers(options.output, options.folders)
    text = pathlib.Path(options.input).read_text(encoding="utf-8")
    edits, _ = edits_of(text, options.input, headers)
    pathlib.Path(options.output).write_text(edited(text, edits, options.input), encoding="utf-8")
    if options.depfile:
        read = [str(path).replace(" ", "\\ ") for path in [options.input, *headers.copy_of]]
        rule = options.output.replace(" ", "\\ ") + ": " + " \\\n  ".join(read) + "\n"
        pathlib.Path(options.depfile).write_text(rule, encoding="utf-8")


main()
