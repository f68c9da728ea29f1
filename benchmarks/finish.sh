#!/bin/sh
# SPDX-License-Identifier: MIT
# Trains with Adam, and runs Levenberg-Marquardt from Adam's checkpoints at 1/3 and 2/3 of its iterations:
#
#   benchmarks/finish.sh PROGRAMS DATA OUT [SCENE:ITERATIONS[:VARIANT,VARIANT...[:DOWNSCALE]]...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of each SCENE in a
# folder of its name. fox and knot start from random points; `dsplat generate DATA/knot` makes knot. OUT: a folder for
# Adam's logs, adam-SCENE.jsonl, and the JSON of dsplat finish, lm-SCENE-ITERATION-VARIANT.json. Default: fern:30000
# fox:30000, all variants of each. The variants are the lines of `options` below. On an H200 fern takes about 85
# seconds, fox 260.
# benchmarks/tables.py show OUT prints tables, keep OUT keeps what the page shows.
# shellcheck disable=SC2086,SC2046,SC2017 # lists of options are split; checkpoints are at whole thirds
set -eu
[ $# -ge 3 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3
shift 3
[ $# -gt 0 ] || set -- fern:30000 fox:30000
mkdir -p "$out/scenes"

options() { # VARIANT: prints its start (third, two (thirds) or end) and its options of dsplat finish
    half=9 quarter=5 # of the 17 views of fern
    case $scene in fox) half=22 quarter=11 ;; knot) half=50 quarter=25 ;; esac
    case $1 in
    free) echo two --lm-steps 20 ;;
    third) echo third --lm-steps 20 ;;
    end) echo end --lm-steps 5 ;;
    published) echo two --lm-published ;;
    cached) echo two --lm-steps 2 --lm-form cached ;;
    halves) echo two --lm-steps 10 --lm-batch $half --lm-batches 2 ;;
    centre) echo two --lm-steps 10 --lm-ssim centre ;;
    free-12) echo two --lm-steps 12 ;; # instead of free where a step takes long
    diagonal) echo two --lm-steps 10 --lm-preconditioner diagonal ;;
    diagonal-20) echo two --lm-steps 10 --lm-preconditioner diagonal --lm-pcg 20 --lm-units 0.1 ;;
    no-radius) echo two --lm-steps 10 --lm-radius 0 ;;
    radius-1) echo two --lm-steps 10 --lm-radius 1 ;;
    gain) echo two --lm-steps 10 --lm-rule gain ;;
    pcg-4) echo two --lm-steps 14 --lm-pcg 4 ;;
    pcg-16) echo two --lm-steps 7 --lm-pcg 16 ;;
    units-1) echo two --lm-steps 10 --lm-units 1 ;;
    units-100) echo two --lm-steps 10 --lm-units 100 ;;
    half) echo two --lm-steps 10 --lm-batch $half ;;
    quarter) echo two --lm-steps 10 --lm-batch $quarter ;;
    *) echo "no variant $1" >&2; exit 2 ;;
    esac
}
say() { echo "$(date +%H:%M:%S) $*"; }

# Trains with Adam and keeps its checkpoints at 1/3 and 2/3. The time to write them does not count as training.
adam() { # SCENE ITERATIONS
    checkpoint="$out/scenes/$1.checkpoint"
    rm -f "$checkpoint"
    say "adam-$1"
    timeout 300 "$programs/dsplat" train $from --iterations $2 -o "$out/scenes/$1-$2.ply" --eval-every $(($2 / 30)) \
        --checkpoint-every $(($2 / 3)) --checkpoint "$checkpoint" --log "$out/adam-$1.jsonl" >"$out/adam-$1.txt" 2>&1 &
    process=$!
    for at in $(($2 / 3)) $(($2 / 3 * 2)); do
        while kill -0 $process 2>/dev/null && [ ! -e "$checkpoint" ]; do sleep 0.05; done
        mv "$checkpoint" "$out/scenes/$1-$at.checkpoint"
    done
    wait $process
}
scene_at() { # SCENE ITERATIONS AT: writes the scene of a checkpoint, one iteration later
    [ -e "$out/scenes/$1-$3.ply" ] ||
        "$programs/dsplat" train $from --iterations $2 -o "$out/scenes/$1-$3.ply" --seconds 0.000001 \
            --resume "$out/scenes/$1-$3.checkpoint" --checkpoint "$out/scenes/unused" >"$out/start-$1-$3.txt" 2>&1
}
for chosen; do
    scene=${chosen%%:*} rest=${chosen#*:}
    iterations=${rest%%:*} variants=free,third,end,diagonal,diagonal-20,no-radius,radius-1,gain,pcg-4,pcg-16
    variants=$variants,units-1,units-100,half,quarter
    rest=${rest#"$iterations"} downscale=1
    rest=${rest#:}
    [ -z "${rest%%:*}" ] || variants=${rest%%:*}
    [ "${rest%:*}" = "$rest" ] || downscale=${rest#*:}
    from="$data/$scene --downscale $downscale" background=
    [ "$scene" != knot ] || background="--background 1,1,1"
    case $scene in fox | knot) from="$from --random 100000 $background" ;; esac
    rm -f "$out/scenes/$scene-"*
    adam $scene $iterations
    for variant in $(echo $variants | tr , ' '); do
        set -- $(options $variant)
        case $1 in third) at=$((iterations / 3)) ;; two) at=$((iterations / 3 * 2)) ;; end) at=$iterations ;; esac
        shift
        say "lm-$scene-$at-$variant"
        scene_at $scene $iterations $at
        timeout 90 "$programs/dsplat" finish "$out/scenes/$scene-$at.ply" --cameras "$data/$scene" --downscale $downscale $background \
            -o "$out/scenes/lm.ply" --json "$out/lm-$scene-$at-$variant.json" "$@" \
            >"$out/lm-$scene-$at-$variant.txt" 2>&1 || tail -n 3 "$out/lm-$scene-$at-$variant.txt"
    done
done
