#!/usr/bin/env bash
# Real jobs: the number of threads of OpenMP programs follows the job's processors, with GNU's runtime and with LLVM's, and what they
# compute stays the same; programs whose threads do not follow are told. Then, in the lab (4 nodes of 2 CPUs), jobs get cpusets and
# their pages come after them; nodes go from a partition to another one that comes first. `tests/sched.sh here` leaves the lab out.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "sched: FAILED: $*"; exit 1; }
cd "$work"
mkdir -p lib/runtime && strip --strip-debug -o lib/runtime/libhoming.so "$library" || fail "no $library: run \`make runtime\`"
make -s -C "$root/preload" OUT="$work/lib/preload" || exit 1
export HOMING_LIB=$work/lib

job() { # NAME REQUEST ARRIVAL COMMAND...
  local name=$1 request=$2 arrival=$3; shift 3
  printf '[[job]]\nname = "%s"\nrequest = %s\narrival = %s\noutput = "%s.out"\ncommand = [' "$name" "$request" "$arrival" "$name"
  printf '"%s", ' "$@"
  printf ']\n'
}

if [ "$(nproc)" -ge 2 ]; then
  compilers=
  for compiler in gcc clang; do
    command -v $compiler >/dev/null && $compiler -O2 -fopenmp -o sweep-$compiler "$root/tests/sched/sweep.c" 2>$compiler.err ||
      { echo "SKIPPED OpenMP of $compiler, which is missing or has no runtime: $(head -1 $compiler.err 2>/dev/null)"; continue; }
    compilers="$compilers $compiler"
    # The first has two processors until the second comes, and again once that has ended.
    { job first 2 0.0 ./sweep-$compiler 128 30000; job second 2 0.5 ./sweep-$compiler 128 5000; } >jobs.toml
    rm -f first.out second.out
    taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/-/,/' | cut -d, -f1,2)" \
      "$homing" sched run jobs.toml --pages off --manager equipartition --json >result.json 2>run.err || { cat run.err; fail "$compiler"; }
    # LLVM's runtime has two threads at least.
    follows='2 1 2' one=1
    [ $compiler = gcc ] || { follows=2 one=2; }
    grep -qx "sum 7.5 teams $follows" first.out || { cat first.out result.json; fail "$compiler: the threads did not follow"; }
    grep -qx "sum 7.5 teams $one" second.out || { cat second.out; fail "$compiler: the second job"; }
    [ "$(grep -c '"threads": "followed"' result.json)" -eq 2 ] || { cat result.json; fail "$compiler: not told that they followed"; }
    found=$(sed -n 's/^ *"iterations": \([0-9]*\),$/\1/p' result.json | head -1)
    [ "${found:-0}" -ge 29990 ] && [ "$found" -le 30000 ] || fail "$compiler: $found iterations of 30000"
    echo "ok $compiler: threads followed processors, $found iterations of 30000"
  done
  first=${compilers# } && first=${first%% *}
  if [ -n "$first" ]; then
    # The program is ready for two threads, whatever is free, and one that fixes its threads keeps them.
    { job ready 2 0.0 ./sweep-$first 64 300; job fixes 2 0.0 ./sweep-$first 64 300 0 1 2; } >jobs.toml
    "$homing" sched run jobs.toml --pages off --manager batch --json >result.json 2>run.err || { cat run.err; fail 'fixed threads'; }
    grep -qx 'sum 7.5 teams 2' ready.out && grep -qx 'sum 7.5 teams 2' fixes.out || { cat ready.out fixes.out; fail 'fixed threads'; }
    grep -q '"threads": "followed in part"' result.json || { cat result.json; fail 'not told that threads are fixed'; }
    echo 'ok programs that fix their threads keep them'
  fi
fi
[ "${1:-}" != here ] || { echo 'sched: passed'; exit 0; }

. "$root/tests/in_lab.sh"
needs_lab "the lab's test of jobs"
strip --strip-debug -o homing "$homing" || exit 1
[ -x sweep-gcc ] || gcc -O2 -fopenmp -o sweep-gcc "$root/tests/sched/sweep.c" || exit 1
[ -x sweep-clang ] || cp sweep-gcc sweep-clang
{ job a 8 0.0 ./sweep-gcc 64 100; job b 8 0.0 ./sweep-clang 64 100; job c 4 1.0 ./sweep-gcc 64 20 60; } >jobs.toml
cp "$root/tests/sched/guest.sh" .
{ printf '[[partition]]\nname = "giver"\nnodes = [0, 1, 2]\npriority = 0\n[[partition]]\nname = "taker"\nnodes = [3]\npriority = 1\n'
  job keeps 6 0.0 ./sweep-gcc 256 1500; echo 'partition = "giver"'
  job takes 8 1.0 ./sweep-clang 64 1200; echo 'partition = "taker"'; } >divided.toml
cp "$root/tests/sched/partitions.sh" .
files=(--file homing --file lib --file sweep-gcc --file sweep-clang)
lab_job jobs 150 "${files[@]}" --file jobs.toml -- sh ./guest.sh
lab_job partitions 150 "${files[@]}" --file divided.toml -- sh ./partitions.sh
lab_jobs "${lab_quiet[@]}"
[ "$(lab_status jobs)" = 0 ] || fail 'jobs in the lab'
[ "$(lab_status partitions)" = 0 ] || fail 'partitions in the lab'
echo 'sched: passed'
