# SPDX-License-Identifier: MIT
"""Whole runs of dsplat that are killed, whose kernels trap, that race, and under other schedules.

    runs_test.py kills DSPLAT [N]              N kills of each command (20) at random moments: each output is the older one
                                               or the whole new one, also of runs that go on from a checkpoint of one that
                                               was killed, and the next run removes what is left
    runs_test.py traps DSPLAT [N [LIBTRAP]]    N traps of each command (3), spread over its run: exit 1, CUDA's error with the
                                               stage, files intact. Without LIBTRAP launch K of a run traps (simt: SIMT_TRAP=K).
                                               LIBTRAP, on a GPU, queues a kernel that traps after a time
    runs_test.py schedules DSPLAT [N [JOBS]]   N schedules of simt for each command (3): none is refused, --reproducible gives
                                               the same bytes
    runs_test.py races DSPLAT                  a dsplat that is built with ThreadSanitizer: no data race in its C sources.
                                               Kernels and simt are C++ and built without, as fibers are unknown to the
                                               sanitizer; of them only locks are seen
"""
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

OLD = b"an older output\n"
LM = ("--lm-steps", "1", "--lm-pcg", "2")


class Runs:
    """Of a program, in a folder."""

    def __init__(self, program, folder):
        self.program, self.folder = str(pathlib.Path(program).resolve()), pathlib.Path(folder)

    def start(self, *arguments, **environment):
        return subprocess.Popen([self.program, *map(str, arguments)], cwd=self.folder, text=True, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, env=dict(os.environ, **environment))

    def ended(self, *arguments, **environment):
        """(exit code, what stderr says)"""
        process = self.start(*arguments, **environment)
        _, errors = process.communicate(timeout=600)
        return process.returncode, errors

    def done(self, *arguments, **environment):
        code, errors = self.ended(*arguments, **environment)
        assert code == 0, f"{environment} {' '.join(map(str, arguments))}: {errors}"

    def parts(self):
        return [f.name for f in self.folder.iterdir() if ".part-" in f.name]


def kills(runs, count=20):
    chance, folder, checkpoint = random.Random(5), runs.folder, runs.folder / "t.ply.checkpoint"

    def going_on(command):
        return ("--resume", checkpoint) if command == "train" and checkpoint.exists() else ()

    def is_whole(command, output, like): # finish adds in no fixed order
        got = (folder / output).read_bytes()
        return got in (OLD, like) or (command == "finish" and len(got) == len(like) and got[:99] == like[:99])

    runs.done("generate", "d", "--views", 3, "--test-views", 1, "--size", 24, "--gaussians", 4000)
    train = ("train", "d", "--iterations", 8, "--random", 300, "--reproducible", "--checkpoint-every", 2, "-o", "t.ply")
    runs.done(*train)
    runs.done("train", "d", "--iterations", 1, "--random", 30, "--sh-degree", 0, "-o", "few.ply")
    finish = ("finish", "few.ply", "--cameras", "d", "-o", "f.ply", *LM, "--lm-batch", 1)
    for arguments, output in ((train, "t.ply"), (finish, "f.ply"), (("convert", "d/scene.ply", "c.sog"), "c.sog")):
        command, began = arguments[0], time.monotonic()
        runs.done(*arguments)
        seconds, whole = time.monotonic() - began, (folder / output).read_bytes()
        killed = old = left = resumed = 0
        checkpoint.unlink(missing_ok=True)
        for _ in range(20 * count):
            if killed == count:
                break
            (folder / output).write_bytes(OLD)
            more = going_on(command)
            process = runs.start(*arguments, *more)
            time.sleep(seconds * chance.random())
            process.kill()
            process.communicate()
            killed += process.returncode < 0
            resumed += bool(more)
            if process.returncode == 0: # nothing is left of it to do
                checkpoint.unlink(missing_ok=True)
            left += bool(runs.parts())
            assert is_whole(command, output, whole), f"{command}: {output} is neither the older one nor a new one"
            old += (folder / output).read_bytes() == OLD
        assert killed == count, f"{command} was killed {killed} times only"
        assert resumed or command != "train", "no run went on from the checkpoint of one that was killed"
        runs.done(*arguments, *going_on(command))
        assert is_whole(command, output, whole) and (folder / output).read_bytes() != OLD
        assert not runs.parts(), f"{command} left {runs.parts()}"
        print(f"{command}: {killed} kills in {seconds:.2f} s, {old} older files, {left} times part files, {resumed} resumed",
              flush=True)


