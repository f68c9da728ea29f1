#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of the pages, from what was measured.

    benchmarks/tables.py show PATH...   prints the tables of what the programs and scripts of benchmarks/ wrote: folders or
                                        files, *.json, *.jsonl and *.csv of Nsight Compute
    benchmarks/tables.py keep PATH... [--commit C] [--only BEGIN]   keeps their rows in benchmarks/results, if a page shows
                                        their table, in place of those of the same key; C: the commit that was measured,
                                        HEAD unless given; BEGIN: of the names of tables
    benchmarks/tables.py write          writes the tables from benchmarks/results into the pages, between
                                        <!-- table NAME --> and <!-- end -->, and forgets rows that no page shows
    benchmarks/tables.py check          fails if a page differs from that, if a marker names no table, or if rows that are
                                        kept are on no page

A line of benchmarks/results/TOPIC.jsonl is a row: its table, TOPIC/NAME, the cells that are its key, the others as the page
shows them, and the commit. Rows of a table that no function here makes come from a program that was deleted.
"""
import argparse
import collections
import csv
import glob
import json
import math
import os
import re
import statistics
import subprocess
import sys

BLOCK = re.compile(r"<!-- table (.*?) -->\n(.*?)<!-- end -->", re.DOTALL)
WAYS = ("atomic", "vector", "serial", "bfly", "tree", "fixed", "cub", "block", "block_clamped", "floor") # as pages list them
SWEPT = ("serial", "bfly", "tree", "fixed") # those with a threshold
STAGES = {"project": "project", "bin": "bin", "render": "forward blend", "render backward": "backward blend",
          "project backward": "project backward"}
KERNEL_FAMILIES = ("splats", "hash_grid", "histogram_shared", "histogram_global", "stencil") # with a table of their own


def ms(value):
    """Three significant digits or more; empty for None."""
    return None if value is None else f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"


def spread(values, digits):
    """The mean, and the least and the most of several."""
    ends = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{ends}"


def gpu_of(device):
    """H100 of "NVIDIA H100 80GB HBM3", the name of the driver."""
    return device.removeprefix("NVIDIA ").split(" ")[0]


def natural(name):
    """For sorting: the name with its numbers as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def stage_sums(events):
    """({stage: GPU ms of all views}, views): gpu_ms are those of a step, iteration_ms is that of a view."""
    sums, begin = collections.Counter(), events[0]["iteration"]
    for e in (e for e in events if e["event"] == "step" and "gpu_ms" in e):
        of_view = e["iteration_ms"] / sum(e["gpu_ms"].values()) if "iteration_ms" in e else 1
        for stage, time in e["gpu_ms"].items():
            sums[stage] += (e["iteration"] - begin) * time * of_view
        begin = e["iteration"]
    return sums, begin - events[0]["iteration"]


