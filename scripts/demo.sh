#!/usr/bin/env bash
# The main job on two real OpenMP programs: record them, compare policies against the bound, write a report page.
# MACHINE=NAME chooses another machine model (`homing machines` lists them), THREADS=N another number of threads.
set -euo pipefail
cd "$(dirname "$0")/.."

homing=target/release/homing
machine=${MACHINE:-four-socket} threads=${THREADS:-4}
out=build/demo
mkdir -p "$out"

for program in cg sorbyc; do
  echo "-- recording $program with $threads threads"
  "$homing" record -o "$out/$program.trace" -- "build/workloads/$program" -t "$threads"
done
echo
echo "-- comparing policies on machine $machine"
"$homing" compare "$out/cg.trace" "$out/sorbyc.trace" --machine "$machine" --threads-on one-per-node --html "$out/report.html"
echo
echo "The report page: $PWD/$out/report.html"
