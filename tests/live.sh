#!/usr/bin/env bash
# The live engine in the lab, in two machines. In one the observer counts: a program that begins on one node has its pages brought home,
# and brought after its threads when they go to other nodes, by a session and by a daemon (tests/live/shift.sh). In the other tests/live/
# why.sh, guest.sh, shared.sh, wander.sh and threads.sh run in turn.
#   tests/live.sh [shift|why|guest|shared|wander|threads]...      default: all
# What is measured, not checked, is in benches/lab.sh.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$root/tests/in_lab.sh"
cd "$work"
needs_lab 'the test of the live engine'
[ $# -gt 0 ] || set -- shift why guest shared wander threads
gcc -O2 -Wall -o signals "$root/tests/signals/signals.c" -pthread || exit 1
for program in away bands churn numa pool slices swings wander; do gcc -O2 -Wall -o "$program" "$root/tests/live/$program.c" -pthread || exit 1; done
strip --strip-debug -o homing "$homing"
cp "$root"/tests/live/*.sh .
make -s -C "$root/preload" OUT="$work/preload" || exit 1

passed=0 failed=()
judge() { # NAME COMMAND...: the job must have ended with 0, and the command must succeed
  local name=$1; shift
  if [ "$(lab_status "$name")" = 0 ] && "$@"; then passed=$((passed + 1)); echo "ok      $name"; else failed+=("$name"); echo "FAILED  $name"; fi
}
if [[ " $* " == *' shift '* ]]; then
  for what in session daemon; do
    lab_job $what 300 --observe $what.counts --file homing --file preload --file bands --file wait.sh \
      --result summary.json --result checked.json -- sh ./shift.sh $what
  done
  lab_jobs "${lab_quiet[@]}" --marked --interval 200ms
  judge session python3 "$root/tests/live/home.py" session.counts summary.json checked.json
  judge daemon python3 "$root/tests/live/home.py" daemon.counts
fi
others=0
for name; do
  case $name in
  shift) continue ;;
  why) files='away pool swings' seconds=400 ;;
  guest) files='bands churn numa signals' seconds=500 ;;
  shared) files=slices seconds=500 ;;
  wander) files=wander seconds=500 ;;
  threads) files=bands seconds=300 ;;
  *) echo "live: what is $name?"; exit 2 ;;
  esac
  options=(--file homing --file wait.sh)
  for file in $files; do options+=(--file "$file"); done
  lab_job "$name" $seconds "${options[@]}" -- sh "./$name.sh"
  others=1
done
if [ $others = 1 ]; then
  lab_jobs "${lab_quiet[@]}"
  for name; do
    case $name in
    shift) ;;
    # Processes with memory on other nodes than their threads are judged, and no page moves.
    why) judge why python3 "$root/tests/live/verdict.py" why.json pool.json swings.json group.json ;;
    *) judge "$name" true ;;
    esac
  done
fi
echo "live: $passed passed, ${#failed[@]} failed${failed:+: ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]
