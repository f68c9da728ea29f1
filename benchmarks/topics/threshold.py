# SPDX-License-Identifier: MIT
"""Thresholds 0 and 33 beside plain atomics: the JSON of `threshold --json FILE`, and of the examples' benches."""
from . import kept, workloads

BOUND = 0.03  # the most that a rule may lose to the better of plain atomics and threshold 0
ATOMIC, ZERO, VOTE = "atomic", "0", "33"
LISTED = 25  # cells of a rule, the worst first


class Cell:
    """view: what a call sees of it (K, vectors, active lanes, keys, whether groups are equal). The rest is not visible to
    it: targets and work."""

    def __init__(self, row, methods):
        self.K, self.vectors, self.targets, self.work, self.active, self.keys, self.even, self.calls = row[:8]
        self.time = dict(zip(methods, row[8:]))
        self.best = min(self.time[ATOMIC], self.time[ZERO])
        self.view = self.K, self.vectors, self.active, self.keys, self.even

    def loss(self, method):
        return self.time[method] / self.best - 1

    def name(self):
        return (f"K = {self.K}{', vectors' if self.vectors else ''}, {self.active} lanes, {self.keys} "
                f"{'equal' if self.even else 'unequal'} groups, {self.targets:,} targets, "
                f"{'work' if self.work else 'no work'}")


def load(paths):
    """(device, methods, cells, cases of the examples)."""
    device, methods, cells, cases = None, [], [], []
    for _, report in kept.read(paths):
        device = report["device"]
        if "workload" in report:
            cases.append(workloads.of_bench(report))
        else:
            methods, cells = report["methods"], [Cell(row, report["methods"]) for row in report["cells"]]
    return device, methods, cells, cases


def devices(data):
    return [f"{data[0]}, {len(data[2])} cells"]


def percent(x):
    return f"{100 * x:.1f}%"


def row_of(name, losses):
    """losses: [(loss, cell)]"""
    worst, cell = max(losses, key=lambda pair: pair[0])
    ordered = sorted(loss for loss, _ in losses)
    bad = [cell for loss, cell in losses if loss > BOUND]
    return [name, len(losses), len(bad), sum(c.targets == min(c.targets for _, c in losses) for c in bad),
            sum(bool(c.work) for c in bad), percent(ordered[len(ordered) // 2]), percent(worst), cell.name()]


def best_choice(cells):
    """The losses if a rule knew the best choice for what a call sees: a vote and plain atomics, or threshold 0."""
    views = {}
    for cell in cells:
        views.setdefault(cell.view, []).append(cell)
    losses = []
    for same in views.values():
        found = [[(cell.loss(method), cell) for cell in same] for method in (VOTE, ZERO)]
        losses += min(found, key=lambda some: (sum(loss > BOUND for loss, _ in some), max(loss for loss, _ in some)))
    return losses


def tables(data):
    _, methods, cells, cases = data
    thresholds = sorted({t for case in cases for way, t in case.times if way == "tree"})
    found = {}
    if cases:
        rows = []
        for case in cases:
            best = min(case.times["tree", t] for t in thresholds)
            rows.append([case.name, f"{best:.4f}", *(percent(case.times["tree", t] / best - 1) for t in thresholds)])
        found["examples: reduce_tree over its best threshold"] = (["workload", "best, ms", *thresholds], rows)
    if not cells:
        return found
    header = ["rule", "cells", "lose over 3%", "at few targets", "with work", "median", "worst", "there"]
    found["rules"] = (header, [row_of(m, [(c.loss(m), c) for c in cells]) for m in methods] +
                       [row_of("best of 0 and 33 for what a call sees", best_choice(cells))])
    Ks = sorted({(c.K, c.vectors) for c in cells})
    found["cells that lose over 3%, by K"] = (
        ["rule", *(f"{K}{' vectors' if vectors else ''}" for K, vectors in Ks)],
        [[m, *(sum(c.loss(m) > BOUND for c in cells if (c.K, c.vectors) == K) for K in Ks)] for m in methods])
    found["worst loss by K"] = (
        ["rule", *(f"{K}{' vectors' if vectors else ''}" for K, vectors in Ks)],
        [[m, *(percent(max(c.loss(m) for c in cells if (c.K, c.vectors) == K)) for K in Ks)] for m in methods])
    bad = sorted((c for c in cells if c.loss(ZERO) > BOUND), key=lambda c: -c.loss(ZERO))
    found["where threshold 0 loses most"] = (["cell", "loss", *methods], [
        [c.name(), percent(c.loss(ZERO)), *(f"{c.time[m]:.4f}" for m in methods)] for c in bad[:LISTED]])
    return {name: table for name, table in found.items() if table[1]}
