# SPDX-License-Identifier: MIT
"""The flagship's stages and its backward blend: what blend.sh and profile.sh measured, as trim.py keeps it."""
import math
import os
import re

from . import counters, figures, kept, reports
from .text import ms

KEPT = ["blend.jsonl"]
KINDS = ("bench", "render_backward")
STAGES = {"project": "#e69f00", "bin": "#0072b2", "render": "#009e73", "render backward": "#d55e00",
          "project backward": "#cc79a7"}
LABELS = {"render": "forward blend", "render backward": "backward blend"}
STRATEGIES = {"serial": "#e69f00", "bfly": "#009e73", "tree": "#0072b2"}  # those with a threshold
LEVELS = {"atomic": ("#000000", "--"), "block": ("#999999", "--"), "fixed": ("#8b4513", "--"), "cub": ("#d55e00", ":"),
          "floor": ("#56b4e9", "-.")}
RUN = re.compile(r"render_backward/(\w+)/scene:(.+)/threshold:(\d+)(?:/pixels:(\d)/split:(\d))?")


def runs(report):
    """(way, threshold, pixels or None, split, median in ms, deviation over mean) of a report of render_backward."""
    for run in report["benchmarks"]:
        way, _, threshold, pixels, split = RUN.fullmatch(run["name"]).groups()
        yield way, int(threshold), pixels, split, run["median"] * 1e-3, run["cv"]


def times(report):
    """{(way, threshold): (median in ms, deviation over mean)}, the work divided as gs_bin proposes."""
    return {(way, threshold): (median, cv) for way, threshold, pixels, _, median, cv in runs(report) if not pixels}


def stage(report, name):
    return report["stages"][name].get("mean_ms")


def slope(points):
    """The exponent between the ends of a curve."""
    (x0, y0), (x1, y1) = points[0], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def growth(reports, what):
    """What grows, in order: [(Gaussians or pixels, report)]."""
    by = {"gaussians": lambda r: r["gaussians"], "pixels": lambda r: r["width"] * r["height"]}[what]
    return sorted(((by(report), report) for name, report in reports.items() if name.startswith(f"growth-{what}-")),
                  key=lambda pair: pair[0])


def records(paths):
    return reports.records(paths, KINDS)


def load(paths):
    """The reports by kind and name, {"bench": {"fox": ..., "many-3000000": ...}, ...}, and the counters."""
    data = {kind: {} for kind in (*KINDS, "counters")}
    for name, report in records(paths):
        kind, _, scene = name.partition("-")
        data[kind][scene] = report
    data["counters"] = counters.ordered(dict(kept.read(paths)).get("profile", {}))
    return data


def devices(data):
    return sorted({report["device"] for report in [
        *data["bench"].values(), *(report["context"] for report in data["render_backward"].values())]})


def by_stage(report):
    """A row for each stage of one report."""
    return (["stage", "mean, ms", "least view", "most", "bytes"],
            [[LABELS.get(name, name), *(ms(s.get(key)) for key in ("mean_ms", "least_ms", "most_ms")),
              f"{s['bytes']:,}" if "bytes" in s else ""] for name, s in report["stages"].items()])


def by_scene(reports):
    columns = [*STAGES, "sum of stages", "end to end"]
    shown = [(name, r) for name, r in reports.items() if not name.startswith("growth-")]
    shown.sort(key=lambda item: (item[0].split("-")[0], item[1]["width"] * item[1]["height"]))
    return (["scene", "image", "Gaussians", "pairs", *(LABELS.get(c, c) for c in columns)],
            [[name, f"{r['width']}x{r['height']}", f"{r['gaussians']:,}", f"{r['pairs']:,}",
              *(ms(stage(r, column)) for column in columns)] for name, r in shown])


def by_division(reports):
    rows, columns = [], [(pixels, split) for pixels in "124" for split in "01"]
    for name, report in reports.items():
        found = {(pixels, split): median for _, _, pixels, split, median, _ in runs(report) if pixels}
        context = report["context"]
        rows.append([name, f"{context['width']}x{context['height']}",
                     f"{context['pixels_per_thread']}, {int(context['split_tiles']):,} of {int(context['tiles']):,}",
                     *(ms(found.get(column)) for column in columns)])
    return ["scene", "image", "gs_bin proposes: pixels, lists split",
            *(f"{pixels}, split" if split == "1" else pixels for pixels, split in columns)], rows


