#!/usr/bin/env bash
# The lab with the built program: three topologies boot, streams and files and statuses pass through, the observer's counts of a
# program with known accesses are exact to 1 %, the engine is not counted, delays have the asked ratios, waits
# are those of their model, the card says what is true, the kernel's balancing does what it is told, a killed lab leaves nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d) || exit 1
failed=0 passed=0
trap 'rm -rf "$work"' EXIT
cd "$work"

check() { # NAME COMMAND...: the command must succeed
  local name=$1; shift
  if "$@"; then passed=$((passed + 1)); echo "ok      $name"; else failed=$((failed + 1)); echo "FAILED  $name"; fi
}
lab() { timeout -k 5 240 "$homing" lab run "$@"; }

"$homing" lab run --topology 2x2 -- true 2>first.err
if [ $? -eq 3 ]; then
  echo "SKIPPED 34 tests of the lab, which needs what is missing here: $(cat first.err)"
  exit 0
fi
for program in known patterns card latency load shared hotlines; do gcc -O2 -Wall -o $program "$root/lab/tests/$program.c" -pthread; done
# The engine is known by this name, and in the guest by the bytes at its entry point, so it must be another program than its user.
# Both make their accesses in a library that they share.
gcc -O2 -Wall -shared -fPIC -Dmain=known -o libknown.so "$root/lab/tests/known.c" -pthread
for of in 1 2; do
  echo 'int known(int, char **); int main(int count, char **words) { return known(count, words); }' |
    gcc -O$of -x c -o sharer$of - -L. -lknown -Wl,-rpath,"$work"
done
mv sharer1 homing

boots() { [ "$(lab --topology "$1" -- cat /sys/devices/system/node/online 2>boot.err)" = "$2" ] || { cat boot.err; false; }; }
check "4x2 boots" boots 4x2 0-3
check "node numbers with a gap" boots sparse 0,2-3
lab --topology hmat -- sh -c 'cat /sys/devices/system/node/online; ls -d /sys/devices/system/node/node2/access0/initiators/node*' >hmat 2>err
check "a memory-only node whose latencies the firmware tells" \
  [ "$(tr '\n' ' ' <hmat)" = "0-2 /sys/devices/system/node/node2/access0/initiators/node0 " ]
printf '10 20 31\n20 10 20\n31 20 10\n' >line.txt
check "distances from a file" \
  [ "$(lab --distances line.txt --cpus 3 --mem 1536M -- cat /sys/devices/system/node/node0/distance 2>err)" = "10 20 31" ]
wrong() { # OPTIONS WORDS: it is refused at once, with these words
  # shellcheck disable=SC2086 # options are words
  timeout -k 5 60 "$homing" lab run $1 -- true 2>wrong.err
  [ $? -eq 2 ] && grep -q "$2" wrong.err || { cat wrong.err; return 1; }
}
echo "10 20" >half.txt
wrong_machines() {
  wrong "--distances half.txt" "half.txt: 1 rows of up to 2" && wrong "--distances line.txt --nodes 2" "line.txt: 3 rows of up to 3" &&
    wrong "--distances star" "expected full, ring, mesh or hypercube" && wrong "--topology star" "expected a TOML file or one of" &&
    wrong "--nodes 3 --distances hypercube" "power of two" && wrong "--nodes 4 --cpus 2" "one CPU for each"
}
check "wrong machines are refused" wrong_machines
mkdir cut
head -c 10000000 "${HOMING_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/homing/lab}/vmlinux" >cut/vmlinux
HOMING_LAB_CACHE=$work/cut timeout -k 5 60 "$homing" lab run -- true 2>cut.err
check "a kernel of which a part is missing is reported" [ "$? $(grep -c 'no whole kernel' cut.err)" = "3 1" ]
timeout -k 5 60 "$homing" lab run --observe absent/counts.json -- true 2>absent.err
check "counts that cannot be written are reported before the start" [ "$? $(grep -c 'cannot write absent/counts.json' absent.err)" = "1 1" ]

echo words >in.txt
printf '#!/usr/bin/env bash\ncat; cat in.txt >out.txt; echo more >&2; exit 7\n' >script && chmod +x script
lab --topology 2x2 -- ./script in.txt <in.txt >stdout 2>stderr
check "a script: status, streams, result files" [ "$? $(cat stdout out.txt stderr | tr '\n' ' ')" = "7 words words more " ]

