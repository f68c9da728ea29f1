#!/bin/sh
# SPDX-License-Identifier: MIT
# Trains on a GPU and keeps the logs:
#
#   benchmarks/training.sh PROGRAMS DATA OUT [PART...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of fern, relief23,
# fox and bonsai, each in a folder of its name; missing ones are skipped. OUT: a folder for the logs, one NAME.jsonl a run.
# PART, with its estimated seconds on an H200: all of these unless named:
#   defaults      230  7,000 and 30,000 iterations on each, and on knot, a scene made by splat generate
#   quality7       50  with the defaults of before splits, which all parts from here to wall have: 7,000 iterations
#   finish         30  three steps of Levenberg-Marquardt on the scenes of quality7
#   quality30     190  30,000 iterations
#   wall          140  a minute with plain atomics on fern and fox; quality30 has the tuner's run
#   speed          25  1,000 iterations with 100 thousand, 300 thousand and 1 million Gaussians
#   reproducible   45  --reproducible: the same run twice, compared byte by byte; once killed and resumed; and one
#                      run without the option
#   poses         330  poses turned by a degree and moved by a hundredth of the extent: refined, three seeds; left as
#                      they are; and the data's, as they are, three seeds, and refined
#   budget       700  --budget of 3 to 60 seconds on each, and 120 on bonsai, beside 2,000, 7,000 and 30,000 iterations;
#                     the same with --finish auto
# benchmarks/tables.py training OUT prints tables and draws. finish.sh measures more of Levenberg-Marquardt.
# shellcheck disable=SC2086,SC2046 # lists of options are split
set -eu
[ $# -ge 3 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3
shift 3
[ $# -gt 0 ] || set -- defaults quality7 finish quality30 wall speed reproducible poses budget
mkdir -p "$out/scenes"

failed=''
expected=$(for part; do sed -n "s/^# *$part  *\([0-9][0-9]*\)  .*/\1/p" "$0"; done | awk '{ s += $1 } END { printf "%.0f", s / 60 }')
echo "about $expected minutes on an H200"

limited() { # NAME SECONDS PROGRAM OPTIONS...
    name=$1 limit=$2 program=$3
    shift 3
    echo "$(date +%H:%M:%S) $name"
    timeout "$limit" "$programs/$program" "$@" >"$out/$name.txt" 2>&1 ||
        { tail -n 5 "$out/$name.txt"; failed="$failed $name"; }
}
photographs() { # SCENE
    [ "$1" = knot ] && echo "$out/scenes/knot" || echo "$data/$1"
}
background_of() { # SCENE
    [ "$1" != knot ] || echo "--background 1,1,1"
}
of() { # SCENE: prints its photographs and its start
    case $1 in
    knot | fox) echo "$(photographs $1) --random 100000 $(background_of $1)" ;;
    *) photographs $1 ;;
    esac
}
is_there() {
    [ "$1" != knot ] || [ -d "$out/scenes/knot" ] || limited generate 60 splat generate "$out/scenes/knot"
    [ -d "$data/$1" ] || [ "$1" = knot ]
}
train() { # NAME SECONDS SCENE OPTIONS...: the log is NAME.jsonl, the scene scenes/NAME.ply
    is_there "$3" || return 0
    name=$1 limit=$2 from=$(of "$3")
    shift 3
    limited "$name" "$limit" splat train $from -o "$out/scenes/$name.ply" --log "$out/$name.jsonl" "$@"
}
defaults() {
    for scene in bonsai fern relief23 fox knot; do
        train defaults-$scene-7000 60 $scene
        train defaults-$scene-30000 180 $scene --iterations 30000
    done
}
before='--density mcmc --max-gaussians 300000 --sh-rate 4 --sh-rate-end 4'
quality() { # ITERATIONS LIMIT
    for scene in fern relief23 fox knot; do
        train quality-$scene-$1 "$2" $scene $before --iterations "$1" --eval-every 500
    done
}
quality7() { quality 7000 60; }
finish() {
    for scene in fern relief23 fox knot; do
        trained="$out/scenes/quality-$scene-7000.ply"
        [ ! -e "$trained" ] || limited finish-$scene-7000 60 splat finish "$trained" --cameras "$(photographs $scene)" \
            $(background_of $scene) -o "$out/scenes/finish-$scene-7000.ply" --log "$out/finish-$scene-7000.jsonl" --lm-steps 3
    done
}
quality30() { quality 30000 180; }
wall() {
    for scene in fern fox; do
        train wall-$scene-atomic 120 $scene $before --iterations 30000 --seconds 60 --eval-every 250 --reduce atomic
    done
}
speed() {
    for count in 100000 300000 1000000; do
        train speed-fox-$count 60 fox --random $count --density none --iterations 1000
    done
}
compare() { # NAME KILLS: compares its scene with the first run's and appends the result to its log
    same=false
    cmp "$out/scenes/reproducible-fern-1.ply" "$out/scenes/$1.ply" && same=true
    echo "{\"event\": \"comparison\", \"kills\": $2, \"equal\": $same}" >>"$out/$1.jsonl"
    [ $same = true ] || failed="$failed $1"
}
reproducible() {
    is_there fern || return 0
    for run in 1 2; do train reproducible-fern-$run 60 fern --reproducible --checkpoint-every 1000; done
    train reproducible-fern-without 60 fern
    compare reproducible-fern-2 0
    # Killed up to four times, each time after 1.5 to 4 random seconds.
    name=reproducible-fern-killed resume='' kills=0
    saved="$out/scenes/$name.ply.checkpoint"
    rm -f "$saved"
    while [ $kills -lt 4 ]; do
        seconds=$(awk -v seed="$(date +%N)" 'BEGIN { srand(seed); print 1.5 + 2.5 * rand() }') ended=0
        timeout -s KILL "$seconds" "$programs/splat" train "$data/fern" -o "$out/scenes/$name.ply" --reproducible \
            --checkpoint-every 1000 $resume >"$out/$name.txt" 2>&1 || ended=$?
        [ $ended -eq 137 ] || break
        kills=$((kills + 1))
        [ ! -f "$saved" ] || resume="--resume $saved"
        echo "$(date +%H:%M:%S) $name: SIGKILL after $seconds s"
    done
    train $name 60 fern --reproducible --checkpoint-every 1000 $resume
    compare $name $kills
}
poses() {
    wrong="--perturb-poses 1,0.01 $before" refine=--refine-poses
    for scene in fern fox; do
        for seed in 0 1 2; do
            train poses-$scene-refined-$seed 90 $scene $wrong $refine --seed $seed
            # Only aligns held-out views.
            train poses-$scene-data-$seed 90 $scene $before $refine --pose-levels 0 --fine-pose-rate 0 --seed $seed
        done
        train poses-$scene-left-0 60 $scene $wrong
        train poses-$scene-floor-0 90 $scene $before $refine
    done
}
budget() {
    for scene in bonsai fern relief23 fox knot; do
        for seconds in 3 6 12 30 60; do
            train budget-$scene-${seconds}s $((seconds + 60)) $scene --budget ${seconds}s
            [ $seconds -lt 6 ] || train budget-$scene-${seconds}s+auto $((seconds + 60)) $scene --budget ${seconds}s --finish auto
        done
        for steps in 2000 7000 30000; do train budget-$scene-$steps 180 $scene --iterations $steps; done
    done
    train budget-bonsai-120s 180 bonsai --budget 2m
}
for part; do $part; done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
