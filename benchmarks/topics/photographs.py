# SPDX-License-Identifier: MIT
"""The last table of photographs.sh, lines of JSON, and the budgets beside it."""
from . import kept, training

KEPT = ["photographs.jsonl"]


def load(paths):
    """The lines of the last run that has scenes."""
    lines = [line for path in paths for line in kept.lines(path)]
    last = max((line["run"] for line in lines if "asked" in line), default=None)
    return [line for line in lines if line["run"] == last and "scene" in line]


def tables(lines):
    rows = {}
    for line in lines:
        asked = f"{line['budget']} s" if "budget" in line else f"{line['asked']:,} iterations"
        rows.setdefault((line["scene"], "budget" in line, line.get("budget", line.get("asked")), asked), []).append(line)
    digits = {"psnr": 2, "ssim": 4, "seconds": 1, "gaussians": 0}
    return {"defaults": (["data", "asked for", "PSNR, dB", "SSIM", "seconds", "Gaussians", "seeds"], [
        [scene, asked, *(training.spread([line[key] for line in group], places) for key, places in digits.items()), len(group)]
        for (scene, _, _, asked), group in sorted(rows.items())])}
