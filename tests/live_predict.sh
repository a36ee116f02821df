#!/usr/bin/env bash
# Does the simulated session say what the live one does? Runs each program in the lab from node 0: once alone (how fast the emulator goes),
# once with a trace, once under `homing run`. The trace is simulated with the session at that pace. Prints a table in Markdown of what the
# observer counted and what was simulated, and ends with 1 where the tails are more than 3 points apart, or the settling times a factor of 1.5.
#   [OUT=DIR] tests/live_predict.sh [PROGRAM...]      default: sorbyr cg mg; what is in OUT is not run again
set -uo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} out=${OUT:-$PWD/build/predict} workloads=${WORKLOADS:-$PWD/build/workloads} failed=0
declare -A size=([sorbyr]="-n 512 -i 250" [cg]="-n 14000 -i 600" [mg]="-n 32 -i 200" [fft]="-n 65536 -i 40")
mkdir -p "$out"
[ $# -gt 0 ] || set -- sorbyr cg mg

lab() { # COUNTS OPTIONS... -- COMMAND...
  local counts=$1; shift
  [ ! -s "$counts" ] || return 0
  timeout -k 5 590 "$homing" lab run --topology 4x2 --start-on 0 --balancing off --thp never --marked --cache 128K --env OMP_PROC_BIND=true \
    --env OMP_WAIT_POLICY=passive --observe "$counts.new" "$@" >"$out/out" 2>"$out/err" && mv "$counts.new" "$counts" || { tail -3 "$out/err"; return 1; }
}

echo '| program | run | non-local % | tail % | settled s | of s | moved | over time |'
echo '|---|---|---|---|---|---|---|---|'
for program in "$@"; do
  # shellcheck disable=SC2206 # options are words
  command=("$workloads/$program" ${size[$program]} -t 8)
  lab "$out/$program.alone" -- "${command[@]}" && lab "$out/$program.traced" --trace "$out/$program.homing" -- "${command[@]}" &&
    lab "$out/$program.live" -- "$homing" run --quiet --source hint-faults --tee "$out/$program.log" -- "${command[@]}" || { failed=1; continue; }
  pace=$(python3 tests/live/predict.py pace "$out/$program.alone")
  # The trace's threads are the machine's CPUs. A page move takes one of the movers 7.8 us (docs/benchmarks.md). How long scans and looks
  # take depends on what else the host does, and is taken from the log of the live run.
  delays=$(python3 tests/live/predict.py delays "$out/$program.log")
  "$homing" simulate "$out/$program.homing" --machine tests/live/lab.toml --set time.compute_ns="$pace" --placement single-node:0 \
    --policy work-function --monitor "hint-faults:move=7.8,$delays" --json >"$out/$program.json" || { failed=1; continue; }
  python3 tests/live/predict.py row "$program" "$out/$program.live" "$out/$program.json" || failed=1
done
exit $failed
