# SPDX-License-Identifier: MIT
"""Training: the logs that training.sh wrote, NAME.jsonl each."""
import glob
import json
import os
import sys

from . import figures

KEPT = ["training-h200"]


def rounded(value):
    """Floats with six digits, in dictionaries and lists too."""
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
        """The last evaluation until then + 1 %: a run that is stopped finishes its present step."""
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
        """Writes the events that the tables need."""
        start = {key: self.start[key] for key in ("event", "splat", "gpu", "iteration") if key in self.start}
        stages = {stage: round(ms, 4) for stage, ms in self.stages().items()}
        step = {"event": "step", "iteration": self.end["iteration"], "gpu_ms": stages}
        measured = [{key: e[key] if isinstance(e[key], (str, int)) else round(e[key], 4)
                     for key in ("event", "iteration", "seconds", "psnr", "ssim", "kept") if key in e}
                    for e in self.evaluations + self.of("lm")]
        with open(path, "w") as file:
            for event in [{**start, "settings": {}}, *([step] if stages else []), *measured, self.end,
                          *self.of("comparison"), *map(rounded, self.of("poses"))]:
                file.write(json.dumps(event) + "\n")


def load(folders):
    """Finished runs by name."""
    folder, = folders
    runs = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        run, name = Run(path), os.path.splitext(os.path.basename(path))[0]
        if run.end and run.evaluations:
            runs[name] = run
        else:
            print(f"{name}: has no end", file=sys.stderr)
    return runs


def part(runs, name):
    return {key[len(name) + 1:]: run for key, run in runs.items() if key.startswith(name + "-")}


def by_scene(item):
    scene, _, number = item[0].rpartition("-")
    return scene, int(number)


def devices(runs):
    return sorted({run.start["gpu"] for run in runs.values()})


def keep(runs, folder):
    os.makedirs(folder, exist_ok=True)
    for name, run in runs.items():
        run.keep(os.path.join(folder, name + ".jsonl"))


def by_quality(runs):
    rows = []
    for name, run in sorted(runs.items(), key=by_scene):
        last = run.evaluations[-1]
        rows.append([name.rpartition("-")[0], f"{run.end['iteration']:,}", f"{run.end['gaussians']:,}",
                     f"{run.end['seconds']:.1f}", f"{last['psnr']:.2f}", f"{last['ssim']:.4f}"])
    return ["data", "iterations", "Gaussians", "seconds", "PSNR, dB", "SSIM"], rows


def by_finish(runs):
    rows = []
    for name, run in sorted(runs.items(), key=by_scene):
        scene, iterations = by_scene((name, run))
        rows.append([scene, f"{iterations:,}", *(f"{e['psnr']:.2f}, {e['ssim']:.4f}" + (
            f" in {e['seconds']:.1f} s" if e["seconds"] else "") for e in run.evaluations[:1] + run.of("lm"))])
    steps = max((len(row) - 3 for row in rows), default=0)
    return ["data", "iterations", "at their end",
            *(f"after {k} step{'s'[:k > 1]}" for k in range(1, steps + 1))], rows


def by_stage(runs):
    """GPU ms of an iteration, and the share of it."""
    runs = {name: stages for name, run in runs.items() if (stages := run.stages())}
    names = list(dict.fromkeys(stage for stages in runs.values() for stage in stages))
    return ["run", *names, "sum"], [
        [name, *(f"{stages[s]:.3f}, {100 * stages[s] / sum(stages.values()):.1f} %" if s in stages else ""
                 for s in names), f"{sum(stages.values()):.3f}"] for name, stages in runs.items()]


def by_time(runs):
    """PSNR after equal time, of runs over 30,000 iterations."""
    rows = []
    for name, run in runs.items():
        at = [run.evaluated(seconds) for seconds in (30, 60)]
        best = max(run.evaluations, key=lambda e: e["psnr"])
        rows.append([*name.split("-"), *(e and f"{e['psnr']:.2f}, iteration {e['iteration']:,}" for e in at),
                     f"{best['psnr']:.2f}, {best['seconds']:.1f} s", f"{run.end['iteration'] / run.end['seconds']:.0f}"])
    return ["data", "strategy", "30 s", "60 s", "highest on the way", "iterations a second"], rows


def by_count(runs):
    return ["Gaussians", "iterations a second"], [
        [f"{run.end['gaussians']:,}", f"{run.end['iteration'] / run.end['seconds']:.0f}"]
        for _, run in sorted(runs.items(), key=by_scene)]


