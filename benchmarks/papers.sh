#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures on a GPU what DISTWAR and its note measure, docs/benchmarks/papers.md:
#
#   benchmarks/papers.sh PROGRAMS DATA OUT [PART...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of fox and bonsai, each in
# a folder of its name. OUT: the folder for the results. None of the three has spaces. PART, with its seconds on an
# H100: all unless named. Keep this order, since `training` makes the scenes of the others:
#   training    410  7,000 iterations on fox, bonsai and knot by plain atomics, SW-S, SW-B and the default; what the scenes
#                    look like after 10 and 30 seconds (training.sh; GPUS as there)
#   gaussians    85  stages: each stage, and the backward blend by strategy and threshold, beside CUB and without its stores,
#                    on these scenes, on three million Gaussians and on 300 huge ones; other sizes
#   spheres      10  both data sets, features of 3 and of 32 channels
#   cubemap      12  icosphere, torus and wavy, faces of 64 and of 1,024 texels
#   tuner         7  what the tuner chooses for spheres and cubemap, and what that costs
#   profile      55  counters of three workloads by Nsight Compute, if ncu is installed: OUT/profile-*.csv; clocks are
#                    not fixed
# benchmarks/tables.py keep OUT keeps what the pages show.
# shellcheck disable=SC2086 # lists of options are split
set -eu
[ $# -ge 3 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3
shift 3
[ $# -gt 0 ] || set -- training gaussians spheres cubemap tuner profile
here=$(dirname "$0")
mkdir -p "$out/scenes"

failed=''
measure() { # NAME SECONDS PROGRAM OPTIONS...: in SECONDS at most
    name=$1 limit=$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout "$limit" "$programs/$program" "$@" >"$out/$name.txt" 2>&1 || { tail -n 5 "$out/$name.txt"; failed="$failed $name"; }
}
training() {
    echo "$(date +%H:%M:%S) training"
    "$here/training.sh" "$programs" "$data" "$out" strategies equal || failed="$failed training"
}
trained_of() { echo "$out/scenes/strategies-$1-default-0.ply"; } # SCENE
make_of_fox() { # SCENE KIND OPTIONS...: a missing one
    made="$out/scenes/$1.ply" kind=$2
    shift 2
    [ -e "$made" ] || measure "make-$kind" 60 make_scene "$(trained_of fox)" --kind "$kind" -o "$made" "$@"
}
stages() { # NAME SCENE OPTIONS...: to stages-NAME.json; of fox, bonsai or knot as trained, or made of fox
    of=$1 file="$out/scenes/$2.ply" cameras=$data/fox
    case $2 in fox | bonsai | knot) file=$(trained_of "$2") ;; esac
    case $2 in knot) cameras=$out/scenes/knot ;; bonsai) cameras=$data/bonsai ;; esac
    shift 2
    measure "stages-$of" 300 stages "$file" --cameras "$cameras" --center-principal --name "$of" "$@" \
        --benchmark_out_format=json --benchmark_out="$out/stages-$of.json"
}
gaussians() {
    alone='--benchmark_filter=^(stages|loss|adam)/'
    make_of_fox many-3000000 many --count 3000000
    make_of_fox huge-300 huge --count 300 --cameras "$data/fox"
    make_of_fox sh3 sh3
    for kind in bonsai knot fox many-3000000 huge-300; do stages $kind $kind; done
    for kind in fox many-3000000 huge-300; do
        for size in 256x256 3840x2160; do stages $kind-$size $kind --size $size "$alone"; done
    done
    stages fox-sh3 sh3 "$alone"
    for factor in 2 3; do stages fox-downscale$factor fox --downscale $factor "$alone"; done
}
bench() { # NAME SECONDS PROGRAM OPTIONS...: to NAME.json, by every strategy and threshold
    measure "$@" --json "$out/$1.json" --repeat 21 --thresholds 0,2,4,6,8,12,16,24,32,33
}
spheres() {
    for kind in small large; do for channels in 3 32; do
        bench spheres-$kind-$channels 30 spheres bench --data $kind --channels $channels --views 8
    done; done
}
cubemap() {
    for mesh in icosphere torus wavy; do for size in 64 1024; do
        bench cubemap-$mesh-$size 60 cubemap bench --mesh $mesh --size $size --width 1024 --height 768 --views 8
    done; done
}
tuner() {
    for kind in small large; do measure tuner-spheres-$kind 60 spheres train --data $kind -o "$out/scenes"; done
    for mesh in icosphere torus; do measure tuner-cubemap-$mesh 60 cubemap train --mesh $mesh -o "$out/scenes"; done
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
        counters gaussians-$strategy stages "$(trained_of fox)" --cameras "$data/fox" --center-principal $one \
            "--benchmark_filter=/$strategy/.*/threshold:$threshold/"
        counters spheres-$strategy spheres bench --data large $one $at
        counters cubemap-$strategy cubemap bench --mesh torus --size 64 --width 1024 --height 768 $one $at
    done
}
for part; do $part; done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
