#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures the flagship on a GPU, on a trained scene and on scenes made from it:
#
#   benchmarks/blend.sh PROGRAMS SCENE.ply CAMERAS OUT [PART...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). CAMERAS: the scene's photographs, as for `dsplat train`.
# OUT: a folder for the JSON files. The scenes made are in OUT/scenes and may be deleted afterwards.
# PART: all of these unless named:
#   stages           every stage, on three kinds of scene and several image sizes (dsplat bench)
#   growth           every stage against the number of Gaussians and of pixels (dsplat bench)
#   render_backward  strategies, thresholds, cub and the floors; pixels per thread
# benchmarks/tables.py rasteriser OUT prints tables; benchmarks/trim.py OUT -o benchmarks/results/blend.jsonl keeps what
# they need.
# shellcheck disable=SC2086 # lists of options are split
set -eu
[ $# -ge 4 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 scene=$2 cameras=$3 out=$4
shift 4
[ $# -gt 0 ] || set -- stages growth render_backward
mkdir -p "$out/scenes"

failed=
views="--cameras $cameras --center-principal"
trained=$(basename "$scene" .ply)
scene_of() { # the trained scene, huge-N, many-N or sh3: prints the path of its file and makes a missing one
    made=$1
    shift
    case $made in
    "$trained") echo "$scene" && return ;;
    *-*) set -- --count "${made#*-}" --cameras "$cameras" ;;
    esac
    [ -e "$out/scenes/$made.ply" ] ||
        "$programs/make_scene" "$scene" --kind "${made%-*}" -o "$out/scenes/$made.ply" "$@" >&2
    echo "$out/scenes/$made.ply"
}
say() { echo "$(date +%H:%M:%S) $*"; }
bench() { # NAME SCENE OPTIONS...
    name=$1 file=$(scene_of "$2")
    shift 2
    say "bench $name"
    "$programs/dsplat" bench "$file" $views "$@" --json "$out/bench-$name.json" >"$out/bench-$name.txt" 2>&1 ||
        { cat "$out/bench-$name.txt"; failed="$failed bench-$name"; }
}
several="--reduce tree --thresholds 0,4,8,12,16"
one="--reduce tree --thresholds 8"

stages() {
    for kind in "$trained" many-3000000 huge-300; do
        bench "$kind" "$kind" $several
        for size in 256x256 3840x2160; do bench "$kind-$size" "$kind" $several --size $size; done
    done
    bench "$trained-sh3" sh3 $several
    for factor in 2 3; do bench "$trained-downscale$factor" "$trained" $several --downscale $factor; done
}
growth() {
    for count in 100000 300000 1000000 3000000 10000000; do bench growth-gaussians-$count many-$count $one --views 6; done
    for size in 135x240 270x480 540x960 1080x1920 2160x3840; do bench growth-pixels-$size "$trained" $one --size $size; done
}
blend() { # NAME SCENE OPTIONS...
    name=render_backward-$1 of=$1 file=$(scene_of "$2")
    shift 2
    say "$name"
    "$programs/render_backward" "$file" $views --name "$of" "$@" --benchmark_out_format=json \
        --benchmark_out="$out/$name.json" >"$out/$name.txt" 2>&1 || { cat "$out/$name.txt"; failed="$failed $name"; }
}
render_backward() {
    for kind in "$trained" many-3000000 huge-300; do
        blend "$kind" "$kind"
        for size in 256x256 540x960 3840x2160; do
            blend "$kind-$size" "$kind" --size $size --benchmark_filter=pixels
        done
    done
}
for part; do $part; done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
