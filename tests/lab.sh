#!/usr/bin/env bash
# The lab with the built program, in twelve machines, two of which are ended while they boot: topologies boot, streams and files and
# statuses pass through, jobs of a batch do not notice each other, the observer's counts of a program with known accesses are exact to
# 1 %, the engine is not counted, delays take their time, the card says what is true, a killed lab leaves nothing.
# What is measured, not exact, is in benches/lab.sh.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d) || exit 1
failed=0 passed=0
trap 'rm -rf "$work"' EXIT
cd "$work"

check() { # NAME COMMAND...: the command must succeed
  local name=$1; shift
  if "$@"; then passed=$((passed + 1)); echo "ok      $name"; else failed=$((failed + 1)); echo "FAILED  $name"; false; fi
}
lab() { timeout -k 5 240 "$homing" lab run "$@"; }

. "$root/tests/in_lab.sh"
needs_lab 'the test of the lab'
for program in known patterns card shared hotlines; do gcc -O2 -Wall -o $program "$root/lab/tests/$program.c" -pthread; done
# The engine is known by this name, and in the guest by the bytes at its entry point, so it must be another program than its user.
# Both make their accesses in a library that they share.
gcc -O2 -Wall -shared -fPIC -Dmain=known -o libknown.so "$root/lab/tests/known.c" -pthread
for of in 1 2; do
  echo 'int known(int, char **); int main(int count, char **words) { return known(count, words); }' |
    gcc -O$of -x c -o sharer$of - -L. -lknown -Wl,-rpath,"$work"
done
mv sharer1 homing

# Jobs of one machine, whose nodes have a gap in their numbers. Its QEMU ends at once when it is started for the first time.
mkdir once cut
printf '#!/bin/sh\ncase $1 in --version) ;; *) [ -e %s ] || { : >%s; exit 134; } ;; esac\nexec %s "$@"\n' \
  "$work/once/seen" "$work/once/seen" "$(command -v qemu-system-x86_64)" >once/qemu-system-x86_64
chmod +x once/qemu-system-x86_64
echo taken >in.txt
state='cat /proc/sys/kernel/numa_balancing /sys/kernel/mm/transparent_hugepage/enabled /sys/fs/cgroup/cgroup.subtree_control
  find /sys/fs/cgroup -mindepth 1 -type d; cat /proc/mounts; ls /run /dev/shm /var/tmp; ps | grep -c "[s]leep 1000"; true'
lab_job first 60 --output first.state -- sh -c "cat /sys/devices/system/node/online; $state"
lab_job leaves 60 --output leaves.out --errors leaves.err -- sh -c 'echo 0 >/proc/sys/kernel/numa_balancing
  echo never >/sys/kernel/mm/transparent_hugepage/enabled; mkdir -p /sys/fs/cgroup/a/b made; echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
  mount -t ramfs none made; touch /run/left /dev/shm/left /var/tmp/left; setsid sleep 1000 & echo out; echo err >&2; echo made >result.txt; exit 3'
lab_job hangs 2 --output hangs.out -- sh -c 'trap "" TERM INT HUP; echo before; echo kept >kept.txt; while :; do sleep 1000; done'
lab_job after 60 --output after.state -- sh -c "cat /sys/devices/system/node/online; $state"
lab_job own 60 --directory own --file in.txt --env WORD=word --output out -- sh -c 'pwd; echo $WORD; cat in.txt; cat; echo made >made.txt'
mkdir own && mv in.txt own/
PATH=$work/once:$PATH lab_jobs --topology sparse 2>batch.err
check "a batch in which jobs failed ends with 1" [ $? -eq 1 ]
statuses="$(lab_status first) $(lab_status leaves) $(lab_status hangs) $(lab_status after) $(lab_status own)"
check "a machine that does not boot is started again" grep -q 'starting it again' batch.err
check "jobs have their own statuses, and one that hangs costs its own limit only" [ "$statuses" = "0 3 124 0 0" ] || cat batch.err
check "node numbers with a gap" [ "$(head -n 1 first.state)" = 0,2-3 ]
check "jobs have their own streams" [ "$(cat leaves.out leaves.err hangs.out | tr '\n' ' ')" = "out err before " ]
check "jobs have their own result files" [ "$(cat result.txt kept.txt own/made.txt | tr '\n' ' ')" = "made kept made " ]
check "a job finds the machine as the first one did" diff first.state after.state
check "a job in a directory of its own" [ "$(tr '\n' ' ' <own/out)" = "$work/own word taken " ]
printf '[[job]]\nname = "a"\ncommand = ["true"]\ncolour = 1\n' >wrong.toml
timeout -k 5 60 "$homing" lab batch wrong.toml 2>wrong.err
check "a wrong file of jobs is refused at once" [ "$? $(grep -c 'wrong.toml: .*line 4' wrong.err) $(grep -c 'unknown field `colour`' wrong.err)" = "2 1 1" ]
wrong() { # OPTIONS WORDS: it is refused at once, with these words
  # shellcheck disable=SC2086 # options are words
  timeout -k 5 60 "$homing" lab run $1 -- true 2>wrong.err
  [ $? -eq 2 ] && grep -q "$2" wrong.err || { cat wrong.err; return 1; }
}
printf '10 20 31\n20 10 20\n31 20 10\n' >line.txt
echo "10 20" >half.txt
wrong_machines() {
  wrong "--distances half.txt" "half.txt: 1 rows of up to 2" && wrong "--distances line.txt --nodes 2" "line.txt: 3 rows of up to 3" &&
    wrong "--distances star" "expected full, ring, mesh or hypercube" && wrong "--topology star" "expected a TOML file or one of" &&
    wrong "--nodes 3 --distances hypercube" "power of two" && wrong "--nodes 4 --cpus 2" "one CPU for each"
}
check "wrong machines are refused" wrong_machines
head -c 10000000 "${HOMING_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/homing/lab}/vmlinux" >cut/vmlinux
HOMING_LAB_CACHE=$work/cut timeout -k 5 60 "$homing" lab run -- true 2>cut.err
check "a kernel of which a part is missing is reported" [ "$? $(grep -c 'no whole kernel' cut.err)" = "3 1" ]
HOMING_LAB_CACHE=$work/cut timeout -k 5 60 "$homing" lab setup --check 2>cut.err
check "... and without a start" [ "$? $(grep -c 'no whole kernel' cut.err)" = "3 1" ]
timeout -k 5 60 "$homing" lab run --observe absent/counts.json -- true 2>absent.err
check "counts that cannot be written are reported before the start" [ "$? $(grep -c 'cannot write absent/counts.json' absent.err)" = "1 1" ]

