# SPDX-License-Identifier: MIT
"""Levenberg-Marquardt beside Adam: the logs and reports that finish.sh wrote."""
import os

from . import figures, kept

KEPT = ["levenberg-marquardt.jsonl"]
EPSILON = 0.001  # the objective is the loss and this
DRAWN = {"third": "a third", "free": "two thirds"}
TIMED = ("free", "cached", "half", "half-cached")  # those with a cache were deleted: in kept results only
STEP = ("seconds", "before", "after", "gamma", "damping", "gain", "kept", "images", "bytes", "psnr", "ssim")


def load(paths):
    """{scene: Adam's log, its start, evaluations and end} and {(scene, iteration, variant): report of dsplat finish}."""
    adam, finishes = {}, {}
    for name, data in kept.read(paths):
        kind, _, rest = name.partition("-")
        if kind == "adam":
            adam[rest] = [e for e in data["events"] if e["event"] in ("start", "evaluation", "end") or
                          e["event"] == "step" and "loss" in e]
        elif kind == "lm":
            scene, iteration, variant = rest.split("-", 2)
            finishes[scene, int(iteration), variant] = data
    return adam, finishes


def records(paths):
    """GPU times are sums since the first step, so that the last step's suffice."""
    adam, finishes = load(paths)
    found = []
    for scene, events in adam.items():
        members = ("event", "dsplat", "gpu", "iteration", "seconds", "gaussians", "loss", "psnr", "ssim")
        found.append((f"adam-{scene}", {"events": [{key: kept.rounded(e[key]) for key in members if key in e}
                                                   for e in events]}))
    for (scene, iteration, variant), report in finishes.items():
        steps = [{key: kept.rounded(step[key]) for key in STEP} for step in report["steps"]]
        steps[-1]["gpu_ms"] = kept.rounded(report["steps"][-1]["gpu_ms"])
        found.append((f"lm-{scene}-{iteration}-{variant}", {
            **{key: kept.rounded(report[key]) for key in ("device", "gaussians", "views", "psnr", "ssim")},
            "steps": steps}))
    return found


def curve(report):
    """Seconds, objective, PSNR and SSIM: at the start, and after every step."""
    points = [(0, report["steps"][0]["before"], report["psnr"], report["ssim"])]
    for step in report["steps"]:
        points.append((step["seconds"], step["after"] if step["kept"] else step["before"], step["psnr"], step["ssim"]))
    return points


def reaches(points, objective):
    """The first point after a step whose objective is at most this; or None."""
    return next((point for point in points[1:] if point[1] <= objective), None)


def seconds_at(events, iteration):
    return next(e["seconds"] for e in events if e["event"] == "evaluation" and e["iteration"] >= iteration)


def devices(data):
    return sorted({report["device"] for report in data[1].values()})


def by_variant(finishes):
    rows = []
    for (scene, iteration, variant), report in finishes.items():
        points, steps = curve(report), report["steps"]
        rows.append([scene, f"{iteration:,}", variant, f"{sum(s['kept'] for s in steps)} of {len(steps)}",
                     f"{points[-1][0]:.2f}", f"{max(s['bytes'] for s in steps) / 2**30:.2f}",
                     f"{points[0][1]:.6f} -> {points[-1][1]:.6f}", f"{points[0][2]:.2f} -> {points[-1][2]:.2f}",
                     f"{points[0][3]:.4f} -> {points[-1][3]:.4f}"])
    return ["data", "iteration", "variant", "steps kept", "seconds", "GiB", "objective", "PSNR, dB", "SSIM"], rows


def by_part(finishes):
    """GPU ms per step, with and without a cache."""
    finishes = {key: report for key, report in finishes.items() if key[2] in TIMED or key[2].startswith("free-")}
    parts = list(dict.fromkeys(part for report in finishes.values() for part in report["steps"][-1]["gpu_ms"]))
    rows = []
    for (scene, iteration, variant), report in finishes.items():
        steps = report["steps"]
        rows.append([scene, f"{iteration:,}", variant, len(steps),
                     *(f"{steps[-1]['gpu_ms'].get(part, 0) / len(steps):.1f}" for part in parts),
                     f"{steps[-1]['seconds'] / len(steps):.3f}", f"{max(s['bytes'] for s in steps) / 2**30:.2f}"])
    return ["data", "iteration", "variant", "steps", *parts, "seconds per step", "GiB"], rows