def traps(runs, count=3, library=None):
    library = library and str(pathlib.Path(library).resolve())
    chance, steps, folder = random.Random(9), 2000 if library else 12, runs.folder
    runs.done("generate", "d", "--views", 4, "--test-views", 1, "--size", 256 if library else 24, "--gaussians", 4000)
    train = ("train", "d", "--iterations", steps, "--random", 300, "--reproducible", "--checkpoint-every", steps // 4,
             "--batch", 1, "-o", "t.ply")
    commands = [(train, "t.ply"), (("render", "d/scene.ply", "--cameras", "d", "--view", 0, "-o", "r.png"), "r.png"),
                (("eval", "d/scene.ply", "--cameras", "d", "--json", "e.json"), "e.json"),
                (("finish", "d/scene.ply", "--cameras", "d", "-o", "f.ply", *LM), "f.ply")]
    if not library: # ranks are threads
        commands.append(((*train, "--gpus", 2), "t.ply"))
    runs.done(*train)
    whole = (folder / "t.ply").read_bytes()
    for arguments, output in commands:
        began = time.monotonic()
        runs.done(*arguments)
        seconds, launches = time.monotonic() - began, 1
        while not library and runs.ended(*arguments, SIMT_TRAP=str(2 * launches))[0]:
            launches *= 2 # between these and twice as many
        failed, stages, resumed = 0, set(), 0
        for k in range(20 * count):
            if failed == count or (k >= 3 * count and arguments[0] != "train"):
                break
            (folder / output).write_bytes(OLD)
            (folder / "t.ply.checkpoint").unlink(missing_ok=True)
            how = {"LD_PRELOAD": library, "TRAP_MS": str(int(1000 * seconds * chance.random()))} if library else \
                {"SIMT_TRAP": str(1 + int(launches * (failed + chance.random()) / count))}
            code, errors = runs.ended(*arguments, **how)
            if code == 0:
                continue
            failed += 1
            last = (errors.splitlines() or [""])[-1]
            assert code == 1, f"{arguments[0]}: exit {code}: {errors}"
            assert last.startswith("dsplat: ") and "launch failure" in last, f"{arguments[0]}: {errors}"
            stages.add((last + "at the stage none").split("at the stage ")[1].split(";")[0])
            assert (folder / output).read_bytes() == OLD, f"{arguments[0]}: {output} was changed"
            assert not runs.parts(), f"{arguments[0]} left {runs.parts()}"
            if (folder / "t.ply.checkpoint").exists():
                runs.done(*arguments, "--resume", "t.ply.checkpoint")
                assert (folder / output).read_bytes() == whole, "a resumed run ends otherwise"
                resumed += 1
        assert failed, f"{arguments[0]}: nothing trapped"
        assert stages != {"none"}, f"{arguments[0]}: no stage is named" # kernels before the first are of none
        print(f"{arguments[0]}: {failed} traps, noticed at {', '.join(sorted(stages))}; {resumed} resumed", flush=True)


def schedules(runs, count=3, jobs=2):
    begin = ("train", "../d", "-o", "out.ply", "--iterations", "6", "--random", "40", "--max-gaussians", "60", "--reproducible",
             "--schedule", "from=1,every=2,retire=3")
    commands = (
        (*begin, "--density", "split", "--sh-degree", "3", "--schedule", "from=1,every=2,retire=3,average=0.3"),
        (*begin, "--density", "adaptive", "--sh-degree", "2", "--antialias", "--depth", "../d/depth"),
        (*begin, "--density", "mcmc", "--sh-degree", "1", "--batch", "2", "--random-background",
         "--schedule", "from=1,every=2,retire=3,dropout=0.3"),
        (*begin, "--density", "mcmc", "--sh-degree", "0", "--gpus", "2"),
        (*begin, "--refine-poses"),
        ("finish", "../s.ply", "--cameras", "../d", "-o", "out.ply", *LM),
        ("eval", "../s.ply", "--cameras", "../d", "--json", "out"),
        ("render", "../s.ply", "--cameras", "../d", "--view", "0", "-o", "out.png"))

    def outputs(number, arguments, seed):
        own = Runs(runs.program, runs.folder / f"{number}-{seed}")
        own.folder.mkdir()
        own.done(*arguments, SIMT_SEED=str(seed))
        got = [f.read_bytes() for f in own.folder.glob("out*")]
        shutil.rmtree(own.folder)
        return got

    runs.done("generate", "d", "--views", 3, "--test-views", 1, "--size", 20, "--gaussians", 1000, "--depth", SIMT_SEED="0")
    runs.done("train", "d", "-o", "s.ply", "--iterations", 1, "--random", 30, "--sh-degree", 1, SIMT_SEED="0")
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        for number, arguments in enumerate(commands):
            first = outputs(number, arguments, 0)
            assert first and first[0]
            for got in pool.map(lambda seed: outputs(number, arguments, seed), range(1, count + 1)):
                assert got == first or "--reproducible" not in arguments, f"{' '.join(arguments)}: other bytes"
            print(f"{' '.join(arguments)}: {count} schedules", flush=True)


def races(runs):
    train = ("train", "d", "-o", "a.ply", "--iterations", "8", "--random", "60", "--sh-degree", "1", "--schedule",
             "from=1,every=2", "--checkpoint-every", "2")
    for arguments in (
            ("generate", "d", "--views", "6", "--test-views", "2", "--size", "24", "--gaussians", "1000", "--depth"),
            (*train, "--gpus", "2", "--reproducible"),
            (*train, "--gpus", "3", "--density", "mcmc", "--report", "r.html", "--log", "l.json", "--batch", "2"),
            (*train, "--refine-poses", "--memory", "1", "--eval-every", "3"),
            ("finish", "a.ply", "--cameras", "d", "-o", "f.ply", *LM),
            ("eval", "a.ply", "--cameras", "d"), ("export", "a.ply", "--cameras", "d", "-o", "e.html"),
            ("convert", "a.ply", "a.sog")):
        runs.done(*arguments, TSAN_OPTIONS="exitcode=66")
        print(f"{' '.join(arguments)}: no data race", flush=True)


if __name__ == "__main__":
    what, of, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as top:
        {f.__name__: f for f in (kills, traps, schedules, races)}[what](Runs(of, top), *map(int, more[:1]), *more[1:])
