# SPDX-License-Identifier: MIT
"""Runs the kernels of whole commands under many schedules of simt: none is refused, --reproducible gives the same bytes.

    schedules_test.py DSPLAT [SCHEDULES [JOBS]]    schedules of each command (default: 3)
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TRAIN = ("train", "../d", "-o", "out", "--iterations", "6", "--random", "40", "--max-gaussians", "60", "--reproducible",
         "--schedule", "from=1,every=2,retire=3")
COMMANDS = (
    (*TRAIN, "--density", "split", "--sh-degree", "3", "--schedule", "from=1,every=2,retire=3,average=0.3"),
    (*TRAIN, "--density", "adaptive", "--sh-degree", "2", "--antialias", "--depth", "../d/depth"),
    (*TRAIN, "--density", "mcmc", "--sh-degree", "1", "--batch", "2", "--random-background",
     "--schedule", "from=1,every=2,retire=3,dropout=0.3"),
    (*TRAIN, "--density", "mcmc", "--sh-degree", "0", "--gpus", "2"),
    (*TRAIN, "--refine-poses"),
    ("finish", "../s.ply", "--cameras", "../d", "-o", "out", "--lm-steps", "1", "--lm-pcg", "2"),
    ("eval", "../s.ply", "--cameras", "../d", "--json", "out"),
    ("render", "../s.ply", "--cameras", "../d", "--view", "0", "-o", "out.png"),
)


def main():
    program, schedules = str(pathlib.Path(sys.argv[1]).resolve()), int((sys.argv[2:] or ["3"])[0])
    jobs = int((sys.argv[3:] or ["2"])[0])
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        top = pathlib.Path(name)

        def run(folder, arguments, seed):
            folder.mkdir(exist_ok=True)
            arguments = [a + ".ply" if a == "out" and arguments[0] != "eval" else a for a in arguments]
            result = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=600,
                                    env=dict(os.environ, SIMT_SEED=str(seed)))
            assert result.returncode == 0, f"SIMT_SEED={seed} {' '.join(arguments)}: {result.stderr}"
            return [f.read_bytes() for f in folder.glob("out*")]

        def schedule(number, arguments, seed):
            folder = top / f"{number}-{seed}"
            got = run(folder, arguments, seed)
            shutil.rmtree(folder)
            return got

        run(top, ("generate", "d", "--views", "3", "--test-views", "1", "--size", "20", "--gaussians", "1000", "--depth"),
            0)
        run(top, ("train", "d", "-o", "s.ply", "--iterations", "1", "--random", "30", "--sh-degree", "1"), 0)
        for number, arguments in enumerate(COMMANDS):
            first = schedule(number, arguments, 0)
            assert first and first[0]
            for got in pool.map(lambda seed: schedule(number, arguments, seed), range(1, schedules + 1)):
                assert got == first or "--reproducible" not in arguments, f"{' '.join(arguments)}: other bytes"
            print(f"{' '.join(arguments)}: {schedules} schedules", flush=True)


main()
