#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rooms.py ROOM... [-o RESULTS.jsonl]: draws mutants of a room, 20 of each, and tells which of them its tests find.

A mutant is one changed operator or constant of one line, as by tests/library/mutations/mutate.py. Its function, the text
of its line and the change identify it, so that it is found again where code has moved. Each line has a number, the
SHA-256 of the seed and of these, and so has each change of a line. Drawn are the lines of the lowest
numbers, of each the change of the lowest. So other changes in the room leave the draw as it is, and a mutant whose line
is gone is replaced by the next. Sizes of declared arrays and of memory are not drawn, since sanitizers guard them.
Mutants that do not compile, or that leave all machine code unchanged, are not counted, and the next is drawn.

A mutant is found if one of the room's own tests fails, crashes, or takes 20 times as long as without it and a minute.
The tests of a room are those whose sources lie in its folders (tests/tree/budget_test.py), without tests/extra.txt and
without those that fail here before anything is changed.

RESULTS has what was run; it goes on where it stopped. rooms.jsonl here is of the last landing: at the end of a piece of
work run the rooms that it changed into a new file, find no fewer, and put the file in its place.

With -j N each of N workers has a copy of the tree and its build in --work; with ccache the builds after the first take
a minute. Where the system lacks packages: CMAKE_PREFIX_PATH and Boost_ROOT in the environment.
"""
import argparse
import collections
import concurrent.futures
import filecmp
import hashlib
import json
import os
import pathlib
import queue
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/library/mutations"), str(ROOT / "tests/tree")]
import budget_test  # noqa: E402
import mutate  # noqa: E402
import tree_test  # noqa: E402

# Programs that have tests of the room.
ROOMS = {
    "data": ["gaussians_data_test"],
    "program": ["dsplat_test", "commands_test"],
    "trainer": ["density_test", "dsplat_test", "commands_test"],
    "rasteriser": ["gaussians_test", "density_test"],
}
NOT_DRAWN = re.compile(r"static_assert|_Static_assert|\w*alloc\w*\(")
ARRAY = re.compile(r"(?<!return)[\w*] \**\w+\[$")  # declared
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+), *(\w+)\)", re.M)

Mutant = collections.namedtuple("Mutant", "function line copy token nth to")  # copy: of the line in the function


def files_of(row):
    found = (str(p.relative_to(ROOT)) for folder in ("examples", "tests") for p in sorted((ROOT / folder).rglob("*"))
             if p.suffix in (".c", ".cpp", ".cu", ".h", ".cuh"))
    return [name for name in found if budget_test.row_of(name) == row]


def candidates(text):
    """(mutant, offset) of each change of a source."""
    code = re.sub(r"__launch_bounds__\([^()]*\)", lambda m: " " * len(m.group()), mutate.blanked(text))
    functions = [(m.start(), code.find("\n}", m.end() - 1), m[2]) for m in tree_test.FUNCTION.finditer(code)]
    copies, at = collections.Counter(), 0
    for line, code_line in zip(text.split("\n"), code.split("\n")):
        function = next((name for begin, end, name in functions if begin <= at + len(line) and at <= end), "")
        where = function, line.strip()
        seen = collections.Counter()
        for match in mutate.TOKEN.finditer(f" {code_line} ") if not NOT_DRAWN.search(line) else ():
            token = match.group()
            size = ARRAY.search(code_line[:match.start() - 1])
            for to in mutate.replacements(token) if not size and not re.match(r"0\d", token) else ():
                yield Mutant(*where, copies[where], token, seen[token], to), at + match.start() - 1
            seen[token] += 1
        copies[where] += 1
        at += len(line) + 1


def drawn(room, seed):
    """(file, mutant, offset) in the order of the draw."""
    def number(parts):
        return hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
    lines = collections.defaultdict(list)
    for name in files_of(f"code/{room}"):
        for mutant, at in candidates((ROOT / name).read_text(encoding="utf-8")):
            lines[mutant[:3]].append((name, mutant, at))
    for line in sorted(lines, key=number):  # of a line the operator or constant, then the change
        yield min(lines[line], key=lambda entry: (number(entry[1][:5]), number(entry[1])))


def tests_of(room):
    extra = [line for line in (ROOT / "tests/extra.txt").read_text().splitlines() if line[:1] not in ("", "#")]
    tests = {".".join(test) for file in files_of(f"tests/{room}") for test in TEST.findall((ROOT / file).read_text())}
    return sorted(t for t in tests if not any(re.search(one, t) for one in extra))


def plain(test):
    """Suite.Name of a test with types or parameters."""
    return re.sub(r"^\w+/|/[^.]*$", "", re.sub(r"/\d+(?=\.)", "", test))


def limit_memory_and_files():
    for what, most in ((resource.RLIMIT_AS, 16 << 30), (resource.RLIMIT_FSIZE, 1 << 30), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


class Worker:
    """A copy of the tree with its build."""

    def __init__(self, folder, options):
        self.source, self.build, self.options = folder / "source", folder / "source/build/cpu", options
        self.environment = {**os.environ, "TMPDIR": str(folder), "CCACHE_NOHASHDIR": "1",
                            "CCACHE_BASEDIR": os.environ.get("CCACHE_BASEDIR", str(folder.parent))}
        for name in budget_test.git(ROOT, "ls-files", "-z").split("\0")[:-1]:
            there = self.source / name  # what a stopped run has left is written anew, so that it is compiled again
            if (ROOT / name).is_file() and not (there.exists() and filecmp.cmp(ROOT / name, there, shallow=False)):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, there)
        command = ["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   "-DDISTWAR_BACKEND=simt", "-DDISTWAR_TESTS=examples", "-DCMAKE_C_FLAGS_RELEASE=-O2 -DNDEBUG",
                   "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG"]
        if shutil.which("ccache"):
            command += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
        self.must(command)

    def must(self, command):
        done = subprocess.run(command, env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout

    def prepare(self, programs):
        """Builds the tree as it is."""
        self.must(["ninja", "-C", self.build, "-j", str(self.options.build_jobs), *programs])
        self.objects = {p: self.hash_of(p) for p in self.build.rglob("*.o")}

    @staticmethod
    def hash_of(path):
        return hashlib.sha256(path.read_bytes()).digest()

    def mutated(self, programs):
        """Builds the tree with a mutant. None if its tests can be run."""
        begin = time.time()
        done = subprocess.run(["ninja", "-C", self.build, "-j", "1", *programs], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**self.environment, "CCACHE_DISABLE": "1"})
        if done.returncode != 0:  # the tests are listed when they are linked
            return "found" if "Error running test executable" in done.stdout else "does not compile"
        built = (p for p in self.objects if p.stat().st_mtime >= begin - 1)
        return None if any(self.hash_of(p) != self.objects[p] for p in built) else "same code"

    def run(self, program, tests, seconds, stop=True):
        """The tests of a program that fail, if `stop` the first; else adds the seconds of those that pass."""
        shards = self.options.shards if stop else self.options.build_jobs
        with concurrent.futures.ThreadPoolExecutor(shards) as pool:
            return sum(pool.map(lambda i: self.run_shard(program, tests, seconds, stop, i, shards), range(shards)), [])

    def run_shard(self, program, tests, seconds, stop, shard, shards):
        pattern = ":".join(":".join((t, f"*/{t}/*", t.replace(".", "/*."))) for t in tests)
        child = subprocess.Popen([self.build / "bin" / program, f"--gtest_filter={pattern}"], cwd=self.build,
                                 env={**self.environment, "GTEST_FAIL_FAST": str(int(stop)),
                                      "GTEST_SHARD_INDEX": str(shard), "GTEST_TOTAL_SHARDS": str(shards)},
                                 start_new_session=True, preexec_fn=limit_memory_and_files, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
        test, limit, begin, failed, rest = "before the first", 60, time.monotonic(), [], ""
        try:
            while True:
                ready = select.select([child.stdout], [], [], max(0, begin + limit - time.monotonic()))[0]
                if not ready:
                    return [*failed, f"{test} takes too long"]
                text = os.read(child.stdout.fileno(), 1 << 16).decode(errors="replace")
                if not text:
                    break
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    name = re.match(r"\[ RUN      \] (\S+)", line)
                    if name:
                        test, begin = name[1], time.monotonic()
                        limit = 60 + 20 * seconds.get(test, 0) if stop else 600
                    elif re.match(rf"\[  FAILED  \] {re.escape(test)}\b.*ms\)", line):
                        failed.append(test)
                    elif re.match(r"\[       OK \]", line) and not stop:
                        seconds[test] = time.monotonic() - begin
            status = child.wait()
            return failed or ([] if status == 0 else [f"{test} crashes"])
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()

    def judge(self, name, mutant, at, room):
        path, begin, by = self.source / name, time.monotonic(), None
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text[at:at + len(mutant.token)] == mutant.token
        path.write_text(text[:at] + mutant.to + text[at + len(mutant.token):], encoding="utf-8")
        try:
            result = self.mutated(room.programs)
            for known in (True, False) if result is None else ():  # first the test that found it before
                for program in room.programs:
                    tests = [t for t in room.tests[program] if (t == room.found_by.get(mutant)) == known]
                    by = by or next(iter(self.run(program, tests, room.seconds) if tests else ()), None)
        finally:
            path.write_text(text, encoding="utf-8")
        return {"room": room.name, "file": name, "mutant": mutant, "by": by,
                "result": result or ("found" if by else "survived"), "seconds": round(time.monotonic() - begin)}


class Room:
    """The tests of a room that pass, and how long each takes."""

    def __init__(self, name, worker):
        self.name, self.seconds = name, {}
        last = known_results(ROOT / "tests/mutants/rooms.jsonl").items()
        self.found_by = {mutant: plain(e["by"].split()[0]) for (room, mutant), e in last if room == name and e["by"]}
        known = worker.must(["ninja", "-C", worker.build, "-t", "targets", "all"])
        self.programs = [p for p in ROOMS[name] if re.search(rf"^{p}: phony", known, re.M)]
        worker.prepare(self.programs)
        tests, self.tests = tests_of(name), {}
        for program in self.programs:
            listed = worker.must([worker.build / "bin" / program, "--gtest_list_tests"])
            suites = {part for line in re.findall(r"^([\w/]+)\.", listed, re.M) for part in line.split("/")}
            mine = [t for t in tests if t.split(".")[0] in suites]
            failed = {plain(t) for t in worker.run(program, mine, self.seconds, stop=False)}
            self.tests[program] = sorted(set(mine) & {plain(t) for t in self.seconds} - failed)
        passed = set(sum(self.tests.values(), []))
        print(f"{name}: {len(passed)} of {len(tests)} tests, {sum(self.seconds.values()):.0f} s; "
              f"without {', '.join(sorted(set(tests) - passed)) or 'none'}", flush=True)


def known_results(path):
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
    return {(e["room"], Mutant(*e["mutant"])): e for e in entries}


def run_room(name, workers, options, results):
    room = Room(name, workers[0])
    for _ in concurrent.futures.ThreadPoolExecutor(4).map(lambda w: w.prepare(room.programs), workers[1:]):
        pass
    free, lock, done = queue.Queue(), threading.Lock(), []
    for worker in workers:
        free.put(worker)
    draw = drawn(name, options.seed)

    def work():
        while True:
            with lock:  # what is running may count
                counted = sum(entry is None or entry["result"] in ("found", "survived") for entry in done)
                drawing = next(draw, None) if counted < options.count else None
                if not drawing:
                    return
                place = len(done)
                done.append(results.get((name, drawing[1])))
            if done[place]:
                continue
            worker = free.get()
            entry = worker.judge(*drawing, room)
            free.put(worker)
            with lock:
                done[place] = entry
                print(f"{entry['result']}: {entry['file']}: {entry['mutant'].line}: {entry['mutant'].token} -> "
                      f"{entry['mutant'].to} ({entry['by']}, {entry['seconds']} s)", flush=True)
                if options.results:
                    with options.results.open("a") as file:
                        file.write(json.dumps(entry) + "\n")

    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        for future in [pool.submit(work) for _ in workers]:
            future.result()
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", default=list(ROOMS), help=", ".join(ROOMS) + "; all")
    parser.add_argument("-o", dest="results", type=pathlib.Path, help="the file to which each mutant adds a line")
    parser.add_argument("--seed", type=int, default=59)
    parser.add_argument("--count", type=int, default=20, help="mutants of a room")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/mutants", help="for the workers' copies")
    parser.add_argument("--build-jobs", type=int, default=os.cpu_count(), help="of builds and tests before mutants")
    parser.add_argument("--shards", type=int, default=1, help="processes for a worker's tests")
    parser.add_argument("-j", type=int, default=1, help="workers")
    options = parser.parse_args()
    results = known_results(options.results)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        workers = list(pool.map(lambda i: Worker(options.work.resolve() / str(i), options), range(options.j)))
    for name in options.rooms:
        done = run_room(name, workers, options, results)
        counted = [e["result"] for e in done if e["result"] in ("found", "survived")]
        print(f"{name}: {counted.count('found')} of {len(counted)} found", flush=True)


if __name__ == "__main__":
    main()
