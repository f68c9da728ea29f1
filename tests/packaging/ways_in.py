#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ways to get distwar, tried as another project: runs the lines of docs/reference.md in an empty folder.

    ways_in.py WORK --list             prints the name of each way
    ways_in.py WORK Install            makes the library's archive, unpacks it in WORK and installs it to WORK/prefix
    ways_in.py WORK NAME [--source F] [--compile-only]
                                       runs the lines of that way; --source: the folder distwar/ is F, without Install

A way is a block of lines below a heading of the section "Ways in", for nvcc or for simt. The folder holds the program
scatter.cu, host.c with kernels.cu, kernel.cu, the archive and, unpacked, distwar/. Programs run where the way is simt's
or there is a GPU. Exit status 77: a tool is missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
# Around the lines: whoever links distwar gets C++17, and nothing of distwar beside it.
CMAKE_BEGIN = """cmake_minimum_required(VERSION 3.22)
set(CMAKE_CUDA_ARCHITECTURES 75)
project(yours LANGUAGES {1} {0})
set(CMAKE_{0}_STANDARD 14)
set(DISTWAR_SIMT {2})
"""
CMAKE_END = """
if(TARGET common OR TARGET distwar_gs OR (TARGET simt AND NOT DISTWAR_SIMT))
  message(FATAL_ERROR "distwar brings its examples into another project")
endif()
set(distwar_FOUND)
find_package(distwar 99 QUIET)
if(distwar_FOUND)
  message(FATAL_ERROR "version ${distwar_VERSION} passes for 99")
endif()
"""


def ways():
    """Name -> (language of the lines, lines)."""
    found, heading, block, section = {}, None, None, False
    for line in (ROOT / "docs/reference.md").read_text().splitlines():
        if block is not None:
            if line == "```":
                block = None
            else:
                block.append(line)
        elif line.startswith("## "):
            section = line == "## Ways in"
        elif section and line.startswith("### "):
            heading = "".join(word[:1].upper() + word[1:] for word in re.split(r"\W|_", line[4:]))
        elif section and line.startswith("```"):
            language, tool = line[3:].split()
            block = []
            found[heading + ("Simt" if tool == "simt" else "")] = (language, block)
    for name, (_, lines) in found.items():
        if len(lines) > 5:
            sys.exit(f"{name} has {len(lines)} lines; a way in has at most five")
    return found


def version():
    return re.search(r'DISTWAR_VERSION "(.*)"', (ROOT / "include/distwar/version.h").read_text()).group(1)


def archive(path):
    """The files of the library as they are here, also where there is no git."""
    def kept(entry):
        return None if re.search(r"/(__pycache__|build)$", entry.name) else entry
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        for name in (ROOT / "cmake/library_files.txt").read_text().split():
            file.add(ROOT / name, f"distwar-{version()}/{name}", filter=kept)


def run(command, folder, **environment):
    print(f"{folder}: {command}", flush=True)
    subprocess.run(["sh", "-ec", command], cwd=folder, env=dict(os.environ, **environment), check=True)


def install(work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    name = f"distwar-{version()}"
    archive(work / f"{name}-library.tar.gz")
    with tarfile.open(work / f"{name}-library.tar.gz") as file:
        file.extractall(work)
    (work / name).rename(work / "distwar")
    run("\n".join(ways()["InstallSimt"][1]), work, PREFIX=str(work / "prefix"))


def try_way(work, name, source, compile_only):
    language, lines = ways()[name]
    simt = name.endswith("Simt")
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not simt and not nvcc:
        print("skipped: no nvcc here")
        return SKIPPED
    if "pkg-config" in " ".join(lines) and not shutil.which("pkg-config"):
        print("skipped: no pkg-config here")
        return SKIPPED
    folder = work / "ways" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in [ROOT / "examples/scatter.cu", HERE / "kernel.cu", *(HERE / "ways").iterdir(), *work.glob("*.tar.gz")]:
        shutil.copy(file, folder)
    (folder / "distwar").symlink_to(source or work / "distwar")
    environment = {"PREFIX": str(work / "prefix"), "CMAKE_PREFIX_PATH": str(work / "prefix"), "PKG_CONFIG_PATH":
                   f"{work}/prefix/lib/pkgconfig:{work}/prefix/share/pkgconfig"}
    if nvcc:
        environment["PATH"] = f"{pathlib.Path(nvcc).parent}:{os.environ['PATH']}"
        if "Ofast-compile" in subprocess.run([nvcc, "--help"], stdout=subprocess.PIPE, text=True).stdout:
            environment["NVCC_APPEND_FLAGS"] = "-Ofc max"
    text = "\n".join(lines) + "\n"
    program = "./scatter"
    if language == "sh":
        run(text, folder, **environment)
    elif language == "c":
        toolkit = pathlib.Path(nvcc).resolve().parent.parent
        libraries = sorted(toolkit.glob("lib*/libnvrtc.so")) + sorted(toolkit.glob("targets/*/lib/libnvrtc.so"))
        if not libraries:
            print("skipped: the toolkit has no NVRTC")
            return SKIPPED
        (folder / "nvrtc_way.h").write_text(text)
        run(f"cc -std=c11 -I{toolkit}/include nvrtc.c -L{libraries[0].parent} -lnvrtc -Wl,-rpath,{libraries[0].parent} "
            "-o scatter", folder)
        simt = True  # needs no GPU
    else:
        (folder / "CMakeLists.txt").write_text(CMAKE_BEGIN.format("CXX" if simt else "CUDA", "C" if ".c " in text else "",
                                                                    "ON" if simt else "OFF") + text + CMAKE_END)
        run("cmake -S . -B build && cmake --build build -j 2 && cmake --install build --prefix installed", folder, **environment)
        if (folder / "installed").exists():
            sys.exit("distwar installs itself with another project")
        program = "build/scatter"
    if compile_only or not simt and not shutil.which("nvidia-smi"):
        print("compiled; there is no GPU to run it")
        return 0
    done = subprocess.run([program], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout)
    return 0 if done.stdout == "the sums are right\n" else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(name for name in ways() if not name.startswith("Install")))
    elif options.name == "Install":
        install(options.work.resolve())
    else:
        sys.exit(try_way(options.work.resolve(), options.name, options.source, options.compile_only))


main()
