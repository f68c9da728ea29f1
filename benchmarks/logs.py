# SPDX-License-Identifier: MIT
"""The rows of tables from the logs of dsplat train, and from the reports of dsplat finish: put(table, key, cells)."""
import collections
import re
import statistics
import sys


def spread(values, digits):
    """The mean, and the least and the most of several."""
    ends = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{ends}"


def gpu_of(device):
    """H100 of "NVIDIA H100 80GB HBM3", the name of the driver."""
    return device.removeprefix("NVIDIA ").split(" ")[0]


def natural(name):
    """For sorting: the name with its numbers as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def training(logs, put):
    """Of training.sh: logs PART-SCENE-...-SEED.jsonl."""
    ended = {name: events for name, events in logs.items()
             if events[-1]["event"] in ("end", "comparison") and any(e["event"] == "evaluation" for e in events)}
    for name in logs.keys() - ended.keys():
        print(f"{name}: has no end", file=sys.stderr)
    groups, changes = collections.defaultdict(list), collections.defaultdict(dict) # by seed; of the ablation
    equal = collections.defaultdict(dict) # PSNR after equal times
    for name in sorted(ended):
        part, _, rest = name.partition("-")
        groups[(part, rest) if part == "budget" else (part, rest.rpartition("-")[0])].append(ended[name])

    def last(group, event, key):
        return [next(e for e in reversed(events) if e["event"] == event)[key] for events in group]
    for part, name in sorted(groups, key=lambda group: natural(group[1])):
        group, (scene, *words) = groups[part, name], name.split("-", 2)
        psnr, ssim = last(group, "evaluation", "psnr"), last(group, "evaluation", "ssim")
        seconds, gaussians = last(group, "end", "seconds"), last(group, "end", "gaussians")
        if part == "defaults":
            asked = f"{int(words[0]):,}"
            put("training/defaults", {"data": scene, "iterations": asked}, {
                "PSNR, dB": spread(psnr, 2), "SSIM": spread(ssim, 4), "seconds": spread(seconds, 1),
                "Gaussians": spread(gaussians, 0), "seeds": len(group)})
            stage_times(name, group[0], put)
        if part in ("budget", "defaults"):
            asked = f"{words[0][:-1]} s" if part == "budget" else f"{asked} iterations"
            put("training/budget", {"data": scene, "asked for": asked}, {
                "seconds": f"{seconds[0]:.2f}", "iterations": f"{last(group, 'end', 'iteration')[0]:,}",
                "Gaussians": f"{gaussians[0]:,}", "PSNR, dB": f"{psnr[0]:.2f}", "SSIM": f"{ssim[0]:.4f}"})
        if part == "strategies":
            plain = last(groups.get((part, f"{scene}-atomic"), group), "end", "seconds")[0]
            sums, _ = stage_sums(group[0])
            policy = next(e for e in reversed(group[0]) if e["event"] == "step")
            tuning = next(e for e in reversed(group[0]) if e["event"] == "end").get("tuning_ms")
            put("papers/training", {"GPU": gpu_of(group[0][0]["gpu"]), "data": scene, "strategy": words[0]}, {
                "seconds": f"{seconds[0]:.1f}", "over atomic": f"{plain / seconds[0]:.2f}", "PSNR, dB": f"{psnr[0]:.2f}",
                **{stage: f"{100 * time / sum(sums.values()):.0f} %" for stage, time in sums.items()},
                "tuned": None if tuning is None else f"{policy['reduce']} at {policy['threshold']}, {tuning:.0f} ms"})
        if part == "equal":
            equal[gpu_of(group[0][0]["gpu"]), scene, words[0]][words[1]] = (
                f"{psnr[0]:.2f} ({last(group, 'end', 'iteration')[0]:,} iterations)")
        if part == "ablation":
            base = groups.get((part, f"{scene}-{words[0]}-none"), group)
            moved = "" if base is group else ", " + ", ".join(
                f"{statistics.fmean(mine) - statistics.fmean(last(base, 'evaluation', key)):+.{digits}f}"
                for mine, key, digits in ((psnr, "psnr", 2), (ssim, "ssim", 4)))
            changes[words[1].replace("-", " ")][scene] = f"{statistics.fmean(psnr):.2f}, {statistics.fmean(ssim):.4f}{moved}"
    for change, cells in changes.items():
        put("training/ablation", {"change": change}, cells)
    for (gpu, scene, seconds), cells in equal.items():
        put("papers/equal time", {"GPU": gpu, "data": scene, "after": f"{seconds[:-1]} s"},
            {f"PSNR, dB, {way}": cell for way, cell in sorted(cells.items())})


def stage_sums(events):
    """({stage: GPU ms of all views}, views): gpu_ms are those of a step, step_ms is that of a view."""
    sums, begin = collections.Counter(), events[0]["iteration"]
    for e in (e for e in events if e["event"] == "step" and "gpu_ms" in e):
        of_view = e["step_ms"] / sum(e["gpu_ms"].values()) if "step_ms" in e else 1
        for stage, time in e["gpu_ms"].items():
            sums[stage] += (e["iteration"] - begin) * time * of_view
        begin = e["iteration"]
    return sums, begin - events[0]["iteration"]


def stage_times(name, events, put):
    """GPU ms of a view, and the share of it."""
    sums, views = stage_sums(events)
    if sums and name.endswith("-30000"):
        total = sum(sums.values())
        put("training/stages", {"run": name}, {
            **{stage: f"{time / views:.3f}, {100 * time / total:.1f} %" for stage, time in sums.items()},
            "sum": f"{total / views:.3f}"})


def levenberg_marquardt(logs, reports, put):
    """Of finish.sh: adam-SCENE[-full-STEPS].jsonl and lm-SCENE-ITERATION-VARIANT.json. What each variant came to, and when
    the objective was that of Adam's end."""
    finishes = {tuple(name.split("-", 3)[1:]): report for name, report in reports.items()
                if name.startswith("lm-") and "steps" in report and "psnr" in report}
    for (scene, iteration, variant), report in finishes.items():
        steps = report["steps"]
        points = [(0, steps[0]["before"], report["psnr"], report["ssim"])] + [
            (s["seconds"], s["after"] if s["kept"] else s["before"], s["psnr"], s["ssim"]) for s in steps]
        events = logs.get(f"adam-{scene}", [{}])
        at = next((e["seconds"] for e in events if e.get("event") == "evaluation" and e["iteration"] >= int(iteration)), 0)
        put("levenberg-marquardt/after Adam", {"data": scene, "iteration": f"{int(iteration):,}", "variant": variant}, {
            "s more": f"{points[-1][0]:.2f}", "s in all": f"{at + points[-1][0]:.2f}",
            "steps kept": f"{sum(s['kept'] for s in steps)} of {len(steps)}", "views": steps[0]["images"],
            "batches": steps[0].get("batches", 1), "GiB": f"{steps[-1]['bytes'] / 2 ** 30:.2f}",
            **{name: f"{points[0][i]:.{digits}f} -> {points[-1][i]:.{digits}f}"
               for i, name, digits in ((1, "objective", 6), (2, "PSNR, dB", 2), (3, "SSIM", 4))}})
        goal = finishes.get((scene, str(events[-1].get("iteration")), "end"))
        if not goal or goal is report or steps[0]["images"] < report["views"] or "l2" in variant: # else of another kind
            continue
        reached = next((point for point in points[1:] if point[1] <= goal["steps"][0]["before"]), None)
        if reached:
            left = events[-1]["seconds"] - at
            key = {"data": scene, "iteration": f"{int(iteration):,}", "variant": variant}
            put("levenberg-marquardt/beside Adam", key, {
                "objective": f"{goal['steps'][0]['before']:.6f}", "Adam, s more": f"{left:.2f}",
                "LM, s more": f"{reached[0]:.2f}",
                "ratio": f"{reached[0] / left:.2f}", "Adam: PSNR, SSIM": f"{goal['psnr']:.2f}, {goal['ssim']:.4f}",
                "LM: PSNR, SSIM": f"{reached[2]:.2f}, {reached[3]:.4f}"})
    for name, events in logs.items():
        if name.startswith("adam-"):
            scene, _, steps = name.removeprefix("adam-").partition("-full-")
            iteration = logs.get(f"adam-{scene}", events)[-1]["iteration"] * 2 // 3
            found = [e for e in events if e["event"] == "evaluation"]
            start = next(e for e in found if e["iteration"] >= iteration)
            put("levenberg-marquardt/after Adam", {
                "data": scene, "iteration": f"{iteration:,}", "variant": f"Adam, {steps} full batches" if steps else "Adam"}, {
                "s more": f"{events[-1]['seconds'] - start['seconds']:.2f}", "s in all": f"{events[-1]['seconds']:.2f}",
                "PSNR, dB": f"{start['psnr']:.2f} -> {found[-1]['psnr']:.2f}",
                "SSIM": f"{start['ssim']:.4f} -> {found[-1]['ssim']:.4f}"})
