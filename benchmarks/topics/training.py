# SPDX-License-Identifier: MIT
"""Training: the logs that training.sh wrote, NAME.jsonl each."""
import os
import statistics
import sys

from . import figures, kept

KEPT = ["training.jsonl"]


def views_a_step(steps):
    """Views per step of each line: gpu_ms are those of a step, step_ms is that of a view. Density control may show in
    step_ms a line too early, so the median of three lines counts."""
    each = [(sum(e["gpu_ms"].values()) - e["gpu_ms"].get("density", 0)) / e["step_ms"] if "step_ms" in e else 1 for e in steps]
    return [max(1, round(statistics.median(each[max(0, i - 1):i + 2]))) for i in range(len(each))]


class Run:
    """A log of dsplat train."""

    def __init__(self, events):
        self.events = events
        self.start, self.end = self.of("start")[0], (self.of("end") or [None])[0]
        self.evaluations = self.of("evaluation")
        # "shared" was added to the log by hand: others used the GPU too, so that times say nothing.
        self.alone = not (self.end or {}).get("shared")

    def of(self, event):
        return [e for e in self.events if e["event"] == event]

    def stages(self):
        """{stage: ms per view}, over all steps that were timed."""
        steps = self.of("step")
        begins = [self.start["iteration"], *(e["iteration"] for e in steps)]
        timed = [(e["iteration"] - begin, e) for begin, e in zip(begins, steps) if "gpu_ms" in e]
        sums, iterations = {}, sum(weight for weight, _ in timed)
        for (weight, e), views in zip(timed, views_a_step([e for _, e in timed])):
            for stage, ms in e["gpu_ms"].items():
                sums[stage] = sums.get(stage, 0) + weight * ms / views
        return {stage: total / iterations for stage, total in sums.items()}

    def kept(self):
        """The events that the tables need."""
        start = {key: self.start[key] for key in ("event", "dsplat", "gpu", "iteration") if key in self.start}
        stages = {stage: round(ms, 6) for stage, ms in self.stages().items()}
        step = {"event": "step", "iteration": self.end["iteration"], "gpu_ms": stages}
        measured = [{key: e[key] if isinstance(e[key], (str, int)) else round(e[key], 6)
                     for key in ("event", "iteration", "seconds", "psnr", "ssim") if key in e}
                    for e in self.evaluations]
        return [start, *([step] if stages else []), *measured, kept.rounded(self.end), *self.of("comparison")]


def load(paths):
    """Finished runs by name."""
    runs = {}
    for name, log in kept.read(paths):
        run = Run(log["events"])
        if run.end and run.evaluations:
            runs[name] = run
        else:
            print(f"{name}: has no end", file=sys.stderr)
    return runs


def part(runs, name):
    return {key[len(name) + 1:]: run for key, run in runs.items() if key.startswith(name + "-")}


def mean(values):
    return sum(values) / len(values)


def spread(values, digits):
    """The mean, and the least and the most of several."""
    values = list(values)
    ends = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{ends}"


def of_seeds(runs):
    """{name without the seed: runs, by seed}."""
    groups = {}
    for name, run in sorted(runs.items()):
        groups.setdefault(name.rpartition("-")[0], []).append(run)
    return groups


def last(group, key):
    return [run.evaluations[-1][key] for run in group]


def numbered(name):
    """For sorting: the name with its numbers as numbers."""
    return [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in name.split("-")]


def devices(runs):
    return sorted({run.start["gpu"] for run in runs.values()})


def records(paths):
    return [(name, {"events": run.kept()}) for name, run in load(paths).items()]


def by_quality(runs):
    """Means over seeds, and the least and the most."""
    rows = []
    for name, group in sorted(of_seeds(runs).items(), key=lambda item: numbered(item[0])):
        scene, asked = name.split("-")
        rows.append([scene, f"{int(asked):,}", spread(last(group, "psnr"), 2), spread(last(group, "ssim"), 4),
                     spread((run.end["seconds"] for run in group if run.alone), 1),
                     spread((run.end["gaussians"] for run in group), 0), len(group)])
    return ["data", "iterations", "PSNR, dB", "SSIM", "seconds", "Gaussians", "seeds"], rows


def by_count(runs):
    """A row for each limit of the number of Gaussians, columns for each number of iterations; runs
    SCENE-ITERATIONS-LIMIT-SEED."""
    groups = {tuple(name.split("-")): group for name, group in of_seeds(runs).items()}
    lengths = sorted({int(iterations) for _, iterations, _ in groups})
    rows = []
    for scene, limit in sorted({(scene, int(limit)) for scene, _, limit in groups}):
        cells = []
        for iterations in lengths:
            group = groups.get((scene, str(iterations), str(limit)))
            cells += [spread(last(group, "psnr"), 2), spread(last(group, "ssim"), 4)] if group else [None, None]
        rows.append([scene, f"{limit:,}", *cells])
    return ["data", "Gaussians", *(f"{iterations:,} iterations: {what}" for iterations in lengths
                                   for what in ("PSNR, dB", "SSIM"))], rows


def by_change(runs):
    """A row for each change of the defaults: PSNR and SSIM, and by how much the change moves them."""
    groups = {tuple(name.split("-", 2)): group for name, group in of_seeds(runs).items()}
    scenes = sorted({(scene, iterations) for scene, iterations, _ in groups})
    changes = sorted({key[2] for key in groups}, key=lambda change: (change != "none", change))
    rows = [[change, *(groups.get((*scene, change)) for scene in scenes)] for change in changes]

    def cell(group, base):
        if not group:
            return None
        moved = "" if group is base or not base else ", " + ", ".join(
            f"{mean(last(group, key)) - mean(last(base, key)):+.{digits}f}" for key, digits in (("psnr", 2), ("ssim", 4)))
        return f"{mean(last(group, 'psnr')):.2f}, {mean(last(group, 'ssim')):.4f}{moved}"

    return ["change", *(f"{scene}, {int(iterations):,} iterations" for scene, iterations in scenes)], [
        [row[0].replace("-", " "), *(cell(group, base) for group, base in zip(row[1:], rows[0][1:]))] for row in rows]