lab --topology 2x2 -- sh -c 'head -c 4000000 /dev/zero >big; seq 1 100000; exit 5' 2>err | (sleep 20; md5sum >sum)
check "all output comes to a slow reader, and the end after it" \
  [ "${PIPESTATUS[0]} $(cat sum) $(stat -c %s big)" = "5 $(seq 1 100000 | md5sum) 4000000" ]

# CPUs 0 and 1 are of node 0, 2 and 3 of node 1. The program itself checks by move_pages where its pages are.
lab --topology 2x2 --balancing off --observe counts.json -- ./known 0:0:8000000:0 0:1:16000000:0 2:0:0:24000000 3:1:0:32000000 >out 2>err
check "counts of known accesses" python3 - <<'P'
import json
counts = json.load(open("counts.json"))
def near(kind, cpu, home, expected):
    found = counts[kind][cpu][home]
    assert abs(found - expected) <= 0.01 * expected, (kind, cpu, home, found, expected)
near("reads", 0, 0, 8e6); near("reads", 0, 1, 16e6); near("writes", 2, 0, 24e6); near("writes", 3, 1, 32e6)
assert counts["complete"] and abs(counts["nonlocal_percent"] - 50) < 0.5, counts["nonlocal_percent"]
summed = sum(sum(row) for part in counts["intervals"] for row in part["accesses"])
assert summed == sum(map(sum, counts["accesses"]))
P
lab --topology unequal --balancing off --marked --observe patterns.json -- ./patterns 8 2 0 >patterns.out 2>err
check "counts of strides, chases, vectors, atomics, strings, page crossings" python3 - <<'P'
import json
counts, cells = json.load(open("patterns.json")), [line.split() for line in open("patterns.out")]
assert len(cells) == 16, cells
for name, cpu, node, reads, writes in cells:
    for kind, expected in (("reads", int(reads)), ("writes", int(writes))):
        found = counts[kind][int(cpu)][int(node)]
        assert abs(found - expected) <= 0.01 * max(int(reads), int(writes)), (name, kind, found, expected)
P
# Shells and loaders make some 50 thousand accesses, on whatever CPU they run.
lab --topology 2x2 --balancing off --observe engine.json --cache 128K --pages -- \
  sh -c './known 2:0:10000000:0 & ./homing 0:1:10000000:0; wait; ./sharer2 3:0:10000000:0' >out 2>err
check "the engine is not counted, its neighbour and who shares its library are; misses" python3 - <<'P'
import json
counts = json.load(open("engine.json"))
assert all(abs(counts["reads"][cpu][0] - 1e7) < 1e5 for cpu in (2, 3)) and counts["reads"][0][1] < 1e5, counts["reads"]
assert all(abs(counts["misses"][cpu][0] - 1e7) < 1e5 for cpu in (2, 3)), counts["misses"]
assert counts["static_bound"]["4K"]["miss_percent"] < 5, counts["static_bound"]
P

# Half of the reads are of the shared table, half of them by each node: a quarter of all cannot be local. (It is never read again by the
# process that filled it, so there it counts once more.)
lab --topology 2x2 --balancing off --start-on 0 --observe shared.json --cache 128K --pages -- ./shared slow >out 2>shared.err
check "memory that processes share is bounded once; memory begins on a node until its initialisation ends" python3 - <<'P'
import json
counts = json.load(open("shared.json"))
bound = counts["static_bound"]["4K"]
assert 22 < bound["miss_percent"] < 28 and 1536 <= bound["pages"] < 2400, bound
# The table was filled by a CPU of node 1, after two seconds without growth.
to = [sum(row[home] for row in counts["misses"]) for home in (0, 1)]
assert to[1] < 0.6 * to[0], to
held = counts["start_on"]
assert held["bytes"] > 0 and "memory c" in open("shared.err").read(), held
P

lab --topology "$root/lab/tests/ratios.toml" --balancing off --delay=100 -- ./latency 0 0 1 2 3 4 >ratios 2>err
check "a pointer chase measures the delays' ratios" awk -v asked="1 1.33 2 3 6" '
  BEGIN { split(asked, want) }
  { print "        node " $1 ": " $2 " ns, ratio " $3 ", asked " want[NR]; wrong += $3 < 0.85 * want[NR] || $3 > 1.15 * want[NR] }
  END { exit NR != 5 || wrong }' ratios
