# SPDX-License-Identifier: MIT
"""The tables of invented measurements, as programs and scripts of benchmarks/ write them; what a page shows of them is kept.

    measured_test.py ROOT
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(sys.argv[1], "benchmarks", "tables.py")


def google(times, context=(), **counters):
    """As Google Benchmark writes it: medians in microseconds."""
    return {"context": {"device": "GPU", **dict(context)}, "benchmarks": [
        {"name": name, "run_name": f"{name}/iterations:1", "aggregate_name": "median", "real_time": time, **counters}
        for name, time in times.items()]}


def bench():
    """As spheres writes it: plain atomics take 1 ms, the tree 0.5 and, at 24, 1.25."""
    rows = [("atomic", None, 1), ("vector", None, 0.8), ("tree", 0, 0.5), ("tree", 24, 1.25), ("fixed", 0, 0.4)]
    return {"workload": "spheres", "data": "small", "channels": 3, "values": 8, "device": "GPU", "views": 1,
            "active_lanes": [5] + 31 * [0] + [10], "distinct_keys": [5, 0, 0, 0, 10] + 28 * [0],
            "adjoint": [{"reduction": which, "threshold": threshold, "mean_ms": ms} for which, threshold, ms in rows]}


def profile(ms):
    """As Nsight Compute writes it; the last launch counts."""
    stall = "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio"
    return (f'"Kernel Name","gpu__time_duration.sum","smsp__inst_executed.sum","{stall}"\n"","ns","inst",""\n'
            f'"count_lanes(frame)","1","2","3"\n"void <unnamed>::render_backward_kernel<4>(frame)","{ms * 1e6:,.0f}","3,000,000","1.5"\n')


def event(kind, iteration, **more):
    return {"event": kind, "iteration": iteration, **more}


def log(iterations, seconds, *more, psnr=25):
    """Two evaluations, half-way and at the end; 2 ms of the first 10 iterations are Adam's, 4 ms of the others."""
    return [event("start", 0, gpu="GPU", settings={}), event("step", 10, gpu_ms={"render": 6, "adam": 2}),
            event("step", iterations, gpu_ms={"render": 6, "adam": 4}),
            event("evaluation", iterations // 2, seconds=seconds / 2, psnr=20, ssim=0.5),
            event("evaluation", iterations, seconds=seconds, psnr=psnr, ssim=psnr / 100),
            event("end", iterations, seconds=seconds, gaussians=1000), *more]


# Four views per step, then one.
turns = log(100, 1)
turns[1:3] = [event("step", 10 * (i + 1), iteration_ms=ms, gpu_ms={"render": 8}) for i, ms in enumerate(5 * [2] + 5 * [8])]


def lm_step(seconds, before, after, kept=True):
    return {"seconds": seconds, "before": before, "after": after, "kept": kept, "images": 3, "bytes": 2**30, "psnr": 20 + seconds, "ssim": 0.5}


# Round numbers, so that a table's ratios can be told by heart.
stages = {"stages/scene:fern": 90, "loss/scene:fern": 5, "adam/scene:fern": 6}
blend = {f"render_backward/{way}": time for way, time in {
    "atomic/scene:fern/threshold:0": 1000, "tree/scene:fern/threshold:0": 500, "tree/scene:fern/threshold:8": 250}.items()}
place = {"active_lanes": "7 " + 31 * "0 " + "100 ", "width": "64", "height": "32", "gaussians": "5000", "pairs": "12345"}
aggregate = {f"aggregate/{way}/active:32/keys:1/K:9/targets:{t}/threshold:0": 0 for way in ("atomic", "tree", "cub") for t in (1, 1024)}
cells = google(aggregate)
for entry, adds in zip(cells["benchmarks"], (1e9, 2e9, 4e9, 6e9, 2e9, 2e9)):
    entry["adds_per_second"] = adds
whole = google({"whole/histogram/tree/K:1/bins:256/exponent:1": 1}, adds_per_second=4.5e9)
kernels = google({"splats/60_radius_20/plain": 200, "splats/60_radius_20/reduce": 100, "hash_grid/F4_rays/plain": 7})
for entry in kernels["benchmarks"]:
    del entry["aggregate_name"] # they are not repeated
files = {
    "stages-fern.json": google({**stages, **blend}, place, project=10.0, bin=20.0, render=30.0, **{"render backward": 25.0, "project backward": 4.0}),
    "spheres-small-3.json": bench(), "profile-cubemap-tree.csv": profile(0.5), "aggregate.json": cells, "whole.json": whole,
    "user_kernels.json": kernels,
    "rows.jsonl": [{"table": "index-add/float32", "key": {"N": "5"}, "cells": {"K": "6"}}],
    # The second step is undone.
    "lm-fern-15-free.json": {"views": 3, "psnr": 19, "ssim": 0.4,
                             "steps": [lm_step(2, 0.5, 0.4), lm_step(4, 0.4, 0.1, False), lm_step(5, 0.4, 0.3)]},
    # Of subsets of the views the end and the seconds stand in a table of their own.
    "lm-fern-15-ours-half.json": {"psnr": 19, "ssim": 0.4, "steps": [lm_step(2, 0.35, 0.3)]}}
short, tuned = log(20, 5), log(20, 2) # tuned: by a tuner that found the tree at 8
tuned[2] |= {"reduce": "tree", "threshold": 8}
tuned[-1]["tuning_ms"] = 3.2
files |= {f"{name}.jsonl": lines for name, lines in {
    "defaults-fern-30000-0": log(20, 80), "defaults-fern-30000-1": log(20, 70, psnr=26), "defaults-fern-7000-0": short,
    "defaults-fox-7000-0": short[:-1], "defaults-turns-30000-0": turns, "budget-fern-6s": log(30, 6), "adam-fern": log(30, 60),
    "ablation-fern-7000-none-0": short, "ablation-fern-7000-no-splits-0": log(20, 5, psnr=23),
    "ablation-fern-7000-no-splits-1": log(20, 5, psnr=24), "ablation-fox-7000-none-0": log(20, 5, psnr=24),
    "strategies-fern-atomic-0": short, "strategies-fern-default-0": tuned,
    "equal-fern-10s-atomic-0": log(1500, 10, psnr=21), "equal-fern-10s-default-0": log(20, 10)}.items()}
wanted = """\
| stage | mean, ms |
| forward blend | 0.0300 |
| sum of stages | 0.0890 |
| fern | 64x32 | 5,000 | 12,345 | 0.0100 | 0.0200 | 0.0300 | 0.0250 | 0.0040 | 0.0890 | 0.0900 |
| tree | 0.500 | 0.250 |
| GPU | gaussians, fern | 4.00, tree at 8 | 1.000 | 0.250 (8) |  |  |
| GPU | gaussians, fern | 2.00 | 4.00 |  |
| gaussians, fern | 100 | 32.0 | 100 % | 1.0 | 100 % | 32.00 |
| GPU | spheres, small, K = 3 | 2.00, tree at 0 | 1.000 | 0.500 (0) | 0.800 | 0.400 (0) |
| GPU | spheres, small, K = 3 | 2.00 |  | 0.80 |
| spheres, small, K = 3 | 10 | 32.0 | 100 % | 4.0 | 0 % | 8.00 |
| cubemap | tree | 500.0 | 3.00 | 1.5 | 1.50 |
| 9, 1,024 | 3.00 |
| tree | cub | 9 | 2.00 | 3.00 |
| 256, 1 | 4.5 |
| splats | 60 radius 20 | 200 us | 2.00 |
| 5 | 6 |
| fern | 7,000 | 25.00 | 0.2500 | 5.0 | 1000 | 1 |
| fern | 30,000 | 25.50 (25.00 to 26.00) | 0.2550 (0.2500 to 0.2600) | 75.0 (70.0 to 80.0) | 1000 (1000 to 1000) | 2 |
| GPU | fern | atomic | 5.0 | 1.00 | 25.00 | 67 % | 33 % |  |
| GPU | fern | default | 2.0 | 2.50 | 25.00 | 67 % | 33 % | tree at 8, 3 ms |
| GPU | fern | 10 s | 21.00 (1,500 iterations) | 25.00 (20 iterations) |
| none | 25.00, 0.2500 | 24.00, 0.2400 |
| no splits | 23.50, 0.2350, -1.50, -0.0150 |  |
| fern-30000 | 6.000, 66.7 % | 3.000, 33.3 % | 9.000 |
| turns-30000 | 5.000, 100.0 % |  | 5.000 |
| fern | 7,000 iterations | 5.00 | 20 | 1,000 | 25.00 | 0.2500 |
| fern | 6 s | 6.00 | 30 | 1,000 | 25.00 | 0.2500 |
| fern | Adam's rest | 0.00 | 60.00 | 25.00 -> 25.00 | 0.2500 -> 0.2500 |  |  |  |  |
| fern | free | 5.00 | 35.00 | 19.00 -> 25.00 | 0.4000 -> 0.5000 | 0.500000 -> 0.300000 | 1.00 | 3 in 1 | 2 of 3 |
| fern | ours | 22.00 dB, 2.0 s |"""


def tables(what, *arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, what, *arguments], capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    empty = tables("show", folder)
    assert empty.returncode and "holds no measurements" in empty.stderr
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(content if name.endswith(".csv") else json.dumps(content) if name.endswith(".json")
                       else "".join(json.dumps(line) + "\n" for line in content))
    page = tables("show", folder)
    missing = [row for row in wanted.splitlines() if row not in page.stdout.splitlines()]
    assert not missing, "\n".join(missing) + "\nis not in\n" + page.stdout
    assert page.returncode == 0 and "defaults-fox-7000-0: has no end" in page.stderr, page.stderr

    # Of programs of two codes: their best times beside each other.
    codes = tables("show", folder, folder, "--codes")
    assert "| gaussians, fern | 1.000, 1.000 | 0.250, 0.250 |" in codes.stdout, codes

    # Of the tables only what a page shows is kept, and a row replaces that of its key.
    root = os.path.join(folder, "root")
    os.makedirs(os.path.join(root, "benchmarks"))
    shutil.copy(os.path.join(sys.argv[1], "README.md"), root)
    for part in ("docs", "benchmarks/results"):
        shutil.copytree(os.path.join(sys.argv[1], part), os.path.join(root, part))
    for what in ("keep", "write", "check"):
        ended = tables(what, *([folder, "--commit", "abc"] if what == "keep" else ()), "--root", root)
        assert ended.returncode == 0, (what, ended)
    with open(os.path.join(root, "docs/benchmarks/rasteriser.md")) as file:
        written = file.read()
    with open(os.path.join(root, "benchmarks/results/training.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    new = [row for row in rows if row["commit"] == "abc"]
    assert "| fern | 7,000 | 25.00 | 0.2500 | 5.0 | 1000 | 1 |" in written and "| fern | 7,000 | 25.63" not in written and new, written
    assert not os.path.exists(os.path.join(root, "benchmarks/results/none.jsonl"))
    assert not any("stages fern" in row["table"] for row in rows), "a table that no page shows is kept"

    # A report of a run that failed ends with its name.
    broken = google({"stages/scene:fern": 1})
    broken["benchmarks"][0] |= {"error_occurred": True, "error_message": "wrong moments"}
    with open(os.path.join(folder, "broken.json"), "w") as file:
        json.dump(broken, file)
    failed = tables("show", os.path.join(folder, "broken.json"))
    assert failed.returncode and "stages/scene:fern: wrong moments" in failed.stderr, failed
print("ok")
