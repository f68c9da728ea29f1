#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the pages, and runs the commands that one prints.

    pages.py --code                     CUDA, C++ and C on the pages are parts of sources that are compiled and run, the lines
                                        between // [NAME] and // [end]; each such part is on a page
    pages.py --links                    links lead to files and headings that exist
    pages.py --check                    every command of the pages is in a block that says who runs it
    pages.py BIN WORK PAGE [--extra]    runs the commands of PAGE in order in WORK, a copy of the repository, which is the
                                        folder that pages assume; BIN: the folder of dsplat

A block of commands begins with ```sh and words, what it needs beyond a compiler (NEEDS). Without words it always runs.
With words it runs if --extra is given and all of them are here, or by another test (BY_OTHERS), or not at all (NOT_RUN).
A block ```text after it shows lines that its output holds. In a block `server` each line serves a page until a signal:
the page is fetched from the printed address, then Control-C ends the command. Exit status 77: nothing of the page could
be run; the output says why.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PHOTOGRAPHS = os.environ.get("DISTWAR_PHOTOGRAPHS")


def works(command):
    return subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def gpus():
    found = subprocess.run(["sh", "-c", "nvidia-smi -L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return found.stdout.count("GPU ")


NEEDS = {
    "build": lambda: True,  # minutes
    "numpy": lambda: works("python3 -c 'import numpy'"),
    "colmap": lambda: PHOTOGRAPHS and works("command -v colmap && command -v ffmpeg && command -v ffprobe"),
    "gpu": lambda: gpus() > 0 and works("command -v nvcc"),
    "gpus": lambda: gpus() > 1,
    "nccl": lambda: works("/sbin/ldconfig -p | grep libnccl.so.2"),
    "pip": lambda: os.environ.get("VIRTUAL_ENV") and works("python3 -m pip --version"),
    "ffmpeg": lambda: works("command -v ffmpeg"),
    "server": lambda: works("/sbin/ldconfig -p | grep libmicrohttpd.so"),
}
BY_OTHERS = ("nvcc", "simt", "WaysIn", "CI", "Installed.FromC", "Python.Train")
# Several hosts; what changes the system; files of the reader's; hours on a GPU.
NOT_RUN = ("hosts", "root", "yours", "hours")
PAGES = [str(page.relative_to(ROOT)) for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"),
         ROOT / "python/README.md", ROOT / "examples/gaussians/README.md"])]
COMMAND = re.compile(r" {4,}(?:\w+=\S+ )*"
                     r"(dsplat|make|cmake|ctest|python3?|pip|nvcc|g\+\+|apt|ssh|build/|ci/|benchmarks/|scripts/)(\b|/)")


SOURCES = ["tests/docs/pages.cu", "examples/scatter.cu"]


def text_of(page):
    return (ROOT / page).read_text()


def all_blocks(page):
    """[(words after ```, text)]."""
    found = re.findall(r"^```(.*)\n((?:(?!```\n).*\n)*)```$", text_of(page), re.M)
    return [(words.split(), text) for words, text in found]


def blocks(page):
    """[(words, commands, lines of the output)]."""
    found = []
    for words, text in all_blocks(page):
        if words[:1] == ["sh"]:
            found.append((words[1:], text.rstrip("\n"), []))
        elif words == ["text"] and found:
            found[-1][2].extend(text.splitlines())
    return found


def check_code():
    parts = {textwrap.dedent(part) for source in SOURCES
             for part in re.findall(r"// \[.*\n((?:(?!.*// \[).*\n)*).*// \[end\]", text_of(source))}
    shown = [(page, textwrap.dedent(text)) for page in PAGES for words, text in all_blocks(page)
             if words in (["cuda"], ["cpp"], ["c++"], ["c"])]
    wrong = [f"{page} shows code that no source has:\n{text}" for page, text in shown if text not in parts]
    return wrong + [f"no page shows\n{part}" for part in parts - {text for _, text in shown}]


def anchors_of(page):
    """A heading in lower case, without punctuation, with dashes for spaces."""
    return {re.sub(r"[^\w-]", "", heading.replace(" ", "-")).lower()
            for heading in re.findall(r"^#+ *(.*)$", page.read_text(), re.M)}


def check_links():
    wrong, links = [], 0
    for page in PAGES:
        text = re.sub(r"^```.*?^```|^    .*$", "", text_of(page), flags=re.M | re.S)
        for target in re.findall(r"\]\((?!http)([^)]*)", text):
            links += 1
            name, _, anchor = target.partition("#")
            file = (ROOT / page).parent / name if name else ROOT / page
            if not file.exists() or anchor and anchor not in anchors_of(file):
                wrong.append(f"{page} links to {target}")
    return wrong if links > 80 else [f"only {links} links are found"]


