# SPDX-License-Identifier: MIT
"""Kills dsplat at random moments, and runs two at once that write one file: files are always whole.

    kills_test.py DSPLAT [KILLS]    kills of each command (default: 20)

After each kill the output is the older one or the whole new one. The next run removes what the killed ones left.
"""
import pathlib
import random
import subprocess
import sys
import tempfile
import time

OLD = b"an older output\n"


def main():
    program, kills = str(pathlib.Path(sys.argv[1]).resolve()), int((sys.argv[2:] or ["20"])[0])
    chance = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def start(*arguments):
            return subprocess.Popen([program, *map(str, arguments)], cwd=folder, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)

        def end(process):
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors.decode()

        def parts():
            return [f.name for f in folder.iterdir() if ".part-" in f.name]

        def is_whole(output, like): # finish adds in no fixed order
            got = (folder / output).read_bytes()
            return got in (OLD, like) or (command == "finish" and len(got) == len(like) and got[:99] == like[:99])

        end(start("generate", "d", "--views", 3, "--test-views", 1, "--size", 24, "--gaussians", 4000))
        train = ("train", "d", "--iterations", 8, "--random", 300, "--reproducible", "--checkpoint-every", 2, "-o", "t.ply")
        end(start(*train))
        end(start("train", "d", "--iterations", 1, "--random", 30, "--sh-degree", 0, "-o", "few.ply"))
        finish = ("finish", "few.ply", "--cameras", "d", "-o", "f.ply", "--lm-steps", 1, "--lm-pcg", 2, "--lm-batch", 1)
        for arguments, output in ((train, "t.ply"), (finish, "f.ply"), (("convert", "d/scene.ply", "c.sog"), "c.sog")):
            command = arguments[0]
            began = time.monotonic()
            end(start(*arguments))
            seconds = time.monotonic() - began
            whole = (folder / output).read_bytes()
            killed = old = left = 0
            for _ in range(20 * kills):
                if killed == kills:
                    break
                (folder / output).write_bytes(OLD)
                process = start(*arguments)
                time.sleep(seconds * chance.random())
                process.kill()
                process.communicate()
                killed += process.returncode < 0
                left += bool(parts())
                assert is_whole(output, whole), f"{command}: {output} is neither the older one nor a new one"
                old += (folder / output).read_bytes() == OLD
            assert killed == kills, f"{command} was killed {killed} times only"
            end(start(*arguments))
            assert is_whole(output, whole) and (folder / output).read_bytes() != OLD
            assert not parts(), f"{command} left {parts()}"
            print(f"{command}: {killed} kills in {seconds:.2f} s, {old} older files, {left} times part files", flush=True)

        both = [start(*train, "--seed", seed) for seed in (1, 2)]
        for process in both:
            end(process)
        last = (folder / "t.ply").read_bytes()
        alone = []
        for seed in (1, 2):
            end(start(*train, "--seed", seed))
            alone.append((folder / "t.ply").read_bytes())
        assert alone[0] != alone[1] and last in alone, "two runs have mixed their outputs"
        assert not parts()


main()
