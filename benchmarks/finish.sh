#!/bin/sh
# SPDX-License-Identifier: MIT
# Trains with Adam, and runs Levenberg-Marquardt from Adam's checkpoint at 2/3 of its iterations:
#
#   benchmarks/finish.sh PROGRAMS DATA OUT [SCENE:ITERATIONS[:VARIANT,VARIANT...[:DOWNSCALE]]...]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of each SCENE in a
# folder of its name; knot is made if it is not there. fox and knot start from random points. OUT: a folder for Adam's
# logs, adam-SCENE.jsonl, and the JSON of dsplat finish, lm-SCENE-ITERATION-VARIANT.json. Runs that an earlier call
# finished there are not repeated, so several calls may divide the scenes and variants. LIMIT: seconds that a run may
# take; 300 unless set. Default: fern, fox, knot and bonsai, which is at half size, each with the objective where Adam
# ends (end), --lm-published (published), the defaults (ours), squared differences (l2), both with one batch or all
# batches of a half or a quarter of the views (half, halves, quarter, quarters), and with Adam's 2/3 followed by 50 or
# 100 steps of all views, at most 32 (full-50, full-100).
# benchmarks/tables.py show OUT prints tables, keep OUT keeps what the page shows.
# shellcheck disable=SC2086,SC2046,SC2017 # lists of options are split; checkpoints are at whole thirds
set -eu
[ $# -ge 3 ] || { sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3 limit=${LIMIT:-300}
shift 3
[ $# -gt 0 ] || set -- fern:30000 fox:30000 knot:30000 bonsai:30000::2
mkdir -p "$out/scenes"

options() { # VARIANT [STEPS]: prints its start (two thirds or the end) and its options of dsplat finish
    ten=${2---lm-steps 10}
    case $scene in fern) views=17 ;; fox) views=43 ;; bonsai) views=220 ;; *) views=100 ;; esac
    half=$(((views + 1) / 2)) quarter=$(((views + 3) / 4))
    case $1 in
    published) echo two --lm-published ;;
    published-l2) echo two --lm-published --lm-objective l2 --lm-ssim full ;;
    published-*) options ${1#published-} '' && echo --lm-published ;;
    ours) echo two ;;
    l2) echo two --lm-objective l2 ;;
    end) echo end --lm-steps 5 ;;
    half) echo two $ten --lm-batch $half --lm-batches 1 ;;
    halves) echo two $ten --lm-batch $half --lm-batches 2 ;;
    quarter) echo two $ten --lm-batch $quarter --lm-batches 1 ;;
    quarters) echo two $ten --lm-batch $quarter --lm-batches 4 ;;
    *) echo "there is no variant $1" >&2; exit 2 ;;
    esac
}
say() { echo "$(date +%H:%M:%S) $*"; }

# Trains with Adam and keeps its checkpoint at 2/3. The time to write them does not count as training.
adam() { # SCENE ITERATIONS
    ! grep -qs '"event": "end"' "$out/adam-$1.jsonl" || return 0
    checkpoint="$out/scenes/$1-$2.ply.checkpoint"
    rm -f "$out/scenes/$1-"* "$checkpoint"
    say "adam-$1"
    timeout $limit "$programs/dsplat" train $from --iterations $2 -o "$out/scenes/$1-$2.ply" --eval-every $(($2 / 30)) \
        --checkpoint-every $(($2 / 3 * 2)) --log "$out/adam-$1.jsonl" >"$out/adam-$1.txt" 2>&1 &
    process=$!
    while kill -0 $process 2>/dev/null && [ ! -e "$checkpoint" ]; do sleep 0.05; done
    mv "$checkpoint" "$out/scenes/$1-$(($2 / 3 * 2)).checkpoint"
    wait $process
}
scene_at() { # SCENE ITERATIONS AT: writes the scene of a checkpoint, as of a run that ends there
    [ -e "$out/scenes/$1-$3.ply" ] ||
        "$programs/dsplat" train $from --iterations $3 -o "$out/scenes/$1-$3.ply" \
            --resume "$out/scenes/$1-$3.checkpoint" >"$out/start-$1-$3.txt" 2>&1
}
# Adam with STEPS steps of as many views as a step takes, after 2/3 of the iterations with the usual ones.
full() { # SCENE ITERATIONS STEPS
    ! grep -qs '"event": "end"' "$out/adam-$1-full-$3.jsonl" || return 0
    options ours >"$out/scenes/unused" # for `views`
    most=$((views < 32 ? views : 32)) usual=$(sed -n 's/.*, \([0-9]*\) views\{0,1\} per step, density.*/\1/p' "$out/adam-$1.txt")
    all=$(($2 / 3 * 2 + $3 * most))
    say "adam-$1-full-$3: $3 steps of $most of $views views"
    timeout $limit "$programs/dsplat" train $from --iterations $all -o "$out/scenes/unused.ply" --batch $most --schedule average=0 \
        --resolutions 1:$(awk "BEGIN { printf \"%.6f\", 100 * ($2 / 3 * 2 + 0.5) / $all }"):$usual --eval-every $(($2 / 30)) \
        --log "$out/adam-$1-full-$3.jsonl" >"$out/adam-$1-full-$3.txt" 2>&1 || tail -n 3 "$out/adam-$1-full-$3.txt"
}
for chosen; do
    scene=${chosen%%:*} rest=${chosen#*:}
    iterations=${rest%%:*} variants=end,published,ours,half,halves,quarter,quarters,l2,published-half,published-halves
    variants=$variants,published-quarter,published-quarters,published-l2,full-50,full-100
    rest=${rest#"$iterations"} downscale=1 photographs="$data/$scene"
    rest=${rest#:}
    [ -z "${rest%%:*}" ] || variants=${rest%%:*}
    [ "${rest%:*}" = "$rest" ] || downscale=${rest#*:}
    if [ $scene = knot ] && [ ! -d "$photographs" ]; then
        photographs="$out/scenes/photographs-of-knot"
        [ -d "$photographs" ] || "$programs/dsplat" generate "$photographs" >"$out/generate.txt"
    fi
    from="$photographs --downscale $downscale --validate 0" background=
    [ "$scene" != knot ] || background="--background 1,1,1"
    case $scene in fox | knot) from="$from --random 100000 $background" ;; esac
    adam $scene $iterations
    for variant in $(echo $variants | tr , ' '); do
        case $variant in full-*) full $scene $iterations ${variant#full-}; continue ;; esac
        set -- $(options $variant)
        case $1 in two) at=$((iterations / 3 * 2)) ;; end) at=$iterations ;; esac
        shift
        name="lm-$scene-$at-$variant"
        [ ! -e "$out/$name.json" ] || continue
        say "$name"
        scene_at $scene $iterations $at
        timeout $limit "$programs/dsplat" finish "$out/scenes/$scene-$at.ply" --cameras "$photographs" --downscale $downscale \
            $background -o "$out/scenes/lm.ply" --json "$out/$name.json" "$@" >"$out/$name.txt" 2>&1 ||
            tail -n 3 "$out/$name.txt"
    done
done
