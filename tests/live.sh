#!/usr/bin/env bash
# The live engine in the lab, counted by the observer: a program that begins on one node has its pages brought home, and brought
# after its threads when they go to other nodes, by a session and by a daemon. `homing why` of a process that runs says what is
# wrong and moves nothing (`tests/live.sh why` checks that alone). What tests/live/guest.sh checks, in one machine, and what
# tests/live/shared.sh, tests/live/wander.sh and tests/live/threads.sh check, in others (`tests/live.sh shared` and so on run those
# alone).
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$root/tests/in_lab.sh"
cd "$work"

"$homing" lab run --topology 2x2 -- true 2>first.err
if [ $? -eq 3 ]; then
  echo "SKIPPED 9 tests of the live engine, which need what is missing here: $(cat first.err)"
  exit 0
fi
gcc -O2 -Wall -o signals "$root/tests/signals/signals.c" -pthread || exit 1
for program in away bands churn numa pool slices swings wander; do gcc -O2 -Wall -o "$program" "$root/tests/live/$program.c" -pthread || exit 1; done
strip --strip-debug -o homing "$homing"
cp "$root"/tests/live/*.sh .
make -s -C "$root/preload" OUT="$work/preload" || exit 1

shifts() { # WHAT INTERVALS LAB_OPTIONS...: threads change nodes under a session or a daemon, and the observer sees the pages follow
  local what=$1 counts=$2; shift 2
  in_lab 300 --observe "$counts" --marked --interval 200ms \
    --file homing --file preload --file bands --file wait.sh "$@" -- sh ./shift.sh "$what" >out 2>err
  local status=$?
  cat out
  [ $status -eq 0 ] || { cat err; echo "live: FAILED"; exit 1; }
}
run_why() {
  in_lab 400 --file homing --file away --file pool --file swings --file wait.sh \
    --result why.json --result pool.json --result swings.json --result group.json -- sh ./why.sh
}
why() { # processes with memory on other nodes than their threads are judged, and no page moves
  run_why >out 2>&1
  local status=$?
  cat out
  # A busy host may give the guest's scans no time, so that nothing is sampled: that alone is tried once more.
  if [ $status -ne 0 ] && grep -q 'no reference was sampled' out; then
    echo "live: once more"
    run_why
    status=$?
  fi
  [ $status -eq 0 ] || { echo "live: FAILED"; exit 1; }
  python3 "$root/tests/live/verdict.py" why.json pool.json swings.json group.json || { echo "live: FAILED"; exit 1; }
}
case "${1:-}" in shared | wander | threads) ;; *) why ;; esac
[ "${1:-}" != why ] || { echo "live: 1 passed"; exit 0; }
shared() {
  in_lab 500 --file homing --file slices --file wait.sh -- sh ./shared.sh || { echo "live: FAILED"; exit 1; }
}
wander() { # threads that go from node to node
  in_lab 500 --file homing --file wander --file wait.sh -- sh ./wander.sh || { echo "live: FAILED"; exit 1; }
}
threads() { # threads that may run anywhere
  in_lab 300 --file homing --file bands --file wait.sh -- sh ./threads.sh || { echo "live: FAILED"; exit 1; }
}
case "${1:-}" in shared | wander | threads) "$1"; echo "live: 1 passed"; exit 0 ;; esac
shifts session counts.json --result summary.json --result checked.json
python3 "$root/tests/live/home.py" counts.json summary.json checked.json || { cat err; echo "live: FAILED"; exit 1; }
echo "a daemon:"
shifts daemon served.json
python3 "$root/tests/live/home.py" served.json || { cat err; echo "live: FAILED"; exit 1; }

# A table on one node that threads of all nodes read and write at random: no page moves after its users more than once in the mean,
# scans are rare, and the table is spread, so that each node's memory answers its share.
spreads() {
  in_lab 300 --observe left-counts.json --interval 2s --file homing --file preload --file swings --env HOMING_LIB=. --result left.json -- \
    ./homing run --quiet --source hint-faults --summary left.json -- timeout 60 ./swings 4 1024 >out 2>err
  python3 "$root/tests/live/spread.py" left.json left-counts.json
}
# On a busy host one thread may take nearly all faults of each scan, as though the table were its own.
spreads || { cat err; echo "live: once more"; spreads; } || { cat err; echo "live: once more"; spreads; } ||
  { cat err; echo "live: FAILED"; exit 1; }
# The same where each memory serves one access at a time: without the engine requests wait for each other, spread they
# hardly do.
loaded() {
  local counts=$1; shift
  in_lab 300 --observe "$counts" --interval 1s --cache 128K --delay --busy 40 \
    --file homing --file preload --file swings --env HOMING_LIB=. -- "$@" ./swings 4 1024 >out 2>err
}
loaded alone.json timeout 12
loaded spread.json ./homing run --quiet --source hint-faults -- timeout 30
python3 "$root/tests/live/load.py" alone.json spread.json || { cat err; echo "live: FAILED"; exit 1; }

in_lab 500 --file homing --file bands --file churn --file numa --file signals --file wait.sh -- sh ./guest.sh ||
  { echo "live: FAILED"; exit 1; }
shared
wander
threads
echo "live: 9 passed"
