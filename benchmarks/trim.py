#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies measurements to be kept: the JSON of splat bench and finish, tuner_check, the other examples' bench and
Google Benchmark. Keeps medians and spreads, drops single views and runs, and strips folders from file names.

    benchmarks/trim.py build/blend/*.json -o benchmarks/results/blend-h200
"""
import argparse
import json
import os
import re
import sys

SETTING = ("date", "device", "cuda_runtime", "cub", "version", "gaussians", "views", "width", "height", "pairs",
           "tiles", "split_tiles", "pixels_per_thread")


def mean_of(views, key):
    return round(sum(view[key] for view in views) / len(views))


def trimmed(report):
    for key in ("scene", "cameras"):
        if key in report:
            report[key] = os.path.basename(report[key].rstrip("/"))
    if "benchmarks" in report:  # Google Benchmark
        context = {key: report["context"][key] for key in SETTING if key in report["context"]}
        if "active_lanes" in report["context"]:
            context["active_lanes"] = [int(commits) for commits in report["context"]["active_lanes"].split()]
        runs = {}
        for entry in report["benchmarks"]:
            if entry.get("error_occurred"):
                sys.exit(f"{entry['name']}: {entry.get('error_message')}")
            if entry.get("aggregate_name") in ("median", "cv"):
                name = entry["run_name"].split("/iterations")[0]
                run = runs.setdefault(name, {"name": name})
                run[entry["aggregate_name"]] = float(f"{entry['real_time']:.5g}")
        return {"context": context, "unit": "us", "benchmarks": list(runs.values())}
    for row in report.get("adjoint", ()):  # spheres, cubemap, scatter_add
        for key in row.keys() & {"mean_ms", "noise"}:
            row[key] = float(f"{row[key]:.5g}")
        for key in ("least_ms", "most_ms", "speedup_over_atomic"):
            row.pop(key, None)
    if isinstance(report.get("views"), list):  # splat bench
        views = report.pop("views")
        report["views"] = len(views)
        for key in ("width", "height", "visible", "pairs"):
            report[key] = mean_of(views, key)
        for row in report["render backward"]:
            row.pop("views", None)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", nargs="+")
    parser.add_argument("-o", "--output", required=True, help="folder for the trimmed files")
    options = parser.parse_args()
    os.makedirs(options.output, exist_ok=True)
    for path in options.json:
        with open(path) as file:
            report = json.load(file)
        with open(os.path.join(options.output, os.path.basename(path)), "w") as file:
            text = json.dumps(trimmed(report), indent=1)
            text = re.sub(r"\n\s+(\d+,?)(?=\n)", r" \1", text)  # histograms in a line each
            file.write(re.sub(r"(?<=\d)\n\s+\]", "]", text))
            file.write("\n")


if __name__ == "__main__":
    main()
