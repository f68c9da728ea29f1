# SPDX-License-Identifier: MIT
"""Strangers' kernels: the JSON of `strangers --benchmark_out=FILE --benchmark_out_format=json`, or what is kept of it."""
import re

from . import kept

KEPT = ["strangers.jsonl"]
NAME = re.compile(r"(.+)/(\w+)/min_time:")
SAMPLES = re.compile(r"(hash_grid/F\d)_(\w+)|(\w+)/(\w+)")  # the kernel and the data of a case
CODE = ("registers", "stack", "code")
# Calls that pages name as defaults.
DEFAULTS = ("reduce", "reduce_each", "reduce_unrolled", "reduce_fields", "reduce_list_of_values", "reduce_six_records",
            "reduce_pointers", "reduce_atomic", "other_layout_reduce", "aligned_record_reduce")


def load(paths):
    """(context, {"case variant": {"us": ..., "registers": ..., "stack": ..., "code": ...}})."""
    return kept.runs(paths, NAME, ("date", "gpu"), lambda _, entry: {
        "us": float(f"{entry['real_time']:.4g}"), **{key: int(entry[key]) for key in CODE}})


def records(paths):
    return kept.records_of(*load(paths))


def devices(data):
    return [f"{data[0].get('gpu')}, {len(data[1])} runs, {data[0].get('date')}"]


def tables(data):
    all_runs = {tuple(name.split()): run for name, run in data[1].items()}
    kernels = {}  # {kernel: {variant: {data: run}}}
    for (case, variant), run in all_runs.items():
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
        [case, f"`{variant}`", f"{all_runs[case, 'plain']['us'] / run['us']:.2f}"] for (case, variant), run in all_runs.items()
        if variant in DEFAULTS and run["us"] > all_runs[case, "plain"]["us"] / 0.97])
    return found
