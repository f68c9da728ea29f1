#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what including a header adds to an nvcc compile, compared with including cuda_runtime.h alone: the median
user time of a compile to an object for one architecture. Compiles alternate, so other load slows all headers alike.

    benchmarks/compile_time.py [--runs 15] [--arch sm_90]

Exit status 1 if reduce.cuh costs more than 15%.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "include")
LIMIT = 15  # percent, for reduce.cuh
EMPTY = "cuda_runtime.h"
HEADERS = [EMPTY] + ["distwar/" + name for name in sorted(os.listdir(os.path.join(INCLUDE, "distwar")))
                     if name.endswith(".cuh")]


def user_seconds(command):
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return usage.ru_utime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="compiles of each header (default 15)")
    parser.add_argument("--arch", default="sm_90", help="default sm_90")
    parser.add_argument("--only", nargs="*", metavar="HEADER", help="reduce.cuh, half.cuh ...; default all")
    options = parser.parse_args()
    headers = [header for header in HEADERS
               if header == EMPTY or not options.only or header.split("/")[-1] in options.only]
    times = {header: [] for header in headers}
    with tempfile.TemporaryDirectory() as folder:
        for header in headers:
            with open(os.path.join(folder, header.replace("/", "_") + ".cu"), "w") as file:
                file.write(f"#include <{header}>\n")
        for _ in range(options.runs):
            for header in headers:
                times[header].append(user_seconds(
                    ["nvcc", "-arch=" + options.arch, "-std=c++17", "-I" + INCLUDE, "-c", "-o",
                     os.path.join(folder, "out.o"), os.path.join(folder, header.replace("/", "_") + ".cu")]))
    base = statistics.median(times[EMPTY])
    too_much = False
    print("| header | user s, median | least | most | over cuda_runtime.h |\n|---|---|---|---|---|")
    for header in headers:
        median = statistics.median(times[header])
        percent = 100 * (median / base - 1)
        print(f"| {header} | {median:.3f} | {min(times[header]):.3f} | {max(times[header]):.3f} | {percent:+.1f}% |")
        too_much = too_much or (header.endswith("/reduce.cuh") and not percent <= LIMIT)
    if too_much:
        sys.exit(f"reduce.cuh costs more than {LIMIT}%")


if __name__ == "__main__":
    main()
