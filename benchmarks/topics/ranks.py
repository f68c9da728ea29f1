# SPDX-License-Identifier: MIT
"""Several GPUs: the JSON of `dsplat bench --gpus`, one file SCENE-gpusN-bB.json for each number of GPUs and of views per
step, and runs of `dsplat train`, each a record with "training"."""
from . import kept

KEPT = ["ranks.jsonl"]
STAGES = ("project", "exchange", "render", "pixels", "backward", "return", "home")


def records(paths):
    found = []
    for name, report in kept.read(paths):
        for step in report.get("steps", ()):
            if isinstance(step["views"], list):  # their names
                step["views"] = len(step["views"])
        found.append((name, kept.rounded(report)))
    return found


def load(paths):
    return records(paths)


def devices(data):
    return sorted({report["device"] for _, report in data})


def steps_table(reports):
    """Means over the steps."""
    found = []
    for r in reports:
        steps = r["steps"]
        ms = {stage: sum(step["ms"][stage] for step in steps) / len(steps) for stage in steps[0]["ms"]}
        found.append((steps[0]["views"], r["gpus"], ms))
    alone = {views: ms["step"] for views, gpus, ms in found if gpus == 1}
    rows = [[views, gpus, f"{ms['step']:.2f}", f"{1e3 * views / ms['step']:.0f}",
             f"{alone[views] / ms['step'] / gpus:.2f}" if gpus > 1 else "", *(f"{ms[stage]:.2f}" for stage in STAGES)]
            for views, gpus, ms in sorted(found, key=lambda row: row[:2])]
    return ["B", "GPUs", "ms per step", "views per second", "of one GPU times GPUs",
            *(f"{stage}, ms" for stage in STAGES)], rows


def training_table(data):
    rows = [[r["what"], r["iterations"], r["gpus"], r["batch"], r["way"], f"{r['seconds']:.1f}", f"{r['whole']:.1f}",
             f"{r['psnr']:.2f}"] for r in (report["training"] for _, report in data if "training" in report)]
    return ["scene", "views", "GPUs", "views per step", "on each GPU", "seconds", "start to end", "PSNR, dB"], rows


def tables(data):
    found, scenes = {}, {}
    for name, report in data:
        if "steps" in report:
            scenes.setdefault(name.split("-")[0], []).append(report)
    for scene, reports in scenes.items():
        found[scene] = steps_table(reports)
    training = training_table(data)
    return {**found, "training": training} if training[1] else found
