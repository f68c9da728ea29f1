# SPDX-License-Identifier: MIT
"""stages_test.py PROGRAMS: benchmarks/stages.cu on a small scene, one repetition. Under simt its times mean nothing."""
import json
import os
import re
import subprocess
import sys
import tempfile

programs = sys.argv[1]


def run(*arguments):
    return subprocess.run([f"{programs}/stages", *arguments], capture_output=True, text=True)


def measured(scene, cameras, *more):
    ended = run(scene, "--cameras", cameras, "--repeat", "1", "--benchmark_format=json", *more)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    wrong = [row["name"] for row in report["benchmarks"] if row.get("error_occurred")]
    assert not wrong, wrong # other moments than those of another strategy
    return report["context"], {row["run_name"].split("/iterations")[0]: row for row in report["benchmarks"]}


with tempfile.TemporaryDirectory() as folder:
    data, scene = f"{folder}/knot", f"{folder}/knot/scene.ply"
    subprocess.run([os.path.join(programs, "dsplat"), "generate", data, "--views", "5", "--test-views", "1", "--size", "48", "--gaussians", "1000"],
                   check=True, stdout=subprocess.DEVNULL)
    one = "--benchmark_filter=adam", "--views", "1"
    assert measured(scene, data, one[0])[0]["views"] == "2" # every fourth of six
    context, rows = measured(scene, data, "--name", "knot", "--views", "1", "--downscale", "2")
    assert (context["width"], context["height"]) == ("24", "24")
    lanes = list(map(int, context["active_lanes"].split()))
    assert int(context["pairs"]) > 0 and len(lanes) == 33 and sum(lanes[1:]) > 0
    assert set(rows["stages/scene:knot"]) >= {"project", "bin", "render", "render backward", "project backward"}
    assert {"loss/scene:knot", "adam/scene:knot"} <= set(rows)
    ways = {}
    for name in rows:
        match = re.fullmatch(r"render_backward/(\w+)/scene:knot/threshold:(\d+)", name)
        if match:
            ways.setdefault(match[1], set()).add(int(match[2]))
    assert set(ways) >= {"atomic", "serial", "bfly", "tree", "block", "block_clamped", "fixed", "floor"}, ways
    assert ways["atomic"] == ways["fixed"] == {0} and {0, 8, 33} <= ways["tree"] == ways["floor"]

    context, rows = measured(scene, data, "--size", "33x70", *one)
    assert (context["views"], context["width"], context["height"]) == ("1", "33", "70") and list(rows) == ["adam/scene:scene"]
    with open(os.path.join(data, "transforms_test.json")) as file:
        cameras = file.read()
    moved = re.sub(r'("camera_angle_x": [0-9.]+)', r'\1, "cx": 5, "cy": 9', cameras)
    assert moved != cameras
    pairs = measured(scene, data, *one)[0]["pairs"]
    with open(os.path.join(data, "transforms_test.json"), "w") as file:
        file.write(moved)
    assert measured(scene, data, *one)[0]["pairs"] != pairs
    assert measured(scene, data, "--center-principal", *one)[0]["pairs"] == pairs

    sizes = "33", "33x", "0x70", "33x70x1", "33x16385", "33x-70", "x"
    for arguments, code, said in (*(((scene, "--cameras", data, "--size", size), 1, f"not '{size}'") for size in sizes),
                                  ((scene,), 2, "--cameras is missing"), ((scene, "--cameras", f"{folder}/no"), 1, "no"),
                                  ((f"{folder}/no.ply", "--cameras", data), 1, "no.ply")):
        ended = run(*arguments)
        assert ended.returncode == code and said in ended.stderr, ended.stderr
