# SPDX-License-Identifier: MIT
"""The tables of invented runs, and the same tables from what is kept of them.

    finish_test.py ROOT
"""
import json
import os
import subprocess
import sys
import tempfile


def step(seconds, before, after, kept=True):
    return {"seconds": seconds, "before": before, "after": after, "gamma": 1, "damping": 1, "gain": 1, "kept": kept,
            "images": 3, "bytes": 2**29, "psnr": 20 + seconds, "ssim": 0.5, "gpu_ms": {"Jp": 10 * seconds}}


adam = [{"event": "start", "gpu": "GPU", "iteration": 0, "settings": {}},
        {"event": "evaluation", "iteration": 20, "seconds": 40, "psnr": 20, "ssim": 0.5},
        {"event": "step", "iteration": 20},
        {"event": "evaluation", "iteration": 30, "seconds": 60, "psnr": 21, "ssim": 0.6},
        {"event": "end", "iteration": 30, "seconds": 60, "gaussians": 1000}]
# The second step is undone. The third is as good as Adam's end.
finishes = {"lm-fern-20-free": [step(2, 0.5, 0.4), step(4, 0.4, 0.1, False), step(5, 0.4, 0.3)],
            "lm-fern-30-end": [step(2, 0.35, 0.3)]}
with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "adam-fern.jsonl"), "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in adam)
    for name, steps in finishes.items():
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump({"device": "GPU", "gaussians": 1000, "views": 3, "psnr": 19, "ssim": 0.4, "steps": steps}, file)
    script = os.path.join(sys.argv[1], "benchmarks", "tables.py")
    kept = os.path.join(folder, "levenberg-marquardt.jsonl")
    pages = []
    for path in (folder, kept):
        pages.append(subprocess.run([sys.executable, "-B", script, "levenberg-marquardt", path], check=True,
                                    capture_output=True, text=True).stdout)
        subprocess.run([sys.executable, "-B", script.replace("tables", "trim"), path, "-o", kept], check=True)
wanted = """\
| fern | 20 | free | 2 of 3 | 5.00 | 0.50 | 0.500000 -> 0.300000 | 19.00 -> 25.00 | 0.4000 -> 0.5000 |
| fern | 20 | free | 3 | 16.7 | 1.667 | 0.50 |
| fern | 20 | step 3: as good as Adam at its end | 5.00 | 0.300000 | 25.00, 0.5000 |
| fern | 20 | Adam, 30 | 20.00 | 0.350000 | 19.00, 0.4000 |
| fern | 30 | step 1 | 2.00 | 0.300000 | 22.00, 0.5000 |
| fern | 20 | free | 0.350000 | 20.00 | 5.00 | 0.25 | 19.00, 0.4000 | 25.00, 0.5000 |"""
missing = [row for row in wanted.splitlines() if row not in pages[0].splitlines()]
if missing:
    sys.exit("lacks:\n" + "\n".join(missing) + "\n\nin\n" + pages[0])
if pages[0] != pages[1]:
    sys.exit("the kept files make other tables:\n" + pages[1])
print("ok")
