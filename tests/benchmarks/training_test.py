# SPDX-License-Identifier: MIT
"""The tables of invented runs, and the same tables from what is kept of them.

    training_test.py ROOT
"""
import json
import os
import subprocess
import sys
import tempfile


def log(iterations, seconds, *more):
    """Two evaluations, half-way and at the end; 2 ms of the first 10 iterations are Adam's, 4 ms of the others."""
    half = iterations // 2
    return [{"event": "start", "gpu": "GPU", "iteration": 0, "settings": {}},
            {"event": "step", "iteration": 10, "gpu_ms": {"render": 6, "adam": 2}},
            {"event": "step", "iteration": iterations, "gpu_ms": {"render": 6, "adam": 4}},
            {"event": "evaluation", "iteration": half, "seconds": seconds / 2, "psnr": 20, "ssim": 0.5},
            {"event": "evaluation", "iteration": iterations, "seconds": seconds, "psnr": 25, "ssim": 0.75},
            {"event": "end", "iteration": iterations, "seconds": seconds, "gaussians": 1000}, *more]


runs = {"quality-fern-30000": log(20, 80), "wall-fern-atomic": log(10, 60), "quality-fox-30000": log(20, 20),
        "speed-fox-100000": log(1000, 4), "quality-fox-7000": log(20, 5)[:-1],
        "reproducible-fern-2": log(10, 1, {"event": "comparison", "kills": 3, "equal": False})}
with tempfile.TemporaryDirectory() as folder:
    for name, events in runs.items():
        with open(os.path.join(folder, name + ".jsonl"), "w") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
    script, kept = os.path.join(sys.argv[1], "benchmarks", "tables.py"), os.path.join(folder, "kept")
    page = subprocess.run([sys.executable, "-B", script, "training", folder, "--keep", kept], check=True, capture_output=True,
                          text=True)
    again = subprocess.run([sys.executable, "-B", script, "training", kept], check=True, capture_output=True, text=True)
wanted = """\
| fern | 20 | 1,000 | 80.0 | 25.00 | 0.7500 |
| fern-30000 | 6.000, 66.7 % | 3.000, 33.3 % | 9.000 |
| fern | atomic | 20.00, iteration 5 | 25.00, iteration 10 | 25.00, 60.0 s | 0 |
| fern | auto |  | 20.00, iteration 10 | 25.00, 80.0 s | 0 |
| 1,000 | 250 |
| fern-2 | 10 | 1.00 | 25.00 | 3 | NO |"""
missing = [row for row in wanted.splitlines() if row not in page.stdout.splitlines()]
if missing or "quality-fox-7000: has no end" not in page.stderr:
    sys.exit("lacks:\n" + "\n".join(missing) + "\n\nin\n" + page.stdout + page.stderr)
if not again.stdout or page.stdout != again.stdout:
    sys.exit("the kept files make other tables:\n" + again.stdout)
print("ok")
