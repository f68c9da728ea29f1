# SPDX-License-Identifier: MIT
"""What is kept of the reports that dsplat bench and finish, the examples' bench and Google Benchmark write:
medians and spreads, without single views and runs and without folders of file names."""
import os
import sys

from . import kept

CONTEXT = ("date", "device", "cuda_runtime", "cub", "version", "gaussians", "views", "width", "height", "pairs", "tiles",
           "split_tiles", "pixels_per_thread")
UNIT = "us"
UNREAD = {"least", "most", "backend", "cuda_driver", "cameras", "views_in_all", "speedup_over_atomic"}


def without(value, names):
    if isinstance(value, list):
        return [without(inner, names) for inner in value]
    if isinstance(value, dict):
        return {key: without(inner, names) for key, inner in value.items() if key not in names}
    return value


def of_google_benchmark(report):
    context = {key: report["context"][key] for key in CONTEXT if key in report["context"]}
    lanes = report["context"].get("active_lanes")
    if lanes:
        context["active_lanes"] = [int(commits) for commits in lanes.split()]
    runs = {}
    for entry in report["benchmarks"]:
        if entry.get("error_occurred"):
            sys.exit(f"{entry['name']}: {entry.get('error_message')}")
        if entry.get("aggregate_name") in ("median", "cv"):
            name = entry["run_name"].split("/iterations")[0]
            run = runs.setdefault(name, {"name": name})
            run[entry["aggregate_name"]] = float(f"{entry['real_time']:.5g}")
    return {"context": context, "unit": UNIT, "benchmarks": list(runs.values())}


def trimmed(report):
    if report.get("unit") == UNIT:
        return report  # of a kept file
    if "benchmarks" in report:
        return of_google_benchmark(report)
    report = kept.rounded(without(report, UNREAD))
    if "scene" in report:
        report["scene"] = os.path.basename(report["scene"].rstrip("/"))
    if isinstance(report.get("views"), list):  # dsplat bench
        views = report.pop("views")
        report["views"] = len(views)
        for key in ("width", "height", "visible", "pairs"):
            report[key] = round(sum(view[key] for view in views) / len(views))
    report.pop("render backward", None)
    for row in report.get("adjoint", ()):  # spheres, cubemap, scatter_add
        row.pop("least_ms", None)
        row.pop("most_ms", None)
    for step in report.get("steps", ()):  # dsplat finish
        for key in step.keys() - {"gpu_ms"}:
            step.pop(key)
    return report


def records(paths, kinds):
    """[(name, data)] of the reports whose names begin so."""
    return [(name, trimmed(report)) for name, report in kept.read(paths) if name.startswith(kinds)]