def by_repetition(runs):
    rows = []
    for name, run in runs.items():
        compared = (run.of("comparison") or [None])[0]
        rows.append([name, f"{run.end['iteration'] - run.start['iteration']:,}", f"{run.end['seconds']:.2f}",
                     f"{run.evaluations[-1]['psnr']:.2f}", *(compared and (
                         compared["kills"], "yes" if compared["equal"] else "NO") or (None, None))])
    return ["run", "iterations since the last resume", "their seconds", "PSNR, dB", "times killed",
            "same bytes as the first run"], rows


def by_poses(runs):
    """Errors of training poses: mean, after the similarity between them and the data's. Means over seeds."""
    names = {"data": "the data's", "floor": "the data's, refined", "left": "perturbed", "refined": "perturbed, refined"}
    groups, rows = {}, []
    for name, run in runs.items():
        scene, way, _ = name.split("-")
        groups.setdefault((scene, list(names).index(way)), []).append(run)

    def mean(values):
        return sum(values) / len(values)

    for (scene, way), group in sorted(groups.items()):
        poses = [run.of("poses")[-1] for run in group if run.of("poses")]
        stages = [[p["before"] for p in poses], [p["sizes"][-1] for p in poses if p["sizes"]],
                  [p["after"] for p in poses]]
        changes = [" -> ".join(f"{mean([error[key] for error in stage]):.{digits}f}" for stage in stages if stage)
                   for key, digits in (("mean_degrees", 3), ("mean_extents", 4))]
        psnr = [run.evaluations[-1]["psnr"] for run in group]
        spread = f" ({min(psnr):.2f} to {max(psnr):.2f})" if len(psnr) > 1 else ""
        rows.append([scene, list(names.values())[way], str(len(group)), f"{mean(psnr):.2f}{spread}",
                     f"{mean([run.evaluations[-1]['ssim'] for run in group]):.4f}", *changes])
    return ["data", "poses", "seeds", "PSNR, dB", "SSIM", "degrees: start, after smaller pictures, end",
            "extents, likewise"], rows


def budget_of(name):
    """Of budget-SCENE-WAY: the scene, the seconds asked for (or None), whether with --finish auto."""
    scene, way = name.split("-")
    asked, _, finish = way.partition("+")
    return scene, float(asked[:-1]) if asked.endswith("s") else None, finish


def by_budget(runs):
    rows = []
    for name, run in sorted(runs.items(), key=lambda item: (budget_of(item[0])[0], item[1].end["seconds"])):
        scene, asked, finish = budget_of(name)
        last, steps = run.evaluations[-1], sum(e.get("kept", True) for e in run.of("lm"))
        rows.append([scene, f"{asked:g} s" if asked else f"{run.end['iteration']:,} iterations", finish and f"auto: {steps}",
                     f"{run.end['seconds']:.2f}", f"{run.end['iteration']:,}", f"{run.end['gaussians']:,}",
                     f"{last['psnr']:.2f}", f"{last['ssim']:.4f}"])
    return ["data", "asked for", "finish", "seconds", "iterations", "Gaussians", "PSNR, dB", "SSIM"], rows


def tables(runs):
    quality, wall = part(runs, "quality"), part(runs, "wall")
    tuned = {name.rpartition("-")[0] + "-auto": run for name, run in quality.items() if name.endswith("-30000")}
    timed = {name: run for name, run in sorted({**wall, **tuned}.items())
             if name.rpartition("-")[0] + "-atomic" in wall}
    found = {"defaults": by_quality(part(runs, "defaults")), "quality": by_quality(quality), "finish": by_finish(part(runs, "finish")),
             "stages": by_stage({**quality, **part(runs, "speed")}), "equal time": by_time(timed),
             "speed": by_count(part(runs, "speed")), "reproducible": by_repetition(part(runs, "reproducible")),
             "poses": by_poses(part(runs, "poses")), "budget": by_budget(part(runs, "budget"))}
    return {name: table for name, table in found.items() if table[1]}


def draw(runs, folder):
    pyplot = figures.pyplot()
    if not pyplot:
        return

    quality, wall = part(runs, "quality"), part(runs, "wall")

    budgets = part(runs, "budget")

    def curve(scene, chosen):
        """The last evaluations of a scene's runs, by time."""
        ends = [{**run.evaluations[-1], "seconds": run.end["seconds"]} for name, run in budgets.items()
                if budget_of(name)[0] == scene and chosen(*budget_of(name)[1:])]
        return sorted(ends, key=lambda end: end["seconds"])

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
    save("budget.png", sorted({budget_of(name)[0] for name in budgets}), lambda scene: [
        ("--iterations", curve(scene, lambda asked, finish: not asked)),
        ("--budget", curve(scene, lambda asked, finish: asked and not finish)),
        ("--budget, --finish auto", curve(scene, lambda asked, finish: finish))])
