#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with --reproducible gives the bytes that it gave before: those of six commands are kept here.

    same_bytes.py DSPLAT NAME    runs one of RUNS and compares the SHA-256 of its scene with the kept one; prints both
                                 where they differ, the first to be kept where bits must change

DISTWAR_CAPTURES in the environment is the folder with the photographs of fern and fox, which are not in the repository; without
it their runs are skipped (exit status 77). Bits depend on the machine code: KEPT has those of simt with gcc 12 on
x86-64, where GLIBC_TUNABLES keeps libm to the instructions that all such processors have, and of nvcc 13.0 for sm_90.
"""
import hashlib
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

SKIPPED = 77
# knot is a scene that `dsplat generate` makes; DATA is its folder or that of a capture.
KNOT = ["--views", "10", "--test-views", "0", "--size", "40", "--gaussians", "1000"]
RUNS = {
    "knot_splits": ("knot", [["--iterations", "120"]]),
    "knot_mcmc": ("knot", [["--iterations", "120", "--density", "mcmc", "--random", "300"]]),
    "knot_resumed": ("knot", [["--iterations", "40", "--checkpoint-every", "40", "--random", "200"],
                              ["--iterations", "80", "--resume", "CHECKPOINT", "--random", "200"]]),
    "fern_splits": ("fern", [["--downscale", "40", "--iterations", "24"]]),
    "fern_poses": ("fern", [["--downscale", "5", "--iterations", "30", "--random", "60", "--refine-poses",
                             "--perturb-poses", "2,0.05", "--align-steps", "0"]]),
    "fox_exposures": ("fox", [["--downscale", "48", "--iterations", "70", "--random", "150"]]),
}
KEPT = {
    "simt": {
        "knot_splits": "1e51a9539a9caa4955e9c2aaa05984f393d401311ccdde61eeb499c291314617",
        "knot_mcmc": "a248442e29406a032ec544229949002d76a1e6e90c51813597bfe45b94bdf2a5",
        "knot_resumed": "7a88d38fe7dcf101af4b55800c310e886f7e5037401863585311c4f4eaa00f6b",
        "fern_splits": "0140dd85c7307c88702d57e750beaecfc91d6ea54a213f88df9dc6ae2510bd64",
        "fern_poses": "6e8ccf90a4ae5ca35fb08ea8d6752002d9c89b3df34628ade5ea8fc0a43651bc",
        "fox_exposures": "198c4a2d1119be6b42f9fe74231ec2ee4cec293eda3526e27ea0762e6c084a16",
    },
    "cuda": {
        "knot_splits": "70481d75a91ba1178fc614cdb0e8d9595fe5786b04f2bebe2c7bdc2184ad4e5e",
        "knot_mcmc": "b11d681097c73a79b311c8be6614eb1a91c02b9d1b69167b6abc8fb7ee24f18b",
        "knot_resumed": "c3687d869e3998cac52dd8994ea77a837a68aba16709e68aa4b93c4f75d8943c",
        "fern_splits": "ba3d88b1d811a21fe22c105e93a25f4028f1f4bfe794cabd4e531bd54d3d55a7",
        "fern_poses": "fb023c4db6a9d83f3f14a111a4f8f31d4fdc3b13c659851dc5d8dd9a49ed79b4",
        "fox_exposures": "e35be082d1951e561381c223c39f7584fe04bb870d5fa77924c29078894cf0aa",
    },
}


def run(command, environment):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def main(dsplat, name):
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"}
    captures, (data, steps) = os.environ.get("DISTWAR_CAPTURES"), RUNS[name]
    kept = KEPT["simt" if "simt" in run([dsplat, "--version"], environment) else "cuda"].get(name)
    with tempfile.TemporaryDirectory() as work:
        folder, scene = pathlib.Path(captures or "", data), pathlib.Path(work, f"{name}.ply")
        if data == "knot":
            folder = pathlib.Path(work, data)
            run([dsplat, "generate", folder, *KNOT], environment)
        elif not (captures and folder.is_dir()):
            print(f"{name}: DISTWAR_CAPTURES names no folder with {data}")
            return SKIPPED
        for step in steps:
            options = [f"{scene}.checkpoint" if option == "CHECKPOINT" else option for option in step]
            run([dsplat, "train", folder, "-o", scene, "--reproducible", *options], environment)
        found = hashlib.sha256(scene.read_bytes()).hexdigest()
    if found != kept:
        print(f"{name}: the scene's SHA-256 is {found}, kept is {kept}: other bits than before")
    return int(found != kept)


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print(f"the kept bytes are those of x86_64, this is {platform.machine()}")
        sys.exit(SKIPPED)
    sys.exit(main(*sys.argv[1:]))
