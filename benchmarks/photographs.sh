#!/bin/sh
# SPDX-License-Identifier: MIT
# Trains with views set aside, which may end training early, and without, and prints a line of JSON per run:
#
#   benchmarks/photographs.sh PROGRAMS DATA OUT SCENE...
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). DATA: a folder with the photographs of each SCENE in a
# folder of its name. OUT: a folder for logs and scenes; runs whose NAME.json is there are not made again. psnr, ssim: of
# held-out views; training_psnr: of the others. From the environment:
#   VALIDATE "auto 0"   ITERATIONS "7000 30000"   SEEDS "0"   HOLDOUT 8   OPTIONS of dsplat train, for all runs
set -eu
[ $# -ge 4 ] || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
run() { # NAME SCENE OPTIONS...
    name=$1 photographs=$data/$2
    shift 2
    [ -s "$out/$name.json" ] || {
        rm -f "$out/$name.jsonl"
        "$programs/dsplat" train "$photographs" -o "$out/$name.ply" --log "$out/$name.jsonl" "$@" \
            >"$out/$name.txt" 2>&1 || { tail -n 3 "$out/$name.txt" >&2; return 1; }
        "$programs/dsplat" eval "$out/$name.ply" --cameras "$photographs" --all --json "$out/$name.all" >/dev/null
        python3 - "$out/$name" <<'END'
import json, sys
name = sys.argv[1]
last = {line["event"]: line for line in map(json.loads, open(name + ".jsonl"))}
held, end, settings = last["evaluation"], last["end"], last["start"]["settings"]
of_all = [view["psnr"] for view in json.load(open(name + ".all"))["views"]]
rest = (sum(of_all) - held["psnr"] * held["views"]) / (len(of_all) - held["views"])
line = {"scene": settings["data"].rstrip("/").split("/")[-1], "validate": settings["validate"]}
line |= {"asked": settings["iterations"], "iterations": end["iteration"], "seed": settings["seed"]}
line |= {"psnr": round(held["psnr"], 3), "ssim": round(held["ssim"], 4), "training_psnr": round(rest, 3)}
line |= {"gaussians": end["gaussians"], "seconds": round(end["seconds"], 2)}
print(json.dumps(line), file=open(name + ".json", "w"))
END
    }
    cat "$out/$name.json"
}
for scene; do
    for iterations in ${ITERATIONS:-7000 30000}; do
        for seed in ${SEEDS:-0}; do
            for validate in ${VALIDATE:-auto 0}; do
                # shellcheck disable=SC2086 # a list of options is split
                run "$scene-$iterations-$validate-$seed" "$scene" --holdout "${HOLDOUT:-8}" \
                    --iterations "$iterations" --seed "$seed" --validate "$validate" ${OPTIONS:-} ||
                    echo "$scene-$iterations-$validate-$seed failed" >&2
            done
        done
    done
done
