# SPDX-License-Identifier: MIT
"""Several GPUs: the JSON of `dsplat bench --gpus`, one file for each number of GPUs and of views per step."""
from . import kept

KEPT = ["ranks.jsonl"]
STAGES = ("project", "exchange", "render", "pixels", "backward", "return", "home")


def records(paths):
    found = []
    for name, report in kept.read(paths):
        for step in report["steps"]:
            if isinstance(step["views"], list):  # their names
                step["views"] = len(step["views"])
        found.append((name, kept.rounded(report)))
    return found


def load(paths):
    return [report for _, report in records(paths)]


def devices(data):
    return sorted({report["device"] for report in data})


def tables(data):
    """Means over the steps."""
    found = []
    for r in data:
        steps = r["steps"]
        ms = {stage: sum(step["ms"][stage] for step in steps) / len(steps) for stage in steps[0]["ms"]}
        found.append((steps[0]["views"], r["gpus"], ms))
    alone = {views: ms["step"] for views, gpus, ms in found if gpus == 1}
    rows = [[views, gpus, f"{ms['step']:.2f}", f"{1e3 * views / ms['step']:.0f}",
             f"{alone[views] / ms['step'] / gpus:.2f}" if gpus > 1 else "", *(f"{ms[stage]:.2f}" for stage in STAGES)]
            for views, gpus, ms in sorted(found, key=lambda row: row[:2])]
    return {"scene": (["B", "GPUs", "ms per step", "views per second", "of one GPU times GPUs",
                       *(f"{stage}, ms" for stage in STAGES)], rows)} if rows else {}
