#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what benchmarks/training.sh wrote as Markdown tables, and draws quality over time.

    benchmarks/training.py build/training [-o docs/pictures] [--keep benchmarks/results/training-h200]
"""
import argparse
import glob
import json
import os
import sys

import figures


class Run:
    """A log of splat train."""

    def __init__(self, path):
        with open(path) as file:
            self.events = [json.loads(line) for line in file]
        self.start = self.of("start")[0]
        self.settings, self.end = self.start["settings"], (self.of("end") or [None])[0]
        self.evaluations = self.of("evaluation")

    def of(self, event):
        return [e for e in self.events if e["event"] == event]

    def evaluated(self, seconds):
        """The last evaluation by then, within 1 %: a run that is cut off ends with the step it is in."""
        return max((e for e in self.evaluations if e["seconds"] <= 1.01 * seconds), key=lambda e: e["seconds"], default=None)

    def stages(self):
        """{stage: ms an iteration}, over all steps that were timed."""
        sums, steps, before = {}, 0, self.start["iteration"]
        for e in self.of("step"):
            weight, before = e["iteration"] - before, e["iteration"]
            for stage, ms in e.get("gpu_ms", {}).items():
                sums[stage] = sums.get(stage, 0) + weight * ms
            steps += weight if "gpu_ms" in e else 0
        return {stage: total / steps for stage, total in sums.items()}


    def keep(self, path):
        """Writes what the tables are made of."""
        start = {key: self.start[key] for key in ("event", "splat", "gpu", "iteration") if key in self.start}
        stages = {stage: round(ms, 4) for stage, ms in self.stages().items()}
        step = {"event": "step", "iteration": self.end["iteration"], "gpu_ms": stages}
        measured = [{key: e[key] if isinstance(e[key], (str, int)) else round(e[key], 4)
                     for key in ("event", "iteration", "seconds", "psnr", "ssim") if key in e}
                    for e in self.evaluations + self.of("lm")]
        with open(path, "w") as file:
            for event in [{**start, "settings": {}}, *([step] if stages else []), *measured, self.end,
                          *self.of("comparison")]:
                file.write(json.dumps(event) + "\n")


def load(folder):
    """Runs that came to their end, by name."""
    runs = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        run, name = Run(path), os.path.splitext(os.path.basename(path))[0]
        if run.end and run.evaluations:
            runs[name] = run
        else:
            print(f"{name}: did not come to its end", file=sys.stderr)
    return runs


def part(runs, name):
    return {key[len(name) + 1:]: run for key, run in runs.items() if key.startswith(name + "-")}


def table(title, header, rows):
    if rows:
        print(f"\n{title}\n\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
        for row in rows:
            print("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |")


def by_scene(item):
    scene, _, number = item[0].rpartition("-")
    return scene, int(number)


def print_quality(runs):
    rows = []
    for name, run in sorted(runs.items(), key=by_scene):
        last = run.evaluations[-1]
        rows.append([name.rpartition("-")[0], f"{run.end['iteration']:,}", f"{run.end['gaussians']:,}",
                     f"{run.end['seconds']:.1f}", f"{last['psnr']:.2f}", f"{last['ssim']:.4f}"])
    table("Held-out quality:", ["data", "iterations", "Gaussians", "seconds", "PSNR, dB", "SSIM"], rows)


def print_finish(runs):
    rows = []
    for name, run in sorted(runs.items(), key=by_scene):
        scene, iterations = by_scene((name, run))
        rows.append([scene, f"{iterations:,}", *(f"{e['psnr']:.2f}, {e['ssim']:.4f}" + (
            f" in {e['seconds']:.1f} s" if e["seconds"] else "") for e in run.evaluations[:1] + run.of("lm"))])
    steps = max((len(row) - 3 for row in rows), default=0)
    table("Levenberg-Marquardt after it, PSNR in dB and SSIM:",
          ["data", "iterations", "at their end", *(f"after {k} step{'s'[:k > 1]}" for k in range(1, steps + 1))], rows)


def print_split(runs):
    runs = {name: stages for name, run in runs.items() if (stages := run.stages())}
    names = list(dict.fromkeys(stage for stages in runs.values() for stage in stages))
    table("GPU time of an iteration, ms, and its share:", ["run", *names, "sum"],
          [[name, *(f"{stages[s]:.3f}, {100 * stages[s] / sum(stages.values()):.1f} %" if s in stages else ""
                    for s in names), f"{sum(stages.values()):.3f}"] for name, stages in runs.items()])


def print_wall(runs):
    rows = []
    for name, run in runs.items():
        at = [run.evaluated(seconds) for seconds in (30, 60)]
        best = max(run.evaluations, key=lambda e: e["psnr"])
        rows.append([*name.split("-"), *(e and f"{e['psnr']:.2f}, iteration {e['iteration']:,}" for e in at),
                     f"{best['psnr']:.2f}, {best['seconds']:.1f} s", f"{run.end['iteration'] / run.end['seconds']:.0f}"])
    table("PSNR in dB after equal time, of a run over 30,000 iterations:",
          ["data", "reduction", "30 s", "60 s", "highest on the way", "iterations a second"], rows)


def print_speed(runs):
    table("Speed, the number of Gaussians fixed:", ["Gaussians", "iterations a second"],
          [[f"{run.end['gaussians']:,}", f"{run.end['iteration'] / run.end['seconds']:.0f}"]
           for _, run in sorted(runs.items(), key=by_scene)])


def print_reproducible(runs):
    rows = []
    for name, run in runs.items():
        compared = (run.of("comparison") or [None])[0]
        rows.append([name, f"{run.end['iteration'] - run.start['iteration']:,}", f"{run.end['seconds']:.2f}",
                     f"{run.evaluations[-1]['psnr']:.2f}", *(compared and (
                         compared["kills"], "yes" if compared["equal"] else "NO") or (None, None))])
    table("Reproducible:", ["run", "iterations since it was last resumed", "seconds of them", "PSNR, dB", "times killed",
                            "the first run's bytes"], rows)


def draw(runs, wall, folder):
    pyplot = figures.pyplot()
    if not pyplot:
        return

    quality = part(runs, "quality")

    def save(name, scenes, lines):
        if not scenes:
            return
        figure, plots = pyplot.subplots(2, len(scenes), figsize=(4.5 * len(scenes), 6), squeeze=False,
                                        layout="constrained")
        for column, scene in zip(plots.T, scenes):
            for label, points in lines(scene):
                for plot, key in zip(column, ("psnr", "ssim")):
                    plot.plot([p["seconds"] for p in points], [p[key] for p in points], marker=".", label=label)
            column[0].set_title(scene)
            column[0].legend(fontsize=7)
            column[1].set_xlabel("seconds")
        plots[0][0].set_ylabel("held-out PSNR, dB")
        plots[1][0].set_ylabel("held-out SSIM")
        for plot in plots.flat:
            plot.grid(alpha=0.3)
        path = os.path.join(folder, name)
        figure.savefig(path, dpi=80)
        pyplot.close(figure)
        print(f"drawn: {path}", file=sys.stderr)

    save("training.png", sorted({name.split("-")[0] for name in wall}), lambda scene: [
        (reduction, run.evaluations) for reduction, run in (("atomic", wall[scene + "-atomic"]),
                                                            ("auto", quality.get(scene + "-30000"))) if run])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="with NAME.jsonl")
    parser.add_argument("-o", "--output", help="folder for the pictures; without it only the figures are printed")
    parser.add_argument("--keep", help="folder for copies of the logs that hold what the tables are made of")
    options = parser.parse_args()
    runs = load(options.folder)
    if not runs:
        sys.exit(f"{options.folder}: holds no runs")
    print(", ".join(sorted({run.start["gpu"] for run in runs.values()})))
    quality = part(runs, "quality")
    print_quality(quality)
    print_finish(part(runs, "finish"))
    print_split({**quality, **part(runs, "speed")})
    wall = part(runs, "wall")
    tuned = {name.rpartition("-")[0] + "-auto": run for name, run in quality.items() if name.endswith("-30000")}
    print_wall({name: run for name, run in sorted({**wall, **tuned}.items())
                if name.rpartition("-")[0] + "-atomic" in wall})
    print_speed(part(runs, "speed"))
    print_reproducible(part(runs, "reproducible"))
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        for name, run in runs.items():
            run.keep(os.path.join(options.keep, name + ".jsonl"))
    if options.output:
        os.makedirs(options.output, exist_ok=True)
        draw(runs, wall, options.output)


if __name__ == "__main__":
    main()
