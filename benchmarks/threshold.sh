#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures thresholds: in benchmarks/threshold and in the examples.
#
#   benchmarks/threshold.sh PROGRAMS OUT [THRESHOLDS]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). OUT: a folder for the JSON files and tables. THRESHOLDS: of
# the examples' reduce_tree. 150 seconds at most.
set -u
[ $# -ge 2 ] || { sed -n '3,/^set -u/{/^set -u/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
here=$(dirname "$0") programs=$1 out=$2 thresholds=${3:-0,2,4,6,8,12,16,24,33}
mkdir -p "$out"
failed=''
measure() { # NAME SECONDS PROGRAM OPTIONS...: to NAME.json
    name=$1 limit=$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout "$limit" "$programs/$program" "$@" --json "$out/$name.json" >"$out/$name.txt" 2>&1 ||
        { tail -n 5 "$out/$name.txt"; failed="$failed $name"; }
}
measure threshold 100 threshold
tree="--reduce tree --repeat 15 --thresholds $thresholds"
# shellcheck disable=SC2086 # a list of options
{
    for data in small large; do for channels in 3 8 16 32; do
        measure spheres-$data-$channels 20 spheres bench --data $data --channels $channels --views 8 $tree
    done; done
    for mesh in icosphere torus; do for size in 64 1024; do
        measure cubemap-$mesh-$size 20 cubemap bench --mesh $mesh --size $size --width 1024 --height 768 --views 8 $tree
    done; done
    for exponent in 0 1 2; do
        measure scatter_add-$exponent 20 scatter_add --exponent $exponent ${tree#--reduce tree}
    done
    for bins in 8 4096; do
        measure histogram-$bins 20 scatter_add --width 1 --words $bins --exponent 0 ${tree#--reduce tree}
    done
}
[ ! -s "$out/threshold.json" ] || python3 "$here/tables.py" threshold "$out"/*.json >"$out/threshold.md" ||
    failed="$failed tables"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
