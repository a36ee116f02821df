#!/usr/bin/env bash
# Is `homing try` right? Pairs of programs whose difference is known, each tried so often: busy loops here, whose times vary by 3 and
# by 10 %, and injected delays in the lab. A verdict is wrong if it says faster or slower where that is not so; an interval is wrong if
# it does not hold the true difference. Needs `make build lab`.
#
#   benches/try.sh [REPETITIONS [ROUNDS [LAB_REPETITIONS]]]     default: 25, 60 and 5; ROUNDS at most in each
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} repetitions=${1:-25} rounds=${2:-60} lab=${3:-5}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work"
gcc -O2 -Wall -o try-pairs "$root/benches/try-pairs.c" -lm || exit 1

# KIND TRUE REPETITIONS OPTIONS... -- WORDS...: a line for each; `%` in the words is the difference.
cat >several.sh <<'S'
kind=$1 true=$2 repetitions=$3 rounds=$4
shift 4
for seed in $(seq "$repetitions"); do
  echo "$kind $true $("$HOMING" try --ways none --rounds "$rounds" --seed "$seed" --json "$@" 2>/dev/null | tr -d '\n')"
done
S
for spread in 3 10; do
  for true in 0 2 5 20; do
    HOMING=$homing sh several.sh "spread-$spread" "$true" "$repetitions" "$rounds" \
      --against "./try-pairs spin 8 $true $spread" -- ./try-pairs spin 8 0 "$spread"
  done
done >results
if [ "$lab" -gt 0 ]; then
  for true in 0 2 5 20; do
    timeout -k 5 3000 "$homing" lab run --topology 2x2 --cache 128K --card --delay --balancing off --timeout 3000s \
      --file try-pairs --file several.sh -- env HOMING="$homing" sh several.sh lab-delays "$true" "$lab" 20 \
      --time-from 'time: ([0-9.]+)' --against "./try-pairs walk 100000 $true" -- ./try-pairs walk 100000 0 >>results 2>>lab.err
  done
fi
python3 - <<'P'
import json
from collections import defaultdict

cells, missing = defaultdict(list), 0
for line in open("results"):
    kind, true, answer = line.split(" ", 2)
    if answer.strip():
        cells[kind, int(true)].append(json.loads(answer)["ways"][1]["difference"])
    else:
        missing += 1
print("| pair | true difference, % | times | faster | slower | same | not clear | interval holds it | rounds, median |")
print("|---|---|---|---|---|---|---|---|---|")
right = times = held = intervals = 0
for (kind, true), found in cells.items():
    verdicts = [one["verdict"] for one in found]
    count = {name: verdicts.count(name) for name in ("faster", "slower", "same", "not-clear")}
    inside = [one["interval"]["low"] <= 1 + true / 100 <= one["interval"]["high"] for one in found if one["interval"]]
    wrong = count["faster"] + (count["slower"] if true == 0 else 0) + (count["same"] if true > 1 else 0)
    right, times = right + len(found) - wrong, times + len(found)
    held, intervals = held + sum(inside), intervals + len(inside)
    rounds = sorted(one["pairs"] for one in found)[len(found) // 2]
    print(f"| {kind} | {true} | {len(found)} | {count['faster']} | {count['slower']} | {count['same']} | {count['not-clear']} "
          f"| {sum(inside)} of {len(inside)} | {rounds} |")
print(f"\nverdicts that are not wrong: {right} of {times}; "
      f"intervals that hold the true difference: {held} of {intervals}; trials without an answer: {missing}")
P
