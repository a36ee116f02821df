#!/usr/bin/env bash
# Recording: CPU time (user + system, of the program, Valgrind and homing together) as a multiple of the native run's, for
# CG-, IS- and MG-like workloads of 10^8 references; trace size; peak memory of homing. Each figure is the median of RUNS
# runs (default 3). `none` is Valgrind's floor: its own no-op tool. Needs `make build workloads`.
set -euo pipefail
cd "$(dirname "$0")/.."
source benches/measure.sh

runs=${RUNS:-3} threads=${THREADS:-2}
homing=$PWD/target/release/homing programs=build/workloads
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive

# CPU seconds of a command, median of the runs.
median() {
  for _ in $(seq "$runs"); do cpu "$@"; done | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

field() { "$homing" trace info --json "$work/t.trace" | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }

# The instrumented builds for the second recorder.
cflags=$("$homing" cflags) ldflags=$("$homing" ldflags)
for name in cg is mg; do make -s -C workloads OUT="$work/tsan" CFLAGS="-O2 -g $cflags" LDLIBS="$ldflags" "$work/tsan/$name"; done

printf '%-4s %9s %8s | %6s %9s %9s %6s %9s | %6s %10s %8s\n' \
  "" refs/M native/s none valgrind +filter tsan +filter B/ref filt.B/ref peak/MiB
while read -r name arguments; do
  # shellcheck disable=SC2086 # the arguments are words
  set -- $arguments -t "$threads"
  native=$(median "$programs/$name" "$@")
  none=$(median valgrind -q --tool=none --fair-sched=yes "$programs/$name" "$@")
  tsan=$(median "$homing" record -q --recorder tsan -o "$work/t.trace" -- "$work/tsan/$name" "$@")
  tsanline=$(median "$homing" record -q --recorder tsan --filter line -o "$work/t.trace" -- "$work/tsan/$name" "$@")
  line=$(median "$homing" record -q --filter line -o "$work/t.trace" -- "$programs/$name" "$@")
  bytes=$(field bytes)
  full=$(median "$homing" record -q -o "$work/t.trace" -- "$programs/$name" "$@")
  awk -v name="$name" -v refs="$(field references)" -v n="$native" -v none="$none" -v full="$full" -v line="$line" \
    -v tsan="$tsan" -v tsanline="$tsanline" -v size="$(field bytes)" -v bytes="$bytes" \
    -v peak="$(peak "$homing" record -q -o "$work/t.trace" -- "$programs/$name" "$@")" 'BEGIN {
      printf "%-4s %9.1f %8.3f | %5.1fx %8.1fx %8.1fx %5.1fx %8.1fx | %6.3f %10.3f %8d\n", name, refs / 1e6, n, none / n,
        full / n, line / n, tsan / n, tsanline / n, size / refs, bytes / refs, peak }'
done <<'E2'
cg -n 14000 -i 125
is -i 61
mg -n 64 -i 6
E2
