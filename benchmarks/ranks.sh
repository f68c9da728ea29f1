#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures several GPUs of one host; about two minutes on two H200:
#
#   benchmarks/ranks.sh PROGRAMS OUT [GPUS [NCCL]]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). OUT: a folder for the JSON. GPUS: 2 unless given.
# NCCL: the path of libnccl.so.2, if the loader does not find it.
# benchmarks/tables.py ranks OUT prints tables; benchmarks/trim.py OUT -o benchmarks/results/ranks.jsonl keeps them.
set -eu
[ $# -ge 2 ] || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 out=$2 gpus=${3:-2} nccl=${4:+"--nccl $4"}
mkdir -p "$out"

steps() { # NAME OPTIONS...
    name=$1
    shift
    echo "$(date +%H:%M:%S) $name"
    timeout 60 "$programs/shared_steps" $nccl "$@" -o "$out/$name.json" || echo "$name failed: $?" >&2
}
timeout 60 "$programs/exchange" $nccl --ranks "$gpus" -o "$out/exchange$gpus.json" || echo "exchange failed: $?" >&2
for ranks in 1 2 3; do
    steps "bits-threads$ranks" --threads --ranks $ranks --views 3 --gaussians 300000 --steps 3 --reduce fixed --check
done
for ranks in 1 "$gpus"; do
    steps "bits-gpus$ranks" --ranks "$ranks" --views 3 --gaussians 300000 --steps 3 --reduce fixed --check
done
measure() { # NAME "VIEWS..." OPTIONS...
    scene=$1 batches=$2
    shift 2
    steps "$scene-plain" --plain "$@"
    for views in $batches; do
        for ranks in 1 "$gpus"; do steps "$scene-gpus$ranks-b$views" --ranks "$ranks" --views "$views" "$@"; done
    done
    steps "$scene-timed" --ranks "$gpus" --views "$gpus" --timed "$@"
}
measure fine "1 2 4 8" --gaussians 1000000 --steps 40
measure large "1 2 4 8" --gaussians 10000000 --steps 10
measure uhd "1 2" --gaussians 10000000 --steps 10 --width 3840 --height 2160
steps uhd-timed-b1 --ranks "$gpus" --views 1 --timed --gaussians 10000000 --steps 10 --width 3840 --height 2160

# The largest scene that trains for some steps, in units of 2 million Gaussians: a trial that has no memory left ends
# with an error. Bisection, between what surely fits and what surely does not.
largest() { # NAME FITS TOO_MANY OPTIONS...
    name=$1 low=$2 high=$3
    shift 3
    while [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        echo "$(date +%H:%M:%S) $name: $((2 * middle)) million"
        if timeout 60 "$programs/shared_steps" $nccl --gaussians $((2 * middle))000000 --steps 1 "$@" \
            -o "$out/$name.tried.json" 2>"$out/$name.tried.txt"; then
            low=$middle
            mv "$out/$name.tried.json" "$out/$name.json"
        else
            high=$middle
        fi
    done
    rm -f "$out/$name.tried.json"
}
gigabytes=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits -i 0 | awk '{ print int($1 * 1.048576e-3) }')
largest largest-plain $((gigabytes * 35 / 100)) $((gigabytes / 2)) --plain # 2 million Gaussians take 2 GB or more
largest "largest-gpus$gpus" $((gigabytes * 35 / 100 * gpus)) $((gigabytes / 2 * gpus)) --ranks "$gpus"
