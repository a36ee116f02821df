#!/usr/bin/env bash
# CPU time (user + system, of the program and of homing together) of the workload cg under `homing record --recorder
# tsan`, against the native program of the same run: benches/tsan.sh [ROUNDS] [arguments of cg]. Needs `make build`.
set -euo pipefail
cd "$(dirname "$0")/.."
source benches/measure.sh
rounds=${1:-3}
shift || true
[ $# -gt 0 ] || set -- -n 20000 -i 50
homing=${HOMING:-target/release/homing}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=passive

make -s -C workloads OUT="$out/native" "$out/native/cg"
make -s -C workloads OUT="$out/tsan" CFLAGS="-O2 $("$homing" cflags)" LDLIBS="$("$homing" ldflags)" "$out/tsan/cg"

printf 'round\tnative s\tinert\trecorded\tline filter\n'
for round in $(seq "$rounds"); do
  native=$(cpu "$out/native/cg" "$@")
  inert=$(cpu "$out/tsan/cg" "$@")
  whole=$(cpu "$homing" record --quiet --recorder tsan -o "$out/a.trace" -- "$out/tsan/cg" "$@")
  line=$(cpu "$homing" record --quiet --recorder tsan --filter line -o "$out/b.trace" -- "$out/tsan/cg" "$@")
  awk -v r="$round" -v n="$native" -v i="$inert" -v w="$whole" -v l="$line" \
    'BEGIN { printf "%d\t%.2f\t%.1fx\t%.1fx\t%.1fx\n", r, n, i / n, w / n, l / n }'
done
