#!/usr/bin/env bash
# The main job on real OpenMP programs: record two, compare policies against the bound, write a report page; then the
# verdict on a third, the solver of docs/tutorial.md.
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
"$homing" compare "$out/cg.trace" "$out/sorbyc.trace" --machine "$machine" --threads-on one-per-node \
  --replication --html "$out/report.html"
echo
echo "The report page: $PWD/$out/report.html"

# A plate that the modelled caches do not hold.
echo
echo "-- recording a heat solver, and asking why it is slow on two sockets (docs/tutorial.md): about a minute"
"${CC:-cc}" -O2 -g -fopenmp examples/heat/heat.c -o "$out/heat"
OMP_NUM_THREADS=$threads "$homing" record -o "$out/heat.trace" "$out/heat"
echo
"$homing" why "$out/heat.trace"
