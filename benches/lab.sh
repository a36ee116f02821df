#!/usr/bin/env bash
# What the lab measures, and what can therefore be apart by chance: medians of five runs, against benches/lab.tsv. `make bench-lab` runs
# all; `make test` has an exact case of each that has one. Prints a table in Markdown; ends with 1 if a figure is not as expected.
#   [RUNS='1 2 3 4 5'] benches/lab.sh [delays|balancing|try|spread|loaded|agree|why|runtime]...
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=$(realpath "${HOMING:-$PWD/target/release/homing}") runs=${RUNS:-1 2 3 4 5}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$root/tests/in_lab.sh"
cd "$work"
needs_lab 'what the lab measures'
some=some
[ $# -gt 0 ] || { some=; set -- delays balancing try spread loaded agree why runtime; }
for program in known latency load; do gcc -O2 -Wall -o $program "$root/lab/tests/$program.c" -pthread || exit 1; done
gcc -O2 -Wall -o swings "$root/tests/live/swings.c" -pthread || exit 1
strip --strip-debug -o homing "$homing"
make -s -C "$root/preload" OUT="$work/preload" || exit 1
stream=("$root/build/workloads/stream" -t 4 -n 65536)

# A pointer chase measures the latencies asked for; four CPUs chase pointers through one memory, or each through its own.
delays() {
  for run in $runs; do lab_job latency.$run 240 --output latency.$run.out -- ./latency 0 0 1 2 3 4; done
  lab_jobs --topology "$root/lab/tests/ratios.toml" --balancing off --delay=100
  for run in $runs; do
    lab_job wait-one.$run 240 --output wait-one.$run.out --observe wait-one.$run.counts -- ./load 200000 0 0 0 0
    lab_job wait-own.$run 240 --output wait-own.$run.out --observe wait-own.$run.counts -- ./load 200000 0 1 2 3
  done
  lab_jobs --topology 4x2 --balancing off --thp never --marked --delay=100 --busy 40
}
# The kernel's balancing does what it is told: hint faults, pages that come home.
balancing() {
  for run in $runs; do lab_job hints.$run 240 --start-on 0 --observe hints.$run.counts -- "${stream[@]}" -i 60; done
  lab_jobs --topology 2x2 --balancing fast
  "$homing" lab baseline --topology 2x2 --contenders single-node,fast --start-on 0 --thp never --repeats $(wc -w <<<"$runs") --json --env OMP_PROC_BIND=true -- \
    "${stream[@]}" -i 160 >baseline.json
}
# The card's counts stand beside the times of `homing try`.
try() {
  lab_job try 600 --output try.json --file known -- "$homing" try --ways none --rounds 13 --against './known 2:1:400000:0' --json -- ./known 2:0:400000:0
  lab_jobs --topology 2x2 --card --cache 128K --balancing off --delay
}
# A table on one node that threads of all nodes read and write at random: no page moves after its users more than once in the mean,
# scans are rare, and the table is spread, so that each node's memory answers its share.
spread() {
  for run in $runs; do
    lab_job spread.$run 300 --observe spread.$run.counts --file homing --file preload --file swings --env HOMING_LIB=. -- \
      ./homing run --quiet --source hint-faults --summary spread.$run.json -- timeout 60 ./swings 4 1024
  done
  lab_jobs "${lab_quiet[@]}" --interval 2s
}
# The same where each memory serves one access at a time: without the engine requests wait for each other, spread they hardly do.
loaded() {
  local files=(--file homing --file preload --file swings --env HOMING_LIB=.)
  for run in $runs; do
    lab_job alone.$run 300 --observe alone.$run.counts "${files[@]}" -- timeout 12 ./swings 4 1024
    lab_job engine.$run 300 --observe engine.$run.counts "${files[@]}" -- ./homing run --quiet --source hint-faults -- timeout 30 ./swings 4 1024
  done
  lab_jobs "${lab_quiet[@]}" --interval 1s --cache 128K --delay --busy 40
}
agree() { HOMING=$homing "$root/tests/lab_agree.sh" cg:first-touch mg:round-robin is:single-node; echo $? >"$work/lab_agree.status"; }
why() { HOMING=$homing WHAT=cost OUT=$work/why.counts "$root/tests/why_lab.sh" stencil rows; echo $? >"$work/why_lab stencil rows.status"; }
runtime() {
  HOMING=$homing PARTS=starts STARTS='first-touch single-node' ENGINES='none run' OUT=$work/runtime.counts "$root/tests/nikolopoulos_lab.sh" sp
  echo $? >"$work/nikolopoulos_lab sp.status"
}

for suite; do
  case $suite in
  delays | balancing | try | spread | loaded | agree | why | runtime) "$suite" >"$suite.log" 2>&1; tail -n 12 "$suite.log" >&2 ;;
  *) echo "bench-lab: what is $suite?"; exit 2 ;;
  esac
done
python3 "$root/benches/lab.py" "$work" "$root/benches/lab.tsv" $some
