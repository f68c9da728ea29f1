# SPDX-License-Identifier: MIT
"""Measurements: the files that programs and scripts write, and what is kept of them, results/TOPIC.jsonl. Each line of
a kept file is one record: its "name" (that of the file, or of one run of it), the "commit" that was measured, then the
data. A record with "run" is one run; the record "context" then says for all of them what was measured."""
import json
import os
import sys


def rounded(value):
    """Floats with six digits, in dictionaries and lists too."""
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def of_file(path):
    name, kind = os.path.splitext(os.path.basename(path))
    if kind == ".json":
        with open(path) as file:
            return [(name, json.load(file))]
    found = lines(path)
    if found and "name" in found[0]:
        return [(record["name"], {key: value for key, value in record.items() if key not in ("name", "commit")})
                for record in found]
    return [(name, {"events": found})]  # a log


def read(paths):
    """[(name, data)] of files and of all *.json and *.jsonl of folders. Data of a log: its "events"."""
    found = []
    for path in paths:
        files = [path] if not os.path.isdir(path) else sorted(
            os.path.join(path, name) for name in os.listdir(path) if name.endswith((".json", ".jsonl")))
        found += [record for file in files for record in of_file(file)]
    return found


def runs(paths, pattern, members, of):
    """(context, {name: run}) of Google Benchmark's JSON, or what is kept of it.

    pattern: of a benchmark's name; its groups, with blanks between, name the run. members: of the context. of(run, entry):
    the run, with what this entry has of it; run is None at first.
    """
    context, found = {}, {}
    for record, report in read(paths):
        if "run" in report:
            found[record] = report["run"]
            continue
        stated = report if record == "context" else report.get("context", {})
        context.update({key: stated[key] for key in members if key in stated})
        for entry in report.get("benchmarks", ()):
            match = pattern.match(entry.get("run_name", entry["name"]))
            if not match:
                continue
            if entry.get("error_occurred"):
                sys.exit(f"{record}: {entry['name']}: {entry.get('error_message')}")
            name = " ".join(match.groups())
            found[name] = of(found.get(name), entry)
    return context, found


def statistics(counter, scale=1):
    """For `runs`: a list of the counter's median and deviation."""
    def of(run, entry):
        run = run or [0, 0]
        if entry.get("aggregate_name") == "median":
            run[0] = float(f"{entry[counter] * scale:.5g}")
        elif entry.get("aggregate_name") == "stddev":
            run[1] = float(f"{entry[counter] * scale:.1g}")
        return run
    return of


def records_of(context, found):
    return [("context", context), *((name, {"run": run}) for name, run in found.items())]


def merge(path, records, commit):
    """Adds records [(name, data)] to a kept file. They replace those of the same name."""
    kept = {record["name"]: record for record in lines(path)} if os.path.exists(path) else {}
    for name, data in records:
        kept[name] = {"name": name, **({"commit": commit} if commit and "run" not in data else {}), **data}
    with open(path + ".part", "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in kept.values())
    os.replace(path + ".part", path)
