# SPDX-License-Identifier: MIT
"""The tables of invented measurements; a tuner's bad choice is found.

    workloads_test.py ROOT
"""
import json
import os
import subprocess
import sys
import tempfile

scripts = os.path.join(sys.argv[1], "benchmarks")


def bench(tuned_ms):
    """As scatter_add writes it: plain atomics take 1 ms, the tree 0.5 and, at 24, 1.25."""
    rows = [("atomic", None, 1), ("vector", None, 0.8), ("tree", 0, 0.5), ("tree", 24, 1.25), ("hot", 8, 0.25),
            ("fixed", 0, 0.4)]
    return {"workload": "scatter_add", "exponent": 1, "values": 16, "device": "GPU", "views": 1,
            "active_lanes": [5] + 31 * [0] + [10], "distinct_keys": [5, 0, 0, 0, 10] + 28 * [0],
            "adjoint": [{"reduction": which, "threshold": threshold, "mean_ms": ms, "noise": 0.01, "least_ms": ms}
                        for which, threshold, ms in rows],
            "tuner": {"reduction": "tree", "threshold": 4, "launches": 9, "cost_ms": 1, "mean_ms": tuned_ms,
                      "over_fastest": tuned_ms / 0.5 - 1}}


def finish(reduction, ms):
    return {"device": "GPU", "scene": "a/fern.ply", "reduction": reduction, "threshold": 0,
            "steps": [{"gpu_ms": {"J^Tu blend": ms, "diagonal": 1}}, {"gpu_ms": {"J^Tu blend": 2 * ms, "diagonal": 2}}]}


def profile(ms):
    """As Nsight Compute writes it."""
    stall = "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio"
    return (f'"Kernel Name","gpu__time_duration.sum","smsp__inst_executed.sum","{stall}"\n"","ns","inst",""\n'
            f'"render_backward_kernel(frame)","{ms * 1e6:,.0f}","3,000,000","1.5"\n')


def blend():
    """As Google Benchmark writes it: 100 commits of 32 lanes."""
    times = {"atomic/scene:fern/threshold:0": 1000, "tree/scene:fern/threshold:0": 500, "tree/scene:fern/threshold:8": 250}
    return {"context": {"device": "GPU", "active_lanes": "7 " + 31 * "0 " + "100 "},
            "benchmarks": [{"name": name, "run_name": f"render_backward/{name}/iterations:1", "aggregate_name": "median",
                            "real_time": time} for name, time in times.items()]}


def run(files, *options):
    with tempfile.TemporaryDirectory() as folder:
        for name, report in files.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write(report if name.endswith(".csv") else json.dumps(report))
        kept = os.path.join(folder, "kept")
        os.mkdir(kept)
        profiles = [os.path.join(folder, name) for name in files if name.endswith(".csv")]
        for paths, name in (([folder, *profiles], "workloads.jsonl"), ([folder], "blend.jsonl")):
            subprocess.run([sys.executable, "-B", os.path.join(scripts, "trim.py"), *paths, "-o",
                            os.path.join(kept, name)], capture_output=True)  # fails if there are none
        return subprocess.run([sys.executable, "-B", os.path.join(scripts, "tables.py"), "workloads", kept, *options],
                              capture_output=True, text=True)


everything = run({"scatter_add-1.json": bench(0.505), "lm-fern-tree-0.json": finish("tree", 0.25),
                  "lm-fern-atomic-0.json": finish("atomic", 1), "profile-cubemap-tree.csv": profile(0.5), "render_backward-fern.json": blend()})
wanted = """\
| LM, J^T u, fern | 1.000 |  | 0.250 (0) |  |  | 4.00, tree at 0 |
| LM, diagonal, fern | 1.000 |  | 1.000 (0) |  |  | 1.00, atomic |
| gaussians, fern | 1.000 |  | 0.250 (8) |  |  | 4.00, tree at 8 |
| gaussians, fern | tree | 2.00 | 4.00 |  |
| gaussians, fern | 100 | 32.0 | 100 % | 1.0 | 100 % | 32.00 |
| scatter_add, Zipf 1 | 1.000 | 0.800 | 0.500 (0) | 0.250 (8) | 0.400 (0) | 4.00, hot at 8 |
| scatter_add, Zipf 1 | tree at 4 | 1.0 % | 1.98 |
| scatter_add, Zipf 1 | tree | 2.00 |  | 0.80 |
| scatter_add, Zipf 1 | tree | 24 | 0.80 at 24 |
| scatter_add, Zipf 1 | 10 | 32.0 | 100 % | 4.0 | 0 % | 8.00 |
| cubemap | tree | 500.0 | 3.00 | 1.5 | 1.50 |"""
missing = [row for row in wanted.splitlines() if row not in everything.stdout.splitlines()]
if everything.returncode or missing:
    sys.exit("lacks:\n" + "\n".join(missing) + "\n\nin\n" + everything.stdout + everything.stderr)
for tuned_ms, passes in ((0.505, True), (0.52, False), (1.03, False), (float("nan"), False)):
    checked = run({"scatter_add-1.json": bench(tuned_ms)}, "--tuner")
    if (checked.returncode == 0) != passes:
        sys.exit(f"a choice of {tuned_ms} ms: {checked.returncode}\n{checked.stdout}{checked.stderr}")
if run({}).returncode == 0:
    sys.exit("an empty folder passes")

# Nsight Compute prints types and casts with a kernel's name.
header = '"Kernel Name","gpu__time_duration.sum"\n"","ns"\n'
for name in ("void <unnamed>::render_kernel<commit<(a::strategy)3, a::record<float>>>(frame, T1)", "render_kernel(frame)",
             "void render_kernel<4>(frame)", "render_kernel"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.csv")
        with open(path, "w") as file:
            file.write(f'{header}"{name}","1,000"\n')
        printed = subprocess.run([sys.executable, "-B", os.path.join(scripts, "tables.py"), "counters", "new=" + path],
                                 check=True, capture_output=True, text=True).stdout.splitlines()
    if printed[-15:-12] != ["| counter | render_kernel new |", "|---|---|", "| time, microseconds | 1.0 |"]:
        sys.exit("\n".join([name, *printed]))
print("ok")