def faults_unrun(commands):
    """What can be said of commands that nobody runs: bash parses them, and their scripts and Python files exist."""
    parsed = subprocess.run(["bash", "-n", "-c", commands], stderr=subprocess.PIPE, text=True)
    named = re.findall(r"(?<![\w/])(?:python/)?(?:benchmarks|examples|scripts|ci|tests)/[\w/]+\.(?:sh|py|c|cu)\b", commands)
    return [parsed.stderr] * (parsed.returncode != 0) + [f"there is no {name}" for name in named
                                                          if not (ROOT / name).is_file()]


def check_commands():
    wrong = []
    for page in PAGES:
        for words, commands, _ in blocks(page):
            if any(word in NOT_RUN for word in words):
                wrong.extend(f"{page}: {fault}" for fault in faults_unrun(commands))
            unknown = [word for word in words if word not in (*NEEDS, *BY_OTHERS, *NOT_RUN)]
            if unknown:
                wrong.append(f"{page}: nobody knows '{' '.join(unknown)}' of the block\n{commands}")
        code = False
        for line in (ROOT / page).read_text().splitlines():
            code ^= line.startswith("```")
            if not code and COMMAND.match(line):
                wrong.append(f"{page}: a command outside a block ```sh:{line}")
    return wrong


def make_folder(work, binaries):
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT, work, symlinks=True, ignore=lambda folder, names: [
        name for name in names if name in (".git", "build", "__pycache__")])
    if PHOTOGRAPHS:
        shutil.copytree(PHOTOGRAPHS, work / "photos")
        subprocess.run(["sh", "-ec", "ffmpeg -nostdin -v error -framerate 4 -pattern_type glob -i 'photos/*' "
                        "-vf \"scale='min(960,iw)':-2\" -pix_fmt yuv420p garden.mp4"], cwd=work)
    environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}", PYTHONPATH=str(work / "python"))
    for variable, name in (("DISTWAR_LIBRARY", "gs"), ("DISTWAR_INDEX_LIBRARY", "index")):
        environment[variable] = f"{binaries}/libdistwar_{name}.so"
    return environment


def serve(command, **where):
    """(exit code, output). The signal may end a command as it likes: with 0, with 130, or before it is caught."""
    process = subprocess.Popen(["bash", "-ec", f"exec {command}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, **where)
    output, served = "", False
    for line in process.stdout:
        output += line
        address = re.search(r"http://\S+", line)
        if address and not served:
            served = b"<html" in urllib.request.urlopen(address.group(), timeout=60).read()
            process.send_signal(signal.SIGINT)
    code = process.wait()
    return (0 if served and code in (0, 130, -signal.SIGINT) else code or 1), output


def execute(words, commands, **where):
    if "server" in words:
        done = [serve(command, **where) for command in commands.splitlines()]
        return max(code for code, _ in done), "".join(output for _, output in done)
    done = subprocess.run(["bash", "-ec", commands], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **where)
    return done.returncode, done.stdout


def run(page, work, binaries, extra):
    chosen, missing = [], []
    for words, commands, expected in blocks(page):
        if any(word in (*BY_OTHERS, *NOT_RUN) for word in words):
            continue
        lacking = [word for word in words if not (extra and NEEDS[word]())]
        if lacking:
            missing.append(" ".join(lacking))
        else:
            chosen.append((words, commands, expected))
    if not any(words for words, _, _ in chosen) and extra:
        print(f"skipped: {page} needs {', '.join(missing)}")
        return 77
    environment, wrong = make_folder(work, binaries), 0
    for words, commands, expected in chosen:
        print(commands, flush=True)
        code, output = execute(words, commands, cwd=work, env=environment)
        print(output, flush=True)
        lacking = [line for line in expected if line not in output]
        if code != 0 or lacking:
            print(f"{page}: exit code {code}; not in the output: {lacking}")
            wrong += 1
    shutil.rmtree(work)
    return 1 if wrong else 0


CHECKS = {"--code": check_code, "--links": check_links, "--check": check_commands}
if sys.argv[1] in CHECKS:
    sys.exit("\n".join(CHECKS[sys.argv[1]]()) or 0)
sys.exit(run(sys.argv[3], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[1]).resolve(), "--extra" in sys.argv))