class Measured:
    """What files hold, by kind, then the rows of all tables: (table, key, cells)."""

    def __init__(self, paths):
        self.google, self.reports, self.logs, self.kernels, self.rows = {}, {}, {}, {}, []
        for path in paths:
            for file in sorted(glob.glob(os.path.join(path, "*.*"))) if os.path.isdir(path) else [path]:
                self.read(*os.path.splitext(os.path.basename(file)), file)
        for make in (self.stages, self.workloads, self.stalls, self.library, self.whole, self.user_kernels, self.training,
                     self.levenberg_marquardt):
            make()

    def read(self, name, kind, path):
        with open(path, newline="") as file:
            if kind == ".jsonl":
                lines = [json.loads(line) for line in file]
                if "table" in lines[0]: # rows that a program made itself
                    self.rows += [(row["table"], row["key"], row["cells"]) for row in lines]
                else:
                    self.logs[name] = lines
            elif kind == ".csv":
                self.kernels[name] = list(csv.reader(file))
            elif kind == ".json":
                report = json.load(file)
                if "benchmarks" not in report:
                    self.reports[name] = report
                    return
                _, runs = self.google[name] = report["context"], collections.defaultdict(dict) # of Google Benchmark
                for entry in report["benchmarks"]:
                    if entry.get("error_occurred"):
                        sys.exit(f"{entry['name']}: {entry.get('error_message')}")
                    run = re.split("/iterations:|/min_time:", entry["run_name"])[0]
                    runs[run][entry.get("aggregate_name", "median")] = entry # one that is not repeated is its median

    def matching(self, pattern):
        """(groups, {aggregate: entry}, context and runs of its file) of all runs of such names."""
        return [(match.groups(), run, context, runs) for context, runs in self.google.values()
                for name, run in runs.items() if (match := re.fullmatch(pattern, name))]

    def put(self, table, key, cells):
        self.rows.append((table, {k: str(v) for k, v in key.items()},
                          {str(k): "" if v is None else str(v) for k, v in cells.items()}))

    # ---- stages

    def stages(self):
        for (scene,), run, context, runs in self.matching(r"stages/scene:(.+)"):
            times = {label: run["median"][stage] / 1e3 for stage, label in STAGES.items()}
            whole = {"sum of stages": sum(times.values()), "end to end": run["median"]["real_time"] / 1e3}
            apart = {stage: runs[f"{stage}/scene:{scene}"]["median"]["real_time"] / 1e3 for stage in ("loss", "adam")}
            for label, time in {**times, **apart, **whole}.items():
                self.put(f"rasteriser/stages {scene}", {"stage": label}, {"mean, ms": ms(time)})
            self.put("rasteriser/scenes", {"scene": scene}, {
                "image": f"{context['width']}x{context['height']}", "Gaussians": f"{int(context['gaussians']):,}",
                "pairs": f"{int(context['pairs']):,}", **{label: ms(time) for label, time in {**times, **whole}.items()}})

    # ---- workloads

    def workloads(self):
        """A case: {(way, threshold): ms}, how many commits of a warp had 0..32 active lanes and different keys, the GPU."""
        cases = {}
        for (way, scene, at), run, context, _ in self.matching(r"render_backward/(\w+)/scene:(.+)/threshold:(\d+)"):
            times, warps, gpu = cases.setdefault(f"gaussians, {scene}", ({}, [], []))
            times[way, int(at)] = run["median"]["real_time"] / 1e3
            lanes = [int(commits) for commits in context["active_lanes"].split()]
            warps[:] = lanes, [lanes[0], sum(lanes[1:]), *31 * [0]] # all at one splat
            gpu[:] = [gpu_of(context["device"])]
        for name, report in self.reports.items():
            if "adjoint" in report:
                title = {"spheres": "spheres, {data}, K = {channels}", "cubemap": "cubemap, {mesh}, {size}"}[report["workload"]]
                times = {(row["reduction"], row["threshold"] or 0): row["mean_ms"]
                         for row in report["adjoint"] if "mean_ms" in row} # not of simt
                cases[title.format(**report)] = times, [report["active_lanes"], report["distinct_keys"]], [gpu_of(report["device"])]
        for name, (times, warps, gpu) in sorted(cases.items(), key=lambda case: natural(case[0])):
            if len({way for way, _ in times} & set(WAYS)) > 1:
                self.case(name, times, gpu[0])
            if name.endswith("K = 32"): # as K = 3
                continue
            (lanes, keys), commits = warps, sum(warps[0][1:])
            active, different = (sum(n * count for n, count in enumerate(histogram)) for histogram in warps)
            self.put("papers/warps", {"workload": name}, {
                "commits": f"{commits:,}", "lanes active": f"{active / commits:.1f}",
                "all 32": f"{100 * lanes[32] / commits:.0f} %", "different keys": f"{different / commits:.1f}",
                "one key": f"{100 * keys[1] / commits:.0f} %", "lanes per key": f"{active / different:.2f}"})

    def case(self, name, times, gpu):
        best = {way: min((time, at) for (of, at), time in times.items() if of == way) for way, _ in times}
        plain = times["atomic", 0]
        fastest = min((*best[way], way) for way in best if way in ("atomic", "vector", *SWEPT) and way != "fixed")
        self.put("papers/best", {"GPU": gpu, "workload": name}, {
            "over atomic": f"{plain / fastest[0]:.2f}, {fastest[2]}" + (f" at {fastest[1]}" if fastest[2] in SWEPT else ""),
            **{way: ms(best[way][0]) + (f" ({best[way][1]})" if way in SWEPT else "") for way in WAYS if way in best}})
        thresholds = sorted({at for _, at in times})
        if ("tree", thresholds[-1]) in times:
            self.put("papers/thresholds", {"GPU": gpu, "workload": name}, {
                at: f"{plain / times['tree', at]:.2f}" if ("tree", at) in times else None for at in thresholds})
        if name.startswith("gaussians, "):
            scene = name.removeprefix("gaussians, ")
            for way in best:
                self.put(f"rasteriser/strategies {scene}", {"strategy": way},
                         {at: ms(times.get((way, at))) for at in thresholds})

    def stalls(self):
        """Reads profile-WORKLOAD-WAY.csv: the last launch. Reasons of at least half a cycle an instruction."""
        kernels = {}
        for name, lines in self.kernels.items():
            if len(lines) < 3:
                sys.exit(f"{name}.csv: holds no kernels")
            counter = dict(zip(lines[0], lines[-1])) # the second line holds the units
            value = {key: float(text.replace(",", "")) for key, text in counter.items() if re.fullmatch(r"[\d,]+([.]\d+)?", text)}
            waits = {match[1].replace("_", " "): cycles for key, cycles in value.items() if (match := re.fullmatch(
                r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio", key))}
            kernels[tuple(name.removeprefix("profile-").rsplit("-", 1))] = value, waits
        reasons = sorted({reason for _, waits in kernels.values() for reason, cycles in waits.items() if cycles >= 0.5},
                         key=lambda reason: -sum(waits.get(reason, 0) for _, waits in kernels.values()))
        for (workload, way), (value, waits) in sorted(kernels.items(), key=lambda of: (of[0][0], WAYS.index(of[0][1]))):
            self.put("papers/stalls", {"workload": workload, "strategy": way}, {
                "microseconds": f"{value['gpu__time_duration.sum'] * 1e-3:.1f}",
                "warp instructions, millions": f"{value['smsp__inst_executed.sum'] * 1e-6:.2f}",
                "cycles per instruction": f"{sum(waits.values()):.1f}",
                **{reason: f"{waits.get(reason, 0):.2f}" for reason in reasons}})

    # ---- the library

    def library(self):
        """Reads the runs of `aggregate`, in 10^9 adds per second. 0 active lanes: 1 to 32, equally often."""
        runs, chosen = {}, {}
        for (way, *axes), run, *_ in self.matching(
                r"aggregate/(\w+)/active:(\d+)/keys:(\d+)/K:(\d+)/targets:(\d+)/threshold:(\d+)"):
            runs[way, *map(int, axes)] = run["median"]["adds_per_second"] * 1e-9
            chosen[way, *map(int, axes)] = int(run["median"].get("chosen_threshold", 0))

        def ratio(way, rival, active, K, t):
            of, to = (runs.get((which, active, 1, K, t, 0)) for which in (way, rival))
            return of / to if of and to else None

        targets, widths = (sorted({run[i] for run in runs if run[2] == 1}) for i in (4, 3))
        for K in widths:
            for t in targets:
                cells = {active: f"{gain:.2f}" for active in (1, 2, 4, 8, 16, 32) if (gain := ratio("tree", "atomic", active, K, t))}
                mixed = {run[5]: value for run, value in runs.items() if run[:5] == ("tree", 0, 1, K, t)}
                if ("tuned", 0, 1, K, t, 0) in runs and mixed:
                    best, tuned = max(mixed, key=mixed.get), chosen["tuned", 0, 1, K, t, 0]
                    cells |= {"best": best, "gain": f"{mixed[best] / mixed[0] - 1:.1%}", "tuned": tuned,
                              "keeps": f"{mixed[tuned] / mixed[best]:.1%}"}
                self.put("library/thresholds", {"K, targets": f"{K}, {'1M' if t == 1 << 20 else f'{t:,}'}"}, cells)
        for way, rival in (("tree", "cub"), ("tree", "cub_batched"), ("tree_uniform", "cub_batched"),
                           ("tree_uniform", "cub"), ("tree", "cub_looking"), ("tree", "cg")):
            for K in widths:
                cells = {}
                for title, few in (("up to 32 targets", True), ("from 1,024 targets", False)):
                    found = [gain for t in targets if (t <= 32) == few and (gain := ratio(way, rival, 32, K, t))]
                    if found:
                        cells[title] = " to ".join(dict.fromkeys(f"{gain:.2f}" for gain in (min(found), max(found))))
                self.put("library/summary", {"call": way, "rival": rival, "K": K}, cells)

    def whole(self):
        """Reads the runs of `whole`, in 10^9 adds per second."""
        runs = {}
        for (problem, way, *axes), run, *_ in self.matching(r"whole/(\w+)/(\w+)/K:(\d+)/bins:(\d+)/exponent:(\d+)"):
            K, bins, exponent = map(int, axes)
            place = (f"{K}, " if problem == "scatter" else "") + f"{bins:,}, {exponent}"
            runs.setdefault((f"whole/{problem}", place), {})[way] = f"{run['median']['adds_per_second'] * 1e-9:.3g}"
        for (table, place), cells in runs.items():
            self.put(table, {"bins, exponent" if "histogram" in table else "K, rows, exponent": place}, cells)

    def user_kernels(self):
        """Reads the runs of `user_kernels`: microseconds of `plain`, and for the others that time over theirs."""
        times = collections.defaultdict(dict)
        for (kernel, data, way), run, *_ in self.matching(r"(hash_grid/F\d|\w+)[/_](\w+)/(\w+)"):
            times[kernel.replace("/", " "), data.replace("_", " ")][way] = run["median"]["real_time"]
        for (kernel, data), of in times.items():
            family = next((name for name in KERNEL_FAMILIES if kernel.startswith(name)), "others")
            self.put(f"user_kernels/{family}", {"kernel": kernel, "data": data}, {
                way: f"{us:.4g} us" if way == "plain" else f"{of['plain'] / us:.2f}" for way, us in of.items()})

    # ---- the logs of dsplat train and the reports of dsplat finish

    def training(self):
        """Reads the logs of training.sh, PART-SCENE-...-SEED.jsonl."""
        groups, changes = collections.defaultdict(list), collections.defaultdict(dict) # by seed; of the ablation
        equal = collections.defaultdict(dict) # PSNR after equal times
        for name, events in sorted(self.logs.items()):
            part, _, rest = name.partition("-")
            if events[-1]["event"] in ("end", "comparison") and any(e["event"] == "evaluation" for e in events):
                groups[(part, rest) if part == "budget" else (part, rest.rpartition("-")[0])].append(events)
            else:
                print(f"{name}: has no end", file=sys.stderr)

        def last(group, event, key):
            return [next(e for e in reversed(events) if e["event"] == event).get(key) for events in group]
        for part, name in sorted(groups, key=lambda group: natural(group[1])):
            group, (scene, *words) = groups[part, name], name.split("-", 2)
            psnr, ssim = last(group, "evaluation", "psnr"), last(group, "evaluation", "ssim")
            seconds, gaussians = last(group, "end", "seconds"), last(group, "end", "gaussians")
            iterations, gpu = last(group, "end", "iteration")[0], gpu_of(group[0][0].get("gpu", ""))
            if part == "defaults":
                asked = f"{int(words[0]):,} iterations"
                self.put("training/defaults", {"data": scene, "iterations": asked.split()[0]}, {
                    "PSNR, dB": spread(psnr, 2), "SSIM": spread(ssim, 4), "seconds": spread(seconds, 1),
                    "Gaussians": spread(gaussians, 0), "seeds": len(group)})
                sums, views = stage_sums(group[0])
                if sums and name.endswith("-30000"): # GPU ms of a view, and the share of it
                    total = sum(sums.values())
                    self.put("training/stages", {"run": name}, {
                        **{stage: f"{time / views:.3f}, {100 * time / total:.1f} %" for stage, time in sums.items()},
                        "sum": f"{total / views:.3f}"})
            if part in ("budget", "defaults"):
                self.put("training/budget", {"data": scene, "asked for": f"{words[0][:-1]} s" if part == "budget" else asked}, {
                    "seconds": f"{seconds[0]:.2f}", "iterations": f"{iterations:,}", "Gaussians": f"{gaussians[0]:,}",
                    "PSNR, dB": f"{psnr[0]:.2f}", "SSIM": f"{ssim[0]:.4f}"})
            if part == "strategies":
                plain = last(groups.get((part, f"{scene}-atomic"), group), "end", "seconds")[0]
                sums, _ = stage_sums(group[0])
                policy, at, tuning = (last(group, *of)[0] for of in (("step", "reduce"), ("step", "threshold"), ("end", "tuning_ms")))
                self.put("papers/training", {"GPU": gpu, "data": scene, "strategy": words[0]}, {
                    "seconds": f"{seconds[0]:.1f}", "over atomic": f"{plain / seconds[0]:.2f}", "PSNR, dB": f"{psnr[0]:.2f}",
                    **{stage: f"{100 * time / sum(sums.values()):.0f} %" for stage, time in sums.items()},
                    "tuned": None if tuning is None else f"{policy} at {at}, {tuning:.0f} ms"})
            if part == "equal":
                equal[gpu, scene, words[0]][words[1]] = f"{psnr[0]:.2f} ({iterations:,} iterations)"
            if part == "ablation":
                base = groups.get((part, f"{scene}-{words[0]}-none"), group)
                moved = "" if base is group else ", " + ", ".join(
                    f"{statistics.fmean(mine) - statistics.fmean(last(base, 'evaluation', key)):+.{digits}f}"
                    for mine, key, digits in ((psnr, "psnr", 2), (ssim, "ssim", 4)))
                changes[words[1].replace("-", " ")][scene] = f"{statistics.fmean(psnr):.2f}, {statistics.fmean(ssim):.4f}{moved}"
        for change, cells in changes.items():
            self.put("training/ablation", {"change": change}, cells)
        for (gpu, scene, seconds), cells in equal.items():
            self.put("papers/equal time", {"GPU": gpu, "data": scene, "after": f"{seconds[:-1]} s"},
                     {f"PSNR, dB, {way}": cell for way, cell in sorted(cells.items())})

    def levenberg_marquardt(self):
        """Reads what finish.sh leaves: adam-SCENE[-full-STEPS].jsonl and lm-SCENE-ITERATION-VARIANT.json: what each came to."""
        rows, batches = [], {}
        for name, events in self.logs.items():
            if name.startswith("adam-"):
                scene, _, steps = name.removeprefix("adam-").partition("-full-")
                iteration = self.logs.get(f"adam-{scene}", events)[-1]["iteration"] * 2 // 3
                found = [e for e in events if e["event"] == "evaluation"]
                start = next(e for e in found if e["iteration"] >= iteration)
                rows.append(({"data": scene, "variant": f"Adam, {steps} full batches" if steps else "Adam's rest"}, {
                    "s more": f"{events[-1]['seconds'] - start['seconds']:.2f}", "s in all": f"{events[-1]['seconds']:.2f}",
                    "PSNR, dB": f"{start['psnr']:.2f} -> {found[-1]['psnr']:.2f}",
                    "SSIM": f"{start['ssim']:.4f} -> {found[-1]['ssim']:.4f}"}))
        for name, report in self.reports.items():
            if not name.startswith("lm-") or "steps" not in report or "psnr" not in report:
                continue
            scene, iteration, variant = name.split("-", 3)[1:]
            steps, last = report["steps"], report["steps"][-1]
            form, _, part = variant.rpartition("-")
            if part in ("half", "halves", "quarter", "quarters"):
                batches.setdefault((scene, form or "ours"), {})[part] = f"{last['psnr']:.2f} dB, {last['seconds']:.1f} s"
                continue
            found = [e for e in self.logs.get(f"adam-{scene}", []) if e["event"] == "evaluation"]
            before = next((e["seconds"] for e in found if e["iteration"] >= int(iteration)), 0)
            change = ((steps[0]["before"], last["after"] if last["kept"] else last["before"], 6),
                      (report["psnr"], last["psnr"], 2), (report["ssim"], last["ssim"], 4))
            objective, psnr, ssim = (f"{start:.{digits}f} -> {end:.{digits}f}" for start, end, digits in change)
            rows.append(({"data": scene, "variant": variant}, {
                "s more": f"{last['seconds']:.2f}", "s in all": f"{before + last['seconds']:.2f}",
                "PSNR, dB": psnr, "SSIM": ssim, "objective": objective, "GiB": f"{last['bytes'] / 2 ** 30:.2f}",
                "views": f"{steps[0]['images']} in {steps[0].get('batches', 1)}",
                "kept": f"{sum(s['kept'] for s in steps)} of {len(steps)}"}))
        for key, cells in sorted(rows, key=lambda row: row[0]["data"]):
            self.put("levenberg-marquardt/after Adam", key, cells)
        for (scene, form), cells in sorted(batches.items()):
            self.put("levenberg-marquardt/batches", {"data": scene, "form": form}, cells)


def by_code(folders):
    """papers/PTX: the best times of each workload, by programs of several codes, which wrote to a folder each."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for folder in folders:
        for table, key, cells in Measured([folder]).rows:
            if table == "papers/best":
                for way in {"atomic", "serial", "bfly", "tree"} & cells.keys():
                    times[key["workload"]][way].append(cells[way].split(" ")[0])
    return [("papers/PTX", {"workload": name}, {way: ", ".join(ways[way]) for way in WAYS if way in ways})
            for name, ways in times.items()]


# ---- pages


def kept(root):
    """{table: [row]} of benchmarks/results, as they lie in the files."""
    found = collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(root, "benchmarks/results/*.jsonl"))):
        with open(path) as file:
            for row in map(json.loads, file):
                found[row["table"]].append(row)
    return found


def write_kept(root, rows):
    for topic in {table.split("/")[0] for table in rows}:
        path = os.path.join(root, "benchmarks/results", topic + ".jsonl")
        with open(path + ".part", "w") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n"
                            for table, of in rows.items() if table.split("/")[0] == topic for row in of)
        os.replace(path + ".part", path)


def markdown(rows):
    """The lines of a table: the keys and cells of rows."""
    cells = dict.fromkeys(column for row in rows for column in row["cells"])
    columns = [*rows[0]["key"], *sorted(cells, key=lambda column: int(column) if column.isdigit() else math.inf)]
    lines = [columns, *([{**row["key"], **row["cells"]}.get(column, "") for column in columns] for row in rows)]
    lines = ["| " + " | ".join(line) + " |" for line in lines]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]


def headline(rows):
    """The README's kernels, from other tables: speed over the same kernel with plain atomics."""
    def cells(table, key):
        return next(row["cells"] for row in rows[table] if list(row["key"].values()) == key)
    def speeds(table, kernel, call, *data):
        return ", ".join(cells(f"user_kernels/{table}", [kernel, of])[call] for of in data)
    blend, spheres = cells("rasteriser/strategies fox", ["atomic"]), cells("papers/best", ["H200", "spheres, large, K = 3"])
    tree = min(float(cell) for cell in cells("rasteriser/strategies fox", ["tree"]).values() if cell)
    atomic, sphere = (float(spheres[way].split()[0]) for way in ("atomic", "tree"))
    found = [("backward pass of Gaussian splats, batches of a tile's list", "`tree_of_lanes`", f"{float(blend['0']) / tree:.0f}"),
             ("backward pass of flat splats, 20 values at one key; large, small splats", "`reduce`",
              speeds("splats", "splats", "reduce_fields", "60k radius 20", "600k radius 3")),
             ("backward pass of a sphere renderer, 3 values", "`reduce_tree`", f"{atomic / sphere:.1f}"),
             ("particles to a grid, 27 nodes of 4 values; sorted by cell, shuffled", "`reduce`",
              speeds("stencil", "stencil_global", "reduce_unrolled", "by cell", "shuffled")),
             ("hash grid of half2; along rays, at random points", "`reduce`", speeds("hash_grid", "hash_grid F2", "reduce", "rays", "random")),
             ("scatter of 2 floats by index; keys sorted, Zipf, uniform", "`reduce`",
              speeds("histogram_global", "histogram_global_float", "reduce", "sorted", "zipf", "uniform")),
             ("histogram of integers in shared memory; 28 columns, one bin", "`reduce`, which is the atomics",
              speeds("histogram_shared", "histogram_shared_int32", "reduce", "28 columns uniform", "28 columns zeros"))]
    return [{"key": {"kernel": kernel}, "cells": {"call": call, "speed": speed}} for kernel, call, speed in found]


def pages(root):
    """{path: text} of the pages that may have tables."""
    found = {}
    for pattern in ("README.md", "docs/*.md", "docs/*/*.md"):
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            with open(path) as file:
                found[path] = file.read()
    return found


def shown(root):
    return {match[1] for page in pages(root).values() for match in BLOCK.finditer(page)}


def update(root, write):
    """What is wrong, as sentences; with `write` pages are mended first, and rows that none shows are forgotten."""
    rows, wrong = kept(root), []
    if write:
        rows = {table: of for table, of in rows.items() if table in shown(root)}
        write_kept(root, rows)
    wrong += [f"no page has the table {table}" for table in rows if table not in shown(root)]
    rows["headline"] = headline(rows)
    for path, page in pages(root).items():
        missing = [table for table in BLOCK.findall(page) if table[0] not in rows]
        wrong += [f"{path}: there is no table {name}" for name, _ in missing]
        if page.count("<!-- table ") != len(BLOCK.findall(page)):
            wrong.append(f"{path}: a table has no end")
        made = BLOCK.sub(lambda match: match[0] if match[1] not in rows else
                         f"<!-- table {match[1]} -->\n" + "\n".join(markdown(rows[match[1]])) + "\n<!-- end -->", page)
        if made != page and write:
            with open(path, "w") as file:
                file.write(made)
        elif made != page:
            stated = set(page.splitlines())
            wrong += [f"{path} lacks: {line}" for line in made.splitlines() if line not in stated] or [
                f"{path} has rows that were not measured"]
    print(f"{len(rows)} tables")
    return wrong


def keep(root, measured, commit, only):
    rows, wanted = kept(root), {table for table in shown(root) if table.startswith(only)}
    for table, key, cells in measured:
        if table in wanted:
            row = {"table": table, "key": key, "cells": cells, "commit": commit}
            at = next((i for i, old in enumerate(rows[table]) if old["key"] == row["key"]), len(rows[table]))
            rows[table][at:at + 1] = [row]
    write_kept(root, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("show", "keep", "write", "check"))
    parser.add_argument("paths", nargs="*", metavar="PATH")
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
    parser.add_argument("--root", default=root, help="the repository")
    parser.add_argument("--only", default="", help="keep: only tables whose names begin with this")
    parser.add_argument("--commit", default=subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, text=True,
                                                           capture_output=True).stdout.strip())
    parser.add_argument("--codes", action="store_true", help="each PATH is from programs built for another code: sm_90, PTX of 80, ...")
    options = parser.parse_args()
    if options.what in ("write", "check"):
        wrong = update(options.root, options.what == "write")
        sys.exit("\n".join(wrong) if wrong else 0)
    measured = by_code(options.paths) if options.codes else Measured(options.paths).rows
    if not measured:
        sys.exit(f"{', '.join(options.paths) or 'no PATH'}: holds no measurements")
    if options.what == "keep":
        keep(options.root, measured, options.commit, options.only)
        return
    for name in dict.fromkeys(table for table, _, _ in measured):
        rows = [{"key": key, "cells": cells} for table, key, cells in measured if table == name]
        print(f"\n{name}:\n", *markdown(rows), sep="\n")


if __name__ == "__main__":
    main()
