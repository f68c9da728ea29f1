#!/bin/sh
# fuzz.sh SECONDS: libFuzzer on each target of targets.h in turn, SECONDS in all. Keeps build/fuzz/found/TARGET, which the
# next call goes on with, and the first begins with corpus.tar.gz; an input that ends a target is
# build/fuzz/found/TARGET-*. Exit 1 if there was one.
set -u
cd "$(dirname "$0")/../.."
echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null || {
    echo "fuzz: skipped: clang with libFuzzer is not installed (Debian: clang, libclang-rt-dev)"
    exit 0
}
cmake --preset fuzz >build/fuzz.log && cmake --build build/fuzz --target fuzz fuzz_runs >>build/fuzz.log || { tail build/fuzz.log; exit 1; }
[ -d build/fuzz/found ] || { mkdir -p build/fuzz/found && tar -xzf tests/fuzz/corpus.tar.gz -C build/fuzz/found; } || exit 1
build/fuzz/bin/fuzz_runs build/fuzz/found || exit 1
targets=$(sed -n 's/^    X(\([a-z_]*\),.*/\1/p' tests/fuzz/targets.h)
each=$(($1 / $(echo "$targets" | wc -l)))
status=0
for target in $targets; do
    found=build/fuzz/found/$target
    mkdir -p "$found"
    FUZZ_TARGET=$target build/fuzz/bin/fuzz -max_total_time=$((each > 0 ? each : 1)) -rss_limit_mb=4096 \
        -timeout=20 -print_final_stats=1 "-artifact_prefix=$found-" "$found" >"$found.log" 2>&1 || {
        status=1
        grep -a 'ERROR\|SUMMARY\|does not hold\|Test unit written' "$found.log"
    }
    printf '%-14s %s executions, %s\n' "$target" "$(sed -n 's/stat::number_of_executed_units: //p' "$found.log")" \
        "$(grep -a 'cov: ' "$found.log" | tail -n 1 | sed 's/.*\(cov: [0-9]* ft: [0-9]*\).*/\1/')"
done
exit $status
