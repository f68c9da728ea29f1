#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures scenes on a GPU: the stages of training, and every workload by strategy and threshold, what its warps meet, and
# why they wait:
#
#   benchmarks/workloads.sh PROGRAMS SCENE.ply CAMERAS OUT [PART...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). SCENE.ply: a trained scene; CAMERAS: its photographs, named
# by their order, of which only names and sizes are used. OUT: a folder for the JSON files and made scenes. PART, with its
# seconds on an H200: all of these unless named:
#   gaussians   100  stages: each stage, and the backward blend by strategy and threshold, beside CUB, on the scene, on
#                    three million Gaussians and on 300 huge ones; other sizes
#   spheres      20  both data sets, features of 3, 8, 16 and 32 channels
#   cubemap      10  icosphere and torus, faces of 64 and of 1,024 texels
#   scatter_add  20  words by Zipf's law, three exponents; rows of one float, a histogram, of 8 and of 4,096 bins
#   profile      80  counters of three workloads by Nsight Compute, if ncu is installed: OUT/profile-*.csv; clocks are
#                    not fixed
# benchmarks/tables.py keep OUT keeps what the pages show. The example `histogram` is too small to be timed; scatter_add
# stands in for it.
# shellcheck disable=SC2086 # lists of options are split
set -eu
[ $# -ge 4 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 scene=$2 cameras=$3 out=$4
shift 4
[ $# -gt 0 ] || set -- gaussians spheres cubemap scatter_add profile
mkdir -p "$out/scenes"

failed=''
trained=$(basename "$scene" .ply)
measure() { # NAME SECONDS PROGRAM OPTIONS...: in SECONDS at most
    name=$1 limit=$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout "$limit" "$programs/$program" "$@" >"$out/$name.txt" 2>&1 || { tail -n 5 "$out/$name.txt"; failed="$failed $name"; }
}
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
stages() { # NAME SCENE OPTIONS...: to stages-NAME.json
    of=$1 file=$(scene_of "$2")
    shift 2
    measure "stages-$of" 300 stages "$file" --cameras "$cameras" --center-principal --name "$of" "$@" \
        --benchmark_out_format=json --benchmark_out="$out/stages-$of.json"
}
alone='--benchmark_filter=^(stages|loss|adam)/'

gaussians() {
    for kind in "$trained" many-3000000 huge-300; do
        stages "$kind" "$kind"
        for size in 256x256 3840x2160; do stages "$kind-$size" "$kind" --size $size "$alone"; done
    done
    stages "$trained-sh3" sh3 "$alone"
    for factor in 2 3; do stages "$trained-downscale$factor" "$trained" --downscale $factor "$alone"; done
}
bench() { # NAME SECONDS PROGRAM OPTIONS...: to NAME.json, by every strategy and threshold
    measure "$@" --json "$out/$1.json" --repeat 21 --thresholds 0,2,4,6,8,12,16,24,32,33
}
spheres() {
    for data in small large; do for channels in 3 8 16 32; do
        bench spheres-$data-$channels 30 spheres bench --data $data --channels $channels --views 8
    done; done
}
cubemap() {
    for mesh in icosphere torus; do for size in 64 1024; do
        bench cubemap-$mesh-$size 60 cubemap bench --mesh $mesh --size $size --width 1024 --height 768 --views 8
    done; done
}
scatter_add() {
    for exponent in 0 1 2; do bench scatter_add-$exponent 60 scatter_add --exponent $exponent; done
    for bins in 8 4096; do bench histogram-$bins 60 scatter_add --width 1 --words $bins --exponent 0; done
}
counters() { # NAME PROGRAM OPTIONS...: to profile-NAME.csv; the third launch is the strategy's
    name=profile-$1 program=$2
    shift 2
    echo "$(date +%H:%M:%S) $name"
    timeout 60 ncu --clock-control none --section SpeedOfLight --section WarpStateStats --section InstructionStats \
        --section Occupancy --section ComputeWorkloadAnalysis --section MemoryWorkloadAnalysis --section LaunchStats \
        --kernel-name 'regex:render_backward' --launch-count 3 --csv --page raw --print-units base \
        "$programs/$program" "$@" 2>"$out/$name.txt" | grep '^"' >"$out/$name.csv" ||
        { failed="$failed $name"; rm -f "$out/$name.csv"; }
}
profile() {
    command -v ncu >/dev/null || { echo "ncu is not installed: nothing is profiled"; return 0; }
    one="--views 1 --repeat 1"
    for strategy in atomic serial bfly tree cub; do
        at="--reduce $strategy --thresholds 8"
        case $strategy in serial | bfly | tree) threshold=8 ;; *) threshold=0 ;; esac
        counters gaussians-$strategy stages "$scene" --cameras "$cameras" --center-principal $one \
            "--benchmark_filter=/$strategy/.*/threshold:$threshold/"
        counters spheres-$strategy spheres bench --data large $one $at
        counters cubemap-$strategy cubemap bench --mesh torus --size 64 --width 1024 --height 768 $one $at
    done
}
for part; do $part; done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