# Two labs side by side: one whose firmware tells the latencies of a memory-only node, one with distances from a file.
echo words >in.txt
printf '#!/usr/bin/env bash\ncat; cat in.txt >out.txt; echo more >&2; cd /sys/devices/system/node; cat online; ls -d node2/access0/initiators/node*\nexit 7\n' >script
chmod +x script
lab --topology hmat -- ./script in.txt <in.txt >stdout 2>stderr & first=$!
lab --distances line.txt --cpus 3 --mem 1536M -- \
  sh -c 'cat /sys/devices/system/node/node0/distance; echo begun >&2; head -c 4000000 /dev/zero >big; seq 1 100000; exit 5' 2>err |
  (for _ in $(seq 2000); do grep -q begun err && break; sleep 0.1; done; sleep 3; read -r distances; echo "$distances" >distances; md5sum >sum)
check "all output comes to a slow reader, and the end after it" \
  [ "${PIPESTATUS[0]} $(cat sum) $(stat -c %s big)" = "5 $(seq 1 100000 | md5sum) 4000000" ]
check "distances from a file" [ "$(cat distances)" = "10 20 31" ]
wait $first
check "a script: status, streams, result files, in two labs side by side" [ "$? $(cat out.txt stderr | tr '\n' ' ')$(head -n 1 stdout)" = "7 words more words" ]
check "a memory-only node whose latencies the firmware tells" [ "$(tail -n +2 stdout | tr '\n' ' ')" = "0-2 node2/access0/initiators/node0 " ]

# CPUs 0 to 2 are of node 0, 4 and 5 of node 2. The program itself checks by move_pages where its pages are. A job that is ended in its
# section, and one that is not observed, are in nobody's counts but their own.
lab_job known 120 --observe counts.json --output known.out -- ./known 0:0:8000000:0 0:2:16000000:0 4:0:0:24000000 5:2:0:32000000
lab_job killed 2 --observe killed.json -- ./known 1:3:100000000000:0
lab_job unseen 120 -- ./known 0:3:4000000:0
lab_job patterns 120 --observe patterns.json --output patterns.out -- ./patterns 8 2 0
lab_jobs --topology unequal --balancing off --marked 2>err
statuses="$(lab_status known) $(lab_status killed) $(lab_status unseen) $(lab_status patterns)"
check "observed jobs" [ "$statuses" = "0 124 0 0" ] || cat err
check "counts of known accesses" python3 - <<'P'
import json
counts = json.load(open("counts.json"))
def near(kind, cpu, home, expected):
    found = counts[kind][cpu][home]
    assert abs(found - expected) <= 0.01 * expected, (kind, cpu, home, found, expected)
near("reads", 0, 0, 8e6); near("reads", 0, 2, 16e6); near("writes", 4, 0, 24e6); near("writes", 5, 2, 32e6)
assert counts["complete"] and abs(counts["nonlocal_percent"] - 50) < 0.5, counts["nonlocal_percent"]
summed = sum(sum(row) for part in counts["intervals"] for row in part["accesses"])
assert summed == sum(map(sum, counts["accesses"]))
P
check "each job has its own window" python3 - <<'P'
import json
known, killed, patterns = (json.load(open(name)) for name in ("counts.json", "killed.json", "patterns.json"))
assert killed["reads"][1][3] > 0.99 * sum(map(sum, killed["accesses"])) > 0, killed["accesses"]
# Node 3 is used by the killed job and the unseen one. The stacks of the others may be there, too.
others = sum(row[3] for counts in (known, patterns) for row in counts["accesses"])
assert others < 1e-3 * killed["reads"][1][3], (others, killed["reads"])
assert known["intervals"][-1]["ms"] <= killed["intervals"][0]["ms"] and killed["intervals"][-1]["ms"] <= patterns["intervals"][0]["ms"]
P
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
# Memory begins on a node for two of the jobs. The program of the last is `homing` itself, whose own accesses never count.
lab_job engine 240 --observe engine.json --file known --file homing --file sharer2 -- \
  sh -c './known 2:0:10000000:0 & ./homing 0:1:10000000:0; wait; ./sharer2 3:0:10000000:0'
