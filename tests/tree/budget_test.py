# SPDX-License-Identifier: MIT
"""The tree has a budget: for each room, of code and of tests, lines and characters that may only fall (budget.json).

    budget_test.py ROOT            checks the tree at ROOT and its budget, and that the checks find faults
    budget_test.py ROOT --print    prints start, budget and tree by row
    budget_test.py ROOT --write    lowers the budget to the tree: once, in the last commit of a piece of work
    budget_test.py ROOT --move GIVER TAKER    after code has moved between rooms: what TAKER, such as code/lm, has above
                                              its budget is taken from GIVER's

A row of budget.json has two lists of three numbers: the state at the commit `since`, and the budget. The numbers are
lines; characters that are neither white space nor comment; lines with a comment. A docstring is a comment, a line with
the licence alone or #! is not. All tracked text counts, pages and strings of scripts too. A move changes start and budget
of both rooms by the same amount, so that no `start - budget` falls and the sums of starts stay.

`words` lists private words for which the field has its own, as regular expressions, and how often each may still occur in
each row: as a word or a part of a name, in any case. The sums may only fall.
"""
import collections
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, FILE = None, "tests/tree/budget.json"
LINES, CHARACTERS, COMMENTS = range(3)
CHARACTERS_FALL = 0.85  # at least this part of the share by which lines fall
COMMENTS_KEPT = 0.9     # of the comments in each 100 lines
JUDGED = 0.02           # of the lines: where fewer are gone, one deleted file decides what characters do

NO_TEXT = re.compile(r"\.(png|jpg|jpeg|svg|bin|gz|ply|spz|sog|webp|jsonl|ico|npz|xz)$")
TESTS = re.compile(r"^(tests|python/tests|simt/tests)/")
# The first that fits. Those of tests: what they test, by their folder in tests/.
ROOMS = [(r"docs/|.*\.md$|LICENSE|CITATION", "docs"), (r"benchmarks/results/", None), (r"include/", "include"),
         (r"simt/", "simt"), (r"benchmarks/", "benchmarks"), (r"python/", "python"),
         (r"examples/gaussians/(lib/lm|lm|program/lm)/", "lm"), (r"examples/gaussians/(lib|gs)/", "rasteriser"),
         (r"examples/gaussians/ranks/", "ranks"), (r"examples/gaussians/(trainer|train)/", "trainer"),
         (r"examples/gaussians/data/", "data"), (r"examples/gaussians/", "program"), (r"examples/", "examples"),
         (r"", "build")]
ROOMS_OF_TESTS = [(r"tests/(library|counts|codegen|packaging)/", "include"), (r"tests/(docs)/", "docs"),
                  (r"tests/reference/lm", "lm"), (r"tests/reference/", "rasteriser"), (r"tests/fuzz/", "data"),
                  (r"tests/faults/", "program"),
                  (r"tests/(common|cubemap|spheres|index|examples)/", "examples")]

STRING = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
C_LIKE = re.compile(r'R"(\w*)\(.*?\)\1"|' + STRING + r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.S)
WEB = re.compile(r"`(?:\\.|[^`\\])*`|" + STRING + r"|(?P<comment>(?<!:)//[^\n]*|/\*.*?\*/|<!--.*?-->)", re.S)
PYTHON = re.compile(r'^[ \t]*(?P<comment>"""(?:\\.|[^\\])*?"""|#[^\n]*)|"""(?:\\.|[^\\])*?"""|' + STRING
                    + r"|(?P<after>#[^\n]*)", re.S | re.M)
HASH = re.compile(r"""<<-?\s*\\?['"]?(?P<end>\w+)['"]?[^\n]*\n.*?^\s*(?P=end)$""" # a heredoc
                  + r"""|"(?:\\.|[^"\\])*"|'[^']*'|(?<!\S)(?P<comment>#[^\n]*)""", re.S | re.M)
SYNTAX = {".py": PYTHON, ".html": WEB, ".js": WEB, ".css": WEB, ".md": None, ".json": None,
          **dict.fromkeys((".c", ".h", ".cu", ".cuh", ".cpp", ".hpp"), C_LIKE)}
