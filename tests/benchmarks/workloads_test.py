# SPDX-License-Identifier: MIT
"""The tables of made-up measurements, and whether a tuner's bad choice is found.

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
    rows = [("atomic", None, 1), ("vector", None, 0.8), ("tree", 0, 0.5), ("tree", 24, 1.25), ("fixed", 0, 0.4)]
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
    return {"backward tree": {"gpu__time_duration.sum": ms * 1e6, "smsp__inst_executed.sum": 3e6,
                              "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio": 1.5}}


def run(files, *options):
    with tempfile.TemporaryDirectory() as folder:
        for name, report in files.items():
            with open(os.path.join(folder, name), "w") as file:
                json.dump(report, file)
        paths = [os.path.join(folder, name) for name in files if not name.startswith("workload_profile")]
        if paths:
            subprocess.run([sys.executable, "-B", os.path.join(scripts, "trim.py"), *paths, "-o", folder], check=True)
        return subprocess.run([sys.executable, "-B", os.path.join(scripts, "plot_workloads.py"), folder, *options],
                              capture_output=True, text=True)


everything = run({"scatter_add-1.json": bench(0.505), "lm-fern-tree-0.json": finish("tree", 0.25),
                  "lm-fern-atomic-0.json": finish("atomic", 1), "workload_profile.json": profile(0.5)})
wanted = """\
| LM, J^T u, fern | 1.000 |  | 0.250 (0) |  | 4.00, tree at 0 |
| LM, diagonal, fern | 1.000 |  | 1.000 (0) |  | 1.00, atomic |
| scatter_add, Zipf 1 | 1.000 | 0.800 | 0.500 (0) | 0.400 (0) | 2.00, tree at 0 |
| scatter_add, Zipf 1 | tree at 4 | 1.0 % | 1.98 |
| scatter_add, Zipf 1 | tree | 2.00 | 0.80 |
| scatter_add, Zipf 1 | tree | 24 | 0.80 at 24 |
| scatter_add, Zipf 1 | 10 | 32.0 | 100 % | 4.0 | 0 % | 8.00 |
| backward tree | 500.0 | 3.0 | 1.50 |"""
missing = [row for row in wanted.splitlines() if row not in everything.stdout.splitlines()]
if everything.returncode or missing:
    sys.exit("lacks:\n" + "\n".join(missing) + "\n\nin\n" + everything.stdout + everything.stderr)
for tuned_ms, passes in ((0.505, True), (0.52, False), (1.03, False), (float("nan"), False)):
    checked = run({"scatter_add-1.json": bench(tuned_ms)}, "--check")
    if (checked.returncode == 0) != passes:
        sys.exit(f"a choice of {tuned_ms} ms: {checked.returncode}\n{checked.stdout}{checked.stderr}")
if run({}).returncode == 0:
    sys.exit("an empty folder passes")
print("ok")
