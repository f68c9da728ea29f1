# SPDX-License-Identifier: MIT
"""What other programs' readers make of the files of `dsplat convert`, and it of theirs: gsply, gaussforge.

    independent_readers.py DSPLAT

Compared are all values of a random scene of degree 3. gaussforge and gsply leave the axes of .spz as they are: x right,
y up, z back; there ours are turned by half about x.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import gaussforge
import gsply
import numpy as np

DSPLAT = sys.argv[1]
COUNT, REST = 2000, 15
NAMES = (["x", "y", "z", "nx", "ny", "nz"] + [f"f_dc_{k}" for k in range(3)] +
         [f"f_rest_{k}" for k in range(3 * REST)] + ["opacity"] + [f"scale_{k}" for k in range(3)] + [f"rot_{k}" for k in range(4)])
SIGNS = np.array([-1, -1, 1, -1, 1, 1, -1, 1, -1, 1, -1, -1, 1, -1, 1])  # of harmonics, with y and z reversed


def scene_of(table):
    """Arrays by kind; harmonics [count][15][3]; opacities in place of their logits."""
    return {"means": table[:, 0:3], "colors": table[:, 6:9], "log_scales": table[:, 55:58], "quats": table[:, 58:62],
            "harmonics": table[:, 9:54].reshape(-1, 3, REST).transpose(0, 2, 1),
            "opacities": 1 / (1 + np.exp(-table[:, 54]))}


def of_gsply(data):
    harmonics = np.zeros((len(data.means), REST, 3))
    if data.shN is not None and data.shN.size:
        harmonics[:] = data.shN.reshape(-1, REST, 3)
    return {"means": data.means, "log_scales": data.scales, "colors": data.sh0.reshape(-1, 3), "quats": data.quats,
            "harmonics": harmonics, "opacities": 1 / (1 + np.exp(-data.opacities.astype(float).ravel()))}


def read_ply(path):
    return of_gsply(gsply.plyread(path))


def axes(quats):
    w, x, y, z = (quats / np.linalg.norm(quats, axis=1, keepdims=True)).T
    return np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z),
                     1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x),
                     1 - 2 * (x * x + y * y)], 1)


def turned(a):
    return {**a, "means": a["means"] * [1, -1, -1], "quats": a["quats"] * [1, 1, -1, -1],
            "harmonics": a["harmonics"] * SIGNS[:, None]}


def expect_equal(what, ours, theirs, harmonics=1e-5):
    """Both decoded the same file. Opacities of bytes: how 0 and 255 are read is each reader's choice."""
    for key, limit in (("means", 1e-5), ("log_scales", 1e-5), ("colors", 1e-5), ("harmonics", harmonics),
                       ("opacities", 0.0011)):
        error = np.abs(ours[key] - theirs[key]).max()
        assert error <= limit, f"{what}: {key} differ by {error}"
    error = np.abs(axes(ours["quats"]) - axes(theirs["quats"])).max()
    assert error <= 1e-4, f"{what}: rotations differ by {error}"
    print(f"{what}: {len(ours['means'])} Gaussians agree")


def convert(*arguments):
    subprocess.run([DSPLAT, "convert", *arguments], check=True, stdout=subprocess.DEVNULL)


def main():
    random = np.random.default_rng(1)
    table = random.normal(size=(COUNT, len(NAMES)))
    table[:, 3:6] = 0
    table[:, 6:9] = np.tanh(table[:, 6:9])
    table[:, 9:54] = np.tanh(table[:, 9:54]) * 0.5
    table[:, 55:58] -= 4
    forge = gaussforge.GaussForge()
    sent = scene_of(table.astype("<f4").astype(float))
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {COUNT}\n"
    header += "".join(f"property float {name}\n" for name in NAMES) + "end_header\n"
    ply = header.encode() + table.astype("<f4").tobytes()
    pathlib.Path("a.ply").write_bytes(ply)
    expect_equal("gsply, .ply", sent, read_ply("a.ply"))

    for name, kind, options in (("2.spz", "spz", ["--spz-version", "2"]), ("3.spz", "spz", []),
                                ("4.spz", "spz", ["--spz-version", "4"]), ("a.sog", "sog", [])):
        convert("a.ply", name, *options)
        convert(name, "ours.ply")
        answer = forge.convert(pathlib.Path(name).read_bytes(), kind, "ply")
        assert "data" in answer, f"gaussforge, {name}: {answer['error']}"
        pathlib.Path("theirs.ply").write_bytes(answer["data"])
        theirs = read_ply("theirs.ply")
        expect_equal(f"gaussforge, {name}", read_ply("ours.ply"), turned(theirs) if kind == "spz" else theirs)
        if kind == "spz" and (name != "4.spz" or importlib.util.find_spec("zstandard")):  # which gsply needs
            expect_equal(f"gsply, {name}", read_ply("ours.ply"), turned(of_gsply(gsply.read_spz(name))))

    for kind in ("compressed.ply", "splat", "spz", "sog"):
        answer = forge.convert(ply, "ply", kind)
        pathlib.Path(f"theirs.{kind}").write_bytes(answer["data"])
        pathlib.Path("theirs.ply").write_bytes(forge.convert(answer["data"], kind, "ply")["data"])
        convert(f"theirs.{kind}", "ours.ply")
        theirs = read_ply("theirs.ply")
        # Coefficients of compressed PLY: programs differ in whether a byte means the middle of its step or its end.
        expect_equal(f"written by gaussforge, .{kind}", read_ply("ours.ply"),
                     turned(theirs) if kind == "spz" else theirs, 0.017 if kind == "compressed.ply" else 1e-5)
    gsply.plywrite("theirs.compressed.ply", gsply.plyread("a.ply"), compressed=True)
    convert("theirs.compressed.ply", "ours.ply")
    expect_equal("written by gsply, .compressed.ply", read_ply("ours.ply"), read_ply("theirs.compressed.ply"), 0.017)


with tempfile.TemporaryDirectory() as folder:
    DSPLAT = os.path.abspath(DSPLAT)
    os.chdir(folder)
    main()
    os.chdir("/")
