# SPDX-License-Identifier: MIT
"""Fails the allocations of dsplat one by one: each run ends well, or with one message and exit 1, and its files are whole.

    allocations_test.py DSPLAT FAILING_MALLOC [EVERY [JOBS]]    every EVERY-th allocation of each command (default: each);
                                                                0: the first of each call site in any of them

A run that fails leaves the older output or the whole new one, and no part files.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What a process says that could not even start.
SYSTEM = re.compile(r"^(.*error while loading shared libraries|ld\.so|Fatal glibc error: Cannot allocate)")
OLD = b"an older output\n"
FRAMES = "2" # callers that make a call site: few functions call cudaMalloc and malloc themselves


def run(program, arguments, folder, preload, at):
    environment = dict(os.environ, LD_PRELOAD=preload, FAIL_AT=str(at), FAIL_COUNT=str(folder / "allocations"), FAIL_FRAMES="0" if at else FRAMES)
    return subprocess.run([program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def commands(program, data):
    """(name, arguments, output) of what runs; the files that they need are made in `data`."""
    def make(*arguments):
        subprocess.run([program, *map(str, arguments)], check=True, cwd=data, stdout=subprocess.DEVNULL)
    make("generate", "d", "--views", 3, "--test-views", 1, "--size", 16, "--gaussians", 1000, "--depth")
    training = ["train", str(data / "d"), "--iterations", "4", "--random", "20", "--sh-degree", "1", "--density-from", "1",
                "--density-every", "2", "--max-gaussians", "30", "--density", "mcmc"]
    make(*training, "-o", "small.ply", "--checkpoint-every", 4, "--checkpoint", "saved")
    yield "train", training + ["-o", "out.ply", "--checkpoint-every", "2", "--checkpoint", "saved", "--log", "log.json",
                               "--report", "report.html", "--depth", str(data / "d/depth")], "out.ply"
    yield "resume", training + ["-o", "out.ply", "--resume", str(data / "saved")], "out.ply"
    yield "finish", ["finish", str(data / "small.ply"), "--cameras", str(data / "d"), "-o", "out.ply", "--lm-steps", "1"], "out.ply"
    yield "render", ["render", str(data / "small.ply"), "--cameras", str(data / "d"), "--view", "0", "-o", "out.png"], "out.png"
    yield "ranks", training + ["-o", "out.ply", "--gpus", "2", "--checkpoint-every", "2", "--checkpoint", "saved"], "out.ply"
    yield "eval", ["eval", str(data / "small.ply"), "--cameras", str(data / "d"), "--json", "out.json"], "out.json"
    yield "export", ["export", str(data / "small.ply"), "--cameras", str(data / "d"), "-o", "out.html"], "out.html"
    yield "bench", ["bench", str(data / "small.ply"), "--cameras", str(data / "d"), "--json", "out.json"], "out.json"
    for suffix in ("ply", "spz", "sog"):
        output = f"out.{suffix}"
        made = subprocess.run([program, "convert", "small.ply", output], cwd=data, capture_output=True)
        if made.returncode == 0: # else the library for it is missing
            yield suffix, ["convert", str(data / output), output], output


def fault_of(program, result, folder, output, wanted):
    """What is wrong with a run whose allocation failed; None: nothing."""
    if result.returncode not in (0, 1):
        return f"exit {result.returncode}"
    if result.returncode == 1 and not result.stderr.strip():
        return "exit 1 without a message"
    if result.returncode == 1 and not SYSTEM.match(result.stderr):
        if not result.stderr.splitlines()[-1].startswith("dsplat: "):
            return "its last line does not begin with the program's name"
    left = [f.name for f in folder.iterdir() if ".part-" in f.name]
    if left:
        return f"left {left}"
    got = (folder / output).read_bytes()
    if result.returncode == 0 and got == OLD:
        return "exit 0 without an output"
    if got != OLD and len(got) != wanted: # as a codec may choose when it has less memory
        if subprocess.run([program, "info", folder / output], capture_output=True).returncode:
            return f"an output of {len(got)} bytes, where {wanted} were wanted"
    return None


def main():
    program, preload = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    every, jobs = (int(a) for a in (sys.argv[3:] + ["1", "2"][len(sys.argv) - 3:]))
    faults, seen = 0, set()
    with tempfile.TemporaryDirectory() as top, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        top = pathlib.Path(top)
        (top / "data").mkdir()

        def tried(name, arguments, output, at, wanted):
            folder = top / f"{name}-{at}"
            folder.mkdir()
            (folder / output).write_bytes(OLD)
            result = run(program, arguments, folder, preload, at)
            size = len((folder / output).read_bytes())
            counted = (folder / "allocations").read_text() if (folder / "allocations").exists() else ""
            fault = fault_of(program, result, folder, output, wanted) if wanted else None
            shutil.rmtree(folder)
            return at, result, fault, size, counted

        for name, arguments, output in commands(program, top / "data"):
            _, result, _, size, counted = tried(name, arguments, output, 0, 0)
            if result.returncode:
                sys.exit(f"{name} fails without a fault: {result.stderr}")
            count, *sites = counted.splitlines()
            count, ended, refused = int(count), 0, 0
            new = [int(first) for first, site in map(str.split, sites) if site not in seen]
            seen.update(line.split()[1] for line in sites)
            runs = [pool.submit(tried, name, arguments, output, at, size)
                    for at in (range(1, count + 1, every) if every else sorted(new))]
            for at, result, fault, _, _ in (r.result() for r in runs):
                ended += result.returncode == 0
                refused += result.returncode == 1
                if fault:
                    faults += 1
                    print(f"{name}: allocation {at} of {count}: {fault}\n{result.stderr}")
            print(f"{name}: {len(runs)} of {count} allocations failed: {refused} runs ended with exit 1, {ended} went on")
    sys.exit(1 if faults else 0)


main()
