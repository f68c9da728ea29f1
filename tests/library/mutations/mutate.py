#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutate.py [-o RESULTS.jsonl]: changes one comparison, operator or constant of a header at a time, and tells whether a
test finds it. Goes on where it stopped: a mutant in RESULTS is not run again but by --again.

A mutant is found if a test does not compile, fails, crashes or takes longer than its limit. It is identified by the
text of its line, so that results stay valid where the header around it changes. Code that simt does not compile (PTX)
is counted apart; tests/codegen guards it. mutations.md lists the survivors.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADERS = ROOT / "include" / "distwar"

# The tests of a header, the likely and the cheap one first.
TESTS = {
    "tree.cuh": ["costs", "tree", "call_costs", "sinks", "chunks", "product", "operators", "group", "halves"],
    "reduce.cuh": ["costs", "call_costs", "sinks", "reduction", "product", "operators", "halves", "chunks", "mistakes"],
    "values.cuh": ["call_costs", "chunks", "examples", "halves", "sinks"],
    "warp.cuh": ["lanes", "fetch", "costs", "call_costs", "halves", "tree", "sinks"],
    "group.cuh": ["call_costs", "costs", "group", "sinks", "chunks"],
    "queue.cuh": ["call_costs", "fetch", "examples"],
    "sink.cuh": ["costs", "mistakes", "sinks", "operators", "chunks", "halves", "tree"],
    "atomic.cuh": ["atomic", "operators", "halves", "costs", "call_costs"],
}
# Mutants that CI runs: header, line, operator or constant, which of these in the line, its replacement.
FIXED = [
    ("group.cuh", "summed = active && (!HasTrees || size >= 2) && size >= threshold;", ">=", 1, ">"),
    ("reduce.cuh", "if (__popc(groups.active_lanes) < (balance_threshold > 1 ? balance_threshold : 1)) {", "<", 0, "<="),
    ("warp.cuh", "for (unsigned length = 1; Votes || length < size; length *= 2) {", "<", 0, "<="),
    ("tree.cuh", "return k % 32;", "32", 0, "31"),
    ("tree.cuh", "return 15 * n;", "15", 0, "16"),
    ("warp.cuh", "for (int bit = 5; bit >= 0; --bit) {", "5", 0, "4"),
    ("warp.cuh", "return __all_sync(lanes, key == shared || !active);", "!", 0, ""),
    ("group.cuh", "if (__popc(groups.active_lanes) < (sums_all ? 1 : balance_threshold)) {", "<", 0, "<="),
    ("sink.cuh", "T *const first = base + size_t(key) * stride;", "+", 0, "-"),
    ("atomic.cuh", "static __host__ DISTWAR_DEVICE bool is_zero(T a) { return Form::wide(a) == 0; }", "==", 0, "!="),
]

Mutant = collections.namedtuple("Mutant", "header line copy token nth to at")  # at: offset in the header's text
OPPOSITE = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="],
            "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"],
            "*": ["/"], "/": ["*"], "%": ["/"], "!": [""], "~": [""]}
# clang-format writes blanks around binary operators and none in template brackets.
TOKEN = re.compile(r"(?<=\s)(?:<=|>=|==|!=|<<|>>|<|>|\+|-|&|\||\*|/|%)(?=\s)|&&(?=[\s!])|\|\||[!~](?=[\w(~])"
                   r"|(?<![\w.])(?:0x[0-9a-f]+|\d+)(?:ull|u)?(?![\w.])")


def blanked(text):
    """The text with comments, strings and preprocessor lines other than #define replaced by blanks."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ ]*#[ ]*(?!define\b)(?:\\\n|[^\n])*'
                       r'|^#define \w+(?:\([^)]*\))?', re.S | re.M)
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def compiled_here(path, compile_command):
    """For each line of the header whether simt's preprocessor keeps it: asked by a pragma in each #if and #else."""
    lines, regions, region = path.read_text(encoding="utf-8").split("\n"), [], 0
    marked, continued = [], False
    for line in lines:
        marked.append(line)
        regions.append(region)
        if re.match(r" *# *(if|el|endif)", line) or (continued and line[-1:] != "\\"):
            continued = line.endswith("\\")
            if not continued:
                region += 1
                marked.append(f"#pragma region_of_{region}")
    with tempfile.TemporaryDirectory() as name:
        folder = copy_of_headers(pathlib.Path(name))
        replace_header(folder, path.name, "\n".join(marked))
        source = pathlib.Path(name) / "all.cpp"
        source.write_text(f"#include <distwar/{path.name}>\n", encoding="utf-8")
        kept = subprocess.run([*compile_command, f"-I{folder}", "-x", "c++", "-E", source], text=True, check=True,
                              stdout=subprocess.PIPE).stdout
    kept = {int(number) for number in re.findall(r"#pragma region_of_(\d+)", kept)} | {0}
    return [number in kept for number in regions]


