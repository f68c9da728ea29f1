#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports each constant on scenes that took no part in choosing it.

  benchmarks/leave_one_out.py LOG.jsonl...

A line is one run: {"scene": "fox", "options": {"dropout": 0.2}, "seed": 1, "iterations": 7000, "psnr": 31.5}. `options`
holds what differs from the defaults; it may be a command line, "--dropout 0.2 --antialias". Other keys are ignored.

A constant is an option that has several values in runs whose other options and iterations are equal; "default" is a run
without it. The scenes are those that have runs with each value. For each the table has the value with the highest PSNR
in the mean of the other scenes, what it and the default give on the scene left out, and the best value there. Numbers
are means over seeds; +-: the standard error of the gain. Of equals the default counts, then the lower value."""
import json
import math
import shlex
import sys
from statistics import fmean as mean, variance


def options_of(value):
    """The settings of a run, as a dictionary of texts."""
    if isinstance(value, dict):
        return {name: str(of) for name, of in value.items()}
    words, out = shlex.split(value), {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            name, equals, of = word[2:].partition("=")
            follows = i + 1 < len(words) and not words[i + 1].startswith("--")
            out[name] = of if equals else words[i + 1] if follows else "yes"
    return out


def read(paths):
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    run = json.loads(line)
                    psnr = float(run["psnr"])
                    if not math.isfinite(psnr):
                        raise ValueError(f"psnr {psnr}")
                    runs.append((run["scene"], options_of(run["options"]), int(run["iterations"]), psnr))
                except (ValueError, KeyError, TypeError, AttributeError) as why:
                    sys.exit(f"leave_one_out.py: {path}: line {number}: {type(why).__name__}: {why}")
    return runs


def constants(runs):
    """{(constant, iterations, other options): {value: {scene: [psnr]}}}, of those with several values."""
    tables = {}
    for name in sorted({name for _, options, _, _ in runs for name in options}):
        for scene, options, iterations, psnr in runs:
            rest = tuple(sorted((k, v) for k, v in options.items() if k != name))
            table = tables.setdefault((name, iterations, rest), {})
            table.setdefault(options.get(name, "default"), {}).setdefault(scene, []).append(psnr)
    return {key: table for key, table in tables.items() if len(table) > 1}


def squared_error(values):
    """The error of the mean; NaN of a single run."""
    return variance(values) / len(values) if len(values) > 1 else math.nan


def order(value):  # the default, numbers, texts
    try:
        return (value != "default", 0, float(value), value)
    except ValueError:
        return (value != "default", 1, 0, value)


def choose(table, values, scenes):
    return max(values, key=lambda value: mean([mean(table[value][s]) for s in scenes]))  # the first of equals


def report(key, table):
    name, iterations, rest = key
    values = sorted(table, key=order)
    scenes = sorted(set.intersection(*(set(table[value]) for value in values)))
    others = "".join(f" --{k} {v}" for k, v in rest)
    print(f"\n{name}: {', '.join(values)}; {iterations} iterations{', with' + others if others else ''}")
    if len(scenes) < 2:
        print(f"  {len(scenes)} scenes have all values; two are needed")
        return
    print(f"  {'left out':<14} {'chosen':>10} {'dB':>8} {'default':>8} {'gain':>7} {'+-':>6}  best there")
    gains = []
    for scene in scenes:
        chosen = choose(table, values, [s for s in scenes if s != scene])
        best, got = choose(table, values, [scene]), table[chosen][scene]
        start = f"  {scene:<14} {chosen:>10} {mean(got):8.2f} "
        ends = f"  {best} {mean(table[best][scene]):.2f}"
        if "default" not in table:
            print(f"{start}{'-':>8} {'-':>7} {'-':>6}{ends}")
            continue
        default = table["default"][scene]
        error = math.sqrt(squared_error(got) + squared_error(default))
        shown = "-" if math.isnan(error) or chosen == "default" else f"{error:.2f}"
        gains.append(mean(got) - mean(default))
        print(f"{start}{mean(default):8.2f} {gains[-1]:+7.2f} {shown:>6}{ends}")
    if gains:
        print(f"  {'mean':<14} {'':>10} {'':>8} {'':>8} {mean(gains):+7.2f}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for key, table in constants(read(sys.argv[1:])).items():
        report(key, table)


if __name__ == "__main__":
    main()
