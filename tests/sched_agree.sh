#!/usr/bin/env bash
# Does the simulation of jobs say what real ones do? Six jobs of three programs run in the lab (4 nodes of 2 CPUs) under a CPU manager,
# each miss delayed by its modelled latency; the same jobs are simulated from traces of the programs on a model of that machine. Both are
# printed side by side: in which order jobs end, and what each job's CPU time is in parts of all. Fails where the order of ends differs
# between jobs that are more than a tenth apart, or a part by more than TOLERANCE per cent (15).
#   tests/sched_agree.sh [MANAGER...]      default: equipartition
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "sched-agree: FAILED: $*"; exit 1; }
[ $# -gt 0 ] || set -- equipartition
# Latencies are this many times a real machine's, so that the emulator's own time, and what other work takes of it, count
# little beside them.
scale=${SCALE:-400}
mkdir -p lib/runtime && strip --strip-debug -o lib/runtime/libhoming.so "$library" && make -s -C "$root/preload" OUT="$work/lib/preload" || exit 1
strip --strip-debug -o homing "$homing" && gcc -O2 -fopenmp -o sweep "$root/tests/sched/sweep.c" &&
  gcc -O2 -fopenmp -DMARKS -I"$root/include" -o marked "$root/tests/sched/sweep.c" || exit 1

# Programs: pages, per cent of serial work. Jobs: program, processors, iterations, arrival in seconds.
programs='scales:64:0 medium:48:30 flat:32:80'
jobs='scales:8:100:0 medium:8:50:0 flat:4:40:2 scales:4:40:4 medium:8:60:6 flat:8:30:8'
iterations=5

# The caches are the observer's. Only misses take time; what a reference takes of the emulator is measured below.
machine() {
  cat <<E
name = "lab"
summary = "the lab's machine with latencies times $scale"
nodes = 4
cpus_per_node = 2
page_size = "4K"
[latency]
local = $((80 * scale)).0
remote = $((80 * 21 * scale / 10)).0
page_move = { per_byte = 0.0, overhead = $((1000 * scale)).0 } # no page moves here
[hierarchy]
l1 = { size = "16K", ways = 8, line = 64, ns = 0.001 }
l2 = { size = "32K", ways = 8, line = 64, ns = 0.001 }
[time]
compute_ns = 1.0
exposed = 1.0
memory_busy_ns = 0
link_busy_ns = 0.0
tlb_miss_ns = 0.0
shootdown_ns = 0.0
E
}

in_lab() { # RESULT COMMAND...
  local result=$1; shift
  for attempt in 1 2; do
    timeout -k 5 300 "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --timeout 240s --observe counts.json --cache 32K \
      --delay="$scale" --env OMP_WAIT_POLICY=passive --file homing --file lib --file sweep --file jobs.toml --result "$result" -- "$@" \
      >run.out 2>run.err && return 0
  done
  cat run.out run.err >&2
  return 1
}

job() { # NAME PROGRAM REQUEST ITERATIONS ARRIVAL
  local pages serial
  IFS=: read -r _ pages serial <<<"$(printf '%s\n' $programs | grep "^$2:")"
  printf '[[job]]\nname = "%s"\nrequest = %s\narrival = %s.0\ncommand = ["./sweep", "%s", "%s", "%s"]\n' "$1" "$3" "$5" "$pages" "$4" "$serial"
}

why=$("$homing" lab setup --check 2>&1)
[ $? -ne 3 ] || { echo "SKIPPED: the lab needs what is missing here: $why"; exit 0; }

machine >machine.toml

# Applications from traces on 1, 2, 4 and 8 threads.
for program in $programs; do
  IFS=: read -r name pages serial <<<"$program"
  for threads in 1 2 4 8; do
    OMP_NUM_THREADS=$threads "$homing" record --quiet -o "$name-$threads.trace" ./marked "$pages" 5 "$serial" >/dev/null 2>record.err ||
      { cat record.err; fail "recording $name"; }
  done
  "$homing" sched model "$name"-{1,2,4,8}.trace -m machine.toml --name "$name" >"$name.toml" || fail "modelling $name"
done

# One thread on its own memory: 20 iterations more take the delays of their misses, and beyond them the emulator's time.
{ job short scales 1 5 0; job long scales 1 25 0; } >jobs.toml
in_lab result.json sh -c 'HOMING_LIB=$PWD/lib exec ./homing sched run jobs.toml --manager batch --pages off --json >result.json' || exit 1
cp result.json alone.json

# Each job is an application of its own, with the iterations and the processors that it has, and its length in the log is that of these.
number=0
for one in $jobs; do
  IFS=: read -r name request count at <<<"$one"
  number=$((number + 1))
  job "$name-$number" "$name" "$request" "$count" "$at"
  echo "$number $name $request $count $at" >>jobs.txt
done >jobs.toml
python3 - "$scale" <<'P' || fail 'the log'
import json, re, sys
local_s = 80e-9 * float(sys.argv[1])

def table(text, key):
    pairs = re.search(rf"^{key} = (\[\n.*?^\]|\[\[.*?\]\])", text, re.M | re.S).group(1)
    return {float(p): float(n) for p, n in re.findall(r"\[\s*([0-9.]+),\s*([0-9.e-]+),?\s*\]", pairs)}

def app(name):
    text = open(name + ".toml").read().split("[[mix]]")[0]
    misses = table(text, "misses")
    return text, misses, lambda key: float(re.search(rf"^{key} = (.*)$", text, re.M).group(1))

cpu = {job["name"]: job["cpu_s"] for job in json.load(open("alone.json"))["jobs"]}
_, misses, value = app("scales")
each, delays = (cpu["long"] - cpu["short"]) / 20, misses[1] * local_s
slower = max(1e-3 * delays, each - delays) / (1e-3 * value("compute_ms"))
print(f"an iteration of `scales` on one thread takes {1e3 * each:.0f} ms, of which misses are delayed by {1e3 * delays:.0f}; "
      f"the emulator takes {slower:.0f} ns for a reference")
out, log = open("apps.toml", "w"), open("log.swf", "w")
for line in open("jobs.txt"):
    number, name, request, count, at = line.split()
    text, misses, value = app(name)
    p, compute_ms = float(request), slower * value("compute_ms")
    alone = 1e-3 * compute_ms * (value("serial") + (1 - value("serial")) / p)
    serial = table(text, "serial_misses")[p]
    alone += misses[p] * (serial + (1 - serial) / p) * local_s
    for key, to in (("name", f'"{name}-{number}"'), ("request", request), ("iterations", count + ".0"), ("compute_ms", compute_ms)):
        text = re.sub(rf"^{key} = .*$", f"{key} = {to}", text, flags=re.M)
    out.write(text)
    # Standard Workload Format: 1 number, 2 submitted, 4 run time, 5 and 8 processors, 11 status, 14 executable.
    log.write(f"{number} {at} -1 {alone * float(count):.6f} {request} -1 -1 {request} -1 -1 1 -1 -1 {number} -1 -1 -1 -1\n")
P
like=$(awk '{ printf "%s%d=%s-%d", (NR > 1 ? "," : ""), $1, $2, $1 }' jobs.txt)

for manager; do
  in_lab result.json sh -c 'HOMING_LIB=$PWD/lib exec ./homing sched run jobs.toml --manager '"$manager"' --pages off --json >result.json' || exit 1
  "$homing" sched simulate log.swf --apps apps.toml --like "$like" -m machine.toml --managers "$manager" --policies none --json \
    >simulated.json || fail 'the simulation'
  [ -z "${OUT:-}" ] || { mkdir -p "$OUT" && cp result.json "$OUT/$manager.json" && cp counts.json "$OUT/$manager.counts" && cp simulated.json "$OUT/$manager.simulated" && cp apps.toml log.swf machine.toml "$OUT/"; }
  python3 - "$manager" "${TOLERANCE:-15}" <<'P' || failed=1
import json, sys
manager, tolerance = sys.argv[1], float(sys.argv[2])
run, seen, modelled = (json.load(open(name)) for name in ("result.json", "counts.json", "simulated.json"))
modelled = modelled["runs"][0]
said = {app["app"]: app for app in modelled["apps"]}
# A job's CPU time is that of the processors that it had, as in the paper: also while its threads wait for each other.
rows = []
for job in run["jobs"]:
    app, name = said[job["name"]], job["name"]
    had = job["processors"] * (job["ended_s"] - job["began_s"])
    rows.append((name, had, app["cpu_s"], job["ended_s"], app["turnaround_s"] + job["arrived_s"], job["cpu_s"]))
all_run, all_said = sum(row[1] for row in rows), sum(row[2] for row in rows)
print(f"\n{manager}: non-local % of misses {seen['nonlocal_miss_percent']:.1f} counted, {modelled['nonlocal_percent']:.1f} simulated; "
      f"CPU s {all_run:.1f} run ({sum(row[5] for row in rows):.1f} by the kernel), {all_said:.1f} simulated")
print("| job | CPU s, run | simulated | % of all, run | simulated | they differ by | ended at s, run | simulated |\n|---|---|---|---|---|---|---|---|")
worst = 0
for name, cpu, cpu_said, end, end_said, _ in rows:
    part, part_said = 100 * cpu / all_run, 100 * cpu_said / all_said
    differ = 100 * (part_said / part - 1)
    worst = max(worst, abs(differ))
    print(f"| {name} | {cpu:.1f} | {cpu_said:.1f} | {part:.1f} | {part_said:.1f} | {differ:+.1f} % | {end:.1f} | {end_said:.1f} |")
swapped = [(a, b) for a in rows for b in rows if a[3] < b[3] and a[4] > b[4]]
far = lambda a, b: abs(a - b) > 0.1 * max(a, b)
apart = [(a, b) for a, b in swapped if far(a[3], b[3]) and far(a[4], b[4])]
order = "ends in the same order" if not swapped else "ends in another order: " + ", ".join(f"{a[0]} before {b[0]} in the run" for a, b in swapped)
print(f"largest difference of a part {worst:.1f} %; {order}")
sys.exit(bool(apart) or worst > tolerance)
P
done
[ -z "${failed:-}" ] && echo 'sched-agree: passed' || fail "more than ${TOLERANCE:-15} %, or in another order"
