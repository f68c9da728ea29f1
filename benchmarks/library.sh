#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures the library beside CUB and cooperative groups on a GPU, in 230 seconds at most:
#
#   benchmarks/library.sh PROGRAMS OUT
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). OUT: a folder for the JSON files and tables. aggregate: one
# key per warp, thresholds, the tuner, several keys; whole: histogram and scatter-add from arrays, beside CUB's device-wide
# calls. benchmarks/tables.py keep OUT keeps what the pages show.
set -u
[ $# -ge 2 ] || { sed -n '3,/^set -u/{/^set -u/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 out=$2 failed=''
mkdir -p "$out"
measure() { # SECONDS PROGRAM: to PROGRAM.json
    echo "$(date +%H:%M:%S) $2"
    timeout "$1" "$programs/$2" --benchmark_out="$out/$2.json" --benchmark_out_format=json >"$out/$2.txt" 2>&1 ||
        { tail -n 5 "$out/$2.txt"; rm -f "$out/$2.json"; failed="$failed $2"; }
}
measure 165 aggregate
measure 65 whole
python3 "$(dirname "$0")/tables.py" show "$out" >"$out/tables.txt" || failed="$failed tables"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
