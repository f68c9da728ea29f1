# SPDX-License-Identifier: MIT
"""Runs the commands of a dsplat that is built with ThreadSanitizer: no data race in its C sources.

    races_test.py DSPLAT

Kernels and simt are C++ and built without, as fibers are unknown to the sanitizer; of them only locks are seen.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

TRAIN = ("train", "d", "-o", "a.ply", "--iterations", "8", "--random", "60", "--sh-degree", "1", "--schedule", "from=1,every=2",
         "--checkpoint-every", "2")
COMMANDS = (
    ("generate", "d", "--views", "6", "--test-views", "2", "--size", "24", "--gaussians", "1000", "--depth"),
    (*TRAIN, "--gpus", "2", "--reproducible"),
    (*TRAIN, "--gpus", "3", "--density", "mcmc", "--report", "r.html", "--log", "l.json", "--batch", "2"),
    (*TRAIN, "--refine-poses", "--memory", "1", "--eval-every", "3"),
    ("finish", "a.ply", "--cameras", "d", "-o", "f.ply", "--lm-steps", "1", "--lm-pcg", "2"),
    ("eval", "a.ply", "--cameras", "d", "--gpus", "2"),
    ("export", "a.ply", "--cameras", "d", "-o", "e.html"),
    ("convert", "a.ply", "a.sog"),
)


def main():
    program, failed = str(pathlib.Path(sys.argv[1]).resolve()), 0
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            run = subprocess.run([program, *command], cwd=folder, capture_output=True, text=True, timeout=600,
                                 env=dict(os.environ, TSAN_OPTIONS="exitcode=66"))
            if run.returncode:
                failed += 1
                print(f"{' '.join(command)}: exit {run.returncode}\n{run.stderr[:5000]}")
    print(f"{len(COMMANDS) - failed} of {len(COMMANDS)} commands without a data race")
    sys.exit(1 if failed else 0)


main()
