# SPDX-License-Identifier: MIT
"""The tables of invented runs, and the same tables from what is kept of them.

    training_test.py ROOT
"""
import json
import os
import subprocess
import sys
import tempfile


def log(iterations, seconds, *more, psnr=25):
    """Two evaluations, half-way and at the end; 2 ms of the first 10 iterations are Adam's, 4 ms of the others."""
    half = iterations // 2
    return [{"event": "start", "gpu": "GPU", "iteration": 0, "settings": {}},
            {"event": "step", "iteration": 10, "gpu_ms": {"render": 6, "adam": 2}},
            {"event": "step", "iteration": iterations, "gpu_ms": {"render": 6, "adam": 4}},
            {"event": "evaluation", "iteration": half, "seconds": seconds / 2, "psnr": 20, "ssim": 0.5},
            {"event": "evaluation", "iteration": iterations, "seconds": seconds, "psnr": psnr, "ssim": psnr / 100},
            {"event": "end", "iteration": iterations, "seconds": seconds, "gaussians": 1000}, *more]


# Four views per step, then one. The time of the fourth line's density control is in step_ms of the third.
turns = log(100, 1)
turns[1:3] = [{"event": "step", "iteration": 10 * (i + 1), "step_ms": step_ms, "gpu_ms": {"render": 8, "density": density}}
              for i, (step_ms, density) in enumerate([(2, 0), (2, 0), (12, 0), (2, 40), (2, 0)] + 5 * [(8, 0)])]

runs = {"defaults-fern-30000-0": log(20, 80), "defaults-fern-30000-1": log(20, 70, psnr=26),
        "defaults-fern-7000-0": log(20, 5), "defaults-fox-7000-0": log(20, 5)[:-1],
        "count-fern-7000-50000-0": log(20, 5), "count-fern-7000-50000-1": log(20, 5, psnr=27),
        "count-fern-7000-300000-0": log(20, 5, psnr=28), "count-fern-30000-50000-0": log(20, 5, psnr=29),
        "defaults-turns-30000-0": turns,
        "budget-fern-6s": log(30, 6),
        "ablation-fern-7000-none-0": log(20, 5),
        "ablation-fern-7000-no-splits-0": log(20, 5, psnr=23), "ablation-fern-7000-no-splits-1": log(20, 5, psnr=24),
        "ablation-fox-7000-more-0": log(20, 5),
        "reproducible-fern-2": log(10, 1, {"event": "comparison", "kills": 3, "equal": False})}
with tempfile.TemporaryDirectory() as folder:
    for name, events in runs.items():
        with open(os.path.join(folder, name + ".jsonl"), "w") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
    script, kept = os.path.join(sys.argv[1], "benchmarks", "tables.py"), os.path.join(folder, "kept", "training.jsonl")
    os.mkdir(os.path.dirname(kept))
    page = subprocess.run([sys.executable, "-B", script, "training", folder], check=True, capture_output=True, text=True)
    subprocess.run([sys.executable, "-B", script.replace("tables", "trim"), folder, "-o", kept], check=True,
                   capture_output=True)
    again = subprocess.run([sys.executable, "-B", script, "training", kept], check=True, capture_output=True, text=True)
wanted = """\
| fern | 7,000 | 25.00 | 0.2500 | 5.0 | 1000 | 1 |
| fern | 30,000 | 25.50 (25.00 to 26.00) | 0.2550 (0.2500 to 0.2600) | 75.0 (70.0 to 80.0) | 1000 (1000 to 1000) | 2 |
| fern | 50,000 | 26.00 (25.00 to 27.00) | 0.2600 (0.2500 to 0.2700) | 29.00 | 0.2900 |
| fern | 300,000 | 28.00 | 0.2800 |  |  |
| none | 25.00, 0.2500 |  |
| no splits | 23.50, 0.2350, -1.50, -0.0150 |  |
| more |  | 25.00, 0.2500 |
| fern-30000 | 6.000, 66.7 % | 3.000, 33.3 % |  | 9.000 |
| turns-30000 | 5.000, 83.3 % |  | 1.000, 16.7 % | 6.000 |
| fern | 7,000 iterations | 5.00 | 20 | 1,000 | 25.00 | 0.2500 |
| fern | 6 s | 6.00 | 30 | 1,000 | 25.00 | 0.2500 |
| fern-2 | 10 | 1.00 | 25.00 | 3 | NO |"""
missing = [row for row in wanted.splitlines() if row not in page.stdout.splitlines()]
if missing or "defaults-fox-7000-0: has no end" not in page.stderr:
    sys.exit("lacks:\n" + "\n".join(missing) + "\n\nin\n" + page.stdout + page.stderr)
if not again.stdout or page.stdout != again.stdout:
    sys.exit("the kept files make other tables:\n" + again.stdout)
print("ok")