# Four CPUs chase pointers through one memory, or each through its own; the formula of lab/plugin/load.c by the run's
# own totals.
for nodes in "0 0 0 0" "0 1 2 3"; do
  lab --topology 4x2 --balancing off --thp never --marked --delay=100 --busy 40 --observe load.json -- ./load 200000 $nodes >seconds 2>err
  check "waits at loaded memories are as their model says: $nodes" python3 - $nodes <<'P'
import json, sys
counts, nodes = json.load(open("load.json")), [int(node) for node in sys.argv[1:]]
elapsed_ns = float(open("seconds").read()) * 1e9 / 100
for home in set(nodes):
    used = 40 * sum(row[home] for row in counts["accesses"]) / elapsed_ns
    others = used * (1 - 1 / nodes.count(home))
    expected, wait = 40 * others / (2 * (1 - used)), counts["mean_wait_ns"][home]
    print(f"        memory {home}: used for {used:.2f} of the time, waits of {wait:.1f} ns, expected {expected:.1f}")
    assert abs(wait - expected) < 2 + 0.25 * expected
P
done
check "a memory that is busy for longer than an access takes is refused" \
  sh -c "'$homing' lab run --topology 4x2 --delay --busy 500 -- true 2>&1 | grep -q 'busy with an access for longer'"
lab --topology 2x2 --card --balancing off -- ./card >card.out 2>err
check "the card against pagemap" [ $? -eq 0 ]
grep WRONG card.out

# The program is `homing` itself here, whose own accesses never count.
lab --topology 2x2 --card --cache 128K --balancing off --file hotlines -- "$homing" refine --top 8 --step 2s --json -- ./hotlines 20 \
  >refined.json 2>err || cat err
check "refinement with the card finds the hottest lines of a program that runs" python3 - <<'P'
import json
found = json.load(open("refined.json"))
assert len(found["lines"]) == 8 and all(line["data"].startswith("hot ") for line in found["lines"]), found["lines"]
starts = sorted(line["address"] for line in found["lines"])
assert [b - a for a, b in zip(starts, starts[1:])] == [1024] * 7, starts
assert 2 <= len(found["runs"]) <= 4 and found["runs"][0]["granularity"] == 2 << 20, found["runs"]
assert not found["exact"] and found["open"]["granules"] == 0, found
P
lab --topology 2x2 --card --cache 128K --balancing off --delay --file known -- \
  "$homing" try --ways none --rounds 13 --against './known 2:1:400000:0' --json -- ./known 2:0:400000:0 >tried.json 2>err || cat err
check "the card's counts stand beside the times of homing try" python3 - <<'P'
import json
tried = json.load(open("tried.json"))
here, near = (way["transactions"] for way in tried["ways"])
runs = min(way["times"]["runs"] for way in tried["ways"])
# Loaders and C libraries have some thousand misses a run.
assert here["remote"] > 0.99 * runs * 4e5 and here["nonlocal_percent"] > 80, here
assert near["local"] > 0.99 * runs * 4e5 and near["nonlocal_percent"] < 20, near
assert tried["faster"] == ["against"], tried["answer"]
P

hint_faults() { # LEVEL: the kernel's hint faults while four threads use memory for some seconds
  lab --topology 2x2 --balancing "$1" --start-on 0 --observe hints.json -- "$root/build/workloads/stream" -t 4 -n 65536 -i 60 >out 2>err &&
    python3 -c 'import json; print(json.load(open("hints.json"))["kernel"]["numa_hint_faults"])'
}
check "no hint fault without balancing" [ "$(hint_faults off)" = 0 ]
check "hint faults with balancing" [ "$(hint_faults fast)" -gt 50 ]

check "the simulator agrees with the observer" "$root/tests/lab_agree.sh" cg:first-touch mg:round-robin is:single-node

"$homing" lab baseline --topology 2x2 --contenders single-node,fast --start-on 0 --thp never --json --env OMP_PROC_BIND=true -- \
  "$root/build/workloads/stream" -t 4 -n 65536 -i 160 >baseline.json 2>err || cat err
check "baselines: balancing is better than a single node" python3 - <<'P'
import json
single, fast = (row["median"] for row in json.load(open("baseline.json"))["rows"])
# Half of the threads are at the node with all the memory.
assert 45 < single["nonlocal_percent"] < 55 and single["moved_pages"] < 50, single
assert fast["tail_percent"] < 25 and fast["moved_pages"] > 100 and fast["hint_faults"] > 100, fast
assert fast["modelled_ms"] < single["modelled_ms"] and single["bound_4k_percent"] < 5, (single, fast)
P

