#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what build/.../aggregate measured, and prints its main figures as Markdown.

    benchmarks/plot.py build/aggregate.json -o docs/pictures
"""
import argparse
import json
import os
import re
import sys

WAYS = {  # name on the axis: label, colour, line
    "atomic": ("atomicAdd", "#000000", "--"),
    "serial": ("reduce_serial", "#e69f00", "-"),
    "bfly": ("reduce_bfly", "#009e73", "-"),
    "tree": ("reduce_tree", "#0072b2", "-"),
    "tree_uniform": ("reduce_tree, uniform_key", "#56b4e9", "-"),
    "cub": ("K x cub::WarpReduce", "#d55e00", ":"),
    "cub_batched": ("cub::WarpReduceBatched", "#cc79a7", ":"),
    "cg": ("labeled_partition + cg::reduce", "#999999", ":"),
}
NAME = re.compile(r"aggregate/(\w+)/active:(\d+)/keys:(\d+)/K:(\d+)/targets:(\d+)/threshold:(\d+)")


class Run:
    """One place on the axes: the median of its throughput in 10^9 adds a second, and its spread (deviation)."""

    def __init__(self, name):
        self.way = name[1]
        self.active, self.keys, self.K, self.targets, self.threshold = map(int, name.groups()[1:])
        self.median = self.deviation = self.microseconds = None


def load(path):
    with open(path) as file:
        report = json.load(file)
    runs = {}
    for entry in report["benchmarks"]:
        name = NAME.match(entry["name"])
        if not name:
            continue
        if entry.get("error_occurred"):
            sys.exit(f"{path}: {entry['name']}: {entry.get('error_message')}")
        run = runs.setdefault(name[0], Run(name))
        if entry.get("aggregate_name") == "median":
            run.median, run.microseconds = entry["adds_per_second"] * 1e-9, entry["real_time"]
        elif entry.get("aggregate_name") == "stddev":
            run.deviation = entry["adds_per_second"] * 1e-9
    runs = [run for run in runs.values() if run.median is not None]
    if not runs:
        sys.exit(f"{path}: holds no medians of aggregate")
    return report["context"], runs


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


def draw(runs, device, folder):
    try:
        import matplotlib
    except ImportError:
        print("python3 has no matplotlib: nothing is drawn", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    def save(figure, axes, name, title):
        handles = {}
        for plot in axes.flat:
            for handle, label in zip(*plot.get_legend_handles_labels()):
                handles.setdefault(label, handle)
        for plot in axes[:, 0]:
            plot.set_ylabel("10⁹ adds a second")
        figure.suptitle(f"{title} ({device})")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9)
        path = os.path.join(folder, name)
        figure.savefig(path, dpi=100)
        pyplot.close(figure)
        print(f"drawn: {path}", file=sys.stderr)

    def grid(rows, columns):
        return pyplot.subplots(rows, columns, figsize=(3.2 * columns, 2.6 * rows + 1), sharey="row", squeeze=False,
                               layout="constrained")

    one_key = select(runs, keys=1, threshold=0)
    Ks, targets = values(one_key, "K"), values(one_key, "targets")
    if one_key:
        figure, axes = grid(len(Ks), len(targets))
        for row, K in zip(axes, Ks):
            for plot, target in zip(row, targets):
                panel(plot, select(one_key, K=K, targets=target), "active", "active lanes",
                      f"K = {K}, targets = {amount(target)}")
        save(figure, axes, "aggregate_lanes.png", "One key a warp")

    several = [run for run in select(runs, threshold=0) if not run.way in ("tree_uniform", "cub", "cub_batched")]
    several = select(several, K=9, targets=1024)
    shown = [active for active in values(several, "active") if len(values(select(several, active=active), "keys")) > 1]
    if shown:
        figure, axes = grid(1, len(shown))
        for plot, active in zip(axes[0], shown):
            panel(plot, select(several, active=active), "keys", "distinct keys", f"{active} active lanes")
            plot.set_xscale("log", base=2)
            plot.set_xticks(values(several, "keys"), [str(key) for key in values(several, "keys")])
        save(figure, axes, "aggregate_keys.png", "Several keys a warp, K = 9, targets = 1,024")

    tree = select(runs, way="tree", keys=1, K=9)
    if len(values(tree, "threshold")) > 1:
        figure, axes = grid(1, len(values(tree, "targets")))
        actives = values(tree, "active")
        for plot, target in zip(axes[0], values(tree, "targets")):
            for place, active in enumerate(actives):
                colour = pyplot.cm.viridis(place / len(actives))
                mine = sorted(select(tree, targets=target, active=active), key=lambda run: run.threshold)
                plot.plot([run.threshold for run in mine], [run.median for run in mine], color=colour, marker="o",
                          markersize=3, label=f"{active} active lanes")
                for plain in select(runs, way="atomic", keys=1, K=9, targets=target, active=active):
                    plot.axhline(plain.median, color=colour, linestyle="--", linewidth=0.8,
                                 label="dashed: atomicAdd" if active == actives[-1] else None)
            finish(plot, values(tree, "threshold"), "balance_threshold", f"targets = {amount(target)}")
        save(figure, axes, "aggregate_threshold.png", "reduce_tree, one key, K = 9")


def print_tables(runs):
    one_key = select(runs, keys=1, threshold=0)
    for K in values(one_key, "K"):
        ways = [way for way in WAYS if select(one_key, K=K, way=way)]
        print(f"\nOne key, K = {K}, 10^9 adds/s (median):\n")
        print("| targets | active | " + " | ".join(ways) + " |")
        print("|---|---|" + "---|" * len(ways))
        for target in values(one_key, "targets"):
            for active in values(one_key, "active"):
                cells = []
                for way in ways:
                    found = select(one_key, K=K, way=way, targets=target, active=active)
                    cells.append(f"{found[0].median:.3g}" if found else "")
                print(f"| {amount(target)} | {active} | " + " | ".join(cells) + " |")

    print("\nreduce_tree's throughput over that of its rivals, one key (the warp's key is told to `tree_uniform` "
          "and to cub's): least, and where\n")
    print("| way | rival | least ratio | there | ratio at K = 9, 32 lanes, 1,024 targets |")
    print("|---|---|---|---|---|")
    for way in ("tree", "tree_uniform"):
        for rival in ("atomic", "cub", "cub_batched", "cg"):
            ratios = {}
            for run in select(one_key, way=way):
                for other in select(one_key, way=rival, K=run.K, targets=run.targets, active=run.active):
                    ratios[run.K, run.active, run.targets] = run.median / other.median
            if not ratios:
                print(f"| {way} | {rival} | absent | | |")
                continue
            K, active, targets = least = min(ratios, key=ratios.get)
            usual = ratios.get((9, 32, 1024))
            print(f"| {way} | {rival} | {ratios[least]:.2f} | K = {K}, {active} lanes, {amount(targets)} targets | "
                  f"{usual:.2f} |" if usual else " |")

    print("\nWhere plain atomics beat reduce_tree at threshold 0, and by how much:\n")
    for run in select(one_key, way="tree"):
        for plain in select(one_key, way="atomic", K=run.K, targets=run.targets, active=run.active):
            if plain.median > run.median:
                print(f"- K = {run.K}, {run.active} lanes, {amount(run.targets)} targets: "
                      f"{plain.median / run.median:.2f} times")

    print("\nWhat a threshold keeps of the better of reduce_tree at 0 and plain atomics, K = 9, one key: least over the "
          "active lanes\n")
    thresholds = values(select(runs, way="tree"), "threshold")
    print("| targets | " + " | ".join(f"threshold {threshold}" for threshold in thresholds) + " |")
    print("|---|" + "---|" * len(thresholds))
    for target in values(one_key, "targets"):
        cells = []
        for threshold in thresholds:
            kept = []
            for run in select(runs, way="tree", keys=1, K=9, targets=target, threshold=threshold):
                others = [other.median for way in ("tree", "atomic")
                          for other in select(one_key, way=way, K=9, targets=target, active=run.active)]
                kept.append(run.median / max(others))
            cells.append(f"{min(kept):.0%}" if kept else "")
        print(f"| {amount(target)} | " + " | ".join(cells) + " |")

    spread = [run.deviation / run.median for run in runs if run.deviation is not None]
    if spread:
        print(f"\nDeviation over median, {len(spread)} runs: median {sorted(spread)[len(spread) // 2]:.1%}, "
              f"largest {max(spread):.1%}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", help="written by aggregate --benchmark_out=FILE --benchmark_out_format=json")
    parser.add_argument("-o", "--output", help="folder for the pictures; without it only the figures are printed")
    options = parser.parse_args()
    context, runs = load(options.json)
    print(f"{context.get('device')}, CUDA runtime {context.get('cuda_runtime')}, CUB {context.get('cub')}, "
          f"{len(runs)} runs, {context.get('date')}")
    print_tables(runs)
    if options.output:
        os.makedirs(options.output, exist_ok=True)
        draw(runs, context.get("device"), options.output)


if __name__ == "__main__":
    main()
