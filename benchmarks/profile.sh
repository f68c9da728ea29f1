#!/bin/sh
# SPDX-License-Identifier: MIT
# Counts what the two blend kernels do on one view of a scene, with Nsight Compute, as CSV:
#
#   benchmarks/profile.sh SPLAT SCENE.ply CAMERAS OUT.csv [options of dsplat bench]
#
# SPLAT: the program. Clocks are not fixed. benchmarks/tables.py counters LABEL=OUT.csv... prints a table;
# benchmarks/trim.py before=OLD.csv after=NEW.csv -o benchmarks/results/blend.jsonl keeps it.
# shellcheck disable=SC2046 # options are split
set -eu
[ $# -ge 4 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
splat=$1 scene=$2 cameras=$3 out=$4
shift 4
[ $# -gt 0 ] || set -- --reduce tree --thresholds 8
sections="SpeedOfLight ComputeWorkloadAnalysis WarpStateStats SchedulerStats Occupancy MemoryWorkloadAnalysis
LaunchStats InstructionStats"
ncu --clock-control none $(for section in $sections; do echo "--section $section"; done) \
    --kernel-name 'regex:render' --launch-count 4 --csv --page raw --print-units base \
    "$splat" bench "$scene" --cameras "$cameras" --center-principal --views 1 --repeat 1 "$@" |
    grep '^"' >"$out"
