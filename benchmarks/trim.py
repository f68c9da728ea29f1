#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps measurements: what the tables need of the files that programs and scripts of benchmarks/ wrote.

    benchmarks/trim.py PATH... -o benchmarks/results/TOPIC.jsonl

PATH: such a folder or file, or [LABEL=]FILE.csv of Nsight Compute. Records of the same name are replaced, others stay.
Delete the file first to keep nothing of earlier runs.
"""
import argparse
import os
import subprocess
import sys

from tables import TOPICS
from topics import counters, kept

MODULES = {module.KEPT[-1]: module for module in TOPICS.values() if hasattr(module, "KEPT")}


def head():
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=os.path.dirname(os.path.abspath(__file__)),
                           capture_output=True, text=True)
    return found.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=", ".join(MODULES))
    parser.add_argument("--commit", default=head(), help="the commit that was measured; HEAD unless given")
    options = parser.parse_args()
    module = MODULES.get(os.path.basename(options.output))
    if not module:
        parser.error(f"-o must be one of {', '.join(MODULES)}")
    profiles = [path for path in options.paths if path.endswith(".csv")]
    records = module.records([path for path in options.paths if path not in profiles])
    if profiles:
        records.append(("profile", counters.load(profiles)))
    if not records:
        sys.exit(f"{', '.join(options.paths)}: holds no measurements of {os.path.basename(options.output)}")
    kept.merge(options.output, records, options.commit)


if __name__ == "__main__":
    main()
