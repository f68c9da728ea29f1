# SPDX-License-Identifier: MIT
"""leave_one_out.py on invented runs: a constant that is best where nobody would choose it.

    leave_one_out_test.py ROOT
"""
import json
import os
import subprocess
import sys
import tempfile

script = os.path.join(sys.argv[1], "benchmarks", "leave_one_out.py")


def run(lines):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        return subprocess.run([sys.executable, "-B", script, path], capture_output=True, text=True)


def runs(scene, options, *psnr, iterations=7000):
    return [{"scene": scene, "options": options, "seed": i, "iterations": iterations, "psnr": p, "more": 1}
            for i, p in enumerate(psnr)]


# a and b want 0.3, c wants none: without c 0.3 is chosen, and costs c 2 dB; without a or b the default is, by c.
made = (runs("a", {}, 20, 20.2) + runs("a", {"dropout": 0.3}, 21, 21.4) + runs("a", "--dropout 0.1", 20.5)
        + runs("b", {}, 30, 30) + runs("b", "--dropout=0.3", 31, 31) + runs("b", "--dropout 0.1", 30.5)
        + runs("c", "", 40, 40.2) + runs("c", {"dropout": 0.3}, 38, 38.2) + runs("c", {"dropout": 0.1}, 39)
        + runs("d", {}, 10)  # has not all values
        + runs("a", {"dropout": 0.3}, 99, iterations=30000)  # alone in its table
        + runs("a", "--flag --batch 1", 25) + runs("a", "--flag", 24))
got = run(made)
wanted = """
batch: default, 1; 7000 iterations, with --flag yes
  1 scenes have all values; two are needed

dropout: default, 0.1, 0.3; 7000 iterations
  left out           chosen       dB  default    gain     +-  best there
  a                 default    20.10    20.10   +0.00      -  0.3 21.20
  b                 default    30.00    30.00   +0.00      -  0.3 31.00
  c                     0.3    38.10    40.10   -2.00   0.14  default 40.10
  mean                                          -0.67

flag: default, yes; 7000 iterations
  1 scenes have all values; two are needed
"""
assert got.returncode == 0 and got.stdout == wanted, f"got:\n{got.stdout}{got.stderr}\nwanted:\n{wanted}"
for bad, part in (("{}\n", "line 1: KeyError: 'psnr'"), ("text\n", "line 1: JSONDecodeError"),
                  (runs("a", {}, float("nan"))[0], "line 1: ValueError: psnr nan")):
    got = run([bad])
    assert got.returncode and part in got.stderr, f"no '{part}' in: {got.stderr}"
assert run(made[:2]).stdout == "", "a table of a constant with one value"
