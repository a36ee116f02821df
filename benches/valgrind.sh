#!/usr/bin/env bash
# CPU time (user + system) of the workload cg, as a multiple of the native program's in the same round:
#   none      Valgrind's tool that does nothing: the floor
#   recorded  the whole of `homing record`: program, encoder, ordering; then with other slices, and with the line filter
# benches/valgrind.sh [ROUNDS] [arguments of cg]. Needs `make build`.
set -euo pipefail
cd "$(dirname "$0")/.."
source benches/measure.sh
rounds=${1:-3}
shift || true
[ $# -gt 0 ] || set -- -n 40000 -i 75
homing=${HOMING:-target/release/homing}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=passive

make -s -C workloads OUT="$out" "$out/cg"

printf 'round\tnative s\tnone\trecorded\tslice 100\tslice 1000\tslice 100000\tline filter\n'
for round in $(seq "$rounds"); do
  native=$(cpu "$out/cg" "$@")
  row=$(cpu valgrind --tool=none -q --fair-sched=yes "$out/cg" "$@")
  for options in "" "--slice 100" "--slice 1000" "--slice 100000" "--filter line"; do
    # shellcheck disable=SC2086 # options are words
    row="$row $(cpu "$homing" record --quiet $options -o "$out/a.trace" -- "$out/cg" "$@")"
  done
  awk -v r="$round" -v n="$native" -v row="$row" \
    'BEGIN { printf "%d\t%.2f", r, n; k = split(row, t, " "); for (i = 1; i <= k; i++) printf "\t%.1fx", t[i] / n; print "" }'
done
