#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `cmake --install` puts down, tried in a temporary prefix.

    installed_test.py WORK install BUILD COMPONENT...  the files of these components, and DESTDIR
    installed_test.py WORK program | c | cmake         the program's version, page and completion; the lines of
                                                       docs/rasterizer.md; a C project that finds gs, train, index, simt
    installed_test.py WORK symbols NM LIBRARY HEADER   a library exports the functions of its header and nothing else

The three of the second line need the first. installed_files lists what each component installs.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
WORK = pathlib.Path(sys.argv[1]).resolve()
PREFIX = WORK / "prefix"


def output(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True, **options).stdout


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def expected_files(components):
    """Lines "COMPONENT,... FILE", @ being the component, or "COMPONENT FOLDER/ FROM" for a folder of the repository."""
    files = {"share/doc/distwar/LICENSE"}
    for line in (HERE / "installed_files").read_text().splitlines():
        names, name, *folder = line.split()
        for component in components & set(names.split(",")):
            below = files_below(ROOT / folder[0]) if folder else [""]
            files.update(name.replace("@", component) + file for file in below)
    return sorted(files)


def is_same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: more: {sorted(set(found) - set(expected))}, missing: {sorted(set(expected) - set(found))}")


def install(build, *components):
    shutil.rmtree(WORK, ignore_errors=True)
    output("cmake", "--install", build, "--prefix", PREFIX)
    # CMake names a file by the type of the build.
    installed = [re.sub(r"-(release|relwithdebinfo|debug|noconfig)\.cmake$", "-TYPE.cmake", name) for name in files_below(PREFIX)]
    is_same("installed", installed, expected_files(set(components)))
    output("cmake", "--install", build, "--prefix", "/usr", env=dict(os.environ, DESTDIR=str(WORK / "stage")))
    is_same("DESTDIR", files_below(WORK / "stage/usr"), files_below(PREFIX))
    is_same("DESTDIR", files_below(WORK / "stage"), ["usr/" + name for name in files_below(PREFIX)])
    for component in components:
        output("cmake", "--install", build, "--prefix", WORK / component, "--component", component)
        found = [name for name in files_below(WORK / component) if not name.endswith("strategy.h")]
        if not found or "share/doc/distwar/LICENSE" not in found:
            sys.exit(f"{component} alone installs {found}")


def program():
    dsplat = PREFIX / "bin/dsplat"
    version = output(dsplat, "--version")
    header = (ROOT / "examples/gaussians/lib/distwar_gs.h").read_text()
    expected = ".".join(re.search(rf"VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
    if not version.startswith(f"dsplat {expected} ("):
        sys.exit(f"--version: {version}")
    page = (PREFIX / "share/man/man1/dsplat.1").read_text().replace("\\-", "-")
    options = re.findall(r"^ +(?:-\w, )?(--[\w-]+)", output(dsplat, "train", "--help", "all"), re.M)
    missing = [option for option in options if option != "--help" and not re.search(rf"^\.B .*{option}( |$)", page, re.M)]
    if len(options) < 40 or missing:
        sys.exit(f"the page lacks {missing} of {len(options)} options")
    completion = PREFIX / "share/bash-completion/completions/dsplat"
    for words, expected in ((["tr"], ["train"]), (["train", "--reduce", "tr"], ["tree"]), (["eval", "--hol"], ["--holdout"])):
        line = " ".join(["dsplat", *words])
        found = output("bash", "-c", f'source {completion}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; '
                       f'_dsplat dsplat {words[-1]} "${{COMP_WORDS[COMP_CWORD - 1]}}"; echo "${{COMPREPLY[@]}}"').split()
        is_same(f"completion of '{line}'", found, expected)


def c():
    """The lines of docs/rasterizer.md, but for the first, which installs: they print what the page shows."""
    text = (ROOT / "docs/rasterizer.md").read_text()
    lines, shown = re.search(r"^```sh Installed.FromC\nmake install.*?\n(.*?)^```\n+```text\n(.*?)\n```", text,
                             re.M | re.S).groups()
    folder = WORK / "c"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build").mkdir(parents=True)
    (folder / "build/installed").symlink_to(PREFIX)
    shutil.copytree(ROOT / "docs/interface", folder / "docs/interface")
    found = output("sh", "-ec", lines, cwd=folder)
    if shown not in found:
        sys.exit(found)


def cmake():
    folder = WORK / "cmake"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.22)
project(yours LANGUAGES C)
find_package(distwar 1.0 REQUIRED COMPONENTS gs train index)
add_executable(yours yours.c)
target_link_libraries(yours PRIVATE distwar::gs distwar::train distwar::index)
find_package(distwar 1.0 QUIET COMPONENTS nonsense)
if(distwar_FOUND)
  message(FATAL_ERROR "an unknown component is found")
endif()
""")
    (folder / "yours.c").write_text("""#include <distwar_gs.h>
#include <distwar_index.h>
#include <distwar_train.h>
#include <stdio.h>
int main(void) { return printf("%s %s\\n", gs_backend(), ix_backend()) < 0 || !distwar_train_check(NULL); }
""")
    output("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={PREFIX}")
    output("cmake", "--build", folder / "build")
    backend = re.search(r"\((\w+)\)", output(PREFIX / "bin/dsplat", "--version")).group(1)
    is_same("backends", output(folder / "build/yours").split(), [backend, backend])


def symbols(nm, library, header):
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", (ROOT / header).read_text(), flags=re.S)
    is_same(library, sorted(line.split()[-1] for line in output(nm, "-D", "--defined-only", library).splitlines()),
            sorted(re.findall(r"^(?!#|static|typedef)[\w *]*?\b(\w+)\([^;{]*\);", code, re.M)))


{"install": install, "program": program, "c": c, "cmake": cmake, "symbols": symbols}[sys.argv[2]](*sys.argv[3:])
