# SPDX-License-Identifier: MIT
"""The library's calls beside CUB and cooperative groups: the JSON of `aggregate --benchmark_out=FILE
--benchmark_out_format=json`, or what is kept of it."""
import os
import re

from . import figures, kept

KEPT = ["aggregate.jsonl"]
WAYS = {  # name on the axis: label, colour, line
    "atomic": ("atomicAdd", "#000000", "--"),
    "serial": ("reduce_serial", "#e69f00", "-"),
    "bfly": ("reduce_bfly", "#009e73", "-"),
    "tree": ("reduce_tree", "#0072b2", "-"),
    "tree_uniform": ("reduce_tree, uniform_key", "#56b4e9", "-"),
    "fixed": ("reduce_fixed", "#f0e442", "-"),
    "cub": ("K x cub::WarpReduce", "#d55e00", ":"),
    "cub_batched": ("cub::WarpReduceBatched", "#cc79a7", ":"),
    "cub_looking": ("WarpReduceBatched, looking for the key", "#a6611a", ":"),
    "tree_every": ("a tree for each lane's key", "#56b4e9", ":"),  # deleted: in kept results only
    "cg": ("labeled_partition + cg::reduce", "#999999", ":"),
}
FLOORS = ("nothing", "commit", "totals", "tree_uniform", "cub_totals", "cub")
MIXED = 0  # on the axis of active lanes: 1 to 32, equally often
AXES = ("way", "active", "keys", "K", "targets", "threshold")
NAME = re.compile(r"aggregate/(\w+)/active:(\d+)/keys:(\d+)/K:(\d+)/targets:(\d+)/threshold:(\d+)")


class Run:
    """One place on the axes: the median of its throughput in 10^9 adds per second, its spread (deviation), and the
    threshold that `tuned` chose."""

    def __init__(self, name, median, deviation, chosen=None):
        self.way, *axes = name.split()
        self.active, self.keys, self.K, self.targets, self.threshold = map(int, axes)
        self.median, self.deviation, self.chosen = median, deviation, chosen

    def nanoseconds(self):
        """The time of one warp's call, while the whole GPU makes such calls."""
        return (self.active or 16.5) * self.K / self.median


def measured(run, entry):
    run = kept.statistics("adds_per_second", 1e-9)(run, entry)
    return [*run[:2], int(entry["chosen_threshold"])] if "chosen_threshold" in entry else run


def measurements(paths):
    return kept.runs(paths, NAME, ("date", "device", "cuda_runtime", "cub"), measured)


def load(paths):
    """(context, runs)."""
    context, runs = measurements(paths)
    return context, [Run(name, *values) for name, values in runs.items()]


def records(paths):
    """Rows of a run's place on the axes, then median and deviation; for `tuned` the chosen threshold as well."""
    context, runs = measurements(paths)
    return kept.records_of({**context, "axes": AXES}, runs)


# Pairs that do the same work: both are told that the warp has one key, or neither is. The goal is a ratio of throughputs.
SAME_WORK = (("tree_uniform", "cub_batched"), ("tree_uniform", "cub"), ("tree", "cub_looking"), ("tree", "cg"))
REASONS = {  # why a goal is missed at one key: (call, rival, K): from the instructions of the loop in SASS, sm_90
    ("tree_uniform", "cub", 1): "25 instructions in the loop, CUB 23: VOTE and BRA, so that nothing is sent if no lane is "
                                "active; CUB sends a zero",
    ("tree_uniform", "cub_batched", 1): "within 1.1%: 25 instructions, CUB 31; the atomics of both are the limit",
    ("tree", "cg", 1): "within 1%: 42 instructions, cooperative groups 43; the atomics of both are the limit",
}


def several_keys(rival, K, targets, keys):
    """The same where the keys differ. docs/notes/library.md has the counts."""
    if rival == "cg":
        ours, theirs = {1: (57, 46), 9: (51, 232), 16: (58, 393)}[K]
        return f"{ours} instructions, cooperative groups {theirs}; the atomics of both are the limit" + (
            "" if K == 1 else ", and more instructions keep them apart")
    if targets == 1 << 20 and K == 1:
        return "search and sums take 57 to 109 instructions beside 28, and the atomics that they save were idle" + (
            "; MATCH takes 2.2 cycles of an SM a key" if keys >= 8 else "")
    if targets == 1 << 20 and K == 4 and keys == 2:
        return "61 instructions beside 31, and few atomics"
    return "within 2%: the atomics of both are the limit; the search for groups comes before them"


TOLERANCE = 0.995  # of the goal: the deviation of two medians
CONTENDED, FREE = 32, 1024  # the atomics are the limit up to CONTENDED targets, and seldom from FREE on


def goal_of(rival, K):
    return 3.0 if rival == "cub" and K == 9 else 1.0