def replacements(token):
    if not token[0].isdigit():
        return OPPOSITE[token]
    digits = re.match(r"0x[0-9a-f]+|\d+", token).group()
    suffix, value = token[len(digits):], int(digits, 0)
    values = dict.fromkeys([value + 1, value - 1, 0])  # in this order, each once
    return [f"{new}{suffix}" if new >= 0 else "(0u - 1)" if suffix else "(-1)" for new in values if new != value]


def mutants_of(header):
    text = (HEADERS / header).read_text(encoding="utf-8")
    code, copies, at = blanked(text), collections.Counter(), 0
    for line, code_line in zip(text.split("\n"), code.split("\n")):
        stripped = line.strip()
        seen = collections.Counter()
        for match in TOKEN.finditer(" " + code_line + " "):
            token = match.group()
            for to in replacements(token):
                yield Mutant(header, stripped, copies[stripped], token, seen[token], to, at + match.start() - 1)
            seen[token] += 1
        copies[stripped] += 1
        at += len(line) + 1


def key(mutant):
    return mutant[:6]


def copy_of_headers(folder):
    include = folder / "include"
    (include / "distwar").mkdir(parents=True)
    for header in HEADERS.iterdir():
        (include / "distwar" / header.name).symlink_to(header)
    return include


def replace_header(include, name, text):
    path = include / "distwar" / name
    path.unlink()  # the link to the original
    path.write_text(text, encoding="utf-8")


