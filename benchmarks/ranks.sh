#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures several GPUs of one host; about two minutes on two H200:
#
#   benchmarks/ranks.sh PROGRAMS OUT [GPUS [NCCL]]
#
# PROGRAMS: the folder of the built programs (build/cuda/bin). OUT: a folder for the JSON. GPUS: 2 unless given.
# NCCL: the path of libnccl.so.2, if the loader does not find it.
# benchmarks/tables.py ranks OUT prints tables.
set -eu
[ $# -ge 2 ] || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
programs=$1 out=$2 gpus=${3:-2} nccl=${4:+"--nccl $4"}
mkdir -p "$out"

steps() { # NAME OPTIONS...
    name=$1
    shift
    echo "$(date +%H:%M:%S) $name"
    timeout 120 "$programs/shared_steps" $nccl "$@" -o "$out/$name.json"
}
timeout 120 "$programs/exchange" $nccl --ranks "$gpus" -o "$out/exchange$gpus.json"
for ranks in 1 2 3; do
    steps "bits-threads$ranks" --threads --ranks $ranks --views 3 --gaussians 300000 --steps 2 --reduce fixed --check
done
for ranks in 1 "$gpus"; do
    steps "bits-gpus$ranks" --ranks "$ranks" --views 3 --gaussians 300000 --steps 2 --reduce fixed --check
done
measure() { # NAME OPTIONS...
    scene=$1
    shift
    steps "$scene-plain" --plain "$@"
    for views in 1 2 4 8; do
        for ranks in 1 "$gpus"; do steps "$scene-gpus$ranks-b$views" --ranks "$ranks" --views $views "$@"; done
    done
    steps "$scene-timed" --ranks "$gpus" --views "$gpus" --timed "$@"
}
measure fine --gaussians 1000000 --steps 20
measure large --gaussians 10000000 --steps 10
measure uhd --gaussians 10000000 --steps 10 --width 3840 --height 2160
