#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what build/.../aggregate measured, and prints its main figures as Markdown. Reads what it keeps, too.

    benchmarks/plot.py build/aggregate.json -o docs/pictures --keep benchmarks/results/aggregate.json
"""
import argparse
import json
import os
import re
import sys

import figures

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
    "cg": ("labeled_partition + cg::reduce", "#999999", ":"),
}
FLOORS = ("nothing", "commit", "totals", "tree_uniform", "cub_totals", "cub")
MIXED = 0  # on the axis of active lanes: 1 to 32, equally often
AXES = ("way", "active", "keys", "K", "targets", "threshold")
NAME = re.compile(r"aggregate/(\w+)/active:(\d+)/keys:(\d+)/K:(\d+)/targets:(\d+)/threshold:(\d+)")


class Run:
    """One place on the axes: the median of its throughput in 10^9 adds a second, and its spread (deviation)."""

    def __init__(self, way, *axes):
        self.way = way
        self.active, self.keys, self.K, self.targets, self.threshold = map(int, axes)
        self.median = self.deviation = self.chosen = None

    def nanoseconds(self):
        """Of a call of a warp, the whole GPU making them."""
        return (self.active or 16.5) * self.K / self.median


def load(path):
    """The context and the runs of a report of Google Benchmark, or of a file that keep() wrote."""
    with open(path) as file:
        report = json.load(file)
    runs = {}
    if "runs" in report:
        for name, (median, deviation, *chosen) in report["runs"].items():
            run = runs[name] = Run(*name.split())
            run.median, run.deviation, run.chosen = median, deviation, chosen[0] if chosen else None
        return report["context"], list(runs.values())
    for entry in report["benchmarks"]:
        name = NAME.match(entry["name"])
        if not name:
            continue
        if entry.get("error_occurred"):
            sys.exit(f"{path}: {entry['name']}: {entry.get('error_message')}")
        run = runs.setdefault(name[0], Run(*name.groups()))
        if entry.get("aggregate_name") == "median":
            run.median = entry["adds_per_second"] * 1e-9
            run.chosen = int(entry["chosen_threshold"]) if "chosen_threshold" in entry else None
        elif entry.get("aggregate_name") == "stddev":
            run.deviation = entry["adds_per_second"] * 1e-9
    runs = [run for run in runs.values() if run.median is not None]
    if not runs:
        sys.exit(f"{path}: holds no medians of aggregate")
    return report["context"], runs


def keep(context, runs, path):
    """A line a run, named by its place on the axes: median and deviation, 10^9 adds a second; of `tuned` the
    threshold as well."""
    context = {key: context[key] for key in ("date", "device", "cuda_runtime", "cub") if key in context}
    lines = []
    for run in runs:
        name = " ".join(str(getattr(run, axis)) for axis in AXES)
        values = [float(f"{run.median:.5g}"), float(f"{run.deviation or 0:.1g}")]
        lines.append(json.dumps(name) + ":" + json.dumps(values + ([] if run.chosen is None else [run.chosen])))
    with open(path, "w") as file:
        file.write(f'{{"context": {json.dumps(context)},\n"axes": {json.dumps(AXES)},\n"runs": {{\n')
        file.write(",\n".join(lines) + "\n}}\n")


def select(runs, **wanted):
    return [run for run in runs if all(getattr(run, axis) == value for axis, value in wanted.items())]


def values(runs, axis):
    return sorted({getattr(run, axis) for run in runs})


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


def draw(all_runs, device, folder):
    pyplot = figures.pyplot()
    if not pyplot:
        return

    def save(figure, axes, name, title):
        for plot in axes[:, 0]:
            plot.set_ylabel("10⁹ adds a second")
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
        save(figure, axes, "aggregate_lanes.png", "One key a warp")

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
        save(figure, axes, "aggregate_keys.png", "Several keys a warp, K = 9, targets = 1,024")

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


def one(runs, **wanted):
    found = select(runs, **wanted)
    return found[0] if found else None


def print_tables(runs):
    one_key = [run for run in select(runs, keys=1, threshold=0) if run.active != MIXED]
    for K in values(one_key, "K"):
        ways = [way for way in WAYS if select(one_key, K=K, way=way)]
        print(f"\nOne key, K = {K}, 10^9 adds/s (median):\n")
        print("| targets | active | " + " | ".join(ways) + " |")
        print("|---|---|" + "---|" * len(ways))
        for target in values(one_key, "targets"):
            for active in values(one_key, "active"):
                cells = []
                for way in ways:
                    found = one(one_key, K=K, way=way, targets=target, active=active)
                    cells.append(f"{found.median:.3g}" if found else "")
                print(f"| {amount(target)} | {active} | " + " | ".join(cells) + " |")

    print("\nNanoseconds a call, 32 lanes; `totals` and `cub_totals` commit nothing, `commit` sums nothing:\n")
    print("| K, targets | " + " | ".join(FLOORS) + " |\n|---|" + "---|" * len(FLOORS))
    for K in values(one_key, "K"):
        for target in values(one_key, "targets"):
            found = [one(one_key, way=way, K=K, targets=target, active=32) for way in FLOORS]
            print(f"| {K}, {amount(target)} | " +
                  " | ".join(f"{run.nanoseconds():.4f}" if run else "" for run in found) + " |")

    print("\nreduce_tree's throughput over that of its rivals, one key (the warp's key is told to `tree_uniform` "
          "and to cub's), 32 lanes\n")
    print("| way | rival | K | " + " | ".join(amount(target) for target in values(one_key, "targets")) + " |")
    print("|---|---|---|" + "---|" * len(values(one_key, "targets")))
    for way in ("tree", "tree_uniform"):
        for rival in ("cub", "cub_batched", "cub_looking", "cg"):
            for K in values(one_key, "K"):
                cells = []
                for target in values(one_key, "targets"):
                    mine = one(one_key, way=way, K=K, targets=target, active=32)
                    other = one(one_key, way=rival, K=K, targets=target, active=32)
                    cells.append(f"{mine.median / other.median:.2f}" if mine and other else "absent")
                print(f"| {way} | {rival} | {K} | " + " | ".join(cells) + " |")

    actives = [active for active in values(one_key, "active")]
    print("\nreduce_tree at threshold 0 over plain atomics by active lanes; and with 1 to 32 active lanes, equally often: "
          "the best threshold, what it gains over threshold 0, what tune.h chose, and what it keeps of the best\n")
    print("| K, targets | " + " | ".join(map(str, actives)) + " | best | gain | tuned | keeps |")
    print("|---|" + "---|" * len(actives) + "---|---|---|---|")
    for K in values(one_key, "K"):
        for target in values(one_key, "targets"):
            cells = []
            for active in actives:
                tree = one(one_key, way="tree", K=K, targets=target, active=active)
                plain = one(one_key, way="atomic", K=K, targets=target, active=active)
                cells.append(f"{tree.median / plain.median:.2f}" if tree and plain else "")
            mixed = select(runs, way="tree", K=K, targets=target, keys=1, active=MIXED)
            tuned = one(runs, way="tuned", K=K, targets=target)
            if mixed and tuned:
                best = max(mixed, key=lambda run: run.median)
                chosen = one(mixed, threshold=tuned.chosen)
                at_0 = one(mixed, threshold=0)
                cells += [str(best.threshold), f"{best.median / at_0.median - 1:.1%}", str(tuned.chosen),
                          f"{chosen.median / best.median:.1%}"]
            print(f"| {K}, {amount(target)} | " + " | ".join(cells) + " |")

    spread = [run.deviation / run.median for run in runs if run.deviation is not None]
    if spread:
        print(f"\nDeviation over median, {len(spread)} runs: median {sorted(spread)[len(spread) // 2]:.1%}, "
              f"largest {max(spread):.1%}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", nargs="+", help="written by aggregate --benchmark_out=FILE --benchmark_out_format=json")
    parser.add_argument("-o", "--output", help="folder for the pictures; without it only the figures are printed")
    parser.add_argument("--keep", metavar="FILE", help="write the medians there")
    options = parser.parse_args()
    runs = {}
    for path in options.json:  # of runs measured twice the last counts
        context, loaded = load(path)
        runs.update({tuple(getattr(run, axis) for axis in AXES): run for run in loaded})
    runs = list(runs.values())
    print(f"{context.get('device')}, CUDA runtime {context.get('cuda_runtime')}, CUB {context.get('cub')}, "
          f"{len(runs)} runs, {context.get('date')}")
    print_tables(runs)
    if options.keep:
        keep(context, runs, options.keep)
    if options.output:
        os.makedirs(options.output, exist_ok=True)
        draw(runs, context.get("device"), options.output)


if __name__ == "__main__":
    main()
