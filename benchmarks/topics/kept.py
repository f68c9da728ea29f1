# SPDX-License-Identifier: MIT
"""Measurements: the files that programs and scripts write, and what is kept of them, results/TOPIC.jsonl. Each line of
a kept file is one record: its "name" (that of the file, or of one run of it), the "commit" that was measured, then the
data. A record with "run" is one run; the record "context" then says for all of them what was measured."""
import json
import os


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


def merge(path, records, commit):
    """Adds records [(name, data)] to a kept file. They replace those of the same name."""
    kept = {record["name"]: record for record in lines(path)} if os.path.exists(path) else {}
    for name, data in records:
        kept[name] = {"name": name, **({"commit": commit} if commit and "run" not in data else {}), **data}
    with open(path + ".part", "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in kept.values())
    os.replace(path + ".part", path)
