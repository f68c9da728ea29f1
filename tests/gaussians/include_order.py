# SPDX-License-Identifier: MIT
"""A room, and a folder of a room, includes only from itself and from those named after it here. The drawing is in
docs/developers/design.md, sections 2 and 5.

    include_order.py ROOT    checks the tree at ROOT, and that the check finds faults
"""
import pathlib
import posixpath
import re
import sys
import unittest

GAUSSIANS = "examples/gaussians"
ROOMS = { # its folder, with all folders in it but those of other rooms; the rooms it may include from
    "library": ("include/distwar", ""),
    "device": ("simt/device", "library"),
    "library_tests": ("tests/library", "library device"),
    "simt_tests": ("tests/simt", "library device"),
    "library_benchmarks": ("benchmarks/library", "library device"),
    "common": ("examples/common", "library device"),
    "lib": (f"{GAUSSIANS}/lib", "library device common"),
    "data": (f"{GAUSSIANS}/data", "device common lib"),
    "ranks": (f"{GAUSSIANS}/ranks", "library device common lib"),
    "trainer": (f"{GAUSSIANS}/trainer", "library device common lib data ranks"),
    "ways": (f"{GAUSSIANS}/ranks/ways", "library device common lib data ranks trainer"),
    "program": (f"{GAUSSIANS}/program", "library device common lib data ranks trainer ways"),
    "lm": (f"{GAUSSIANS}/lm", "library device common lib data ranks trainer program"),
    "index": ("examples/index", "library device common"),
    "spheres": ("examples/spheres", "library device common"),
    "cubemap": ("examples/cubemap", "library device common")}
FOLDERS = { # files of common beside its folders are below them
    "common": {"files": "", "images": "files", "cli": "files", "gpu": "", "strategies": "files cli",
               "fit": "files images cli gpu strategies"},
    "program": {"demo": "", "record": "", "live": "record", "commands": "demo record live", "dsplat.c": "commands"}}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]*)', re.MULTILINE)


def faults_of(texts): # of files, by their paths
    files = {} # of each room: the text, by the name that others include it by
    for room, (top, _) in ROOMS.items():
        inner = tuple(f"{other}/" for other, _ in ROOMS.values() if other.startswith(f"{top}/"))
        files[room] = {path[len(top) + 1:]: text for path, text in texts.items()
                       if path.startswith(f"{top}/") and not path.startswith(inner)}
    for room, (top, allowed) in ROOMS.items():
        known = FOLDERS.get(room, {})
        for name, text in files[room].items():
            inside = name.split("/")[0]
            if known and inside not in known and (room == "program" or "/" in name):
                yield f"{top}/{name}: {inside} has no place in the order"
            for included in INCLUDE.findall(text):
                short = re.sub("^distwar/", "", included)
                says = f"{top}/{name} includes {included}"
                if posixpath.normpath(posixpath.join(top, name, "..", included)) not in texts and not any(
                        short in files[other] for other in (room, *allowed.split())):
                    yield from (f"{says}: {room} must not know {other}" for other in files if short in files[other])
                other = included.split("/")[0]
                if inside in known and "/" in included and other not in (inside, *known[inside].split()) and any(
                        path.startswith(f"{top}/{other}/") for path in texts):
                    yield f"{says}: {inside} must not know {other}"


class IncludeOrder(unittest.TestCase):
    def test_of_the_tree(self):
        texts = {path.relative_to(ROOT).as_posix(): path.read_text() for top, _ in ROOMS.values()
                 for path in (ROOT / top).rglob("*") if path.suffix in (".h", ".cuh", ".c", ".cpp", ".cu")}
        self.assertIn(f"{GAUSSIANS}/program/dsplat.c", texts)
        self.assertEqual(list(faults_of(texts)), [])

    def test_names_each_fault(self):
        g = GAUSSIANS
        tree = {"include/distwar/tree.cuh": "stdint.h warp.cuh", "include/distwar/warp.cuh": "", "simt/device/launch.cuh": "",
                "tests/library/numbers.cuh": "launch.cuh", "examples/common/files/path.h": "",
                "examples/common/images/image.h": "launch.cuh files/path.h", f"{g}/lib/distwar_gs.h": "distwar/tree.cuh",
                f"{g}/data/scene.h": "distwar_gs.h images/image.h", f"{g}/lm/solver.h": "", f"{g}/ranks/ranks.h": "",
                f"{g}/ranks/ways/ways.h": "frames.h ranks.h", f"{g}/trainer/frames.h": "", f"{g}/trainer/density.h": "frames.h",
                **{f"{g}/program/{name}/{name}.h": "" for name in ("live", "demo", "record", "commands")},
                f"{g}/program/commands/train.c": "sys/stat.h record/record.h demo/demo.h scene.h"}
        wrong = ((None, None, None), ("include/distwar/tree.cuh", "distwar_gs.h", "library must not know lib"),
                 ("examples/common/images/image.h", "distwar_gs.h", "common must not know lib"),
                 (f"{g}/lib/distwar_gs.h", "frames.h", "lib must not know trainer"),
                 (f"{g}/data/scene.h", "live/live.h", "data must not know program"),
                 ("examples/common/files/path.h", "images/image.h", "files must not know images"),
                 (f"{g}/trainer/density.h", "ways.h", "trainer must not know ways"),
                 (f"{g}/ranks/ranks.h", "ways.h", "ranks must not know ways"),
                 (f"{g}/program/demo/demo.h", "record/record.h", "demo must not know record"),
                 (f"{g}/program/commands/train.c", "solver.h", "program must not know lm"),
                 (f"{g}/program/record/record.h", "commands/commands.h", "record must not know commands"))
        for file, include, fault in wrong:
            texts = {name: "".join(f'#include "{n}"\n' for n in [*names.split(), *([include] if name == file else [])])
                     for name, names in tree.items()}
            self.assertEqual(list(faults_of(texts)), [f"{file} includes {include}: {fault}"] if fault else [])
        self.assertIn("new has no place in the order", " ".join(faults_of({f"{g}/program/new/new.h": ""})))


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
