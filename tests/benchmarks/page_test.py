# SPDX-License-Identifier: MIT
"""docs/benchmarks.md has every row of the tables that the kept measurements make.

    page_test.py ROOT
"""
import os
import subprocess
import sys

root = sys.argv[1]


def lines(*command):
    return subprocess.run([sys.executable, "-B", *command], cwd=root, check=True, capture_output=True,
                          text=True).stdout.splitlines()


rows = [line for line in lines("benchmarks/plot_blend.py", "benchmarks/results/blend-h200") +
        lines("benchmarks/profile.py", "benchmarks/results/blend-h200/profile.json") +
        lines("benchmarks/plot_workloads.py", "benchmarks/results/blend-h200", "benchmarks/results/workloads-h200") +
        lines("benchmarks/training.py", "benchmarks/results/training-h200")
        if line.startswith("|")]
with open(os.path.join(root, "docs/benchmarks.md")) as page:
    stated = set(page.read().splitlines())
missing = [row for row in rows if row not in stated]
if missing or not rows:
    sys.exit("docs/benchmarks.md lacks:\n" + "\n".join(missing or ["(nothing was measured)"]))
print(f"{len(rows)} rows")