cat >prompt.py <<'P'
import os, pty, sys
child, terminal = pty.fork()
if child == 0: os.execv(sys.argv[1], [sys.argv[1], "lab", "shell", "--topology", "2x2"])
said, asked = b"", False
while True:
    try: piece = os.read(terminal, 4096)
    except OSError: break
    if not piece: break
    said += piece
    if not asked and (b"# " in said or b"$ " in said):
        os.write(terminal, b"cat /sys/devices/system/node/online; exit 3\n")
        asked = True
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 3 and b"0-1" in said, (status, said)
P
check "a prompt" timeout -k 5 240 python3 prompt.py "$homing"

lab --topology 2x2 -- sh -c 'sleep 3; echo one' >one 2>err & first=$!
lab --topology cxl -- sh -c 'sleep 3; echo two' >two 2>err2
check "two labs side by side" [ "$? $(cat two)" = "0 two" ]
wait $first
check "... the other one" [ "$? $(cat one)" = "0 one" ]
"$homing" lab run --topology 2x2 -- sh -c 'trap "echo caught; exit 9" TERM; echo up; while :; do sleep 0.1; done' >caught 2>err & told=$!
for _ in $(seq 600); do grep -q up caught && break; sleep 0.1; done
kill -TERM $told
wait $told
check "a signal is the command's" [ "$? $(tail -n 1 caught)" = "9 caught" ]

kill_9() { # HOW_FAR: ends a lab by kill -9 once its QEMU runs, or once the command does; QEMU must go, too
  : >up
  "$homing" lab run --topology 2x2 --trace killed.trace -- sh -c 'echo up; sleep 60' >up 2>killed.err &
  local lab=$! qemu=
  for _ in $(seq 1200); do
    qemu=$(pgrep -P $lab -x qemu-system-x86) && { [ "$1" = starting ] || grep -q up up; } && break
    sleep 0.1
  done
  kill -9 $lab
  wait $lab 2>/dev/null
  for _ in $(seq 100); do # it may be a zombie until the init process looks
    [ -e "/proc/${qemu:-none}" ] || break
    sleep 0.1
  done
  [ -n "$qemu" ] && [ ! -e "/proc/$qemu" ]
}
check "kill -9 of a lab that starts leaves no process" kill_9 starting
rm -f .killed.trace.*
check "kill -9 of a lab that runs leaves no process" kill_9 running
cat >ctrl_c.py <<'P'
# Ctrl-C at a terminal, as soon as the lab has said a word: it must end with 130 and leave no process.
import os, pty, signal, subprocess, sys, time
word, *command = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it may be ignored here
    os.execv(command[0], command)
def machines(): return subprocess.run(["pgrep", "-P", str(child)], capture_output=True, text=True).stdout.split()
said, started = b"", []
while True:
    try: piece = os.read(terminal, 4096)
    except OSError: break
    if not piece: break
    said += piece
    if not started and word.encode() in said:
        while not (started := machines()): time.sleep(0.05)
        os.write(terminal, b"\x03")
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
left = [machine for machine in started if os.path.exists("/proc/" + machine)]
assert started and status == 130 and not left, (status, said, left)
P
check "Ctrl-C ends the command" timeout -k 5 240 python3 ctrl_c.py up "$homing" lab run --topology 2x2 -- sh -c 'echo up; sleep 60'
check "what kill -9 left of a trace is told; Ctrl-C ends a machine that boots" timeout -k 5 240 \
  python3 ctrl_c.py "trace recover killed.trace.part" "$homing" lab run --topology 2x2 --trace killed.trace -- sleep 60
# A QEMU that ends at once when it is started for the first time.
mkdir once
printf '#!/bin/sh\ncase $1 in --version) ;; *) [ -e %s ] || { : >%s; exit 134; } ;; esac\nexec %s "$@"\n' \
  "$work/once/seen" "$work/once/seen" "$(command -v qemu-system-x86_64)" >once/qemu-system-x86_64
chmod +x once/qemu-system-x86_64
check "a machine that does not boot is started again" \
  [ "$(PATH=$work/once:$PATH lab --topology 2x2 -- echo up 2>once/err)$(grep -c 'starting it again' once/err)" = up1 ]
lab --topology 2x2 --timeout 1s -- sleep 60 2>timed.err
check "a time-out ends the machine" [ $? -eq 124 ]

echo "lab: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