def by_step(adam, finishes):
    """The defaults after a third and two thirds of Adam's iterations, and after its end, at some of their steps."""
    rows = []
    for (scene, iteration, variant), report in finishes.items():
        last, end = adam[scene][-1], finishes.get((scene, adam[scene][-1]["iteration"], "end"))
        if variant.split("-")[0] not in (*DRAWN, "end") or not end:
            continue
        points, goal = curve(report), curve(end)[0]
        steps = {0: "start", 1: "step 1", 2: "step 2", 5: "step 5", 10: "step 10", len(points) - 1: f"step {len(points) - 1}"}
        there = iteration < last["iteration"] and reaches(points, goal[1])
        if there:
            steps[points.index(there)] = f"step {points.index(there)}: as good as Adam at its end"
        for step in sorted(step for step in steps if step < len(points)):
            seconds, objective, psnr, ssim = points[step]
            rows.append([scene, f"{iteration:,}", steps[step], f"{seconds:.2f}", f"{objective:.6f}",
                         f"{psnr:.2f}, {ssim:.4f}"])
        if iteration < last["iteration"]:
            left = last["seconds"] - seconds_at(adam[scene], iteration)
            rows.append([scene, f"{iteration:,}", f"Adam, {last['iteration']:,}", f"{left:.2f}", f"{goal[1]:.6f}",
                         f"{goal[2]:.2f}, {goal[3]:.4f}"])
    return ["data", "from iteration", "after", "seconds more", "objective", "PSNR, SSIM"], rows


def beside_adam(adam, finishes):
    """When the objective is that of Adam's end."""
    rows = []
    for (scene, iteration, variant), report in finishes.items():
        last = adam[scene][-1]
        end = finishes.get((scene, last["iteration"], "end"))
        if not end or iteration == last["iteration"]:
            continue
        if report["steps"][0]["images"] < report["views"]:
            continue  # an objective over other views
        goal, left = curve(end)[0], last["seconds"] - seconds_at(adam[scene], iteration)
        there = reaches(curve(report), goal[1])
        if there:
            rows.append([scene, f"{iteration:,}", variant, f"{goal[1]:.6f}", f"{left:.2f}", f"{there[0]:.2f}",
                         f"{there[0] / left:.2f}", f"{goal[2]:.2f}, {goal[3]:.4f}", f"{there[2]:.2f}, {there[3]:.4f}"])
    return ["data", "iteration", "variant", "objective", "Adam, s more", "LM, s more", "ratio", "Adam: PSNR, SSIM",
            "LM: PSNR, SSIM"], rows


def tables(data):
    adam, finishes = data
    found = {"variants": by_variant(finishes), "parts": by_part(finishes), "steps": by_step(adam, finishes),
             "beside Adam": beside_adam(adam, finishes)}
    return {name: table for name, table in found.items() if table[1]}


def draw(data, folder):
    adam, finishes = data
    path = os.path.join(folder, "lm.png")
    pyplot = figures.pyplot()
    if not pyplot or not adam:
        return
    figure, plots = pyplot.subplots(3, len(adam), figsize=(4.5 * len(adam), 7.5), squeeze=False, sharex="col",
                                    layout="constrained")
    label_of = {variant: f"Levenberg-Marquardt after {where}" for variant, where in DRAWN.items()}
    colors = {label: f"C{i}" for i, label in enumerate(["Adam", *label_of.values()])}
    for column, (scene, events) in zip(plots.T, adam.items()):
        mine = {key[1:]: report for key, report in finishes.items()
                if key[0] == scene and key[2].split("-")[0] in (*DRAWN, "end")}
        begins = {iteration: seconds_at(events, iteration) for iteration, _ in mine}
        lines = {"Adam": [[(e["seconds"], e[key]) for e in events if key in e and e["seconds"] >= min(begins.values())]
                          for key in ("loss", "psnr", "ssim")]}
        # Adam's loss is of single views before their step. The objective is measured where dsplat finish starts.
        lines["Adam"][0] = [(seconds, loss + EPSILON) for seconds, loss in lines["Adam"][0]]
        column[0].plot(*zip(*((begins[iteration], curve(report)[0][1]) for (iteration, _), report in mine.items())), "ko",
                       markersize=4, label="Adam, all views at once")
        for (iteration, variant), report in mine.items():
            if variant.split("-")[0] in DRAWN:
                lines[label_of[variant.split("-")[0]]] = [
                    [(begins[iteration] + point[0], point[k]) for point in curve(report)] for k in (1, 2, 3)]
        for label, of_plots in lines.items():
            for plot, points in zip(column, of_plots):
                plot.plot(*zip(*points), ".-", markersize=3, linewidth=1, label=label, color=colors[label])
        column[0].set_title(f"{scene}, {events[-1]['iteration']:,} iterations", fontsize=10)
        column[2].set_xlabel("seconds of training")
    for plot, name in zip(plots[:, 0], ("objective", "held-out PSNR, dB", "held-out SSIM")):
        plot.set_ylabel(name)
    for plot in plots.flat:
        plot.grid(alpha=0.3)
    figures.save(figure, plots.flat, "Adam alone, and Levenberg-Marquardt after it", path, ncols=3, dpi=80, fontsize=11)
