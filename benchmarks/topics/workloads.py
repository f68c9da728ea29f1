# SPDX-License-Identifier: MIT
"""Every workload by strategy and threshold: what workloads.sh (and blend.sh) measured, as trim.py keeps it."""
import os
import re

from . import counters, figures, kept, reports
from .text import ms

KEPT = ["blend.jsonl", "workloads.jsonl"]
KINDS = ("spheres", "cubemap", "scatter_add", "histogram", "lm-")
STRATEGIES = {"serial": "#e69f00", "bfly": "#009e73", "tree": "#0072b2", "hot": "#56b4e9", "fixed": "#8b4513"}
WAYS = ("atomic", "vector", *STRATEGIES, "cub")
OVER_BEST, OVER_ATOMIC = 0.03, 0.02  # the most that a tuner's choice may lose
NOISE = 0.01
RUN = re.compile(r"render_backward/(\w+)/scene:(.+)/threshold:(\d+)")  # longer names are runs by pixels and split
LM_PARTS = {"J^Tu blend": "LM, J^T u", "diagonal": "LM, diagonal"}


class Case:
    """A workload on some data.

    times: {(strategy, threshold): ms}; threshold 0 where the strategy has none.
    lanes, keys: how many commits of a warp had 0..32 active lanes, and 0..32 different keys.
    tuned: (strategy, threshold, its time over the best - 1, over plain atomics - 1), or None.
    """

    def __init__(self, name, device):
        self.name, self.device, self.times, self.lanes, self.keys, self.tuned = name, device, {}, None, None, None

    def best(self, way):
        """(ms, threshold) or None."""
        return min(((ms, t) for (w, t), ms in self.times.items() if w == way), default=None)

    def fastest(self):
        """(ms, way, threshold) of what sums floats with one of the library's strategies."""
        return min((ms, w, t) for (w, t), ms in self.times.items() if w in WAYS and w not in ("fixed", "cub"))

    def speedup(self, way, threshold):
        ms = self.times.get((way, threshold))
        return ms and self.times["atomic", 0] / ms


def of_bench(report):
    """What spheres, cubemap and scatter_add write."""
    kind = report["workload"]
    if kind == "scatter_add" and report["values"] == 1:
        kind = "histogram"
    name = {"spheres": "spheres, {data}, K = {channels}", "cubemap": "cubemap, {mesh}, {size}",
            "scatter_add": "scatter_add, Zipf {exponent:g}", "histogram": "histogram, {words} bins"}[kind].format(**report)
    case = Case(name, report["device"])
    case.lanes, case.keys = report["active_lanes"], report["distinct_keys"]
    for row in report["adjoint"]:
        if "mean_ms" in row:
            case.times[row["reduction"], row["threshold"] or 0] = row["mean_ms"]
    if "tuner" in report:
        tuner = report["tuner"]
        case.tuned = (tuner["reduction"], tuner["threshold"] or 0, tuner["over_fastest"],
                      tuner["mean_ms"] / case.times["atomic", 0] - 1)
    return case


def of_blend(name, report):
    case = Case("gaussians, " + name, report["context"]["device"])
    case.lanes = report["context"].get("active_lanes")
    if case.lanes:  # all lanes of a warp are at one splat
        case.keys = [case.lanes[0], sum(case.lanes[1:]), *31 * [0]]
    for run in report["benchmarks"]:
        match = RUN.fullmatch(run["name"])
        if match and match[1] in WAYS:
            case.times[match[1], int(match[3])] = run["median"] * 1e-3
    return case


def records(paths):
    return reports.records(paths, KINDS)


def load(paths):
    """(cases, {(workload, strategy): counters of its kernel})."""
    cases, kernels = {}, {}
    for name, report in reports.records(paths, (*KINDS, "render_backward")):
        kind, _, name = name.partition("-")
        if kind == "render_backward":
            case = of_blend(name, report)
            if ("tree", 0) in case.times:
                cases[case.name] = case
        elif kind == "lm":
            for part, title in LM_PARTS.items():
                title += ", " + os.path.splitext(os.path.basename(report["scene"]))[0]
                case = cases.setdefault(title, Case(title, report["device"]))
                last = report["steps"][-1]["gpu_ms"]  # sums since the first
                if last[part] > 0:  # else it was not on a GPU
                    case.times[report["reduction"], report["threshold"]] = last[part] / len(report["steps"])
        elif "workload" in report:
            case = of_bench(report)
            cases[case.name] = case
    for label, kernel in dict(kept.read(paths)).get("profile", {}).items():  # "function workload-strategy"
        workload, _, way = label.split()[-1].partition("-")
        if way in WAYS:
            kernels[workload, way] = kernel
    natural = lambda case: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", case.name)]
    kernels = dict(sorted(kernels.items(), key=lambda kernel: (kernel[0][0], WAYS.index(kernel[0][1]))))
    return sorted(cases.values(), key=natural), kernels


