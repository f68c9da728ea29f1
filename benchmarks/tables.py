#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the tables of the benchmarks from what was measured, and the plots.

    benchmarks/tables.py TOPIC [PATH...] [--draw FOLDER]

prints the tables of a topic as Markdown. PATH: a folder or file that a script or program of benchmarks/ wrote (for
counters: [LABEL=]FILE.csv of Nsight Compute), or what trim.py kept of it. Without PATH: benchmarks/results.

    benchmarks/tables.py --write | --check

writes the tables from benchmarks/results into the pages, between <!-- table TOPIC/NAME --> and <!-- end -->; or fails
if a page differs from that, if a marker names no table, or if a table is on no page.
"""
import argparse
import os
import re
import sys

from topics import (counters, index_add, levenberg_marquardt, library, ranks, rasteriser, strangers, text, training, whole,
                    workloads)

TOPICS = {"library": library, "rasteriser": rasteriser, "workloads": workloads, "training": training,
          "levenberg-marquardt": levenberg_marquardt, "counters": counters, "whole": whole, "index-add": index_add,
          "ranks": ranks, "strangers": strangers}
PAGES = ("README.md", "docs", "docs/benchmarks", "docs/developers", "docs/kernels", "docs/notes")
BLOCK = re.compile(r"<!-- table (.*?) -->\n(.*?)<!-- end -->", re.DOTALL)


def headline(data):
    """The figures of the README, each from another topic's data."""
    blend = rasteriser.times(data["rasteriser"]["render_backward"]["fox"])
    cases = {case.name: case for case in data["workloads"][0]}
    spheres = cases["spheres, large, K = 3"]
    runs = data["training"]
    fastest = min(ms for (way, _), (ms, _) in blend.items() if way == "tree")
    rows = [["backward blend of fox, plain `atomicAdd`", f"{blend['atomic', 0][0]:.2f} ms"],
            ["the same with `tree_of_lanes`, a batch of splats committed at once", f"{fastest:.2f} ms"],
            ["gradient of `spheres` (large, K = 3): plain atomics, vector atomics, `reduce_tree`",
             ", ".join(f"{spheres.best(way)[0]:.3f}" for way in ("atomic", "vector", "tree")) + " ms"]]
    for scene, iterations in (("bonsai", 7000), ("bonsai", 30000), ("fern", 7000), ("fox", 7000), ("knot", 7000)):
        seeds = training.of_seeds(runs)[f"defaults-{scene}-{iterations}"]
        rows.append([f"train {scene}, {iterations:,} iterations",
                     f"{training.mean(training.last(seeds, 'psnr')):.2f} dB in "
                     f"{training.mean([run.end['seconds'] for run in seeds]):.1f} s"])
    return ["figure", "measured"], rows


def kept_tables(root):
    """{"topic/name": lines} of all that is kept."""
    results = os.path.join(root, "benchmarks", "results")
    data = {topic: module.load([os.path.join(results, name) for name in module.KEPT])
            for topic, module in TOPICS.items() if hasattr(module, "KEPT")}
    found = {f"{topic}/{name}": table for topic, loaded in data.items()
             for name, table in TOPICS[topic].tables(loaded).items()}
    found["headline"] = headline(data)
    return {name: text.table(*table) for name, table in found.items()}


def pages(root):
    for folder in PAGES:
        path = os.path.join(root, folder)
        names = [path] if path.endswith(".md") else sorted(
            os.path.join(path, name) for name in os.listdir(path) if name.endswith(".md"))
        for name in names:
            with open(name) as file:
                yield name, file.read()


def update(root, write):
    """What is wrong, as sentences; with `write` pages are mended first."""
    found, used, wrong = kept_tables(root), set(), []

    def replace(match):
        if match[1] not in found:
            wrong.append(f"{path}: there is no table {match[1]}")
            return match[0]
        used.add(match[1])
        return f"<!-- table {match[1]} -->\n" + "\n".join(found[match[1]]) + "\n<!-- end -->"

    for path, page in pages(root):
        if page.count("<!-- table ") != len(BLOCK.findall(page)):
            wrong.append(f"{path}: a table has no end")
        made = BLOCK.sub(replace, page)
        if made != page and write:
            with open(path, "w") as file:
                file.write(made)
        elif made != page:
            stated = set(page.splitlines())
            wrong += [f"{path} lacks: {line}" for line in made.splitlines() if line not in stated] or [
                f"{path} has rows that were not measured"]
    wrong += [f"no page has the table {name}" for name in found if name not in used]
    print(f"{len(used)} tables")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", nargs="?", choices=TOPICS)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--draw", metavar="FOLDER", help="also draw the topic's plots")
    parser.add_argument("--tuner", action="store_true", help="workloads: only fail if a tuner chose badly")
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    parser.add_argument("--check", action="store_true", help="fail if a page differs from the kept results")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir),
                        help="the repository, for --write and --check")
    options = parser.parse_args()
    if options.write or options.check:
        wrong = update(options.root, options.write)
        if wrong:
            sys.exit("\n".join(wrong))
        return
    if not options.topic:
        parser.error("give a topic, --write or --check")
    module = TOPICS[options.topic]
    results = os.path.join(options.root, "benchmarks", "results")
    paths = options.paths or [os.path.join(results, name) for name in getattr(module, "KEPT", ())]
    if not paths:
        parser.error(f"{options.topic} needs a PATH")
    data = module.load(paths)
    found = module.tables(data)
    if not found:
        sys.exit(f"{', '.join(paths)}: holds no measurements")
    if options.tuner:
        bad = module.complaints(data)
        if bad:
            sys.exit("\n".join(bad))
        print("all choices of tuners are within bounds")
        return
    if hasattr(module, "devices"):
        print(", ".join(module.devices(data)))
    for name, table in found.items():
        print(f"\n{name}:\n", *text.table(*table), sep="\n")
    if options.draw:
        if not hasattr(module, "draw"):
            parser.error(f"{options.topic} has no plots")
        os.makedirs(options.draw, exist_ok=True)
        module.draw(data, options.draw)


if __name__ == "__main__":
    main()
