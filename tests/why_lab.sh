#!/usr/bin/env bash
# Does the lab count what `homing why` predicts? Programs of tests/why whose threads are bound run in the lab as they
# are and mended; the observer counts what misses a cache of 128 KiB. Prints a table in Markdown: non-local % before and
# after, predicted / counted, and the gain in memory cost. Ends with 1 where the former are more than 4 points apart, or
# the latter more than 3.
#   [OUT=DIR] tests/why_lab.sh [PROGRAM...]      what is in OUT is not run again
set -uo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} out=${OUT:-$PWD/build/why-lab} failed=0
mkdir -p "$out"
[ $# -gt 0 ] || set -- stencil arena vector heat rows

compile() { # SOURCE PROGRAM FLAGS...
  local source=$1 program=$2
  shift 2
  case $source in
    *.c) gcc -O1 -g -fopenmp "$@" "$source" -o "$program" ;;
    *.cpp) g++ -O1 -g -fopenmp "$@" "$source" -o "$program" ;;
    *.f90) gfortran -cpp -O1 -g -fopenmp "$@" "$source" -o "$program" ;;
  esac
}

lab() { # COUNTS COMMAND
  [ ! -s "$1" ] || return 0
  timeout -k 5 300 "$homing" lab run --topology 4x2 --balancing off --thp never --cache 128K --env OMP_NUM_THREADS=4 \
    --env OMP_PROC_BIND=true --env 'OMP_PLACES={0},{2},{4},{6}' --env OMP_WAIT_POLICY=passive --observe "$1.new" -- "$2" \
    >"$out/out" 2>"$out/err" && mv "$1.new" "$1" || { tail -3 "$out/err"; return 1; }
}

echo '| program | verdict | non-local % before, predicted / counted | after | gain predicted, % | counted |'
echo '|---|---|---|---|---|---|'
for name in "$@"; do
  source=$(echo "tests/why/$name".*)
  compile "$source" "$out/$name" && compile "$source" "$out/$name-fixed" -DFIXED &&
    OMP_NUM_THREADS=4 "$homing" record -q -o "$out/$name.trace" -- "$out/$name" >"$out/out" &&
    "$homing" why "$out/$name.trace" --machine tests/why/lab.toml --json >"$out/$name.json" &&
    lab "$out/$name.before" "$out/$name" && lab "$out/$name.after" "$out/$name-fixed" &&
    python3 tests/why/lab.py "$name" "$out/$name.json" "$out/$name.before" "$out/$name.after" || failed=1
done
exit $failed
