#!/usr/bin/env bash
# A queue of 12 jobs in the lab (4 nodes of 2 CPUs): three CPU managers, pages moved by nobody, by the kernel, by the live engine.
# Each miss is delayed by its latency times DELAY (20 unless it is set). Prints a table of docs/scheduling.md: medians of RUNS
# (3) runs, and the least turnaround, to which a busy host only adds. Each run is kept in OUT (build/sched-lab unless it is
# set), so that a second call goes on where the first ended. An emulated kernel that hangs is switched off after 400 s, and
# the run is made once more.
#   tests/sched_lab.sh [MANAGER...]
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
out=${OUT:-$PWD/build/sched-lab}
mkdir -p "$out" && work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lib/runtime && strip --strip-debug -o lib/runtime/libhoming.so "$library" && make -s -C "$root/preload" OUT="$work/lib/preload" || exit 1
strip --strip-debug -o homing "$homing" && gcc -O2 -fopenmp -o sweep "$root/tests/sched/sweep.c" || exit 1
printf '%s\n' 'HOMING_LIB=$PWD/lib exec ./homing sched run jobs.toml --manager $1 --pages $2 --json >result.json' >run.sh

# Four jobs that scale, four of which a fifth is serial, four of which three fifths are; every other second one of each.
for i in 0 1 2 3; do
  for kind in "scales 8 0" "medium 8 20" "flat 4 60"; do
    set -- $kind "$@"
    printf '[[job]]\nname = "%s-%s"\nrequest = %s\narrival = %s\ncommand = ["./sweep", "128", "%s", "%s"]\n' \
      "$1" "$i" "$2" "$((i * 2)).0" "${ITERATIONS:-80}" "$3"
    shift 3
  done
done >jobs.toml
[ $# -gt 0 ] || set -- irix equipartition homing

run() { # MANAGER PAGES NUMBER
  local name=$1-$2-$3
  [ ! -s "$out/$name.json" ] || return 0
  for attempt in 1 2; do
    timeout -k 5 460 "$homing" lab run --nodes 4 --cpus 8 --balancing fast --thp never --timeout 400s --observe counts.json --cache 128K \
      --delay="${DELAY:-20}" --env OMP_WAIT_POLICY=passive --file homing --file lib --file sweep --file jobs.toml \
      --result result.json -- sh ./run.sh "$1" "$2" >run.out 2>run.err &&
      cp counts.json "$out/$name.counts" && cp result.json "$out/$name.json" && return 0
    echo "sched-lab: $name failed: $(tail -3 run.err)" >&2
  done
  return 1
}
for number in $(seq "${RUNS:-3}"); do
  for manager; do for pages in off kernel homing; do run "$manager" "$pages" "$number"; done; done
done

python3 - "$out" "$@" <<'P'
import glob, json, os, statistics, sys
out, managers = sys.argv[1], sys.argv[2:]

def figures(name):
    run, seen = json.load(open(name)), json.load(open(name[:-5] + ".counts"))
    moved = seen.get("kernel", {}).get("pgmigrate_success", seen.get("kernel", {}).get("pages_moved", 0))
    engine = (run.get("engine") or {}).get("engine_cpu_seconds", 0)
    return [run["cpu_s"], engine, run["turnaround_s"], seen["nonlocal_miss_percent"], run["process_migrations"],
            1e3 * (run["burst_s"] or 0), moved, sum(job["status"] != 0 for job in run["jobs"])]

print("| manager | pages | jobs' CPU s | engine's CPU s | least turnaround s | non-local % of misses | process migrations "
      "| burst ms | pages moved | jobs that failed |")
print("|---|---|---|---|---|---|---|---|---|---|")
for manager in managers:
    for pages in ("off", "kernel", "homing"):
        runs = [figures(name) for name in sorted(glob.glob(os.path.join(out, f"{manager}-{pages}-*.json")))]
        if not runs:
            print(f"| {manager} | {pages} | missing |")
            continue
        cpu, engine, _, nonlocal_, migrations, burst, moved, failed = map(statistics.median, zip(*runs))
        print(f"| {manager} | {pages} | {cpu:.0f} | {engine:.1f} | {min(run[2] for run in runs):.1f} "
              f"| {nonlocal_:.1f} | {migrations:.0f} | {burst:.0f} | {moved:.0f} | {failed:.0f} |")
P
