# SPDX-License-Identifier: MIT
"""Strangers' kernels: the JSON of `strangers --benchmark_out=FILE --benchmark_out_format=json`, or what is kept of it."""
import re
import sys

from . import kept

KEPT = ["strangers.jsonl"]
NAME = re.compile(r"(.+)/(\w+)/min_time:[\d.]+/manual_time$")
SAMPLES = re.compile(r"(hash_grid/F\d)_(\w+)|(\w+)/(\w+)")  # the kernel and the data of a case
CODE = ("registers", "stack", "code")
# Calls that pages name as defaults.
DEFAULTS = ("reduce", "reduce_each", "reduce_unrolled", "reduce_fields", "reduce_list_of_values", "reduce_six_records",
            "reduce_pointers", "reduce_atomic", "other_layout_reduce", "aligned_record_reduce")


def load(paths):
    """(context, {(case, variant): {"us": ..., "registers": ..., "stack": ..., "code": ...}})."""
    context, runs = {}, {}
    for record, report in kept.read(paths):
        if "run" in report:
            runs[tuple(record.split())] = report["run"]
            continue
        of = report if record == "context" else report.get("context", {})
        context.update({key: of[key] for key in ("date", "gpu") if key in of})
        for entry in report.get("benchmarks", ()):
            name = NAME.match(entry["name"])
            if not name:
                continue
            if entry.get("error_occurred"):
                sys.exit(f"{record}: {entry['name']}: {entry.get('error_message')}")
            runs[name[1], name[2]] = {"us": entry["real_time"], **{key: int(entry[key]) for key in CODE}}
    return context, runs


def records(paths):
    context, runs = load(paths)
    return [("context", context), *(
        (" ".join(key), {"run": {**run, "us": float(f"{run['us']:.4g}")}}) for key, run in runs.items())]


def devices(data):
    return [f"{data[0].get('gpu')}, {len(data[1])} runs, {data[0].get('date')}"]


def tables(data):
    kernels = {}  # {kernel: {variant: {data: run}}}
    for (case, variant), run in data[1].items():
        part = SAMPLES.match(case)
        kernel, of = (part[1], part[2]) if part[1] else (part[3], part[4])
        kernels.setdefault(kernel, {}).setdefault(variant, {})[of] = run
    found = {}
    for kernel, variants in kernels.items():
        of = list(variants["plain"])
        found[kernel.replace("/", " ")] = (["variant", *(name.replace("_", " ") for name in of), *CODE], [
            [variant, *(name in runs and f"{runs[name]['us']:.4g} us, {variants['plain'][name]['us'] / runs[name]['us']:.2f}"
                        or None for name in of), *(next(iter(runs.values()))[key] for key in CODE)]
            for variant, runs in variants.items()])
    found["below 0.97"] = (["case", "variant", "of plain"], [
        [case, f"`{variant}`", f"{data[1][case, 'plain']['us'] / run['us']:.2f}"] for (case, variant), run in data[1].items()
        if variant in DEFAULTS and run["us"] > data[1][case, "plain"]["us"] / 0.97])
    return found
