# SPDX-License-Identifier: MIT
"""Fails the allocations of dsplat, or its reads of files, one by one: each run ends well, or with one message and exit 1.
One that fails leaves the older output or the whole new one, and no part files.

    allocations_test.py DSPLAT PRELOAD [EVERY [JOBS]]    every EVERY-th of each command (default: each); 0: the first of each
                                                         call site in any of them, of shorter trainings

PRELOAD: libfailing_malloc.so or libfailing_reads.so.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

# What a process says that could not even start.
SYSTEM = re.compile(r"^(.*error while loading shared libraries|ld\.so|Fatal glibc error: Cannot allocate)")
OLD = b"an older output\n"
# Callers that make a call site: few functions call cudaMalloc and malloc themselves, and reads come through the C library.
FRAMES = {"libfailing_malloc.so": "2", "libfailing_reads.so": "12"}
# Commands that may go on after a read that fails: it was of a checkpoint that is about to be replaced, or a seek that
# the C library tries twice. Any other command that goes on has read something else than the file holds.
MAY_GO_ON = ("train", "resume", "ranks", "ranks resume")


# In place of COLMAP: a model of three views.
COLMAP = """#!/bin/sh
[ "$2" = -h ] && exit 0
command=$1 input=${0%/*}/../model
while [ $# -gt 1 ]; do shift; [ "$1" = --output_path ] && out=$2; done
case $command in
mapper) mkdir "$out/0" && cp "$input"/*.txt "$out/0" ;;
esac
"""


def run(program, arguments, folder, preload, at):
    tools = f"{folder.parent / 'data/bin'}:" if arguments[:1] == ["poses"] else ""
    environment = dict(os.environ, LD_PRELOAD=preload, FAIL_AT=str(at), FAIL_COUNT=str(folder / "allocations"), FAIL_FRAMES="0" if at else FRAMES[pathlib.Path(preload).name],
                       PATH=tools + os.environ["PATH"])
    process = subprocess.Popen([program, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if arguments[:1] == ["view"]: # until Control-C
        for line in process.stdout:
            if line.startswith("Control-C"):
                process.send_signal(signal.SIGINT)
    try:
        output, error = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, error)


def commands(program, data, steps=4):
    """(name, arguments, output or None) of what runs; the files that they need are made in `data`."""
    def make(*arguments):
        subprocess.run([program, *map(str, arguments)], check=True, cwd=data, stdout=subprocess.DEVNULL)
    make("generate", "d", "--views", 3, "--test-views", 1, "--size", 16, "--gaussians", 1000, "--depth")
    training = ["train", str(data / "d"), "--iterations", str(steps), "--random", "20", "--sh-degree", "1", "--schedule",
                "from=1,every=2", "--max-gaussians", "30", "--density", "mcmc"]
    make(*training, "-o", "small.ply", "--checkpoint-every", steps)
    os.rename(data / "small.ply.checkpoint", data / "saved")
    yield "train", training + ["-o", "out.ply", "--checkpoint-every", "2", "--log", "log.json",
                               "--report", "report.html", "--depth", str(data / "d/depth")], "out.ply"
    yield "resume", training + ["-o", "out.ply", "--resume", str(data / "saved")], "out.ply"
    yield "finish", ["finish", str(data / "small.ply"), "--cameras", str(data / "d"), "-o", "out.ply", "--lm-steps", "1"], "out.ply"
    yield "render", ["render", str(data / "small.ply"), "--cameras", str(data / "d"), "--view", "0", "-o", "out.png"], "out.png"
    yield "ranks", training + ["-o", "out.ply", "--gpus", "2", "--checkpoint-every", "2"], "out.ply"
    make(*training, "-o", "small.ply", "--gpus", 2, "--checkpoint-every", steps)
    yield "ranks resume", training + ["-o", "out.ply", "--gpus", "2", "--resume", str(data / "small.ply.checkpoint")], "out.ply"
    yield "eval", ["eval", str(data / "small.ply"), "--cameras", str(data / "d"), "--json", "out.json", "--all", "--pictures", ".",
                   "--depth", str(data / "d/depth")], "out.json"
    # COLMAP's text of one view, with a mask, in which no pixel is black.
    for name in ("images", "masks"):
        (data / "colmap" / name).mkdir(parents=True)
        make("render", "small.ply", "--width", 128, "--height", 128, "--background", "1,1,1", "-o", f"colmap/{name}/a.png")
    (data / "colmap/cameras.txt").write_text("1 PINHOLE 128 128 128 128 64 64\n")
    (data / "colmap/images.txt").write_text("1 1 0 0 0 0 0 4 1 a.png\n\n")
    (data / "colmap/points3D.txt").write_text("1 0 0 0 1 2 3 0.5\n")
    yield "colmap", ["eval", str(data / "small.ply"), "--cameras", str(data / "colmap"), "--all", "--json", "out.json"], "out.json"
    yield "alone", ["render", str(data / "small.ply"), "--width", "16", "--height", "16", "-o", "out.png"], "out.png"
    yield "masked", ["train", str(data / "colmap"), "--holdout", "0", "--iterations", "3", "--random", "20", "--sh-degree", "0", "-o", "out.ply",
                     "--refine-poses", "--align-steps", "0", "--density", "none"], "out.ply"
    grown = ["train", str(data / "d"), "--iterations", "2", "--random", "20", "--sh-degree", "0", "-o", "out.ply"]
    yield "poses", grown + ["--density", "none", "--refine-poses", "--align-steps", "0", "--write-cameras", "cameras.json"], "out.ply"
    yield "page", grown + ["--density", "none", "--resolutions", "2:50", "--view", "--validate", "1", "--holdout", "0", "--schedule", "average=0.9"], "out.ply"
    shutil.copytree(data / "d", data / "pointless")
    (data / "pointless/points3D.txt").unlink()
    yield "stereo", ["train", str(data / "pointless"), "--iterations", "1", "--density", "none", "-o", "out.ply"], "out.ply"
    (data / "bin").mkdir()
    (data / "bin/colmap").write_text(COLMAP)
    (data / "bin/colmap").chmod(0o755)
    (data / "model").mkdir()
    (data / "model/cameras.txt").write_text("1 PINHOLE 16 16 20 20 8 8\n")
    (data / "model/images.txt").write_text("".join(f"{i} 1 0 0 0 0 0 4 1 {i}.png\n\n" for i in (1, 2, 3)))
    (data / "model/points3D.txt").write_text("1 0 0 0 1 2 3 0.5\n")
    yield "photographs", ["poses", str(data / "d/train"), "-o", "placed"], None
    if subprocess.run([program, "view", str(data / "small.ply"), "--listen", "none"], capture_output=True, text=True).stderr.find("--listen none") >= 0:
        yield "view", ["view", str(data / "small.ply"), "--cameras", str(data / "d"), "--listen", "127.0.0.1:0"], None
    yield "library", [], None
    yield "flight", ["render", str(data / "small.ply"), "--cameras", str(data / "d"), "--path", "orbit", "--frames", "1", "-o", "flight"], None
    nccl = pathlib.Path(program).parent / "libfake_nccl.so"
    if nccl.exists():
        yield "nccl", grown + ["--density", "none", "--batch", "2", "--gpus", "2", "--nccl", str(nccl)], "out.ply"
    yield "generate", ["generate", "g", "--views", "1", "--test-views", "1", "--size", "16", "--gaussians", "1000", "--depth"], None
    yield "info", ["info", str(data / "small.ply")], None
    yield "prune", ["convert", str(data / "small.ply"), "out.ply", "--prune", "0.5"], "out.ply"
    with tarfile.open(pathlib.Path(__file__).parents[1] / "fuzz/corpus.tar.gz") as corpus: # formats that dsplat only reads
        for kind, name in (("compressed", "seed.ply"), ("glb", "seed.glb"), ("splat", "seed.splat")):
            (data / name).write_bytes(corpus.extractfile(f"{kind}/seed-0").read())
            yield name, ["convert", str(data / name), "link.ply"], "out.ply"
    yield "export", ["export", str(data / "small.ply"), "--cameras", str(data / "d"), "--most", "10", "-o", "out.html"], "out.html"
    for output in ("out.ply", "out.spz", "out.sog"):
        suffix = output[4:]
        made = subprocess.run([program, "convert", "small.ply", output, *(["--spz-version", "4"] if suffix == "spz" else [])], cwd=data, capture_output=True)
        if made.returncode == 0: # else the library for it is missing
            yield suffix, ["convert", str(data / output), output, *(["--spz-version", "4"] if suffix == "spz" else [])], output


def fault_of(program, result, folder, output, wanted):
    """What is wrong with a run whose allocation failed; None: nothing."""
    if result.returncode not in (0, 1):
        return f"exit {result.returncode}"
    if result.returncode == 1 and not result.stderr.strip():
        return "exit 1 without a message"
    if result.returncode == 1 and not SYSTEM.match(result.stderr):
        if not result.stderr.splitlines()[-1].startswith(pathlib.Path(program).name + ": "):
            return "its last line does not begin with the program's name"
    left = [f.name for f in folder.iterdir() if ".part-" in f.name]
    if left:
        return f"left {left}"
    if output is None:
        return None
    got = (folder / output).read_bytes()
    if result.returncode == 0 and got == OLD:
        return "exit 0 without an output"
    if got != OLD and output.endswith(".json"): # times have more or fewer digits
        json.loads(got)
    elif got != OLD and len(got) != wanted: # as a codec may choose when it has less memory
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
            if output:
                (folder / output).write_bytes(OLD)
            (folder / "link.ply").symlink_to("out.ply")
            own = str(pathlib.Path(program).parent / "train") if name == "library" else program # the example of libdistwar_train
            result = run(own, arguments, folder, preload, at)
            size = len((folder / output).read_bytes()) if output else 1
            counted = [] if at else [line.split() for line in (folder / "allocations").read_text().splitlines()]
            fault = fault_of(own, result, folder, output, wanted) if wanted else None
            if "reads" in preload and at and result.returncode == 0 and name not in MAY_GO_ON:
                fault = "went on"
            shutil.rmtree(folder)
            return at, result, fault, size, counted

        for name, arguments, output in commands(program, top / "data", 4 if every == 0 else 50):
            _, result, _, size, counted = tried(name, arguments, output, 0, 0)
            if result.returncode:
                sys.exit(f"{name} fails without a fault: {result.stderr}")
            sites, ended, refused = {}, 0, 0 # sites: the first call of each
            for number, site in counted:
                sites.setdefault(site, int(number))
            count = max((int(number) for number, _ in counted), default=0)
            new = {first for site, first in sites.items() if site not in seen}
            seen.update(sites)
            runs = [pool.submit(tried, name, arguments, output, at, size)
                    for at in (range(1, count + 1, every) if every else sorted(new))]
            for at, result, fault, _, _ in (r.result() for r in runs):
                ended += result.returncode == 0
                refused += result.returncode == 1
                if fault:
                    faults += 1
                    print(f"{name}: call {at} of {count}: {fault}\n{result.stderr}")
            print(f"{name}: {len(runs)} of {count} calls failed: {refused} runs ended with exit 1, {ended} went on")
    sys.exit(1 if faults else 0)


main()