def different(cases):
    """Cases with different histograms. What warps meet does not depend on K, so cases that differ in K share one."""
    seen = []
    for case in cases:
        if case.lanes and (case.lanes, case.keys) not in seen:
            seen.append((case.lanes, case.keys))
            yield case


def devices(data):
    return sorted({case.device for case in data[0]})


def named(way, threshold):
    return f"{way} at {threshold}" if way in STRATEGIES else way


def by_best(cases):
    """ms, each strategy at its best threshold (in brackets)."""
    ways = [way for way in WAYS if any(case.best(way) for case in cases)]
    rows = []
    for case in cases:
        best = {way: case.best(way) for way in ways}
        time, way, threshold = case.fastest()
        rows.append([case.name, *(best[w] and ms(best[w][0]) + (f" ({best[w][1]})" if w in STRATEGIES else "")
                                  for w in ways),
                     f"{case.times['atomic', 0] / time:.2f}, {named(way, threshold)}"])
    return ["workload", *ways, "fastest over atomic"], rows


def by_tuner(cases):
    return ["workload", "choice", "slower than the best fixed choice by", "times as fast as atomics"], [
        [case.name, named(way, threshold), f"{100 * over_best:.1f} %", f"{1 / (1 + over_atomic):.2f}"]
        for case in cases if case.tuned for way, threshold, over_best, over_atomic in [case.tuned]]


def by_threshold(cases):
    """Times as fast as plain atomics."""
    thresholds = sorted({t for case in cases for (way, t) in case.times if way in STRATEGIES})
    rows = []
    for case in cases:
        for way in STRATEGIES:
            found = [case.speedup(way, t) for t in thresholds]
            if sum(s is not None for s in found) > 1:
                rows.append([case.name, way, *(s and f"{s:.2f}" for s in found)])
    return ["workload", "strategy", *thresholds], rows


def by_lanes(cases):
    """What the warps meet, of all commits with a lane active."""
    rows = []
    for case in different(cases):
        commits = sum(case.lanes[1:])
        lanes, keys = (sum(n * count for n, count in enumerate(histogram)) for histogram in (case.lanes, case.keys))
        rows.append([case.name, f"{commits:,}", f"{lanes / commits:.1f}", f"{100 * case.lanes[32] / commits:.0f} %",
                     f"{keys / commits:.1f}", f"{100 * case.keys[1] / commits:.0f} %", f"{lanes / keys:.2f}"])
    return ["workload", "commits", "lanes active", "all 32", "different keys", "one key", "lanes per key"], rows


def by_loss(cases):
    """Where a strategy is slower than the same kernel's atomics by more than NOISE."""
    rows = []
    for case in cases:
        for way in (*STRATEGIES, "cub"):
            slow = {t: case.speedup(way, t) for (w, t) in sorted(case.times)
                    if w == way and case.speedup(w, t) < 1 - NOISE}
            if slow:
                worst = min(slow, key=slow.get)
                has = way in STRATEGIES
                rows.append([case.name, way, ", ".join(map(str, slow)) if has else None,
                             f"{slow[worst]:.2f}" + (f" at {worst}" if has else "")])
    return ["workload", "strategy", "at thresholds", "times as fast, at worst"], rows


def stall_reasons(kernels):
    """Reasons of at least half a cycle an instruction in some kernel, the longest first."""
    found = [counters.stalls(kernel) for kernel in kernels.values()]
    reasons = {reason for stalled in found for reason, value in stalled.items() if value >= 0.5}
    return sorted(reasons, key=lambda reason: -sum(stalled.get(reason, 0) for stalled in found))


def by_stall(kernels):
    reasons = stall_reasons(kernels)
    rows = []
    for (workload, way), kernel in kernels.items():
        stalled = counters.stalls(kernel)
        rows.append([workload, way, f"{kernel['gpu__time_duration.sum'] * 1e-3:.1f}",
                     f"{kernel['smsp__inst_executed.sum'] * 1e-6:.2f}", f"{sum(stalled.values()):.1f}",
                     *(f"{stalled.get(reason, 0):.2f}" for reason in reasons)])
    return ["workload", "strategy", "microseconds", "warp instructions, millions", "cycles per instruction",
            *reasons], rows


