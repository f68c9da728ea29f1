# SPDX-License-Identifier: MIT
"""The pages hold the tables of the kept measurements; a changed figure, in a page or in what is kept, is found.

    tables_test.py ROOT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

root = sys.argv[1]


def check(folder):
    return subprocess.run([sys.executable, "-B", os.path.join(root, "benchmarks", "tables.py"), "check", "--root", folder],
                          capture_output=True, text=True)


def change(path, old, new):
    with open(path) as file:
        content = file.read()
    assert old in content, f"{path} lacks {old}"
    with open(path, "w") as file:
        file.write(content.replace(old, new))


def figure(path, pattern):
    with open(os.path.join(root, path)) as file:
        found = re.search(pattern, file.read())
    return path, found.group(), found.group() + "1"


as_it_is = check(root)
assert as_it_is.returncode == 0, as_it_is.stdout + as_it_is.stderr + "\nbenchmarks/tables.py write mends the pages"
changes = [figure("docs/benchmarks/rasteriser.md", r"\| atomic \| [0-9.]+"),
           ("docs/benchmarks/rasteriser.md", "<!-- table rasteriser/counters -->", ""),
           ("docs/benchmarks/rasteriser.md", "<!-- table rasteriser/counters -->", "<!-- table rasteriser/none -->"),
           figure("README.md", r"`tree_of_lanes` \| [0-9.]+"),
           ("benchmarks/results/library.jsonl", '"4.69 to 8.08"', '"4.69 to 9.08"'),
           ("benchmarks/results/rasteriser.jsonl", '"1080x1920"', '"1080x1921"'),
           ("benchmarks/results/papers.jsonl", '"0.240"', '"0.238"'),
           ("benchmarks/results/training.jsonl", '"32.84 (', '"32.85 ('),
           ("benchmarks/results/levenberg-marquardt.jsonl", '"29.65"', '"29.64"')]
for name, old, new in changes:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(root, "README.md"), folder)
        for part in ("docs", "benchmarks/results"):
            shutil.copytree(os.path.join(root, part), os.path.join(folder, part))
        change(os.path.join(folder, name), old, new)
        assert check(folder).returncode, f"{name}: {old} became {new}, and the check passes"
print(as_it_is.stdout + f"{len(changes)} changes found")
