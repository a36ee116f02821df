#!/usr/bin/env bash
# Records real workloads and follows them to the end of the data path: the trace is complete, the optimum is below every
# policy, and the two oracles (workloads/phases.c, workloads/pingpong.c) cost what their closed forms say.
# A job model of one of them is made and played, too.
# pingpong is for the tsan recorder alone: its turns are often handed over without a system call, in a mutex that nobody
# waits for, and the Valgrind recorder knows only futex calls as synchronisation.
# Needs `make build workloads`; HOMING=PROGRAM tests another one than target/release/homing.
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

# The two oracles, for the tsan recorder.
compile=$("$homing" cflags) && link=$("$homing" ldflags) || exit 1
run build make -s -C workloads OUT="$PWD/$out" CFLAGS="-O2 $compile" LDLIBS="$link" "$PWD/$out/phases" "$PWD/$out/pingpong"

# machine: one with as many nodes as threads, or more
while read -r recorder program options machine; do
   name=$recorder-$program directory=build/workloads
   [[ $recorder == valgrind ]] || directory=$out
   # shellcheck disable=SC2086
   run "$name.result" "$homing" record --recorder "$recorder" -o "$out/$name.trace" -- \
      "$directory/$program" -t $threads ${options//,/ }
   run "$name.info.json" "$homing" trace info --json "$out/$name.trace"
   run "$name.optimal.json" "$homing" optimal "$out/$name.trace" --machine "$machine" --threads-on one-per-node --json
   run "$name.compare.json" "$homing" compare "$out/$name.trace" --machine "$machine" --threads-on one-per-node \
      --replication --json
   python3 tests/workloads_record.py "$out" "$recorder" "$program" $threads || exit 1
done <<'END'
valgrind  cg        -i,10      four-socket
valgrind  sorbyr    -i,12      butterfly
valgrind  bt        -n,8,-i,3  four-socket
valgrind  sp        -n,8,-i,3  four-socket
valgrind  qsort     -n,100000  butterfly
valgrind  phases    -n,16      butterfly
tsan      phases    -n,16      butterfly
tsan      pingpong  -i,300     butterfly
END
# A job model of cg takes nearly as long with local pages as its trace says, of which some are not.
run cg.app.toml "$homing" sched model "$out/valgrind-cg.trace" --name cg --machine origin2000-16 \
   --set hierarchy.l1.size=4K --set hierarchy.l2.size=16K
python3 - "$out/cg.app.toml" <<'END' || exit 1
import re, sys
text = open(sys.argv[1]).read()
by_trace, by_table = map(float, re.search(r"threads: ([0-9.]+), ([0-9.]+)", text).groups())
misses = float(re.search(r"misses = \[\[4.0, ([0-9.]+)\]\]", text).group(1))
if not (0.8 < by_table / by_trace < 1.02 and misses > 100):
    sys.exit(f"workloads_record: the job model of cg: {text}")
END
run cg.jobs "$homing" sched simulate --apps "$out/cg.app.toml" --mix cg --machine origin2000-16 --managers batch --policies none
echo "workloads_record: ok"
