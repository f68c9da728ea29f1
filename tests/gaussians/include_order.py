# SPDX-License-Identifier: MIT
"""A room, and a folder of a room, includes only from itself and from those named after it here. The drawing is in
docs/developers/design.md, sections 2 and 5.

    include_order.py ROOT    checks the tree at ROOT, and that the check finds faults
"""
import pathlib
import re
import sys
import tempfile
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
    "program": {"measure": "", "demo": "", "record": "measure", "live": "measure record",
                "commands": "measure demo record live", "dsplat.c": "commands"}}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]*)', re.MULTILINE)


def faults_of(root):
    files = {room: {} for room in ROOMS} # the text, by the name that others include it by
    for room, (top, _) in ROOMS.items():
        inner = [other for other, _ in ROOMS.values() if other.startswith(top + "/")]
        for path in (root / top).rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".h", ".cuh", ".c", ".cpp", ".cu") and not name.startswith(tuple(i + "/" for i in inner)):
                files[room][name[len(top) + 1:]] = path.read_text()
    for room, (top, allowed) in ROOMS.items():
        known = FOLDERS.get(room, {})
        for name, text in files[room].items():
            inside = name.split("/")[0]
            if known and inside not in known and (room == "program" or "/" in name):
                yield f"{top}/{name}: {inside} has no place in the order"
            for included in INCLUDE.findall(text):
                short = re.sub("^distwar/", "", included)
                says = f"{top}/{name} includes {included}"
                if not (root / top / name).parent.joinpath(included).exists() and \
                        not any(short in files[other] for other in (room, *allowed.split())):
                    yield from (f"{says}: {room} must not know {other}" for other in files if short in files[other])
                other = included.split("/")[0]
                if inside in known and "/" in included and (root / top / other).is_dir() and \
                        other not in (inside, *known[inside].split()):
                    yield f"{says}: {inside} must not know {other}"


class IncludeOrder(unittest.TestCase):
    def test_of_the_tree(self):
        self.assertTrue((ROOT / GAUSSIANS / "program/dsplat.c").exists())
        self.assertEqual(list(faults_of(ROOT)), [])

    def test_names_each_fault(self):
        g = GAUSSIANS
        tree = {"include/distwar/tree.cuh": "stdint.h warp.cuh", "include/distwar/warp.cuh": "", "simt/device/launch.cuh": "",
                "tests/library/numbers.cuh": "launch.cuh", "examples/common/files/path.h": "",
                "examples/common/images/image.h": "launch.cuh files/path.h", f"{g}/lib/distwar_gs.h": "distwar/tree.cuh",
                f"{g}/data/scene.h": "distwar_gs.h images/image.h", f"{g}/lm/solver.h": "", f"{g}/ranks/ranks.h": "",
                f"{g}/ranks/ways/ways.h": "frames.h ranks.h", f"{g}/trainer/frames.h": "", f"{g}/trainer/density.h": "frames.h",
                **{f"{g}/program/{name}/{name}.h": "" for name in ("measure", "demo", "record", "commands")},
                f"{g}/program/commands/train.c": "sys/stat.h record/record.h demo/demo.h scene.h"}
        wrong = ((None, None, None), ("include/distwar/tree.cuh", "distwar_gs.h", "library must not know lib"),
                 ("simt/device/launch.cuh", "images/image.h", "device must not know common"),
                 ("tests/library/numbers.cuh", "images/image.h", "library_tests must not know common"),
                 ("examples/common/images/image.h", "distwar_gs.h", "common must not know lib"),
                 (f"{g}/lib/distwar_gs.h", "scene.h", "lib must not know data"),
                 (f"{g}/lib/distwar_gs.h", "frames.h", "lib must not know trainer"),
                 (f"{g}/data/scene.h", "measure/measure.h", "data must not know program"),
                 ("examples/common/files/path.h", "images/image.h", "files must not know images"),
                 (f"{g}/trainer/density.h", "measure/measure.h", "trainer must not know program"),
                 (f"{g}/trainer/density.h", "ways.h", "trainer must not know ways"),
                 (f"{g}/ranks/ranks.h", "ways.h", "ranks must not know ways"),
                 (f"{g}/program/demo/demo.h", "record/record.h", "demo must not know record"),
                 (f"{g}/program/commands/train.c", "solver.h", "program must not know lm"),
                 (f"{g}/program/record/record.h", "commands/commands.h", "record must not know commands"))
        for file, include, fault in wrong:
            with tempfile.TemporaryDirectory() as folder:
                for name, names in tree.items():
                    path = pathlib.Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    names = names.split() + ([include] if name == file else [])
                    path.write_text("".join(f'#include "{n}"\n' for n in names))
                self.assertEqual(list(faults_of(pathlib.Path(folder))),
                                 [f"{file} includes {include}: {fault}"] if fault else [])
                if not fault:
                    path = pathlib.Path(folder) / g / "program/new/new.h"
                    path.parent.mkdir()
                    path.write_text("")
                    self.assertIn("new has no place in the order", " ".join(faults_of(pathlib.Path(folder))))


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