def misses(runs):
    """The cells below their goal, one row for equal call, rival, K, targets and keys; and the number of cells."""
    place = {(run.way, run.active, run.keys, run.K, run.targets): run for run in runs if run.threshold == 0}
    cells, rows = 0, {}
    for mine, rival in SAME_WORK:
        for (way, *where), run in place.items():
            other = place.get((rival, *where))
            if way != mine or not other:
                continue
            cells += 1
            active, keys, K, targets = where
            ratio = run.median / other.median
            if ratio < TOLERANCE * goal_of(rival, K):
                rows.setdefault((mine, rival, K, targets, keys), []).append((active, ratio))
    table = []
    for (mine, rival, K, targets, keys), found in rows.items():
        ratios = [ratio for _, ratio in found]
        lanes = ", ".join("1 to 32" if active == MIXED else str(active) for active, _ in sorted(found))
        spread = f"{min(ratios):.2f}" if max(ratios) - min(ratios) < 0.005 else f"{min(ratios):.2f} to {max(ratios):.2f}"
        table.append([mine, rival, K, amount(targets), keys, lanes, spread, f"{goal_of(rival, K):.1f}",
                      several_keys(rival, K, targets, keys) if keys > 1 else REASONS.get((mine, rival, K), "not known")])
    return cells, table


def select(runs, **wanted):
    return [run for run in runs if all(getattr(run, axis) == value for axis, value in wanted.items())]


def values(runs, axis):
    return sorted({getattr(run, axis) for run in runs})


def one(runs, **wanted):
    found = select(runs, **wanted)
    return found[0] if found else None


def panel(plot, runs, axis, label, title):
    """Throughput over one axis, a line for each way."""
    for way, (name, colour, line) in WAYS.items():
        mine = sorted(select(runs, way=way), key=lambda run: getattr(run, axis))
        if mine:
            plot.errorbar([getattr(run, axis) for run in mine], [run.median for run in mine],
                          [run.deviation or 0 for run in mine], color=colour, linestyle=line, marker="o",
                          markersize=3, label=name)
    finish(plot, values(runs, axis), label, title)


def finish(plot, ticks, label, title):
    plot.set_yscale("log")
    plot.set_xticks(ticks, [str(tick) for tick in ticks])
    plot.set_xlabel(label)
    plot.set_title(title, fontsize=10)
    plot.grid(alpha=0.3)


def amount(targets):
    return "1M" if targets == 1 << 20 else f"{targets:,}"


def draw(data, folder):
    context, all_runs = data
    device = context.get("device")
    pyplot = figures.pyplot()
    if not pyplot:
        return

    def save(figure, axes, name, title):
        for plot in axes[:, 0]:
            plot.set_ylabel("10⁹ adds per second")
        figures.save(figure, axes.flat, f"{title} ({device})", os.path.join(folder, name))

    def grid(rows, columns):
        return pyplot.subplots(rows, columns, figsize=(3.2 * columns, 2.6 * rows + 1), sharey="row", squeeze=False,
                               layout="constrained")

    runs = [run for run in all_runs if run.active != MIXED]
    one_key = [run for run in select(runs, keys=1, threshold=0) if run.way in WAYS]
    Ks, targets = values(one_key, "K"), values(one_key, "targets")
    if one_key:
        figure, axes = grid(len(Ks), len(targets))
        for row, K in zip(axes, Ks):
            for plot, target in zip(row, targets):
                panel(plot, select(one_key, K=K, targets=target), "active", "active lanes",
                      f"K = {K}, targets = {amount(target)}")
        save(figure, axes, "aggregate_lanes.png", "One key per warp")

    several = [run for run in select(runs, threshold=0)
               if run.way in WAYS and run.way not in ("tree_uniform", "cub", "cub_batched")]
    several = select(several, K=9, targets=1024)
    shown = [active for active in values(several, "active") if len(values(select(several, active=active), "keys")) > 1]
    if shown:
        figure, axes = grid(1, len(shown))
        for plot, active in zip(axes[0], shown):
            panel(plot, select(several, active=active), "keys", "distinct keys", f"{active} active lanes")
            plot.set_xscale("log", base=2)
            plot.set_xticks(values(several, "keys"), [str(key) for key in values(several, "keys")])
        save(figure, axes, "aggregate_keys.png", "Several keys per warp, K = 9, targets = 1,024")

    thresholds = select(all_runs, way="tree", keys=1, active=MIXED)
    if len(values(thresholds, "threshold")) > 1:
        figure, axes = grid(1, len(values(thresholds, "targets")))
        for plot, target in zip(axes[0], values(thresholds, "targets")):
            for place, K in enumerate(values(thresholds, "K")):
                colour = pyplot.cm.viridis(place / 4)
                mine = sorted(select(thresholds, targets=target, K=K), key=lambda run: run.threshold)
                plot.plot([run.threshold for run in mine], [run.median for run in mine], color=colour, marker="o",
                          markersize=3, label=f"K = {K}")
                for tuned in select(all_runs, way="tuned", targets=target, K=K):
                    plot.plot([tuned.chosen], [tuned.median], color=colour, marker="s", markersize=8, fillstyle="none",
                              linestyle="", label="what tune.h chose" if place == 0 else None)
            finish(plot, [tick for tick in values(thresholds, "threshold") if tick not in (2, 3, 6)],
                   "balance_threshold", f"targets = {amount(target)}")
        save(figure, axes, "aggregate_threshold.png", "reduce_tree, one key, 1 to 32 active lanes")