def by_stage(runs):
    """GPU ms of a view, and the share of it."""
    runs = {name: stages for name, run in runs.items() if (stages := run.stages())}
    names = list(dict.fromkeys(stage for stages in runs.values() for stage in stages))
    return ["run", *names, "sum"], [
        [name, *(f"{stages[s]:.3f}, {100 * stages[s] / sum(stages.values()):.1f} %" if s in stages else ""
                 for s in names), f"{sum(stages.values()):.3f}"] for name, stages in runs.items()]


def by_repetition(runs):
    rows = []
    for name, run in runs.items():
        compared = (run.of("comparison") or [None])[0]
        rows.append([name, f"{run.end['iteration'] - run.start['iteration']:,}", f"{run.end['seconds']:.2f}",
                     f"{run.evaluations[-1]['psnr']:.2f}", *(compared and (
                         compared["kills"], "yes" if compared["equal"] else "NO") or (None, None))])
    return ["run", "iterations since the last resume", "their seconds", "PSNR, dB", "times killed",
            "same bytes as the first run"], rows


def budgets(runs):
    """Runs budget-SCENE-WAY and, of these scenes, the first seed of the runs with a number of iterations,
    defaults-SCENE-ITERATIONS, as (the scene, what was asked for, the run), by time."""
    found = []
    for name, run in part(runs, "budget").items():
        scene, asked = name.split("-")
        found.append((scene, f"{asked[:-1]} s", run))
    scenes = {scene for scene, *_ in found}
    for name, group in of_seeds(part(runs, "defaults")).items():
        scene, asked = name.split("-")
        if scene in scenes and group[0].alone:
            found.append((scene, f"{int(asked):,} iterations", group[0]))
    return sorted(found, key=lambda row: (row[0], row[2].end["seconds"]))


def by_budget(runs):
    rows = []
    for scene, asked, run in budgets(runs):
        last = run.evaluations[-1]
        rows.append([scene, asked, f"{run.end['seconds']:.2f}", f"{run.end['iteration']:,}", f"{run.end['gaussians']:,}",
                     f"{last['psnr']:.2f}", f"{last['ssim']:.4f}"])
    return ["data", "asked for", "seconds", "iterations", "Gaussians", "PSNR, dB", "SSIM"], rows


def tables(runs):
    defaults = part(runs, "defaults")
    first = {name.rpartition("-")[0]: run for name, run in defaults.items() if name.endswith("-30000-0") and run.alone}
    found = {"defaults": by_quality(defaults), "count": by_count(part(runs, "count")),
             "ablation": by_change(part(runs, "ablation")), "stages": by_stage(first),
             "reproducible": by_repetition(part(runs, "reproducible")), "budget": by_budget(runs)}
    return {name: table for name, table in found.items() if table[1]}


def draw_budgets(pyplot, runs, folder):
    """Where the runs of each scene end, by the time that they took."""
    rows = budgets(runs)
    scenes = sorted({scene for scene, *_ in rows})
    if not scenes:
        return

    def curve(scene, limited):
        return [{**run.evaluations[-1], "seconds": run.end["seconds"]} for of, asked, run in rows
                if of == scene and asked.endswith(" s") == limited]

    figure, plots = pyplot.subplots(2, len(scenes), figsize=(4.5 * len(scenes), 6), squeeze=False, layout="constrained")
    for column, scene in zip(plots.T, scenes):
        for label, points in (("--iterations", curve(scene, False)), ("--budget", curve(scene, True))):
            for plot, key in zip(column, ("psnr", "ssim")):
                plot.plot([p["seconds"] for p in points], [p[key] for p in points], marker=".", label=label)
        column[0].set_title(scene)
        column[0].legend(fontsize=7)
        column[1].set_xlabel("seconds")
    plots[0][0].set_ylabel("held-out PSNR, dB")
    plots[1][0].set_ylabel("held-out SSIM")
    for plot in plots.flat:
        plot.grid(alpha=0.3)
    path = os.path.join(folder, "budget.png")
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
    print(f"drawn: {path}", file=sys.stderr)


def draw(runs, folder):
    """PSNR over the number of Gaussians."""
    pyplot = figures.pyplot()
    if not pyplot:
        return
    lines = {}
    for name, group in of_seeds(part(runs, "count")).items():
        scene, iterations, limit = name.split("-")
        lines.setdefault((scene, int(iterations)), []).append((int(limit), mean(last(group, "psnr"))))
    figure, plot = pyplot.subplots(figsize=(4.5, 3.4), layout="constrained")
    for (scene, iterations), points in sorted(lines.items()):
        plot.plot(*zip(*sorted(points)), marker=".", label=f"{scene}, {iterations:,} iterations")
    plot.set_xscale("log")
    plot.set_xlabel("Gaussians")
    plot.set_ylabel("held-out PSNR, dB")
    plot.grid(alpha=0.3)
    plot.legend(fontsize=7)
    path = os.path.join(folder, "training.png")
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
    print(f"drawn: {path}", file=sys.stderr)
    draw_budgets(pyplot, runs, folder)
