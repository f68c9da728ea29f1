#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures every workload on a GPU, with every strategy and threshold, and the tuner's choice:
#
#   benchmarks/workloads.sh PROGRAMS SCENE.ply CAMERAS OUT [PART...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). SCENE.ply, CAMERAS: a trained scene and its photographs,
# as for benchmarks/blend.sh. OUT: a folder for the JSON files. PART, with its
# seconds on an H200: all of these unless named:
#   spheres      20  both data sets, features of 3, 8, 16 and 32 channels
#   cubemap      10  icosphere and torus, faces of 64 and of 1,024 texels
#   scatter_add  20  words by Zipf's law, three exponents; rows of one float, a histogram, of 8 and of 4,096 bins
#   lm           20  the products J^T u and diag(J^T J) of one step of dsplat finish with 12 views
#   gaussians    40  the backward blend: blend.sh render_backward
#   profile      80  counters of three workloads by Nsight Compute, if ncu is installed: OUT/profile-*.csv
# Fails if a tuner's choice is over 3 % slower than the best fixed one or over 2 % slower than plain atomics.
# benchmarks/tables.py workloads OUT prints tables; benchmarks/trim.py OUT OUT/profile-*.csv -o
# benchmarks/results/workloads.jsonl keeps what they need (of gaussians: OUT -o benchmarks/results/blend.jsonl).
# The example `histogram` is too small to be timed; scatter_add stands in for it.
# shellcheck disable=SC2086 # lists of options are split
set -eu
[ $# -ge 4 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
here=$(dirname "$0") programs=$1 scene=$2 cameras=$3 out=$4
shift 4
[ $# -gt 0 ] || set -- spheres cubemap scatter_add lm gaussians profile
mkdir -p "$out"

failed=''
trained=$(basename "$scene" .ply)
measure() { # NAME SECONDS PROGRAM OPTIONS...: to NAME.json, in SECONDS at most
    name=$1 limit=$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout "$limit" "$programs/$program" "$@" --json "$out/$name.json" >"$out/$name.txt" 2>&1 ||
        { tail -n 5 "$out/$name.txt"; failed="$failed $name"; }
}
thresholds="--thresholds 0,2,4,6,8,12,16,24,32,33"
views="--width 1024 --height 768 --views 8"

spheres() {
    for data in small large; do for channels in 3 8 16 32; do
        measure spheres-$data-$channels 30 spheres bench --data $data --channels $channels --views 8 --repeat 21 $thresholds
    done; done
}
cubemap() {
    for mesh in icosphere torus; do for size in 64 1024; do
        measure cubemap-$mesh-$size 60 cubemap bench --mesh $mesh --size $size $views --repeat 21 $thresholds
    done; done
}
scatter_add() {
    for exponent in 0 1 2; do
        measure scatter_add-$exponent 60 scatter_add --exponent $exponent --repeat 21 $thresholds
    done
    for bins in 8 4096; do
        measure histogram-$bins 60 scatter_add --width 1 --words $bins --exponent 0 --repeat 21 $thresholds
    done
}
lm() {
    for strategy in atomic tree bfly serial; do
        case $strategy in atomic) at=0 ;; *) at="0 8 16 24" ;; esac
        for threshold in $at; do
            measure lm-$trained-$strategy-$threshold 90 dsplat finish "$scene" --cameras "$cameras" -o "$out/lm.ply" \
                --lm-steps 1 --lm-pcg 4 --lm-preconditioner diagonal --lm-batch 12 --reduce $strategy \
                --threshold $threshold
        done
    done
    rm -f "$out/lm.ply"
}
gaussians() {
    "$here/blend.sh" "$programs" "$scene" "$cameras" "$out" render_backward || failed="$failed gaussians"
}
counters() { # WORKLOAD STRATEGY PROGRAM OPTIONS...: the last counted launch is the strategy's
    name=profile-$1-$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout 60 ncu --clock-control none --section SpeedOfLight --section WarpStateStats --section InstructionStats \
        --kernel-name 'regex:render_backward' --launch-count 3 --csv --page raw --print-units base \
        "$programs/$program" "$@" 2>"$out/$name.txt" | grep '^"' >"$out/$name.csv" ||
        { failed="$failed $name"; rm -f "$out/$name.csv"; }
}
profile() {
    command -v ncu >/dev/null || { echo "ncu is not installed: nothing is profiled"; return 0; }
    one="--views 1 --repeat 1"
    for strategy in atomic serial bfly tree cub; do
        at="--reduce $strategy --thresholds 8"
        [ $strategy = cub ] ||
            counters gaussians $strategy dsplat bench "$scene" --cameras "$cameras" --center-principal $one $at
        counters spheres $strategy spheres bench --data large $one $at
        counters cubemap $strategy cubemap bench --mesh torus --size 64 --width 1024 --height 768 $one $at
    done
    counters gaussians cub render_backward "$scene" --cameras "$cameras" --center-principal --name profiled --views 1 \
        --benchmark_filter=/cub/
}
for part; do $part; done
set -- "$out"/*.json
[ ! -e "$1" ] || python3 "$here/tables.py" workloads "$out" --tuner || failed="$failed tuner"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
