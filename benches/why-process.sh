#!/usr/bin/env bash
# What `homing why --pid` costs, in a machine of the lab: CPU time of homing without and with that of its source, in
# percent of one emulated CPU, for a process of 64 MiB and one of 1 GiB that two threads use. Prints a table in
# Markdown. Needs `make build`. HOMING=PROGRAM measures another one than target/release/homing; with BEFORE=PROGRAM that
# one is measured too, in the same machine and of the same processes: each line ends with its share and the ratio.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=$(realpath "${HOMING:-target/release/homing}") before=${BEFORE:+$(realpath "$BEFORE")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
gcc -O2 -Wall -o bands "$root/tests/live/bands.c" -pthread
strip --strip-debug -o now "$homing"
files=(--file now --file bands --file wait.sh --file measure.sh)
[ -z "$before" ] || { strip --strip-debug -o before "$before"; files+=(--file before); }
cp "$root/tests/live/wait.sh" .
cat >measure.sh <<'SH'
. ./wait.sh
threads() { [ "$(ls /proc/$bands/task | wc -l)" -eq 3 ]; }
# why PROGRAM: a busy host may give the guest no time for scans; then once more, at most twice.
why() { ./$1 why --pid $bands --seconds 20 --source hint-faults --json >why.json; }
# bands 2 PAGES: 64 MiB, 1 GiB
for pages in 8192 131072; do
  ./bands 2 $pages 3600 >bands.out & bands=$!
  until_true threads || exit 1
  for program in before now; do
    [ -e $program ] || continue
    why $program || why $program || why $program || exit 1
    echo "=== $program $((pages / 128))"
    cat why.json
  done
  kill -TERM $bands
  wait $bands
done
SH
machine=(--nodes 2 --cpus 2 --balancing off --thp never --timeout 540s)
timeout -k 5 560 "$homing" lab run "${machine[@]}" "${files[@]}" -- sh ./measure.sh >out
python3 - out <<'PY'
import json, sys
runs = {}
for part in open(sys.argv[1]).read().split("=== ")[1:]:
    head, text = part.split("\n", 1)
    which, mib = head.split()
    report = json.loads(text)
    at = {parameter["name"]: parameter["value"] for parameter in report["parameters"]}
    phases = at.get("cpu-seconds-by-phase")
    every = phases and sum(float(phase.split()[1]) for phase in phases.split(", "))
    runs[which, mib] = float(at["own-cpu-percent"]), every, report["sampled"], phases
print("| process | samples | seconds | beside the source, % of a CPU | with it, % | before, beside it, % | ratio |")
print("|---|---|---|---|---|---|---|")
for (which, mib), (own, every, sampled, phases) in runs.items():
    if which == "now":
        before = runs.get(("before", mib))
        then = f"{before[0]:.1f} | {before[0] / own:.1f}" if before else "- | -"
        share = 100 * every / sampled["seconds"]
        print(f"| {mib} MiB | {sampled['samples']} | {sampled['seconds']:.0f} | {own:.1f} | {share:.1f} | {then} |")
for (which, mib), (_, _, sampled, phases) in runs.items():
    print(f"\n{which}, {mib} MiB, {sampled['samples']} samples: CPU seconds by phase: {phases}")
PY