OWN_WORDS = re.compile("CHANGELOG|tests/tree/")
NO_COMMENT = re.compile(r"#!|\W*SPDX-License-Identifier[^\n]*$")


def row_of(path):
    """Such as tests/lm; None for what is not counted."""
    tests = TESTS.match(path)
    if NO_TEXT.search(path):
        return None
    if tests:
        path = re.sub(r"^(python|simt)/tests/", r"tests/\1/", path)
    for pattern, room in ROOMS_OF_TESTS if tests else ():
        if re.match(pattern, path):
            return f"tests/{room}"
    path = re.sub(r"^tests/(gaussians/)?", lambda m: "examples/gaussians/" if m[1] else "", path)
    for pattern, room in ROOMS if not tests else [r for r in ROOMS if r[1] != "docs"]:
        if re.match(pattern, path):
            return room and (f"tests/{room}" if tests else "docs" if room == "docs" else f"code/{room}")
    return None


def counts(name, text):
    """[lines, characters, lines with a comment] of a file."""
    syntax = PYTHON if re.match("#!.*python", text) else SYNTAX.get(pathlib.Path(name).suffix, HASH)
    comments, chars = set(), len("".join(text.split()))
    for match in syntax.finditer(text) if syntax else ():
        comment = match.group("comment") or (match.group("after") if syntax is PYTHON else None)
        if comment:
            chars -= len("".join(comment.split()))
            if not NO_COMMENT.match(comment):
                first = text.count("\n", 0, match.end() - len(comment))
                comments.update(range(first, first + comment.count("\n") + 1))
    return [text.count("\n"), chars, len(comments)]


def tree(root, words=()):
    """The numbers of all rows, of the tracked files; and how often each has each word."""
    rows, used = collections.defaultdict(lambda: [0, 0, 0]), {word: {} for word in words}
    any_word = re.compile(rf"(?<![a-z])(?i:{'|'.join(f'({word})' for word in words)})(?![a-z])")
    for name in git(root, "ls-files", "-z").split("\0"):
        row = row_of(name) if name and (root / name).is_file() else None
        if row:
            text = (root / name).read_text(encoding="utf-8", errors="replace")
            rows[row] = [a + b for a, b in zip(rows[row], counts(name, text))]
            for match in any_word.finditer(f"{name}\n{text}") if words and not OWN_WORDS.match(name) else ():
                found = used[list(words)[match.lastindex - 1]]
                found[row] = found.get(row, 0) + 1
    return rows, used


def git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def row_in(budget, row):
    return budget["rows"].get(row, [[0] * 3] * 2)


def faults_of_tree(budget, rows, used):
    for word, found in used.items():
        most = budget["words"][word]
        yield from (f"{row}: '{word}' {n} times, {most.get(row, 0)} may stay" for row, n in found.items()
                    if n > most.get(row, 0))
    for row in sorted(rows.keys() | budget["rows"].keys()):
        (start, most), now = row_in(budget, row), rows.get(row, [0] * 3)
        for number, what in ((LINES, "lines"), (CHARACTERS, "characters")):
            if now[number] > most[number]:
                yield f"{row}: {now[number]} {what}, the budget is {most[number]}"
        # A page has as many lines as it has rows and paragraphs, whatever their length.
        if row != "docs" and start[LINES] and now[LINES] <= (1 - JUDGED) * start[LINES]:
            lines, chars = (1 - now[n] / max(start[n], 1) for n in (LINES, CHARACTERS))
            if chars < CHARACTERS_FALL * lines:
                yield f"{row}: lines fell by {lines:.1%}, characters only by {chars:.1%}"
        if now[COMMENTS] * start[LINES] < COMMENTS_KEPT * start[COMMENTS] * now[LINES]:
            yield (f"{row}: {100 * now[COMMENTS] / now[LINES]:.1f} comments in 100 lines, "
                   f"{100 * start[COMMENTS] / start[LINES]:.1f} at the start")


