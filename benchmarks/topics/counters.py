# SPDX-License-Identifier: MIT
"""Counters of kernels by Nsight Compute: the CSV that profile.sh and workloads.sh write. Arguments are [LABEL=]FILE, or
profile-LABEL.csv. The table has one column for each kernel of each file, from the kernel's last launch."""
import csv
import re
import sys

ROWS = {  # counter: label, factor, decimals
    "gpu__time_duration.sum": ("time, microseconds", 1e-3, 1),
    "launch__registers_per_thread": ("registers per thread", 1, 0),
    "smsp__inst_executed.sum": ("warp instructions, millions", 1e-6, 1),
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": ("active lanes per instruction", 1, 1),
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


def read(path, label=""):
    """{"kernel label": {counter: value}}"""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    if len(rows) < 3:
        sys.exit(f"{path}: holds no kernels")
    kernels = {}
    for row in rows[2:]:  # the second row holds the units
        record = dict(zip(rows[0], row))
        name = re.search(r"(\w+)(?=[<(]|$)", NO_NAMESPACE.sub("", record["Kernel Name"]))[1]
        kernels[f"{name} {label}".strip()] = {
            counter: float(value.replace(",", "")) for counter, value in record.items()
            if counter in ROWS or STALL.fullmatch(counter)}
    return kernels


def stalls(kernel):
    """{reason: cycles per instruction}: the mean number of warps that wait for the reason when one issues."""
    return {STALL.fullmatch(counter)[1].replace("_", " "): value for counter, value in kernel.items()
            if STALL.fullmatch(counter)}


def load(arguments):
    found = {}
    for argument in arguments:
        label, _, path = argument.rpartition("=")
        label = label or re.sub(r"(.*/)?profile-(.*)\.csv|.*", r"\2", path)
        found.update(read(path, label))
    return ordered(found)


def ordered(kernels):
    """The forward pass first."""
    return dict(sorted(kernels.items(), key=lambda item: "backward" in item[0]))


def table_of(kernels):
    """(header, rows), the stalls by the largest of them."""
    def row(label, cells):
        return [label, *cells]
    rows = [row(label, (f"{kernel[counter] * factor:.{decimals}f}" if counter in kernel else ""
                        for kernel in kernels.values()))
            for counter, (label, factor, decimals) in ROWS.items()]
    largest = {}
    for kernel in kernels.values():
        for reason, value in stalls(kernel).items():
            largest[reason] = max(largest.get(reason, 0), value)
    for reason in sorted(largest, key=largest.get, reverse=True):
        if largest[reason] >= 0.1:
            rows.append(row("stalled an issue: " + reason, (
                f"{stalls(kernel)[reason]:.2f}" if reason in stalls(kernel) else "" for kernel in kernels.values())))
    return ["counter", *kernels], rows


def tables(kernels):
    return {"counters": table_of(kernels)}
