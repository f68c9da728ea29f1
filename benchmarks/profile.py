#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what benchmarks/profile.sh wrote as a Markdown table: a row for each counter, a column for each kernel of
each file, from the kernel's last launch. Keeps the counters of the table as JSON, and reads that as well.

    benchmarks/profile.py before=before.csv after=after.csv -o benchmarks/results/blend-h200/profile.json
    benchmarks/profile.py benchmarks/results/blend-h200/profile.json
"""
import argparse
import csv
import json
import re
import sys

ROWS = {  # counter: label, factor, decimals
    "gpu__time_duration.sum": ("time, microseconds", 1e-3, 1),
    "launch__registers_per_thread": ("registers a thread", 1, 0),
    "smsp__inst_executed.sum": ("warp instructions, millions", 1e-6, 1),
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": ("lanes at work in one", 1, 1),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue slots busy, %", 1, 1),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("achieved occupancy, %", 1, 1),
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("pipe fma, %", 1, 1),
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active": ("pipe alu, %", 1, 1),
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": ("pipe lsu, %", 1, 1),
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": ("pipe xu, %", 1, 1),
    "dram__bytes.sum.per_second": ("DRAM, GB/s", 1e-9, 0),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("L2 throughput, %", 1, 1),
    "lts__t_sector_hit_rate.pct": ("L2 hit rate, %", 1, 1),
}
NO_NAMESPACE = re.compile(r"<unnamed>::|\(anonymous namespace\)::")
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def read(path, label):
    """{"kernel label": {counter: value}}"""
    with open(path, newline="") as file:
        if path.endswith(".json"):
            return json.load(file)
        rows = list(csv.reader(file))
    if len(rows) < 3:
        sys.exit(f"{path}: holds no kernels")
    kernels = {}
    for row in rows[2:]:  # the second has the units
        record = dict(zip(rows[0], row))
        name = re.search(r"(\w+)(?=[<(]|$)", NO_NAMESPACE.sub("", record["Kernel Name"]))[1]
        kernels[f"{name} {label}".strip()] = {
            counter: float(value.replace(",", "")) for counter, value in record.items()
            if counter in ROWS or STALL.fullmatch(counter)}
    return kernels


def print_row(label, kernels, counter, factor, decimals):
    cells = (f"{kernel[counter] * factor:.{decimals}f}" if counter in kernel else "" for kernel in kernels.values())
    print(f"| {label} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="[LABEL=]FILE")
    parser.add_argument("-o", "--output", help="keep the counters here, as JSON")
    options = parser.parse_args()
    found = {}
    for argument in options.files:
        label, _, path = argument.rpartition("=")
        found.update(read(path, label))
    kernels = dict(sorted(found.items(), key=lambda item: "backward" in item[0]))
    if options.output:
        with open(options.output, "w") as file:
            json.dump(kernels, file, indent=1)
            file.write("\n")
    print("| | " + " | ".join(kernels) + " |")
    print("|---|" + "---|" * len(kernels))
    for counter, (label, factor, decimals) in ROWS.items():
        print_row(label, kernels, counter, factor, decimals)
    largest = {counter: max(kernel.get(counter, 0) for kernel in kernels.values())
               for counter in dict.fromkeys(c for kernel in kernels.values() for c in kernel if STALL.fullmatch(c))}
    for counter in sorted(largest, key=largest.get, reverse=True):
        if largest[counter] >= 0.1:
            print_row("stalled an issue: " + STALL.fullmatch(counter)[1].replace("_", " "), kernels, counter, 1, 2)


if __name__ == "__main__":
    main()
