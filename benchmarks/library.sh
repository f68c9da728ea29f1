#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures the library beside CUB and cooperative groups on a GPU, in 230 seconds at most:
#
#   benchmarks/library.sh PROGRAMS OUT
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). OUT: a folder for the JSON files and tables. Parts, with
# their time limits in seconds:
#   one-key  100  aggregate: one key per warp, thresholds, the tuner
#   several   60  aggregate: several keys per warp
#   whole     65  histogram and scatter-add from arrays, beside CUB's device-wide calls
# benchmarks/tables.py keep OUT keeps what the pages show.
set -u
[ $# -ge 2 ] || { sed -n '3,/^set -u/{/^set -u/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
here=$(dirname "$0") programs=$1 out=$2
mkdir -p "$out"
failed=''
measure() { # NAME SECONDS PROGRAM OPTIONS...: to NAME.json
    name=$1 limit=$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout "$limit" "$programs/$program" "$@" --benchmark_out="$out/$name.json" --benchmark_out_format=json \
        >"$out/$name.txt" 2>&1 || { tail -n 5 "$out/$name.txt"; rm -f "$out/$name.json"; failed="$failed $name"; }
}
measure one-key 100 aggregate \
    '--benchmark_filter=keys:1/.*/threshold:0/|tree/active:[0-9]+/keys:1/K:(1|4|9)/targets:(1024|1048576)/|(serial|bfly|tree)/active:0/keys:1/'
measure several 60 aggregate \
    '--benchmark_filter=keys:([2-9]|[1-9][0-9])/K:[0-9]+/targets:(32|1024|1048576)/threshold:0/|tree/active:(16|32)/keys:([2-9]|16)/K:(4|9)/targets:(1024|1048576)/threshold:(2|4|8|16)/'
measure whole 65 whole

python3 "$here/tables.py" show "$out" >"$out/tables.txt" || failed="$failed tables"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
