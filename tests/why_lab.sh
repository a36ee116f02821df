#!/usr/bin/env bash
# Does the lab count what `homing why` predicts? Programs of tests/why run in the lab as they are and mended, with each
# thread on a node of its own. Prints a table in Markdown:
# * non-local % before and after, and the gain in memory cost, of the whole program, predicted / counted. The observer
#   counts what misses a cache of 128 KiB.
# * the gain in time of the section between the program's marks (tests/why/section.h), predicted / injected / by the
#   clock. The lab delays each miss by the latency of its memory, times 2000, so that nothing else takes time
#   (tests/why/lab-time.toml). Injected is what the slowest CPU's misses are delayed by.
# Ends with 1 where shares are more than 4 points apart, or gains more than 3 points outside the predicted range. The
# clock is not judged: a busy host makes it wrong by some points.
#   [OUT=DIR] tests/why_lab.sh [PROGRAM...]      what is in OUT is not run again; `make why-lab` runs all
#   WHAT=cost tests/why_lab.sh stencil rows      without the runs that are delayed: `make bench-lab` does that
set -uo pipefail
cd "$(dirname "$0")/.."
homing=$(realpath "${HOMING:-$PWD/target/release/homing}") out=${OUT:-$PWD/build/why-lab} failed=0
# What binds the threads of programs without OpenMP.
library=$(realpath "${HOMING_LIB:-$PWD/build}")/preload
mkdir -p "$out"

# Programs, what is compared, and how they are mended. Hash is judged by time alone: spreading its pages moves misses
# from the slowest threads to the others, and takes nothing off their sum. Heat, in Fortran, has no marks.
cases='stencil cost,time -DFIXED
arena cost,time -DFIXED
vector cost,time -DFIXED
heat cost -DFIXED
shifted cost,time -DFIXED
rows cost,time -DFIXED
gather cost,time -DFIXED
hash time interleave'

compile() { # SOURCE PROGRAM FLAGS...
  local source=$1 program=$2
  shift 2
  case $source in
    *.c) gcc -O1 -g -fopenmp -pthread "$@" "$source" -o "$program" ;;
    *.cpp) g++ -O1 -g -fopenmp "$@" "$source" -o "$program" ;;
    *.f90) gfortran -cpp -O1 -g -fopenmp "$@" "$source" -o "$program" ;;
  esac
}

lab() { # COUNTS OPTIONS... -- COMMAND...
  local counts=$1
  shift
  [ ! -s "$counts" ] || return 0
  timeout -k 5 300 "$homing" lab run --topology 4x2 --balancing off --thp never --cache 128K --env OMP_NUM_THREADS=4 \
    --env OMP_PROC_BIND=true --env 'OMP_PLACES={0},{2},{4},{6}' --env OMP_WAIT_POLICY=passive \
    --file "$library" --observe "$counts.new" "$@" >"$out/out" 2>"$out/err" && mv "$counts.new" "$counts" || { tail -3 "$out/err"; return 1; }
}

compare() { # NAME WHAT MENDED
  local program=$out/$1 source what before=() after=()
  source=$(echo "tests/why/$1".*)
  # Threads of OpenMP have their places. Others, and the main thread beside them, get a node each in turn.
  [[ $1 != shifted ]] || before=("$homing" rset exec node:0-3 --threads round-robin)
  after=("${before[@]}" "$program-mended")
  compile "$source" "$program" || return 1
  if [[ $3 == interleave ]]; then
    after=(numactl --interleave=all "$program")
  else
    compile "$source" "$program-mended" "$3" || return 1
  fi
  OMP_NUM_THREADS=4 "$homing" record -q -o "$program.trace" -- "$program" >"$out/out" || return 1
  for what in ${2//,/ }; do
    local machine=tests/why/lab.toml judged=() observed=()
    [[ $what == cost ]] || { machine=tests/why/lab-time.toml judged=(--phase section); }
    [[ $what == cost ]] || observed=(--marked --delay=2000 --interval 10ms)
    "$homing" why "$program.trace" --machine "$machine" "${judged[@]}" --json >"$program.$what.why" &&
      lab "$program.$what.before" "${observed[@]}" -- "${before[@]}" "$program" &&
      lab "$program.$what.after" "${observed[@]}" -- "${after[@]}" || return 1
  done
  python3 tests/why/lab.py "$1" "$2" "$program"
}

echo '| program | verdict | non-local % before, predicted / counted | after | cost, % less | time of the section, % less |'
echo '|---|---|---|---|---|---|'
while read -r name what mended; do
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  compare "$name" "${WHAT:-$what}" "$mended" </dev/null || failed=1
done <<<"$cases"
exit $failed
