#!/usr/bin/env bash
# How long `homing why` takes on a recorded trace: references, seconds, references a second, memory. Prints a table in
# Markdown. Needs `make build workloads`. HOMING=PROGRAM measures another one than target/release/homing.
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} out=build/bench-why
mkdir -p "$out"
declare -A size=([cg]="-n 14000 -i 30" [mg]="-n 64 -i 12" [sorbyr]="-n 1024 -i 12")

echo '| program | machine | references | seconds | M references/s | GB of memory |'
echo '|---|---|---|---|---|---|'
for program in cg mg sorbyr; do
  trace=$out/$program.homing
  # shellcheck disable=SC2206 # options are words
  command=("build/workloads/$program" ${size[$program]} -t 8)
  [ -s "$trace" ] || "$homing" record -q -o "$trace" -- "${command[@]}" >/dev/null
  for machine in two-socket four-socket; do
    /usr/bin/time -f '%e %M' -o "$out/time" "$homing" why "$trace" --machine "$machine" --json >"$out/why.json"
    python3 - "$program" "$machine" "$out/why.json" "$out/time" <<'PY'
import json, sys
program, machine, why, time = sys.argv[1:]
seconds, kilobytes = map(float, open(time).read().split()[-2:])
made = json.load(open(why))["trace"]["caches"]["references"]
print(f"| {program} | {machine} | {made / 1e6:.0f} M | {seconds:.1f} | {made / 1e6 / seconds:.0f} | {kilobytes / 1e6:.1f} |")
PY
  done
done