def by_strategy(report):
    found = times(report)
    thresholds = sorted({threshold for _, threshold in found})
    return (["strategy", *thresholds],
            [[way, *(ms(found[way, t][0]) if (way, t) in found else "" for t in thresholds)]
             for way in dict.fromkeys(way for way, _ in found)])


def commit_cost(reports):
    """What tree takes longer than the same kernel without its commit."""
    thresholds = sorted({t for report in reports.values() for way, t in times(report) if way == "floor"})
    rows = []
    for name, report in reports.items():
        found = times(report)
        rows.append([name, f"{max(cv for _, cv in found.values()):.1%}", *(
            f"{found['tree', t][0] / found['floor', t][0] - 1:.1%}" if ("floor", t) in found else None
            for t in thresholds)])
    return ["scene", "largest deviation over mean", *thresholds], rows


def by_growth(reports, what):
    curve = growth(reports, what)
    columns = [*STAGES, "sum of stages", "loss", "adam"]
    lines = [[(x, r["pairs"]) for x, r in curve], *([(x, stage(r, c)) for x, r in curve] for c in columns)]
    return ([what, "pairs", *(LABELS.get(c, c) for c in columns)],
            [[f"{x:,}", f"{r['pairs']:,}", *(ms(stage(r, c)) for c in columns)] for x, r in curve] +
            [["exponent", *(f"{slope(line):.2f}" for line in lines)],
             ["of the last step", *(f"{slope(line[-2:]):.2f}" for line in lines)]])


def tables(data):
    bench, backward = data["bench"], data["render_backward"]
    found = {f"stages {name}": by_stage(bench[name]) for name in bench if name + "-sh3" in bench}  # the trained scene
    if bench:
        found["scenes"] = by_scene(bench)
    swept = {name: report for name, report in backward.items() if any(threshold for _, threshold in times(report))}
    for name, report in swept.items():
        found[f"strategies {name}"] = by_strategy(report)
    if swept:
        found["commit"] = commit_cost(swept)
    if backward:
        found["division"] = by_division(backward)
    for what in ("gaussians", "pixels"):
        if growth(bench, what):
            found[f"growth {what}"] = by_growth(bench, what)
    if data["counters"]:
        found["counters"] = counters.table_of(data["counters"])
    return found


def draw(data, folder):
    pyplot = figures.pyplot()
    if not pyplot:
        return

    device, bench, backward = ", ".join(devices(data)), data["bench"], data["render_backward"]

    def save(figure, plots, name, title):
        for plot in plots:
            plot.grid(alpha=0.3)
        figures.save(figure, plots, f"{title} ({device})", os.path.join(folder, name))

    backward = {name: report for name, report in backward.items() if ("tree", 0) in times(report)}
    if backward:
        figure, plots = pyplot.subplots(1, len(backward), figsize=(4 * len(backward), 4.4), squeeze=False,
                                        layout="constrained")
        for plot, (name, report) in zip(plots[0], backward.items()):
            found = times(report)
            for way, colour in STRATEGIES.items():
                mine = sorted((t, time) for (w, t), (time, _) in found.items() if w == way)
                plot.plot(*zip(*mine), color=colour, marker="o", markersize=3, label=way)
            for way, (colour, line) in LEVELS.items():
                if (way, 0) in found:
                    plot.axhline(found[way, 0][0], color=colour, linestyle=line, linewidth=1, label=way)
            plot.set_yscale("log")
            plot.set_xlabel("balance_threshold")
            plot.set_title(name, fontsize=10)
        plots[0][0].set_ylabel("backward blend, ms")
        save(figure, plots[0], "render_backward.png", "Backward blend of one view")

    curves = [(growth(bench, "gaussians"), "Gaussians"), (growth(bench, "pixels"), "pixels")]
    if all(curve for curve, _ in curves):
        figure, plots = pyplot.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
        for plot, (curve, label) in zip(plots, curves):
            xs = [x for x, _ in curve]
            for name, colour in STAGES.items():
                plot.plot(xs, [stage(r, name) for _, r in curve], color=colour, marker="o", markersize=3,
                          label=LABELS.get(name, name))
            total = [stage(r, "sum of stages") for _, r in curve]
            plot.plot(xs, total, color="black", marker="o", markersize=3, label="sum of stages")
            plot.plot([xs[0], xs[-1]], [total[-1] * xs[0] / xs[-1], total[-1]], color="grey", linestyle=":",
                      label="linear")
            plot.set_xscale("log")
            plot.set_yscale("log")
            plot.set_xlabel(label)
        plots[0].set_ylabel("ms")
        save(figure, plots, "growth.png", "How the cost of a view grows")
