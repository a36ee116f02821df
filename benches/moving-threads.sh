#!/usr/bin/env bash
# What policies make of threads that move (docs/policy.md, "With threads that move"): the gap to the bound in per cent
# and page copies, with moves that last and with false alarms, and with the filter of two constructs and without it.
#   [HOMING=PROGRAM] benches/moving-threads.sh
set -euo pipefail
cd "$(dirname "$0")/.."
homing=$(realpath "${HOMING:-$PWD/target/release/homing}") include=$PWD/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc -O1 -fopenmp -I"$include" -o "$work/moving" benches/moving.c
cd "$work"
OMP_WAIT_POLICY=passive "$homing" record -q -o moving.trace -- ./moving
references=$("$homing" trace info moving.trace --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["references"])')

# Threads 1 and 2 change places for good after 30 % of the time, 0 and 3 after 60 %.
awk -v n="$references" 'BEGIN {
  print "time,thread,cpu"
  print int(n * 0.3) ",1,2"; print int(n * 0.3) ",2,1"; print int(n * 0.6) ",0,3"; print int(n * 0.6) ",3,0"
}' >moves.csv
# They change places nine times for a third of an iteration.
awk -v n="$references" 'BEGIN {
  print "time,thread,cpu"
  for (i = 1; i <= 9; i++) {
    print int(n * i / 10) ",1,2"; print int(n * i / 10) ",2,1"
    print int(n * (i / 10 + 1 / 120)) ",1,1"; print int(n * (i / 10 + 1 / 120)) ",2,2"
  }
}' >alarms.csv

for events in moves alarms; do
  for constructs in 0 2; do
    "$homing" compare moving.trace -m butterfly --threads-on one-per-node --no-replication --events $events.csv --json \
      --set page_move=1000 --set predictive.constructs=$constructs --set homing.constructs=$constructs \
      --policies first-touch,competitive,predictive,work-function,homing >$events-$constructs.json
  done
done
python3 - <<'END'
import json

def cells(policy):
    for run in ("moves-0", "moves-2", "alarms-0", "alarms-2"):
        rows = json.load(open(run + ".json"))["traces"][0]["rows"]
        row = next(row for row in rows if row["policy"] == policy)
        yield f"{row['gap_percent']:.1f} ({row['moves']})"

print("| gap in per cent (copies) | moves, C = 0 | moves, C = 2 | false alarms, C = 0 | false alarms, C = 2 |")
print("|---|---|---|---|---|")
for policy in ("first-touch", "competitive", "predictive", "work-function", "homing"):
    print(f"| `{policy}` | " + " | ".join(cells(policy)) + " |")
END
