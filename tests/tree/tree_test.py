# SPDX-License-Identifier: MIT
"""In no room do sources need each other in a circle. No file is over 1,200 lines, and at most ten, named here with a
reason, are over 900. No function is over 150 lines.

    tree_test.py ROOT    checks the tree at ROOT, and that the checks find faults

A source needs the files that it includes or imports, and the sources that define the functions that it calls through
included headers. Of a header the bodies of its inline functions count alone; they may call functions of the source of the
same name. No source of a Python package counts as needing the package's __init__.py.
"""
import ast
import pathlib
import re
import sys
import tempfile
import unittest

ROOMS = ("include", "examples/common", "examples/gaussians", "examples/index", "examples/cubemap", "examples/spheres",
         "python/distwar")
FOLDERS = ("benchmarks", "ci", "cmake", "docs", "examples", "include", "python", "scripts", "simt", "tests")
MOST_LINES, MANY_LINES, MOST_OF_MANY, MOST_IN_FUNCTION = 1200, 900, 10, 150

# Over MANY_LINES.
LONG = {"examples/gaussians/program/live/page.html": "a browser opens the page as one file",
        "include/distwar/device/sums_by_key.cuh": "a call from the host, with the rows that nothing else reads"}
# Over MOST_IN_FUNCTION.
LONG_FUNCTIONS = {"tests/gaussians/lib/sizes.cu: main": "until the tests of the rasteriser are shorter"}

IMPLEMENTATIONS = (".c", ".cpp", ".cu")
SOURCES = (*IMPLEMENTATIONS, ".h", ".cuh", ".py", ".sh", ".cmake")
SIZED = (*SOURCES, ".html", ".md", ".txt")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]*)', re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*from \.(\w*) import (\w+(?:, \w+)*)", re.MULTILINE)
FUNCTION = re.compile(r"^(?!\s)(static )?(?!static|typedef)[\w:<> *]*?\b(\w+)\([^;{}#]*\)\s*\{", re.MULTILINE)


def without_comments(text):
    return NOT_CODE.sub(lambda match: "\n" * match.group().count("\n"), text)


def words(text):
    return set(re.findall(r"\w+", text))


def functions_of(code):
    """(static, name, text) of each function that begins in the first column."""
    for match in FUNCTION.finditer(code):
        end = code.find("\n}", match.end() - 1)
        yield match[1], match[2], code[match.start():end + 2]


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
    code = {p: without_comments(text) for p, text in texts.items()}
    includes = {p: texts.keys() & set(included(p, texts)) - {p} for p in texts}
    called = {p: set(re.findall(r"(\w+)\(", c)) for p, c in code.items()}
    defined, definers = {}, {}
    for path in texts: # of a header: its inline functions, whose bodies need what they name
        functions = list(functions_of(code[path]))
        defined[path] = {name for _, name, _ in functions}
        for name in {name for static, name, _ in functions if not static and path.suffix in IMPLEMENTATIONS}:
            definers.setdefault(name, set()).add(path)
        if path.suffix not in IMPLEMENTATIONS:
            code[path] = "".join(body for _, _, body in functions)
    needs = {p: set(i) for p, i in includes.items()}
    for path in defined:
        declared = called[path].union(*(called[p] for p in reached(path, includes, set())))
        for name in declared & definers.keys() & words(code[path]) - defined[path]:
            if len(definers[name]) == 1: # else which of them is linked is not known
                needs[path] |= {p for p in definers[name] if p.with_suffix("") != path.with_suffix("")}
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


def long_files(root, most=MANY_LINES, folders=FOLDERS):
    files = [p for f in folders for p in (root / f).rglob("*") if p.suffix in SIZED and "__pycache__" not in p.parts]
    return {str(p.relative_to(root)) for p in files if p.read_text().count("\n") > most}


def long_functions(root, most=MOST_IN_FUNCTION, folders=FOLDERS):
    """As "file: function"."""
    found = set()
    for path in (p for f in folders for p in (root / f).rglob("*") if p.suffix in SOURCES):
        text = path.read_text()
        if path.suffix == ".py":
            sizes = [(node.name, node.end_lineno - node.lineno + 1) for node in ast.walk(ast.parse(text))
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        else:
            code = text if path.suffix in (".sh", ".cmake") else without_comments(text)
            sizes = [(name, body.count("\n") + 1) for _, name, body in functions_of(code)]
        found |= {f"{path.relative_to(root)}: {name}" for name, size in sizes if size > most}
    return found


class OfTheTree(unittest.TestCase):
    root = None

    def test_no_circles(self):
        self.assertEqual(circles_of(self.root), set())

    def test_files(self):
        self.assertEqual(long_files(self.root), LONG.keys())
        self.assertEqual(long_files(self.root, MOST_LINES), set())
        self.assertLessEqual(len(LONG), MOST_OF_MANY)

    def test_functions(self):
        self.assertEqual(long_functions(self.root), LONG_FUNCTIONS.keys())

    def test_workflow(self):
        """Hosted runners cannot be tried here: their file is parsed, and runs what CONTRIBUTING.md names."""
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        text = (pathlib.Path(self.root) / ".github/workflows/test.yml").read_text()
        steps = yaml.safe_load(text)["jobs"]["test"]["steps"]
        self.assertTrue({"make demo", ".ci/run"} <= {step.get("run") for step in steps})
        self.assertLessEqual(text.count("\n"), 30)


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

    def test_inline_functions(self):
        parts = dict(a_h="int b(void);\nstatic inline int f(void) {\n    return b();\n}\n",
                     b_c='#include "a.h"\nint b(void) {\n    return 0;\n}\n')
        self.assertEqual(self.found(**parts), {".: a.h, b.c"})
        self.assertEqual(self.found(a_h=parts["a_h"], a_c=parts["b_c"]), set())
        self.assertEqual(self.found(a_h=parts["a_h"].replace("return b()", "return 0"), b_c=parts["b_c"]), set())

    def test_sizes(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "long.c").write_text("int f(void) {\n" + "\n" * 9 + "}\nint g(void) {\n" + "\n" * 7 + "}\n")
            (folder / "page.md").write_text("\n" * 19)
            (folder / "long.py").write_text("class A:\n    def f():\n" + "        a\n" * 10)
            (folder / "long.sh").write_text("f() {\n" + "\n" * 9 + "}\n")
            self.assertEqual(long_files(folder, 19, ["."]), {"long.c"})
            self.assertEqual(long_files(folder, 18, ["."]), {"long.c", "page.md"})
            self.assertEqual(long_functions(folder, 10, ["."]), {"long.c: f", "long.py: f", "long.sh: f"})
            self.assertEqual(long_functions(folder, 11, ["."]), set())


if __name__ == "__main__":
    OfTheTree.root = pathlib.Path(sys.argv.pop(1))
    unittest.main()
