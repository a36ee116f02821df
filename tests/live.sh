#!/usr/bin/env bash
# The live engine in the lab, counted by the observer: a program that begins on one node has its pages brought home, and brought
# after its threads when they go to other nodes half-way, by a session and by a daemon. Then, in one machine, what tests/live/guest.sh checks.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$homing" lab run --topology 2x2 -- true 2>first.err
if [ $? -eq 3 ]; then
  echo "SKIPPED 3 tests of the live engine, which need what is missing here: $(cat first.err)"
  exit 0
fi
for program in bands churn numa; do gcc -O2 -Wall -o "$program" "$root/tests/live/$program.c" -pthread || exit 1; done
strip --strip-debug -o homing "$homing"
cp "$root"/tests/live/{guest,daemon}.sh .

# Under load the guest is slow: what must happen has many times the time that it takes.
timeout -k 5 400 "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --observe counts.json --marked --interval 500ms \
  --result summary.json -- ./homing run --source hint-faults --summary summary.json -- ./bands 8 64 30 2 >out 2>err
status=$?
cat out
python3 "$root/tests/live/home.py" counts.json summary.json && [ $status -eq 0 ] && grep -q ' wrong=0$' out || { cat err; echo "live: FAILED"; exit 1; }

timeout -k 5 400 "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --observe served.json --marked --interval 500ms \
  --file homing --file bands -- sh ./daemon.sh >out 2>err
status=$?
echo "a daemon:"
python3 "$root/tests/live/home.py" served.json && [ $status -eq 0 ] && grep -q ' wrong=0$' out || { cat out err; echo "live: FAILED"; exit 1; }

timeout -k 5 600 "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --file homing --file bands --file churn --file numa \
  -- sh ./guest.sh || { echo "live: FAILED"; exit 1; }
echo "live: 3 passed"
