# SPDX-License-Identifier: MIT
"""Sums by index beside torch's: the JSON of benchmarks/index_add.py."""
import math
import os
import statistics

from . import kept

KEPT = ["index-add.jsonl"]
PAIRS = {"index_add": ("ours", ("torch", "scatter_add")),
         "deterministic": ("ours_deterministic", ("torch_deterministic",)),
         "embedding": ("ours_embedding", ("embedding",))}


def load(paths):
    """(context, {(type, N, M, K, exponent): {way: microseconds}})."""
    context, runs = {}, {}
    for name, report in kept.read(paths):
        if "run" in report:
            kind, *axes = name.split()
            runs[(kind, *map(int, axes))] = report["run"]
        else:
            context.update(report if name == "context" else report["context"])
            runs.update({tuple(run[:5]): run[5] for run in report.get("runs", ())})
    return context, runs


def records(paths):
    context, runs = load(paths)
    return [("context", context), *((" ".join(map(str, case)), {"run": {
        way: us for way, us in times.items() if not way.startswith("way_")}}) for case, times in runs.items())]


def devices(data):
    return [", ".join(f"{key} {value}" for key, value in data[0].items())]


def times_as_fast(times, pair):
    """By the faster of torch's calls. None: torch's was not measured."""
    ours, theirs = PAIRS[pair]
    rivals = [times[way] for way in theirs if way in times]
    if not rivals or ours not in times:
        return None
    return min(rivals) / times[ours]


def shown(us):
    return None if us is None else f"{us:,.0f}" if us >= 100 else f"{us:.1f}"


def cell(gain):
    """Rounded down."""
    if gain is None:
        return None
    digits = 0 if gain >= 100 else 1 if gain >= 10 else 2
    return f"{math.floor(gain * 10**digits) / 10**digits:,.{digits}f}"


def tables(data):
    _, runs = data
    found = {}
    for name in ("float32", "float16", "bfloat16"):
        rows = []
        for case, times in runs.items():
            if case[0] != name:
                continue
            _, N, M, K, exponent = case
            gain = {pair: times_as_fast(times, pair) for pair in PAIRS}
            rows.append([f"{N:,}", f"{M:,}", K, exponent,
                         *(shown(times.get(way)) for way in ("torch", "scatter_add", "ours")), cell(gain["index_add"]),
                         *(shown(times.get(way)) for way in ("torch_deterministic", "ours_deterministic")),
                         cell(gain["deterministic"]),
                         *(shown(times.get(way)) for way in ("embedding", "ours_embedding")), cell(gain["embedding"])])
        if rows:
            found[name] = (["N", "M", "K", "exponent", "index_add_", "scatter_add_", "distwar", "times as fast",
                            "deterministic index_add_", "distwar", "times as fast", "embedding backward", "distwar",
                            "times as fast"], rows)
    brief = []
    for exponent in sorted({case[4] for case in runs}):
        row = [exponent]
        for pair in PAIRS:
            gains = [g for case, times in runs.items() if case[4] == exponent
                     for g in [times_as_fast(times, pair)] if g is not None]
            spread = (min(gains), statistics.median_low(gains), max(gains)) if gains else ()
            row += [", ".join(map(cell, spread)), sum(g < 0.97 for g in gains)]
        brief.append(row)
    if brief:
        header = ["exponent"]
        for pair in PAIRS:
            header += [f"{pair}: least, median, most", "cases over 3% slower"]
        found["in brief"] = (header, brief)
    return found


def draw(data, folder):
    from . import figures
    plt = figures.pyplot()
    if not plt:
        return
    context, runs = data
    kinds = (("index_add", "beside the faster of index_add_ and scatter_add_"),
             ("deterministic", "deterministic, beside torch's deterministic index_add_"))
    sizes = sorted({case[1] for case in runs if case[0] == "float32" and case[2] == 10**5})
    figure, plots = plt.subplots(len(kinds), len(sizes), figsize=(3.4 * len(sizes), 6.4), sharex=True, sharey="row",
                                 squeeze=False)
    for line, (pair, title) in zip(plots, kinds):
        for plot, N in zip(line, sizes):
            for exponent in (0, 1, 2):
                points = sorted((case[3], times_as_fast(times, pair)) for case, times in runs.items()
                                if case[:3] == ("float32", N, 10**5) and case[4] == exponent and
                                times_as_fast(times, pair) is not None)
                plot.plot(*zip(*points), marker="o", label=f"Zipf exponent {exponent}") if points else None
            plot.axhline(1, color="gray", linewidth=1)
            plot.set_xscale("log", base=2)
            plot.set_yscale("log")
            plot.set_title(f"{N:,} rows", fontsize=9)
            plot.grid(alpha=0.3)
        line[0].set_ylabel(title.replace(", beside", ",\nbeside"), fontsize=8)
    for plot in plots[-1]:
        plot.set_xlabel("K, values of a row")
    figures.save(figure, plots.flat, f"Times as fast as torch: float32, 100,000 rows, {context['device']}",
                 os.path.join(folder, "index_add.png"))