def tables(data):
    cases, kernels = data
    timed = [case for case in cases if case.times]
    found = {"best": by_best(timed), "tuner": by_tuner(timed), "thresholds": by_threshold(timed),
             "slower than atomics": by_loss(timed), "warps": by_lanes(cases), "stalls": by_stall(kernels)}
    return {name: table for name, table in found.items() if table[1]}


def complaints(data):
    """What tuners chose badly, as sentences."""
    cases, _ = data
    return [f"{case.name}: the tuner chose {named(way, threshold)}, {100 * over_best:.1f} % slower than the best fixed "
            f"choice, {100 * over_atomic:.1f} % slower than plain atomics"
            for case in cases if case.tuned for way, threshold, over_best, over_atomic in [case.tuned]
            if not (over_best <= OVER_BEST and over_atomic <= OVER_ATOMIC)]  # NaN fails, too


def draw(data, folder):
    cases, kernels = data
    device = ", ".join(devices(data))
    pyplot = figures.pyplot()
    if not pyplot:
        return

    def panels(shown, name, title, plot_one):
        if not shown:
            return
        columns = min(4, len(shown))
        rows = -(-len(shown) // columns)
        figure, plots = pyplot.subplots(rows, columns, figsize=(3.2 * columns, 2.6 * rows + 0.8), squeeze=False,
                                        layout="constrained")
        for plot, case in zip(plots.flat, shown):
            plot_one(plot, case)
            plot.set_title(case.name, fontsize=9)
            plot.grid(alpha=0.3)
        for plot in plots.flat[len(shown):]:
            plot.axis("off")
        figures.save(figure, plots.flat, f"{title} ({device})", os.path.join(folder, name), ncols=5, dpi=80,
                     fontsize=11, wrap=True)

    def speedups(plot, case):
        for way, colour in STRATEGIES.items():
            mine = sorted((t, case.speedup(way, t)) for (w, t) in case.times if w == way)
            if len(mine) > 1:
                plot.plot(*zip(*mine), color=colour, marker="o", markersize=3, label=way)
            elif mine:
                plot.axhline(mine[0][1], color=colour, linewidth=1, label=way)
        for way, colour, line in (("atomic", "black", "-"), ("vector", "#cc79a7", "--"), ("cub", "#d55e00", ":")):
            if (way, 0) in case.times:
                plot.axhline(case.speedup(way, 0), color=colour, linestyle=line, linewidth=1, label=way)
        plot.set_ylim(bottom=0)

    def histograms(plot, case):
        commits = sum(case.lanes[1:])
        for values, colour, label in ((case.lanes, "#0072b2", "active lanes"), (case.keys, "#d55e00", "different keys")):
            plot.step(range(1, 33), [100 * n / commits for n in values[1:]], where="mid", color=colour, label=label)
        plot.set_ylim(bottom=0)

    panels([case for case in cases if case.times], "workloads.png",
           "Times as fast as plain atomics over the threshold", speedups)
    panels(list(different(cases)), "warps.png", "Commits of a warp by what it meets, %", histograms)
    draw_stalls(pyplot, kernels, device, folder)


def draw_stalls(pyplot, kernels, device, folder):
    workloads = list(dict.fromkeys(workload for workload, _ in kernels))
    if not workloads:
        return
    reasons = stall_reasons(kernels)
    colours = dict(zip(reasons, pyplot.get_cmap("tab20").colors))
    figure, plots = pyplot.subplots(2, len(workloads), figsize=(4 * len(workloads), 5.6), squeeze=False,
                                    layout="constrained")
    for (above, below), workload in zip(plots.T, workloads):
        mine = {way: kernel for (name, way), kernel in kernels.items() if name == workload}
        ways = [way for way in WAYS if way in mine]
        from_here = [0.0] * len(ways)
        for reason in [*reasons, "other"]:
            found = [counters.stalls(mine[way]) for way in ways]
            if reason == "other":
                cycles = [sum(value for name, value in stalled.items() if name not in reasons) for stalled in found]
            else:
                cycles = [stalled.get(reason, 0) for stalled in found]
            above.bar(ways, cycles, bottom=from_here, color=colours.get(reason, "#bbbbbb"), label=reason)
            from_here = [a + b for a, b in zip(from_here, cycles)]
        above.set_title(workload, fontsize=9)
        below.bar(ways, [mine[way]["smsp__inst_executed.sum"] * 1e-6 for way in ways], color="#0072b2")
    plots[0][0].set_ylabel("cycles per instruction")
    plots[1][0].set_ylabel("warp instructions, millions")
    figures.save(figure, plots.flat, f"Why warps wait, and instructions executed ({device})",
                 os.path.join(folder, "stalls.png"), ncols=5, dpi=80, fontsize=11)
