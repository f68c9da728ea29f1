# SPDX-License-Identifier: MIT
"""Several GPUs: the JSON of `exchange` and `shared_steps`, as ranks.sh writes them into a folder, and of `dsplat bench
--gpus`."""
from . import kept

KEPT = ["ranks.jsonl"]
STAGES = ("project", "exchange", "render", "pixels", "backward", "return", "home")


def records(paths):
    found = []
    for name, report in kept.read(paths):
        for step in report.get("steps", ()):
            if isinstance(step["views"], list):  # the names of the views of dsplat bench
                step["views"] = len(step["views"])
        found.append((name, kept.rounded(report)))
    return found


def load(paths):
    """(device, {name: report})."""
    reports = dict(records(paths))
    return next(iter(reports.values()))["device"], reports


def devices(data):
    return [f"{data[0]}, {len(data[1])} runs"]


def scene_of(r):
    return f"{r['gaussians'] / 1e6:g} million, {r['width']} x {r['height']}"


def order_of(r):
    return r["gaussians"], r["width"], r["kind"] != "plain", r["ranks"], r["views"]


def of_scene(reports):
    """Rows of `dsplat bench --gpus` on one scene: means over its steps."""
    found = []
    for r in reports:
        views, count = r["steps"][0]["views"], len(r["steps"])
        ms = {stage: sum(step["ms"][stage] for step in r["steps"]) / count for stage in r["steps"][0]["ms"]}
        found.append((views, r["gpus"], ms))
    alone = {views: ms["step"] for views, gpus, ms in found if gpus == 1}
    return [[views, gpus, f"{ms['step']:.2f}", f"{1e3 * views / ms['step']:.0f}",
             f"{alone[views] / ms['step'] / gpus:.2f}" if gpus > 1 else "",
             *(f"{ms[stage]:.2f}" for stage in STAGES)] for views, gpus, ms in sorted(found, key=lambda row: row[:2])]


def tables(data):
    steps = sorted((r for name, r in data[1].items() if "step_ms" in r and not name.startswith("largest")), key=order_of)
    largest = [r for name, r in data[1].items() if name.startswith("largest")]
    alone = [r["gaussians"] for r in largest if r["kind"] == "plain"]
    plain = {scene_of(r): r["views_a_second"] for r in steps if r["kind"] == "plain"}
    alone_ms = {(scene_of(r), r["views"]): r["step_ms"] for r in steps
                if r["kind"] == "processes" and r["ranks"] == 1 and "gradient_bits" not in r}

    def same_batch(r):
        """Of one rank that takes as many views a step, times the number of ranks."""
        ms = alone_ms.get((scene_of(r), r["views"]))
        return "" if r["kind"] == "plain" or r["ranks"] == 1 or ms is None else f"{ms / r['step_ms'] / r['ranks']:.2f}"

    exchanged = [[f"{size['bytes']:,}", f"{size['all_to_all_ms']:.3f}", f"{size['all_to_all_gb_s']:.1f}",
                  f"{size['all_reduce_ms']:.3f}", f"{size['all_reduce_gb_s']:.1f}"]
                 for r in data[1].values() if "sizes" in r for size in r["sizes"]]
    measured = [[scene_of(r), "one GPU, without ranks" if r["kind"] == "plain" else r["ranks"],
                 1 if r["kind"] == "plain" else r["views"], f"{r['step_ms']:.2f}", f"{r['views_a_second']:.0f}",
                 f"{r['views_a_second'] / plain[scene_of(r)] / r['ranks']:.2f}", same_batch(r),
                 "" if r["kind"] == "plain" else f"{r['bytes_sent'] / 1e6:.0f}", f"{r['memory_gb']:.1f}"]
                for r in steps if scene_of(r) in plain and "project_ms" not in r]
    timed = [[scene_of(r), r["ranks"], r["views"], *(f"{r[stage + '_ms']:.2f}" for stage in STAGES)]
             for r in steps if "project_ms" in r]
    same = [[r["kind"], r["ranks"], r["views"], r["gradient_bits"]] for r in steps if "gradient_bits" in r]
    most = [["one GPU, without ranks" if r["kind"] == "plain" else r["ranks"], f"{r['gaussians'] / 1e6:g}",
             f"{r['gaussians'] / alone[0]:.2f}", f"{r['memory_gb']:.0f}"]
            for r in sorted(largest, key=lambda r: r["gaussians"]) if alone]
    found = {"exchange": (["bytes from rank to rank", "all-to-all, ms", "GB/s", "all-reduce, ms", "GB/s"], exchanged),
             "steps": (["scene", "GPUs", "B", "ms a step", "views a second", "of one GPU times GPUs", "the same B", "MB sent",
                        "GB used"], measured),
             "stages": (["scene", "GPUs", "B", *(f"{stage}, ms" for stage in STAGES)], timed),
             "largest": (["GPUs", "million Gaussians", "of one GPU", "GB used"], most),
             "scene": (["B", "GPUs", "ms a step", "views a second", "of one GPU times GPUs",
                        *(f"{stage}, ms" for stage in STAGES)], of_scene(r for r in data[1].values() if "steps" in r)),
             "bits": (["ranks", "number", "B", "sum of the bits of the gradients"], same)}
    return {name: table for name, table in found.items() if table[1]}