def faults_of_change(old, new):
    """Of a budget after an earlier one."""
    for name in ("since", "clang_format"):
        if old[name] != new[name]:
            yield f"{name} has changed"
    for word, most in old["words"].items():
        if sum(new["words"].get(word, {"": 1 << 30}).values()) > sum(most.values()):
            yield f"'{word}' may stand more often"
    for kind in ("code", "tests", "docs"):
        sums = [sum(sum(row[0]) for name, row in b["rows"].items() if name.startswith(kind)) for b in (old, new)]
        if sums[0] != sums[1]:
            yield f"{kind}: the numbers at the start have changed"
    for row in sorted(old["rows"].keys() | new["rows"].keys()):
        (start, most), (start_now, most_now) = row_in(old, row), row_in(new, row)
        for number, what in ((LINES, "lines"), (CHARACTERS, "characters")):
            if start_now[number] - most_now[number] < start[number] - most[number]:
                yield f"{row}: the budget of {what} rises from {most[number]} to {most_now[number]}"


def faults_of_history(root, budget):
    """Of a budget after those of all commits."""
    for commit in git(root, "log", "--format=%H", "--", FILE).split():
        old = json.loads(git(root, "show", f"{commit}:{FILE}"))
        yield from (f"since {commit}: {fault}" for fault in faults_of_change(old, budget))


def lowered(budget, rows, used):
    least = {row: [start, [min(a, b) for a, b in zip(most, rows.get(row, [0] * 3))]]
             for row, (start, most) in budget["rows"].items()}
    return {**budget, "rows": least, "words": {
        word: {row: min(n, used[word].get(row, 0)) for row, n in most.items() if used[word].get(row)}
        for word, most in budget["words"].items()}}


def moved(budget, rows, used, giver, taker):
    start, most = row_in(budget, giver)
    by = [max(0, now - b) for now, b in zip(rows[taker], row_in(budget, taker)[1])]
    by[COMMENTS] = round(by[LINES] * start[COMMENTS] / start[LINES])
    change = {row: [[a + sign * b for a, b in zip(numbers, by)] for numbers in row_in(budget, row)]
              for row, sign in ((giver, -1), (taker, 1))}
    words = {word: dict(most) for word, most in budget["words"].items()}
    for word, most in words.items():
        more = min(most.get(giver, 0), max(0, used[word].get(taker, 0) - most.get(taker, 0)))
        if more:
            most[giver], most[taker] = most[giver] - more, most.get(taker, 0) + more
    return {**budget, "rows": {**budget["rows"], **change}, "words": words}


def text_of(budget):
    words, rows = (",\n".join(f"    {json.dumps(name)}: {json.dumps(entry, sort_keys=True)}"
                              for name, entry in sorted(budget[part].items())) for part in ("words", "rows"))
    return (f'{{\n  "since": "{budget["since"]}",\n  "clang_format": "{budget["clang_format"]}",\n'
            f'  "words": {{\n{words}\n  }},\n  "rows": {{\n{rows}\n  }}\n}}\n')


class Budget(unittest.TestCase):
    def setUp(self):
        try:
            top = git(ROOT, "rev-parse", "--show-cdup", "HEAD").split("\n")[0] == ""
        except (OSError, subprocess.CalledProcessError):
            top = False
        if not top:
            self.skipTest("no git, or no repository here: budgets count tracked files")
        self.budget = json.loads((ROOT / FILE).read_text())

    def test_of_the_tree(self):
        self.assertEqual(list(faults_of_tree(self.budget, *tree(ROOT, self.budget["words"]))), [])

    def test_only_falls(self):
        self.assertEqual(list(faults_of_history(ROOT, self.budget)), [])

    def test_format(self):
        style = hashlib.sha256((ROOT / ".clang-format").read_bytes()).hexdigest()
        self.assertEqual(style, self.budget["clang_format"], ".clang-format has changed")


