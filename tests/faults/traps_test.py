# SPDX-License-Identifier: MIT
"""Kernels that trap, at moments spread over whole runs of dsplat: exit 1, CUDA's error with the stage, files intact.

    traps_test.py DSPLAT [TRAPS [LIBTRAP]]    traps of each command (default: 3)

Without LIBTRAP launch N of a run traps (simt: SIMT_TRAP=N). LIBTRAP, on a GPU, queues a kernel that traps after a time.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

OLD = b"an older output\n"


def main():
    program, traps = str(pathlib.Path(sys.argv[1]).resolve()), int((sys.argv[2:] or ["3"])[0])
    library = str(pathlib.Path(sys.argv[3]).resolve()) if len(sys.argv) > 3 else None
    chance, steps = random.Random(9), 2000 if library else 12
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(arguments, **environment):
            return subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                                  timeout=300, env=dict(os.environ, **environment))

        def done(*arguments):
            result = run(arguments)
            assert result.returncode == 0, result.stderr

        size = 256 if library else 24
        done("generate", "d", "--views", 4, "--test-views", 1, "--size", size, "--gaussians", 4000)
        train = ("train", "d", "--iterations", steps, "--random", 300, "--reproducible", "--checkpoint-every", steps // 4,
                 "--batch", 1, "-o", "t.ply")
        commands = [(train, "t.ply"), (("render", "d/scene.ply", "--cameras", "d", "--view", 0, "-o", "r.png"), "r.png"),
                    (("eval", "d/scene.ply", "--cameras", "d", "--json", "e.json"), "e.json"),
                    (("finish", "d/scene.ply", "--cameras", "d", "-o", "f.ply", "--lm-steps", 1, "--lm-pcg", 2), "f.ply")]
        if not library: # ranks are threads
            commands.append(((*train, "--gpus", 2), "t.ply"))
        done(*train)
        whole = (folder / "t.ply").read_bytes()
        for arguments, output in commands:
            began = time.monotonic()
            done(*arguments)
            seconds = time.monotonic() - began
            launches = 1
            while not library and run(arguments, SIMT_TRAP=str(2 * launches)).returncode:
                launches *= 2 # between these and twice as many
            failed, stages, resumed = 0, set(), 0
            for k in range(20 * traps):
                if failed == traps or (k >= 3 * traps and arguments[0] != "train"):
                    break
                (folder / output).write_bytes(OLD)
                (folder / "t.ply.checkpoint").unlink(missing_ok=True)
                if library:
                    result = run(arguments, LD_PRELOAD=library, TRAP_MS=str(int(1000 * seconds * chance.random())))
                else:
                    result = run(arguments, SIMT_TRAP=str(1 + int(launches * (failed + chance.random()) / traps)))
                if result.returncode == 0:
                    continue
                failed += 1
                last = (result.stderr.splitlines() or [""])[-1]
                assert result.returncode == 1, f"{arguments[0]}: exit {result.returncode}: {result.stderr}"
                assert last.startswith("dsplat: ") and "launch failure" in last, f"{arguments[0]}: {result.stderr}"
                stages.add((last + "at the stage none").split("at the stage ")[1].split(";")[0])
                assert (folder / output).read_bytes() == OLD, f"{arguments[0]}: {output} was changed"
                left = [f.name for f in folder.iterdir() if ".part-" in f.name]
                assert not left, f"{arguments[0]} left {left}"
                if (folder / "t.ply.checkpoint").exists():
                    done(*arguments, "--resume", "t.ply.checkpoint")
                    assert (folder / output).read_bytes() == whole, "a resumed run ends otherwise"
                    resumed += 1
            assert failed, f"{arguments[0]}: nothing trapped"
            assert stages != {"none"}, f"{arguments[0]}: no stage is named" # kernels before the first are of none
            print(f"{arguments[0]}: {failed} traps, noticed at {', '.join(sorted(stages))}; {resumed} resumed", flush=True)


main()