def devices(data):
    context, runs = data
    return [f"{context.get('device')}, CUDA runtime {context.get('cuda_runtime')}, CUB {context.get('cub')}, "
            f"{len(runs)} runs, {context.get('date')}"]


def tables(data):
    _, runs = data
    one_key = [run for run in select(runs, keys=1, threshold=0) if run.active != MIXED]
    places = [(K, target) for K in values(one_key, "K") for target in values(one_key, "targets")]
    whole = select(one_key, active=32)
    ways = [way for way in WAYS if select(whole, way=way)]

    def median(run):
        return run and (f"{run.median:.3g}" if run.median < 100 else f"{run.median:,.0f}")

    def ratio(mine, other):
        return f"{mine.median / other.median:.2f}" if mine and other else None

    found = {"one key": (["K, targets", *ways], [
        [f"{K}, {amount(target)}", *(median(one(whole, way=way, K=K, targets=target)) for way in ways)]
        for K, target in places])}
    several = [run for run in select(runs, threshold=0, active=32, K=9, targets=1024) if run.way in WAYS]
    keys = values(several, "keys")
    found["several keys"] = (["call", *keys], [
        [way, *(median(one(several, way=way, keys=count)) for count in keys)]
        for way in WAYS if len(select(several, way=way)) > 1])
    found["parts"] = (["K, targets", *FLOORS], [
        [f"{K}, {amount(target)}", *(run and f"{run.nanoseconds():.4f}" for run in (
            one(whole, way=way, K=K, targets=target) for way in FLOORS))] for K, target in places])
    targets = values(one_key, "targets")
    found["rivals"] = (["call", "rival", "K", *map(amount, targets)], [
        [way, rival, K, *(ratio(one(whole, way=way, K=K, targets=target), one(whole, way=rival, K=K, targets=target))
                          for target in targets)]
        for way in ("tree", "tree_uniform") for rival in ("cub", "cub_batched", "cub_looking", "cg")
        for K in values(one_key, "K")])
    rows = []
    for way, rival in (("tree", "cub"), ("tree", "cub_batched"), *SAME_WORK):
        for K in values(one_key, "K"):
            cells = []
            for some in ([t for t in targets if t <= CONTENDED], [t for t in targets if t >= FREE]):
                found_here = [one(whole, way=way, K=K, targets=t).median / one(whole, way=rival, K=K, targets=t).median
                              for t in some if one(whole, way=rival, K=K, targets=t)]
                cells.append(found_here and " to ".join(dict.fromkeys(f"{r:.2f}" for r in (min(found_here), max(found_here)))))
            rows.append([way, rival, K, *cells])
    found["summary"] = (["call", "rival", "K", f"up to {CONTENDED} targets", f"from {FREE:,} targets"], rows)
    actives = values(one_key, "active")
    rows = []
    for K, target in places:
        here, all_here = (select(some, K=K, targets=target) for some in (one_key, runs))
        cells = [ratio(one(here, way="tree", active=active), one(here, way="atomic", active=active))
                 for active in actives]
        mixed, tuned = select(all_here, way="tree", keys=1, active=MIXED), one(all_here, way="tuned")
        if mixed and tuned:
            best = max(mixed, key=lambda run: run.median)
            chosen, at_0 = one(mixed, threshold=tuned.chosen), one(mixed, threshold=0)
            cells += [best.threshold, f"{best.median / at_0.median - 1:.1%}", tuned.chosen,
                      f"{chosen.median / best.median:.1%}"]
        rows.append([f"{K}, {amount(target)}", *cells])
    found["thresholds"] = (["K, targets", *actives, "best", "gain", "tuned", "keeps"], rows)
    cells, missed = misses(runs)
    if cells:
        found["cells"] = (["cells compared", "cells that miss"], [
            [f"{cells:,}", sum(len(row[5].split(", ")) for row in missed)]])
        found["misses"] = (["call", "rival", "K", "targets", "keys", "active lanes", "ratio", "goal", "reason"], missed)
    spread = sorted(run.deviation / run.median for run in runs)
    if spread:
        found["deviation"] = (["runs", "deviation over median: median", "largest"], [
            [f"{len(spread):,}", f"{spread[len(spread) // 2]:.1%}", f"{spread[-1]:.1%}"]])
    return {name: table for name, table in found.items() if table[1]}