class BudgetFindsFaults(unittest.TestCase):
    @staticmethod
    def budget(**rows):
        rows = {f"code/{row}": numbers for row, numbers in rows.items()}
        return {"since": "", "clang_format": "", "words": {"ours": {"code/a": 2}}, "rows": rows}

    def test_counts(self):
        self.assertEqual(counts("a.c", '// SPDX-License-Identifier: MIT\nint a; // b\n/* c\n d */\nf("//");\n'),
                         [5, 13, 3])
        self.assertEqual(counts("a.py", '#!x\n"""A\nb."""\na = """#"""  # c\n'), [4, 9, 3])
        self.assertEqual(counts("run", "# a\ncat $# <<EOF\n#define a\nEOF\n\necho '\n#b'\n"), [7, 29, 1])
        self.assertEqual(counts("page.md", "# a\n<!-- b -->\n"), [2, 10, 0])

    def test_rows(self):
        for path, row in {"examples/gaussians/lib/lm/a.c": "code/lm", "examples/gaussians/gs/a.cu": "code/rasteriser",
                          "examples/gaussians/dsplat.c": "code/program", "include/README.md": "docs",
                          "tests/gaussians/lib/lm/a.cu": "tests/lm", "tests/gaussians/train/a.cpp": "tests/trainer",
                          "python/tests/a.py": "tests/python", "tests/library/a.cu": "tests/include",
                          "tests/simt/a.cu": "tests/simt", "tests/README.md": "tests/build", "a.png": None,
                          "benchmarks/results/a.txt": None, "Makefile": "code/build"}.items():
            self.assertEqual(row_of(path), row, path)

    def test_of_a_tree(self):
        budget = self.budget(a=[[100, 1000, 10], [90, 900, 10]])
        for now, fault in (([90, 900, 9], None), ([91, 900, 10], "91 lines"), ([90, 901, 10], "901 characters"),
                           ([50, 576, 5], "only by 42.4%"), ([50, 575, 5], None), ([80, 800, 7], "8.8 comments")):
            found = " ".join(faults_of_tree(budget, {"code/a": now}, {}))
            self.assertEqual(found != "" if fault is None else fault not in found, False, found)
        self.assertIn("the budget is 0", " ".join(faults_of_tree(budget, {"code/new": [1, 1, 0]}, {})))
        for row, fault in (("code/a", False), ("code/b", True)):
            self.assertEqual("ours" in " ".join(faults_of_tree(budget, {}, {"ours": {row: 2}})), fault)

    def test_of_a_change(self):
        old = self.budget(a=[[100, 1000, 10], [90, 900, 10]], b=[[50, 500, 0], [50, 500, 0]])
        now = ({"code/a": [60, 600, 9], "code/b": [70, 650, 0], "code/c": [5, 40, 1]},
               {"ours": {"code/a": 1, "code/b": 1}})
        low, by_move = lowered(old, *now), moved(old, *now, "code/a", "code/b")
        for new in (old, low, by_move, moved(old, *now, "code/b", "code/c")):
            self.assertEqual(list(faults_of_change(old, new)), [])
        self.assertEqual(by_move["rows"]["code/b"], [[70, 650, 2], [70, 650, 2]])
        self.assertEqual(by_move["words"]["ours"], {"code/a": 1, "code/b": 1})
        self.assertEqual(low["words"]["ours"], {"code/a": 1})
        self.assertEqual(len(list(faults_of_change(low, old))), 3)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / FILE).parent.mkdir(parents=True)
            (pathlib.Path(folder) / FILE).write_text(text_of(low))
            for command in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-m", "a"]):
                git(folder, *command)
            self.assertEqual(len(list(faults_of_history(folder, old))), 3)
        raised = self.budget(a=[[100, 1000, 10], [90, 900, 10]], b=[[60, 500, 0], [60, 500, 0]])
        self.assertEqual(list(faults_of_change(old, raised)), ["code: the numbers at the start have changed"])


def main():
    global ROOT
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    if sys.argv[1:2] not in (["--print"], ["--write"], ["--move"]):
        unittest.main(verbosity=2)
    budget = json.loads((ROOT / FILE).read_text())
    rows, used = tree(ROOT, budget["words"])
    if sys.argv[1] == "--print":
        for row in sorted(rows.keys() | budget["rows"].keys()):
            print(f"{row:18}", *(f"{n:8}" for n in sum([*row_in(budget, row), rows[row]], [])))
        return
    budget = lowered(budget, rows, used) if sys.argv[1] == "--write" else moved(budget, rows, used, *sys.argv[2:])
    (ROOT / FILE).write_text(text_of(budget))


if __name__ == "__main__":
    main()
