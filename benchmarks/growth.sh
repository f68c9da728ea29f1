#!/bin/sh
# SPDX-License-Identifier: MIT
# Trains with each place and manner of growth, and prints a line of JSON a run:
#
#   benchmarks/growth.sh PROGRAMS DATA OUT SCENE...
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of each SCENE in a
# folder of its name. OUT: a folder for logs and scenes; runs whose NAME.json is there are not made again. psnr, ssim: of
# held-out views; training_psnr: of the others. From the environment:
#   WHERE       "gradient opacity score agreement"; mcmc: --density mcmc without noise; NAME or NAME:split, NAME:relocate
#   ITERATIONS  "7000 30000"      SEEDS  "0"      HOLDOUT  8      OPTIONS  of dsplat train, for all runs
set -eu
[ $# -ge 4 ] || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
run() { # NAME SCENE HOLDOUT OPTIONS...
    name=$1 photographs=$data/$2 every=$3
    shift 3
    [ -s "$out/$name.json" ] || {
        rm -f "$out/$name.jsonl"
        "$programs/dsplat" train "$photographs" -o "$out/$name.ply" --log "$out/$name.jsonl" --holdout "$every" "$@" \
            >"$out/$name.txt" 2>&1 || { tail -n 3 "$out/$name.txt" >&2; return 1; }
        "$programs/dsplat" eval "$out/$name.ply" --cameras "$photographs" --all --json "$out/$name.all" >/dev/null
        python3 - "$out/$name" <<'END'
import json, sys
name = sys.argv[1]
last = {line["event"]: line for line in map(json.loads, open(name + ".jsonl"))}
held, end, settings = last["evaluation"], last["end"], last["start"]["settings"]
of_all = [view["psnr"] for view in json.load(open(name + ".all"))["views"]]
rest = (sum(of_all) - held["psnr"] * held["views"]) / (len(of_all) - held["views"])
line = {"scene": settings["data"].rstrip("/").split("/")[-1], "density": settings["density"]}
line |= {key: settings["grow-" + key] for key in ("where", "how") if settings["density"] == "split"}
line |= {"iterations": end["iteration"], "seed": settings["seed"], "psnr": round(held["psnr"], 3)}
line |= {"ssim": round(held["ssim"], 4), "training_psnr": round(rest, 3), "gaussians": end["gaussians"]}
print(json.dumps(line | {"seconds": round(end["seconds"], 2)}), file=open(name + ".json", "w"))
END
    }
    cat "$out/$name.json"
}
for scene; do
    for iterations in ${ITERATIONS:-7000 30000}; do
        for seed in ${SEEDS:-0}; do
            for where in ${WHERE:-gradient opacity score agreement}; do
                place=${where%:*}
                ways='split relocate'
                case $where in mcmc) ways=relocate ;; *:*) ways=${where#*:} ;; esac
                for how in $ways; do
                    growth="--density split --grow-where $place --grow-how $how"
                    [ "$where" != mcmc ] || growth='--density mcmc --mcmc-noise 0'
                    # shellcheck disable=SC2086 # lists of options are split
                    run "$scene-$iterations-$place-$how-$seed" "$scene" "${HOLDOUT:-8}" --iterations "$iterations" \
                        --seed "$seed" $growth ${OPTIONS:-} || echo "$scene-$iterations-$place-$how-$seed failed" >&2
                done
            done
        done
    done
done
