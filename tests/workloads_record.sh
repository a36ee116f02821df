#!/usr/bin/env bash
# Records real workloads with the Valgrind recorder and follows them to the end of the data path: the trace is complete,
# the optimum is below every policy, and the two oracles (workloads/phases.c, workloads/pingpong.c) cost what their
# closed forms say. Needs `make build workloads`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
homing=${HOMING:-$PWD/target/release/homing}
out=build/test-workloads-record
threads=4
rm -rf "$out"
mkdir -p "$out"

run() { # run NAME COMMAND...: stdout to $out/NAME; a failure shows stderr and ends the test
   local name=$1
   shift
   timeout 300 "$@" >"$out/$name" 2>"$out/$name.err" && return
   echo "workloads_record: exit status $?: $*" >&2
   cat "$out/$name.err" >&2
   exit 1
}

# program, options, machine: one with as many nodes as threads, or more
while read -r program options machine; do
   # shellcheck disable=SC2086
   run "$program.result" "$homing" record -o "$out/$program.trace" -- "build/workloads/$program" -t $threads ${options//,/ }
   run "$program.info.json" "$homing" trace info --json "$out/$program.trace"
   run "$program.optimal.json" "$homing" optimal "$out/$program.trace" --machine "$machine" --threads-on one-per-node --json
   run "$program.compare.json" "$homing" compare "$out/$program.trace" --machine "$machine" --threads-on one-per-node --json
   python3 tests/workloads_record.py "$out" "$program" $threads || exit 1
done <<'END'
cg        -i,10      four-socket
sorbyr    -i,12      butterfly
qsort     -n,100000  butterfly
phases    -n,16      butterfly
pingpong  -i,300     butterfly
END
echo "workloads_record: ok"
