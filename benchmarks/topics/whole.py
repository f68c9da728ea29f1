# SPDX-License-Identifier: MIT
"""Whole problems beside CUB, Dr.Jit and NVIDIA Warp: the JSON of `whole` and of rivals.py, or what is kept of them."""
import json
import re

NAME = re.compile(r"whole/(\w+)/(\w+)/K:(\d+)/bins:(\d+)/exponent:(\d+)/sorted:(\d)")
WAYS = ("atomic", "vector", "serial", "tree", "tree_vector", "runs", "hot_slots", "hot_tree", "cub", "drjit_direct",
        "drjit_local", "warp")
KEPT = ["whole-h200.json"]
CONTEXT = ("date", "device", "cuda_runtime", "cub", "drjit", "warp")


def load(paths):
    """(context, {(problem, way, K, bins, exponent, sorted): [median, deviation] in 10^9 adds a second})."""
    context, runs = {}, {}
    for path in paths:
        with open(path) as file:
            report = json.load(file)
        context.update({key: report["context"][key] for key in CONTEXT if key in report["context"]})
        for name, values in report.get("runs", {}).items():
            problem, way, *axes = name.split()
            runs[(problem, way, *map(int, axes))] = values
        for entry in report.get("benchmarks", ()):
            name = NAME.match(entry["name"])
            if not name:
                continue
            if entry.get("error_occurred"):
                raise SystemExit(f"{path}: {entry['name']}: {entry.get('error_message')}")
            place = ("median", "stddev").index(entry["aggregate_name"]) if entry.get("aggregate_name") in (
                "median", "stddev") else None
            if place is not None:
                key = (name[1], name[2], *map(int, name.groups()[2:]))
                runs.setdefault(key, [0, 0])[place] = entry["adds_per_second"] * 1e-9
    return context, runs


def keep(data, path):
    context, runs = data
    lines = [json.dumps(" ".join(map(str, key))) + ":" + json.dumps([float(f"{median:.5g}"), float(f"{deviation:.1g}")])
             for key, (median, deviation) in runs.items()]
    with open(path, "w") as file:
        file.write(f'{{"context": {json.dumps(context)},\n"runs": {{\n' + ",\n".join(lines) + "\n}}\n")


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
