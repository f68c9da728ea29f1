# SPDX-License-Identifier: MIT
"""Whole problems beside CUB, Dr.Jit and NVIDIA Warp: the JSON of `whole` and of rivals.py, or what is kept of them."""
import re

from . import kept

NAME = re.compile(r"whole/(\w+)/(\w+)/K:(\d+)/bins:(\d+)/exponent:(\d+)/sorted:(\d)")
WAYS = ("atomic", "vector", "serial", "tree", "tree_vector", "runs", "hot_slots", "hot_tree", "cub", "drjit_direct",
        "drjit_local", "warp")
KEPT = ["whole.jsonl"]
CONTEXT = ("date", "device", "cuda_runtime", "cub", "drjit", "warp")


def load(paths):
    """(context, {(problem, way, K, bins, exponent, sorted): [median, deviation] in 10^9 adds a second})."""
    context, runs = {}, {}
    for record, report in kept.read(paths):
        if "run" in report:
            problem, way, *axes = record.split()
            runs[(problem, way, *map(int, axes))] = report["run"]
            continue
        of = report if record == "context" else report.get("context", {})
        context.update({key: of[key] for key in CONTEXT if key in of})
        for entry in report.get("benchmarks", ()):
            name = NAME.match(entry["name"])
            if not name:
                continue
            if entry.get("error_occurred"):
                raise SystemExit(f"{record}: {entry['name']}: {entry.get('error_message')}")
            place = ("median", "stddev").index(entry["aggregate_name"]) if entry.get("aggregate_name") in (
                "median", "stddev") else None
            if place is not None:
                key = (name[1], name[2], *map(int, name.groups()[2:]))
                runs.setdefault(key, [0, 0])[place] = entry["adds_per_second"] * 1e-9
    return context, runs


def records(paths):
    context, runs = load(paths)
    return [("context", context), *(
        (" ".join(map(str, key)), {"run": [float(f"{median:.5g}"), float(f"{deviation:.1g}")]})
        for key, (median, deviation) in runs.items())]


def devices(data):
    return [", ".join(f"{key} {value}" for key, value in data[0].items())]


def tables(data):
    _, runs = data
    found = {}
    for problem, first in (("histogram", "bins, exponent"), ("scatter", "K, rows, exponent")):
        for is_sorted, suffix in ((0, ""), (1, " of sorted keys")):
            mine = {key[1:5]: values[0] for key, values in runs.items() if key[0] == problem and key[5] == is_sorted}
            ways = [way for way in WAYS if any(key[0] == way for key in mine)]
            places = sorted({key[1:] for key in mine})
            found[problem + suffix] = ([first, *ways], [
                [(f"{K}, " if problem == "scatter" else "") + f"{bins:,}, {exponent}",
                 *(mine.get((way, K, bins, exponent)) and f"{mine[way, K, bins, exponent]:.3g}" for way in ways)]
                for K, bins, exponent in places])
    return {name: table for name, table in found.items() if table[1]}
