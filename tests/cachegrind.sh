#!/usr/bin/env bash
# The simulated caches against Cachegrind on the same one-thread programs: data misses of the first level within 1 %, of the
# last level within 3 % (Cachegrind's last level also holds instructions, and the two runs differ in a few addresses).
# Needs `make build workloads`; HOMING=PROGRAM tests another one than target/release/homing.
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing}
out=build/test-cachegrind
rm -rf "$out"
mkdir -p "$out"

cat >"$out/machine.toml" <<'END'
name = "cachegrind"
nodes = 2
[latency]
local = 80
remote = 140
page_move = 2000
[hierarchy]
page_colouring = true
l1 = { size = "16K", ways = 4, line = 64, ns = 1 }
l2 = { size = "256K", ways = 8, line = 64, ns = 5 }
END

while read -r program options; do
   # shellcheck disable=SC2086
   OMP_NUM_THREADS=1 timeout 120 valgrind --tool=cachegrind --cache-sim=yes --D1=16384,4,64 --LL=262144,8,64 \
      --cachegrind-out-file="$out/$program.cachegrind" build/workloads/"$program" -t 1 $options >"$out/$program.out" 2>&1
   # shellcheck disable=SC2086
   timeout 120 "$homing" record -o "$out/$program.trace" -- build/workloads/"$program" -t 1 $options >"$out/$program.out" 2>&1
   timeout 120 "$homing" optimal "$out/$program.trace" -m "$out/machine.toml" --misses --json >"$out/$program.json"
   python3 - "$program" "$out" <<'END'
import json, sys
program, out = sys.argv[1:]
counts = json.load(open(f"{out}/{program}.json"))["caches"]
lines = open(f"{out}/{program}.cachegrind").read().split("\n")
events = next(l for l in lines if l.startswith("events:")).split()[1:]
totals = dict(zip(events, map(int, next(l for l in lines if l.startswith("summary:")).split()[1:])))
first = totals["D1mr"] + totals["D1mw"]
last = totals["DLmr"] + totals["DLmw"]
ok = True
for what, theirs, ours, bound in (
    ("references", totals["Dr"] + totals["Dw"], counts["references"], 0.2),  # a read-modify-write is one reference there, two here
    ("first level", first, counts["l1_misses"], 0.01),
    ("last level", last, counts["l2_misses"], 0.03),
):
    off = ours / theirs - 1
    within = abs(off) <= bound
    ok &= within
    print(f"{program:10} {what:11} cachegrind {theirs:10}  homing {ours:10}  {100 * off:+.2f} %{'' if within else '  TOO FAR'}")
sys.exit(not ok)
END
done <<'END'
cg        -n 3000 -i 4
is        -n 40000 -i 2
matmult   -n 120
END