class Runner:
    def __init__(self, options, folder):
        self.folder = folder
        self.limit = options.limit
        self.compile = [options.compiler, "-std=gnu++17", "-O0", "-w", "-ffp-contract=off", "-fmax-errors=1",
                        "-fsanitize=bounds", "-fsanitize-undefined-trap-on-error",
                        *(f"-I{ROOT / path}" for path in ("simt/device", "simt/include", "tests/library"))]
        build = pathlib.Path(options.build).resolve()
        self.compile.append(f"-I{build}/tests/library")  # examples.h
        self.libraries = [build / "simt/libsimt.a", build / "simt/device/libdistwar_device.a",
                          *options.libraries.split()]
        header = folder / "precompiled.h"
        header.write_text("#include <gtest/gtest.h>\n#include <random>\n#include <vector>\n#include <cuda_runtime.h>\n"
                          "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <simt.h>\n", encoding="utf-8")
        subprocess.run([*self.compile, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
        self.precompiled = ["-include", header]
        uses = (ROOT / "tests/library/wrong_use.cu").read_text(encoding="utf-8")
        self.wrong_uses, reason = [], None  # (number, reason)
        for line in re.findall(r"^    (?:// distwar: (.*)|WRONG\((\d+),)", uses, re.M):
            reason = line[0] or reason
            self.wrong_uses += [(line[1], reason)] if line[1] else []

    def run(self, command, seconds):
        """(exit status, output); a status of None is a timeout."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=20 * seconds, preexec_fn=limit, check=False)
        except subprocess.TimeoutExpired:
            return None, ""
        return (None, "") if done.returncode == -24 else (done.returncode, done.stdout)  # SIGXCPU

    def test(self, include, folder, name):
        """What finds the mutant of the headers in `include`; None if the test passes."""
        program = folder / name
        status, output = self.run([*self.compile, f"-I{include}", *self.precompiled, "-x", "c++",
                                   ROOT / "tests/library" / f"{name}.cu", "-x", "none", "-o", program,
                                   *self.libraries], 60)
        if status != 0:
            error = re.search(r"error: (?!ld returned)(.*)", output)
            if not error and status is not None:
                sys.exit(f"mutate.py: {name} does not link, build {self.libraries[0].parent}: {output[-500:]}")
            return f"{name} does not compile: {error.group(1)[:100] if error else 'takes too long'}"
        status, output = self.run([program, "--gtest_brief=1", "--gtest_fail_fast"], self.limit)
        program.unlink()
        if status is None:
            return f"{name} takes too long"
        if status < 0:
            return f"{name} crashes"
        failed = re.search(r"\[  FAILED  \] ([\w./]+)", output)
        return failed.group(1) if failed else None if status == 0 else f"{name} ends with {status}"

    def wrong_use(self, include, message):
        """Whether a wrong use of this reason compiles now."""
        for number, reason in self.wrong_uses:
            if reason != message:
                continue
            status, output = self.run([*self.compile, "-fsyntax-only", f"-I{include}", f"-DUSE_{number}=CHOSEN", "-x",
                                       "c++", ROOT / "tests/library/wrong_use.cu"], 60)
            if status == 0 or f"distwar: {reason}" not in output:
                return f"Headers.WrongUse{number}"
        return None

    def found_by(self, mutant):
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = pathlib.Path(name)
            include = copy_of_headers(folder)
            text = (HEADERS / mutant.header).read_text(encoding="utf-8")
            end = mutant.at + len(mutant.token)
            assert text[mutant.at:end] == mutant.token
            replace_header(include, mutant.header, text[:mutant.at] + mutant.to + text[end:])
            statement = text[text.rfind(";", 0, mutant.at) + 1:text.find(";", mutant.at)]
            assertion = re.search(r'static_assert\(.*"distwar: (.*)"\)', statement, re.S)
            if assertion:
                found = self.wrong_use(include, assertion.group(1))
                if found:
                    return found
            for test in TESTS[mutant.header]:
                found = self.test(include, folder, test)
                if found:
                    return found
        return None


def read_results(path):
    """{mutant: "found" or "survived"}"""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {tuple(entry["mutant"]): entry["result"] for entry in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="results", help="the file of results, to which each mutant adds a line")
    parser.add_argument("--fixed", action="store_true", help="run those of CI; the exit status is 1 unless all are found")
    parser.add_argument("--list", action="store_true", help="print how many mutants there are and which survived")
    parser.add_argument("--again", action="store_true", help="run those that survived again")
    parser.add_argument("--headers", default=",".join(TESTS), help="separated by commas")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--build", default="build/library", help="the build folder that holds libsimt.a")
    parser.add_argument("--libraries", default="-lgtest -lgtest_main -lboost_context -lpthread")
    parser.add_argument("--limit", type=int, default=90, help="CPU seconds for each test program")
    parser.add_argument("-j", type=int, default=2)
    options = parser.parse_args()

    probe = [options.compiler, "-std=gnu++17", f"-I{ROOT / 'simt/include'}"]
    here, elsewhere = [], []
    for header in options.headers.split(","):
        kept = compiled_here(HEADERS / header, probe)
        text = (HEADERS / header).read_text(encoding="utf-8")
        for mutant in mutants_of(header):
            (here if kept[text.count("\n", 0, mutant.at)] else elsewhere).append(mutant)
    if options.fixed:
        fixed = {entry: None for entry in FIXED}
        for mutant in here:
            entry = (mutant.header, mutant.line, mutant.token, mutant.nth, mutant.to)
            if entry in fixed and fixed[entry] is None:
                fixed[entry] = mutant
        for entry, mutant in fixed.items():
            if mutant is None:
                sys.exit(f"mutate.py: the header has no such line any more, choose another for FIXED: {entry}")
        here = list(fixed.values())
    path = pathlib.Path(options.results) if options.results else None
    known = read_results(path) if path else {}
    if options.list:
        for header in options.headers.split(","):
            mine = [mutant for mutant in here if mutant.header == header]
            judged = [known.get(key(mutant)) for mutant in mine]
            print(f"{header}: {len(mine)} mutants, {judged.count('found')} found, {judged.count('survived')} survived, "
                  f"{judged.count(None)} not run; {sum(m.header == header for m in elsewhere)} not compiled here")
        for mutant in here:
            if known.get(key(mutant)) == "survived":
                print(f"  {mutant.header}: `{mutant.line}`: `{mutant.token}` number {mutant.nth + 1} -> `{mutant.to}`")
        return
    to_run = [m for m in here if known.get(key(m)) == ("survived" if options.again else None)]
    to_run.sort(key=lambda mutant: mutant.token[0].isdigit())  # operators first

    survived = 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        runner = Runner(options, pathlib.Path(name))

        def judge(mutant):
            begin = time.monotonic()
            found = runner.found_by(mutant)
            entry = {"mutant": key(mutant), "result": "found" if found else "survived", "by": found,
                     "seconds": round(time.monotonic() - begin, 1)}
            return mutant, entry

        for mutant, entry in pool.map(judge, to_run):
            survived += entry["result"] == "survived"
            print(f"{entry['result']}: {mutant.header}: {mutant.line}: {mutant.token} -> {mutant.to} "
                  f"({entry['by']}, {entry['seconds']} s)", flush=True)
            if path:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
    sys.exit(1 if options.fixed and survived else 0)


if __name__ == "__main__":
    main()
