# SPDX-License-Identifier: MIT
"""In no room do sources need each other in a circle. No source is over 500 lines, no page over 450, no folder over 40
files.

    tree_test.py ROOT    checks the tree at ROOT, and that the checks find faults

A source needs the sources that it includes or imports, and those that define the functions that it names from headers
that it includes. A Python package's __init__.py is its face, which no source of the package is counted to need.
"""
import pathlib
import re
import sys
import tempfile
import unittest

ROOMS = ("include", "examples/common", "examples/gaussians", "examples/index", "examples/cubemap", "examples/spheres",
         "python/distwar")
FOLDERS = ("benchmarks", "ci", "cmake", "docs", "examples", "include", "python", "scripts", "simt", "tests")
MOST_LINES, MOST_PAGE, MOST_FILES = 500, 450, 40

# Longer and fuller, until they are divided.
KNOWN_LONG = set()
KNOWN_FULL = set()

IMPLEMENTATIONS = (".c", ".cpp", ".cu")
SOURCES = (*IMPLEMENTATIONS, ".h", ".cuh", ".py", ".sh", ".cmake")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]*)', re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*from \.(\w*) import (\w+(?:, \w+)*)", re.MULTILINE)
FUNCTION = re.compile(r"^(?!\s)(static )?(?!static|typedef)[\w:<> *]*?\b(\w+)\([^;{}#]*\)\s*\{", re.MULTILINE)


def included(path, texts):
    """The files of the room that a file includes or imports."""
    for name in INCLUDE.findall(texts[path]):
        beside = path.parent / name
        yield from [beside] if beside in texts else [p for p in texts if str(p).endswith("/" + name)]
    for module, names in IMPORT.findall(texts[path]) if path.suffix == ".py" else ():
        yield from (path.with_name(f"{n}.py") for n in ([module] if module else names.split(", ")))


def reached(path, needs, seen):
    for other in needs[path] - seen:
        seen.add(other)
        reached(other, needs, seen)
    return seen


def needs_of(texts):
    """The files of a room that each of its files needs. texts: what is in them, by path."""
    code = {p: NOT_CODE.sub("", text) for p, text in texts.items()}
    includes = {p: texts.keys() & set(included(p, texts)) - {p} for p in texts}
    called = {p: set(re.findall(r"(\w+)\(", c)) for p, c in code.items()}
    defined, definers = {}, {}
    for path in (p for p in texts if p.suffix in IMPLEMENTATIONS):
        functions = FUNCTION.findall(code[path])
        defined[path] = {name for _, name in functions}
        for name in {name for static, name in functions if not static}:
            definers.setdefault(name, set()).add(path)
    needs = {p: set(i) for p, i in includes.items()}
    for path in defined:
        declared = set().union(*(called[p] for p in reached(path, includes, set())))
        for name in declared & definers.keys() & set(re.findall(r"\w+", code[path])) - defined[path]:
            if len(definers[name]) == 1: # else which of them is linked is not known
                needs[path] |= definers[name]
    return needs


def circles_of(root, rooms=ROOMS):
    """Each circle as "room: its sources"."""
    circles = set()
    for room in rooms:
        texts = {p: p.read_text() for p in (root / room).rglob("*") if p.suffix in SOURCES}
        needs = needs_of(texts)
        after = {p: reached(p, needs, set()) for p in texts}
        for path in texts:
            circle = sorted(str(p.relative_to(root / room)) for p in after[path] if path in after[p])
            if circle:
                circles.add(f"{room}: {', '.join(circle)}")
    return circles


def oversized(root, folders=FOLDERS):
    """The sources and pages of too many lines, and the folders of too many files."""
    files = [p for f in folders for p in (root / f).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    most = {".md": MOST_PAGE, **{suffix: MOST_LINES for suffix in SOURCES}}
    long = {p for p in files if p.suffix in most and len(p.read_text().splitlines()) > most[p.suffix]}
    held = [p.parent for p in files]
    full = {folder for folder in set(held) if held.count(folder) > MOST_FILES}
    return {str(p.relative_to(root)) for p in long}, {str(p.relative_to(root)) for p in full}


class OfTheTree(unittest.TestCase):
    root = None

    def test_no_circles(self):
        self.assertEqual(circles_of(self.root), set())

    def test_sizes(self):
        long, full = oversized(self.root)
        self.assertEqual(long - KNOWN_LONG, set())
        self.assertEqual(full - KNOWN_FULL, set())


class FindsFaults(unittest.TestCase):
    def found(self, **texts):
        """The circles of a room with these files; a name's _ stands for the dot before its suffix."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                (pathlib.Path(folder) / name.replace("_", ".")).write_text(text)
            return circles_of(pathlib.Path(folder), ["."])

    def test_headers(self):
        self.assertEqual(self.found(a_h='#include "b.h"\n', b_h='#include "a.h"\n'), {".: a.h, b.h"})
        self.assertEqual(self.found(a_h='#include "b.h"\n', b_h='// #include "a.h"\n'), set())

    def test_functions(self):
        parts = dict(a_h="int a(void);\n", b_h="int b(void);\nint c(void);\n",
                     a_c='#include "a.h"\n#include "b.h"\nint a(void) {\n    return b();\n}\n',
                     b_c='#include "b.h"\n#include "a.h"\nint b(void) {\n    return a();\n}\n')
        self.assertEqual(self.found(**parts), {".: a.c, b.c"})
        parts["b_c"] = parts["b_c"].replace("a()", "c() // a()\n")
        self.assertEqual(self.found(**parts, c_c="int c(void) {\n    return 0;\n}\n"), set())
        parts["b_c"] = "static int a(void) {\n    return 0;\n}\n" + parts["b_c"].replace("c()", "a()")
        self.assertEqual(self.found(**parts), set())

    def test_modules(self):
        self.assertEqual(self.found(a_py="from .b import f\n", b_py="def f():\n    from . import a\n"), {".: a.py, b.py"})

    def test_sizes(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "long.c").write_text("\n" * (MOST_LINES + 1))
            (pathlib.Path(folder) / "whole.c").write_text("\n" * MOST_LINES)
            (pathlib.Path(folder) / "page.md").write_text("\n" * MOST_LINES)
            self.assertEqual(oversized(pathlib.Path(folder), ["."]), ({"long.c", "page.md"}, set()))
            for i in range(MOST_FILES - 2):
                (pathlib.Path(folder) / f"{i}.txt").write_text("")
            self.assertEqual(oversized(pathlib.Path(folder), ["."]), ({"long.c", "page.md"}, {"."}))


if __name__ == "__main__":
    OfTheTree.root = pathlib.Path(sys.argv.pop(1))
    unittest.main()