lab_job shared 240 --start-on 0 --observe shared.json -- ./shared slow
lab_job still 240 --start-on 0 --observe hints.json -- "$root/build/workloads/stream" -t 4 -n 65536 -i 20
lab_job refine 240 --output refined.json --errors refine.err --file hotlines -- "$homing" refine --top 8 --step 2s --json -- ./hotlines 20
lab_jobs --topology 2x2 --card --cache 128K --pages --balancing off >out 2>shared.err
statuses="$(lab_status engine) $(lab_status shared) $(lab_status still) $(lab_status refine)"
check "jobs with a cache, pages and the card" [ "$statuses" = "0 0 0 0" ] || cat shared.err refine.err
check "the engine is not counted, its neighbour and who shares its library are; misses" python3 - <<'P'
import json
counts = json.load(open("engine.json"))
assert all(abs(counts["reads"][cpu][0] - 1e7) < 1e5 for cpu in (2, 3)) and counts["reads"][0][1] < 1e5, counts["reads"]
assert all(abs(counts["misses"][cpu][0] - 1e7) < 1e5 for cpu in (2, 3)), counts["misses"]
assert counts["static_bound"]["4K"]["miss_percent"] < 5, counts["static_bound"]
P

# Half of the reads are of the shared table, half of them by each node: a quarter of all cannot be local. (It is never read again by the
# process that filled it, so there it counts once more.)
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

check "a memory that is busy for longer than an access takes is refused" \
  sh -c "'$homing' lab run --topology 4x2 --delay --busy 500 -- true 2>&1 | grep -q 'busy with an access for longer'"
lab --topology 2x2 --card --balancing off -- ./card >card.out 2>err
check "the card against pagemap" [ $? -eq 0 ]
grep WRONG card.out

check "refinement with the card finds the hottest lines of a program that runs" python3 - <<'P'
import json
found = json.load(open("refined.json"))
assert len(found["lines"]) == 8 and all(line["data"].startswith("hot ") for line in found["lines"]), found["lines"]
starts = sorted(line["address"] for line in found["lines"])
assert [b - a for a, b in zip(starts, starts[1:])] == [1024] * 7, starts
assert 2 <= len(found["runs"]) <= 4 and found["runs"][0]["granularity"] == 2 << 20, found["runs"]
assert not found["exact"] and found["open"]["granules"] == 0, found
P
check "no hint fault without balancing" [ "$(python3 -c 'import json; print(json.load(open("hints.json"))["kernel"]["numa_hint_faults"])')" = 0 ]

"$homing" lab baseline --topology 2x2 --contenders single-node --start-on 0 --thp never --delay=20 --json --env OMP_PROC_BIND=true -- \
  "$root/build/workloads/stream" -t 4 -n 65536 -i 20 >baseline.json 2>err || cat err
check "baselines: on a single node half of the accesses are remote, and delays take their time" python3 - <<'P'
import json
single, = (row["median"] for row in json.load(open("baseline.json"))["rows"])
# Half of the threads are at the node with all the memory.
assert 45 < single["nonlocal_percent"] < 55 and single["moved_pages"] < 50, single
assert single["bound_4k_percent"] < 5, single
# Four CPUs; 80 ns at least for each miss, 20 times. The first and the last interval of 100 ms may be cut.
assert single["counted_seconds"] > single["misses"] / 4 * 80e-9 * 20 - 0.2, single
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
# Ctrl-C at a terminal, as soon as the lab has said a word: it must end with a status and leave no process.
import os, pty, signal, subprocess, sys, time
expected, word, *command = sys.argv[1:]
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
assert started and status == int(expected) and not left, (status, said, left)
P
# The first signal is for the job that runs; later jobs are not run.
lab_job traps 100 --output caught -- sh -c 'trap "echo caught; exit 9" INT; echo up >&2; while :; do sleep 0.1; done'
lab_job later 100 -- true
check "Ctrl-C is for the job that runs, and the last" timeout -k 5 240 \
  python3 ctrl_c.py 1 up "$homing" lab batch --topology 2x2 --summary lab-jobs.json lab-jobs.toml
check "... which handles it" [ "$(lab_status traps) $(cat caught) $(lab_status later)" = "9 caught " ]
check "what kill -9 left of a trace is told; Ctrl-C ends a machine that boots" timeout -k 5 240 \
  python3 ctrl_c.py 130 "trace recover killed.trace.part" "$homing" lab run --topology 2x2 --trace killed.trace -- sleep 60
echo "lab: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
