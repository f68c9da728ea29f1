#!/bin/sh
# SPDX-License-Identifier: MIT
# Trains on a GPU and keeps the logs:
#
#   benchmarks/training.sh PROGRAMS DATA OUT [PART...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of beer, statue, terrace,
# fern, relief23, fox and bonsai, each in a folder of its name; missing ones are skipped. OUT: a folder for the logs, one
# NAME.jsonl a run. Runs that an earlier call finished there are not repeated, so take a new folder for another build.
# DATA and OUT have no spaces.
# PART, with its estimated seconds on an H200: the first three unless named, papers.sh calls the others:
#   defaults      530  7,000 and 30,000 iterations on each, and on knot, a scene made by dsplat generate; three seeds, of
#                      beer, statue and relief23 five
#   ablation      440  7,000 iterations on bonsai, fern, knot and fox without one of the parts of the defaults; three seeds
#   budget        400  --budget of 6, 20 and 60 seconds on beer, statue, bonsai and fox
#   strategies    200  7,000 iterations on fox, bonsai and knot by plain atomics, SW-S, SW-B and the default
#   equal         260  what the same scenes look like after 10 and 30 seconds of plain atomics and of the default
# SEEDS: those of ablation and defaults, "0 1 2" unless set; in defaults beer, statue and relief23 have 3 and 4 too.
# GPUS: the numbers of the GPUs, "0" unless set; each makes one run at a time.
# benchmarks/tables.py show OUT prints tables, keep OUT keeps what the pages show. finish.sh measures Levenberg-Marquardt.
# shellcheck disable=SC2086,SC2046 # lists of options are split
set -eu
[ $# -ge 3 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3
shift 3
parts='defaults ablation budget strategies equal'
[ $# -gt 0 ] || set -- defaults ablation budget
for part; do
    case " $parts " in *" $part "*) ;; *) echo "there is no part $part, but $parts" >&2; exit 2 ;; esac
done
seeds=${SEEDS:-0 1 2} gpus=${GPUS:-0} number_of_gpus=0 failed="$out/failed"
case $data$out in *[[:space:]]*) echo "DATA and OUT must not have spaces" >&2; exit 2 ;; esac
case $gpus in *[!0-9\ ]*) ;; *) number_of_gpus=$(echo $gpus | wc -w) ;; esac
[ $number_of_gpus -gt 0 ] || { echo "GPUS must be numbers with spaces between" >&2; exit 2; }
mkdir -p "$out/scenes"
expected=$(for part; do sed -n "s/^# *$part  *\([0-9][0-9]*\)  .*/\1/p" "$0"; done |
    awk -v gpus=$number_of_gpus '{ s += $1 } END { printf "%.0f", s / 60 / gpus }')
echo "about $expected minutes on $number_of_gpus H200"
rm -f "$failed"

# A pipe holds the numbers of the GPUs that are free.
free="$out/free-gpus"
rm -f "$free"
mkfifo "$free"
exec 9<>"$free"
rm "$free"
for gpu in $gpus; do echo "$gpu" >&9; done
trap 'trap - INT TERM; kill 0' INT TERM # what runs in the background ignores Ctrl-C

limited() { # NAME SECONDS PROGRAM OPTIONS...: waits for a GPU, and returns while the program runs
    name=$1 limit=$2 program=$3
    shift 3
    read -r gpu <&9
    echo "$(date +%H:%M:%S) $name"
    {
        trap 'echo "$gpu" >&9' EXIT
        CUDA_VISIBLE_DEVICES=$gpu timeout --foreground "$limit" "$programs/$program" "$@" >"$out/$name.txt" 2>&1 9<&- ||
            { tail -n 5 "$out/$name.txt" || :; echo "$name" >>"$failed"; }
    } </dev/null &
}
make_knot() { # where others have photographs
    rm -rf "$out/scenes/knot.part"
    limited generate 60 dsplat generate "$out/scenes/knot.part"
    wait
    grep -qsx generate "$failed" || mv "$out/scenes/knot.part" "$out/scenes/knot"
}
train() { # NAME SECONDS SCENE OPTIONS...: the log is NAME.jsonl, the scene scenes/NAME.ply
    [ "$3" != knot ] || [ -d "$out/scenes/knot" ] || make_knot
    name=$1 limit=$2 from=$data/$3 background=
    [ "$3" != knot ] || { from=$out/scenes/knot background='--background 1,1,1'; }
    [ -d "$from" ] || { echo "no $from"; return 0; }
    ! grep -qs '"event": "end"' "$out/$name.jsonl" || return 0
    shift 3
    limited "$name" "$limit" dsplat train $from $background -o "$out/scenes/$name.ply" --log "$out/$name.jsonl" "$@"
}
defaults() {
    for scene in beer statue relief23 bonsai fern fox knot terrace; do
        of_scene=$seeds
        case $scene in beer | statue | relief23) of_scene="$seeds 3 4" ;; esac
        for seed in $of_scene; do
            train defaults-$scene-7000-$seed 60 $scene --seed $seed
            train defaults-$scene-30000-$seed 180 $scene --iterations 30000 --seed $seed
        done
    done
}
# NAME SCENES OPTIONS...: a part of the defaults of these scenes is off, or one that was not made a default is on.
ablation() {
    for seed in $seeds; do
        for scene in bonsai fern knot fox; do
            while read -r name scenes options; do
                case ,$scenes, in *,$scene,*) train ablation-$scene-7000-$name-$seed 60 $scene $options --seed $seed ;; esac
            done <<'END'
none bonsai,fern,knot,fox
mcmc bonsai,fern,knot --density mcmc
no-average bonsai,fern,knot,fox --schedule average=0
no-retire bonsai,knot,fox --retire 0
retire-0.16 fern --retire 0.16
no-dropout fern --schedule dropout=0
one-view bonsai,knot --batch 1
one-view fern --batch 1 --resolutions 2:50:1
three-views knot --batch 3
whole-pictures fern,fox --resolutions none
small-until-half fox --resolutions 2:50:4
small-until-80 fox --resolutions 2:80:4
END
        done
    done
}
budget() {
    for scene in beer statue bonsai fox; do
        for seconds in 60 20 6; do train budget-$scene-${seconds}s $((seconds + 60)) $scene --budget ${seconds}s; done
    done
}
strategies() {
    for scene in fox bonsai knot; do
        train strategies-$scene-default-0 60 $scene
        for way in atomic serial bfly; do train strategies-$scene-$way-0 180 $scene --reduce $way; done
    done
}
equal() {
    for scene in fox bonsai knot; do
        for seconds in 30 10; do
            train equal-$scene-${seconds}s-default-0 $((seconds + 60)) $scene --budget ${seconds}s
            train equal-$scene-${seconds}s-atomic-0 $((seconds + 60)) $scene --budget ${seconds}s --reduce atomic
        done
    done
}
for part; do
    $part
    wait
done
[ ! -e "$failed" ] || { echo "failed:" $(cat "$failed") >&2; exit 1; }
